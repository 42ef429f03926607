//! Repeated attempts at transactions that another user of the store prevented. The pauses
//! between them grow, and differ from one process to the next.

use std::pin::Pin;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};

use crate::error::{Error, Result};

/// The maximum number of further attempts at a transaction. Locks keep the users of a store
/// apart, so only another program, or a server that resolves a deadlock, makes one necessary.
const RETRIES: usize = 16;

/// Endless pauses: the first takes 2 to 4 ms, about as long as a transaction. Each of the next
/// takes twice as long, up to 125 to 250 ms.
///
/// The jitter adds up to the whole of a pause, so that two processes that collided do not meet
/// again.
pub(crate) const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(2))
    .with_max_delay(Duration::from_millis(125))
    .without_max_times()
    .with_jitter();

/// Makes attempts at a transaction until the result is not [`Error::Contended`], or the attempts
/// are used up. Each attempt must begin anew, because values that a previous attempt has read
/// may have changed.
// Boxed: callers nest the future in others, whose types would be too deep for the compiler.
pub(crate) fn retried<'a, T, F>(
    attempt: impl FnMut() -> F + Send + 'a,
) -> Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>
where
    T: Send + 'a,
    F: Future<Output = Result<T>> + Send + 'a,
{
    let is_contended = |error: &Error| matches!(error, Error::Contended(_));
    let retry = attempt.retry(PAUSES.with_max_times(RETRIES)).when(is_contended);
    Box::pin(retry)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use backon::BackoffBuilder as _;

    use super::{PAUSES, RETRIES, retried};
    use crate::error::Error;
    use crate::store_url::StoreUrl;

    /// Makes attempts that are contended before the `n`th, which returns `end()`. Returns the
    /// number of attempts and the result.
    async fn attempts(
        n: usize,
        end: impl Fn() -> Result<(), Error> + Sync,
    ) -> (usize, Result<(), Error>) {
        let made = AtomicUsize::new(0);
        let attempt = async || {
            let made = 1 + made.fetch_add(1, Ordering::Relaxed);
            if made < n { Err(Error::Contended(StoreUrl::memory())) } else { end() }
        };
        let done = retried(attempt).await;
        (made.into_inner(), done)
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
