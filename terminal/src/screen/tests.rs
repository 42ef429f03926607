//! The contents of an emulated terminal after each step.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::question::{KeyQuestion, QuestionLine};

/// A terminal that a screen writes to, with a line discipline before it.
#[derive(Clone)]
struct Terminal(Arc<Mutex<vt100::Parser>>, Arc<AtomicUsize>);

impl Terminal {
    fn new(columns: u16) -> Self {
        let rows = const { NonZero::new(24).expect("rows") };
        let columns = NonZero::new(columns).expect("columns");
        let parser = vt100::Parser::new(rows, columns, 1_000);
        Self(Arc::new(Mutex::new(parser)), Arc::new(AtomicUsize::new(columns.get().into())))
    }

    fn screen(&self, look: OutputFeatures) -> Screen {
        let columns = Arc::clone(&self.1);
        let size = move || TerminalSize { columns: columns.load(Ordering::SeqCst), rows: 24 };
        Screen::with_size(self.clone(), look, size)
    }

    /// Makes the terminal narrower, as most terminals do it: it breaks the lines that do not fit,
    /// and the cursor stays before its character.
    fn narrow(&self, columns: u16) {
        let mut parser = self.0.lock();
        let screen = parser.screen();
        let (row, column) = screen.cursor_position();
        let rows: Vec<String> = screen.rows(0, screen.size().1.get()).collect();
        let width = usize::from(columns);
        let broken = |row: &String| cells::width(row).max(1).div_ceil(width);
        let above: usize = rows[..row.into()].iter().map(broken).sum();
        let (below, column) = (usize::from(column) / width, usize::from(column) % width);
        let text = rows.join("\r\n");
        let rows = const { NonZero::new(24).expect("rows") };
        *parser = vt100::Parser::new(rows, NonZero::new(columns).expect("columns"), 1_000);
        parser.process(text.trim_end().as_bytes());
        parser.process(format!("\x1b[{};{}H", above + below + 1, column + 1).as_bytes());
        self.1.store(columns.into(), Ordering::SeqCst);
    }

    fn resize(&self, columns: u16) {
        let rows = const { NonZero::new(24).expect("rows") };
        let mut parser = self.0.lock();
        parser.screen_mut().set_size(rows, NonZero::new(columns).expect("columns"));
        self.1.store(columns.into(), Ordering::SeqCst);
    }

    /// Returns the lines of the terminal, with every spinner at its first turn.
    fn lines(&self) -> Vec<String> {
        let contents = self.0.lock().screen().contents();
        let still = |c: char| if ('\u{2800}'..='\u{28ff}').contains(&c) { '⠋' } else { c };
        contents.lines().map(|line| line.chars().map(still).collect()).collect()
    }
}

