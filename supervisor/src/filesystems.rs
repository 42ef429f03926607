//! The file systems that hold files and nothing else.
//!
//! Anything may be mounted below a directory that is granted to a tool: a root that is being
//! built has the host's own procfs and sysfs, where a write is an order to the kernel. Both
//! executors judge the file system of an open file, never a path, by a list of those that are
//! allowed; all others are refused.
//!
//! Owns the judgement. Does not open, mount or cover anything.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

/// Returns whether an open file or directory belongs to an ordinary file system. A descriptor
/// of `O_PATH` will do.
///
/// # Errors
///
/// The file system cannot be asked. Callers take that for a no.
pub fn is_ordinary(open: impl AsFd) -> io::Result<bool> {
    system::is_ordinary(open)
}

/// Returns whether an open file is kept in memory alone, so that it is never written back to a device.
///
/// # Errors
///
/// The file system cannot be asked. Callers take that for a yes.
pub fn is_memory(open: impl AsFd) -> io::Result<bool> {
    system::is_memory(open)
}

/// Returns whether an open file is a device, which is not content of its file system: a block
/// device holds a whole other one.
///
/// # Errors
///
/// The file cannot be asked. Callers take that for a yes.
pub fn is_device(open: impl AsFd) -> io::Result<bool> {
    let kind = FileType::from_raw_mode(fstat(open)?.st_mode);
    Ok(matches!(kind, FileType::BlockDevice | FileType::CharacterDevice))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_device_is_told_from_a_file() {
        assert!(is_device(File::open("/dev/null").expect("opened")).expect("told"));
        assert!(!is_device(File::open(env!("CARGO_MANIFEST_DIR")).expect("opened")).expect("told"));
    }
}
