//! Aspects of sessions that tests in one process cannot show: killed writers, clocks that jump,
//! the way in which a list is found, and rows that another program damaged.
//!
//! The other processes run this program again, with a store in the environment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use ikigai_assets::{
    Agent, Error, Lease, NewEvent, NewSession, SessionFilter, SessionId, Store, StoreOptions,
    StoreUrl,
};
use ikigai_assets_testing::Server;

use crate::{directory, plan, sqlite};

const STORE: &str = "IKIGAI_TEST_STORE";
const SESSION: &str = "IKIGAI_TEST_SESSION";

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

fn ann() -> Agent {
    Agent::new("ann@host").expect("a name")
}

async fn open(url: &str) -> Store {
    let url = StoreUrl::parse(url).expect("an address");
    Store::open(&url, &StoreOptions::default()).await.expect("it opens")
}

/// Opens the file of the store as another program does.
fn other(directory: &tempfile::TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(directory.path().join("store.db")).expect("it opens")
}

async fn begin(store: &Store) -> Lease {
    let new = NewSession { workspace: "/w", title: None, provider: None, model: None };
    store.create_session(&ann(), &new, "here", HOUR).await.expect("made")
}

/// The events of a round.
const ROUND: usize = 5;

#[test]
#[ignore = "started by the tests below as a process that is killed"]
fn writer() {
    let variable = |name: &str| std::env::var(name).expect(name);
    let id: SessionId = variable(SESSION).parse().expect("an id");
    run(async {
        let store = open(&variable(STORE)).await;
        // The previous process was killed, and had the same name.
        let lease = store.lease_session(&id, "writer", HOUR).await.expect("leased");
        let mut last = store.session(&id).await.expect("there").events;
        let text = "x".repeat(3000);
        let round = [NewEvent { kind: "part", json: &text, begins_turn: true }; ROUND];
        loop {
            last = store.append_events(&lease, last, &round, HOUR).await.expect("appended");
            let mut stdout = std::io::stdout();
            writeln!(stdout, "written {last}").and_then(|()| stdout.flush()).expect("said");
        }
    });
}

