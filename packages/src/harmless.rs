//! Makes foreign text safe for a message: on one line, of a bounded length, and without characters
//! that control a terminal or reverse text.

use ikigai_protocol::{is_invisible, written_out};

/// The longest foreign text in a message, in characters.
const LONGEST: usize = 300;

/// Returns a text on one line, with invisible characters escaped. A long text is cut.
#[must_use]
pub(crate) fn line(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => whole(&text[..end]) + "…",
        None => whole(text),
    }
}

/// Returns a text on one line as [`line`] does, but of any length.
#[must_use]
pub(crate) fn whole(text: &str) -> String {
    if text.contains(is_invisible) {
        written_out(text).replace('\t', "\\t")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn escapes_and_bidirectional_marks_are_made_harmless() {
        assert_eq!(line("a\u{1b}[31m\u{202e}b\nc"), r"a\u{1b}[31m\u{202e}b\u{a}c");
        assert_eq!(line("schön – 日本"), "schön – 日本");
        assert_eq!(line(&"x".repeat(1000)).chars().count(), 301);
    }
}
