//! The file of a client, which the client and other commands may change at any time.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use ikigai_host::paths::{draft_in, lock_directory};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The longest time that a command waits for another one that changes files in the same directory.
const WAIT: Duration = Duration::from_secs(10);

/// The file of a client. This command locks its directory against other ikigai commands. The client
/// itself does not know the lock.
#[derive(Debug)]
pub(crate) struct ClientFile {
    /// The path, as the client knows it.
    path: PathBuf,
    /// The path, with links followed.
    target: PathBuf,
    /// True if other users who work on the project read the file.
    is_shared: bool,
    /// The lock, which is released with this value.
    _held: File,
}

impl ClientFile {
    /// Opens a client's file, and makes its directory unless it exists. Follows a symlink, which
    /// may lead into a collection of such files. A project's file must be inside the project, since
    /// its link may come from another author.
    pub(crate) fn open(path: &Path, project: Option<&Path>) -> anyhow::Result<Self> {
        Self::open_within(path, project, WAIT)
    }

    fn open_within(path: &Path, project: Option<&Path>, wait: Duration) -> anyhow::Result<Self> {
        let cannot = || format!("`{}` cannot be written", path.display());
        let dir = path.parent().context("the file has no directory")?;
        fs::create_dir_all(dir).with_context(cannot)?;
        let dir = fs::canonicalize(dir).with_context(cannot)?;
        let name = path.file_name().context("the file has no name")?;
        let target = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => fs::canonicalize(path)
                .with_context(|| format!("{}: the link leads nowhere", cannot()))?,
            _ => dir.join(name),
        };
        if let Some(project) = project {
            ensure!(target.starts_with(project), "{}: it leads out of the project", cannot());
        }
        let dir = target.parent().context("the file has no directory")?;
        let held = lock_directory(dir, wait).with_context(cannot)?;
        let held = held.with_context(|| {
            let dir = dir.display();
            format!("{}: another command has held `{dir}` for {wait:?}; end it", cannot())
        })?;
        Ok(Self { path: path.to_owned(), target, is_shared: project.is_some(), _held: held })
    }

    /// Returns the text. A file that does not exist yet is empty.
    pub(crate) fn read(&self) -> anyhow::Result<String> {
        read(&self.target).with_context(|| format!("`{}` cannot be read", self.target.display()))
    }

    /// Replaces the file if it still has the text `before`. Its mode stays.
    pub(crate) fn replace(&self, before: &str, after: &str) -> anyhow::Result<()> {
        let cannot = || format!("`{}` cannot be written", self.target.display());
        let dir = self.target.parent().context("the file has no directory")?;
        // All users who work on a project read its file. A user's own file may get secrets.
        let mode = if self.is_shared { 0o666 } else { 0o600 };
        let mut draft = draft_in(dir, mode).with_context(cannot)?;
        draft.write_all(after.as_bytes()).with_context(cannot)?;
        let there = fs::metadata(&self.target).ok();
        if let Some(metadata) = &there {
            draft.as_file().set_permissions(metadata.permissions()).with_context(cannot)?;
        }
        draft.as_file().sync_all().with_context(cannot)?;
        if there.is_none() && before.is_empty() {
            return match draft.persist_noclobber(&self.target) {
                Ok(_) => Ok(()),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => self.changed(),
                Err(error) => Err(error.error).with_context(cannot),
            };
        }
        if exchange(draft.path(), &self.target).with_context(cannot)? {
            // The draft now has the previous file, which the client may have written just now.
            if read(draft.path())? != before {
                exchange(draft.path(), &self.target).with_context(cannot)?;
                return self.changed();
            }
            return Ok(());
        }
        if read(&self.target)? != before {
            return self.changed();
        }
        draft.persist(&self.target).with_context(cannot)?;
        Ok(())
    }

    /// Removes the file if it still has the text `before`, and then the empty directories above it
    /// up to `root`, which stays.
    pub(crate) fn remove(&self, before: &str, root: &Path) -> anyhow::Result<()> {
        let cannot = || format!("`{}` cannot be removed", self.target.display());
        let dir = self.target.parent().context("the file has no directory")?;
        let draft = draft_in(dir, 0o600).with_context(cannot)?;
        // Move the file to the draft's path first, since the client may have written it just now.
        fs::rename(&self.target, draft.path()).with_context(cannot)?;
        if read(draft.path())? != before {
            draft.persist_noclobber(&self.target).with_context(cannot)?;
            return self.changed();
        }
        draft.close().with_context(cannot)?;
        let dirs = self.path.ancestors().skip(1).take_while(|dir| !root.starts_with(dir));
        for dir in dirs {
            // A directory with other files in it stays, and so do those above it.
            if fs::remove_dir(dir).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Returns true if the client's path is a link to the file.
    pub(crate) fn is_link(&self) -> bool {
        self.path.is_symlink()
    }

    fn changed(&self) -> anyhow::Result<()> {
        bail!("another program has just changed `{}`; try again", self.target.display())
    }
}

/// Exchanges two files. Returns false if the file system cannot do that, or if one of them is
/// missing.
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_wrote_meanwhile_stays() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("own/mcp.json");
        let file = ClientFile::open(&path, None).expect("opened");
        let names = || fs::read_dir(scratch.path().join("own")).expect("read").count();
        assert_eq!(file.read().expect("read"), "");
        fs::write(&path, "theirs").expect("written");
        for before in ["", "mine"] {
            let error = file.replace(before, "new").expect_err("it has changed");
            assert!(error.to_string().contains("another program has just changed"), "{error}");
            assert_eq!((fs::read_to_string(&path).expect("read").as_str(), names()), ("theirs", 1));
        }
        file.replace("theirs", "new").expect("replaced");
        assert_eq!((file.read().expect("read").as_str(), names()), ("new", 1));
        fs::remove_file(&path).expect("removed");
        file.replace("", "first").expect("made");
        assert_eq!((file.read().expect("read").as_str(), names()), ("first", 1));
    }

    #[test]
    fn a_removed_file_takes_its_empty_directories_along() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path();
        let path = root.join("a/b/mcp.json");
        let file = ClientFile::open(&path, None).expect("opened");
        fs::write(&path, "theirs").expect("written");
        let error = file.remove("mine", root).expect_err("it has changed");
        assert!(error.to_string().contains("another program has just changed"), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("read"), "theirs");
        fs::write(root.join("a/other"), "").expect("written");
        file.remove("theirs", root).expect("removed");
        assert!(!root.join("a/b").exists() && root.join("a/other").exists());
        fs::remove_file(root.join("a/other")).expect("removed");
        let file = ClientFile::open(&path, None).expect("opened");
        file.replace("", "mine").expect("written");
        file.remove("mine", root).expect("removed");
        assert_eq!(fs::read_dir(root).expect("the root stays").count(), 0);
    }

    #[test]
    fn one_command_waits_for_the_other() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("mcp.json");
        let first = ClientFile::open(&path, None).expect("opened");
        let open = || ClientFile::open_within(&path, None, Duration::ZERO);
        let error = open().expect_err("it is held");
        assert!(error.to_string().contains("another command has held"), "{error}");
        drop(first);
        assert!(open().is_ok());
    }
}
