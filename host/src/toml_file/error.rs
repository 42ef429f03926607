//! The error of a settings file, with its position.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ikigai_protocol::is_deceptive;

/// A position in a text, with line and column counted from 1, and columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The offsets at which the lines of a text begin. With them a position is found without reading
/// everything before it.
#[derive(Clone, Debug)]
pub struct LineStarts<'t> {
    text: &'t [u8],
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    pub fn new(text: &'t [u8]) -> Self {
        let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let after = newlines.map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Returns the position of the byte `offset`, or the end of the text if `offset` lies beyond
    /// it.
    pub fn position(&self, offset: usize) -> TextPosition {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = &self.text[self.starts[line - 1]..offset];
        TextPosition { line, column: 1 + characters(before) }
    }

    /// Returns the line with this number, counted from 1, without its line break.
    fn line(&self, line: usize) -> &'t [u8] {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).map_or(self.text.len(), |next| next - 1);
        &self.text[start..end]
    }
}

/// Returns the number of characters. In each character, exactly one byte is not a continuation
/// byte.
fn characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count()
}

/// The reason why a TOML file, such as a policy, cannot be used.
///
/// Its text shows the wrong line with a mark under it. It never contains a control character of the
/// file, because the file may come from an untrusted author. [`line`](Self::line) has the error and
/// its hint on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlError {
    /// The file.
    pub path: PathBuf,
    /// The position of the mistake; `None` if the whole file is refused.
    pub position: Option<TextPosition>,
    /// The mistake.
    pub what: String,
    /// A hint on how to fix it.
    pub hint: Option<String>,
    excerpt: Option<String>,
}

impl TomlError {
    /// Returns the error for a file that is refused as a whole.
    #[doc(hidden)]
    pub fn whole(path: &Path, what: impl Into<String>) -> Self {
        let what = printable(&what.into());
        Self { path: path.to_owned(), position: None, what, hint: None, excerpt: None }
    }

    /// Returns the error for a mistake at `span` of the text.
    #[doc(hidden)]
    pub fn at(
        path: &Path,
        lines: &LineStarts<'_>,
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

    /// Omits the excerpt of the file, which may contain a secret.
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
            Some(TextPosition { line, column }) => format!("{path}:{line}:{column}: {}", self.what),
            None => format!("{path}: {}", self.what),
        };
        if let Some(hint) = &self.hint {
            line.push_str("; ");
            line.push_str(hint);
        }
        line
    }
}

impl std::error::Error for TomlError {}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = Self { hint: None, ..self.clone() };
        f.write_str(&bare.line())?;
        self.excerpt.as_ref().map_or(Ok(()), |excerpt| write!(f, "\n{excerpt}"))
    }
}

/// Returns the line at `position`, with a mark below the span.
fn excerpt(lines: &LineStarts<'_>, span: &Range<usize>, position: TextPosition) -> String {
    /// The number of characters that fit next to the line number in a terminal.
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

/// Replaces characters that move a terminal's cursor or make a line look different.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
