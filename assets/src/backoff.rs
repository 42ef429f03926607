//! Further attempts at what others got in the way of, after pauses that grow and differ
//! from one process to the next.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};

use crate::error::{Error, Result};

/// The most further attempts at a transaction. The locks keep their users apart, so only
/// another program, or a server that resolves a deadlock, makes one necessary.
const RETRIES: usize = 16;

/// Pauses without an end: the first takes 2 to 4 ms, about as long as a transaction, and
/// each of the next twice as long, up to 125 to 250 ms.
///
/// The jitter adds up to the whole of a pause, so that two who collided do not meet again.
pub(crate) const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(2))
    .with_max_delay(Duration::from_millis(125))
    .without_max_times()
    .with_jitter();

/// Makes attempts at a transaction until one is not [`Error::Contended`], or too many were.
/// Each must begin anew: what one has read is no longer true for the next.
pub(crate) async fn retried<T, F>(mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let is_contended = |error: &Error| matches!(error, Error::Contended(_));
    // Boxed: within the types of a retry those of a transaction would be too deep for the compiler.
    let attempt = || Box::pin(attempt());
    attempt.retry(PAUSES.with_max_times(RETRIES)).when(is_contended).await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use backon::BackoffBuilder as _;

    use super::{PAUSES, RETRIES, retried};
    use crate::error::Error;
    use crate::store_url::StoreUrl;

    /// Makes attempts that are contended before the `n`th, which ends as `end` says, and returns
    /// their number and the result.
    async fn attempts(n: usize, end: impl Fn() -> Result<(), Error>) -> (usize, Result<(), Error>) {
        let made = Cell::new(0);
        let attempt = async || {
            made.set(made.get() + 1);
            if made.get() < n { Err(Error::Contended(StoreUrl::memory())) } else { end() }
        };
        let done = retried(attempt).await;
        (made.get(), done)
    }

    #[tokio::test]
    async fn only_contention_is_tried_again() {
        assert!(matches!(attempts(3, || Ok(())).await, (3, Ok(()))));
        let other = attempts(2, || Err(Error::OutOfMemory)).await;
        assert!(matches!(other, (2, Err(Error::OutOfMemory))), "{other:?}");
        let endless = attempts(usize::MAX, || Ok(())).await;
        assert!(matches!(endless.1, Err(Error::Contended(_))), "{endless:?}");
        assert_eq!(endless.0, 1 + RETRIES);
    }

    #[test]
    fn pauses_double_within_their_bounds_and_differ() {
        let millis = [2, 4, 8, 16, 32, 64, 125, 125];
        for (pause, least) in PAUSES.build().zip(millis) {
            let least = Duration::from_millis(least);
            // Floating point may miss a bound by a little.
            let slack = Duration::from_micros(1);
            assert!(pause + slack >= least && pause <= 2 * least + slack, "{pause:?}");
        }
        let first = |_| PAUSES.build().next();
        let pauses: std::collections::BTreeSet<_> = (0..100).map(first).collect();
        assert!(pauses.len() > 50, "each process draws its own: {pauses:?}");
    }
}
