//! Whether nobody else could swap what a path leads to, as sshd asks before it reads a user's
//! keys (`StrictModes`): who may write to a directory on the way puts another below it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{OtherWriter, other_writer};
use crate::paths::resolution_steps;

/// In such a directory nobody but its owner removes or renames what is another's.
const STICKY: u32 = 0o1000;

/// A directory on the way to a place, by which somebody else could change what is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct UntrustedAncestor {
    /// The directory.
    pub dir: PathBuf,
    /// Who could change what.
    pub reason: String,
    /// Whether its owner can mend it by taking the right to write from others.
    pub is_writable: bool,
}

/// Checks the directories on the way to `path`, links looked through: each must belong to
/// root or to an `owner` who is trusted, and nobody else may write to it, unless it is sticky
/// as `/tmp` is. What is at `path` itself is not asked about.
///
/// # Errors
///
/// One is another's.
pub fn check_ancestors(path: &Path, owner: impl Fn(u32) -> bool) -> Result<(), UntrustedAncestor> {
    // Whoever owns the top owns all below it: root, or in a user namespace the id that
    // stands for everybody whom it does not know.
    let top = fs::metadata("/").map_or(0, |top| top.uid());
    let is_trusted = |uid| uid == 0 || uid == top || owner(uid);
    let places = resolution_steps(path);
    let parent = places.last().and_then(|place| place.parent());
    for dir in places.iter().flat_map(|place| place.ancestors().skip(1)) {
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
            // A directory that does not exist leads nowhere.
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
    fn each_directory_on_the_way_is_asked_about() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().canonicalize().expect("a path");
        let [place, other] = ["a/b/c/file", "other"].map(|name| root.join(name));
        fs::create_dir_all(root.join("a/b/c")).expect("directories");
        fs::create_dir(&other).expect("a directory");
        symlink(root.join("a/b"), other.join("link")).expect("a link");
        for way in [place.clone(), other.join("link/c/file")] {
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
        // Who may replace the link has replaced what is behind it.
        fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).expect("permitted");
        assert_eq!(checked(&other.join("link/c/file")).expect_err("open").dir, other);
        assert_eq!(checked(&place), Ok(()));
    }

    #[test]
    fn a_directory_of_another_user_is_open_whatever_its_mode() {
        let scratch = tempfile::tempdir().expect("a directory");
        fs::create_dir(scratch.path().join("dir")).expect("a directory");
        // All that is not root's is another's to nobody in particular.
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
            }
        }
    }
}
