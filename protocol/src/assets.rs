//! Why an operation on a document failed, as both sides of every boundary say it.
//!
//! The codes are those of the tools' own JSON; the message is a sentence for whoever
//! reads that JSON. Which operations there are is said where they cross: in
//! `wit/tool.wit` for components, in [`crate::host_socket`] for native tools.

use thiserror::Error;

use crate::ToolCode;

/// What an operation on a document came to, where it failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct AssetError {
    /// `error_code` in the tool's JSON.
    pub code: ToolCode,
    /// `error` in the tool's JSON.
    pub message: String,
}

impl AssetError {
    /// A failure with the text `message`.
    #[must_use]
    pub fn new(code: ToolCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// A document that a tool without any grant asked for: `uri`, as it was named.
    #[must_use]
    pub fn not_granted(uri: &str) -> Self {
        let message = format!("Permission denied: {uri} (no documents are granted to this tool)");
        Self::new(ToolCode::PermissionDenied, message)
    }
}
