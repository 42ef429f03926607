//! The opening of a file by a path that a tool chose, in a time that the tool does not choose.
//!
//! A path can lead through 40 links of 4 KiB, and so through tens of thousands of names. The
//! kernel looks all of them up in one system call, which no signal ends, and this process checks
//! nothing in the meantime. So this process follows the links itself, through a bounded number of
//! names. Owns the bound. Does not judge the file: the tool may change any name at any time, so
//! only the opened file can be checked.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, open, openat, openat2,
    readlinkat,
};
use rustix::io::Errno;

/// The number of names that are looked up for a path with links. It includes the names in the
/// links.
const MOST_NAMES: usize = 128;

/// Opens the file at a path with `O_PATH`. A relative path begins at `from`. If the path ends
/// with a link, `on_link` opens the link itself.
///
/// # Errors
///
/// Fails with `ELOOP` if the path has links, and it leads through more than [`MOST_NAMES`] names
/// or through `/proc`. The links there lead to files of this process, and looking up a name
/// takes long.
pub(super) fn open_path(from: impl AsFd, path: &Path, on_link: bool) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, on_link);
    match openat2(&from, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Linux before 5.6 does not have the call.
        Err(Errno::LOOP | Errno::NOSYS) => follow(from.as_fd(), path, on_link),
        opened => opened,
    }
}

/// Opens each directory and each link on the way to a file.
fn follow(from: BorrowedFd<'_>, path: &Path, on_link: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let start = |from: BorrowedFd<'_>, path: &OsStr| match path.as_bytes().starts_with(b"/") {
        true => open(c"/", flags, Mode::empty()),
        false => openat(from, c".", flags, Mode::empty()),
    };
    let mut at = start(from, path.as_os_str())?;
    // The last one is the next to be looked up.
    let mut names = names_of(path.as_os_str());
    let mut left = MOST_NAMES;
    let mut device = None;
    loop {
        if names.len() > left {
            return Err(Errno::LOOP);
        }
        let Some(name) = names.pop() else { return Ok(at) };
        left -= 1;
        let next = openat(&at, name, flags, Mode::empty())?;
        let stat = fstat(&next)?;
        if device.replace(stat.st_dev) != Some(stat.st_dev)
            && fstatfs(&next).is_ok_and(|it| it.f_type == PROC_SUPER_MAGIC)
        {
            return Err(Errno::LOOP);
        }
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if !is_link || on_link && names.is_empty() {
            at = next;
            continue;
        }
        let target = readlinkat(&next, c"", Vec::new())?;
        let target = OsStr::from_bytes(target.as_bytes());
        at = start(at.as_fd(), target)?;
        names.extend(names_of(target));
    }
}

/// Returns the names in a path, the last one first. Only a directory contains the empty name
/// after a `/` at the end, which becomes `.`.
fn names_of(path: &OsStr) -> Vec<OsString> {
    let names = path.as_bytes().split(|byte| *byte == b'/').rev();
    let names = names.map(|name| if name.is_empty() { &b"."[..] } else { name });
    names.map(|name| OsStr::from_bytes(name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A directory with a file in it, and in which links are made.
    struct Place {
        directory: tempfile::TempDir,
        opened: OwnedFd,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            fs::create_dir(directory.path().join("inner")).expect("made");
            fs::write(directory.path().join("inner/file"), "text").expect("written");
            let opened = open(directory.path(), OFlags::PATH, Mode::empty()).expect("opened");
            Self { directory, opened }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn link(&self, name: &str, target: impl AsRef<Path>) {
            symlink(target, self.path(name)).expect("linked");
        }

        /// Returns the type of the file at a path, and whether it is the one that was made.
        fn find(&self, path: impl AsRef<Path>, on_link: bool) -> Result<(FileType, bool), Errno> {
            let found = fstat(open_path(&self.opened, path.as_ref(), on_link)?)?;
            let file = rustix::fs::stat(self.path("inner/file"))?;
            let is_file = (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino);
            Ok((FileType::from_raw_mode(found.st_mode), is_file))
        }
    }

    #[test]
    fn paths_with_few_links_lead_to_their_files() {
        let place = Place::new();
        place.link("relative", "inner/file");
        place.link("absolute", place.path("inner/file"));
        place.link("directory", "./inner//");
        place.link("inner/back", "../directory/../relative");
        place.link("chain", "directory/back");
        for path in ["inner/file", "relative", "absolute", "directory/file", "inner/back", "chain"]
        {
            let file = Ok((FileType::RegularFile, true));
            assert_eq!(place.find(path, false), file, "{path}");
            assert_eq!(place.find(place.path(path), false), file, "{path}, absolute");
        }
        assert_eq!(place.find("directory/", false), Ok((FileType::Directory, false)));
        assert_eq!(place.find("relative/", false), Err(Errno::NOTDIR));
        assert_eq!(place.find("relative", true), Ok((FileType::Symlink, false)));
        assert_eq!(place.find("directory/back", true), Ok((FileType::Symlink, false)));
        assert_eq!(place.find("directory/file", true), Ok((FileType::RegularFile, true)));
        assert_eq!(place.find("directory/none", false), Err(Errno::NOENT));
    }

    #[test]
    fn a_path_through_too_many_names_is_refused() {
        let place = Place::new();
        place.link("endless", "endless");
        place.link("far", format!("{}inner/file", "./".repeat(MOST_NAMES)));
        place.link("near", format!("{}inner/file", "./".repeat(MOST_NAMES / 2)));
        // Each is short enough, and all of them together are not.
        place.link("first", format!("{}second", "inner/../".repeat(MOST_NAMES / 8)));
        place.link("second", format!("{}third", "inner/../".repeat(MOST_NAMES / 8)));
        place.link("third", format!("{}fourth", "inner/../".repeat(MOST_NAMES / 8)));
        place.link("fourth", format!("{}inner/file", "inner/../".repeat(MOST_NAMES / 8)));
        for path in ["endless", "far", "first", "endless/file"] {
            assert_eq!(place.find(path, false), Err(Errno::LOOP), "{path}");
            // The kernel itself refuses only the endless one.
            let kernels = fs::read(place.path(path)).is_ok();
            assert_eq!(kernels, !path.starts_with("endless"), "{path}");
        }
        for path in ["near", "third"] {
            assert_eq!(place.find(path, false), Ok((FileType::RegularFile, true)), "{path}");
        }
        assert_eq!(place.find("far", true), Ok((FileType::Symlink, false)));
    }

    #[test]
    fn a_path_with_links_leads_through_no_procfs() {
        let place = Place::new();
        let file = place.path("inner/file");
        let (up, file) = ("../".repeat(4), file.strip_prefix("/").expect("absolute"));
        place.link("magic", Path::new("/proc/self/root").join(file));
        place.link("through", Path::new("/proc/self").join(&up).join(file));
        place.link("top", "/");
        for path in ["magic", "through", "top/proc/self/comm"] {
            assert!(place.path(path).exists(), "{path}");
            assert_eq!(place.find(path, false), Err(Errno::LOOP), "{path}");
        }
        let own = open(c"/proc/self", OFlags::PATH, Mode::empty()).expect("opened");
        let from = |path: &str| open_path(&own, Path::new(path), false).err();
        assert_eq!(from("cwd/file"), Some(Errno::LOOP));
        assert_eq!(from("../self/status"), Some(Errno::LOOP));
    }
}
