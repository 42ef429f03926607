//! The errors of commands: a message, hints, and the exit code. No other module chooses exit
//! codes of failures.

use std::fmt::Write as _;

use ikigai_host::BuildError;
use ikigai_host::paths::WorkspaceError;
use ikigai_host::policy::Denial;
use ikigai_host::toml_file::FileError;

/// The exit code if the tool or the operation failed.
pub(crate) const FAILED: u8 = 1;

/// The exit code if the command line or the configuration is wrong.
pub(crate) const USAGE: u8 = 2;

/// The exit code if a person interrupted the command: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error on its way to stderr.
#[derive(Debug)]
pub(crate) struct CliError {
    error: anyhow::Error,
    hints: Vec<String>,
    pub(crate) exit: u8,
}

impl CliError {
    /// Makes an error of an operation that failed.
    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), hints: Vec::new(), exit: FAILED }
    }

    /// Makes an error of a wrong command line or configuration.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: USAGE, ..Self::failed(error) }
    }

    /// Returns the same error as one of usage, for a command whose answer may be exit code 1.
    pub(crate) fn into_usage(self) -> Self {
        self.exiting(USAGE)
    }

    /// Returns the same error with another exit code.
    pub(crate) fn exiting(self, exit: u8) -> Self {
        Self { exit, ..self }
    }

    /// Adds a hint: a line that says what to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds several hints.
    #[must_use]
    pub(crate) fn hints(mut self, hints: Vec<String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// Returns true if nobody reads stdout any more, which is not an error of the command.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }

    /// Returns the text for stderr: the error, and a line for each hint.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {:#}\n", self.error);
        for hint in &self.hints {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }
}

impl From<FileError> for CliError {
    fn from(error: FileError) -> Self {
        let hint = error.hint.clone();
        let error = Self::usage(error);
        hint.into_iter().fold(error, Self::hint)
    }
}

impl From<BuildError> for CliError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Policy(error) => error.into(),
            error => Self::usage(error),
        }
    }
}

impl From<WorkspaceError> for CliError {
    fn from(error: WorkspaceError) -> Self {
        Self::usage(error)
    }
}

impl From<Denial> for CliError {
    fn from(denial: Denial) -> Self {
        let error = Self::failed(anyhow::Error::msg(denial.reason));
        denial.hint.into_iter().fold(error, Self::hint)
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error)
    }
}
