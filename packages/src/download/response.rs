//! The headers of the response to a download, and the check that it continues at the requested
//! byte.

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use reqwest::Response;

/// The headers of a response with bytes of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResponseHead {
    /// True if the bytes start at the beginning of the file.
    pub(super) starts_over: bool,
    /// The size of the whole file, if it is known.
    pub(super) total: Option<u64>,
    /// The server's validator for this version of the file.
    pub(super) validator: Option<HeaderValue>,
    /// True if the response is a web page.
    pub(super) is_html: bool,
}

impl ResponseHead {
    /// Reads the headers of a response. Fails if it contains a different part than the one from
    /// `from` on.
    pub(super) fn from_response(response: &Response, from: Option<u64>) -> Result<Self, ()> {
        Self::of_head(response.status(), response.headers(), response.content_length(), from)
    }

    fn of_head(
        status: StatusCode,
        headers: &HeaderMap,
        length: Option<u64>,
        from: Option<u64>,
    ) -> Result<Self, ()> {
        let kind = headers.get(header::CONTENT_TYPE);
        let is_html = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        // A weak validator may stay the same when bytes change.
        let validator = headers.get(header::ETAG).filter(|it| !it.as_bytes().starts_with(b"W/"));
        let validator = validator.cloned();
        if status != StatusCode::PARTIAL_CONTENT {
            return Ok(Self { starts_over: from.is_some(), total: length, validator, is_html });
        }
        let range =
            headers.get(header::CONTENT_RANGE).and_then(|it| content_range(it.to_str().ok()?));
        let (first, last, total) = range.ok_or(())?;
        let is_rest = total.is_none_or(|total| last.checked_add(1) == Some(total));
        let is_whole =
            length.is_none_or(|length| last.checked_sub(first).map(|it| it + 1) == Some(length));
        if from != Some(first) || last < first || !is_rest || !is_whole {
            return Err(());
        }
        let total = total.or(last.checked_add(1));
        Ok(Self { starts_over: false, total, validator, is_html })
    }
}

/// Reads `bytes FIRST-LAST/TOTAL`. The total may be `*`.
fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    Some((first.parse().ok()?, last.parse().ok()?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(
        status: u16,
        range: &str,
        length: u64,
        from: Option<u64>,
    ) -> Result<ResponseHead, ()> {
        let mut headers = HeaderMap::new();
        if !range.is_empty() {
            headers.insert(header::CONTENT_RANGE, range.parse().expect("a header"));
        }
        let status = StatusCode::from_u16(status).expect("a status");
        ResponseHead::of_head(status, &headers, Some(length), from)
    }

    #[test]
    fn only_the_part_that_was_asked_for_is_gone_on_with() {
        let rest = answer(206, "bytes 10-99/100", 90, Some(10)).expect("the rest");
        assert_eq!((rest.starts_over, rest.total), (false, Some(100)));
        let whole = answer(200, "", 100, Some(10)).expect("the whole");
        assert_eq!((whole.starts_over, whole.total), (true, Some(100)));
        assert!(!answer(200, "", 100, None).expect("the whole").starts_over);
        for (range, length, from) in [
            ("bytes 0-99/100", 100, Some(10)),
            ("bytes 11-99/100", 89, Some(10)),
            ("bytes 10-98/100", 89, Some(10)),
            ("bytes 10-99/100", 100, Some(10)),
            ("bytes 10-9/10", 0, Some(10)),
            ("bytes 10-18446744073709551615/*", 90, Some(10)),
            ("bytes */100", 90, Some(10)),
            ("", 90, Some(10)),
            ("bytes 0-99/100", 100, None),
        ] {
            assert_eq!(answer(206, range, length, from), Err(()), "{range}");
        }
    }
}
