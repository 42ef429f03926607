//! Budgets and the capacity: a change that does not fit is refused.

use ikigai_assets::{
    Author, Budget, Capacity, ChangeCause, Error, Precondition, Store, StoreOptions,
};
use ikigai_protocol::ToolCode;

use crate::{Fixture, agent, ann, path, text};

async fn write(store: &Store, name: &str, tokens: usize) -> Result<(), Error> {
    store.write(&path(name), &text(tokens), &ann(), Precondition::Any).await.map(|_| ())
}

async fn pin(store: &Store, who: &str, name: &str) -> Result<(), Error> {
    store.pin(&agent(who), &path(name)).await.map(|_| ())
}

fn refused(result: Result<(), Error>) -> String {
    let error = result.expect_err("past the budget");
    assert_eq!(error.code(), ToolCode::BudgetExceeded, "{error:?}");
    error.to_string()
}

/// A store in which `ann` has 60,000 and 35,000 tokens pinned.
async fn filled(fixture: &Fixture<'_>) -> Store {
    let store = fixture.store().await;
    for (name, tokens) in [("blocks/old.md", 60_000), ("blocks/other.md", 35_000)] {
        write(&store, name, tokens).await.expect("it fits");
        pin(&store, "ann@host", name).await.expect("it fits");
    }
    store
}

pub(crate) async fn the_dialogue_of_the_specification(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    assert_eq!(
        refused(write(&store, "blocks/large-doc.md", 80_000).await),
        "Block budget exceeded: 95k/100k tokens. This write would use 80k tokens."
    );
    assert!(matches!(store.read(&path("blocks/large-doc.md")).await, Err(Error::NotFound(_))));
    // The agent reads the old block, makes it shorter, and unpins the other.
    let old = store.read(&path("blocks/old.md")).await.expect("read");
    let shorter = Author { agent: agent("ann@host"), cause: ChangeCause::Compact };
    let expected = Precondition::Version(old.metadata.version);
    store.write(&path("blocks/old.md"), &text(20_000), &shorter, expected).await.expect("shorter");
    assert!(refused(write(&store, "blocks/large-doc.md", 80_000).await).contains("55k/100k"));
    assert!(store.unpin(&agent("ann@host"), &path("blocks/other.md")).await.expect("unpinned"));
    write(&store, "blocks/large-doc.md", 80_000).await.expect("it fits to the token");
    let kept = store.version(&path("blocks/old.md"), 1).await.expect("kept");
    assert!(kept.content == old.content, "what was compacted is not lost");
}

pub(crate) async fn an_edit_is_a_write(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    store.write(&path("x"), b"here", &ann(), Precondition::Any).await.expect("it fits");
    let edit = async |name: &str, tokens: usize| {
        let edited = store.edit(&path(name), b"here", &text(tokens), false, &ann()).await;
        edited.map(|_| ())
    };
    assert!(refused(edit("x", 5_001).await).contains("95k/100k tokens. This write would use 5k"));
    assert_eq!(store.read(&path("x")).await.expect("read").content, b"here");
    edit("x", 5_000).await.expect("it fits to the token");
}

pub(crate) async fn a_smaller_content_always_passes(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    // An unpinned asset counts in addition to all pins; a pinned one replaces itself.
    assert!(refused(write(&store, "blocks/new.md", 6_000).await).contains("use 6k tokens"));
    write(&store, "blocks/other.md", 40_000).await.expect("itself left out, it fits");
    assert!(refused(write(&store, "blocks/other.md", 40_001).await).contains("100k/100k"));

    let options = StoreOptions { budget: Budget(50), ..StoreOptions::default() };
    let store = fixture.store_with(&options).await;
    write(&store, "outputs/x", 90).await.expect("outside the budget");
    write(&store, "x", 40).await.expect("it fits");
    pin(&store, "ann@host", "x").await.expect("it fits");
    write(&store, "y", 10).await.expect("it fits to the token");
    assert_eq!(
        refused(write(&store, "y", 11).await),
        "Block budget exceeded: 40/50 tokens. This write would use 11 tokens."
    );
    write(&store, "y", 10).await.expect("no larger than it was");
    write(&store, "y", 9).await.expect("smaller");
    write(&store, "z", 0).await.expect("nothing");
}

