//! The tools that this user approved, with which the signer of a new file is compared.
//!
//! A workspace's lock is not an approval, since all users with write access to the workspace can
//! change it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ikigai_host::paths::Paths;
use ikigai_packages::{LockedTool, ToolsLock};

use super::lock_file::read_lock;
use super::staging::ToolSource;
use crate::error::{CliError, with_path};

/// The directory of the locks with the user's approvals, one for each workspace.
pub(super) const APPROVED: &str = "approved";

/// The locks that only this user writes. An earlier lock overrides a later one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approvals {
    /// The locks in which a tool is found by its name.
    here: Vec<ToolsLock>,
    /// The locks of all workspaces. A name means another tool in each, so only a reference counts.
    elsewhere: Vec<ToolsLock>,
}

impl Approvals {
    /// Returns the approvals in the locks `here`, and those for all workspaces.
    pub(crate) fn read(here: &[&Path], paths: &Paths) -> Result<Self, CliError> {
        let read = |locks: Vec<&Path>| locks.into_iter().map(read_lock).collect::<Result<_, _>>();
        let elsewhere = all_approved(paths)?;
        let elsewhere = elsewhere.iter().map(|path| &**path).collect();
        Ok(Self { here: read(here.to_vec())?, elsewhere: read(elsewhere)? })
    }

    /// Returns the approved tool whose signer a file must have: the tool with its name, or else the
    /// tool from its own reference in any workspace. The path of a layout does not count, because a
    /// layout has many tools.
    pub(crate) fn find<'a>(
        &'a self,
        name: &'a str,
        source: &ToolSource,
    ) -> Option<(&'a str, &'a LockedTool)> {
        let by_name = self.here.iter().find_map(|lock| Some((name, lock.get(name)?)));
        by_name.or_else(|| {
            let reference = source.reference.as_deref()?;
            let mut locks = self.here.iter().chain(&self.elsewhere);
            locks.find_map(|lock| lock.of_source(reference))
        })
    }
}

/// Returns the paths of the locks with the user's approvals in all workspaces, including the locks
/// of entries that have left a workspace's lock.
fn all_approved(paths: &Paths) -> Result<Vec<PathBuf>, CliError> {
    paths.workspace_tools().map_or(Ok(Vec::new()), |files| locks_in(&files.join(APPROVED)))
}

/// Returns the paths of the locks in a directory, in order.
pub(super) fn locks_in(directory: &Path) -> Result<Vec<PathBuf>, CliError> {
    let listed = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => with_path(listed, "list", directory)?,
    };
    let mut locks = Vec::new();
    for entry in listed {
        let path = with_path(entry, "list", directory)?.path();
        if path.extension().is_some_and(|extension| extension == "lock") {
            locks.push(path);
        }
    }
    locks.sort();
    Ok(locks)
}
