//! The shortages of a process or a device that prevent SQLite from using a store. SQLite reports
//! only that something failed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::error::{Error, ProcessLimit};
use crate::store_url::StoreUrl;
use crate::store_url::companions;

/// The descriptors that a connection needs: its file, the log and its index, and a directory.
const DESCRIPTORS: usize = 4;

/// The bytes that a connection needs to begin with: more than the index of the log has, and the
/// most by which a file grows at once.
const ROOM: u64 = 64 << 10;

/// A shortage of the process or of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::database) enum Shortage {
    /// A limit of the process is reached.
    Limit(ProcessLimit),
    /// The device has no room, or a quota is used up.
    Room,
}

impl Shortage {
    /// Returns the current shortage, if one prevents the use of a store in this file.
    pub(in crate::database) fn at(path: &Path) -> Option<Self> {
        let directory = path.parent()?;
        let opened: Vec<_> = (0..DESCRIPTORS).map(|_| File::open(directory)).collect();
        if let Some(limit) = opened.iter().find_map(|opened| descriptors(opened.as_ref().err()?)) {
            return Some(Self::Limit(limit));
        }
        drop(opened);
        if let Some(most) = getrlimit(Resource::Fsize).current {
            let files = companions(path).chain([path.to_owned()]);
            let sizes = files.filter_map(|file| Some(fs::symlink_metadata(file).ok()?.len()));
            if sizes.chain([0]).any(|size| size + ROOM > most) {
                return Some(Self::Limit(ProcessLimit::FileSize(most)));
            }
        }
        let space = statvfs(directory).ok()?;
        let blocks = if geteuid().is_root() { space.f_bfree } else { space.f_bavail };
        // Some file systems do not count files.
        let has_no_names = space.f_files > 0 && space.f_favail == 0;
        let is_full = has_no_names || blocks.saturating_mul(space.f_frsize) < ROOM;
        (is_full || takes_nothing(directory)).then_some(Self::Room)
    }

    /// Returns the error of a store.
    pub(in crate::database) fn error(self, store: StoreUrl) -> Error {
        match self {
            Self::Limit(limit) => Error::Limited { store, limit },
            Self::Room => Error::Full(store),
        }
    }
}

/// Returns whether a directory refuses new files, as if a quota is used up. The numbers of the
/// device do not show that.
fn takes_nothing(directory: &Path) -> bool {
    let written = tempfile::tempfile_in(directory).and_then(|mut file| {
        io::copy(&mut io::repeat(0).take(ROOM), &mut file)?;
        // Some file systems report it only then.
        file.sync_data()
    });
    written.is_err_and(|error| is_full(&error))
}

/// Returns whether an error says that the device or a quota has no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Returns the limit on open files, if an error says that it is reached.
pub(super) fn descriptors(error: &io::Error) -> Option<ProcessLimit> {
    let is_reached = [Errno::MFILE, Errno::NFILE]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    is_reached.then(|| ProcessLimit::OpenFiles(getrlimit(Resource::Nofile).current.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_with_room_around_it_lacks_nothing() {
        let scratch = tempfile::tempdir().expect("a directory");
        assert_eq!(Shortage::at(&scratch.path().join("store.db")), None);
        assert_eq!(Shortage::at(Path::new("/nowhere/store.db")), None);
    }

    #[test]
    fn a_quota_is_no_other_shortage_than_a_full_device() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!([Errno::NOSPC, Errno::DQUOT].map(error).iter().all(is_full));
        assert!(![Errno::MFILE, Errno::ACCESS, Errno::FBIG].map(error).iter().any(is_full));
    }

    #[test]
    fn a_process_without_descriptors_is_told_so() {
        let error = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        assert!(matches!(descriptors(&error), Some(ProcessLimit::OpenFiles(most)) if most > 0));
        let other = io::Error::from_raw_os_error(Errno::NOENT.raw_os_error());
        assert_eq!(descriptors(&other), None);
    }
}
