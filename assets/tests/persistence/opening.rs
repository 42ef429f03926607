//! Stores that cannot be opened or used, or must not be, and their errors.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ikigai_assets::{
    Agent, AssetPath, Author, ChangeCause, Error, Precondition, Store, StoreOptions, StoreUrl,
};
use ikigai_assets_testing::Server;
use ikigai_protocol::ToolCode;

use crate::plan;

fn path(text: &str) -> AssetPath {
    AssetPath::parse(text).expect(text)
}

fn ann() -> Author {
    Author { agent: Agent::new("ann@host").expect("a name"), cause: ChangeCause::Write }
}

/// Returns options with short timeouts, so that a test soon notices a missing store.
fn short_timeouts() -> StoreOptions {
    StoreOptions {
        busy_timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_millis(500),
        statement_timeout: Duration::from_millis(500),
        ..StoreOptions::default()
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

async fn write(store: &Store, name: &str, content: &[u8]) -> Result<(), Error> {
    store.write(&path(name), content, &ann(), Precondition::Any).await.map(|_| ())
}

async fn refused(url: &StoreUrl) -> Error {
    Store::open(url, &short_timeouts()).await.expect_err("it must not be opened")
}

/// Opens an SQLite file as another program does.
fn raw(file: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(file).expect("it opens")
}

fn execute(connection: &rusqlite::Connection, statements: &str) {
    connection.execute_batch(statements).expect(statements);
}

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }

    fn url(&self) -> StoreUrl {
        StoreUrl::sqlite(self.file())
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn a_new_file_belongs_to_its_owner_alone() {
    let fixture = Fixture::new();
    let file = fixture.directory.path().join("a/b/store.db");
    run(async {
        let store =
            Store::open(&StoreUrl::sqlite(&file), &short_timeouts()).await.expect("it opens");
        write(&store, "x", b"1").await.expect("written");
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(&file.with_file_name("store.db-wal")), 0o600);
        for directory in ["a", "a/b"] {
            assert_eq!(mode(&fixture.directory.path().join(directory)), 0o700);
        }
        let other = raw(&file);
        let journal = other.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
        assert_eq!(journal.expect("read"), "wal");
    });
}

#[test]
fn a_file_that_others_can_change_is_refused() {
    run(async {
        let expect_unsafe = async |fixture: &Fixture, reason: &str| {
            let error = refused(&fixture.url()).await;
            assert!(matches!(error, Error::Unsafe { .. }), "{error:?}");
            assert_eq!(error.code(), ToolCode::OpenFailed);
            assert!(error.to_string().ends_with(reason), "{error}");
            assert!(error.remedy().is_some());
        };
        let fixture = Fixture::new();
        let target = fixture.directory.path().join("target");
        symlink(&target, fixture.file()).expect("a link");
        expect_unsafe(&fixture, "it is a symbolic link").await;
        assert!(!target.exists(), "nothing was made through it");

        for bits in [0o606, 0o660] {
            let fixture = Fixture::new();
            fs::write(fixture.file(), "").expect("written");
            fs::set_permissions(fixture.file(), fs::Permissions::from_mode(bits)).expect("set");
            expect_unsafe(&fixture, "others may write to it").await;
        }

        let fixture = Fixture::new();
        symlink("/dev/null", fixture.directory.path().join("store.db-wal")).expect("a link");
        expect_unsafe(&fixture, "it is a symbolic link").await;

        let fixture = Fixture::new();
        fs::create_dir(fixture.file()).expect("made");
        expect_unsafe(&fixture, "it is not a regular file").await;

        let fixture = Fixture::new();
        for bits in [0o777, 0o1777, 0o770, 0o1770] {
            let permissions = fs::Permissions::from_mode(bits);
            fs::set_permissions(fixture.directory.path(), permissions).expect("set");
            expect_unsafe(&fixture, "others may make files in its directory").await;
            assert!(!fixture.file().exists(), "nothing was made in it");
        }
    });
}

/// Only root can change the owner of a file.
#[test]
fn a_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fixture = Fixture::new();
    let give = |path: &Path, user| chown(path, Some(user), None).expect("given");
    let expect_unsafe = async |reason: &str| {
        let error = refused(&fixture.url()).await;
        assert!(matches!(error, Error::Unsafe { .. }), "{error:?}");
        assert!(error.to_string().ends_with(reason), "{error}");
    };
    run(async {
        give(fixture.directory.path(), 65534);
        expect_unsafe("its directory belongs to another user").await;
        assert!(!fixture.file().exists(), "nothing was made in it");
        give(fixture.directory.path(), 0);
        Store::open(&fixture.url(), &short_timeouts()).await.expect("it opens").close().await;
        give(&fixture.file(), 65534);
        expect_unsafe("it belongs to another user").await;
    });
}

