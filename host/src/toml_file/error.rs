//! The error of a settings file, with its position.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ikigai_protocol::is_deceptive;

/// A position in a text, with line and column counted from 1, and columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The offsets at which the lines of a text begin, by which a position is found without reading
/// everything before it.
#[derive(Clone, Debug)]
pub struct Lines<'t> {
    text: &'t [u8],
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let after = newlines.map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Returns the position of the byte `offset`, or of the end of the text for one beyond it.
    pub fn position(&self, offset: usize) -> Position {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = &self.text[self.starts[line - 1]..offset];
        Position { line, column: 1 + characters(before) }
    }

    /// Returns the line of this number, counted from 1, without its line break.
    fn line(&self, line: usize) -> &'t [u8] {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
        &self.text[start..end]
    }
}

/// Returns the number of characters, each of which has one byte that is no continuation byte.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count()
}

/// The reason why a file in TOML, such as a policy, cannot be used.
///
/// Its text has the wrong line with a mark under it, and never a control character of the file,
/// which anybody may have written. [`line`](Self::line) has the same on one line, with the hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// The position of the mistake; nothing if the whole file is refused.
    pub position: Option<Position>,
    /// The mistake.
    pub what: String,
    /// The hint how to mend it.
    pub hint: Option<String>,
    excerpt: Option<String>,
}

impl FileError {
    /// Returns the error of a file that is refused as a whole.
    #[doc(hidden)]
    pub fn whole(path: &Path, what: impl Into<String>) -> Self {
        let what = printable(&what.into());
        Self { path: path.to_owned(), position: None, what, hint: None, excerpt: None }
    }

    /// Returns the error of a mistake at `span` of the text.
    #[doc(hidden)]
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

    #[doc(hidden)]
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(printable(&hint.into()));
        self
    }

    /// Leaves out the line of the file, which may hold a secret.
    #[doc(hidden)]
    #[must_use]
    pub fn without_excerpt(self) -> Self {
        Self { excerpt: None, ..self }
    }

    /// Returns the error with its hint on one line, for a log or an envelope.
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

/// Returns the line at `position`, and below it a mark under the span.
fn excerpt(lines: &Lines<'_>, span: &Range<usize>, position: Position) -> String {
    /// The characters that fit a terminal beside the line number.
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

/// Replaces the characters that move the cursor of a terminal, or show a line otherwise than it is.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
