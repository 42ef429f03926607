//! The tools of a workspace: the tools in its lock that its user approved.
//!
//! Any user with write access to a workspace may have written its lock. So ikigai offers a tool
//! only if the user has approved exactly its present entry. A copy of the approved entry is stored
//! where tools cannot write. A changed entry is no longer approved.

use std::path::{Path, PathBuf};

use ikigai_host::Digest;
use ikigai_host::paths::Paths;
use ikigai_host::registry::WorkspaceTool;
use ikigai_packages::lock::LockedTool;

use super::approvals::{APPROVED, Approvals, locks_in};
use super::lock_file::{IN_WORKSPACE, LockFile, read_lock};
use super::placement::remove_file;
use crate::error::CliError;

/// The extension of a lock with approved entries that have left the workspace's lock.
const WITHDRAWN: &str = "withdrawn.lock";

/// A tool of the lock that is not offered, because the user has not approved its present entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotOffered {
    pub(crate) name: String,
    /// True if the user approved another entry of this name.
    pub(crate) changed: bool,
}

/// The files and locks for the tools of one workspace.
#[derive(Clone, Debug)]
pub(crate) struct WorkspaceToolPaths {
    workspace: PathBuf,
    /// The directory of the files of all workspaces. Each file is named after its digest.
    files: PathBuf,
    /// The copy of the lock, with the approved entries.
    approved: PathBuf,
    /// The approved entries that have left the lock since. They are not offered, but their signers
    /// are still expected. Otherwise one change of the lock could remove a tool, and a second one
    /// could add it with another signer.
    withdrawn: PathBuf,
}

impl WorkspaceToolPaths {
    /// Returns the places for a workspace with a canonical path; `None` for a user without a home
    /// directory.
    pub(crate) fn find(paths: &Paths, workspace: &Path) -> Option<Self> {
        let files = paths.workspace_tools()?;
        let name = Digest::from_bytes(workspace.as_os_str().as_encoded_bytes());
        let approved = files.join(APPROVED).join(format!("{name}.lock"));
        let withdrawn = approved.with_extension(WITHDRAWN);
        Some(Self { workspace: workspace.to_owned(), files, approved, withdrawn })
    }

    /// Returns the path of the workspace's lock.
    pub(crate) fn lock(&self) -> PathBuf {
        self.workspace.join(IN_WORKSPACE)
    }

    /// Returns the path of the copy of the lock with the approved entries.
    pub(crate) fn approved(&self) -> &Path {
        &self.approved
    }

    /// Returns the path of the file with a digest.
    pub(crate) fn file(&self, digest: Digest) -> PathBuf {
        self.files.join(format!("{digest}.wasm"))
    }

    /// Opens the copy of the lock for an approval.
    pub(crate) fn open_approved(&self, user: &Path) -> Result<LockFile, CliError> {
        LockFile::open(&self.approved, user, 0o600)
    }

    /// Returns the user's approvals: for this workspace, for entries that have left its lock, for
    /// the user's own tools, and for other workspaces.
    pub(crate) fn approvals(&self, user: &Path, paths: &Paths) -> Result<Approvals, CliError> {
        Approvals::read(&[&*self.approved, &*self.withdrawn, user], paths)
    }

    /// Withdraws the approvals of entries that have left the lock, and removes their files. Keeps
    /// the signers of these entries.
    pub(crate) fn withdraw(
        &self,
        user: &Path,
        gone: &[(&str, &LockedTool)],
    ) -> Result<(), CliError> {
        let mut withdrawn = LockFile::open(&self.withdrawn, user, 0o600)?;
        for (name, tool) in gone {
            withdrawn.put(name, tool)?;
        }
        // Both locks are protected by the same file.
        drop(withdrawn);
        let mut approved = self.open_approved(user)?;
        approved.remove(gone.iter().map(|(name, _)| *name))?;
        gone.iter().try_for_each(|(_, tool)| self.remove_unused(tool.sha256))
    }

    /// Forgets a tool that the user removed, and its signer. Removes its file.
    pub(crate) fn forget(&self, user: &Path, name: &str) -> Result<(), CliError> {
        LockFile::open(&self.withdrawn, user, 0o600)?.remove([name])?;
        let mut approved = self.open_approved(user)?;
        let digest = approved.lock().get(name).map(|tool| tool.sha256);
        approved.remove([name])?;
        digest.map_or(Ok(()), |digest| self.remove_unused(digest))
    }

    /// Removes the file with a digest, unless an approved tool of any workspace uses it.
    fn remove_unused(&self, digest: Digest) -> Result<(), CliError> {
        for path in locks_in(&self.files.join(APPROVED))? {
            let is_withdrawn = path.to_string_lossy().ends_with(WITHDRAWN);
            if !is_withdrawn && read_lock(&path)?.iter().any(|(_, tool)| tool.sha256 == digest) {
                return Ok(());
            }
        }
        remove_file(&self.file(digest))
    }

    /// Returns whether the user approved exactly this entry.
    pub(crate) fn is_approved(&self, name: &str, tool: &LockedTool) -> Result<bool, CliError> {
        Ok(read_lock(&self.approved)?.get(name) == Some(tool))
    }

    /// Returns the offered tools: the approved ones that are still in the lock. An unreadable lock
    /// offers no tools, and [`Self::not_offered`] returns the reason.
    pub(crate) fn offered(&self) -> Vec<WorkspaceTool> {
        let read = || Some((read_lock(&self.lock()).ok()?, read_lock(&self.approved).ok()?));
        let Some((lock, approved)) = read() else { return Vec::new() };
        let offered = lock.iter().filter(|(name, tool)| approved.get(name) == Some(tool));
        offered
            .map(|(name, tool)| WorkspaceTool {
                name: name.to_owned(),
                path: self.file(tool.sha256),
                digest: tool.sha256,
            })
            .collect()
    }

    /// Returns the tools of the lock that are not offered. Fails if the lock or its approved copy
    /// cannot be read.
    pub(crate) fn not_offered(&self) -> Result<Vec<NotOffered>, CliError> {
        let lock = read_lock(&self.lock())?;
        if lock.is_empty() {
            return Ok(Vec::new());
        }
        let approved = read_lock(&self.approved)?;
        let waiting = lock.iter().filter(|(name, tool)| approved.get(name) != Some(tool));
        let not_offered = waiting.map(|(name, _)| NotOffered {
            name: name.to_owned(),
            changed: approved.get(name).is_some(),
        });
        Ok(not_offered.collect())
    }
}
