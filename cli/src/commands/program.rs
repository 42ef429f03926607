//! Finds the programs that users name on the command line.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::variables::ProgramVariable;

/// Returns the absolute path of a program, as a shell would find it by this name.
pub(super) fn find(program: &str) -> anyhow::Result<String> {
    let is_program = |path: &PathBuf| {
        path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let found = if program.contains('/') {
        Some(std::path::absolute(program)?).filter(is_program)
    } else {
        let dirs = ProgramVariable::Path.value().unwrap_or_default();
        let dirs: Vec<PathBuf> = env::split_paths(&dirs).filter(|dir| dir.is_absolute()).collect();
        dirs.into_iter().map(|dir| dir.join(program)).find(is_program)
    };
    text(found.with_context(|| format!("there is no program `{program}`"))?)
}

/// Returns the absolute path of a program or of a WebAssembly file, which need not be executable.
pub(super) fn find_with_wasm(program: &str) -> anyhow::Result<String> {
    let path = Path::new(program);
    if path.extension().is_some_and(|extension| extension == "wasm") && path.is_file() {
        return text(std::path::absolute(path)?);
    }
    find(program)
}

fn text(path: PathBuf) -> anyhow::Result<String> {
    let path = path.into_os_string().into_string();
    path.map_err(|path| anyhow::anyhow!("the path `{}` is not UTF-8", path.display()))
}
