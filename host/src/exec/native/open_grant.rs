//! Opens the directories and files that a call was granted, each once. Searches nothing in them.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ikigai_protocol::GrantedDir;
use ikigai_supervisor::plan::InodeId;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

/// A granted directory or file that was opened by its path once. The search does not use the path
/// again: another program may move something else there, and back. The supervisor refuses what it
/// finds there if it is not this.
pub(super) struct OpenGrant {
    pub(super) path: PathBuf,
    pub(super) place: OwnedFd,
    pub(super) found: InodeId,
}

impl OpenGrant {
    /// Opens what was granted, without the right to read it.
    ///
    /// # Errors
    ///
    /// The reason, for a person. One that is missing is an error: another program may have moved it
    /// for this moment, and the supervisor would find it again.
    pub(super) fn open_all(dirs: &[GrantedDir]) -> Result<Vec<Self>, String> {
        let open = |dir: &GrantedDir| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = openat(CWD, &dir.path, flags, Mode::empty())?;
            let found = identity(&fstat(&place)?);
            Ok(Self { path: dir.path.clone(), place, found })
        };
        let failed = |dir: &GrantedDir, errno: Errno| match errno {
            Errno::NOENT => format!(
                "the granted `{}` does not exist; make it, or take it out of the grant",
                dir.path.display()
            ),
            errno => format!("the granted `{}` cannot be opened: {errno}", dir.path.display()),
        };
        dirs.iter().map(|dir| open(dir).map_err(|errno| failed(dir, errno))).collect()
    }
}

pub(super) fn identity(stat: &Stat) -> InodeId {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    InodeId { directory, device: stat.st_dev, inode: stat.st_ino }
}
