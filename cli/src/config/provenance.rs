//! The places that a value can be set in.

use std::fmt;
use std::path::PathBuf;

/// The place that set a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// A flag or a slash command, as it is typed.
    Flag(String),
    /// An environment variable, by its name.
    Variable(String),
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// No place set it, so the default applies.
    Default,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}