#[test]
#[ignore = "started by the test below as a process in another directory"]
fn relative() {
    let url = StoreUrl::parse(&std::env::var(STORE).expect("a store")).expect("an address");
    run(async {
        let store = Store::open(&url, &short_timeouts()).await.expect("it opens");
        write(&store, "x", b"1").await.expect("written");
        store.close().await;
    });
}

/// To SQLite this path would be the URI of a file `x` that never changes.
#[test]
fn a_path_is_no_uri() {
    let fixture = Fixture::new();
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "opening::relative", "--ignored"])
        .env(STORE, "sqlite:file:x?immutable=1")
        .current_dir(fixture.directory.path())
        .output()
        .expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let made: Vec<_> = fs::read_dir(fixture.directory.path())
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(made, ["file:x?immutable=1"]);
    let url = StoreUrl::sqlite(fixture.directory.path().join(&made[0]));
    run(async {
        let store = Store::open(&url, &short_timeouts()).await.expect("it opens");
        assert_eq!(store.read(&path("x")).await.expect("written there").content, b"1");
    });
}

#[test]
fn a_file_that_is_no_store_is_left_alone() {
    run(async {
        let fixture = Fixture::new();
        let text = "not a database, but long enough to have a header".repeat(100);
        fs::write(fixture.file(), &text).expect("written");
        fs::set_permissions(fixture.file(), fs::Permissions::from_mode(0o600)).expect("set");
        let error = refused(&fixture.url()).await;
        assert!(matches!(error, Error::NotAStore { .. }), "{error:?}");
        assert_eq!(error.code(), ToolCode::OpenFailed);
        assert_eq!(fs::read_to_string(fixture.file()).expect("read"), text);

        let fixture = Fixture::new();
        let other = raw(&fixture.file());
        execute(&other, "CREATE TABLE recipes (name TEXT)");
        drop(other);
        fs::set_permissions(fixture.file(), fs::Permissions::from_mode(0o600)).expect("set");
        let before = fs::read(fixture.file()).expect("read");
        let error = refused(&fixture.url()).await;
        assert!(error.to_string().ends_with("it has the tables of another program"), "{error}");
        assert!(fs::read(fixture.file()).expect("read") == before);
    });
}

#[test]
fn a_newer_store_is_left_alone() {
    run(async {
        let fixture = Fixture::new();
        Store::open(&fixture.url(), &short_timeouts()).await.expect("it opens").close().await;
        let other = raw(&fixture.file());
        execute(&other, "INSERT INTO ikigai_migrations (version) VALUES (7)");
        drop(other);
        let before = fs::read(fixture.file()).expect("read");
        let error = refused(&fixture.url()).await;
        assert!(matches!(error, Error::Newer { found: 7, known: 4, .. }), "{error:?}");
        assert_eq!(error.code(), ToolCode::OpenFailed);
        assert!(fs::read(fixture.file()).expect("read") == before);
    });
}

