//! The word at the cursor, if it can be completed.

/// The kind of a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WordKind<'a> {
    Command,
    /// An argument of a command.
    Argument(&'a str),
    File,
    Asset,
}

/// A word that is being typed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TypedWord<'a> {
    pub(super) wanted: WordKind<'a>,
    /// The typed part of the name, without marks.
    pub(super) text: &'a str,
    /// The bytes of the line that the completed word replaces.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl TypedWord<'_> {
    /// Returns `true` if the word is exactly `name`, or an asset's name without its folder and its
    /// extension, which is enough to name an asset anywhere.
    pub(super) fn is_exactly(&self, name: &str) -> bool {
        let short = || {
            let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
            file.rsplit_once('.').map_or(file, |(stem, _)| stem)
        };
        self.text == name
            || !self.text.is_empty()
                && matches!(self.wanted, WordKind::Argument(_) | WordKind::Asset)
                && self.text == short()
    }

    /// Returns `true` if a word that may be left out is still empty.
    pub(super) fn is_unasked(&self) -> bool {
        self.text.is_empty() && matches!(self.wanted, WordKind::Command | WordKind::Argument(_))
    }
}

/// Returns the word that ends at byte `position` of `line`.
pub(super) fn at(line: &str, position: usize) -> Option<TypedWord<'_>> {
    let line = line.get(..position)?;
    if let Some(command) = line.strip_prefix('/') {
        return Some(in_command(line, command));
    }
    let start = start_of_mention(line)?;
    let marked = &line[start..];
    let (wanted, name) = match marked.strip_prefix("@@") {
        Some(name) => (WordKind::Asset, name),
        None => (WordKind::File, &marked[1..]),
    };
    let text = match name.strip_prefix('"') {
        Some(quoted) if quoted.contains('"') => return None,
        Some(quoted) => quoted,
        None if name.contains(char::is_whitespace) => return None,
        None => name,
    };
    Some(TypedWord { wanted, text, start, end: position })
}

fn in_command<'a>(line: &'a str, command: &'a str) -> TypedWord<'a> {
    let end = line.len();
    match command.split_once(char::is_whitespace) {
        None => TypedWord { wanted: WordKind::Command, text: command, start: 0, end },
        Some((name, rest)) => {
            let text = rest.trim_start();
            TypedWord { wanted: WordKind::Argument(name), text, start: end - text.len(), end }
        }
    }
}

/// Returns the position of the last `@` that begins a word: after white space or an opening
/// bracket, the same as when mentions are parsed. An `@` inside a quoted mention does not begin
/// another mention.
fn start_of_mention(line: &str) -> Option<usize> {
    let mut last = None;
    let mut before = ' ';
    let mut is_quoted = false;
    let mut marks = "";
    for (at, c) in line.char_indices() {
        match c {
            '"' if is_quoted => is_quoted = false,
            '"' if matches!(marks, "@" | "@@") => is_quoted = true,
            '@' if !is_quoted && is_boundary(before) => last = Some(at),
            _ => {}
        }
        marks = match last {
            Some(start) => &line[start..at + c.len_utf8()],
            None => "",
        };
        before = c;
    }
    last
}

fn is_boundary(before: char) -> bool {
    before.is_whitespace() || matches!(before, '(' | '[' | '{')
}

/// Returns a name as it is written after `@`.
pub(super) fn quoted(name: &str) -> String {
    if name.contains(char::is_whitespace) { format!("\"{name}\"") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(line: &str) -> Option<(WordKind<'_>, &str, usize)> {
        at(line, line.len()).map(|word| (word.wanted, word.text, word.start))
    }

    #[test]
    fn a_mention_begins_a_word() {
        assert_eq!(found("see @src/ma"), Some((WordKind::File, "src/ma", 4)));
        assert_eq!(found("@"), Some((WordKind::File, "", 0)));
        assert_eq!(found("line\n@@de"), Some((WordKind::Asset, "de", 5)));
        assert_eq!(found("世界 @a"), Some((WordKind::File, "a", 7)));
        assert_eq!(found("(@a.t"), Some((WordKind::File, "a.t", 1)));
        assert_eq!(found("f[@@d"), Some((WordKind::Asset, "d", 2)));
        assert_eq!(found("{@"), Some((WordKind::File, "", 1)));
        assert_eq!(found("me@example.org"), None);
        assert_eq!(found(r"\@plain"), None);
        assert_eq!(found("@done then"), None);
    }

    #[test]
    fn quotation_marks_hold_spaces() {
        assert_eq!(found(r#"@"a b.t"#), Some((WordKind::File, "a b.t", 0)));
        assert_eq!(found(r#"@@"a @b"#), Some((WordKind::Asset, "a @b", 0)));
        assert_eq!(found(r#"@"a b.txt" and @c"#), Some((WordKind::File, "c", 15)));
        assert_eq!(found(r#"@"a b.txt" "#), None);
        assert_eq!(quoted("a b.txt"), r#""a b.txt""#);
    }

    #[test]
    fn a_command_is_the_first_word_of_the_line() {
        assert_eq!(found("/to"), Some((WordKind::Command, "to", 0)));
        assert_eq!(found("/tool  fi"), Some((WordKind::Argument("tool"), "fi", 7)));
        assert_eq!(found("and /to"), None);
    }

    #[test]
    fn what_is_behind_the_cursor_does_not_count() {
        let word = at("@sr tail", 3).expect("a word");
        assert_eq!((word.text, word.start, word.end), ("sr", 0, 3));
    }

    proptest! {
        #[test]
        fn a_word_lies_in_its_line(line in "[@\"\\\\/ a世\n]{0,20}", position in 0_usize..24) {
            if let Some(word) = at(&line, position) {
                prop_assert!(word.start <= word.end && word.end == position);
                prop_assert!(line[word.start..word.end].ends_with(word.text));
            }
        }
    }
}
