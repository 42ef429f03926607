//! The check for files that changed so recently that their times cannot show the next change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

/// The age from which a further change would have a different time. The clock of a file system
/// ticks every few milliseconds.
const SETTLED: Duration = Duration::from_millis(100);

/// The same age for file systems with times in whole seconds, such as ext4 with inodes of 128
/// bytes, or in even seconds, such as FAT.
const SETTLED_IN_SECONDS: Duration = Duration::from_millis(2100);

/// Returns whether one more change would give this file different times. Before that, equal times
/// do not mean equal contents.
#[must_use]
pub(crate) fn has_settled(metadata: &Metadata) -> bool {
    is_long_ago(metadata.ctime(), metadata.ctime_nsec(), SystemTime::now())
}

/// A change in the future was timed by a clock that has since been set back, so it never counts.
fn is_long_ago(seconds: i64, nanoseconds: i64, now: SystemTime) -> bool {
    let settled = if nanoseconds == 0 { SETTLED_IN_SECONDS } else { SETTLED };
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or(0);
    // A time before 1970 is long ago.
    let Ok(seconds) = u64::try_from(seconds) else { return true };
    let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds));
    let age = changed.and_then(|changed| now.duration_since(changed).ok());
    age.is_some_and(|age| age > settled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_settles_with_time_and_never_in_the_future() {
        let (at, now) = (1_000, SystemTime::UNIX_EPOCH + Duration::new(1_000, 1));
        assert!(!is_long_ago(at, 1, now) && !is_long_ago(at, 1, now + SETTLED));
        assert!(is_long_ago(at, 1, now + 2 * SETTLED));
        assert!(!is_long_ago(at, 1, now - 2 * SETTLED));
        assert!(is_long_ago(-at, 1, now));
        // The file may have been written late in its second.
        assert!(!is_long_ago(at, 0, now + SETTLED_IN_SECONDS - Duration::from_millis(100)));
        assert!(is_long_ago(at, 0, now + SETTLED_IN_SECONDS));
        assert!(has_settled(&std::fs::metadata("/bin/sh").expect("a shell")));
    }
}
