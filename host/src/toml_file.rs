//! Settings files in TOML. They are parsed strictly, and every mistake is reported with its
//! position.
//!
//! Owns the opening of a file, the reports of mistakes, and the kinds of values. Each reader owns
//! the meaning of its keys.

mod error;
mod read;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use error::{LineStarts, printable};
pub use error::{TextPosition, TomlError};
pub use read::{ClosedDir, ReadError, ReadRules, read};

use crate::nearest::nearest;

/// A value and its span.
pub type TomlItem<'t> = Spanned<DeValue<'t>>;

/// A key with its span, and its value.
pub struct TomlPair<'a, 't> {
    pub key: &'a str,
    pub span: Range<usize>,
    pub item: &'a TomlItem<'t>,
}

/// Returns the pairs of a table in the order of the file, so that the first mistake is reported
/// first.
pub fn pairs<'a, 't>(table: &'a DeTable<'t>) -> Vec<TomlPair<'a, 't>> {
    let pair = |(key, item): (&'a Spanned<_>, &'a TomlItem<'t>)| {
        let text: &'a Cow<'t, str> = key.get_ref();
        TomlPair { key: text, span: key.span(), item }
    };
    let mut pairs: Vec<TomlPair<'a, 't>> = table.iter().map(pair).collect();
    pairs.sort_by_key(|pair| pair.span.start);
    pairs
}

/// A file that is being parsed. It reports mistakes with their position.
pub struct TomlFile<'a> {
    path: &'a Path,
    lines: LineStarts<'a>,
}

impl<'a> TomlFile<'a> {
    /// Parses the text of a file into its root table.
    pub fn parse(
        path: &'a Path,
        text: &'a [u8],
    ) -> Result<(Self, Spanned<DeTable<'a>>), TomlError> {
        let lines = LineStarts::new(text);
        let text = std::str::from_utf8(text).map_err(|error| {
            let at = error.valid_up_to();
            TomlError::at(path, &lines, &(at..at + 1), "is not UTF-8")
        })?;
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(text.len()..text.len());
            TomlError::at(path, &lines, &span, error.message())
        })?;
        Ok((Self { path, lines }, table))
    }

    pub fn path(&self) -> &'a Path {
        self.path
    }

    pub fn table<'b, 't>(
        &self,
        key: &str,
        item: &'b TomlItem<'t>,
    ) -> Result<&'b DeTable<'t>, TomlError> {
        item.get_ref().as_table().ok_or_else(|| {
            let what = format!("`{key}`: expected a table, found {}", kind_of(item));
            self.fail(&item.span(), what)
        })
    }

    /// Reads a list of strings, and parses each with `one`.
    pub fn list<T>(
        &self,
        key: &str,
        item: &TomlItem<'_>,
        one: impl Fn(&str, &Range<usize>) -> Result<T, TomlError>,
    ) -> Result<Vec<T>, TomlError> {
        let list = item.get_ref().as_array().ok_or_else(|| {
            let what = format!("`{key}`: expected a list of strings, found {}", kind_of(item));
            let error = self.fail(&item.span(), what);
            match item.get_ref().as_str() {
                Some(text) => error.hint(format!("write [{text:?}]")),
                None => error,
            }
        })?;
        let mut values = Vec::with_capacity(list.len());
        for value in list.iter() {
            let span = value.span();
            let text = value.get_ref().as_str().ok_or_else(|| {
                let kind = article(value.get_ref().type_str());
                self.fail(&span, format!("an item of `{key}`: expected a string, found {kind}"))
            })?;
            values.push(one(text, &span)?);
        }
        Ok(values)
    }

    pub fn unknown(&self, span: &Range<usize>, key: &str, known: &[&str]) -> TomlError {
        let error = self.fail(span, format!("unknown key `{key}`"));
        match nearest(key, known.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint(format!("known here are {}", known.join(", "))),
        }
    }

    pub fn fail(&self, span: &Range<usize>, what: impl Into<String>) -> TomlError {
        TomlError::at(self.path, &self.lines, span, what)
    }

    pub fn position(&self, span: &Range<usize>) -> TextPosition {
        self.lines.position(span.start)
    }
}

/// Adds the most similar word of `words` as a hint, if one is similar enough.
pub fn did_you_mean<'a>(
    error: TomlError,
    text: &str,
    words: impl Iterator<Item = &'a str>,
) -> TomlError {
    match nearest(text, words) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// Returns the kind of a value, with its article.
pub fn kind_of(item: &TomlItem<'_>) -> String {
    article(item.get_ref().type_str())
}

pub fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
