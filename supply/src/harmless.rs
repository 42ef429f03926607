//! Text of others as a message may contain it: on one line, without what steers a terminal or
//! turns text around, and not long.

/// The most characters of a text of somebody else in a message.
const LONGEST: usize = 300;

/// Returns a text on one line, with each harmful character written as its escape.
#[must_use]
pub(crate) fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(4 * LONGEST));
    for (count, character) in text.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        if character.is_control() || is_format(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns whether a character is invisible or changes the direction of text.
fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
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
