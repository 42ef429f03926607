//! The line of a call: while it waits, while it runs, and when it has ended.

use std::fmt;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};

use super::CallSummary;
use crate::cells;
use crate::look::OutputFeatures;
use crate::one_line;

const RUNNING: Style = AnsiColor::Cyan.on_default();
const DONE: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
pub(super) const FAINT: Style = Style::new().dimmed();

/// A line that changes until its call has ended.
#[derive(Debug)]
pub(super) struct StatusLine {
    pub(super) id: u64,
    pub(super) subject: StatusSubject,
    /// The start; `None` while the call waits for its turn.
    pub(super) since: Option<Instant>,
    pub(super) limit: LimitSource,
}

/// The time that a call has at present.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeLimit {
    /// The time from the start of the call.
    pub time: Duration,
    /// The hint how the call can get more time, if it can.
    pub hint: Option<&'static str>,
}

/// The source of a call's [`TimeLimit`], if it has one.
#[derive(Default)]
pub(super) struct LimitSource(pub(super) Option<Box<dyn Fn() -> Option<TimeLimit> + Send>>);

impl LimitSource {
    /// Returns the limit, if the call has already run for half of it.
    fn near(&self, elapsed: Duration) -> Option<TimeLimit> {
        let limit = self.0.as_ref()?()?;
        (elapsed >= limit.time / 2).then_some(limit)
    }
}

impl fmt::Debug for LimitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limit").field(&self.0.is_some()).finish()
    }
}

/// The subject of a line. All of it is sanitized and on one line.
#[derive(Debug)]
pub(super) enum StatusSubject {
    Call { id: String, name: String, arguments: String },
    Wait(String),
}

impl StatusSubject {
    pub(super) fn call(id: &str, name: &str, arguments: &str) -> Self {
        let (name, arguments) = (one_line(name), one_line(arguments));
        Self::Call { id: id.to_owned(), name, arguments }
    }

    pub(super) fn is_call(&self, wanted: &str) -> bool {
        matches!(self, Self::Call { id, .. } if id == wanted)
    }

    fn name(&self) -> &str {
        match self {
            Self::Call { name, .. } | Self::Wait(name) => name,
        }
    }

    fn arguments(&self) -> &str {
        match self {
            Self::Call { arguments, .. } => arguments,
            Self::Wait(_) => "",
        }
    }
}

impl StatusLine {
    pub(super) fn new(id: u64, subject: StatusSubject) -> Self {
        Self { id, subject, since: Some(Instant::now()), limit: LimitSource::default() }
    }

