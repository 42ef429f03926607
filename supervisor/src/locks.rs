//! The kernel's memory for locks on files, which no control group is charged for.
//!
//! Each is small, and there is no bound on their number: `RLIMIT_LOCKS` has had no effect
//! since Linux 2.4. Nor can they be counted: to list a hundred thousand takes the kernel
//! seconds, in which nobody on the machine can lock a file. So the kernel's own memory is
//! looked at, and where that has grown too much, whether the call has many locks. Owns that
//! look; ends nothing.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

/// More locks than a program has a use for at once: databases hold a few for each file.
const MANY: usize = 1000;

/// Looks at what locks take, as long as one call lasts.
#[derive(Default)]
pub(super) struct Locks {
    /// The least memory that the kernel had for itself at any look.
    least: Option<u64>,
}

impl Locks {
    /// Returns whether the kernel's own memory has grown by more than `limit` bytes, and this
    /// process can see many locks.
    pub(super) fn take_more_than(&mut self, limit: u64) -> io::Result<bool> {
        let now = kernels_own(&fs::read_to_string("/proc/meminfo")?);
        let least = *self.least.insert(self.least.unwrap_or(now).min(now));
        if now - least <= limit {
            return Ok(false);
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
    fn few_locks_are_less_than_any_limit() {
        let mut locks = Locks::default();
        assert!(!locks.take_more_than(1 << 40).expect("told"));
    }
}
