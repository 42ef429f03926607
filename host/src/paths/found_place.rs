//! Finds a place on this machine, and tells a place that does not exist from one that this user
//! cannot look at now.

use std::fs::read_link;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A place as this user finds it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundPlace {
    /// Its path without links.
    At(PathBuf),
    /// The place cannot be looked at now. This is the last file or directory on the way to it that
    /// can, without links.
    Beyond(PathBuf),
}

impl FoundPlace {
    /// Returns the path that hides the place.
    pub(crate) fn into_path(self) -> PathBuf {
        match self {
            Self::At(path) | Self::Beyond(path) => path,
        }
    }
}

/// Finds a place. Returns `None` if it does not exist, or if a link on the way leads to nothing.
///
/// A program can take away the rights to a directory and give them back later. So a place that
/// cannot be looked at may be there.
pub(crate) fn find_place(place: &Path) -> Option<FoundPlace> {
    match place.canonicalize() {
        Ok(real) => Some(FoundPlace::At(real)),
        Err(error) if is_absence(&error) => None,
        Err(_) => Some(FoundPlace::Beyond(last_on_the_way(place))),
    }
}

/// Returns whether the error means that the path leads to nothing.
pub(crate) fn is_absence(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Returns the last file or directory on the way to a place that can be looked at.
fn last_on_the_way(place: &Path) -> PathBuf {
    /// The number of links that the kernel follows before it gives up.
    const MOST_LINKS: usize = 40;
    let mut path = place.to_owned();
    let mut reached = PathBuf::from("/");
    for _ in 0..MOST_LINKS {
        let mut above = path.ancestors().skip(1);
        let found = above.find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
        let Some((above, real)) = found else { break };
        let Ok(rest) = path.strip_prefix(above) else { break };
        let mut names = rest.components();
        let Some(name) = names.next() else { break };
        reached = real;
        let next = reached.join(name);
        match read_link(&next) {
            Ok(target) => {
                let mut target = reached.join(target);
                target.extend(names);
                path = target;
            }
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                let is_barred = matches!(errno, Some(Errno::ACCESS | Errno::PERM));
                return if is_barred { reached } else { next };
            }
        }
    }
    reached
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::{self, Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::thread;

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::*;

    /// Returns a directory that every user can search.
    pub(crate) fn open_scratch() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().expect("a directory");
        set_permissions(scratch.path(), Permissions::from_mode(0o755)).expect("permitted");
        let root = scratch.path().canonicalize().expect("a path");
        (scratch, root)
    }

    /// Runs `look` as a user without privileges while `closed` has this mode.
    pub(crate) fn while_closed<T: Send>(
        closed: &Path,
        mode: u32,
        look: impl FnOnce() -> T + Send,
    ) -> T {
        let nobody = Uid::from_raw(65_534);
        set_permissions(closed, Permissions::from_mode(mode)).expect("permitted");
        // This changes the user of this thread only.
        let looked = thread::scope(|scope| {
            let other = scope.spawn(|| {
                if geteuid().is_root() {
                    set_thread_res_uid(nobody, nobody, nobody).expect("another user");
                }
                look()
            });
            other.join().expect("no panic")
        });
        set_permissions(closed, Permissions::from_mode(0o755)).expect("permitted");
        looked
    }

    #[test]
    fn the_way_to_a_place_ends_at_the_last_directory_that_can_be_looked_at() {
        let (_scratch, root) = open_scratch();
        fs::create_dir_all(root.join("home/.cargo")).expect("made");
        fs::create_dir_all(root.join("vault/aws")).expect("made");
        fs::write(root.join("home/.cargo/credentials"), "").expect("written");
        symlink("../vault/aws/keys", root.join("home/.aws")).expect("linked");
        symlink("nowhere", root.join("home/dangling")).expect("linked");
        symlink("loop", root.join("home/loop")).expect("linked");
        let find = |name: &str| find_place(&root.join(name));
        let credentials = root.join("home/.cargo/credentials");
        assert_eq!(find("home/.cargo/credentials"), Some(FoundPlace::At(credentials)));
        for name in ["home/none", "home/dangling", "home/loop", "home/.cargo/credentials/x"] {
            assert_eq!(find(name), None, "{name}");
        }
        // The name that fails, when the directory around it can be searched.
        assert_eq!(last_on_the_way(&root.join("home/none/x")), root.join("home/none"));
        assert_eq!(last_on_the_way(&root.join("home/.aws/x")), root.join("vault/aws/keys"));
        for (dir, name) in [("home/.cargo", "home/.cargo/credentials"), ("vault", "home/.aws")] {
            let dir = root.join(dir);
            let found = while_closed(&dir, 0, || find(name));
            assert_eq!(found, Some(FoundPlace::Beyond(dir)), "{name}");
        }
    }
}
