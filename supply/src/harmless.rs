//! Text of others as a message may contain it: on one line, without what steers a terminal or
//! turns text around, and not long.

use ikigai_protocol::{is_invisible, written_out};

/// The most characters of a text of somebody else in a message.
const LONGEST: usize = 300;

/// Returns a text on one line, with everything written out that leaves no mark on a screen. A long
/// one is cut.
#[must_use]
pub(crate) fn line(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => whole(&text[..end]) + "…",
        None => whole(text),
    }
}

/// Returns a text on one line as [`line`] does, however long it is.
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
