//! Operations that need no content read none from the file.

use std::fs;
use std::path::Path;

use ikigai_assets::{
    Agent, AssetPath, Author, ChangeCause, Error, Precondition, Store, StoreOptions, StoreUrl,
};

/// The bytes of a page of SQLite.
const PAGE: usize = 4096;

/// Cuts the chain of pages of a long content after its first page, so that reading further
/// fails, and returns the number of cuts.
fn cut_chains(file: &Path) -> usize {
    let mut bytes = fs::read(file).expect("a file");
    let mut cut = 0;
    for page in bytes.chunks_exact_mut(PAGE) {
        // Such a page has the number of the next one, then content, here `x`.
        if page[4..].iter().all(|byte| *byte == b'x') {
            page[..4].copy_from_slice(&[0xff; 4]);
            cut += 1;
        }
    }
    fs::write(file, bytes).expect("written");
    cut
}

#[tokio::test]
async fn metadata_is_read_without_content() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("store.db");
    let path = AssetPath::parse("x").expect("a path");
    let agent = |name| Agent::new(name).expect("a name");
    let by = Author { agent: agent("ann@host"), cause: ChangeCause::Write };
    let open = async || {
        Store::open(&StoreUrl::sqlite(&file), &StoreOptions::default()).await.expect("it opens")
    };
    let content = [b'x'; 40 * PAGE];
    let store = open().await;
    for _ in 0..2 {
        store.write(&path, &content, &by, Precondition::Any).await.expect("written");
    }
    store.pin(&agent("bob"), &path).await.expect("pinned");
    store.close().await;
    assert!(cut_chains(&file) >= 70, "two contents of forty pages");

    let store = open().await;
    let metadata = store.metadata(&path).await.expect("metadata");
    assert_eq!((metadata.size, metadata.version), (content.len() as u64, 2));
    let listed = store.list("", None).await.expect("a list");
    assert_eq!(listed, [metadata]);
    let log = store.log(&path).await.expect("a log");
    assert!(log.len() == 2 && log.iter().all(|version| version.size == content.len() as u64));
    assert!(log[1].replaced.as_ref().is_some_and(|end| end.agent == by.agent));
    let usage = store.usage(&agent("bob")).await.expect("usage");
    assert_eq!((usage.tokens, usage.pinned_tokens, usage.old_versions), (40_960, 40_960, 1));
    assert_eq!(store.pins(&agent("bob")).await.expect("pins").len(), 1);
    store.pin(&by.agent, &path).await.expect("pinned: the sum of a budget");
    assert_eq!(store.prune_versions().await.expect("nothing is old"), 0);
    for error in [
        store.read(&path).await.expect_err("content"),
        store.version(&path, 1).await.expect_err("content"),
    ] {
        assert!(matches!(error, Error::Damaged { .. }), "the chains are cut: {error:?}");
    }
}
