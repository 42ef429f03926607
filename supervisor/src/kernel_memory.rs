//! The kernel's memory that no control group is charged for.
//!
//! Records of locks, entries of a directory that is being read: each is small, or is behind a
//! descriptor, and there can be many. They cannot be counted: to list a hundred thousand locks
//! takes the kernel seconds, in which nobody on the machine can lock a file. So the kernel's
//! own memory is measured, and only where it has grown too much, the descriptors and locks of
//! the call. Owns that measurement; ends nothing.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};

use crate::process_tree::Process;

/// The number of descriptors from which on a call is taken to fill the kernel's memory while
/// that grows. The processes of an ordinary call hold fewer together.
const MANY_DESCRIPTORS: usize = 1000;

/// The number of locks from which on a call is taken to fill the kernel's memory. Databases hold
/// a few for each file.
const MANY_LOCKS: usize = 1000;

/// The measurements of the kernel's memory during one call.
#[derive(Default)]
pub(super) struct KernelMemory {
    /// The lowest value that was measured.
    least: Option<u64>,
}

impl KernelMemory {
    /// Returns whether the kernel's own memory has grown by more than `limit` bytes, and `tree`
    /// holds many descriptors or locks.
    pub(super) fn is_taken(
        &mut self,
        limit: u64,
        tree: impl FnOnce() -> io::Result<Vec<Process>>,
    ) -> io::Result<bool> {
        let now = kernels_own(&meminfo()?);
        let least = *self.least.insert(self.least.unwrap_or(now).min(now));
        if now - least <= limit {
            return Ok(false);
        }
        if descriptors(&tree()?) >= MANY_DESCRIPTORS {
            return Ok(true);
        }
        // A namespace does not show the locks of others, but for those of open descriptions,
        // which belong to no process.
        let lines = BufReader::new(File::open("/proc/locks")?).split(b'\n');
        let mut seen = 0;
        for line in lines.take(MANY_LOCKS) {
            line?;
            seen += 1;
        }
        Ok(seen == MANY_LOCKS)
    }
}

/// Counts the descriptors of the processes. A process that may not be read counts as one with
/// many.
fn descriptors(tree: &[Process]) -> usize {
    let of = |process: &Process| match fs::read_dir(format!(
        "/proc/{}/fd",
        process.pid.as_raw_nonzero()
    )) {
        Ok(open) => open.count(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => MANY_DESCRIPTORS,
        Err(_) => 0,
    };
    tree.iter().map(of).sum()
}

/// Reads all of the file with one system call: the kernel counts anew for each.
fn meminfo() -> io::Result<String> {
    let mut text = Vec::with_capacity(8 << 10);
    File::open("/proc/meminfo")?.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the memory that the kernel keeps for itself and cannot reclaim, in bytes,
/// proc_meminfo(5).
fn kernels_own(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("SUnreclaim:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_memory_is_read_in_bytes() {
        let text = "MemTotal:       24669228 kB\nSUnreclaim:       622292 kB\n";
        assert_eq!(kernels_own(text), 622_292 * 1024);
        assert_eq!(kernels_own(""), 0);
    }

    #[test]
    fn less_than_the_limit_is_not_looked_into() {
        let tree = || Err(io::ErrorKind::Other.into());
        assert!(!KernelMemory::default().is_taken(1 << 40, tree).expect("told"));
    }
}