/// Stores that were made before the first release have versions below 4.
#[test]
fn an_older_store_is_left_alone() {
    run(async {
        let fixture = Fixture::new();
        Store::open(&fixture.url(), &short_timeouts()).await.expect("it opens").close().await;
        execute(&raw(&fixture.file()), "UPDATE ikigai_migrations SET version = 3");
        let before = fs::read(fixture.file()).expect("read");
        let error = refused(&fixture.url()).await;
        assert!(error.to_string().ends_with("a build that was never released"), "{error}");
        assert!(fs::read(fixture.file()).expect("read") == before);
    });
}

#[test]
fn a_locked_store_is_waited_for_and_then_refused() {
    run(async {
        let fixture = Fixture::new();
        let store = Store::open(&fixture.url(), &short_timeouts()).await.expect("it opens");
        write(&store, "x", b"1").await.expect("written");
        let other = raw(&fixture.file());
        execute(&other, "BEGIN EXCLUSIVE");
        assert_eq!(store.read(&path("x")).await.expect("readers do not wait").content, b"1");
        let begun = Instant::now();
        let error = write(&store, "x", b"2").await.expect_err("locked");
        assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
        assert_eq!(error.code(), ToolCode::OpenFailed);
        assert!(error.to_string().contains("locked by another process"), "{error}");
        execute(&other, "ROLLBACK");
        write(&store, "x", b"3").await.expect("it is free again");
        store.close().await;
        // An exclusive lock keeps readers out too.
        execute(&other, "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; COMMIT");
        let error = refused(&fixture.url()).await;
        assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    });
}

/// SQLite continues to write into a file that was removed, and reports success.
#[test]
fn a_file_that_is_removed_or_replaced_takes_nothing_more() {
    run(async {
        let fixture = Fixture::new();
        let (file, aside) = (fixture.file(), fixture.directory.path().join("aside.db"));
        let store = Store::open(&fixture.url(), &StoreOptions::default()).await.expect("it opens");
        write(&store, "x", b"kept").await.expect("written");
        let refuses = async || {
            let error = write(&store, "x", b"lost").await.expect_err("nobody would find it");
            assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
            assert!(error.to_string().contains("was removed or replaced"), "{error}");
            assert!(store.read(&path("x")).await.is_err(), "nor is it what others read");
        };
        fs::rename(&file, &aside).expect("moved");
        refuses().await;
        fs::copy(&aside, &file).expect("another file");
        refuses().await;
        fs::rename(&aside, &file).expect("put back");
        write(&store, "x", b"again").await.expect("written");
        assert_eq!(store.read(&path("x")).await.expect("read").content, b"again");
    });
}

#[test]
fn a_full_store_keeps_what_it_has() {
    run(async {
        let fixture = Fixture::new();
        let options = StoreOptions { sqlite_max_pages: Some(60), ..StoreOptions::default() };
        let store = Store::open(&fixture.url(), &options).await.expect("it opens");
        write(&store, "x", b"kept").await.expect("written");
        let error = write(&store, "x", &[b'y'; 300_000]).await.expect_err("full");
        assert!(matches!(error, Error::Full(_)), "{error:?}");
        assert_eq!(error.code(), ToolCode::NoSpace);
        assert_eq!(store.read(&path("x")).await.expect("read").content, b"kept");
        write(&store, "y", b"small").await.expect("what fits is written");
    });
}

const STORE: &str = "IKIGAI_TEST_STORE";

#[test]
#[ignore = "started by the test below as a process of another user"]
fn reader() {
    let url = StoreUrl::sqlite(std::env::var_os(STORE).expect("a store"));
    run(async {
        let error = match Store::open(&url, &short_timeouts()).await {
            Ok(store) => write(&store, "x", b"2").await.expect_err("nothing can be written"),
            Err(error) => error,
        };
        let is_known = matches!(error, Error::StoreReadOnly(_) | Error::Unreachable { .. });
        assert!(is_known && error.remedy().is_some(), "{error:?}");
    });
}

