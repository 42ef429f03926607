//! `date`: the interpreter's, extended by durations after a date.

use bashkit::{Command, CommandContext, CommandStatus, Result, async_trait};
use chrono::{DateTime, Days, Months, TimeDelta, Utc};

use super::inner;

/// `date [-d DATE] …`
pub(super) struct Date;

#[async_trait]
impl Command for Date {
    async fn execute(&self, context: CommandContext<'_>) -> Result<CommandStatus> {
        let mut arguments = context.args.to_vec();
        let position = arguments.iter().position(|a| {
            a == "-d"
                || a == "--date"
                || a.starts_with("--date=")
                || a.starts_with("-d") && a.len() > 2
        });
        let Some(at) = position else {
            return inner::pass_on(&context, "date", &arguments).await;
        };
        let (value_at, prefix) = match arguments[at].as_str() {
            "-d" | "--date" => (at + 1, ""),
            long if long.starts_with("--date=") => (at, "--date="),
            _ => (at, "-d"),
        };
        if let Some(value) = arguments.get(value_at).and_then(|value| value.strip_prefix(prefix)) {
            arguments[value_at] = format!("{prefix}{}", with_numbers(value));
        }
        let ended = inner::run(&context, "date", &arguments, Vec::new()).await?;
        let value = arguments.get(value_at).and_then(|value| value.strip_prefix(prefix));
        let Some((base, shifts)) = value.and_then(split) else {
            return inner::emit(&context, &ended).await;
        };
        let base = if base.is_empty() { "now" } else { base };
        let question = ["-u", "-d", base, "+%s.%N"].map(str::to_owned);
        let answer = inner::run(&context, "date", &question, Vec::new()).await?;
        let answer = answer.stdout.text_lossy();
        let start = answer.trim().split_once('.').and_then(|(seconds, nanoseconds)| {
            DateTime::from_timestamp(seconds.parse().ok()?, nanoseconds.parse().ok()?)
        });
        let Some(moved) = start.and_then(|start| shifts.iter().try_fold(start, Shift::apply))
        else {
            return inner::emit(&context, &ended).await;
        };
        arguments[value_at] = format!("{prefix}@{}", moved.format("%s.%f"));
        let moved = inner::run(&context, "date", &arguments, Vec::new()).await?;
        if moved.exit_code != 0 {
            // The fraction is removed, because the interpreter does not accept it here.
            arguments[value_at] = arguments[value_at]
                .rsplit_once('.')
                .map_or_else(|| arguments[value_at].clone(), |(seconds, _)| seconds.to_owned());
            let moved = inner::run(&context, "date", &arguments, Vec::new()).await?;
            return inner::emit(&context, &moved).await;
        }
        inner::emit(&context, &moved).await
    }
}

/// A duration in the units of a calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shift {
    Months(i64),
    Days(i64),
    Seconds(i64),
}

impl Shift {
    fn new(count: i64, unit: &str) -> Option<Self> {
        Some(match unit.strip_suffix('s').unwrap_or(unit) {
            "year" => Self::Months(count.checked_mul(12)?),
            "month" => Self::Months(count),
            "fortnight" => Self::Days(count.checked_mul(14)?),
            "week" => Self::Days(count.checked_mul(7)?),
            "day" => Self::Days(count),
            "hour" => Self::Seconds(count.checked_mul(3600)?),
            "min" | "minute" => Self::Seconds(count.checked_mul(60)?),
            "sec" | "second" => Self::Seconds(count),
            _ => return None,
        })
    }

    /// Adds the duration; a day that a month does not have runs over into the next.
    fn apply(start: DateTime<Utc>, shift: &Self) -> Option<DateTime<Utc>> {
        use chrono::Datelike as _;
        match *shift {
            Self::Months(count) => {
                let first = start.with_day(1)?;
                let months = Months::new(u32::try_from(count.unsigned_abs()).ok()?);
                let first = if count < 0 {
                    first.checked_sub_months(months)?
                } else {
                    first.checked_add_months(months)?
                };
                first.checked_add_days(Days::new(u64::from(start.day0())))
            }
            Self::Days(count) if count < 0 => {
                start.checked_sub_days(Days::new(count.unsigned_abs()))
            }
            Self::Days(count) => start.checked_add_days(Days::new(count.unsigned_abs())),
            Self::Seconds(count) => start.checked_add_signed(TimeDelta::try_seconds(count)?),
        }
    }
}

/// Splits a date from the durations after it, such as `+2 days`, `-1 week` and `3 hours ago`.
fn split(text: &str) -> Option<(&str, Vec<Shift>)> {
    let mut shifts = Vec::new();
    let mut base = text.trim_end();
    loop {
        let (before, ago) = match base.strip_suffix("ago") {
            Some(before) => (before.trim_end(), -1),
            None => (base, 1),
        };
        let letters =
            before.len() - before.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (before, unit) = before.split_at(before.len() - letters);
        let before = before.trim_end();
        let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (before, number) = before.split_at(before.len() - digits);
        let spaced = before.trim_end();
        let (before, sign) = match spaced.as_bytes().last() {
            Some(b'+') => (&spaced[..spaced.len() - 1], 1),
            Some(b'-') => (&spaced[..spaced.len() - 1], -1),
            _ => (before, 1),
        };
        let shift =
            number.parse::<i64>().ok().and_then(|count| Shift::new(count * sign * ago, unit));
        match shift {
            Some(shift) => shifts.push(shift),
            None => break,
        }
        base = before.trim_end();
    }
    shifts.reverse();
    // After a time, a number with a sign is a time zone. Durations cannot follow `@`.
    let zoned = base.contains(':') && text[base.len()..].trim_start().starts_with(['+', '-']);
    (!shifts.is_empty() && !zoned && !base.starts_with('@')).then_some((base, shifts))
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Rewrites a date such as `Jan 5 2024` or `5 January 2024` with numbers, for the interpreter.
fn with_numbers(text: &str) -> String {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let month = |word: &str| {
        let start = word.get(..3)?.to_ascii_lowercase();
        let letters = word.chars().all(|c| c.is_ascii_alphabetic());
        MONTHS.iter().position(|month| letters && *month == start).map(|month| month + 1)
    };
    let date = match words.as_slice() {
        [one, two, year, ..] => {
            let day = |word: &str| word.parse::<u32>().ok().filter(|day| (1..=31).contains(day));
            let year = year.parse::<u32>().ok().filter(|_| year.len() == 4);
            month(one).zip(day(two)).or_else(|| month(two).zip(day(one))).zip(year)
        }
        _ => None,
    };
    match date {
        Some(((month, day), year)) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            [&[date.as_str()], &words[3..]].concat().join(" ")
        }
        None => text.to_owned(),
    }
}
