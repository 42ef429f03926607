//! Concurrent changes and killed processes: no edit is lost, no budget is exceeded, no asset
//! is half written.
//!
//! The other processes run this program again, with a role in the environment.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ikigai_assets::{
    Agent, AssetPath, Author, Budget, Capacity, ChangeCause, Error, NewSession, Precondition,
    SessionChanges, SessionFilter, Store, StoreOptions, StoreUrl,
};
use ikigai_assets_testing::Server;
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::{directory, sqlite};

const PROCESSES: usize = 16;
const EDITS: usize = 200;

/// The environment of a child: its role, its store, and its number.
const ROLE: &str = "IKIGAI_TEST_ROLE";
const STORE: &str = "IKIGAI_TEST_STORE";
const NUMBER: &str = "IKIGAI_TEST_NUMBER";

fn path(text: &str) -> AssetPath {
    AssetPath::parse(text).expect(text)
}

fn agent(name: &str) -> Agent {
    Agent::new(name).expect(name)
}

fn author(name: &str) -> Author {
    Author { agent: agent(name), cause: ChangeCause::Edit }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

async fn open(url: &StoreUrl) -> Store {
    Store::open(url, &StoreOptions::default()).await.expect("it opens")
}

fn spawn(role: &str, store: &str, number: usize) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "atomicity::child", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(STORE, store)
        .env(NUMBER, number.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Starts children, releases them once all are ready, and waits for their success.
fn together(role: &str, store: &str) {
    let mut children: Vec<_> = (0..PROCESSES).map(|number| spawn(role, store, number)).collect();
    for child in &mut children {
        let mut lines = BufReader::new(child.stdout.as_mut().expect("stdout")).lines();
        let ready = lines.any(|line| line.expect("a line").ends_with("ready"));
        assert!(ready, "a child ended before it was ready");
    }
    for child in &mut children {
        drop(child.stdin.take());
    }
    for mut child in children {
        std::io::copy(child.stdout.as_mut().expect("stdout"), &mut std::io::sink()).expect("read");
        assert!(child.wait().expect("waited for").success(), "a child failed");
    }
}

#[test]
#[ignore = "started by the tests below as a process of its own"]
fn child() {
    let variable = |name: &str| std::env::var(name).expect(name);
    let url = StoreUrl::parse(&variable(STORE)).expect("an address");
    let number = variable(NUMBER);
    let print_ready = || {
        let mut stdout = std::io::stdout();
        writeln!(stdout, "ready").and_then(|()| stdout.flush()).expect("written");
    };
    let wait = || {
        print_ready();
        std::io::stdin().read_to_end(&mut Vec::new()).expect("let go");
    };
    match &*variable(ROLE) {
        "open" => {
            wait();
            runtime().block_on(async {
                let store = open(&url).await;
                let own = path(&format!("opened/{number}"));
                store.write(&own, b"", &author("a"), Precondition::Absent).await.expect("written");
            });
        }
        "edit" => runtime().block_on(async {
            let store = open(&url).await;
            let (x, by) = (path("x"), author("a"));
            wait();
            for edit in 0..EDITS {
                let line = format!("{number}-{edit}\n[END]");
                let done = store.edit(&x, b"[END]", line.as_bytes(), false, &by).await;
                done.expect("an edit neither fails nor gives up");
            }
        }),
        "overwrite" => runtime().block_on(async {
            let store = open(&url).await;
            let (x, by) = (path("x"), author("a"));
            for (number, letter) in (b'a'..=b'z').cycle().enumerate() {
                let content = vec![letter; LENGTH];
                store.write(&x, &content, &by, Precondition::Any).await.expect("written");
                if number == 0 {
                    print_ready();
                }
            }
        }),
        role => panic!("no role `{role}`"),
    }
}

fn sixteen_processes_lose_no_edit(store: &str) {
    let url = StoreUrl::parse(store).expect("an address");
    let runtime = runtime();
    runtime.block_on(async {
        let store = open(&url).await;
        store
            .write(&path("x"), b"[END]", &author("a"), Precondition::Absent)
            .await
            .expect("written");
        store.close().await;
    });
    together("edit", store);
    let asset = runtime.block_on(async { open(&url).await.read(&path("x")).await });
    let asset = asset.expect("read");
    let text = String::from_utf8(asset.content).expect("UTF-8");
    let mut lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.pop(), Some("[END]"));
    let mut expected: Vec<_> = (0..PROCESSES)
        .flat_map(|process| (0..EDITS).map(move |edit| format!("{process}-{edit}")))
        .collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines.len(), expected.len(), "edits were lost");
    assert!(lines == expected);
    assert_eq!(asset.metadata.version, 1 + (PROCESSES * EDITS) as u64);
}

