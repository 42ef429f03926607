//! The error of a document, with the place of the mistake.

use std::fmt;
use std::sync::Arc;

use crate::harmless;

/// A position in a text. Line and column are counted from 1, and columns are counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The place of a value in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePlace {
    /// A position in hand-written text.
    Position(Position),
    /// A member of JSON. JSON is part of a tool's file, so a line number would not help.
    Member(MemberPath),
}

/// The path to a member of JSON from the outermost value, such as `needs.net[0].peer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberPath(Option<Arc<PathStep>>);

#[derive(Debug, PartialEq, Eq)]
struct PathStep {
    parent: MemberPath,
    name: StepName,
}

#[derive(Debug, PartialEq, Eq)]
enum StepName {
    Key(String),
    Index(usize),
}

impl MemberPath {
    pub(super) fn key(&self, key: &str) -> Self {
        Self(Some(Arc::new(PathStep { parent: self.clone(), name: StepName::Key(key.to_owned()) })))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        Self(Some(Arc::new(PathStep { parent: self.clone(), name: StepName::Index(index) })))
    }

    /// Returns the number of steps.
    pub(super) fn depth(&self) -> usize {
        std::iter::successors(self.0.as_deref(), |step| step.parent.0.as_deref()).count()
    }
}

impl fmt::Display for MemberPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(step) = &self.0 else { return Ok(()) };
        step.parent.fmt(f)?;
        match &step.name {
            StepName::Key(key) if step.parent.0.is_none() => f.write_str(&harmless::line(key)),
            StepName::Key(key) => write!(f, ".{}", harmless::line(key)),
            StepName::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// The reason why a document cannot be used.
///
/// Its text is one line. It begins with the position in TOML (`LINE:COLUMN: `) or with the member
/// of JSON. Characters of the document that control a terminal are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// The place of the mistake. `None` if the whole document is refused.
    pub place: Option<ValuePlace>,
    /// The mistake.
    pub what: String,
    /// The advice how to fix it.
    pub hint: Option<String>,
}

impl DocumentError {
    pub(crate) fn whole(what: impl Into<String>) -> Self {
        Self { place: None, what: harmless::whole(&what.into()), hint: None }
    }

    pub(crate) fn at(place: ValuePlace, what: impl Into<String>) -> Self {
        Self { place: Some(place), ..Self::whole(what) }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(harmless::whole(&hint.into())), ..self }
    }

    /// Returns the position of the mistake in a text.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        match self.place {
            Some(ValuePlace::Position(position)) => Some(position),
            Some(ValuePlace::Member(_)) | None => None,
        }
    }
}

impl std::error::Error for DocumentError {}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(ValuePlace::Position(Position { line, column })) => {
                write!(f, "{line}:{column}: ")?
            }
            Some(ValuePlace::Member(path)) if path.depth() > 0 => write!(f, "in `{path}`: ")?,
            Some(ValuePlace::Member(_)) | None => {}
        }
        f.write_str(&self.what)
    }
}

/// Returns the kind of a value with its article.
pub(super) fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
