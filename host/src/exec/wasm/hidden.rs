//! The names that a guest does not see in the directories that it was granted.
//!
//! It checks the path that the kernel knows of an open file or directory. Links, names that were
//! given to a directory above, and handles that were opened before make no difference. If a file
//! has several names, all of them that lie in granted directories are checked. A path that cannot
//! be found out is hidden.
//!
//! To open, to change or to ask about a hidden name fails with `access`, which tools report as a
//! lack of permission. If the name seemed to be free, a program would create the file. A listing
//! leaves it out.

mod walk;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{read_link, symlink_metadata};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use rustix::io::Errno;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use self::walk::walk;
use crate::policy::{Grant, HideWalk, Reserved};

/// The most names that are looked at to find the other names of hidden files. If there are more,
/// every file with several names is hidden.
const MAX_NAMES: usize = 200_000;

/// The hidden names of one call.
pub(in crate::exec) struct HiddenPaths {
    grant: Arc<Grant>,
    /// The hidden files that have other names, found when the first file with several names is
    /// opened.
    linked: OnceLock<LinkedFiles>,
    /// Tells whether the call is over, which ends the host's work for it.
    is_over: IsOver,
}

/// A function that tells whether a call is over.
pub(in crate::exec) type IsOver = Arc<dyn Fn() -> bool + Send + Sync>;

/// Files with several names, at least one of them hidden.
enum LinkedFiles {
    /// All of them, by device and inode.
    Known(HashSet<(u64, u64)>),
    /// There are more than were searched.
    Unknown,
}

impl HiddenPaths {
    /// Returns nothing if nothing is hidden.
    pub(in crate::exec) fn for_grant(grant: &Arc<Grant>, is_over: IsOver) -> Option<Arc<Self>> {
        let linked = OnceLock::new();
        let hidden = || Arc::new(Self { grant: Arc::clone(grant), linked, is_over });
        (!grant.hide.is_empty() || grant.reserved.hides_secrets()).then(hidden)
    }

    /// Returns whether the call is over. The host's work for it then ends with an error that the
    /// guest never sees.
    pub(super) fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// Returns whether a path is hidden. The path must be absolute and without links; `root` is the
    /// granted directory through which it was reached.
    pub(super) fn hides(&self, root: &Path, path: &Path) -> bool {
        let mut steps = self.steps(root);
        steps.follow(path);
        steps.is_hidden_or_outside()
    }

    /// Begins at the root of the machine to follow a path that is reached through `root`.
    pub(super) fn steps<'a>(&'a self, root: &'a Path) -> PathSteps<'a> {
        PathSteps {
            walk: self.grant.hide.walk(self.granted_with(root)),
            reserved: &self.grant.reserved,
            path: PathBuf::from("/"),
        }
    }

