//! Damage of a file: texts that differ from the written ones, and tables that differ from the
//! ones that were made.

use std::time::Duration;

use ikigai_assets::{
    Agent, AssetPath, Author, ChangeCause, Damage, Error, NewEvent, NewSession, Precondition,
    Store, StoreOptions, StoreRemedy, StoreUrl, StoredText,
};

use crate::{directory, sqlite};

fn path(text: &str) -> AssetPath {
    AssetPath::parse(text).expect("a path")
}

fn ann() -> Author {
    Author { agent: Agent::new("ann@host").expect("a name"), cause: ChangeCause::Write }
}

/// A version of an asset, as errors and checks name it.
fn version(name: &str, version: u64) -> StoredText {
    StoredText::Asset { path: path(name), version }
}

async fn open(directory: &tempfile::TempDir) -> Store {
    let url = StoreUrl::parse(&sqlite(directory.path())).expect("an address");
    Store::open(&url, &StoreOptions::default()).await.expect("it opens")
}

async fn write(store: &Store, name: &str, text: &str) -> Result<(), Error> {
    store.write(&path(name), text.as_bytes(), &ann(), Precondition::Any).await.map(|_| ())
}

/// Changes the file as a fault does, by a statement.
fn damage(directory: &tempfile::TempDir, statement: &str) {
    let file = directory.path().join("store.db");
    let other = rusqlite::Connection::open(file).expect("it opens");
    other.execute_batch(statement).expect("changed");
}

#[track_caller]
fn assert_altered<T: std::fmt::Debug>(found: Result<T, Error>, expected: &StoredText) {
    assert!(matches!(&found, Err(Error::Altered { text, .. }) if text == expected), "{found:?}");
}

#[tokio::test]
async fn a_text_that_was_altered_is_not_read_and_an_older_version_replaces_it() {
    let directory = directory();
    let store = open(&directory).await;
    for (name, text) in [("a", "first"), ("a", "second"), ("b", "other")] {
        write(&store, name, text).await.expect("written");
    }
    store.pin(&ann().agent, &path("a")).await.expect("pinned");
    assert_eq!(store.check().await.expect("checked"), []);
    damage(&directory, "UPDATE stored_assets SET content = x'7365636f6e65' WHERE path = 'a'");
    let altered = version("a", 2);
    assert_altered(store.read(&path("a")).await, &altered);
    assert_altered(store.version(&path("a"), 2).await, &altered);
    assert_altered(store.edit(&path("a"), b"sec", b"min", false, &ann()).await, &altered);
    assert_altered(store.restore(&path("a"), 2, &ann().agent).await, &altered);
    assert_altered(store.pinned(&ann().agent).await, &altered);
    assert_eq!(store.read(&path("b")).await.expect("another asset").content, b"other");
    assert_eq!(store.check().await.expect("checked"), [Damage::Text(altered.clone())]);

    let error = store.read(&path("a")).await.expect_err("altered");
    assert!(
        error.to_string().ends_with("version 2 of asset `a` is not what was written"),
        "{error}"
    );
    assert_eq!(error.remedy(), Some(StoreRemedy::RestoreVersion));
    store.restore(&path("a"), 1, &ann().agent).await.expect("the older version is intact");
    assert_eq!(store.read(&path("a")).await.expect("read").content, b"first");
    assert_altered(store.version(&path("a"), 2).await, &altered);
    damage(&directory, "UPDATE asset_versions SET content = x'00' WHERE version = 1");
    assert_altered(store.restore(&path("a"), 1, &ann().agent).await, &version("a", 1));
    let found = [version("a", 1), altered].map(Damage::Text);
    assert_eq!(store.check().await.expect("checked"), found);
}

/// A damaged index leads to the row of another text, which is intact.
#[tokio::test]
async fn a_text_under_the_name_of_another_is_not_read() {
    let directory = directory();
    let store = open(&directory).await;
    for (name, text) in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "other"), ("b", "others")] {
        write(&store, name, text).await.expect("written");
    }
    let of_b = "(SELECT content, digest FROM stored_assets WHERE path = 'b')";
    let other = format!("UPDATE stored_assets SET (content, digest) = {of_b} WHERE path = 'a'");
    damage(&directory, &other);
    assert_altered(store.read(&path("a")).await, &version("a", 3));
    damage(&directory, "UPDATE asset_versions SET version = 11 WHERE path = 'a' AND version = 1");
    assert_altered(store.version(&path("a"), 11).await, &version("a", 11));
}

