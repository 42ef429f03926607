//! The two closed sets of error codes: the codes of the envelope, which the host writes, and the
//! codes inside a tool's own JSON, which the built-in tools write.

use serde::{Deserialize, Serialize};

/// The code of a call that the tool did not answer: `error_code` next to `"tool_success":
/// false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EnvelopeCode {
    /// The registry has no tool of that name.
    ToolNotFound,
    /// The wall clock or the fuel ran out.
    ToolTimeout,
    /// The tool exited non-zero, died of a signal, trapped, or exceeded its memory limit.
    ToolCrashed,
    /// The tool exited 0 but its stdout is not one JSON value within the output limit.
    InvalidOutput,
    /// The arguments are not one JSON object; nothing ran.
    InvalidParams,
    /// Policy forbids the call itself; nothing ran.
    PermissionDenied,
}

impl EnvelopeCode {
    /// Returns the code as the envelope contains it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolNotFound => "TOOL_NOT_FOUND",
            Self::ToolTimeout => "TOOL_TIMEOUT",
            Self::ToolCrashed => "TOOL_CRASHED",
            Self::InvalidOutput => "INVALID_OUTPUT",
            Self::InvalidParams => "INVALID_PARAMS",
            Self::PermissionDenied => "PERMISSION_DENIED",
        }
    }
}

/// The code of a failed operation of a built-in tool: `error_code` in the tool's own JSON, which
/// the host passes on as a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolCode {
    /// The file or asset does not exist.
    FileNotFound,
    /// The operating system or the grant refuses access.
    PermissionDenied,
    /// The file cannot be opened for another reason.
    OpenFailed,
    /// Reading failed after the file was opened.
    ReadFailed,
    /// Writing failed, wholly or in part.
    WriteFailed,
    /// The file cannot be positioned (a terminal, a pipe).
    SeekFailed,
    /// The file has no size (an endless device).
    SizeFailed,
    /// The device or the quota is full.
    NoSpace,
    /// The regular expression or the glob does not parse.
    InvalidPattern,
    /// There was not enough memory.
    OutOfMemory,
    /// A directory could not be read.
    ReadError,
    /// `old_string` does not occur.
    NotFound,
    /// `old_string` occurs more than once and `replace_all` is not set.
    NotUnique,
    /// An argument has the right type, but a value that makes no sense.
    InvalidArg,
    /// The asset would need more of an agent's token budget than is left.
    BudgetExceeded,
    /// The asset, or the store that contains it, is read-only.
    ReadOnly,
    /// The arguments are not a JSON object, or one is missing or of the wrong type.
    InvalidParams,
}
