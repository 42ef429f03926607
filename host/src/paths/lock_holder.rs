//! The process that holds the lock of a file, for messages about waiting for the lock.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{major, minor};

/// The kernel's list of all locks (proc_locks(5)).
const LOCKS: &str = "/proc/locks";

/// Returns the process that holds the lock (flock(2)) of a file, in words: its program and its
/// process ID, or `another process` if this machine does not report it.
#[must_use]
pub fn lock_holder(path: &Path) -> String {
    File::open(path)
        .map_or(LockHolder { process: None }, |file| LockHolder::of_file(&file))
        .to_string()
}

/// The process that holds the lock (flock(2)) of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockHolder {
    /// The process, if this machine reports it.
    process: Option<HolderProcess>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HolderProcess {
    id: u32,
    /// The name of its program; `None` if the process has ended, and its child has the lock.
    name: Option<String>,
}

impl LockHolder {
    /// Returns the holder of the lock of a file.
    pub(crate) fn of_file(file: &File) -> Self {
        let find = || {
            let metadata = file.metadata().ok()?;
            let device = (major(metadata.dev()), minor(metadata.dev()));
            let id = holder_in(&fs::read_to_string(LOCKS).ok()?, device, metadata.ino())?;
            let name = fs::read_to_string(format!("/proc/{id}/comm")).ok();
            Some(HolderProcess { id, name: name.map(|name| name.trim_end().to_owned()) })
        };
        Self { process: find() }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            None => f.write_str("another process"),
            Some(HolderProcess { id, name: None }) => write!(f, "process {id}"),
            Some(HolderProcess { id, name: Some(name) }) => {
                write!(f, "`{}` (process {id})", ikigai_protocol::written_out(name))
            }
        }
    }
}

/// Returns the process that has the lock of this file in the kernel's list. Some file systems list
/// a different device than the metadata. Then the lock counts if it is the only lock of this inode
/// number.
fn holder_in(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let held: Vec<((u32, u32), u32)> =
        locks.lines().filter_map(|line| lock_in(line, inode)).collect();
    let exact = held.iter().find(|(own, _)| *own == device);
    exact.or(if let [only] = &held[..] { Some(only) } else { None }).map(|(_, process)| *process)
}

/// Returns the device and the process of a line, if it is a lock of a whole file with this inode
/// number.
fn lock_in(line: &str, inode: u64) -> Option<((u32, u32), u32)> {
    // The line of a waiting process has `->` instead of the kind.
    let ["FLOCK", _, _, process, file, ..] =
        line.split_whitespace().skip(1).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let [major, minor, own] = file.split(':').collect::<Vec<_>>()[..] else { return None };
    let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    (own.parse() == Ok(inode)).then_some(())?;
    // Processes of other namespaces don't have a positive number.
    let process = process.parse().ok().filter(|process| *process > 0)?;
    Some((device, process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:02:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:02:7 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 08:02:7 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fd:10:7 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 15 00:2a:8 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 0 08:02:9 0 EOF\n";
        for (device, inode, holder) in [
            ((8, 2), 7, Some(12)),
            ((0xfd, 0x10), 7, Some(14)),
            ((9, 9), 7, None),
            ((9, 9), 8, Some(15)),
            ((8, 2), 9, None),
            ((8, 2), 1, None),
        ] {
            assert_eq!(holder_in(locks, device, inode), holder, "{device:?} {inode}");
        }
    }

    #[test]
    fn a_message_has_the_number_and_the_name_of_the_process() {
        let holder = |name: Option<&str>| {
            let process = HolderProcess { id: 7, name: name.map(str::to_owned) };
            LockHolder { process: Some(process) }.to_string()
        };
        assert_eq!(holder(Some("ikigai")), "`ikigai` (process 7)");
        assert_eq!(holder(None), "process 7");
        assert_eq!(LockHolder { process: None }.to_string(), "another process");
    }
}
