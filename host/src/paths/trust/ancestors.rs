//! The check of the directories on the way to a file, like sshd's check before it reads a user's
//! keys (`StrictModes`). A user who may write to one of them can replace everything below it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{OtherWriter, other_writer};
use crate::paths::resolution_steps;

/// The mode bit of a directory in which only the owner of a file may remove or rename it.
const STICKY: u32 = 0o1000;

/// A directory on the way to a file that lets another user replace the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UntrustedAncestor {
    /// The directory.
    pub dir: PathBuf,
    /// The user who could replace the file, and the right that allows it.
    pub reason: String,
    /// True if other users may write to the directory. Its owner can revoke that right.
    pub is_writable: bool,
}

/// Checks the directories on the way to `path`, including those behind links. Each must belong to
/// root or to a trusted `owner`, and other users may not write to it, unless it is sticky like
/// `/tmp`. Does not check the file at `path` itself.
///
/// # Errors
///
/// Fails if a directory belongs to another user, or if others may write to it.
pub fn check_ancestors(path: &Path, owner: impl Fn(u32) -> bool) -> Result<(), UntrustedAncestor> {
    // The owner of `/` controls everything below it. It is root or, in a user namespace, the ID
    // that represents all unmapped users.
    let top = fs::metadata("/").map_or(0, |top| top.uid());
    let is_trusted = |uid| uid == 0 || uid == top || owner(uid);
    let steps = resolution_steps(path);
    let parent = steps.last().and_then(|step| step.parent());
    for dir in steps.iter().flat_map(|step| step.ancestors().skip(1)) {
        let name = match parent {
            Some(parent) if parent == dir => "its directory".to_owned(),
            _ => format!("the directory `{}` on the way to it", dir.display()),
        };
        let untrusted = |reason, is_writable| {
            let dir = dir.to_owned();
            UntrustedAncestor { dir, reason, is_writable }
        };
        match fs::symlink_metadata(dir) {
            Ok(found) => match other_writer(&found, is_trusted) {
                Some(OtherWriter::Owner(uid)) => {
                    let reason = format!("{name} belongs to another user (id {uid})");
                    return Err(untrusted(reason, false));
                }
                Some(OtherWriter::Mode(mode)) if mode & STICKY == 0 => {
                    let reason = format!("others may write to {name} (mode {mode:04o})");
                    return Err(untrusted(reason, true));
                }
                Some(OtherWriter::Mode(_)) | None => {}
            },
            // A missing directory cannot lead to another file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(untrusted(format!("{name} cannot be looked at: {error}"), false));
            }
        }
    }
    Ok(())
}

impl From<UntrustedAncestor> for io::Error {
    fn from(ancestor: UntrustedAncestor) -> Self {
        Self::other(ancestor.reason)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn checked(path: &Path) -> Result<(), UntrustedAncestor> {
        check_ancestors(path, crate::paths::is_own)
    }

    #[test]
    fn each_directory_on_the_way_is_checked() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let [file, other] = ["a/b/c/file", "other"].map(|name| root.join(name));
        fs::create_dir_all(root.join("a/b/c")).expect("directories");
        fs::create_dir(&other).expect("a directory");
        symlink(root.join("a/b"), other.join("link")).expect("a link");
        for way in [file.clone(), other.join("link/c/file")] {
            assert_eq!(checked(&way), Ok(()), "{}", way.display());
            for dir in ["a", "a/b", "a/b/c"] {
                let dir = root.join(dir);
                let permit = |mode| {
                    let mode = fs::Permissions::from_mode(mode);
                    fs::set_permissions(&dir, mode).expect("permitted");
                };
                for mode in [0o777, 0o775, 0o757] {
                    permit(mode);
                    let open = checked(&way).expect_err("open");
                    assert_eq!((&open.dir, open.is_writable), (&dir, true), "{open}");
                    assert!(open.reason.contains(&format!("(mode {mode:04o})")), "{open}");
                }
                permit(0o1777);
                assert_eq!(checked(&way), Ok(()), "sticky: {}", dir.display());
                permit(0o755);
            }
        }
        // A replaced link could lead elsewhere.
        fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).expect("permitted");
        assert_eq!(checked(&other.join("link/c/file")).expect_err("open").dir, other);
        assert_eq!(checked(&file), Ok(()));
    }

    #[test]
    fn a_directory_of_another_user_is_open_whatever_its_mode() {
        let scratch = tempfile::tempdir().expect("a directory");
        fs::create_dir(scratch.path().join("dir")).expect("a directory");
        // Without a trusted owner, only root's files are safe.
        let is_root = rustix::process::geteuid().is_root();
        let open = check_ancestors(&scratch.path().join("dir/file"), |_| false);
        assert_eq!(open.is_err(), !is_root);
        if is_root {
            let dir = scratch.path().join("dir");
            for mode in [0o755, 0o1777] {
                std::os::unix::fs::chown(&dir, Some(65534), None).expect("given away");
                fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("permitted");
                for file in ["dir/file", "dir/sub/file"] {
                    let open = checked(&scratch.path().join(file)).expect_err("open");
                    assert!(open.reason.contains("another user (id 65534)"), "{open}");
                }
                let own = dir.join("of-root");
                let refused =
                    crate::paths::make_private(&own.join("deeper")).expect_err("not ours");
                assert!(refused.to_string().contains("another user"), "{refused}");
                assert!(!own.exists());
            }
        }
    }
}