pub(crate) async fn pinning_checks_the_same_sum(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    let author = Author { agent: agent("bob"), cause: ChangeCause::Write };
    store
        .write(&path("x"), &text(5_001), &author, Precondition::Any)
        .await
        .expect("bob's sum is 0");
    assert_eq!(
        refused(pin(&store, "ann@host", "x").await),
        "Block budget exceeded: 95k/100k tokens. This pin would use 5k tokens."
    );
    pin(&store, "bob", "x").await.expect("it fits bob");
    write(&store, "x", 5_000).await.expect("smaller");
    pin(&store, "ann@host", "x").await.expect("it fits to the token");
}

pub(crate) async fn an_asset_others_have_pinned(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    let bob = Author { agent: agent("bob"), cause: ChangeCause::Write };
    let write_as_bob = async |tokens: usize| {
        let content = text(tokens);
        store.write(&path("blocks/old.md"), &content, &bob, Precondition::Any).await.map(|_| ())
    };
    assert_eq!(
        refused(write_as_bob(65_001).await),
        "Block budget of `ann@host` exceeded: 95k/100k tokens. This write would use 65k tokens."
    );
    write_as_bob(65_000).await.expect("it fits ann to the token");
    let message = refused(write_as_bob(100_001).await);
    assert!(message.starts_with("Block budget exceeded: 0k/100k tokens."), "bob's own: {message}");
}

pub(crate) async fn restoring_checks_it_too(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    let (old, ann_) = (path("blocks/old.md"), agent("ann@host"));
    write(&store, "blocks/old.md", 10).await.expect("smaller");
    write(&store, "blocks/other.md", 50_000).await.expect("it fits");
    let error = store.restore(&old, 1, &ann_).await.expect_err("110,000");
    assert_eq!(error.code(), ToolCode::BudgetExceeded, "{error:?}");
    store.unpin(&ann_, &path("blocks/other.md")).await.expect("unpinned");
    store.restore(&old, 1, &ann_).await.expect("it fits");
}

pub(crate) async fn outputs_are_outside(fixture: &Fixture<'_>) {
    let store = filled(fixture).await;
    write(&store, "outputs/build.log", 200_000).await.expect("outside the budget");
    let usage = store.usage(&agent("ann@host")).await.expect("usage");
    assert_eq!((usage.pinned_tokens, usage.output_tokens), (95_000, 200_000));
    assert!(refused(write(&store, "outputs", 200_000).await).contains("use 200k tokens"));
}

pub(crate) async fn all_assets_fit_the_capacity(fixture: &Fixture<'_>) {
    // Three assets of 1 KiB, each with an overhead of 1 KiB.
    let options = StoreOptions { capacity: Capacity(6 << 10), ..StoreOptions::default() };
    let store = fixture.store_with(&options).await;
    let no_room = |result: Result<(), Error>| {
        let error = result.expect_err("past the capacity");
        assert_eq!(error.code(), ToolCode::NoSpace, "{error:?}");
        assert!(matches!(error, Error::Overfull(_)), "{error:?}");
        error.to_string()
    };
    for name in ["a", "b", "c"] {
        write(&store, name, 256).await.expect("it fits");
    }
    let message = no_room(write(&store, "d", 0).await);
    assert!(
        message.contains("the others take 6 KiB of 6 KiB, and it would take 1 KiB"),
        "{message}"
    );
    assert!(matches!(store.read(&path("d")).await, Err(Error::NotFound(_))));
    // Pinning and unpinning make no room.
    pin(&store, "ann@host", "a").await.expect("it fits the budget");
    no_room(write(&store, "d", 1).await);
    store.unpin(&agent("ann@host"), &path("a")).await.expect("unpinned");
    no_room(write(&store, "a", 257).await);
    let edit = store.edit(&path("a"), b"xxxx", b"xxxxxxxx", true, &ann()).await;
    no_room(edit.map(|_| ()));
    write(&store, "a", 256).await.expect("no larger than it was");
    write(&store, "outputs/x", 100_000).await.expect("outputs are outside");
    // Removing and shortening make room, and older versions do not count.
    write(&store, "a", 0).await.expect("smaller");
    write(&store, "d", 0).await.expect("it fits to the byte");
    no_room(store.restore(&path("a"), 1, &agent("ann@host")).await.map(|_| ()));
    store.remove(&path("b"), &agent("ann@host"), Precondition::Any).await.expect("removed");
    store.restore(&path("a"), 1, &agent("ann@host")).await.expect("it fits again");
}
