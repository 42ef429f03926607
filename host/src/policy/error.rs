//! What is wrong with a policy file, and where.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A place in a text, both counted from 1; columns in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Spot {
    /// Where the byte `offset` of `text` is; the end of the text if it is beyond.
    pub(super) fn of(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Self { line, column: 1 + String::from_utf8_lossy(&before[start..]).chars().count() }
    }
}

/// A policy file that cannot be used. Shown with the line that is wrong, a mark
/// under it, and never with a control character of the file, which may be
/// anybody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The file.
    pub path: PathBuf,
    /// Where in it; nothing where the file as a whole is refused.
    pub spot: Option<Spot>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    excerpt: Option<String>,
}

impl PolicyError {
    /// The file as a whole is refused.
    pub(super) fn whole(path: &Path, what: impl Into<String>) -> Self {
        let what = printable(&what.into());
        Self { path: path.to_owned(), spot: None, what, hint: None, excerpt: None }
    }

    /// What is wrong stands at `span` of `text`.
    pub(super) fn at(
        path: &Path,
        text: &[u8],
        span: &Range<usize>,
        what: impl Into<String>,
    ) -> Self {
        let spot = Spot::of(text, span.start);
        let excerpt = Some(excerpt(text, span, spot));
        Self { spot: Some(spot), excerpt, ..Self::whole(path, what) }
    }

    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(printable(&hint.into()));
        self
    }

    /// All of it on one line, for a log or an envelope.
    #[must_use]
    pub fn line(&self) -> String {
        let path = printable(&self.path.display().to_string());
        let mut line = match self.spot {
            Some(Spot { line, column }) => format!("{path}:{line}:{column}: {}", self.what),
            None => format!("{path}: {}", self.what),
        };
        if let Some(hint) = &self.hint {
            line.push_str("; ");
            line.push_str(hint);
        }
        line
    }
}

impl std::error::Error for PolicyError {}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = Self { hint: None, ..self.clone() };
        f.write_str(&bare.line())?;
        self.excerpt.as_ref().map_or(Ok(()), |excerpt| write!(f, "\n{excerpt}"))
    }
}

/// The line at `spot` and a mark under what is meant of it.
fn excerpt(text: &[u8], span: &Range<usize>, spot: Spot) -> String {
    /// What fits a terminal beside the line number.
    const WIDEST: usize = 120;
    let line = text.split(|byte| *byte == b'\n').nth(spot.line - 1).unwrap_or_default();
    let line = String::from_utf8_lossy(line).replace('\t', " ");
    let line = line.trim_end_matches('\r');
    let skipped = spot.column.saturating_sub(WIDEST / 2);
    let shown: String = line.chars().skip(skipped).take(WIDEST).collect();
    let end = span.end.min(text.len()).max(span.start.min(text.len()));
    let marked = &text[span.start.min(text.len())..end];
    let marked = marked.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let room = shown.chars().count().saturating_sub(spot.column - 1 - skipped).max(1);
    let width = String::from_utf8_lossy(marked).chars().count().clamp(1, room);
    let number = spot.line.to_string();
    let gutter = " ".repeat(number.len());
    let before = " ".repeat(spot.column - 1 - skipped);
    format!("{number} | {}\n{gutter} | {before}{}", printable(&shown), "^".repeat(width))
}

/// Without what would move the cursor of a terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
