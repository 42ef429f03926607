//! The errors of commands: a message, hints, and the exit code. No other module chooses the exit
//! codes of failures.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use ikigai_host::BuildError;
use ikigai_host::paths::{WorkspaceError, lock_holder};
use ikigai_host::policy::{Denial, InEarlierReach};
use ikigai_host::toml_file::TomlError;
use ikigai_packages::download::DownloadError;
use ikigai_packages::layout::LayoutError;
use ikigai_packages::oci::OciError;
use ikigai_packages::reference::ReferenceError;
use ikigai_packages::transport::TransportError;

/// The exit code if the tool or the operation failed.
pub(crate) const FAILED: u8 = 1;

/// The exit code if the command line or the configuration is wrong.
pub(crate) const USAGE: u8 = 2;

/// The exit code if a model answered, and one of its calls was refused some access.
pub(crate) const REFUSED: u8 = 3;

/// The exit code if the user interrupted the command: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error that will be printed on stderr.
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

    /// Returns the same error as a usage error, for a command whose answer may be exit code 1.
    pub(crate) fn into_usage(self) -> Self {
        self.exiting(USAGE)
    }

    /// Returns the same error with another exit code.
    pub(crate) fn exiting(self, exit: u8) -> Self {
        Self { exit, ..self }
    }

    /// Adds a hint: a line that tells what to do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds several hints.
    #[must_use]
    pub(crate) fn hints(mut self, hints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.hints.extend(hints.into_iter().map(Into::into));
        self
    }

    /// Returns true if stdout has lost its reader, which is not an error of the command.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.error.chain().any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        })
    }

    /// Returns the error as part of a sentence, without the hints.
    pub(crate) fn reason(&self) -> String {
        format!("{:#}", self.error)
    }

    /// Returns the hints.
    pub(crate) fn given_hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the text for stderr: the error, and a line for each hint.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.reason());
        for hint in &self.hints {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "hint: {hint}");
        }
        text
    }
}

/// Adds the action and the path to a system error.
pub(crate) fn with_path<T>(result: io::Result<T>, what: &str, path: &Path) -> Result<T, CliError> {
    result.with_context(|| format!("cannot {what} `{}`", path.display())).map_err(CliError::failed)
}

impl From<TomlError> for CliError {
    fn from(error: TomlError) -> Self {
        let hint = error.hint.clone();
        Self::usage(error).hints(hint)
    }
}

impl From<BuildError> for CliError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Policy(error) => error.into(),
            BuildError::InEarlierReach(found) => found.into(),
            error => Self::usage(error),
        }
    }
}

impl From<InEarlierReach> for CliError {
    fn from(found: InEarlierReach) -> Self {
        Self::usage(found).hint(InEarlierReach::HINT)
    }
}

impl From<WorkspaceError> for CliError {
    fn from(error: WorkspaceError) -> Self {
        Self::usage(error)
    }
}

impl From<Denial> for CliError {
    fn from(denial: Denial) -> Self {
        Self::failed(anyhow::Error::msg(denial.reason)).hints(denial.hint)
    }
}

impl From<ReferenceError> for CliError {
    fn from(error: ReferenceError) -> Self {
        let hint = error.hint();
        Self::failed(error).hint(hint)
    }
}

impl From<TransportError> for CliError {
    fn from(error: TransportError) -> Self {
        let hint = error.hint();
        Self::failed(error).hints(hint)
    }
}

impl From<OciError> for CliError {
    fn from(error: OciError) -> Self {
        let hint = error.hint();
        Self::failed(error).hints(hint)
    }
}

/// Returns a hint about the process that has locked a file.
fn end_holder(path: &Path) -> String {
    format!("end {}, then try again", lock_holder(path))
}

impl From<LayoutError> for CliError {
    fn from(error: LayoutError) -> Self {
        let hint = match &error {
            LayoutError::Held { directory, .. } => Some(end_holder(directory)),
            error => error.hint(),
        };
        Self::failed(error).hints(hint)
    }
}

impl From<DownloadError> for CliError {
    fn from(error: DownloadError) -> Self {
        let hint = match &error {
            DownloadError::Held { path } => Some(end_holder(path)),
            error => error.hint(),
        };
        Self::failed(error).hints(hint)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error)
    }
}
