//! Where a native tool looks for programs and for what they load: nowhere that another tool
//! may write.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::reach::Reach;
use crate::paths;

/// The variable that lists where programs are.
pub(super) const PATH: &str = "PATH";

/// Variables that list where the loader and interpreters find code, or name a file of it.
/// To a tool in the sandbox they are what its entry says, and harm nobody else.
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

/// Takes out of the environment of a native tool the directories of `PATH` that are relative
/// or within reach of a tool, and of one that runs unconfined those of its code as well.
/// Gives back what `PATH` has lost.
pub(super) fn keep_out_of_reach(
    env: &mut Vec<(OsString, OsString)>,
    is_unconfined: bool,
    reach: &Reach<'_>,
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

fn is_out_of_reach(dir: &Path, reach: &Reach<'_>) -> bool {
    dir.is_absolute()
        && paths::resolution_steps(dir).iter().all(|place| reach.holds(place).is_none())
}

/// The program of this name in the first of `dirs` that has it.
pub(super) fn find(name: &OsStr, dirs: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    dirs.into_iter().map(|dir| dir.join(name)).find(is_program)
}
