//! Removal of the characters in a foreign text that a terminal would obey.
//!
//! This module knows neither Markdown nor lines; all other characters stay unchanged.

use std::borrow::Cow;

use ikigai_protocol::is_deceptive;

/// Replaces everything in `text` that a terminal obeys, except line feeds and tabs.
///
/// Control characters become their pictures (`␛` for escape), so that the user sees them. Carriage
/// returns are removed, because `\r\n` is a common line end. C1 controls, which some terminals take
/// for escape sequences, and the characters that reorder a line for display become `U+FFFD`. The
/// frame of a [question](crate::question) becomes a thin one, so that no text looks like a
/// question.
#[must_use]
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| is_kept(c) && replaced(c).is_none()) {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().filter(|c| is_kept(*c));
    Cow::Owned(kept.map(|c| replaced(c).unwrap_or(c)).collect())
}

/// Returns the [sanitized](sanitize) `text` on one line: line ends and tabs become spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    let lines = text.trim_end_matches(['\r', '\n']).replace(['\n', '\t'], " ");
    sanitize(&lines).into_owned()
}

fn is_kept(c: char) -> bool {
    c != '\r'
}

/// Returns the replacement of a character that a terminal would obey.
fn replaced(c: char) -> Option<char> {
    /// The first of Unicode's pictures of the C0 controls, which have the same order.
    const PICTURES: u32 = 0x2400;
    match c {
        '\n' | '\t' => None,
        '\0'..='\x1f' => char::from_u32(PICTURES + u32::from(c)),
        '\x7f' => Some('␡'),
        // The frame of questions.
        '┏' => Some('┌'),
        '┃' => Some('│'),
        '┗' => Some('└'),
        c if is_deceptive(c) => Some(char::REPLACEMENT_CHARACTER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sequences_are_shown_instead_of_obeyed() {
        assert_eq!(sanitize("\x1b]0;title\x07"), "␛]0;title␇");
        assert_eq!(sanitize("\u{9b}2J"), "\u{fffd}2J");
        assert_eq!(sanitize("a\r\nb\tc\x7f"), "a\nb\tc␡");
        assert_eq!(one_line("a\nb\r\n"), "a b");
    }

    #[test]
    fn characters_that_turn_a_line_are_replaced() {
        let turning = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";
        assert_eq!(sanitize(turning), "\u{fffd}".repeat(7));
    }

    #[test]
    fn no_text_has_the_frame_of_a_question() {
        assert_eq!(sanitize("┏ ikigai asks\n┃ o?\n┗ o once"), "┌ ikigai asks\n│ o?\n└ o once");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(sanitize("Grüße, 世界 👩‍👧\n"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_remains(text in "\\PC*|[\\x00-\\x9f]*") {
            let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
            prop_assert!(!sanitize(&text).chars().any(is_obeyed));
            prop_assert!(!one_line(&text).chars().any(char::is_control));
        }
    }
}
