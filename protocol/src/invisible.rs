//! Characters that show a text otherwise than it is. Names, errors and documents cross the
//! boundary in both directions, and whoever shows one to a person asks here.
//!
//! Says which characters these are, not what is shown in their place.

/// Whether `c` is obeyed instead of shown: a control character, or one that turns the
/// direction of writing (`Bidi_Control` of
/// <https://www.unicode.org/Public/UCD/latest/ucd/PropList.txt>), by which a line reads
/// otherwise than it is (<https://trojansource.codes>).
///
/// Line feeds and tabs are among them.
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

/// Whether `c` leaves no mark of its own on a screen: [`is_deceptive`], a separator of lines
/// or paragraphs, an interlinear annotation, or `Default_Ignorable_Code_Point` of
/// <https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt>, which has what is
/// of no width, variation selectors and tags.
///
/// Some of them belong to ordinary text: emoji are joined by one.
#[must_use]
pub fn is_unseen(c: char) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_a_text_is_deceptive_and_what_is_of_no_width_is_unseen() {
        let kinds = |c| (is_deceptive(c), is_unseen(c));
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
