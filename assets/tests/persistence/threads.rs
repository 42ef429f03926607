//! The threads that a store in a file uses, and those that it must not hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ikigai_assets::{
    Agent, AssetPath, Author, ChangeCause, Error, Precondition, Store, StoreOptions, StoreUrl,
};
use tokio::runtime::{Builder, Runtime};

use crate::{directory, sqlite};

fn x() -> AssetPath {
    AssetPath::parse("x").expect("a path")
}

async fn write(store: &Store, content: &[u8]) -> Result<u64, Error> {
    let by = Author { agent: Agent::new("ann@host").expect("a name"), cause: ChangeCause::Write };
    store.write(&x(), content, &by, Precondition::Any).await.map(|written| written.version)
}

struct Fixture {
    directory: tempfile::TempDir,
    runtime: Runtime,
    /// The threads that the runtime has started.
    threads: Arc<AtomicUsize>,
}

impl Fixture {
    /// Makes a runtime that has only the test's thread as long as it needs no other.
    fn new() -> Self {
        let threads = Arc::new(AtomicUsize::new(0));
        let started = Arc::clone(&threads);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_start(move || {
                started.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .expect("a runtime");
        Self { directory: directory(), runtime, threads }
    }

    /// Opens a store that has the asset `x`.
    fn store(&self) -> Store {
        let url = StoreUrl::parse(&sqlite(self.directory.path())).expect("an address");
        self.runtime.block_on(async {
            let store = Store::open(&url, &StoreOptions::default()).await.expect("it opens");
            write(&store, b"1").await.expect("written");
            store
        })
    }

    /// Locks the file as another process does, until the connection is dropped.
    fn lock(&self) -> rusqlite::Connection {
        let file = self.directory.path().join("store.db");
        let other = rusqlite::Connection::open(file).expect("it opens");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        other
    }

    fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }
}

#[test]
fn an_own_thread_needs_no_other() {
    let fixture = Fixture::new();
    fixture.store();
    // The store exists already: another runtime has made it.
    let fixture = Fixture { directory: fixture.directory, ..Fixture::new() };
    let url = StoreUrl::parse(&sqlite(fixture.directory.path())).expect("an address");
    fixture.runtime.block_on(async {
        let store = Store::open(&url, &StoreOptions::default()).await.expect("it opens");
        let own = store.on_own_thread();
        assert_eq!(write(&own, b"2").await.expect("written"), 2);
        assert_eq!(own.read(&x()).await.expect("read").content, b"2");
        assert_eq!(own.list("", None).await.expect("listed").len(), 1);
        assert_eq!(fixture.threads(), 0, "all of it happened here");
        assert_eq!(write(&store, b"3").await.expect("written"), 3);
        assert_eq!(fixture.threads(), 1, "a commit waits for the disk elsewhere");
        assert_eq!(store.read(&x()).await.expect("read").content, b"3");
        assert_eq!(fixture.threads(), 1);
    });
}

#[test]
fn a_lock_is_waited_for_without_a_thread_and_can_be_given_up() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let lock = fixture.lock();
    for store in [store.on_own_thread(), store.clone()] {
        fixture.runtime.block_on(async {
            let begun = Instant::now();
            let short = Duration::from_millis(100);
            let given_up = tokio::time::timeout(short, write(&store, b"2")).await;
            assert!(given_up.is_err(), "it is locked: {given_up:?}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            let other = async {
                tokio::time::sleep(short).await;
                store.read(&x()).await.expect("readers do not wait").content
            };
            tokio::select! {
                biased;
                done = write(&store, b"2") => panic!("it is locked: {done:?}"),
                content = other => assert_eq!(content, b"1"),
            }
        });
    }
    drop(lock);
    assert_eq!(fixture.runtime.block_on(write(&store, b"2")).expect("it is free"), 2);
}

#[test]
fn a_lock_that_is_released_is_taken() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let lock = fixture.lock();
    fixture.runtime.block_on(async {
        let release = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            drop(lock);
        };
        let (written, ()) = tokio::join!(write(&store, b"2"), release);
        assert_eq!(written.expect("written once it was free"), 2);
    });
}

/// A read of SQLite never waits, so only the count of statements lets other tasks run in
/// between.
#[test]
fn many_operations_let_a_timeout_in_between() {
    let fixture = Fixture::new();
    let store = fixture.store().on_own_thread();
    fixture.runtime.block_on(async {
        let endless = async {
            loop {
                store.metadata(&x()).await.expect("read");
            }
        };
        let short = Duration::from_millis(50);
        let ended: Result<(), _> = tokio::time::timeout(short, endless).await;
        ended.expect_err("it never ends");
    });
}

/// If a change is given up, its commit happens in full, or not at all, and the next writer comes
/// after it.
#[test]
fn a_change_that_is_given_up_is_whole_or_not_there() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let mut committed = 0;
    let mut version = 1;
    for round in 0..100 {
        fixture.runtime.block_on(async {
            // Polled once, which runs it up to the commit.
            let write_it = async { write(&store, b"given up").await.map(|_| ()) };
            let given_up = tokio::time::timeout(Duration::ZERO, write_it).await;
            let next = write(&store, b"kept").await.expect("the turn came");
            assert!(next == version + 1 || next == version + 2, "round {round}: {next}");
            committed += next - version - 1;
            assert!(given_up.is_err() || next == version + 2, "round {round}");
            version = next;
        });
    }
    assert!(committed > 0, "none of them was committed");
}
