//! The line of a call: while it waits, while it runs, and when it has ended.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};

use super::Ended;
use crate::cells;
use crate::look::Look;
use crate::one_line;

const RUNNING: Style = AnsiColor::Cyan.on_default();
const DONE: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default();
pub(super) const FAINT: Style = Style::new().dimmed();

/// A line that changes until its call has ended.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: u64,
    pub(super) subject: Subject,
    /// The start; `None` while the call waits for its turn.
    pub(super) since: Option<Instant>,
}

/// The subject of a line. All of it is sanitized and on one line.
#[derive(Debug)]
pub(super) enum Subject {
    Call { id: String, name: String, arguments: String },
    Wait(String),
}

impl Subject {
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

impl Line {
    pub(super) fn new(id: u64, subject: Subject) -> Self {
        Self { id, subject, since: Some(Instant::now()) }
    }

    pub(super) fn waiting(id: u64, subject: Subject) -> Self {
        Self { id, subject, since: None }
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the line for now, with a spinner and a clock if the call runs, in fewer than
    /// `columns` cells: a full row would move the cursor to the next on some terminals.
    pub(super) fn running(&self, turns: usize, columns: usize, look: Look) -> String {
        const TURNS: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
        if self.since.is_none() {
            return self.laid_out(("·", FAINT), None.into_iter(), columns, look);
        }
        let mark = (TURNS[turns % TURNS.len()], RUNNING);
        self.laid_out(mark, clock(self.elapsed()).into_iter(), columns, look)
    }

    /// Returns the final line.
    pub(super) fn ended(&self, ended: Ended<'_>, columns: usize, look: Look) -> String {
        let duration = duration(ended.duration);
        let (mark, tail) = match ended.error {
            None => (("✓", DONE), [duration, size(ended.size)]),
            Some(error) => (("✗", FAILED), [duration, one_line(error)]),
        };
        self.laid_out(mark, tail.into_iter(), columns, look)
    }

    /// Joins the mark, the name, as much of the arguments as there is room for, and the tail.
    fn laid_out(
        &self,
        (mark, style): (&str, Style),
        tail: impl Iterator<Item = String>,
        columns: usize,
        look: Look,
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
            // An ellipsis alone says nothing.
            short if short.is_empty() || short == "…" => String::new(),
            short => format!(" {short}"),
        };
        let space = if name.is_empty() { "" } else { " " };
        let plain = format!("{mark}{space}{name}{arguments}{tail}");
        if cells::width(&plain) > room {
            // Characters that join across the parts, or no room even for the mark.
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

/// Returns the time that a call has run so far, in seconds; nothing in the first.
fn clock(elapsed: Duration) -> Option<String> {
    match elapsed.as_secs() {
        0 => None,
        seconds @ 1..60 => Some(format!("{seconds} s")),
        _ => Some(duration(elapsed)),
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

/// Formats a number of characters, in thousands where there are many.
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

    fn call(name: &str, arguments: &str) -> Line {
        Line::new(1, Subject::call("1", name, arguments))
    }

    const ENDED: Ended<'static> =
        Ended { duration: Duration::from_millis(12), size: 3_210, error: None };

    #[test]
    fn the_end_of_a_line_is_kept_and_the_arguments_give_way() {
        let line = call("file_read", r#"{"file_path":"src/main.rs"}"#);
        let ended = |columns, ended| line.ended(ended, columns, Look::PLAIN);
        assert_eq!(
            ended(80, ENDED),
            r#"✓ file_read {"file_path":"src/main.rs"} · 12 ms · 3.2k chars"#
        );
        assert_eq!(ended(49, ENDED), r#"✓ file_read {"file_path":"… · 12 ms · 3.2k chars"#);
        assert_eq!(ended(34, ENDED), "✓ file_read · 12 ms · 3.2k chars");
        let failed = Ended { error: Some("TOOL_TIMEOUT"), ..ENDED };
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
            let line = Line { since, ..call("bash", "{}") };
            line.running(0, 40, Look::PLAIN)
        };
        assert_eq!(
            [0, 1, 59, 75].map(running),
            ["⠋ bash {}", "⠋ bash {} · 1 s", "⠋ bash {} · 59 s", "⠋ bash {} · 1 min 15 s"]
        );
    }

    proptest! {
        #[test]
        fn a_line_is_narrower_than_the_screen(
            name in "\\PC{0,30}", arguments in "\\PC*", error in proptest::option::of("\\PC*"), columns in 1_usize..120,
        ) {
            let line = call(&name, &arguments);
            let ended = line.ended(Ended { error: error.as_deref(), ..ENDED }, columns, Look::PLAIN);
            prop_assert!(cells::width(&ended) < columns, "{ended:?}");
            let waiting = Line { since: None, ..call(&name, &arguments) };
            prop_assert!(cells::width(&waiting.running(3, columns, Look::PLAIN)) < columns);
            prop_assert!(cells::width(&line.running(3, columns, Look::PLAIN)) < columns);
        }
    }
}
