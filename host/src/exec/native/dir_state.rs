//! The state of a directory, by which a search notices that names in it changed.

use std::time::{Duration, SystemTime};

use rustix::fs::Stat;

/// A time in which the clock of a file system moves on, if it counts in ticks.
pub(super) const TICK: Duration = Duration::from_millis(20);

/// The state of a directory, which changes with the names in it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct DirState {
    device: u64,
    inode: u64,
    /// The time of the last change, in seconds and nanoseconds. A program can set the time of the contents, but not this.
    changed: (i64, u64),
}

impl DirState {
    pub(super) fn from_stat(stat: &Stat) -> Self {
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        Self { device: stat.st_dev, inode: stat.st_ino, changed }
    }

    /// Returns whether a change right after another one may have the same time. File systems count in whole seconds, or
    /// in the ticks of the kernel, which take up to 10 ms.
    pub(super) fn is_too_young(self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let tick = if nanoseconds == 0 { Duration::from_secs(1) } else { TICK };
        let changed = Duration::new(seconds.try_into().unwrap_or(0), nanoseconds as u32);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now < changed + tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_too_young_until_the_clock_of_its_file_system_moved_on() {
        let is_too_young = |changed, milliseconds| {
            let state = DirState { device: 1, inode: 1, changed };
            state.is_too_young(SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds))
        };
        assert!(is_too_young((10, 1), 10_015) && !is_too_young((10, 1), 10_021));
        assert!(is_too_young((10, 0), 10_999) && !is_too_young((10, 0), 11_000));
    }
}
