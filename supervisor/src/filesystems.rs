//! The file systems that hold files and nothing else.
//!
//! Anything may be mounted below a directory that is granted to a tool. For example, the root of
//! another system that is being built has the host's own procfs and sysfs, and a write there is
//! an order to the kernel. Both executors check the file system of an open file, never a path,
//! against a list of allowed file systems. All others are refused.
//!
//! Owns the check. Does not open, mount or cover anything.

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

/// Returns whether an open file or directory belongs to an ordinary file system. A descriptor of
/// `O_PATH` is enough.
///
/// # Errors
///
/// Fails if the file system cannot be queried. Callers take that for a no.
pub fn is_ordinary(open: impl AsFd) -> io::Result<bool> {
    system::is_ordinary(open)
}

/// Returns whether an open file is kept only in memory, and so is never written back to a
/// device.
///
/// # Errors
///
/// Fails if the file system cannot be queried. Callers take that for a yes.
pub fn is_memory(open: impl AsFd) -> io::Result<bool> {
    system::is_memory(open)
}

/// Returns whether an open file is a device. A device is not content of its file system: a block
/// device contains a whole other one.
///
/// # Errors
///
/// Fails if the file cannot be queried. Callers take that for a yes.
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
