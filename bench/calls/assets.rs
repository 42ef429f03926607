//! The cost of assets. Measures reading one through a tool, compared with a file of the same text,
//! listing them by the thousand, and writing them under a budget. Also measures a list of as many
//! sessions.
//!
//! The store is an SQLite file in memory, where syncing costs nothing. The time that a disk takes
//! to sync is not part of the host's cost.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use ikigai_agent::assets::StoredAssets;
use ikigai_assets::{
    Agent, AssetPath, Author, Budget, Capacity, ChangeCause, NewEvent, NewSession, Precondition,
    SessionFilter, Store, StoreUrl,
};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{self, Rig, Served};
use crate::samples::{Samples, in_turn, of_each};

/// The size in bytes of the asset that is read, and of the file that it is compared with.
const BYTES: usize = 10 << 10;

/// The number of assets that are listed by one prefix, and of sessions that are listed.
const MANY: u32 = 10_000;

/// The calls of each kind in one sample.
const CALLS: u32 = 40;

/// The lease of a session that nothing continues.
const LEASE: Duration = Duration::from_secs(60);

/// Measures the figures `asset`, `assets_list`, `assets_write` and `sessions_list`.
pub(crate) fn measure(rig: &Rig) -> anyhow::Result<[Samples; 4]> {
    let memory = Path::new("/dev/shm");
    let scratch = if memory.is_dir() { TempDir::new_in(memory)? } else { TempDir::new()? };
    let runtime = rig::runtime()?;
    let file = scratch.path().join("store/store.db");
    let url = StoreUrl::sqlite(&file);
    let assets = Arc::new(StoredAssets::at(Ok(url), Budget::default(), Capacity::default()));
    let agent = Agent::new("bench@here")?;
    let author = Author { agent: agent.clone(), cause: ChangeCause::Write };
    let text = "0123456789abcde\n".repeat(BYTES / 16);
    let asset = AssetPath::parse("blocks/ten.md")?;
    runtime.block_on(async {
        let store = assets.open().await?;
        store.write(&asset, text.as_bytes(), &author, Precondition::Any).await?;
        store.pin(&agent, &asset).await?;
        for number in 0..MANY {
            let path = AssetPath::parse(&format!("many/{number:05}.md"))?;
            store.write(&path, b"one of many", &author, Precondition::Any).await?;
        }
        anyhow::Ok(())
    })?;
    let workspace = scratch.path().join("workspace");
    std::fs::create_dir(&workspace)?;
    std::fs::write(workspace.join("ten.md"), &text)?;

    let host = rig.host(&workspace).assets(Arc::clone(&assets) as _, agent.as_str()).build()?;
    let served = RefCell::new(Served::new(host)?);
    let call = |tool, input: &Bytes| served.borrow_mut().call(1, CALLS, tool, input);
    let input = |value: Value| Bytes::from(value.to_string());
    let asset_input = input(json!({ "file_path": "ikigai:///blocks/ten.md" }));
    let file_input = input(json!({ "file_path": "ten.md" }));
    let written = input(json!({ "file_path": "ikigai:///blocks/written.md", "content": text }));
    let mut read = in_turn(
        rig.rounds(5),
        &mut [
            ("asset", 1, &mut || call("file_read", &asset_input)),
            ("file", 1, &mut || call("file_read", &file_input)),
            ("written", 1, &mut || call("file_write", &written)),
        ],
    )?;
    for subject in ["asset", "file", "written"] {
        of_each(&mut read, subject, CALLS);
    }
    let store = runtime.block_on(assets.open())?;
    let mut list = || {
        let found = runtime.block_on(store.list("many/", None))?;
        ensure!(found.len() == MANY as usize, "{} assets are listed", found.len());
        Ok(())
    };
    let database = Connection::open(&file)?;
    // `0` follows `/` in ASCII.
    let paths = "SELECT path FROM stored_assets WHERE path >= 'many/' AND path < 'many0'";
    let mut rows = || step_through(&database, paths);
    let list = in_turn(rig.rounds(20), &mut [("list", 1, &mut list), ("limit", 1, &mut rows)])?;
    let mut write = || {
        let write = store.write(&asset, text.as_bytes(), &author, Precondition::Any);
        runtime.block_on(write)?;
        Ok(())
    };
    let one_row = Connection::open(scratch.path().join("one-row.db"))?;
    one_row.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE documents (path TEXT PRIMARY KEY, content BLOB)",
    )?;
    let mut replace = || {
        let mut statement = one_row.prepare_cached("REPLACE INTO documents VALUES (?1, ?2)")?;
        statement.execute(("blocks/ten.md", text.as_bytes()))?;
        Ok(())
    };
    let write =
        in_turn(rig.rounds(5), &mut [("write", 10, &mut write), ("limit", 10, &mut replace)])?;
    runtime.block_on(keep_sessions(store, &agent))?;
    let filter = SessionFilter { agent: &agent, workspace: None };
    let mut sessions = || {
        let found = runtime.block_on(store.sessions(&filter, None))?;
        ensure!(found.len() == MANY as usize, "{} sessions are listed", found.len());
        Ok(())
    };
    let mut rows = || step_through(&database, "SELECT id FROM sessions");
    let sessions =
        in_turn(rig.rounds(20), &mut [("list", 1, &mut sessions), ("limit", 1, &mut rows)])?;
    Ok([read, list, write, sessions])
}

/// Makes SQLite read the keys of [`MANY`] rows without using them. No listing can be faster.
fn step_through(database: &Connection, statement: &str) -> anyhow::Result<()> {
    let mut statement = database.prepare_cached(statement)?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while rows.next()?.is_some() {
        count += 1;
    }
    ensure!(count == MANY, "{count} rows are read, not {MANY}");
    Ok(())
}

/// Keeps sessions of one turn each.
async fn keep_sessions(store: &Store, agent: &Agent) -> anyhow::Result<()> {
    let session = NewSession {
        workspace: "/home/ann/projects/ikigai",
        title: Some("A title of some length, as a first prompt would be"),
        provider: Some("anthropic"),
        model: Some("a-model-of-this-year"),
    };
    let prompt = [NewEvent { kind: "prompt", json: r#"{"text":"x"}"#, begins_turn: true }];
    for _ in 0..MANY {
        let lease = store.create_session(agent, &session, "bench", LEASE).await?;
        store.append_events(&lease, 0, &prompt, LEASE).await?;
    }
    Ok(())
}