#[tokio::test]
async fn an_event_that_was_altered_is_not_read_and_a_fork_has_the_turns_before_it() {
    let directory = directory();
    let store = open(&directory).await;
    let new = NewSession { workspace: "/w", title: None, provider: None, model: None };
    let hour = Duration::from_hours(1);
    let lease = store.create_session(&ann().agent, &new, "here", hour).await.expect("made");
    let event = |json| NewEvent { kind: "prompt", json, begins_turn: true };
    let events = [event("1"), event("2"), event("3")];
    store.append_events(&lease, 0, &events, hour).await.expect("appended");
    let session = lease.session();
    let altered = |session| StoredText::Event { session, seq: 2 };
    for (damaged, repaired) in
        [("json = x'37'", "json = x'32'"), ("kind = 'prompu'", "kind = 'prompt'")]
    {
        damage(&directory, &format!("UPDATE session_events SET {damaged} WHERE seq = 2"));
        assert_altered(store.session_events(&session, 0, 10).await, &altered(session));
        damage(&directory, &format!("UPDATE session_events SET {repaired} WHERE seq = 2"));
        assert_eq!(store.session_events(&session, 0, 10).await.expect("read").len(), 3);
    }
    damage(&directory, "UPDATE session_events SET json = x'37' WHERE seq = 2");
    let whole = store.fork_session(&session, 3, &ann().agent, "here", hour).await.expect("forked");
    let whole = whole.session();
    assert_altered(store.session_events(&whole, 0, 10).await, &altered(whole));
    let up_to = store.end_of_turn(&session, 1).await.expect("known without the texts");
    let part =
        store.fork_session(&session, up_to, &ann().agent, "here", hour).await.expect("forked");
    assert_eq!(store.session_events(&part.session(), 0, 10).await.expect("read").len(), 1);
    let mut found = store.check().await.expect("checked");
    found.retain(|it| *it != Damage::Text(altered(session)));
    assert_eq!(found, [Damage::Text(altered(whole))], "both are found, and no other");
    let error = store.session_events(&session, 0, 10).await.expect_err("altered");
    assert_eq!(error.remedy(), Some(StoreRemedy::ForkBefore));
}

#[tokio::test]
async fn damage_of_the_tables_is_called_so_unless_a_newer_version_changed_them() {
    for statement in [
        "ALTER TABLE stored_assets RENAME COLUMN tokens TO tokenz",
        "DROP TABLE asset_versions",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, \
         'NOT NULL DEFAULT FALSE', 'NOT NULL CHECK (read_only > 7)') WHERE name = 'stored_assets'",
    ] {
        let directory = directory();
        write(&open(&directory).await, "a", "text").await.expect("written");
        damage(&directory, statement);
        let store = open(&directory).await;
        let error = write(&store, "a", "other").await.expect_err("it cannot be written");
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        assert_eq!(error.remedy(), Some(StoreRemedy::Recover));
        damage(&directory, "INSERT INTO ikigai_migrations (version) VALUES (7)");
        let error = write(&store, "a", "other").await.expect_err("it cannot be written");
        assert!(matches!(error, Error::Newer { found: 7, .. }), "{error:?}");
    }
}

/// An index whose rows differ from its table's is damage that no text shows.
#[tokio::test]
async fn a_check_finds_what_sqlite_finds() {
    let directory = directory();
    let store = open(&directory).await;
    write(&store, "a", "text").await.expect("written");
    store.close().await;
    damage(
        &directory,
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'replaced_at', \
         'written_at') WHERE name = 'asset_versions_by_age'",
    );
    let store = open(&directory).await;
    write(&store, "a", "other").await.expect("written");
    store.close().await;
    damage(
        &directory,
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'written_at', \
         'replaced_at') WHERE name = 'asset_versions_by_age'",
    );
    let found = open(&directory).await.check().await.expect("checked");
    let [Damage::File(reason)] = &found[..] else { panic!("{found:?}") };
    assert!(reason.contains("asset_versions_by_age"), "{reason}");
}
