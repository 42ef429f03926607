//! The words of a line, with quotations.

/// A quotation without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a quotation has no end")]
pub struct Unclosed;

/// Splits a line into words at white space that is not quoted. In `"…"`, a backslash escapes `"`
/// and another backslash. In `'…'`, every character stands for itself. A quotation may be a part of
/// a word.
///
/// # Errors
///
/// Fails if a quotation has no end.
pub fn words(line: &str) -> Result<Vec<String>, Unclosed> {
    let mut words = Vec::new();
    // `Some` for an empty word too: `""`.
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            quote @ ('"' | '\'') => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next().ok_or(Unclosed)? {
                        end if end == quote => break,
                        '\\' if quote == '"' => match characters.next().ok_or(Unclosed)? {
                            escaped @ ('"' | '\\') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            space if space.is_whitespace() => words.extend(word.take()),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Unclosed, words};

    #[test]
    fn quotations() {
        let read = |line: &str| words(line).expect(line);
        assert_eq!(read(r#" /pin  "a b".md "#), ["/pin", "a b.md"]);
        assert_eq!(read(r#"'a "b" \' c"#), [r#"a "b" \"#, "c"]);
        assert_eq!(read(r#""a \"b\" \\ \n""#), [r#"a "b" \ \n"#]);
        assert_eq!(read(r"C:\a \b"), [r"C:\a", r"\b"]);
        assert_eq!(read(r#""" ''"#), ["", ""]);
        assert_eq!(read(" \t\n"), [""; 0]);
        for line in ["\"", "'a", r#""a\""#, "\"a\\"] {
            assert_eq!(words(line), Err(Unclosed), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_words_can_be_quoted(all in prop::collection::vec(".*", 0..4)) {
            let quote = |word: &String| {
                format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
            };
            let line = all.iter().map(quote).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(&line), Ok(all));
        }
    }
}
