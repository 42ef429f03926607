//! The lock of a user or of a workspace on disk. `ikigai-packages` owns its text.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use ikigai_host::paths::{draft_in, lock_of_user};
use ikigai_packages::lock::MAX_LOCK_BYTES;
use ikigai_packages::{LockedTool, ToolsLock, open_regular};

use crate::error::CliError;

/// The longest time that a command waits for another one that installs or removes something.
const WAIT: Duration = Duration::from_secs(60);

/// The name of the lock in a workspace.
pub(crate) const IN_WORKSPACE: &str = ".ikigai/tools.lock";

/// A lock that this command may change. Other commands that want to change it wait.
pub(crate) struct LockFile {
    path: PathBuf,
    mode: u32,
    lock: ToolsLock,
    /// The lock of the user's directory, which is released with this value.
    _held: File,
}

/// Returns the lock in a file; a lock without tools if there is no file. ikigai never overwrites a
/// file that cannot be parsed as a lock.
pub(crate) fn read_lock(path: &Path) -> Result<ToolsLock, CliError> {
    let shown = path.display();
    let text = match read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(ToolsLock::default()),
        Err(error) => {
            let error =
                anyhow::Error::new(error).context(format!("cannot read the lock `{shown}`"));
            return Err(CliError::usage(error));
        }
    };
    ToolsLock::parse(&text).map_err(|error| {
        let hint = error.hint.clone();
        let error = anyhow::Error::msg(format!("{shown}:{error}"));
        CliError::usage(error)
            .hint("fix it by hand, or restore an earlier version; ikigai does not overwrite it")
            .hints(hint)
    })
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Another user with access to the workspace may have put something else there.
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(MAX_LOCK_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(Some(text))
}

impl LockFile {
    /// Opens the user's lock, and waits while another command changes it.
    pub(crate) fn of_user(path: &Path) -> Result<Self, CliError> {
        Self::open(path, path, 0o600)
    }

    /// Opens the lock of a workspace. All who work in the workspace share its file. Commands of the
    /// same user wait for each other at the user's own lock.
    pub(crate) fn of_workspace(path: &Path, user: &Path) -> Result<Self, CliError> {
        Self::open(path, user, 0o644)
    }

    pub(super) fn open(path: &Path, user: &Path, mode: u32) -> Result<Self, CliError> {
        let held = hold(user).map_err(|error| {
            let is_held = error.kind() == io::ErrorKind::TimedOut;
            let context = format!("cannot lock `{}`", user.display());
            let hint = is_held.then(|| "end that process, then try again".to_owned());
            CliError::failed(anyhow::Error::new(error).context(context)).hints(hint)
        })?;
        Ok(Self { path: path.to_owned(), mode, lock: read_lock(path)?, _held: held })
    }

    /// Returns the tools that are locked.
    pub(crate) fn lock(&self) -> &ToolsLock {
        &self.lock
    }

    /// Adds a tool, replacing the tool with that name.
    pub(crate) fn put(&mut self, name: &str, tool: &LockedTool) -> Result<(), CliError> {
        let mut lock = self.lock.clone();
        lock.put(name, tool.clone()).map_err(CliError::failed)?;
        self.change(lock)
    }

    /// Removes the tools with these names.
    pub(crate) fn remove<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), CliError> {
        let mut lock = self.lock.clone();
        for name in names {
            lock.remove(name);
        }
        self.change(lock)
    }

    /// Replaces the file, unless its content stays the same. Removes it if no tool is left.
    fn change(&mut self, lock: ToolsLock) -> Result<(), CliError> {
        if lock == self.lock {
            return Ok(());
        }
        let changed = if lock.is_empty() {
            remove(&self.path)
        } else {
            replace(&self.path, lock.to_string().as_bytes(), self.mode)
        };
        changed
            .with_context(|| format!("cannot write the lock `{}`", self.path.display()))
            .map_err(CliError::failed)?;
        self.lock = lock;
        Ok(())
    }
}

/// Takes the lock that serialises commands which install or remove tools.
fn hold(user: &Path) -> io::Result<File> {
    let directory = user.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let name =
        user.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    lock_of_user(directory, &format!(".{name}.held"), WAIT)
}

/// Replaces a file atomically, even if the machine fails. Creates its directory if necessary.
pub(super) fn replace(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    let mut file = draft_in(directory, mode)?;
    file.write_all(contents)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

/// Removes a file, and the directory that was made for it if that is empty.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // This fails if the directory has other files, and then it stays.
    let _ = fs::remove_dir(directory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_cannot_be_read_is_not_written_over() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("own/tools.lock");
        let mut file = LockFile::of_user(&path).expect("no lock yet");
        assert!(file.lock().is_empty());
        file.remove(["weather"]).expect("nothing to write");
        assert!(!path.exists());
        drop(file);
        let conflict = "version = 1\n<<<<<<< HEAD\n";
        fs::write(&path, conflict).expect("written");
        let error = LockFile::of_user(&path).err().expect("refused");
        assert_eq!(error.exit, crate::error::USAGE);
        assert!(error.text().contains("tools.lock:2:"), "{}", error.text());
        assert_eq!(fs::read_to_string(&path).expect("read"), conflict);
    }
}
