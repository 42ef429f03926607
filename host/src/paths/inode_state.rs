//! The state of a file or directory, by which a reader notices that it changed. Owns the check
//! for changes so recent that the time cannot show the next change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

#[cfg(target_os = "linux")]
use rustix::fs::Stat;

/// The age from which a further change would have a different time.
#[derive(Clone, Copy)]
pub(crate) struct SettlingAge {
    /// The age on file systems with a clock that ticks every few milliseconds.
    ticks: Duration,
    /// The age on file systems with times in whole seconds, such as ext4 with inodes of 128 bytes,
    /// or in even seconds, such as FAT.
    seconds: Duration,
}

/// A time in which the clock of a file system moves on, if it counts in ticks.
#[cfg(target_os = "linux")]
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The age of a directory that is looked at before and after a call.
#[cfg(target_os = "linux")]
pub(crate) const CALL_AGE: SettlingAge =
    SettlingAge { ticks: TICK, seconds: Duration::from_secs(1) };

/// The age of a file or directory whose contents are remembered.
const MEMO_AGE: SettlingAge =
    SettlingAge { ticks: Duration::from_millis(100), seconds: Duration::from_millis(2100) };

/// The identity of a file or directory, and the time of its last change. The time of a directory
/// changes with the names in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InodeState {
    device: u64,
    inode: u64,
    /// The time of the last change, in seconds and nanoseconds. A program can set the time of the
    /// contents, but not this.
    changed: (i64, i64),
}

impl InodeState {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { device: metadata.dev(), inode: metadata.ino(), changed }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        let changed = (stat.st_ctime, stat.st_ctime_nsec.cast_signed());
        Self { device: stat.st_dev, inode: stat.st_ino, changed }
    }

    /// Returns whether one more change would give the file a different time. A change in the
    /// future was timed by a clock that has since been set back, so it never counts.
    pub(crate) fn has_settled(self, age: SettlingAge, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let age = if nanoseconds == 0 { age.seconds } else { age.ticks };
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
        // A time before 1970 is long ago.
        let Ok(seconds) = u64::try_from(seconds) else { return true };
        let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds));
        let since = changed.and_then(|changed| now.duration_since(changed).ok());
        since.is_some_and(|since| since > age)
    }
}

/// Returns whether one more change would give this file different times. Before that, equal times
/// do not mean equal contents.
#[must_use]
pub(crate) fn has_settled(metadata: &Metadata) -> bool {
    InodeState::from_metadata(metadata).has_settled(MEMO_AGE, SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_settles_with_time_and_never_in_the_future() {
        let has_settled = |age, changed, milliseconds| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
            InodeState { device: 1, inode: 1, changed }.has_settled(age, now)
        };
        let memo = |changed, milliseconds| has_settled(MEMO_AGE, changed, milliseconds);
        assert!(!memo((1_000, 1), 1_000_001) && !memo((1_000, 1), 1_000_100));
        assert!(memo((1_000, 1), 1_000_101) && memo((-1_000, 1), 1_000_001));
        assert!(!memo((1_000, 1), 999_900));
        // The file may have been written late in its second.
        assert!(!memo((1_000, 0), 1_002_000) && memo((1_000, 0), 1_002_101));
        #[cfg(target_os = "linux")]
        for (changed, milliseconds, expected) in
            [((10, 1), 10_015, false), ((10, 1), 10_021, true), ((10, 0), 10_999, false)]
        {
            assert_eq!(has_settled(CALL_AGE, changed, milliseconds), expected, "{milliseconds}");
        }
        assert!(super::has_settled(&std::fs::metadata("/bin/sh").expect("a shell")));
    }
}
