//! Patterns for tool names and for certificate subjects.

use std::fmt;
use std::str::FromStr;

/// An exact text, or a prefix that ends in `*`: `weather`, `acme_*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    is_prefix: bool,
}

impl NamePattern {
    /// Returns whether the pattern matches the whole text. Case matters.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        if self.is_prefix { text.starts_with(&self.text) } else { text == self.text }
    }
}

/// The error for a text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pattern; expected an exact text, or the beginning of a text and one `*`")]
pub struct PatternError(String);

impl FromStr for NamePattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (begin, is_prefix) = match text.strip_suffix('*') {
            Some(begin) => (begin, true),
            None => (text, false),
        };
        // A lone `*` would make every account at an issuer a trusted signer.
        if begin.is_empty() || begin.contains('*') {
            return Err(PatternError(text.to_owned()));
        }
        Ok(Self { text: begin.to_owned(), is_prefix })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        f.write_str(if self.is_prefix { "*" } else { "" })
    }
}
