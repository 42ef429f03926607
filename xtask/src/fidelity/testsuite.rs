//! The cases of wasi-testsuite, which has a folder of compiled files for each suite.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::case::TestCase;
use super::{RootPlace, TestSuite};

/// The suites: name, folder, and the place of the cases' directory.
const SUITES: [(&str, &str, RootPlace); 4] = [
    ("C, preview 1", "tests/c/testsuite/wasm32-wasip1", RootPlace::Workspace),
    (
        "AssemblyScript, preview 1",
        "tests/assemblyscript/testsuite/wasm32-wasip1",
        RootPlace::Workspace,
    ),
    ("Rust, preview 1", "tests/rust/testsuite/wasm32-wasip1", RootPlace::Slash),
    ("Rust, WASI 0.3", "tests/rust/testsuite/wasm32-wasip3", RootPlace::OnlyPreopen),
];

/// Reads the suites of a checkout.
///
/// # Errors
///
/// Fails if a folder has no cases, or if a description cannot be read.
pub(super) fn suites(checkout: &Path) -> anyhow::Result<Vec<TestSuite>> {
    let mut suites = Vec::new();
    for (name, folder, root) in SUITES {
        let files = case_files(&checkout.join(folder))?;
        let cases = files.iter().map(|file| TestCase::read(file)).collect::<Result<_, _>>()?;
        suites.push(TestSuite { name, root, cases });
    }
    Ok(suites)
}

/// Returns the files of a suite's cases, sorted.
fn case_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let list = || {
        format!(
            "cannot list `{}`; it needs a checkout of the branch prod/testsuite-base",
            folder.display()
        )
    };
    let entries = fs::read_dir(folder).with_context(list)?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = paths.with_context(list)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    paths.sort();
    ensure!(!paths.is_empty(), "`{}` has no .wasm files", folder.display());
    Ok(paths)
}
