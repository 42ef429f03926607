//! Pins: their order, their agents, and their end.

use ikigai_assets::{Error, PinOutcome, Precondition, Store};
use ikigai_protocol::ToolCode;

use crate::{Fixture, agent, ann, path, text};

async fn pinned(store: &Store, name: &str) -> Vec<String> {
    let pins = store.pins(&agent(name)).await.expect("pins");
    let assets = store.pinned(&agent(name)).await.expect("contents");
    let metadata: Vec<_> = assets.into_iter().map(|asset| asset.metadata).collect();
    assert_eq!(
        pins.iter().map(|pin| &pin.metadata).collect::<Vec<_>>(),
        metadata.iter().collect::<Vec<_>>()
    );
    pins.iter().map(|pin| pin.metadata.path.to_string()).collect()
}

pub(crate) async fn keep_their_order(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let ann_ = agent("ann@host");
    for name in ["c", "a", "d", "b"] {
        store
            .write(&path(name), name.as_bytes(), &ann(), Precondition::Any)
            .await
            .expect("written");
        assert_eq!(store.pin(&ann_, &path(name)).await.expect("pinned"), PinOutcome::Now);
    }
    assert_eq!(store.pin(&ann_, &path("c")).await.expect("pinned"), PinOutcome::Already);
    assert_eq!(pinned(&store, "ann@host").await, ["c", "a", "d", "b"]);
    let pins = store.pins(&ann_).await.expect("pins");
    assert!(pins.windows(2).all(|pair| pair[0].pinned_at < pair[1].pinned_at), "{pins:#?}");
    assert!(store.unpin(&ann_, &path("a")).await.expect("unpinned"));
    assert!(!store.unpin(&ann_, &path("a")).await.expect("not pinned"));
    store.pin(&ann_, &path("a")).await.expect("pinned");
    assert_eq!(pinned(&store, "ann@host").await, ["c", "d", "b", "a"]);
    store.write(&path("c"), b"new", &ann(), Precondition::Any).await.expect("written");
    let first = store.pinned(&ann_).await.expect("contents").swap_remove(0);
    assert_eq!((first.content, first.metadata.version), (b"new".to_vec(), 2), "as it is now");
}

pub(crate) async fn belong_to_an_agent(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    store.write(&path("x"), b"", &ann(), Precondition::Any).await.expect("written");
    assert_eq!(pinned(&store, "ann@host").await, [""; 0], "nothing is pinned by itself");
    store.pin(&agent("a"), &path("x")).await.expect("pinned");
    store.pin(&agent("A"), &path("x")).await.expect("pinned");
    assert!(store.unpin(&agent("a"), &path("x")).await.expect("unpinned"));
    assert_eq!(pinned(&store, "a").await, [""; 0]);
    assert_eq!(pinned(&store, "A").await, ["x"]);
    store.write(&path("outputs/x"), b"", &ann(), Precondition::Any).await.expect("written");
    let error = store.pin(&agent("a"), &path("outputs/x")).await.expect_err("an output");
    assert!(matches!(error, Error::Unpinnable(_)), "{error:?}");
    assert_eq!(error.code(), ToolCode::InvalidArg);
}

pub(crate) async fn go_with_the_asset(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    store.write(&x, b"1", &ann(), Precondition::Any).await.expect("written");
    for name in ["a", "b"] {
        store.pin(&agent(name), &x).await.expect("pinned");
    }
    store.remove(&x, &agent("a"), Precondition::Any).await.expect("removed");
    store.restore(&x, 1, &agent("a")).await.expect("restored");
    for name in ["a", "b"] {
        assert_eq!(pinned(&store, name).await, [""; 0]);
    }
}

pub(crate) async fn usage(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let ann_ = agent("ann@host");
    let empty = store.usage(&ann_).await.expect("usage");
    assert_eq!((empty.pinned_assets, empty.pinned_tokens, empty.assets), (0, 0, 0));
    for (name, tokens) in [("x", 10), ("y", 20), ("z", 40), ("outputs/z", 80)] {
        store.write(&path(name), &text(tokens), &ann(), Precondition::Any).await.expect("written");
    }
    store.write(&path("x"), &text(11), &ann(), Precondition::Any).await.expect("written");
    store.pin(&ann_, &path("x")).await.expect("pinned");
    store.pin(&ann_, &path("y")).await.expect("pinned");
    store.pin(&agent("b"), &path("z")).await.expect("pinned");
    let usage = store.usage(&ann_).await.expect("usage");
    assert_eq!(usage.budget.0, 100_000);
    assert_eq!((usage.pinned_assets, usage.pinned_tokens), (2, 31));
    assert_eq!((usage.assets, usage.tokens), (3, 71));
    assert_eq!((usage.outputs, usage.output_tokens, usage.old_versions), (1, 80, 1));
}
