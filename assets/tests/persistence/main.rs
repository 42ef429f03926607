//! Stores in files and databases, which outlive a process and are shared by several.

mod atomicity;
mod damage;
mod opening;
mod pages;
mod sessions;
mod threads;

use std::path::Path;

/// Makes a directory for SQLite files, in memory if the system allows that: the speed of a disk
/// is not tested, and a killed process loses nothing there.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        .expect("a directory")
}

fn sqlite(directory: &Path) -> String {
    format!("sqlite:{}", directory.join("store.db").display())
}

/// Returns the steps in which SQLite would run a statement.
fn plan(connection: &rusqlite::Connection, statement: &str) -> Vec<String> {
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).expect("a plan");
    let steps = plan.query_map([], |row| row.get("detail")).expect("steps");
    steps.map(|step| step.expect("a step")).collect()
}
