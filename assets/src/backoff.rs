//! Pauses between attempts of which others run at the same time: longer each time, and
//! never the same for two who collided.

use std::time::Duration;

/// The pause before the second attempt, about as long as a transaction takes.
const FIRST: Duration = Duration::from_millis(4);
/// No pause is longer.
const LONGEST: Duration = Duration::from_millis(250);

/// The pauses of one operation.
pub(crate) struct Backoff {
    next: Duration,
    left: u32,
}

impl Backoff {
    /// For at most `retries` further attempts.
    pub(crate) fn new(retries: u32) -> Self {
        Self { next: FIRST, left: retries }
    }

    /// Pauses before a further attempt; `false`, at once, where there shall be none.
    pub(crate) async fn pause(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        // Without random numbers the longest pause is as good as any.
        let share = getrandom::u32().unwrap_or(u32::MAX);
        let jittered = self.next.mul_f64(0.5 + 0.5 * f64::from(share) / f64::from(u32::MAX));
        self.next = (self.next * 2).min(LONGEST);
        tokio::time::sleep(jittered).await;
        true
    }
}
