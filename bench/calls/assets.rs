//! The cost of assets. A tool reads an asset, and a file of the same text for comparison. A caller
//! writes an asset under a budget.
//!
//! The store is a SQLite file in memory, where syncing costs nothing. The time that a disk takes for
//! syncing does not count.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ikigai_agent::assets::StoredAssets;
use ikigai_assets::{
    Agent, AssetPath, Author, Budget, Capacity, ChangeCause, Precondition, StoreUrl,
};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{self, Rig, Served, micros_of_each};
use crate::sampling::{Samples, in_turn, micros};

/// The size of the asset that the tool reads and of the file for comparison, in bytes.
const BYTES: usize = 10 << 10;

/// The number of other assets in the store.
const MANY: u32 = 10_000;

/// The calls of each kind in one sample.
const CALLS: u32 = 40;

/// Measures the figures `asset` and `assets_write`.
pub(crate) fn measure(rig: &Rig) -> anyhow::Result<[Samples; 2]> {
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
    let call =
        |input: &Bytes| micros(CALLS, || served.borrow_mut().call(CALLS, "file_read", input));
    let input = |value: Value| Bytes::from(value.to_string());
    let asset_input = input(json!({ "file_path": "ikigai:///blocks/ten.md" }));
    let file_input = input(json!({ "file_path": "ten.md" }));
    let read = in_turn(
        rig.rounds(5),
        &mut [("asset", &mut || call(&asset_input)), ("file", &mut || call(&file_input))],
    )?;
    let store = runtime.block_on(assets.open())?;
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
    let write = in_turn(
        rig.rounds(5),
        &mut [
            ("write", &mut || micros_of_each(10, &mut write)),
            ("sqlite", &mut || micros_of_each(10, &mut replace)),
        ],
    )?;
    Ok([read, write])
}
