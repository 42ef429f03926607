//! macOS: the file systems by their names.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstatfs;

/// The names (`statfs(2)`, `f_fstypename`) of the ordinary file systems, as the folders of
/// `/System/Library/Filesystems` have them. `devfs` and `autofs` are not among them.
const ORDINARY: [&str; 9] =
    ["apfs", "hfs", "msdos", "exfat", "ntfs", "cd9660", "udf", "nfs", "smbfs"];

/// Returns whether an open file belongs to an ordinary file system.
pub(super) fn is_ordinary(open: impl AsFd) -> io::Result<bool> {
    let name = fstatfs(open)?.f_fstypename;
    let name: Vec<u8> =
        name.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned()).collect();
    Ok(ORDINARY.iter().any(|ordinary| ordinary.as_bytes() == name))
}

/// Returns whether an open file is on a file system in memory. macOS has no such file system.
pub(super) fn is_memory(_: impl AsFd) -> io::Result<bool> {
    Ok(false)
}