    /// Returns a granted directory, and all others.
    fn granted_with<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = &'a Path> {
        let others = self.grant.dirs.iter().map(|dir| &*dir.path).filter(move |dir| *dir != root);
        std::iter::once(root).chain(others)
    }

    /// Returns whether a path is hidden in a granted directory.
    pub(super) fn is_hidden_anywhere(&self, path: &Path) -> bool {
        self.grant.hides(path)
    }

    /// Returns whether a path outside of the granted directories would be hidden if it were
    /// granted. The user is not asked about such a path.
    pub(super) fn has_hidden_name(&self, path: &Path) -> bool {
        self.grant.hide.hides_alone(path)
    }

    /// Fails if a name in an open directory is hidden, or the directory itself is.
    pub(super) fn check(
        &self,
        root: &Path,
        dir: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), ErrorCode> {
        let path = path_of(dir, name).map_err(|_| ErrorCode::Access)?;
        if self.hides(root, &path) { Err(ErrorCode::Access) } else { Ok(()) }
    }

    /// Fails if an open file or directory is hidden, by the name that it was opened by or another.
    pub(super) fn check_open(&self, root: &Path, open: BorrowedFd<'_>) -> Result<(), ErrorCode> {
        let path = real_path(open).map_err(|_| ErrorCode::Access)?;
        let stat = fstat(open).map_err(|_| ErrorCode::Access)?;
        if self.hides(root, &path) || self.has_hidden_link(&stat) {
            return Err(ErrorCode::Access);
        }
        Ok(())
    }

    /// Returns whether an open file is hidden, by the path that it has or by another name. If the
    /// user `named` the file by this path, it is not.
    pub(in crate::exec) fn hides_open(
        &self,
        open: BorrowedFd<'_>,
        named: Option<&Path>,
    ) -> io::Result<bool> {
        let path = real_path(open)?;
        let mut dirs = self.grant.dirs.iter().map(|dir| &*dir.path);
        let root = dirs.find(|dir| path.starts_with(dir)).unwrap_or(Path::new("/"));
        if self.hides(root, &path) {
            return Ok(named != Some(path.as_path()));
        }
        Ok(self.has_hidden_link(&fstat(open)?))
    }

    /// Fails like [`Self::check_open`], for the file with a name, if there is one.
    pub(super) fn check_file(
        &self,
        root: &Path,
        dir: BorrowedFd<'_>,
        name: &str,
    ) -> Result<(), ErrorCode> {
        self.check(root, dir, name)?;
        let name = name.trim_end_matches('/');
        match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if self.has_hidden_link(&stat) => Err(ErrorCode::Access),
            _ => Ok(()),
        }
    }

    /// Returns whether a file has several names, at least one of them hidden.
    fn has_hidden_link(&self, stat: &Stat) -> bool {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // Places of secrets are known by their paths. The user may give them other names.
        if is_directory || stat.st_nlink == 1 || self.grant.hide.is_empty() {
            return false;
        }
        // A file without a name was removed at this moment, and its name cannot be found out any
        // more.
        stat.st_nlink == 0
            || match self.linked.get_or_init(|| self.find_linked()) {
                LinkedFiles::Known(files) => files.contains(&identity(stat)),
                LinkedFiles::Unknown => true,
            }
    }

    fn find_linked(&self) -> LinkedFiles {
        let mut files = HashSet::new();
        let mut left = MAX_NAMES;
        for dir in self.grant.dirs.iter().map(|dir| &dir.path) {
            let is_inner = |it: &Path| dir != it && dir.starts_with(it);
            if self.grant.dirs.iter().any(|it| is_inner(&it.path)) {
                continue;
            }
            let seen = walk(dir, &mut left, &mut |entry| {
                if self.is_over() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let is_hidden = self.is_hidden_anywhere(entry.path);
                if is_hidden && entry.kind != FileType::Directory {
                    match statat(entry.dir, entry.name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) if stat.st_nlink > 1 => _ = files.insert(identity(&stat)),
                        Ok(_) | Err(Errno::NOENT) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Ok(())
            });
            if seen.is_err() {
                return LinkedFiles::Unknown;
            }
        }
        LinkedFiles::Known(files)
    }

    /// Fails if a file or directory must not get another name, because something beneath it may be
    /// hidden and would be seen then. This compares the patterns and does not look at the files:
    /// another guest may put a directory there, or change one, before the renaming.
    pub(super) fn check_move(
        &self,
        (old_root, old): (&Path, &Path),
        (new_root, new): (&Path, &Path),
    ) -> Result<(), ErrorCode> {
        let (before, after) = (self.granted_with(old_root), self.granted_with(new_root));
        let keeps_secrets = !self.grant.reserved.has_secrets_beneath(old);
        match keeps_secrets && self.grant.hide.keeps_hidden((before, old), (after, new)) {
            true => Ok(()),
            // Programs then copy the file and remove it. They would move a directory only in part.
            false if symlink_metadata(old).is_ok_and(|found| !found.is_dir()) => {
                Err(ErrorCode::CrossDevice)
            }
            false => Err(ErrorCode::Access),
        }
    }
}

/// A path that is followed name by name, which tells at each name whether the path is hidden.
pub(super) struct PathSteps<'a> {
    walk: HideWalk<'a>,
    reserved: &'a Reserved,
    path: PathBuf,
}

