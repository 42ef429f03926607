//! The arguments that a model sends to the five file tools.

use std::collections::BTreeMap;

use ikigai_tools::answer;
use ikigai_tools::fake::{FakeNode, MemoryAsset, MemoryAssets, MemoryFiles, Tree};
use ikigai_tools::ports::Storage;
use serde_json::Value;

const TOOLS: &[&str] = &["file-read", "file-write", "file-edit", "glob", "grep"];

/// Runs the tool that the first byte chooses, with the rest as its stdin. For any input the answer
/// must be one JSON object, and nothing outside the grant may change.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, input)) = data.split_first() else { return };
    let tool = TOOLS[usize::from(*choice) % TOOLS.len()];
    let storage = Storage { files: files(), assets: assets() };
    let answered = answer(tool, &storage, input).expect("a tool that works on files");
    let value: Value = serde_json::from_slice(&answered).expect("one JSON value");
    assert!(value.is_object(), "{tool}: {value}");
    let is_error = value.get("error").is_some();
    assert_eq!(is_error, value.get("error_code").is_some(), "{tool}: {value}");
    assert_ne!(answered.last(), Some(&b'\n'), "{tool}: a newline after the answer");
}

/// Returns an asset that can be changed, and one that cannot and is not UTF-8.
fn assets() -> MemoryAssets {
    let open = MemoryAsset { content: b"one\ntwo\n".to_vec(), read_only: false };
    let closed = MemoryAsset { content: b"\xff\n".to_vec(), read_only: true };
    let assets = BTreeMap::from([("a.md".to_owned(), open), ("b/c.md".to_owned(), closed)]);
    MemoryAssets::new(assets, 100)
}

/// `/w` with a file, a directory with another, and links that stay and lead out.
fn files() -> MemoryFiles {
    let mut tree = Tree::default();
    for (name, node) in [
        (&b"a.txt"[..], FakeNode::File(0)),
        (b"d", FakeNode::Directory),
        (b"d/b.txt", FakeNode::File(1)),
        (b"in", FakeNode::Symlink(b"d/b.txt".to_vec())),
        (b"out", FakeNode::Symlink(b"/etc/passwd".to_vec())),
        (b"loop", FakeNode::Symlink(b"loop".to_vec())),
    ] {
        tree.nodes.insert(name.to_vec(), node);
    }
    tree.contents.insert(0, b"one\ntwo\r\nthree".to_vec());
    tree.contents.insert(1, b"\xff\x00bytes\n".to_vec());
    MemoryFiles::new(b"/w", tree)
}
