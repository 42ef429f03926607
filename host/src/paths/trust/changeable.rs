//! The files that the user of this process could change, and so could every tool that may write
//! there.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::Access;
use rustix::io::Errno;

use super::is_own;

/// The directories of installed programs. Root can write everywhere, so for root the path decides
/// instead of the mode.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"];

/// Returns whether the user of this process could put another file at `path`, whose directories
/// are not links: by writing to the file, or to a directory on the way. A file without accessible
/// metadata counts as changeable.
#[must_use]
pub(crate) fn is_changeable(path: &Path) -> bool {
    let is_system = || SYSTEM.iter().any(|dir| path.starts_with(dir));
    if rustix::process::geteuid().is_root() && is_system() {
        return false;
    }
    path.ancestors().any(may_write)
}

fn may_write(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return true };
    // A user who may write to a link's directory can replace the link.
    if metadata.is_symlink() {
        return false;
    }
    match rustix::fs::access(path, Access::WRITE_OK) {
        Ok(()) => true,
        Err(Errno::ROFS) => false,
        // Its owner can restore the right to write.
        Err(_) => is_own(metadata.uid()),
    }
}

/// Returns the number of names (hard links) of the file outside of its directory. The file could be
/// rewritten through each of them.
///
/// # Errors
///
/// Fails if the directory cannot be read.
pub(crate) fn other_names(path: &Path, file: &Metadata) -> io::Result<u64> {
    if file.nlink() == 1 {
        return Ok(0);
    }
    let Some(dir) = path.parent() else { return Ok(0) };
    let mut here = 0;
    for entry in fs::read_dir(dir)? {
        let found = entry?.metadata()?;
        here += u64::from((found.dev(), found.ino()) == (file.dev(), file.ino()));
    }
    Ok(file.nlink().saturating_sub(here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_users_own_is_changeable_and_the_systems_is_not() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(is_changeable(&file));
        // Its owner can make the file writable again.
        let mut mode = fs::metadata(&file).expect("there").permissions();
        mode.set_readonly(true);
        fs::set_permissions(&file, mode).expect("permitted");
        assert!(is_changeable(&file));
        assert!(is_changeable(&scratch.path().join("absent")));
        assert!(!is_changeable(&Path::new("/bin/sh").canonicalize().expect("a shell")));
    }

    #[test]
    fn names_in_the_same_directory_are_not_others() {
        let scratch = tempfile::tempdir().expect("a directory");
        let [one, two, other] = ["one", "two", "elsewhere/three"].map(|it| scratch.path().join(it));
        fs::create_dir(scratch.path().join("elsewhere")).expect("a directory");
        fs::write(&one, "").expect("written");
        let others = || other_names(&one, &fs::metadata(&one).expect("there")).expect("read");
        assert_eq!(others(), 0);
        fs::hard_link(&one, &two).expect("linked");
        assert_eq!(others(), 0);
        fs::hard_link(&one, &other).expect("linked");
        assert_eq!(others(), 1);
    }
}