fn sixteen_processes_open_a_new_store(store: &str) {
    together("open", store);
    let url = StoreUrl::parse(store).expect("an address");
    let listed = runtime().block_on(async { open(&url).await.list("opened/", None).await });
    assert_eq!(listed.expect("listed").len(), PROCESSES);
}

/// Opens a store whose tables appear and vanish, each time in one transaction. A table that is
/// seen without the other would look like another program's.
fn tables_are_seen_together(server: &Server) {
    server.create_database("meanwhile").expect("a database");
    let tables = "CREATE ROLE opener LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
        CREATE TABLE a AS SELECT 7::bigint AS version; GRANT SELECT ON a TO opener; \
        CREATE TABLE b (name TEXT)";
    server.psql("meanwhile", tables).expect("made");
    let rename = "DO $$ BEGIN FOR i IN 1..100 LOOP \
        ALTER TABLE a RENAME TO ikigai_migrations; ALTER TABLE b RENAME TO stored_assets; COMMIT; \
        ALTER TABLE ikigai_migrations RENAME TO a; ALTER TABLE stored_assets RENAME TO b; COMMIT; \
        END LOOP; END $$";
    let url = StoreUrl::parse(&server.url_of("opener", "meanwhile")).expect("an address");
    let done = AtomicBool::new(false);
    let opened: Vec<_> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                server.psql("meanwhile", rename).expect("renamed");
            }
        });
        // A long time, because the machine is busy.
        let long = Duration::from_secs(60);
        let options = StoreOptions {
            connect_timeout: long,
            statement_timeout: long,
            ..StoreOptions::default()
        };
        let open = || runtime().block_on(Store::open(&url, &options));
        let opened = (0..OPENED).map(|_| std::panic::catch_unwind(open)).collect();
        done.store(true, Ordering::Release);
        opened
    });
    let (mut absent, mut present, mut foreign) = (0, 0, 0);
    for answer in opened {
        match answer.expect("an answer").expect_err("it must not be opened") {
            // The user may not make tables.
            Error::Denied { .. } => absent += 1,
            // Most tables vanish before their version is read.
            Error::Newer { found: 7, .. } | Error::Read { .. } => present += 1,
            Error::NotAStore { .. } => foreign += 1,
            error => panic!("{error:?}"),
        }
    }
    assert!(absent > 0 && present > 0, "{absent} times absent, {present} times present");
    assert_eq!(foreign, 0, "one table was seen without the other");
}

/// The number of times that this store is opened. If each table were looked up separately, one
/// attempt in ten would see one table without the other.
const OPENED: usize = 200;

