//! Attempts of which others run at the same time, and the pauses between them: longer each
//! time, and never the same for two who collided.

use std::time::Duration;

use crate::error::{Error, Result};

/// How often a transaction is begun anew. The locks keep those who use them apart, so that
/// it takes somebody else, or a server that resolves a deadlock, to need one at all.
const RETRIES: u32 = 16;

/// The pause before the second attempt, about as long as a transaction takes.
const FIRST: Duration = Duration::from_millis(4);
/// No pause is longer.
const LONGEST: Duration = Duration::from_millis(250);

/// Makes attempts at a transaction until one is not [`Error::Contended`], or too many were.
/// Each must begin anew: what one has read is no longer true for the next.
pub(crate) async fn retried<T, F>(attempt: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut backoff = Backoff::new(RETRIES);
    loop {
        match attempt().await {
            Err(Error::Contended(store)) => {
                if !backoff.pause().await {
                    return Err(Error::Contended(store));
                }
            }
            done => return done,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{RETRIES, retried};
    use crate::error::Error;
    use crate::store_url::StoreUrl;

    /// Attempts that are made of one which succeeds or fails in this way at the `n`th.
    async fn attempts(n: u32, end: impl Fn() -> Result<(), Error>) -> (u32, Result<(), Error>) {
        let made = Cell::new(0);
        let attempt = async || {
            made.set(made.get() + 1);
            if made.get() < n { Err(Error::Contended(StoreUrl::memory())) } else { end() }
        };
        let done = retried(attempt).await;
        (made.get(), done)
    }

    #[tokio::test]
    async fn only_what_others_were_in_the_way_of_is_tried_again() {
        assert!(matches!(attempts(3, || Ok(())).await, (3, Ok(()))));
        let other = attempts(2, || Err(Error::OutOfMemory)).await;
        assert!(matches!(other, (2, Err(Error::OutOfMemory))), "{other:?}");
        let endless = attempts(u32::MAX, || Ok(())).await;
        assert!(matches!(endless.1, Err(Error::Contended(_))), "{endless:?}");
        assert_eq!(endless.0, 1 + RETRIES);
    }
}
