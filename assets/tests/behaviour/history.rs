//! Older versions, and the removal of old versions and outputs.

use std::time::Duration;

use ikigai_assets::{Author, ChangeCause, Error, Precondition, Retention, StoreOptions};

use crate::{Fixture, agent, ann, path};

pub(crate) async fn each_version_has_its_author_and_its_end(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    let by = |name: &str, cause| Author { agent: agent(name), cause };
    store
        .write(&x, b"one", &by("a", ChangeCause::Write), Precondition::Any)
        .await
        .expect("written");
    store
        .write(&x, b"two two", &by("b", ChangeCause::Write), Precondition::Any)
        .await
        .expect("written");
    store.edit(&x, b"two", b"2", true, &by("c", ChangeCause::Edit)).await.expect("edited");
    store
        .write(&x, b"2", &by("d", ChangeCause::Compact), Precondition::Version(3))
        .await
        .expect("written");
    let restored = store.restore(&x, 1, &agent("e")).await.expect("restored");
    assert_eq!(restored.version, 5);
    assert_eq!(store.read(&x).await.expect("read").content, b"one");
    let log = store.log(&x).await.expect("a log");
    let found: Vec<_> = log
        .iter()
        .map(|version| {
            let end = version.replaced.as_ref();
            let end = end.map(|end| (end.agent.as_str(), end.cause.as_str()));
            let by = (version.author.agent.as_str(), version.author.cause.as_str());
            (version.version, version.size, by, end)
        })
        .collect();
    let expected = [
        (5, 3, ("e", "restore"), None),
        (4, 1, ("d", "compact"), Some(("e", "restore"))),
        (3, 3, ("c", "edit"), Some(("d", "compact"))),
        (2, 7, ("b", "write"), Some(("c", "edit"))),
        (1, 3, ("a", "write"), Some(("b", "write"))),
    ];
    assert_eq!(found, expected);
    for pair in log.windows(2) {
        let end = pair[1].replaced.as_ref().expect("replaced").at;
        assert!(pair[1].written_at <= end && end <= pair[0].written_at, "{pair:#?}");
    }
    for (version, content) in [(1, "one"), (2, "two two"), (3, "2 2"), (4, "2"), (5, "one")] {
        let snapshot = store.version(&x, version).await.expect("kept");
        assert_eq!((snapshot.version.version, &*snapshot.content), (version, content.as_bytes()));
        assert!(log.contains(&snapshot.version));
    }
    for version in [0, 6, u64::MAX] {
        let error = store.version(&x, version).await.expect_err("never was");
        assert!(matches!(error, Error::NoVersion { .. }), "{error:?}");
    }
    store.restore(&x, 5, &agent("e")).await.expect("the current one is a version too");
}

pub(crate) async fn a_removed_asset_comes_back(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let x = path("x");
    let by = agent("ann@host");
    store.write(&x, b"one", &ann(), Precondition::Any).await.expect("written");
    store.remove(&x, &by, Precondition::Any).await.expect("removed");
    assert!(matches!(store.read(&x).await, Err(Error::NotFound(_))));
    assert!(store.list("", None).await.expect("listed").is_empty());
    let log = store.log(&x).await.expect("a log");
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].replaced.as_ref().map(|end| end.cause), Some(ChangeCause::Remove));
    let restored = store.restore(&x, 1, &by).await.expect("restored");
    assert_eq!(restored.version, 2, "a number is given out once");
    assert_eq!(store.read(&x).await.expect("read").content, b"one");
    store.remove(&x, &by, Precondition::Version(2)).await.expect("removed");
    let written = store.write(&x, b"new", &ann(), Precondition::Absent).await.expect("written");
    assert_eq!(written.version, 3);
    assert_eq!(store.log(&x).await.expect("a log").len(), 3);
}

pub(crate) async fn bounded_by_count(fixture: &Fixture<'_>) {
    let retention = Retention { count: 3, ..Retention::default() };
    let store = fixture.store_with(&StoreOptions { retention, ..StoreOptions::default() }).await;
    for content in [b"1", b"2", b"3", b"4", b"5", b"6"] {
        for name in ["x", "y"] {
            store.write(&path(name), content, &ann(), Precondition::Any).await.expect("written");
        }
    }
    let log = store.log(&path("x")).await.expect("a log");
    let kept: Vec<_> = log.iter().map(|version| version.version).collect();
    assert_eq!(kept, [6, 5, 4, 3], "the current one and three");
    assert_eq!(store.prune_versions().await.expect("pruned"), 0, "none is old");
}

