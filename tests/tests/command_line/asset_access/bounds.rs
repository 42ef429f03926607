//! The bounds of an operation: the wall clock of its call, and the size of an asset.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ikigai_host::limits::Limit;
use ikigai_host::policy::{AssetAccess, Sandbox};
use ikigai_protocol::host_socket::MAX_CONTENT;
use ikigai_tools::fake::{MemoryAsset, MemoryAssets};

use crate::asset_access::rig::{Build, Rig, Silent, Store, printed};

const READ: &str = r#"{"file_path":"ikigai:///blocks/decisions.md"}"#;

#[test]
fn a_store_that_never_answers_keeps_no_call_beyond_its_time() {
    for build in Build::ALL {
        let mut rig = Rig::new(Some(Arc::new(Silent)));
        let started = Instant::now();
        let outcome = rig.call(build, "file-read", AssetAccess::Read, READ, |call| {
            call.limits.wall_clock = Duration::from_millis(500);
        });
        let took = started.elapsed();
        assert_eq!(outcome.limit, Some(Limit::WallClock), "{build:?}: {outcome:?}");
        assert!(took < Duration::from_secs(15), "{build:?}: {took:?}");
        // The same executors serve the next call.
        rig.with_store(Store::new());
        let next = rig.call(build, "file-read", AssetAccess::Read, READ, |_| {});
        assert_eq!(printed(&next), r#"{"output":"one\ntwo\n\ntwo"}"#, "{build:?}");
    }
}

#[test]
fn a_call_that_waits_for_the_store_can_be_cancelled() {
    for build in Build::ALL {
        let rig = Rig::new(Some(Arc::new(Silent)));
        let outcome = rig.call(build, "file-read", AssetAccess::Read, READ, |call| {
            let cancel = call.cancel.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(500));
                cancel.cancel();
            });
        });
        assert!(outcome.cancelled, "{build:?}: {outcome:?}");
    }
}

#[test]
fn an_asset_has_a_size_that_every_port_holds_it_to() {
    let large = MemoryAsset {
        content: [b"first\n".repeat(1 << 20), vec![b'x']].concat(),
        read_only: false,
    };
    for build in [Build::Component, Build::Native(Sandbox::Require)] {
        let assets = BTreeMap::from([("large.md".to_owned(), large.clone())]);
        let store = Store::holding(MemoryAssets::new(assets, u64::MAX >> 1));
        let rig = Rig::new(Some(store.clone()));
        let call = |tool: &str, input: String| {
            printed(&rig.call(build, tool, AssetAccess::Write, &input, |_| {}))
        };
        let write = |size: usize| {
            // Each of these bytes becomes six in JSON.
            let content = "\\u0001".repeat(size);
            call(
                "file-write",
                format!(r#"{{"file_path":"ikigai:///new.md","content":"{content}"}}"#),
            )
        };
        let expected =
            format!(r#"{{"output":"Wrote {MAX_CONTENT} bytes to new.md","bytes":{MAX_CONTENT}}}"#);
        assert_eq!(write(MAX_CONTENT), expected, "{build:?}");
        let refused = write(MAX_CONTENT + 1);
        assert!(refused.contains(r#""error_code":"INVALID_ARG""#), "{build:?}: {refused}");
        assert_eq!(store.content("new.md").map(|it| it.len()), Some(MAX_CONTENT), "{build:?}");

        let read = |rest: &str| {
            call("file-read", format!(r#"{{"file_path":"ikigai:///large.md"{rest}}}"#))
        };
        let whole = read("");
        assert!(
            whole.contains("use offset and limit") && whole.contains("READ_FAILED"),
            "{build:?}: {whole:.200}"
        );
        assert_eq!(read(r#","offset":1048576,"limit":9"#), r#"{"output":"first\nx"}"#, "{build:?}");
        let name = "n".repeat(2000);
        let named = call("file-read", format!(r#"{{"file_path":"ikigai:///{name}"}}"#));
        assert!(named.contains("INVALID_ARG"), "{build:?}: {named:.200}");
    }
}
