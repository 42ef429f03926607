//! The kernel's memory that no control group is charged for.
//!
//! Records of locks, entries of a directory that is being read: each is small, or is behind a
//! descriptor, and there are many of them. They cannot be counted. To list a hundred thousand
//! locks takes the kernel seconds, in which nobody on the machine can lock a file. So
//! the kernel's own memory is looked at, and where that has grown too much, whether the call
//! holds many descriptors or locks. Owns that look; ends nothing.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};

use crate::process_tree::Process;

/// More descriptors than the processes of a call have a use for together while the kernel's
/// memory grows.
const MANY_DESCRIPTORS: usize = 1000;

/// More locks than a program has a use for at once: databases hold a few for each file.
const MANY: usize = 1000;

/// Looks at the kernel's memory, as long as one call lasts.
#[derive(Default)]
pub(super) struct KernelMemory {
    /// The least memory that the kernel had for itself at any look.
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
        // In a namespace those of others are left out, but for locks of open descriptions,
        // which belong to no process.
        let lines = BufReader::new(File::open("/proc/locks")?).split(b'\n');
        let mut seen = 0;
        for line in lines.take(MANY) {
            line?;
            seen += 1;
        }
        Ok(seen == MANY)
    }
}

/// The descriptors of all of them. A process that lets nobody look counts as one with many.
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

/// All of it in one call: the kernel counts anew for each.
fn meminfo() -> io::Result<String> {
    let mut text = Vec::with_capacity(8 << 10);
    File::open("/proc/meminfo")?.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The memory that the kernel keeps for itself and cannot give back, in bytes, as
/// proc_meminfo(5) tells it.
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
