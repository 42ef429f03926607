//! Characters that make a text look different from what it contains. Names, errors and assets
//! cross the boundary in both directions, and every program that displays them uses this module.
//!
//! This module classifies characters, and writes them out for a user who has to approve a text.

/// Returns `true` if a terminal obeys `c` instead of showing it. That is a control character, or
/// a character that changes the direction of writing (`Bidi_Control` of
/// <https://www.unicode.org/Public/UCD/latest/ucd/PropList.txt>), so that a line reads
/// differently from what it contains (<https://trojansource.codes>).
///
/// Line feeds and tabs are included.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Returns `true` if `c` leaves no mark on a screen:
///
/// - a character that [`is_deceptive`];
/// - a separator of lines or paragraphs;
/// - an interlinear annotation;
/// - a `Default_Ignorable_Code_Point` of
///   <https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt>, such as
///   characters of no width, variation selectors and tags.
///
/// Some of them belong to ordinary text: emoji are joined by one.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    is_deceptive(c)
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200d}'
                | '\u{2028}'..='\u{2029}'
                | '\u{2060}'..='\u{2065}'
                | '\u{206a}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns `text` with every invisible character written out, as in `\u{200b}`, for a user who
/// has to approve each of them. Tabs stay.
#[must_use]
pub fn written_out(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => written.push(c),
            '\r' => written.push_str("\\r"),
            c if is_invisible(c) => written.extend(c.escape_unicode()),
            c => written.push(c),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_written_out() {
        let invisible = "a\u{200b}\u{202e}\u{3164}\u{2028}\u{fe0f}\u{e0041}\r\x1b\u{9b}\tb";
        let written =
            "a\\u{200b}\\u{202e}\\u{3164}\\u{2028}\\u{fe0f}\\u{e0041}\\r\\u{1b}\\u{9b}\tb";
        assert_eq!(written_out(invisible), written);
    }

    #[test]
    fn characters_that_turn_a_text_are_deceptive_and_those_without_width_are_invisible() {
        let kinds = |c| (is_deceptive(c), is_invisible(c));
        for c in ['\n', '\r', '\x1b', '\u{9b}', '\u{61c}', '\u{200e}', '\u{202e}', '\u{2069}'] {
            assert_eq!(kinds(c), (true, true), "{c:?}");
        }
        for c in ['\u{200b}', '\u{200d}', '\u{2028}', '\u{fe0f}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(kinds(c), (false, true), "{c:?}");
        }
        for c in ['a', ' ', '\u{a0}', 'é', '\u{301}', '世', 'א', '👩', '\u{fffd}'] {
            assert_eq!(kinds(c), (false, false), "{c:?}");
        }
    }
}