fn spawn(store: &str, session: SessionId) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "sessions::writer", "--ignored", "--nocapture"])
        .env(STORE, store)
        .env(SESSION, session.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

/// Kills writers at many moments. Checks after each that only whole rounds are there, and every
/// round whose write was confirmed.
fn a_killed_writer_leaves_whole_rounds(url: &str, kills: u32) {
    run(async {
        let store = open(url).await;
        let lease = begin(&store).await;
        let id = lease.session();
        store.release_session(&lease).await.expect("released");
        let mut last = 0;
        for kill in 0..kills {
            let mut child = spawn(url, id);
            let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
            assert!(lines.any(|line| line.expect("a line").contains("written ")), "run {kill}");
            // Another moment for each kill, not a wait for an event.
            std::thread::sleep(Duration::from_micros(u64::from(kill * 7919 % 20_000)));
            child.kill().expect("killed");
            child.wait().expect("waited for");
            let said = lines.map_while(Result::ok).filter_map(|line| {
                line.strip_prefix("written ").and_then(|number| number.parse::<u64>().ok())
            });
            let said = said.last().unwrap_or(last + ROUND as u64);
            // A server may still be working for the killed writer. It rolls back or commits what
            // it began before it releases the lock of the session.
            let lease = store.lease_session(&id, "writer", HOUR).await.expect("leased");
            let session = store.session(&id).await.expect("there");
            assert!(session.events >= said, "run {kill}: a round is lost: {said} {session:?}");
            assert_eq!(session.events % ROUND as u64, 0, "run {kill}: half a round");
            let sums = (session.events, session.events * 3000);
            assert_eq!((session.turns, session.bytes), sums, "run {kill}");
            let new = store.session_events(&id, last, u32::MAX).await.expect("events");
            let numbers: Vec<_> = new.iter().map(|event| event.seq).collect();
            let expected: Vec<_> = (last + 1..=session.events).collect();
            assert_eq!(numbers, expected, "run {kill}: the events have a gap");
            last = session.events;
            store.release_session(&lease).await.expect("released");
        }
        assert!(last > u64::from(kills) * ROUND as u64, "some wrote more than a round: {last}");
    });
}

#[test]
fn a_killed_writer_leaves_whole_rounds_in_sqlite() {
    let directory = directory();
    a_killed_writer_leaves_whole_rounds(&sqlite(directory.path()), 60);
}

#[test]
fn a_killed_writer_leaves_whole_rounds_in_postgres() {
    let Some(server) = Server::start().expect("a server") else { return };
    let url = server.create_database("killed").expect("a database");
    a_killed_writer_leaves_whole_rounds(&url, 30);
}

/// Checks a lease of an hour while `turn` sets the clock forward or back by a number of seconds.
async fn clocks_may_jump<F: Future<Output = ()>>(url: &str, turn: impl Fn(i64) -> F) {
    let day = i64::try_from(DAY.as_secs()).expect("fits");
    let store = open(url).await;
    let lease = begin(&store).await;
    let id = lease.session();
    let is_held = async || store.session(&id).await.expect("there").holder.is_some();
    let event = [NewEvent { kind: "note", json: "1", begins_turn: false }];
    for (jump, holds) in [(60, true), (-60, true), (1800, true), (-1800, true), (day, false)] {
        store.renew_session(&lease, HOUR).await.expect("renewed");
        turn(jump).await;
        assert_eq!(is_held().await, holds, "after a jump by {jump} s");
        let last = store.session(&id).await.expect("there").events;
        let done = store.append_events(&lease, last, &event, HOUR).await;
        done.expect("the holder goes on, whatever the time");
        assert!(is_held().await, "after a jump by {jump} s and a write");
    }
    // The holder is gone and the clock is set back. Its session does not stay locked for that
    // time.
    turn(-day).await;
    assert!(!is_held().await);
    let other = store.lease_session(&id, "there", HOUR).await.expect("taken over");
    let last = store.session(&id).await.expect("there").events;
    let late = store.append_events(&lease, last, &event, HOUR).await.expect_err("taken over");
    assert!(matches!(late, Error::SessionLost(_)), "{late:?}");
    store.append_events(&other, last, &event, HOUR).await.expect("appended");
    assert!(store.sessions_older_than(&ann(), HOUR).await.expect("read").is_empty());
}

/// A test cannot set the host's clock, so the leases move instead.
#[test]
fn the_clock_of_a_host_may_jump() {
    let directory = directory();
    let url = sqlite(directory.path());
    run(clocks_may_jump(&url, async |jump| {
        let other = other(&directory);
        let statement = "UPDATE sessions SET leased_at = leased_at - $1 * 1000000, \
            lease_until = lease_until - $1 * 1000000, updated_at = updated_at - $1 * 1000000";
        other.execute(statement, [jump]).expect("moved");
    }));
}

/// The clock is the server's: this one is a year ahead of the host, and jumps.
#[test]
fn the_clock_of_a_server_may_jump() {
    let Some(server) = Server::start().expect("a server") else { return };
    let url = server.create_database("clock").expect("a database");
    let ahead = Duration::from_secs(365 * DAY.as_secs());
    let clock = "CREATE SCHEMA own; CREATE TABLE own.ahead (seconds BIGINT); \
        INSERT INTO own.ahead VALUES (365 * 24 * 3600); \
        CREATE FUNCTION own.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS \
        'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second'' FROM own.ahead'; \
        ALTER DATABASE clock SET search_path = public, own, pg_catalog";
    for statement in clock.split("; ") {
        server.psql("clock", statement).expect("the clock is ours");
    }
    run(async {
        let store = open(&url).await;
        let session = store.session(&begin(&store).await.session()).await.expect("there");
        let holder = session.holder.expect("held by the server's clock");
        let early = SystemTime::now() + ahead - HOUR;
        assert!(session.created_at > early && holder.until > early, "{holder:?}");
        clocks_may_jump(&url, async |jump: i64| {
            let statement = format!("UPDATE own.ahead SET seconds = seconds + {jump}");
            server.psql("clock", &statement).expect("set");
        })
        .await;
    });
}

#[test]
fn lists_use_the_index_of_sqlite() {
    let directory = directory();
    let url = sqlite(directory.path());
    run(async {
        open(&url).await.close().await;
        let other = other(&directory);
        let steps = plan(
            &other,
            "SELECT id, title, events, turns, bytes FROM sessions \
             WHERE agent = 'a' ORDER BY updated_at DESC, id DESC LIMIT 20",
        );
        assert_eq!(steps, ["SEARCH sessions USING INDEX sessions_by_time (agent=?)"], "no sort");
    });
}

#[test]
fn lists_use_the_index_of_postgres() {
    let Some(server) = Server::start().expect("a server") else { return };
    let url = server.create_database("listed").expect("a database");
    run(async { open(&url).await.close().await });
    let plan = "SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN SELECT id, title \
        FROM sessions WHERE agent = 'a' ORDER BY updated_at DESC, id DESC LIMIT 20";
    let plan = server.psql("listed", plan).expect("a plan");
    assert!(plan.contains("Backward using sessions_by_time"), "{plan}");
    assert!(!plan.contains("Sort") && !plan.contains("Filter"), "{plan}");
}

#[test]
fn a_list_with_a_spoilt_row_is_refused() {
    let directory = directory();
    let url = sqlite(directory.path());
    run(async {
        let store = open(&url).await;
        begin(&store).await;
        let other = other(&directory);
        let ann = ann();
        let filter = SessionFilter { agent: &ann, workspace: None };
        // SQLite keeps a value of any type in any column.
        for spoilt in [
            "turns = 'many'",
            "turns = 1.5",
            "turns = -1",
            "lease_until = 'x'",
            "forked_from = 'no id'",
            "forked_from = '[]'",
        ] {
            let id = begin(&store).await.session();
            let spoil = format!("UPDATE sessions SET {spoilt} WHERE id = '{id}'");
            other.execute_batch(&spoil).expect("spoilt");
            let error = store.sessions(&filter, None).await.expect_err("one is spoilt");
            assert!(matches!(error, Error::Damaged { .. }), "{spoilt}: {error:?}");
            let remove = format!("DELETE FROM sessions WHERE id = '{id}'");
            other.execute_batch(&remove).expect("removed");
            assert_eq!(store.sessions(&filter, None).await.expect("listed").len(), 1);
        }
    });
}
