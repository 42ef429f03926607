//! The error of an operation on an asset, in the form that both sides of every boundary use, what
//! tells an asset's URI from a path, and the variable with the address of the asset store.
//!
//! The codes are the same as in the tools' own JSON, and the message is a sentence for the
//! reader of that JSON. `wit/tool.wit` lists the operations for components, and
//! [`crate::host_socket`] the operations for native tools.

use thiserror::Error;

use crate::ToolCode;

/// The name of the variable with the address of the asset store. It may contain a password, and
/// no tool gets it.
pub const STORE_VARIABLE: &str = "IKIGAI_STORE";

/// Returns whether a text is the URI of an asset, and not a path.
#[must_use]
pub fn is_asset(text: &str) -> bool {
    const SCHEME: &str = "ikigai:";
    text.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// The error of a failed operation on an asset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct AssetError {
    /// The value of `error_code` in the tool's JSON.
    pub code: ToolCode,
    /// The value of `error` in the tool's JSON.
    pub message: String,
}

impl AssetError {
    /// Creates an error with the text `message`.
    #[must_use]
    pub fn new(code: ToolCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates the error for a request for `uri` by a tool without a grant of assets.
    #[must_use]
    pub fn not_granted(uri: &str) -> Self {
        let message = format!("Permission denied: {uri} (no assets are granted to this tool)");
        Self::new(ToolCode::PermissionDenied, message)
    }
}
