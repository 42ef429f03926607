//! The beginning of a result or of a change, below the line of its call.

use anstyle::{AnsiColor, Style};

use super::line::FAINT;
use crate::cells;
use crate::look::OutputFeatures;
use crate::sanitize;

/// The space before each line.
const INDENT: &str = "  ";

/// The kind of a text that is shown in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExcerptKind {
    Text,
    /// Lines that begin with `+`, `-` or a space.
    Diff,
}

/// Returns the first lines of `text`, at most `most` and each in one row, and a line that counts
/// the others. `more` tells how to see those.
pub(super) fn lines(
    kind: ExcerptKind,
    text: &str,
    most: usize,
    more: &str,
    columns: usize,
    look: OutputFeatures,
) -> String {
    let text = sanitize(text);
    let text = if kind == ExcerptKind::Text { text.trim_matches('\n').trim_end() } else { &text };
    let all = text.lines().count();
    // The line with the count takes as much room as a line that it counts.
    let shown = if all <= most.saturating_add(1) { all } else { most };
    let mut written = String::new();
    for line in text.lines().take(shown) {
        let style = match (kind, line.chars().next()) {
            (ExcerptKind::Diff, Some('+')) => AnsiColor::Green.on_default(),
            (ExcerptKind::Diff, Some('-')) => AnsiColor::Red.on_default(),
            _ => FAINT,
        };
        push(&mut written, &line.replace('\t', "    "), style, columns, look);
    }
    if shown < all {
        let note = format!("… {} more lines ({more})", all - shown);
        push(&mut written, &note, FAINT, columns, look);
    }
    written
}

fn push(written: &mut String, line: &str, style: Style, columns: usize, look: OutputFeatures) {
    // A file or a pipe has no width.
    let line = match look.live {
        true => cells::truncated(line, columns.saturating_sub(1 + INDENT.len())),
        false => line.to_owned(),
    };
    if !line.is_empty() {
        let style = look.style(style);
        written.push_str(&format!("{INDENT}{style}{line}{style:#}"));
    }
    written.push('\n');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str, most: usize) -> String {
        let look = OutputFeatures { live: true, coloured: false };
        let lines = lines(ExcerptKind::Text, text, most, "a key", 20, look);
        lines.replace("\x1b[2m", "").replace("\x1b[0m", "")
    }

    #[test]
    fn the_first_lines_are_shown_and_the_others_counted() {
        assert_eq!(shown("a\nb\nc\nd\n", 2), "  a\n  b\n  … 2 more lines (…\n");
        assert_eq!(shown("a\nb\nc\n", 2), "  a\n  b\n  c\n", "the last takes no more room");
        assert_eq!(shown("\n\na\n\nb\n\n", 5), "  a\n\n  b\n");
        assert_eq!(shown("", 5), "");
    }

    #[test]
    fn a_line_is_cut_at_the_width_and_made_harmless() {
        assert_eq!(shown("\tone two three four five", 5), "      one two thre…\n");
        assert_eq!(shown("a\x1b[2Jb\r\nc", 5), "  a␛[2Jb\n  c\n");
    }

    #[test]
    fn a_diff_has_colours_where_there_are_any() {
        let lines = |look| lines(ExcerptKind::Diff, "-a\n+b\n c\n", 5, "a key", 80, look);
        assert_eq!(
            lines(OutputFeatures::FULL),
            "  \x1b[31m-a\x1b[0m\n  \x1b[32m+b\x1b[0m\n  \x1b[2m c\x1b[0m\n"
        );
        assert_eq!(lines(OutputFeatures::PLAIN), "  -a\n  +b\n   c\n");
    }

    proptest! {
        #[test]
        fn every_line_is_narrower_than_the_screen(text in "(\\PC|[\n\t\x1b])*", most in 0_usize..9, columns in 4_usize..80) {
            let written = lines(ExcerptKind::Text, &text, most, "a key", columns, OutputFeatures::FULL);
            for line in written.lines() {
                prop_assert!(cells::styled_width(line) < columns, "{line:?}");
            }
            prop_assert!(written.lines().count() <= most + 1);
        }
    }
}
