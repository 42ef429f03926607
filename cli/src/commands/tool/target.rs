//! The user or the workspace that tools are installed for: the lock, and the files of the tools.

use std::path::PathBuf;

use ikigai_host::Digest;
use ikigai_host::paths::Paths;
use ikigai_packages::reference::Reference;
use ikigai_packages::{LockedTool, ToolsLock};

use crate::error::CliError;
use crate::options::SharedOptions;
use crate::shipping::{Approvals, LockFile, Placement, WorkspaceToolPaths, read_lock};

/// The user or the workspace that tools are installed for.
pub(super) enum InstallTarget {
    /// The user: the directory of the user's tools, and the lock next to it.
    User {
        /// The directory.
        directory: PathBuf,
        /// The lock.
        lock: PathBuf,
    },
    /// The workspace: its own lock, and the files of all workspaces.
    Workspace(WorkspaceToolPaths),
}

impl InstallTarget {
    /// Returns the user, or the workspace that the flags name.
    pub(super) fn from_options(
        options: &SharedOptions,
        paths: &Paths,
        in_workspace: bool,
    ) -> Result<Self, CliError> {
        if in_workspace {
            return Ok(Self::Workspace(workspace(options, paths)?));
        }
        let (directory, lock) = paths.user_tools.clone().zip(paths.lock()).ok_or_else(no_home)?;
        Ok(Self::User { directory, lock })
    }

    /// Returns the lock as it is now.
    pub(super) fn lock(&self) -> Result<ToolsLock, CliError> {
        match self {
            Self::User { lock, .. } => read_lock(lock),
            Self::Workspace(workspace) => read_lock(&workspace.lock()),
        }
    }

    /// Returns the user's approvals, with which the signer of a new file is compared.
    pub(super) fn approvals(&self, paths: &Paths) -> Result<Approvals, CliError> {
        match self {
            Self::User { lock, .. } => Approvals::read(&[lock.as_path()], paths),
            Self::Workspace(workspace) => workspace.approvals(&user_lock(paths)?, paths),
        }
    }

    /// Opens the lock for a change.
    pub(super) fn open(&self, paths: &Paths) -> Result<LockFile, CliError> {
        match self {
            Self::User { lock, .. } => LockFile::of_user(lock),
            Self::Workspace(workspace) => {
                LockFile::of_workspace(&workspace.lock(), &user_lock(paths)?)
            }
        }
    }

    /// Returns the file of an installed tool; `None` if the user has no file with its name.
    pub(super) fn file(&self, name: &str, tool: &LockedTool) -> Option<PathBuf> {
        match self {
            Self::User { directory, .. } => {
                Placement::paths_in(directory, name).into_iter().find(|path| path.is_file())
            }
            Self::Workspace(workspace) => Some(workspace.file(tool.sha256)),
        }
    }

    /// Returns the command that restores the file of an entry, whatever is in its place.
    pub(super) fn command_for(&self, tool: &LockedTool) -> String {
        match self {
            Self::User { .. } => {
                let reference = pinned(&tool.from, tool.manifest, tool.sha256);
                format!("ikigai tool install {reference} --replace")
            }
            Self::Workspace(_) => "ikigai tool sync".to_owned(),
        }
    }

    /// Returns the place for the file of a tool.
    pub(super) fn placement(&self, name: &str, digest: Digest, is_native: bool) -> Placement {
        match self {
            Self::User { directory, .. } => Placement::in_directory(directory, name, is_native),
            Self::Workspace(workspace) => Placement::at(workspace.file(digest)),
        }
    }
}

/// Returns the tools of the workspace that the flags name.
pub(super) fn workspace(
    options: &SharedOptions,
    paths: &Paths,
) -> Result<WorkspaceToolPaths, CliError> {
    WorkspaceToolPaths::find(paths, &options.workspace()?).ok_or_else(no_home)
}

/// Returns the reference of one file at a source in a lock, quoted for a shell. For a registry or a
/// web server, it names the file by its digest.
pub(super) fn pinned(from: &str, manifest: Option<Digest>, sha256: Digest) -> String {
    let text = match (from.parse(), manifest) {
        (Ok(Reference::Registry(registry)), Some(manifest)) => {
            registry.with_digest(manifest).to_string()
        }
        (Ok(Reference::Url(url)), _) => url.pinned(sha256).to_string(),
        _ => from.to_owned(),
    };
    match shlex::try_quote(&text) {
        Ok(quoted) => quoted.into_owned(),
        // Only a NUL cannot be quoted, and a reference cannot contain a NUL.
        Err(_) => text.clone(),
    }
}

/// Returns the path of the user's lock, which all commands of the user take in turn.
pub(super) fn user_lock(paths: &Paths) -> Result<PathBuf, CliError> {
    paths.lock().ok_or_else(no_home)
}

fn no_home() -> CliError {
    let error = anyhow::Error::msg("there is no directory for your tools");
    CliError::usage(error).hint("set HOME, or specify one with --user-tools")
}
