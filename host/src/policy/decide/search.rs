//! The directories in which a native tool looks for programs and for the code that they load. They
//! never include a directory in which another tool may write.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::reach::WritablePlaces;
use crate::paths;

/// The variable with the directories of programs.
pub(super) const PATH: &str = "PATH";

/// The variables that name directories or files with code for the loader and for interpreters. In
/// the sandbox they keep the values from the tool's entry, and affect only that tool.
const CODE: [&str; 10] = [
    "BASH_ENV",
    "ENV",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_PATH",
    "PERL5LIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "RUBYLIB",
];

/// Removes from the environment of a native tool the directories of `PATH` that are relative or in
/// which a tool may write. For an unconfined tool, also removes such directories from the variables
/// of [`CODE`]. Returns the directories removed from `PATH`.
pub(super) fn keep_out_of_reach(
    env: &mut Vec<(OsString, OsString)>,
    is_unconfined: bool,
    reach: &WritablePlaces<'_>,
) -> Vec<PathBuf> {
    let mut lost = Vec::new();
    env.retain_mut(|(name, value)| {
        let is_path = name == PATH;
        if !(is_path || is_unconfined && CODE.iter().any(|code| name == code)) {
            return true;
        }
        let (kept, left_out): (Vec<PathBuf>, _) =
            std::env::split_paths(value).partition(|dir| is_out_of_reach(dir, reach));
        if left_out.is_empty() {
            return true;
        }
        if is_path {
            lost = left_out;
        }
        *value = std::env::join_paths(kept).unwrap_or_default();
        // An empty list would mean the working directory.
        !value.is_empty()
    });
    lost
}

fn is_out_of_reach(dir: &Path, reach: &WritablePlaces<'_>) -> bool {
    dir.is_absolute() && paths::resolution_steps(dir).iter().all(|step| reach.holds(step).is_none())
}

/// Returns the program of this name in the first of `dirs` that has it.
pub(super) fn find(name: &OsStr, dirs: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    dirs.into_iter().map(|dir| dir.join(name)).find(is_program)
}
