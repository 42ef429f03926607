//! The filter of calls: the flags that select some of them.

use std::str::FromStr;

use ikigai_protocol::EnvelopeCode;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use serde::Deserialize as _;
use serde::de::value::{Error, StrDeserializer};

use ikigai_host::audit::{Record, Via};

/// The conditions that a call must meet to be shown.
pub(super) struct Filter {
    /// The names of the tools. If empty, every tool.
    pub(super) tools: Vec<String>,
    /// The ids of the calls, or the beginnings of them. If empty, every call.
    pub(super) ids: Vec<String>,
    pub(super) outcome: Option<OutcomeFilter>,
    /// True if only calls with a refusal are shown.
    pub(super) refused: bool,
    /// True if only calls that failed, were refused something, or were answered with an error are
    /// shown.
    pub(super) failed: bool,
    /// The commands. If empty, every one.
    pub(super) via: Vec<Via>,
    pub(super) since: Option<Timestamp>,
    /// The end, which is excluded.
    pub(super) until: Option<Timestamp>,
}

impl Filter {
    pub(super) fn takes(&self, record: &Record) -> bool {
        (self.tools.is_empty() || self.tools.contains(&record.tool))
            && (self.ids.is_empty() || self.ids.iter().any(|id| is_named(&record.id, id)))
            && (self.via.is_empty() || self.via.contains(&record.via))
            && self.outcome.is_none_or(|outcome| outcome.takes(record))
            && (!self.refused || record.is_refused())
            && (!self.failed || record.has_failure())
            && self.since.is_none_or(|since| record.time >= since)
            && self.until.is_none_or(|until| record.time < until)
    }
}

/// The length of the id's end that identifies a call. The beginning of an id is the time, so calls
/// of the same minute share it; the end is random.
const SHORT_ID: usize = 8;

/// Returns the end of an id, which identifies its call in the table.
pub(super) fn short_id(id: &str) -> &str {
    let start = id.len().saturating_sub(SHORT_ID);
    id.get(start..).unwrap_or(id)
}

/// Returns whether a text names the call: by its id, the beginning of the id, or the short id.
fn is_named(id: &str, text: &str) -> bool {
    id.starts_with(text) || short_id(id) == text
}

/// The outcome that a call must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeFilter {
    Ok,
    Failed,
    Cancelled,
    Code(EnvelopeCode),
}

impl OutcomeFilter {
    fn takes(self, record: &Record) -> bool {
        match self {
            Self::Ok => record.is_ok(),
            Self::Failed => !record.is_ok(),
            Self::Cancelled => record.cancelled,
            Self::Code(code) => record.outcome == code.as_str(),
        }
    }
}

impl FromStr for OutcomeFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ok" => return Ok(Self::Ok),
            "failed" => return Ok(Self::Failed),
            "cancelled" => return Ok(Self::Cancelled),
            _ => {}
        }
        let name = text.to_ascii_uppercase().replace('-', "_");
        let code = EnvelopeCode::deserialize(StrDeserializer::<Error>::new(&name));
        code.map(Self::Code).map_err(|_| {
            "must be ok, failed, cancelled, or a code of the envelope: TOOL_NOT_FOUND, TOOL_TIMEOUT, \
             TOOL_CRASHED, INVALID_OUTPUT, INVALID_PARAMS, PERMISSION_DENIED"
                .to_owned()
        })
    }
}

/// Parses a point in time: in RFC 3339, or as a date and a time in this machine's time zone. Also
/// accepts `today` and `yesterday` (the beginning of that day), and a time before now such as
/// `10m`.
pub(in crate::commands) fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let days = match text {
        "today" => Some(0),
        "yesterday" => Some(1),
        _ => None,
    };
    if let Some(days) = days {
        let day = Zoned::now().checked_sub(Span::new().days(days));
        let begin = day.and_then(|day| day.start_of_day()).map_err(|error| error.to_string())?;
        return Ok(begin.timestamp());
    }
    if let Ok(local) = text.parse::<DateTime>() {
        let zoned = local.to_zoned(TimeZone::system()).map_err(|error| error.to_string())?;
        return Ok(zoned.timestamp());
    }
    let ago = text.strip_suffix("ago").unwrap_or(text).trim();
    let ago = humantime::parse_duration(ago).map_err(|_| {
        "write it as 2026-01-31T12:00:00Z, 2026-01-31, yesterday, 10m or 7days".to_owned()
    })?;
    Timestamp::now().checked_sub(ago).map_err(|_| "is too long ago".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_points_or_durations_until_now() {
        let expected: Timestamp = "2026-01-31T10:00:00Z".parse().expect("a time");
        for text in
            ["2026-01-31T10:00:00Z", "2026-01-31T12:00:00+02:00", "2026-01-31 10:00:00.000Z"]
        {
            assert_eq!(parse_time(text), Ok(expected), "{text}");
        }
        let local = |text: &str| parse_time(text).expect(text).to_zoned(TimeZone::system());
        assert_eq!(local("2026-01-31").strftime("%F %T").to_string(), "2026-01-31 00:00:00");
        assert_eq!(local("2026-01-31T09:30").strftime("%F %T").to_string(), "2026-01-31 09:30:00");
        let days = ["yesterday", "today"].map(local);
        assert!(days.iter().all(|day| *day == day.start_of_day().expect("a day")), "{days:?}");
        assert!(days[0] < days[1] && local("2days") < days[1], "{days:?}");
        let before = Timestamp::now();
        let ago = parse_time("2h ago").expect("a time");
        let hours = before.duration_since(ago).as_secs() / 3600;
        assert!((1..=2).contains(&hours), "{ago}");
        assert!(parse_time("7days").expect("a time") < parse_time("10m").expect("a time"));
        for bad in ["", "soon", "10", "-5m", "2026-13-01", "900000000years"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_is_named_by_its_beginning_or_its_last_eight_digits() {
        let id = "019a1b2c-3d4e-7f50-8a61-72839a4b5c6d";
        assert_eq!(short_id(id), "9a4b5c6d");
        for text in [id, "019a", "9a4b5c6d"] {
            assert!(is_named(id, text), "{text}");
        }
        for text in ["5c6d", "3d4e", "72839a4b5c6d"] {
            assert!(!is_named(id, text), "{text}");
        }
    }

    #[test]
    fn outcomes_are_named_as_in_the_envelope() {
        let outcome = |text: &str| text.parse::<OutcomeFilter>();
        assert_eq!(outcome("ok"), Ok(OutcomeFilter::Ok));
        assert_eq!(outcome("cancelled"), Ok(OutcomeFilter::Cancelled));
        for text in ["TOOL_TIMEOUT", "tool_timeout", "tool-timeout"] {
            assert_eq!(outcome(text), Ok(OutcomeFilter::Code(EnvelopeCode::ToolTimeout)));
        }
        assert!(outcome("timeout").expect_err("no code").contains("TOOL_TIMEOUT"));
    }
}