impl Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut parser = self.0.lock();
        for byte in bytes {
            match byte {
                b'\n' => parser.process(b"\r\n"),
                byte => parser.process(&[*byte]),
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ended(error: Option<&'static str>) -> CallSummary<'static> {
    CallSummary { duration: Duration::from_millis(12), size: 3_210, error }
}

#[test]
fn parallel_calls_end_in_their_own_order() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.text("I will **look**").expect("a screen");
    screen.begin_call("1", "glob", r#"{"pattern":"*"}"#).expect("a screen");
    screen.begin_call("2", "bash", r#"{"command":"a\nb"}"#).expect("a screen");
    assert_eq!(
        terminal.lines(),
        ["I will look", r#"⠋ glob {"pattern":"*"}"#, r#"⠋ bash {"command":"a\nb"}"#]
    );
    screen.end_call("2", "bash", ended(Some("TOOL_TIMEOUT"))).expect("a screen");
    assert_eq!(
        terminal.lines(),
        [
            "I will look",
            r#"✗ bash {"command":"a\nb"} · 12 ms · TOOL_TIMEOUT"#,
            r#"⠋ glob {"pattern":"*"}"#
        ]
    );
    screen.end_call("1", "glob", ended(None)).expect("a screen");
    screen.text("Done.").expect("a screen");
    screen.end_text().expect("a screen");
    assert_eq!(
        terminal.lines()[1..],
        [
            r#"✗ bash {"command":"a\nb"} · 12 ms · TOOL_TIMEOUT"#,
            r#"✓ glob {"pattern":"*"} · 12 ms · 3.2k chars"#,
            "Done."
        ]
    );
}

#[test]
fn text_that_streams_during_a_call_stands_above_it() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.begin_call("1", "glob", "{}").expect("a screen");
    screen.text("one two\nthree fo").expect("a screen");
    assert_eq!(terminal.lines(), ["one two", "three", "⠋ glob {}"]);
    screen.text("ur\n").expect("a screen");
    assert_eq!(terminal.lines(), ["one two", "three four", "⠋ glob {}"]);
    screen.text("five six ").expect("a screen");
    screen.end_call("1", "glob", ended(None)).expect("a screen");
    assert_eq!(
        terminal.lines(),
        ["one two", "three four", "five six", "✓ glob {} · 12 ms · 3.2k chars"]
    );
}

#[test]
fn waiting_leaves_nothing_behind() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.line("before").expect("a screen");
    let busy = screen.busy("scanning for tools").expect("a screen");
    assert_eq!(terminal.lines(), ["before", "⠋ scanning for tools"]);
    screen.line("Debug: a tool was skipped").expect("a screen");
    drop(busy);
    screen.line("after").expect("a screen");
    assert_eq!(terminal.lines(), ["before", "Debug: a tool was skipped", "after"]);
}

#[test]
fn thoughts_are_dimmed_and_wrapped() {
    let terminal = Terminal::new(20);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.text("An answer").expect("a screen");
    screen.thought("one two three four five\nsix\x1b[7m\n").expect("a screen");
    screen.line("after").expect("a screen");
    assert_eq!(terminal.lines(), ["An answer", "one two three four", "five", "six␛[7m", "after"]);
    let parser = terminal.0.lock();
    let is_dim = |row| parser.screen().cell(row, 0).expect("a cell").dim();
    assert_eq!([0, 1, 2, 3, 4].map(is_dim), [false, true, true, true, false]);
}

#[test]
fn calls_that_were_cancelled_have_an_end() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.begin_call("1", "glob", "{}").expect("a screen");
    screen.begin_call("2", "bash", "{}").expect("a screen");
    screen.end_call("1", "glob", ended(None)).expect("a screen");
    screen.end_calls("cancelled").expect("a screen");
    let lines = terminal.lines();
    assert_eq!(lines[0], "✓ glob {} · 12 ms · 3.2k chars");
    assert!(
        lines[1].starts_with("✗ bash {} · ") && lines[1].ends_with(" · cancelled"),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_resize_during_a_call_loses_no_text() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.line("the text before").expect("a screen");
    screen
        .begin_call("1", "file_read", r#"{"file_path":"some/where/below/main.rs"}"#)
        .expect("a screen");
    terminal.resize(24);
    screen.text("and after it comes more\n").expect("a screen");
    screen.end_call("1", "file_read", ended(None)).expect("a screen");
    let lines = terminal.lines();
    assert_eq!(lines, ["the text before", "and after it comes more", "✓ file_read · 12 ms · …"],);
    terminal.resize(100);
    screen.text("wide again\n").expect("a screen");
    assert_eq!(terminal.lines()[3], "wide again");
}

#[test]
fn more_calls_than_rows_are_not_drawn_over_text() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.line("the text before").expect("a screen");
    for id in 0..40 {
        screen.begin_call(&id.to_string(), "bash", "{}").expect("a screen");
    }
    for id in 0..40 {
        screen.end_call(&id.to_string(), "bash", ended(None)).expect("a screen");
    }
    let mut parser = terminal.0.lock();
    parser.screen_mut().set_scrollback(usize::MAX);
    assert!(parser.screen().contents().starts_with("the text before\n✓ bash"));
}

#[test]
fn spinners_turn_by_themselves() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.begin_call("1", "bash", "{}").expect("a screen");
    let drawn = || terminal.0.lock().screen().contents();
    let first = drawn();
    while drawn() == first {
        thread::yield_now();
    }
    assert!(drawn().ends_with(" bash {}"));
}

#[test]
fn without_a_terminal_each_call_is_one_line_and_text_is_as_it_came() {
    let terminal = Terminal::new(80);
    let screen = terminal.screen(OutputFeatures::PLAIN);
    screen.text("**as it** ca").expect("a screen");
    screen.text("me\x1b[2J").expect("a screen");
    screen.begin_call("1", "glob", "{}").expect("a screen");
    screen.text("more").expect("a screen");
    screen.end_call("1", "glob", ended(None)).expect("a screen");
    assert_eq!(terminal.lines(), ["**as it** came␛[2J", "more", "✓ glob {} · 12 ms · 3.2k chars"]);
}

#[test]
fn without_colours_lines_change_all_the_same() {
    let terminal = Terminal::new(80);
    let screen = terminal.screen(OutputFeatures { live: true, coloured: false });
    screen.text("**x** `y`\n").expect("a screen");
    screen.begin_call("1", "a\x1b[2Jb", "{}").expect("a screen");
    assert_eq!(terminal.lines(), ["x `y`", "⠋ a␛[2Jb {}"]);
    screen.end_call("1", "a\x1b[2Jb", ended(None)).expect("a screen");
    assert_eq!(terminal.lines(), ["x `y`", "✓ a␛[2Jb {} · 12 ms · 3.2k chars"]);
    screen.diff("-a\n+b\n").expect("a screen");
    let parser = terminal.0.lock();
    let cell = |row, column| parser.screen().cell(row, column).expect("a cell");
    assert!(cell(0, 0).bold());
    for (row, column) in [(0, 3), (1, 0), (2, 0), (3, 0)] {
        assert_eq!(cell(row, column).fgcolor(), vt100::Color::Default);
    }
}

#[test]
fn a_diff_shows_what_nobody_would_see() {
    let terminal = Terminal::new(80);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.diff("-a\n+a\r\n+b\rc\u{2028}d\u{200b}\u{e0041}\u{fe0f}\u{202e}\n").expect("a screen");
    assert_eq!(
        terminal.lines(),
        ["-a", r"+a\r", r"+b\rc\u{2028}d\u{200b}\u{e0041}\u{fe0f}\u{202e}"]
    );
}

#[test]
fn the_program_s_own_lines_break_between_words() {
    let line = "error: a tool was skipped because its schema is none";
    let terminal = Terminal::new(30);
    terminal.screen(OutputFeatures::FULL).line(line).expect("a screen");
    assert_eq!(terminal.lines(), ["error: a tool was skipped", "because its schema is none"]);
    let terminal = Terminal::new(30);
    terminal.screen(OutputFeatures::PLAIN).line(line).expect("a screen");
    assert_eq!(terminal.lines(), [line]);
}

#[test]
fn a_call_that_waits_for_its_turn_has_no_clock() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.begin_call("1", "bash", "{}").expect("a screen");
    screen.queue_call("2", "glob", "{}").expect("a screen");
    screen.queue_call("3", "grep", "{}").expect("a screen");
    assert_eq!(terminal.lines(), ["⠋ bash {}", "· glob {}", "· grep {}"]);
    screen.end_call("1", "bash", ended(None)).expect("a screen");
    screen.begin_call("2", "glob", "{}").expect("a screen");
    let done = "✓ bash {} · 12 ms · 3.2k chars";
    assert_eq!(terminal.lines(), [done, "⠋ glob {}", "· grep {}"], "no call has two lines");
    screen.end_call("2", "glob", ended(None)).expect("a screen");
    screen.end_calls("cancelled").expect("a screen");
    assert_eq!(
        terminal.lines(),
        [done, "✓ glob {} · 12 ms · 3.2k chars", "✗ grep {} · 0 ms · cancelled"]
    );
}

#[test]
fn a_narrower_window_leaves_no_line_behind() {
    for narrow in [Terminal::narrow, Terminal::resize] {
        let terminal = Terminal::new(60);
        let screen = terminal.screen(OutputFeatures::FULL);
        screen.line("the text before").expect("a screen");
        let arguments = r#"{"file_path":"some/where/below/main.rs"}"#;
        screen.begin_call("1", "file_read", arguments).expect("a screen");
        screen.begin_call("2", "file_read", arguments).expect("a screen");
        screen
            .show_typed(vec!["a line that waits for its turn".to_owned()], "a draft")
            .expect("a screen");
        narrow(&terminal, 24);
        screen.text("more\n").expect("a screen");
        assert_eq!(
            terminal.lines(),
            [
                "the text before",
                "more",
                "⠋ file_read {\"file_pat…",
                "⠋ file_read {\"file_pat…",
                "queued: a line that wa…",
                "> a draft "
            ]
        );
        narrow(&terminal, 12);
        screen.show_typed(Vec::new(), "").expect("a screen");
        screen.end_call("1", "file_read", ended(None)).expect("a screen");
        screen.end_call("2", "file_read", ended(None)).expect("a screen");
        let lines = terminal.lines();
        assert_eq!(lines[lines.len() - 2..], ["✓ file_read", "✓ file_read"], "{lines:?}");
        assert!(
            !lines.iter().any(|line| line.contains('⠋') || line.contains("draft")),
            "{lines:?}"
        );
    }
}

#[test]
fn what_is_typed_stands_below_a_text_that_streams() {
    let terminal = Terminal::new(40);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.text("one two ").expect("a screen");
    screen.text("**three** fo").expect("a screen");
    assert_eq!(terminal.lines(), ["one two three"]);
    screen.show_typed(Vec::new(), "and th").expect("a screen");
    assert_eq!(terminal.lines(), ["one two three", "> and th "]);
    screen.text("ur five\nsix ").expect("a screen");
    screen.show_typed(Vec::new(), "and then").expect("a screen");
    assert_eq!(terminal.lines(), ["one two three four five", "six", "> and then "]);
    screen.show_typed(Vec::new(), "").expect("a screen");
    screen.text("seven\n").expect("a screen");
    screen.end_text().expect("a screen");
    assert_eq!(terminal.lines(), ["one two three four five", "six seven"]);
}

#[test]
fn a_line_that_was_broken_by_the_terminal_is_lifted_whole() {
    let terminal = Terminal::new(20);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.text("before\nhttps://example.org/a/rather/long/path an").expect("a screen");
    screen.show_typed(Vec::new(), "x").expect("a screen");
    assert_eq!(terminal.lines(), ["before", "> x "]);
    screen.show_typed(Vec::new(), "").expect("a screen");
    assert_eq!(terminal.lines(), ["before", "https://example.org/a/rather/long/path"]);
}

#[test]
fn a_result_stands_below_its_call_and_above_those_that_run() {
    let terminal = Terminal::new(40);
    let screen = terminal.screen(OutputFeatures::FULL);
    screen.begin_call("1", "bash", "{}").expect("a screen");
    screen.begin_call("2", "glob", "{}").expect("a screen");
    screen.end_call("1", "bash", ended(None)).expect("a screen");
    screen.result("a\nb\nc\nd\n", 2, "a key").expect("a screen");
    let done = "✓ bash {} · 12 ms · 3.2k chars";
    let result = ["  a", "  b", "  … 2 more lines (a key)"];
    assert_eq!(terminal.lines()[..4], [&[done][..], &result].concat());
    assert_eq!(terminal.lines()[4..], ["⠋ glob {}"]);
    screen.end_call("2", "glob", ended(None)).expect("a screen");
    screen.change("-a\n+b\n", 9, "a key").expect("a screen");
    assert_eq!(terminal.lines()[5..], ["  -a", "  +b"]);
}

#[test]
fn a_question_that_is_shown_again_has_no_keys_until_they_count_again() {
    let terminal = Terminal::new(60);
    let screen = terminal.screen(OutputFeatures::FULL);
    let has_keys = || terminal.lines().iter().any(|line| line.contains("o once"));
    let choices = vec![('o', "once".to_owned())];
    screen.begin_question(&KeyQuestion { choices, ..KeyQuestion::default() }).expect("a screen");
    assert!(!has_keys());
    screen.show_answer(&QuestionLine::Keys).expect("a screen");
    assert!(has_keys());
    screen.repeat_question().expect("a screen");
    assert!(!has_keys());
    screen.show_answer(&QuestionLine::Keys).expect("a screen");
    assert!(has_keys());
}
