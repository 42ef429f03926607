//! Makes text that somebody else wrote harmless to a terminal.
//!
//! Knows no Markdown and no lines; what is kept is kept as it is.

use std::borrow::Cow;

use ikigai_protocol::{is_deceptive, is_unseen};

/// `text` without anything that a terminal obeys, except line feeds and tabs.
///
/// Control characters become their pictures (`␛` for escape), so that a person sees
/// that something was there. Carriage returns are dropped, because `\r\n` is a line end
/// to most who write it. C1 controls, which some terminals take for escape sequences,
/// and the characters that reorder a line for display become `U+FFFD`.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| is_kept(c) && replaced(c).is_none()) {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().filter(|c| is_kept(*c));
    Cow::Owned(kept.map(|c| replaced(c).unwrap_or(c)).collect())
}

/// `text` as [`harmless`] makes it, on one line: line ends and tabs become spaces.
#[must_use]
pub fn one_line(text: &str) -> String {
    let lines = text.trim_end_matches(['\r', '\n']).replace(['\n', '\t'], " ");
    harmless(&lines).into_owned()
}

/// `text` with every character that would not be seen written out, as in `\u{200b}`: for who
/// is to agree with each of them. Tabs stay.
pub(crate) fn written_out(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => written.push(c),
            '\r' => written.push_str("\\r"),
            c if is_unseen(c) => written.extend(c.escape_unicode()),
            c => written.push(c),
        }
    }
    written
}

fn is_kept(c: char) -> bool {
    c != '\r'
}

/// What stands for a character that a terminal would obey.
fn replaced(c: char) -> Option<char> {
    /// Where Unicode has pictures of the C0 controls, in their order.
    const PICTURES: u32 = 0x2400;
    match c {
        '\n' | '\t' => None,
        '\0'..='\x1f' => char::from_u32(PICTURES + u32::from(c)),
        '\x7f' => Some('␡'),
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
        assert_eq!(harmless("\x1b]0;title\x07"), "␛]0;title␇");
        assert_eq!(harmless("\u{9b}2J"), "\u{fffd}2J");
        assert_eq!(harmless("a\r\nb\tc\x7f"), "a\nb\tc␡");
        assert_eq!(one_line("a\nb\r\n"), "a b");
    }

    #[test]
    fn what_turns_a_line_is_shown_as_nothing_that_does() {
        let turning = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";
        assert_eq!(harmless(turning), "\u{fffd}".repeat(7));
    }

    #[test]
    fn what_is_unseen_is_written_out() {
        let unseen = "a\u{200b}\u{202e}\u{3164}\u{2028}\u{fe0f}\u{e0041}\r\x1b\u{9b}\tb";
        let written =
            "a\\u{200b}\\u{202e}\\u{3164}\\u{2028}\\u{fe0f}\\u{e0041}\\r\\u{1b}\\u{9b}\tb";
        assert_eq!(written_out(unseen), written);
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(harmless("Grüße, 世界 👩‍👧\n"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_remains(text in "\\PC*|[\\x00-\\x9f]*") {
            let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
            prop_assert!(!harmless(&text).chars().any(is_obeyed));
            prop_assert!(!one_line(&text).chars().any(char::is_control));
        }
    }
}
