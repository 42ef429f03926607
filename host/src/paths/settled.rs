//! Files that changed so lately that their times do not tell the next change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

/// The age from which a change can be told from the next one by its time: the clock of a file
/// system ticks every few milliseconds.
const SETTLED: Duration = Duration::from_millis(100);

/// The same where times are whole seconds, such as on ext4 with inodes of 128 bytes, or are even ones, as
/// on FAT.
const SETTLED_IN_SECONDS: Duration = Duration::from_millis(2100);

/// Returns whether a file with this metadata would have other times after one more change.
/// Before that, equal times do not mean equal contents.
#[must_use]
pub(crate) fn has_settled(metadata: &Metadata) -> bool {
    is_long_ago(metadata.ctime(), metadata.ctime_nsec(), SystemTime::now())
}

/// A change in the future was timed by a clock that has been set back, and says nothing.
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
        // It may have been written late in its second.
        assert!(!is_long_ago(at, 0, now + SETTLED_IN_SECONDS - Duration::from_millis(100)));
        assert!(is_long_ago(at, 0, now + SETTLED_IN_SECONDS));
        assert!(has_settled(&std::fs::metadata("/bin/sh").expect("a shell")));
    }
}