/// Lets agents pin and write assets of changing sizes, while another reads the sums.
fn nobody_exceeds_a_budget(url: &StoreUrl) {
    const BUDGET: u64 = 60;
    const WRITERS: u64 = 6;
    let options = StoreOptions { budget: Budget(BUDGET), ..StoreOptions::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let done = Arc::new(AtomicBool::new(false));
        let watcher = Store::open(url, &options).await.expect("it opens");
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            // Each writer has its own store, so only the database keeps them apart.
            let store = Store::open(url, &options).await.expect("it opens");
            writers.push(tokio::spawn(write_and_pin(store, writer)));
        }
        let watching = tokio::spawn({
            let done = Arc::clone(&done);
            async move {
                while !done.load(Ordering::Acquire) {
                    for name in ["ann", "bob"] {
                        let usage = watcher.usage(&agent(name)).await.expect("usage");
                        assert!(usage.pinned_tokens <= BUDGET, "{name}: {usage:?}");
                    }
                }
            }
        });
        let (mut fitted, mut refused) = (0, 0);
        for writer in writers {
            let (some, others) = writer.await.expect("a writer ends");
            fitted += some;
            refused += others;
        }
        done.store(true, Ordering::Release);
        watching.await.expect("the sums were never past the budget");
        assert!(fitted > 50 && refused > 20, "{fitted} fitted and {refused} did not");
    });
}

/// Lets six assets of one agent, of which three fit, grow at the same moment, and be pinned at
/// the same moment. They share only the sum of the agent.
fn three_of_six_fit(url: &StoreUrl) {
    let options = StoreOptions { budget: Budget(60), ..StoreOptions::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(ASSETS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut stores = Vec::new();
        for _ in 0..ASSETS {
            stores.push(Arc::new(Store::open(url, &options).await.expect("it opens")));
        }
        for round in 0..20 {
            for pinned_before in [true, false] {
                prepare_six(&stores[0], pinned_before).await;
                let at_once = Arc::new(tokio::sync::Barrier::new(ASSETS));
                let tasks: Vec<_> = (0..ASSETS)
                    .map(|number| {
                        let (store, at_once) = (Arc::clone(&stores[number]), at_once.clone());
                        tokio::spawn(async move {
                            let (name, who, by) = (nth(number), agent("eve"), author("eve"));
                            at_once.wait().await;
                            let done = if pinned_before {
                                let content = [b'x'; 80];
                                store
                                    .write(&name, &content, &by, Precondition::Any)
                                    .await
                                    .map(|_| ())
                            } else {
                                store.pin(&who, &name).await.map(|_| ())
                            };
                            match done {
                                Ok(()) => true,
                                Err(Error::BudgetExceeded(_)) => false,
                                Err(error) => panic!("{error:?}"),
                            }
                        })
                    })
                    .collect();
                let mut fitted = 0;
                for task in tasks {
                    fitted += usize::from(task.await.expect("a task ends"));
                }
                assert_eq!(fitted, 3, "round {round}, pinned before: {pinned_before}");
                let usage = stores[0].usage(&agent("eve")).await.expect("usage");
                assert_eq!(usage.pinned_tokens, 60, "round {round}");
            }
        }
    });
}

/// Makes six assets, each of another agent, at the same moment. Three of them fit the store.
/// They share only the total.
fn three_of_six_fit_the_store(url: &StoreUrl) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(ASSETS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let store = open(url).await;
        for metadata in store.list("", None).await.expect("listed") {
            store
                .remove(&metadata.path, &agent("setup"), Precondition::Any)
                .await
                .expect("removed");
        }
        let options = StoreOptions { capacity: Capacity(3 * 2048), ..StoreOptions::default() };
        let mut stores = Vec::new();
        for _ in 0..ASSETS {
            stores.push(Arc::new(Store::open(url, &options).await.expect("it opens")));
        }
        for round in 0..20 {
            let at_once = Arc::new(tokio::sync::Barrier::new(ASSETS));
            let tasks: Vec<_> = (0..ASSETS)
                .map(|number| {
                    let (store, at_once) = (Arc::clone(&stores[number]), at_once.clone());
                    tokio::spawn(async move {
                        let (name, by) = (nth(number), author(&format!("agent{number}")));
                        at_once.wait().await;
                        match store.write(&name, &[b'x'; 1024], &by, Precondition::Any).await {
                            Ok(_) => Some(name),
                            Err(Error::Overfull(_)) => None,
                            Err(error) => panic!("{error:?}"),
                        }
                    })
                })
                .collect();
            let mut fitted = Vec::new();
            for task in tasks {
                fitted.extend(task.await.expect("a task ends"));
            }
            assert_eq!(fitted.len(), 3, "round {round}");
            for name in fitted {
                store.remove(&name, &agent("setup"), Precondition::Any).await.expect("removed");
            }
        }
    });
}

