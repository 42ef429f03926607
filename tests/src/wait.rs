//! The wait for a state that no event announces, and the time limit of every wait.

use std::fmt::Debug;
use std::thread;
use std::time::{Duration, Instant};

/// The time limit of every wait: far beyond what anything takes on a busy machine. A test that
/// reaches it hangs.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until `holds` returns true for the state that `look` returns, and returns that state.
/// `what` describes the condition.
///
/// # Panics
///
/// Panics with `what` and the last state if the condition is still false after [`TIMEOUT`].
#[track_caller]
pub fn eventually<S: Debug>(
    what: &str,
    mut look: impl FnMut() -> S,
    holds: impl Fn(&S) -> bool,
) -> S {
    let begun = Instant::now();
    loop {
        // Checked before the look, so that a slow machine gets one more look after the deadline.
        let is_late = begun.elapsed() >= TIMEOUT;
        let state = look();
        if holds(&state) {
            return state;
        }
        assert!(!is_late, "waited {TIMEOUT:?} in vain until {what}; last seen: {state:#?}");
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_that_was_waited_for_is_returned() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            looks
        };
        assert_eq!(eventually("it was seen three times", look, |seen| *seen == 3), 3);
    }
}
