//! The decision whether a request is tried again, and when.

use std::time::{Duration, SystemTime};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use http::HeaderMap;
use http::header::RETRY_AFTER;

use crate::RequestFailure;

/// The longest wait that a server may ask for. A failure that asks for more is reported instead.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The longest wait that the client chooses itself, before jitter.
const MAX_WAIT: Duration = Duration::from_secs(8);

/// Returns the wait before the next attempt, or nothing if the request is not tried again.
/// `attempt` is the one that failed, counted from 1. If a server asks for a shorter wait than the
/// client's own, for example with a date in the past, the client's wait applies, since the server
/// has just failed.
/// failed.
pub(super) fn wait(failure: &RequestFailure, attempt: u32, first: Duration) -> Option<Duration> {
    let waits = ExponentialBuilder::new()
        .with_min_delay(first.min(MAX_WAIT))
        .with_max_delay(MAX_WAIT)
        .with_max_times(failure.retries());
    let doubled = waits.build().nth(attempt.checked_sub(1)? as usize)?;
    // Otherwise clients that failed together would come back together. The crate's own jitter only
    // lengthens a wait, up to twice; this jitter keeps its mean.
    let own = doubled.mul_f64(0.75 + 0.5 * fastrand::f64());
    let asked = failure.retry_after.unwrap_or_default();
    (asked <= MAX_RETRY_AFTER).then_some(asked.max(own))
}

/// Returns the wait that a server asks for:
/// <https://www.rfc-editor.org/rfc/rfc9110#field.retry-after>, or OpenAI's own header in
/// milliseconds.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |value: &http::HeaderValue| value.to_str().ok().map(|text| text.trim().to_owned());
    if let Some(text) = headers.get("retry-after-ms").and_then(text)
        && let Ok(milliseconds) = text.parse::<f64>()
    {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let text = headers.get(RETRY_AFTER).and_then(text)?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // A date in the past asks for no wait at all.
    let date = httpdate::parse_http_date(&text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::{FailureKind, FailureRemedy, Provider};

    #[test]
    fn seconds_dates_and_milliseconds() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let one = |name: &'static str, value: &str| {
            let value = HeaderValue::from_str(value).expect("a value");
            retry_after(&HeaderMap::from_iter([(HeaderName::from_static(name), value)]), now)
        };
        assert_eq!(one("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(one("retry-after", " 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(
            one("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
            Some(Duration::from_secs(30))
        );
        assert_eq!(one("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT"), Some(Duration::ZERO));
        assert_eq!(one("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        for none in ["", "-1", "soon", "inf", "NaN"] {
            assert_eq!(one("retry-after", none), None, "{none}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn waits_double_and_end() {
        let failure = RequestFailure::new(Provider::OpenAi, FailureKind::Overloaded);
        let first = Duration::from_millis(400);
        for (attempt, middle) in [(1, 400), (2, 800), (3, 1600), (4, 3200)] {
            let wait = wait(&failure, attempt, first).expect("another attempt").as_millis();
            assert!((middle * 3 / 4..=middle * 5 / 4).contains(&wait), "{attempt}: {wait}");
        }
        assert_eq!(wait(&failure, 5, first), None);
        assert!(wait(&failure, 1, Duration::MAX).expect("a wait") <= Duration::from_secs(10));
        let unheard = RequestFailure::new(Provider::OpenAi, FailureKind::Key);
        assert_eq!(wait(&unheard, 1, first), None);
        let silence = RequestFailure::new(Provider::OpenAi, FailureKind::SilenceTimeout(first));
        assert!(wait(&silence, 1, first).is_some());
        assert_eq!(wait(&silence, 2, first), None);
    }

    #[test]
    fn a_server_is_waited_for_as_it_asks_up_to_a_minute_and_no_shorter_than_without() {
        let asks = |seconds| RequestFailure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..RequestFailure::new(Provider::OpenAi, FailureKind::RateLimited)
        };
        let first = Duration::from_millis(1);
        for (attempt, middle) in [(1, 1000), (2, 2000), (3, 4000), (4, 8000)] {
            let own = wait(&asks(0), attempt, Duration::from_secs(1)).expect("another attempt");
            assert!(own.as_millis() >= middle * 3 / 4, "{attempt}: {own:?}");
        }
        assert!(wait(&asks(1), 4, Duration::from_secs(1)) > Some(Duration::from_secs(5)));
        assert_eq!(wait(&asks(60), 1, first), Some(Duration::from_secs(60)));
        assert_eq!(wait(&asks(61), 1, first), None);
        assert_eq!(asks(61).remedy(), Some(FailureRemedy::WaitFor(Duration::from_secs(61))));
    }
}
