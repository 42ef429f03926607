//! The kinds of beginning that a line of Markdown has: quotation marks, a list marker, a heading,
//! a fence, or plain text.
//!
//! It decides as early as the line's head allows, and a longer head does not change the decision.
//! For a head of [`UNDECIDED`] bytes it always decides. It keeps no state.

/// The number of bytes after which an undecided line is text. The head is scanned again with each
/// character, and a line may be as long as an answer.
const UNDECIDED: usize = 1024;

/// The deepest nesting of quotations; further marks are text. All marks are repeated before every
/// line.
const DEEPEST: usize = 16;

/// The beginning of a line's content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LinePrefix {
    /// The number of `>` before it.
    pub(super) quotes: usize,
    /// The columns of white space after the quotation marks.
    pub(super) indent: usize,
    /// The byte at which the content begins.
    pub(super) rest: usize,
}

/// The kind of a line's content. Positions are bytes from the content's beginning.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LineKind {
    Blank,
    Text,
    Heading {
        level: usize,
        text: usize,
    },
    Item {
        /// The end of the marker.
        marker: usize,
        text: usize,
    },
    Rule,
    /// A row of a possible table.
    Row,
    Fence(Fence),
    /// Indented code.
    Verbatim,
}

/// An open block of code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Returns `true` if a line of the block that begins with `head` ends it; `None` while that
    /// depends on the rest of the line.
    pub(super) fn closes(self, head: &str, quotes: usize, complete: bool) -> Option<bool> {
        let line = without_quotes(head, quotes);
        let rest = line.trim_start();
        let marks = run(rest, self.mark);
        let only_marks = rest[marks..].trim_start().is_empty();
        if complete {
            return Some(only_marks && marks >= self.length);
        }
        (!only_marks || head.len() >= UNDECIDED).then_some(false)
    }
}

/// Returns a line's content without up to `quotes` quotation marks.
pub(super) fn without_quotes(line: &str, quotes: usize) -> &str {
    let mut rest = line;
    for _ in 0..quotes {
        let Some(inner) = rest.trim_start_matches(' ').strip_prefix('>') else { break };
        rest = inner.strip_prefix(' ').unwrap_or(inner);
    }
    rest
}

/// Returns the beginning of the line that `head` begins, if it is certain. For a `complete` line it
/// is always certain.
///
/// `is_open` is `true` if a paragraph may be continued, `has_marker` if the head follows a list
/// marker on the same line.
pub(super) fn start(
    head: &str,
    complete: bool,
    is_open: bool,
    has_marker: bool,
) -> Option<(LinePrefix, LineKind)> {
    let line = line(head, has_marker);
    let rest = &head[line.rest..];
    let is_long = head.len() >= UNDECIDED;
    if rest.is_empty() {
        let found = if is_long && !complete { LineKind::Text } else { LineKind::Blank };
        return (complete || is_long).then_some((line, found));
    }
    let found = content(rest, complete, is_open).or(is_long.then_some(LineKind::Text))?;
    /// The indentation of code, from <https://spec.commonmark.org/0.31.2/#indented-code-blocks>.
    /// Inside lists, such an indentation is often a continuation that was indented by eye.
    const CODE: usize = 4;
    let is_code = line.indent >= CODE && !is_open && !has_marker && found == LineKind::Text;
    Some((line, if is_code { LineKind::Verbatim } else { found }))
}

fn line(head: &str, has_marker: bool) -> LinePrefix {
    let mut line = LinePrefix { quotes: 0, indent: 0, rest: 0 };
    for (at, c) in head.char_indices() {
        match c {
            ' ' => line.indent += 1,
            '\t' => line.indent += 4 - line.indent % 4,
            '>' if !has_marker && line.quotes < DEEPEST => {
                line.quotes += 1;
                line.indent = 0;
            }
            _ => {
                line.rest = at;
                // The space after a quotation mark belongs to the mark.
                line.indent -= usize::from(line.quotes > 0 && line.indent > 0);
                return line;
            }
        }
    }
    line.rest = head.len();
    line
}

fn content(rest: &str, complete: bool, is_open: bool) -> Option<LineKind> {
    match rest.chars().next()? {
        '#' => heading(rest, complete),
        mark @ ('-' | '*' | '_' | '+') => marked(rest, mark, complete),
        '0'..='9' => numbered(rest, complete),
        mark @ ('`' | '~') => fence(rest, mark, complete),
        '|' => Some(LineKind::Row),
        '=' if is_open => {
            let is_line = rest.trim_end().chars().all(|c| c == '=');
            match (is_line, complete) {
                (true, false) => None,
                (true, true) => Some(LineKind::Rule),
                (false, _) => Some(LineKind::Text),
            }
        }
        _ => Some(LineKind::Text),
    }
}

fn heading(rest: &str, complete: bool) -> Option<LineKind> {
    let level = run(rest, '#');
    match rest[level..].chars().next() {
        None => complete.then_some(LineKind::Text),
        Some(' ') if level <= 6 => Some(LineKind::Heading { level, text: level + 1 }),
        Some(_) => Some(LineKind::Text),
    }
}

/// Recognises a rule, a list item, or text that begins with emphasis.
fn marked(rest: &str, mark: char, complete: bool) -> Option<LineKind> {
    if mark != '+' && rest.chars().all(|c| c == mark || c == ' ') {
        if !complete {
            return None;
        }
        if rest.matches(mark).count() >= 3 {
            return Some(LineKind::Rule);
        }
    }
    if mark == '_' {
        return Some(LineKind::Text);
    }
    match rest[1..].chars().next() {
        None if !complete => None,
        None => Some(LineKind::Item { marker: 1, text: 1 }),
        Some(' ') => Some(LineKind::Item { marker: 1, text: 2 }),
        Some(_) => Some(LineKind::Text),
    }
}

fn numbered(rest: &str, complete: bool) -> Option<LineKind> {
    /// The limit of <https://spec.commonmark.org/0.31.2/#ordered-list-marker>.
    const DIGITS: usize = 9;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut after = rest[digits..].chars();
    match (after.next(), after.next()) {
        _ if digits > DIGITS => Some(LineKind::Text),
        (None, _) | (Some('.' | ')'), None) => complete.then_some(LineKind::Text),
        (Some('.' | ')'), Some(' ')) => {
            Some(LineKind::Item { marker: digits + 1, text: digits + 2 })
        }
        _ => Some(LineKind::Text),
    }
}

fn fence(rest: &str, mark: char, complete: bool) -> Option<LineKind> {
    let length = run(rest, mark);
    let info = &rest[length..];
    match (length >= 3, complete) {
        (false, false) if info.is_empty() => None,
        (false, _) => Some(LineKind::Text),
        (true, _) if mark == '`' && info.contains('`') => Some(LineKind::Text),
        (true, false) => None,
        (true, true) => Some(LineKind::Fence(Fence { mark, length })),
    }
}

/// Returns how many times `text` begins with `mark`. Since `mark` is ASCII, this is the number of
/// bytes too.
fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}