/// Permissions do not bind root, so another user reads.
#[test]
fn a_store_that_may_only_be_read() {
    use std::os::unix::process::CommandExt as _;
    let fixture = Fixture::new();
    run(async {
        let store = Store::open(&fixture.url(), &short_timeouts()).await.expect("it opens");
        write(&store, "x", b"1").await.expect("written");
        store.close().await;
    });
    let program = fixture.directory.path().join("program");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
    let set = |path: &Path, bits| fs::set_permissions(path, fs::Permissions::from_mode(bits));
    set(&fixture.file(), 0o444).expect("set");
    set(fixture.directory.path(), 0o555).expect("set");
    let mut command = Command::new(program);
    command.args(["--exact", "opening::reader", "--ignored"]).env(STORE, fixture.file());
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().expect("run");
    set(fixture.directory.path(), 0o755).expect("set");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_server_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = format!("postgres://zed:s3cret@127.0.0.1:{port}/team?sslmode=disable");
    let url = StoreUrl::parse(&text).expect("an address");
    run(async {
        // The kernel accepts connections, but no server answers.
        let begun = Instant::now();
        let error = refused(&url).await;
        assert!(matches!(error, Error::Slow { .. }), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        drop(listener);
        let error = refused(&url).await;
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert_eq!(error.code(), ToolCode::OpenFailed);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("zed"), "{shown}");
        assert!(shown.contains(&format!("postgres://127.0.0.1:{port}/team")), "{shown}");
    });
}

/// Everything that needs a server is one test, since starting it takes longer than the rest.
#[test]
fn in_postgres() {
    let Some(server) = Server::start().expect("a server") else { return };
    run(async {
        wrong_password(&server).await;
        foreign_and_newer(&server).await;
        read_only_and_unprivileged(&server).await;
        prefixes_use_the_index(&server).await;
        hanging(&server).await;
        let url = database(&server, "ending");
        let store = Store::open(&url, &short_timeouts()).await.expect("it opens");
        drop(server);
        let error = write(&store, "x", b"").await.expect_err("gone");
        assert_eq!(error.code(), ToolCode::OpenFailed, "{error:?}");
    });
}

fn database(server: &Server, name: &str) -> StoreUrl {
    StoreUrl::parse(&server.create_database(name).expect("a database")).expect("an address")
}

async fn wrong_password(server: &Server) {
    server.psql("postgres", "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'").expect("made");
    server.psql("postgres", "CREATE DATABASE secret").expect("made");
    let url = |user: &str| StoreUrl::parse(&server.url_of(user, "secret")).expect("an address");
    for user in ["guarded:s3cret", "guarded", "nobody_s3cret"] {
        let error = refused(&url(user)).await;
        assert!(matches!(error, Error::Unauthenticated(_)), "{user}: {error:?}");
        assert_eq!(error.code(), ToolCode::OpenFailed);
        let shown = format!("{error} {error:?} {:?}", url(user));
        assert!(!shown.contains("s3cret") && !shown.contains("guarded"), "{shown}");
    }
    let store = Store::open(&url("guarded:right"), &short_timeouts()).await.expect("it opens");
    assert!(!format!("{store:?}").contains("right"));
    let error = refused(&StoreUrl::parse(&server.url("nowhere")).expect("an address")).await;
    assert!(error.to_string().contains("database \"nowhere\" does not exist"), "{error}");
}

async fn foreign_and_newer(server: &Server) {
    let (foreign, newer) = (&database(server, "alien"), &database(server, "newer"));
    server.psql("alien", "CREATE TABLE stored_assets (name TEXT)").expect("made");
    let error = refused(foreign).await;
    assert!(matches!(error, Error::NotAStore { .. }), "{error:?}");
    let tables = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(server.psql("alien", tables).expect("read"), "1", "nothing was made");

    Store::open(newer, &short_timeouts()).await.expect("it opens").close().await;
    let future = "INSERT INTO ikigai_migrations (version) VALUES (7)";
    server.psql("newer", future).expect("made");
    let error = refused(newer).await;
    assert!(matches!(error, Error::Newer { found: 7, known: 4, .. }), "{error:?}");
}

