//! The tiers of compiled code, for tests: a large component first runs as baseline code.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use ikigai_protocol::Digest;

use crate::paths;

/// A number of bytes that makes any component large enough to run as baseline code first (`SLOW` in
/// the host's `registry/loader.rs`).
pub const ABOVE_THE_BASELINE: u32 = 4 << 20;

/// Makes the host find in its cache that this component's code cannot be optimised, so that it
/// stays baseline code. Returns the files that record this.
///
/// # Panics
///
/// Panics if the cache cannot be written.
pub fn leave_unoptimised(cache: &Path, component: &[u8]) -> Vec<PathBuf> {
    let leave = |dir: PathBuf| {
        let note = dir.join(note(component));
        fs::write(&note, "was left so by a test").expect("written");
        note
    };
    of_optimised_code(cache).into_iter().map(leave).collect()
}

/// Returns the directories of a cache for optimised code, as an installation has it. Creates the
/// missing ones.
///
/// # Panics
///
/// Panics if the directories cannot be created.
pub fn of_optimised_code(cache: &Path) -> Vec<PathBuf> {
    let engines = engines(&paths::tools().join(".cache")).into_iter();
    let dirs = engines.map(|engine| {
        let dir = cache.join("components").join(engine.file_name().expect("a name"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).expect("made");
        dir
    });
    dirs.collect()
}

/// Undoes [`leave_unoptimised`].
///
/// # Panics
///
/// Panics if [`leave_unoptimised`] was not called.
pub fn let_optimise(cache: &Path, component: &[u8]) {
    for dir in of_optimised_code(cache) {
        fs::remove_file(dir.join(note(component))).expect("removed");
    }
}

fn note(component: &[u8]) -> String {
    format!("{}.unoptimised", Digest::from_bytes(component))
}

/// Returns the compiled components of a cache, sorted by name.
#[must_use]
pub fn compiled(cache: &Path) -> Vec<PathBuf> {
    let files = engines(cache).into_iter().flat_map(fs::read_dir).flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "cwasm"));
    paths.sort();
    paths
}

/// Returns whether an entry of a cache is baseline code: code of another engine than the code that
/// an installation has.
#[must_use]
pub fn is_of_the_baseline(entry: &Path) -> bool {
    let optimised = engines(&paths::tools().join(".cache"));
    let of = |path: &Path| path.file_name().map(ToOwned::to_owned);
    let engine = entry.parent().and_then(of);
    !optimised.iter().any(|optimised| of(optimised) == engine)
}

/// Returns the directories of a cache, one for each engine that compiled for it.
fn engines(cache: &Path) -> Vec<PathBuf> {
    let engines = fs::read_dir(cache.join("components")).into_iter().flatten().flatten();
    engines.map(|engine| engine.path()).collect()
}