impl PathSteps<'_> {
    /// Continues to a name.
    pub(super) fn push(&mut self, name: &OsStr) {
        self.walk.push(name);
        self.path.push(name);
    }

    /// Continues along a path, through all of its names.
    pub(super) fn follow(&mut self, path: &Path) {
        self.walk.follow(path);
        self.path.push(path);
    }

    /// Goes back from the last name.
    pub(super) fn pop(&mut self) {
        self.walk.pop();
        self.path.pop();
    }

    /// Returns whether the path is hidden, or lies outside of the granted directory that it was
    /// reached through.
    pub(super) fn is_hidden_or_outside(&self) -> bool {
        self.walk.is_hidden_or_outside() || self.reserved.is_secret(&self.path)
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Returns the absolute path of an open file or directory.
pub(super) fn real_path(open: BorrowedFd<'_>) -> io::Result<PathBuf> {
    read_link(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

/// Returns the absolute path of a name in an open directory; `.` is the directory.
pub(super) fn path_of(dir: BorrowedFd<'_>, name: &str) -> io::Result<PathBuf> {
    let dir = real_path(dir)?;
    Ok(match name.trim_end_matches('/') {
        "" | "." => dir,
        name => dir.join(name),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, canonicalize, hard_link};
    use std::os::fd::AsFd as _;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ikigai_protocol::{Access, GrantedDir};

    use super::*;
    use crate::policy::Hide;

    fn hidden(root: &Path, patterns: &[&str]) -> Arc<HiddenPaths> {
        let dirs = vec![GrantedDir { access: Access::ReadWrite, path: root.to_owned() }];
        let hide = Hide::parse(patterns.iter().copied()).expect("patterns");
        let grant = Arc::new(Grant { dirs, hide, ..Grant::default() });
        HiddenPaths::for_grant(&grant, Arc::new(|| false)).expect("a pattern")
    }

    #[test]
    fn a_file_is_judged_by_all_its_names_and_by_the_path_that_it_has() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = canonicalize(scratch.path()).expect("a path");
        fs::create_dir_all(root.join("a/secrets")).expect("made");
        for name in ["a/secrets/one", "a/seen", "a/two.pem"] {
            fs::write(root.join(name), name).expect("written");
        }
        for (from, to) in [("a/secrets/one", "one"), ("a/two.pem", "two"), ("a/seen", "seen")] {
            hard_link(root.join(from), root.join(to)).expect("linked");
        }
        let hidden = hidden(&root, &["/a/secrets", "*.pem"]);
        let opened = |name: &str| {
            let file = File::open(root.join(name)).expect("opened");
            hidden.check_open(&root, file.as_fd()).is_ok()
        };
        assert!(opened("a/seen") && opened("seen") && opened("a"));
        for name in ["one", "two", "a/two.pem", "a/secrets/one", "a/secrets"] {
            assert!(!opened(name), "{name}");
        }
        // Reached through another root, it lies in no granted directory and is hidden.
        let file = File::open(root.join("seen")).expect("opened");
        assert!(hidden.check_open(Path::new("/elsewhere"), file.as_fd()).is_err());
    }

    #[test]
    fn a_directory_stays_if_something_in_it_might_be_seen() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = canonicalize(scratch.path()).expect("a path");
        fs::create_dir_all(root.join("a/b")).expect("made");
        fs::write(root.join("a/file"), "").expect("written");
        let hidden = hidden(&root, &["a/*/secrets", "*.pem"]);
        let moved = |from: &str, to: &str| {
            hidden.check_move((&root, &root.join(from)), (&root, &root.join(to)))
        };
        for (from, to) in [("c", "d"), ("a/b", "a/c"), ("none", "some"), ("a/file", "a/other")] {
            assert_eq!(moved(from, to), Ok(()), "{from} {to}");
        }
        // Nothing is hidden there now, and another guest may change that at any time.
        for (from, to) in [("a/b", "b"), ("a", "c/a"), ("a/none", "none")] {
            assert_eq!(moved(from, to), Err(ErrorCode::Access), "{from} {to}");
        }
        assert_eq!(moved("a/file", "file"), Err(ErrorCode::CrossDevice));
    }

    #[test]
    fn a_search_for_other_names_ends_with_the_call() {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = canonicalize(scratch.path()).expect("a path");
        for number in 0..100 {
            fs::write(root.join(number.to_string()), "").expect("written");
        }
        hard_link(root.join("1"), root.join("one")).expect("linked");
        let file = File::open(root.join("one")).expect("opened");
        let grant = hidden(&root, &[".env"]).grant.clone();
        for (polls, is_seen) in [(1_000, true), (10, false)] {
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            let is_over = move || counted.fetch_add(1, Ordering::Relaxed) >= polls;
            let hidden = HiddenPaths::for_grant(&grant, Arc::new(is_over)).expect("a pattern");
            assert_eq!(hidden.check_open(&root, file.as_fd()).is_ok(), is_seen);
            assert_eq!(asked.load(Ordering::Relaxed), polls.min(100) + 1);
        }
    }
}