async fn read_only_and_unprivileged(server: &Server) {
    let url = &database(server, "readonly");
    Store::open(url, &short_timeouts()).await.expect("it opens").close().await;
    let roles = "CREATE ROLE writer LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
        GRANT SELECT, INSERT, UPDATE, DELETE ON stored_assets, asset_versions, asset_pins \
        TO writer; GRANT SELECT ON ikigai_migrations TO writer; \
        CREATE ROLE stranger LOGIN";
    server.psql("readonly", roles).expect("made");
    let as_role = |role: &str| StoreUrl::parse(&server.url_of(role, "readonly")).expect("valid");
    let store = Store::open(&as_role("writer"), &short_timeouts())
        .await
        .expect("one that may make no tables");
    write(&store, "x", b"1").await.expect("written");
    let error = refused(&as_role("stranger")).await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert_eq!(error.code(), ToolCode::OpenFailed);
    server
        .psql("postgres", "ALTER DATABASE readonly SET default_transaction_read_only = on")
        .expect("set");
    let store = Store::open(url, &short_timeouts()).await.expect("it opens");
    assert_eq!(store.read(&path("x")).await.expect("read").content, b"1");
    let error = write(&store, "x", b"2").await.expect_err("read-only");
    assert!(matches!(error, Error::StoreReadOnly(_)), "{error:?}");
    assert_eq!(error.code(), ToolCode::ReadOnly);
}

/// Checks that listing by prefix uses the index, in any locale of the database.
async fn prefixes_use_the_index(server: &Server) {
    let url = &database(server, "listed");
    Store::open(url, &short_timeouts()).await.expect("it opens").close().await;
    let plan = "SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN SELECT path FROM stored_assets \
        WHERE path >= 'a' AND path < 'b' ORDER BY path";
    let plan = server.psql("listed", plan).expect("a plan");
    assert!(plan.contains("stored_assets_pkey") && plan.contains("path >= 'a'"), "{plan}");
    assert!(!plan.contains("Sort") && !plan.contains("Filter"), "{plan}");
}

async fn hanging(server: &Server) {
    let url = &database(server, "hanging");
    let store = Store::open(url, &short_timeouts()).await.expect("it opens");
    let mut session = server
        .psql_command("hanging")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a session");
    let mut stdin = session.stdin.take().expect("stdin");
    writeln!(stdin, "BEGIN; LOCK TABLE stored_assets; SELECT 'locked';").expect("read");
    let mut lines = BufReader::new(session.stdout.take().expect("stdout")).lines();
    assert!(lines.any(|line| line.expect("a line") == "locked"));
    let errors = [
        store.read(&path("x")).await.expect_err("it waits"),
        write(&store, "x", b"1").await.expect_err("it waits"),
    ];
    for error in errors {
        assert!(matches!(error, Error::Slow { .. }), "{error:?}");
        assert_eq!(error.code(), ToolCode::OpenFailed);
    }
    drop(stdin);
    session.wait().expect("waited for");
    write(&store, "x", b"1").await.expect("it goes on");
}

#[test]
fn prefixes_use_the_index_of_sqlite() {
    run(async {
        let fixture = Fixture::new();
        Store::open(&fixture.url(), &short_timeouts()).await.expect("it opens").close().await;
        let other = raw(&fixture.file());
        let steps = plan(
            &other,
            "SELECT path, CAST(octet_length(content) AS BIGINT) FROM stored_assets \
             WHERE path >= 'a' AND path < 'b' ORDER BY path",
        );
        assert_eq!(steps.len(), 1, "no sorting: {steps:?}");
        assert!(steps[0].starts_with("SEARCH stored_assets USING INDEX"), "{steps:?}");
    });
}
