//! What is wrong with a file, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ikigai_protocol::is_deceptive;

/// A place in a text, both counted from 1; columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Where the lines of a text begin, so that a place in it is found without reading
/// all that is before.
#[derive(Clone, Debug)]
pub struct Lines<'t> {
    text: &'t [u8],
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn of(text: &'t [u8]) -> Self {
        let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let after = newlines.map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Where the byte `offset` is; the end of the text if it is beyond.
    pub fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = &self.text[self.starts[line - 1]..offset];
        Position { line, column: 1 + characters(before) }
    }

    /// The line of this number, counted from 1, without its end.
    fn line(&self, line: usize) -> &'t [u8] {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
        &self.text[start..end]
    }
}

/// Every character of UTF-8 has one byte that continues none.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count()
}

/// A file that cannot be used. Shown with the line that is wrong, a mark
/// under it, and never with a control character of the file, which may be
/// anybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Where in it; nothing where the file as a whole is refused.
    pub position: Option<Position>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    excerpt: Option<String>,
}

impl FileError {
    /// The file as a whole is refused.
    pub fn whole(path: &Path, what: impl Into<String>) -> Self {
        let what = printable(&what.into());
        Self { path: path.to_owned(), position: None, what, hint: None, excerpt: None }
    }

    /// What is wrong stands at `span` of the text.
    pub fn at(
        path: &Path,
        lines: &Lines<'_>,
        span: &Range<usize>,
        what: impl Into<String>,
    ) -> Self {
        let position = lines.position(span.start);
        let excerpt = Some(excerpt(lines, span, position));
        Self { position: Some(position), excerpt, ..Self::whole(path, what) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(printable(&hint.into()));
        self
    }

    /// Without the line, which may hold a secret.
    #[must_use]
    pub fn without_excerpt(self) -> Self {
        Self { excerpt: None, ..self }
    }

    /// All of it on one line, for a log or an envelope.
    #[must_use]
    pub fn line(&self) -> String {
        let path = printable(&self.path.display().to_string());
        let mut line = match self.position {
            Some(Position { line, column }) => format!("{path}:{line}:{column}: {}", self.what),
            None => format!("{path}: {}", self.what),
        };
        if let Some(hint) = &self.hint {
            line.push_str("; ");
            line.push_str(hint);
        }
        line
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = Self { hint: None, ..self.clone() };
        f.write_str(&bare.line())?;
        self.excerpt.as_ref().map_or(Ok(()), |excerpt| write!(f, "\n{excerpt}"))
    }
}

/// The line at `position` and a mark under what is meant of it.
fn excerpt(lines: &Lines<'_>, span: &Range<usize>, position: Position) -> String {
    /// What fits a terminal beside the line number.
    const WIDEST: usize = 120;
    let line = String::from_utf8_lossy(lines.line(position.line)).replace('\t', " ");
    let line = line.trim_end_matches('\r');
    let skipped = position.column.saturating_sub(WIDEST / 2);
    let shown: String = line.chars().skip(skipped).take(WIDEST).collect();
    let length = lines.text.len();
    let marked =
        &lines.text[span.start.min(length)..span.end.min(length).max(span.start.min(length))];
    let marked = marked.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let room = shown.chars().count().saturating_sub(position.column - 1 - skipped).max(1);
    let width = characters(marked).clamp(1, room);
    let number = position.line.to_string();
    let gutter = " ".repeat(number.len());
    let before = " ".repeat(position.column - 1 - skipped);
    format!("{number} | {}\n{gutter} | {before}{}", printable(&shown), "^".repeat(width))
}

/// Without what would move the cursor of a terminal, or show a line otherwise than it is.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