const ASSETS: usize = 6;

fn nth(number: usize) -> AssetPath {
    path(&format!("six/{number}"))
}

/// Makes six assets: empty and pinned, or a third of the budget each and not pinned.
async fn prepare_six(store: &Store, pinned: bool) {
    let (who, setup) = (agent("eve"), author("setup"));
    for number in 0..ASSETS {
        store.unpin(&who, &nth(number)).await.expect("unpinned");
    }
    for number in 0..ASSETS {
        let content = vec![b'x'; if pinned { 0 } else { 80 }];
        store.write(&nth(number), &content, &setup, Precondition::Any).await.expect("it fits");
        if pinned {
            store.pin(&who, &nth(number)).await.expect("nothing fits");
        }
    }
}

/// Makes random changes, and returns the numbers of those that fitted and were refused.
async fn write_and_pin(store: Store, writer: u64) -> (u32, u32) {
    let mut random = random(writer);
    let (mut fitted, mut refused) = (0, 0);
    for _ in 0..60 {
        let name = path(&format!("d{}", random.next_u32() % 4));
        let who = ["ann", "bob"][random.next_u32() as usize % 2];
        let content = vec![b'x'; random.next_u32() as usize % 50 * 4];
        let done = match random.next_u32() % 8 {
            0..=2 => store.pin(&agent(who), &name).await.map(|_| ()),
            3 => store.unpin(&agent(who), &name).await.map(|_| ()),
            _ => store.write(&name, &content, &author(who), Precondition::Any).await.map(|_| ()),
        };
        match done {
            Ok(()) => fitted += 1,
            Err(Error::BudgetExceeded(_)) => refused += 1,
            Err(Error::NotFound(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    (fitted, refused)
}

fn random(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

#[test]
fn no_edit_is_lost_in_sqlite() {
    let directory = directory();
    sixteen_processes_lose_no_edit(&sqlite(directory.path()));
}

#[test]
fn a_new_file_is_made_once() {
    for _ in 0..3 {
        let directory = directory();
        sixteen_processes_open_a_new_store(&sqlite(directory.path()));
    }
}

#[test]
fn no_budget_is_exceeded_in_sqlite() {
    let directory = directory();
    let url = StoreUrl::parse(&sqlite(directory.path())).expect("an address");
    nobody_exceeds_a_budget(&url);
    three_of_six_fit(&url);
    three_of_six_fit_the_store(&url);
}

#[test]
fn no_edit_is_lost_in_postgres() {
    let Some(server) = Server::start().expect("a server") else { return };
    sixteen_processes_lose_no_edit(&server.create_database("edits").expect("a database"));
}

#[test]
fn no_budget_is_exceeded_in_postgres() {
    let Some(server) = Server::start().expect("a server") else { return };
    let database = |name: &str| server.create_database(name).expect("a database");
    sixteen_processes_open_a_new_store(&database("opened"));
    tables_are_seen_together(&server);
    let url = StoreUrl::parse(&database("budgets")).expect("an address");
    nobody_exceeds_a_budget(&url);
    three_of_six_fit(&url);
    three_of_six_fit_the_store(&url);
}

/// The bytes of the asset that is overwritten: many pages of the database.
const LENGTH: usize = 40_000;

/// The number of processes that are killed.
const KILLS: u64 = 200;

#[test]
fn a_killed_writer_leaves_the_old_or_the_new() {
    let directory = directory();
    let store = sqlite(directory.path());
    let url = StoreUrl::parse(&store).expect("an address");
    let runtime = runtime();
    let mut random = random(7);
    let mut last = 0;
    for run in 0..KILLS {
        let mut child = spawn("overwrite", &store, 0);
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        assert!(lines.any(|line| line.expect("a line").ends_with("ready")), "run {run}");
        // A random moment for the kill, not a wait for an event.
        std::thread::sleep(Duration::from_micros(u64::from(random.next_u32() % 20_000)));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        runtime.block_on(async {
            let store = open(&url).await;
            let asset = store.read(&path("x")).await.expect("it can be read");
            let letter = asset.content[0];
            let whole = asset.content.iter().all(|byte| *byte == letter);
            assert!(whole && asset.content.len() == LENGTH, "run {run}: half written");
            let version = asset.metadata.version;
            assert!(version > last, "run {run}: a version that was committed is lost");
            last = version;
            let log = store.log(&path("x")).await.expect("a log");
            let kept: Vec<_> = log.iter().map(|kept| kept.version).collect();
            let expected: Vec<_> = (1..=version).rev().take(101).collect();
            assert_eq!(kept, expected, "run {run}: the history has a gap");
            store.close().await;
        });
    }
    assert!(last > KILLS, "none was killed later than after its first write");
    let file = rusqlite::Connection::open(directory.path().join("store.db")).expect("it opens");
    let check = file.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(check.expect("checked"), "ok");
}

/// The host runs calls on any thread, so this must compile.
#[test]
fn futures_go_to_other_threads() {
    fn sendable<T: Send>(_: T) {}
    runtime().block_on(async {
        let store = open(&StoreUrl::memory()).await;
        let (x, by, who) = (path("x"), author("a"), agent("a"));
        sendable(Store::open(&StoreUrl::memory(), &StoreOptions::default()));
        sendable(store.read(&x));
        sendable(store.write(&x, b"", &by, Precondition::Any));
        sendable(store.put(&x, b"", &by, Precondition::Any, true));
        sendable(store.edit(&x, b"a", b"b", true, &by));
        sendable(store.restore(&x, 1, &who));
        sendable(store.remove(&x, &who, Precondition::Any));
        sendable(store.set_read_only(&x, true));
        sendable(store.list("", None));
        sendable(store.check());
        sendable(store.log(&x));
        sendable(store.version(&x, 1));
        sendable(store.pin(&who, &x));
        sendable(store.unpin(&who, &x));
        sendable(store.pinned(&who));
        sendable(store.usage(&who));
        sendable(store.prune_outputs(Duration::ZERO));
        sendable(store.prune_versions());
        let new = NewSession { workspace: "/", title: None, provider: None, model: None };
        let hour = Duration::from_secs(3600);
        let lease = store.create_session(&who, &new, "here", hour).await.expect("made");
        let id = lease.session();
        sendable(store.create_session(&who, &new, "here", hour));
        sendable(store.lease_session(&id, "here", hour));
        sendable(store.renew_session(&lease, hour));
        sendable(store.release_session(&lease));
        sendable(store.append_events(&lease, 0, &[], hour));
        sendable(store.describe_session(&lease, &SessionChanges::default()));
        sendable(store.session(&id));
        sendable(store.session_events(&id, 0, 1));
        sendable(store.sessions(&SessionFilter { agent: &who, workspace: None }, None));
        sendable(store.find_sessions(&who, "x"));
        sendable(store.rename_session(&id, "x"));
        sendable(store.remove_session(&id, "here"));
        sendable(store.fork_session(&id, 0, &who, "here", hour));
        sendable(store.prune_sessions(&who, hour));
        sendable(store.add_spent(&who, 20_260_507, 1));
        sendable(store.spent(&who, 20_260_507));
    });
}