pub(crate) async fn bounded_by_age(fixture: &Fixture<'_>) {
    let retention = Retention { age: Duration::ZERO, ..Retention::default() };
    let store = fixture.store_with(&StoreOptions { retention, ..StoreOptions::default() }).await;
    let (x, y) = (path("x"), path("y"));
    for asset in [&x, &y] {
        for content in [b"1", b"2", b"3"] {
            store.write(asset, content, &ann(), Precondition::Any).await.expect("written");
        }
    }
    // Each write deletes the versions that were replaced before it, but not the one that it
    // replaces.
    assert!(store.log(&x).await.expect("a log").len() <= 3);
    store.remove(&y, &agent("a"), Precondition::Any).await.expect("removed");
    let pruned = store.prune_versions().await.expect("pruned");
    assert!(pruned >= 2, "what was replaced last, and what was removed: {pruned}");
    assert_eq!(store.log(&x).await.expect("a log").len(), 1);
    assert!(matches!(store.log(&y).await, Err(Error::NotFound(_))));
    let written = store.write(&y, b"new", &ann(), Precondition::Absent).await.expect("written");
    assert_eq!(written.version, 1, "nothing is left that it could be mistaken for");
    assert_eq!(store.read(&x).await.expect("untouched").content, b"3");
}

pub(crate) async fn outputs_are_pruned_by_age(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    for number in 0..120 {
        let output = path(&format!("outputs/{number}"));
        store.write(&output, b"long", &ann(), Precondition::Any).await.expect("written");
    }
    store.write(&path("outputs/0"), b"longer", &ann(), Precondition::Any).await.expect("written");
    store.set_read_only(&path("outputs/1"), true).await.expect("set");
    for name in ["outputs", "outputs0", "output", "blocks/outputs/x"] {
        store.write(&path(name), b"", &ann(), Precondition::Any).await.expect("written");
    }
    let day = Duration::from_secs(86400);
    assert_eq!(store.prune_outputs(day).await.expect("pruned"), 0, "none is so old");
    assert_eq!(store.prune_outputs(Duration::ZERO).await.expect("pruned"), 119);
    let left = store.list("", None).await.expect("listed");
    let left: Vec<_> = left.iter().map(|asset| asset.path.as_str()).collect();
    assert_eq!(left, ["blocks/outputs/x", "output", "outputs", "outputs/1", "outputs0"]);
    assert!(matches!(store.log(&path("outputs/0")).await, Err(Error::NotFound(_))));
}

pub(crate) async fn outputs_are_pruned_by_size(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let write = async |name: &str, size: usize| {
        let content = vec![b'x'; size];
        store.write(&path(name), &content, &ann(), Precondition::Any).await.expect("written");
    };
    for name in ["outputs/locked", "outputs/a", "outputs/b", "blocks/large", "outputs/c"] {
        write(name, 1000).await;
        // Assets that are written at once have the same age.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    store.set_read_only(&path("outputs/locked"), true).await.expect("set");
    assert_eq!(store.prune_outputs_beyond(3000).await.expect("pruned"), 0);
    assert_eq!(store.prune_outputs_beyond(2999).await.expect("pruned"), 1);
    let left = async || {
        let left = store.list("", None).await.expect("listed");
        left.iter().map(|asset| asset.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(left().await, ["blocks/large", "outputs/b", "outputs/c", "outputs/locked"]);
    assert_eq!(store.prune_outputs_beyond(0).await.expect("pruned"), 1, "the newest stays");
    assert_eq!(left().await, ["blocks/large", "outputs/c", "outputs/locked"]);
    write("outputs/d", 5000).await;
    assert_eq!(store.prune_outputs_beyond(10).await.expect("pruned"), 1);
    assert_eq!(left().await, ["blocks/large", "outputs/d", "outputs/locked"]);
}
