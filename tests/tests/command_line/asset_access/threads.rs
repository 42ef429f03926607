//! The threads that run a store's operations, and the effects on these threads.

use std::future::{pending, ready};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ikigai_agent::assets::StoredAssets;
use ikigai_assets::{Budget, Capacity, StoreUrl};
use ikigai_host::exec::assets::{AssetCaller, AssetFuture, AssetListing, AssetStore, Window};
use ikigai_host::limits::Limit;
use ikigai_host::policy::AssetAccess;

use crate::asset_access::rig::{Build, Rig, printed};

const READ: &str = r#"{"file_path":"ikigai:///x"}"#;
const WRITE: &str = r#"{"file_path":"ikigai:///x","content":"1"}"#;

/// A store that can be read. For each read it records what it knows about its thread.
#[derive(Default)]
struct Noting {
    runs_on_guest_threads: bool,
    panics: bool,
    /// The name of the thread, and whether the caller marked it as the operation's own thread.
    threads: Mutex<Vec<(Option<String>, bool)>>,
}

impl AssetStore for Noting {
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn runs_on_guest_threads(&self) -> bool {
        self.runs_on_guest_threads
    }

    fn read<'a>(
        &'a self,
        caller: &'a AssetCaller,
        _: &'a str,
        _: Window,
    ) -> AssetFuture<'a, Bytes> {
        Box::pin(async {
            assert!(!self.panics, "as it should");
            let name = std::thread::current().name().map(str::to_owned);
            self.threads.lock().expect("no panic while held").push((name, caller.own_thread));
            // The operation waits here, and then continues on the same thread.
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(Bytes::from_static(b"read"))
        })
    }

    fn write<'a>(&'a self, _: &'a AssetCaller, _: &'a str, _: &'a str) -> AssetFuture<'a, ()> {
        Box::pin(pending())
    }

    fn edit<'a>(
        &'a self,
        _: &'a AssetCaller,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: bool,
    ) -> AssetFuture<'a, u64> {
        Box::pin(pending())
    }

    fn list<'a>(&'a self, _: &'a AssetCaller, _: &'a str) -> AssetFuture<'a, AssetListing> {
        Box::pin(ready(Ok(AssetListing { entries: Vec::new(), more: false })))
    }
}

#[test]
fn only_a_store_that_can_runs_on_the_thread_of_a_guest() {
    for build in Build::ALL {
        for runs_on_guest_threads in [false, true] {
            let store = Arc::new(Noting { runs_on_guest_threads, ..Noting::default() });
            let rig = Rig::new(Some(store.clone()));
            let outcome = rig.call(build, "file-read", AssetAccess::Read, READ, |_| {});
            assert_eq!(printed(&outcome), r#"{"output":"read"}"#, "{build:?}");
            let there = runs_on_guest_threads && build == Build::Component;
            for (name, own_thread) in store.threads.lock().expect("no panic while held").iter() {
                assert_eq!(name.as_deref() == Some("guest"), there, "{build:?}: {name:?}");
                assert_eq!(*own_thread, there, "{build:?}");
            }
        }
    }
}

#[test]
fn a_store_that_panics_fails_the_operation_and_not_the_call() {
    for build in Build::ALL {
        for runs_on_guest_threads in [false, true] {
            let store =
                Arc::new(Noting { runs_on_guest_threads, panics: true, ..Noting::default() });
            let rig = Rig::new(Some(store));
            let outcome = rig.call(build, "file-read", AssetAccess::Read, READ, |_| {});
            let answer = printed(&outcome);
            assert!(answer.contains("(the store failed)"), "{build:?}: {answer}");
        }
    }
}

/// The store blocks for 10 seconds, even on a component's thread. A call with less time ends in its
/// time, and the next one gets its answer.
#[test]
fn a_store_that_is_locked_keeps_no_call_beyond_its_time() {
    for build in Build::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("store.db");
        let url = Ok(StoreUrl::sqlite(&file));
        let assets = Arc::new(StoredAssets::at(url, Budget::default(), Capacity::default()));
        let rig = Rig::new(Some(assets.clone()));
        rig.block_on(assets.open()).expect("it opens");
        let other = rusqlite::Connection::open(&file).expect("it opens");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        let started = Instant::now();
        let outcome = rig.call(build, "file-write", AssetAccess::Write, WRITE, |call| {
            call.limits.wall_clock = Duration::from_millis(500);
        });
        let took = started.elapsed();
        assert_eq!(outcome.limit, Some(Limit::WallClock), "{build:?}: {outcome:?}");
        assert!(took < Duration::from_secs(8), "{build:?}: {took:?}");
        drop(other);
        let next = rig.call(build, "file-write", AssetAccess::Write, WRITE, |_| {});
        assert_eq!(printed(&next), r#"{"output":"Wrote 1 bytes to x","bytes":1}"#, "{build:?}");
    }
}
