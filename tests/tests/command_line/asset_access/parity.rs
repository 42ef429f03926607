//! Checks that every port gives equal answers. Each call is made in memory, by the component, and
//! by the native build with and without a sandbox, one after the other on equal assets.

use std::sync::Arc;

use ikigai_agent::assets::StoredAssets;
use ikigai_assets::{
    Agent, AssetPath, Author, Budget, Capacity, ChangeCause, Precondition, StoreUrl,
};
use ikigai_host::policy::AssetAccess;
use ikigai_tools::fake::{MemoryFiles, Tree};
use ikigai_tools::ports::{NoAssets, Storage};

use crate::asset_access::rig::{Build, Rig, Store, assets, printed};

/// The calls: a tool, its arguments, and its answer, which is the same as for a file with this
/// content.
#[rustfmt::skip]
const CALLS: &[(&str, &str, &str)] = &[
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md"}"#, r#"{"output":"one\ntwo\n\ntwo"}"#),
    ("file-read", r#"{"file_path":"ikigai://blocks/decisions.md"}"#, r#"{"output":"one\ntwo\n\ntwo"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md","offset":0,"limit":1}"#, r#"{"output":"one\n"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md","offset":2,"limit":2}"#, r#"{"output":"two\n\n"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md","offset":4}"#, r#"{"output":"two"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md","limit":0}"#, r#"{"output":""}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md","offset":99}"#, r#"{"output":""}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md","offset":-1}"#, r#"{"error":"`offset` must not be negative","error_code":"INVALID_ARG"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/empty.md"}"#, r#"{"output":""}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/odd.md"}"#, "{\"output\":\"a\u{fffd}é\\\"\\\\\\u0001\\n\"}"),
    ("file-read", r#"{"file_path":"ikigai:///blocks/absent.md"}"#, r#"{"error":"File not found: ikigai:///blocks/absent.md","error_code":"FILE_NOT_FOUND"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/../x"}"#, r#"{"error":"`..` cannot be a segment of an asset's path","error_code":"INVALID_ARG"}"#),
    ("file-read", r#"{"file_path":"ikigai://"}"#, r#"{"error":"an asset's path cannot be empty","error_code":"INVALID_ARG"}"#),
    ("file-read", r#"{"file_path":"ikigai:/blocks/decisions.md"}"#, r#"{"error":"`ikigai:/blocks/decisions.md` is not named as an asset is: ikigai:///PATH","error_code":"INVALID_ARG"}"#),
    ("file-read", r#"{"file_path":"IKIGAI:///blocks/decisions.md"}"#, r#"{"error":"`IKIGAI:///blocks/decisions.md` is not named as an asset is: ikigai:///PATH","error_code":"INVALID_ARG"}"#),
    ("file-read", r#"{"file_path":"ikigai:///a\u0000b"}"#, r#"{"error":"`file_path` holds a NUL byte, which no path can","error_code":"INVALID_ARG"}"#),
    ("file-write", r#"{"file_path":"ikigai:///blocks/new.md","content":"é\n"}"#, r#"{"output":"Wrote 3 bytes to new.md","bytes":3}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/new.md"}"#, r#"{"output":"é\n"}"#),
    ("file-write", r#"{"file_path":"ikigai:///blocks/new.md","content":""}"#, r#"{"output":"Wrote 0 bytes to new.md","bytes":0}"#),
    ("file-write", r#"{"file_path":"ikigai:///blocks/law.md","content":"x"}"#, r#"{"error":"Asset is read-only: ikigai:///blocks/law.md","error_code":"READ_ONLY"}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"one","new_string":"1"}"#, r#"{"output":"Replaced 1 occurrence in decisions.md","replacements":1}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"two","new_string":"2"}"#, r#"{"error":"String found 2 times, use replace_all to replace all","error_code":"NOT_UNIQUE"}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"two","new_string":"2\n","replace_all":true}"#, r#"{"output":"Replaced 2 occurrences in decisions.md","replacements":2}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"two","new_string":"2"}"#, r#"{"error":"String not found in file","error_code":"NOT_FOUND"}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"","new_string":"2"}"#, r#"{"error":"old_string cannot be empty","error_code":"INVALID_ARG"}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"2","new_string":"2"}"#, r#"{"error":"old_string and new_string are identical","error_code":"INVALID_ARG"}"#),
    ("file-edit", r#"{"file_path":"ikigai:///blocks/absent.md","old_string":"2","new_string":"3"}"#, r#"{"error":"File not found: ikigai:///blocks/absent.md","error_code":"FILE_NOT_FOUND"}"#),
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md"}"#, r#"{"output":"1\n2\n\n\n2\n"}"#),
];

/// The calls that fail without a grant.
const WITHOUT: &[(&str, &str)] = &[
    ("file-read", r#"{"file_path":"ikigai:///blocks/decisions.md"}"#),
    ("file-write", r#"{"file_path":"ikigai:///blocks/decisions.md","content":"x"}"#),
    (
        "file-edit",
        r#"{"file_path":"ikigai:///blocks/decisions.md","old_string":"one","new_string":"x"}"#,
    ),
];

const NOT_GRANTED: &str = r#"{"error":"Permission denied: ikigai:///blocks/decisions.md (no assets are granted to this tool)","error_code":"PERMISSION_DENIED"}"#;

fn files() -> MemoryFiles {
    MemoryFiles::new(b"/w", Tree::default())
}

#[test]
fn assets_are_answered_for_alike_in_memory() {
    let storage = Storage { files: files(), assets: assets() };
    for (tool, input, expected) in CALLS {
        let answer =
            ikigai_tools::answer(tool, &storage, input.as_bytes()).expect("a tool of files");
        assert_eq!(String::from_utf8_lossy(&answer), *expected, "{tool} {input}");
    }
    let storage = Storage { files: files(), assets: NoAssets };
    for (tool, input) in WITHOUT {
        let answer =
            ikigai_tools::answer(tool, &storage, input.as_bytes()).expect("a tool of files");
        assert_eq!(String::from_utf8_lossy(&answer), NOT_GRANTED, "{tool}");
    }
}

#[test]
fn assets_are_answered_for_alike_by_each_build() {
    for build in Build::ALL {
        let store = Store::new();
        let rig = Rig::new(Some(store.clone()));
        for (tool, input, expected) in CALLS {
            let answer = printed(&rig.call(build, tool, AssetAccess::Write, input, |_| {}));
            assert_eq!(answer, *expected, "{build:?}: {tool} {input}");
        }
        let callers = store.callers.lock().expect("no panic while held");
        assert!(callers.iter().all(|it| &*it.agent == "agent"));
    }
}

#[test]
fn a_real_store_answers_as_the_one_in_memory_does() {
    for build in Build::ALL {
        let assets = Arc::new(StoredAssets::at(
            Ok(StoreUrl::memory()),
            Budget::default(),
            Capacity::default(),
        ));
        let rig = Rig::new(Some(assets.clone()));
        rig.block_on(fill(&assets));
        for (tool, input, expected) in CALLS {
            let answer = printed(&rig.call(build, tool, AssetAccess::Write, input, |_| {}));
            assert_eq!(answer, *expected, "{build:?}: {tool} {input}");
        }
    }
}

/// Writes the assets of [`assets`] into a store.
async fn fill(stored: &StoredAssets) {
    let store = stored.open().await.expect("a store in memory");
    let agent = Agent::new("agent").expect("a name");
    let author = Author { agent, cause: ChangeCause::Write };
    for (path, asset) in assets().list("") {
        let path = AssetPath::parse(&path).expect("a path");
        let written = store.write(&path, &asset.content, &author, Precondition::Any).await;
        written.expect("written");
        store.set_read_only(&path, asset.read_only).await.expect("set");
    }
}

#[test]
fn nothing_is_read_or_changed_without_a_grant() {
    let store = Store::new();
    let rig = Rig::new(Some(store.clone()));
    for build in Build::ALL {
        for (tool, input) in WITHOUT {
            let outcome = rig.call(build, tool, AssetAccess::None, input, |_| {});
            assert_eq!(printed(&outcome), NOT_GRANTED, "{build:?}: {tool}");
            // A native tool without a grant has no socket, so the host sees no attempt.
            let denials = if build == Build::Component { 1 } else { 0 };
            assert_eq!(outcome.denied.count, denials, "{build:?}: {:?}", outcome.denied);
        }
    }
    assert_eq!(store.asked(), 0, "the store was asked");
}

#[test]
fn a_grant_to_read_is_no_grant_to_write() {
    let store = Store::new();
    let rig = Rig::new(Some(store.clone()));
    for build in Build::ALL {
        for (tool, input) in &WITHOUT[1..] {
            let outcome = rig.call(build, tool, AssetAccess::Read, input, |_| {});
            let expected = r#"{"error":"Permission denied: ikigai:///blocks/decisions.md (assets are granted to this tool for reading only)","error_code":"PERMISSION_DENIED"}"#;
            assert_eq!(printed(&outcome), expected, "{build:?}: {tool}");
            let noted = "assets write ikigai:///blocks/decisions.md".to_owned();
            assert_eq!(outcome.denied.first, [noted], "{build:?}");
        }
        assert_eq!(store.asked(), 0, "the store was asked to write");
    }
    let (tool, input, expected) = CALLS[0];
    for build in Build::ALL {
        assert_eq!(printed(&rig.call(build, tool, AssetAccess::Read, input, |_| {})), expected);
    }
}

#[test]
fn a_host_without_a_store_says_so() {
    let rig = Rig::new(None);
    for build in Build::ALL {
        let answer =
            printed(&rig.call(build, "file-read", AssetAccess::Write, WITHOUT[0].1, |_| {}));
        let expected = r#"{"error":"Cannot open asset: ikigai:///blocks/decisions.md (this host keeps no assets)","error_code":"OPEN_FAILED"}"#;
        assert_eq!(answer, expected, "{build:?}");
    }
}