    pub(super) fn waiting(id: u64, subject: StatusSubject) -> Self {
        Self { id, subject, since: None, limit: LimitSource::default() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the current line, with a spinner and a clock if the call runs. It has fewer than
    /// `columns` cells: on some terminals, a full row would move the cursor to the next one.
    pub(super) fn running(&self, turns: usize, columns: usize, look: OutputFeatures) -> String {
        const TURNS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        if self.since.is_none() {
            return self.laid_out(("·", FAINT), None.into_iter(), columns, look);
        }
        let mark = (TURNS[turns % TURNS.len()], RUNNING);
        let elapsed = self.elapsed();
        let (clock, limit) = (clock(elapsed), self.limit.near(elapsed));
        let tail = match (clock, limit) {
            (Some(clock), Some(TimeLimit { time, hint })) => {
                [Some(format!("{clock} of {}", in_words(time))), hint.map(str::to_owned)]
            }
            (clock, _) => [clock, None],
        };
        self.laid_out(mark, tail.into_iter().flatten(), columns, look)
    }

    /// Returns the final line.
    pub(super) fn ended(
        &self,
        ended: CallSummary<'_>,
        columns: usize,
        look: OutputFeatures,
    ) -> String {
        let duration = duration(ended.duration);
        let (mark, tail) = match ended.error {
            None => (("✓", DONE), [duration, size(ended.size)]),
            Some(error) => (("✗", FAILED), [duration, one_line(error)]),
        };
        self.laid_out(mark, tail.into_iter(), columns, look)
    }

    /// Joins the mark, the name, as much of the arguments as fits, and the tail.
    fn laid_out(
        &self,
        (mark, style): (&str, Style),
        tail: impl Iterator<Item = String>,
        columns: usize,
        look: OutputFeatures,
    ) -> String {
        let paint = |style: Style, text: &str| {
            let style = if text.is_empty() { Style::new() } else { look.style(style) };
            format!("{style}{text}{style:#}")
        };
        let tail: String = tail.map(|part| format!(" · {part}")).collect();
        let room = columns.saturating_sub(1);
        let name = cells::truncated(self.subject.name(), room.saturating_sub(2));
        let rest = room.saturating_sub(2 + cells::width(&name));
        let tail = cells::truncated(&tail, rest);
        let rest = rest.saturating_sub(cells::width(&tail));
        let arguments = match cells::truncated(self.subject.arguments(), rest.saturating_sub(1)) {
            // A single ellipsis would tell nothing.
            short if short.is_empty() || short == "…" => String::new(),
            short => format!(" {short}"),
        };
        let space = if name.is_empty() { "" } else { " " };
        let plain = format!("{mark}{space}{name}{arguments}{tail}");
        if cells::width(&plain) > room {
            // The parts may have characters that join, or there may not even be room for the mark.
            return cells::truncated(&plain, room);
        }
        format!(
            "{}{space}{name}{}{}",
            paint(style, mark),
            paint(FAINT, &arguments),
            paint(FAINT, &tail)
        )
    }
}

/// Returns the time in seconds that a call has run so far, or nothing in the first second.
fn clock(elapsed: Duration) -> Option<String> {
    match elapsed.as_secs() {
        0 => None,
        seconds @ 1..60 => Some(format!("{seconds} s")),
        _ => Some(duration(elapsed)),
    }
}

/// Returns a time limit in words, such as `30 s`, `2 min` or `2 min 30 s`.
#[must_use]
pub fn in_words(limit: Duration) -> String {
    match limit.as_secs() {
        0 => duration(limit),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        _ => duration(limit),
    }
}

fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Formats a number of characters, in thousands if it is large.
fn size(characters: u64) -> String {
    match characters {
        0..1_000 => format!("{characters} chars"),
        1_000..1_000_000 => format!("{}.{}k chars", characters / 1_000, characters % 1_000 / 100),
        _ => format!("{}.{}M chars", characters / 1_000_000, characters % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(name: &str, arguments: &str) -> StatusLine {
        StatusLine::new(1, StatusSubject::call("1", name, arguments))
    }

    const ENDED: CallSummary<'static> =
        CallSummary { duration: Duration::from_millis(12), size: 3_210, error: None };

    #[test]
    fn the_end_of_a_line_is_kept_and_the_arguments_give_way() {
        let line = call("file_read", r#"{"file_path":"src/main.rs"}"#);
        let ended = |columns, ended| line.ended(ended, columns, OutputFeatures::PLAIN);
        assert_eq!(
            ended(80, ENDED),
            r#"✓ file_read {"file_path":"src/main.rs"} · 12 ms · 3.2k chars"#
        );
        assert_eq!(ended(49, ENDED), r#"✓ file_read {"file_path":"… · 12 ms · 3.2k chars"#);
        assert_eq!(ended(34, ENDED), "✓ file_read · 12 ms · 3.2k chars");
        let failed = CallSummary { error: Some("TOOL_TIMEOUT"), ..ENDED };
        assert_eq!(
            ended(80, failed),
            r#"✗ file_read {"file_path":"src/main.rs"} · 12 ms · TOOL_TIMEOUT"#
        );
    }

    #[test]
    fn durations_and_sizes_are_short() {
        let shown = [0, 999, 1_234, 59_949, 61_000].map(|ms| duration(Duration::from_millis(ms)));
        assert_eq!(shown, ["0 ms", "999 ms", "1.2 s", "59.9 s", "1 min 1 s"]);
        assert_eq!([7, 1_000, 2_500_000].map(size), ["7 chars", "1.0k chars", "2.5M chars"]);
    }

    #[test]
    fn a_running_call_has_a_clock() {
        let running = |seconds: u64| {
            let since = Instant::now().checked_sub(Duration::from_millis(seconds * 1_000 + 100));
            let line = StatusLine { since, ..call("bash", "{}") };
            line.running(0, 40, OutputFeatures::PLAIN)
        };
        assert_eq!(
            [0, 1, 59, 75].map(running),
            ["⠋ bash {}", "⠋ bash {} · 1 s", "⠋ bash {} · 59 s", "⠋ bash {} · 1 min 15 s"]
        );
    }

    #[test]
    fn a_call_shows_its_limit_once_half_of_its_time_is_over() {
        let running = |seconds: u64, limit: TimeLimit| {
            let since = Instant::now().checked_sub(Duration::from_millis(seconds * 1_000 + 100));
            let limit = LimitSource(Some(Box::new(move || Some(limit))));
            StatusLine { since, limit, ..call("bash", "{}") }.running(0, 60, OutputFeatures::PLAIN)
        };
        let limit = TimeLimit { time: Duration::from_mins(2), hint: Some("Ctrl-T gives more") };
        assert_eq!(running(59, limit), "⠋ bash {} · 59 s");
        assert_eq!(running(60, limit), "⠋ bash {} · 1 min 0 s of 2 min · Ctrl-T gives more");
        let most = TimeLimit { time: Duration::from_secs(150), hint: None };
        assert_eq!(running(80, most), "⠋ bash {} · 1 min 20 s of 2 min 30 s");
        let short = TimeLimit { time: Duration::from_millis(500), hint: None };
        assert_eq!(running(2, short), "⠋ bash {} · 2 s of 500 ms");
    }

    proptest! {
        #[test]
        fn a_line_is_narrower_than_the_screen(
            name in "\\PC{0,30}", arguments in "\\PC*", error in proptest::option::of("\\PC*"), columns in 1_usize..120,
        ) {
            let line = call(&name, &arguments);
            let ended = line.ended(CallSummary { error: error.as_deref(), ..ENDED }, columns, OutputFeatures::PLAIN);
            prop_assert!(cells::width(&ended) < columns, "{ended:?}");
            let waiting = StatusLine { since: None, ..call(&name, &arguments) };
            prop_assert!(cells::width(&waiting.running(3, columns, OutputFeatures::PLAIN)) < columns);
            prop_assert!(cells::width(&line.running(3, columns, OutputFeatures::PLAIN)) < columns);
        }
    }
}
