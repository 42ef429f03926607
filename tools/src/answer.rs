//! The answer of a tool: the JSON object it prints, success or error, in the key order of the
//! specification.
//!
//! This module maps each failure of a file to its code, once. The tools and the ports report the
//! failures.

use std::fmt::Write as _;

use ikigai_protocol::ToolCode;

use crate::json;
use crate::ports::{AssetError, FsError};

/// The largest output of a tool, in bytes: the host's default limit on standard output (16 MiB),
/// less room for the JSON around the text.
pub(crate) const OUTPUT_CAP: usize = (16 << 20) - 4096;

/// A successful answer, already JSON.
#[derive(Debug)]
pub(crate) struct JsonAnswer {
    json: Vec<u8>,
}

impl JsonAnswer {
    /// Begins `{"output":"`; the caller appends escaped text to [`Self::text`].
    pub(crate) fn begin() -> Self {
        Self { json: b"{\"output\":\"".to_vec() }
    }

    /// Creates an answer of one line of text and one number.
    pub(crate) fn counted(text: &[u8], name: &str, number: u64) -> Self {
        let mut answer = Self::begin();
        json::escape(text, answer.text());
        answer.end_with(name, number)
    }

    /// Returns the inside of the string `output`.
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.json
    }

    /// Ends the answer.
    pub(crate) fn end(mut self) -> Self {
        self.json.extend_from_slice(b"\"}");
        self
    }

    /// Ends the answer with a number after the text.
    pub(crate) fn end_with(mut self, name: &str, number: impl std::fmt::Display) -> Self {
        self.json.extend_from_slice(format!("\",\"{name}\":{number}}}").as_bytes());
        self
    }

    /// Returns the JSON text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.json
    }
}

/// The error of an operation. The tool exits with 0 nevertheless.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ToolFailure {
    code: ToolCode,
    message: Vec<u8>,
}

impl ToolFailure {
    /// Creates a failure with the text `message`.
    pub(crate) fn new(code: ToolCode, message: impl Into<Vec<u8>>) -> Self {
        Self { code, message: message.into() }
    }

    /// Creates a failure with the message `WHAT: PATH`, the form of the specification.
    pub(crate) fn about(code: ToolCode, what: &str, path: &[u8]) -> Self {
        let mut message = Vec::with_capacity(what.len() + 2 + path.len());
        message.extend_from_slice(what.as_bytes());
        message.extend_from_slice(b": ");
        message.extend_from_slice(path);
        Self { code, message }
    }

    /// Adds an explanation after the message.
    pub(crate) fn because(mut self, reason: &str) -> Self {
        self.message.extend_from_slice(reason.as_bytes());
        self
    }

    /// Creates the failure for a file that cannot be opened for reading.
    pub(crate) fn open(error: FsError, path: &[u8]) -> Self {
        Self::access(error, path).unwrap_or_else(|| match error {
            FsError::NotFound => Self::about(ToolCode::FileNotFound, "File not found", path),
            _ => Self::about(ToolCode::OpenFailed, "Cannot open file", path),
        })
    }

    /// Creates the failure for a file that cannot be created or truncated. A missing directory is
    /// not reported as a missing file.
    pub(crate) fn create(error: FsError, path: &[u8]) -> Self {
        Self::access(error, path)
            .unwrap_or_else(|| Self::about(ToolCode::OpenFailed, "Cannot open file", path))
    }

    /// Creates the failure for an open file that cannot be written.
    pub(crate) fn write(error: FsError, path: &[u8]) -> Self {
        Self::access(error, path)
            .unwrap_or_else(|| Self::about(ToolCode::WriteFailed, "Failed to write file", path))
    }

    /// Creates the failure for an open file that cannot be read.
    pub(crate) fn read(path: &[u8]) -> Self {
        Self::about(ToolCode::ReadFailed, "Failed to read file", path)
    }

    /// Creates the failure of an operation on an asset, with the host's code and message.
    pub(crate) fn asset(error: AssetError) -> Self {
        Self::new(error.code, error.message)
    }

    /// Creates the failure for a lack of memory.
    pub(crate) fn no_memory() -> Self {
        Self::new(ToolCode::OutOfMemory, "Out of memory")
    }

    /// Returns the failures that are the same for every operation.
    fn access(error: FsError, path: &[u8]) -> Option<Self> {
        let denied = || Self::about(ToolCode::PermissionDenied, "Permission denied", path);
        match error {
            FsError::Denied => Some(denied()),
            FsError::Outside => Some(denied().because(" is outside the granted directories")),
            FsError::ReadOnlyGrant => {
                Some(denied().because(" is in a directory granted read-only"))
            }
            FsError::NoSpace => {
                Some(Self::about(ToolCode::NoSpace, "No space left on device", path))
            }
            FsError::NoMemory => Some(Self::no_memory()),
            FsError::NotFound | FsError::NotRegular | FsError::Other => None,
        }
    }

    /// Returns the JSON text.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = b"{\"error\":\"".to_vec();
        json::escape(&self.message, &mut out);
        let mut code = String::new();
        // A unit variant always serializes, and writing to a String does not fail.
        if let Ok(name) = serde_json::to_string(&self.code) {
            let _ = write!(code, "\",\"error_code\":{name}}}");
        }
        out.extend_from_slice(code.as_bytes());
        out
    }
}

/// The result of a call.
pub(crate) type CallOutcome = Result<JsonAnswer, ToolFailure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_the_order_of_the_specification() {
        let answer = JsonAnswer::counted(b"Wrote 1 bytes to \"x\"", "bytes", 1);
        assert_eq!(answer.as_bytes(), br#"{"output":"Wrote 1 bytes to \"x\"","bytes":1}"#);
        let failure = ToolFailure::open(FsError::NotFound, b"a\xff");
        assert_eq!(
            String::from_utf8(failure.to_json()).expect("UTF-8"),
            "{\"error\":\"File not found: a\u{FFFD}\",\"error_code\":\"FILE_NOT_FOUND\"}"
        );
    }

    #[test]
    fn outside_is_told_apart_from_denied() {
        let text = |failure: ToolFailure| String::from_utf8(failure.message).expect("UTF-8");
        assert_eq!(text(ToolFailure::open(FsError::Denied, b"/x")), "Permission denied: /x");
        let outside = text(ToolFailure::create(FsError::Outside, b"/x"));
        assert_eq!(outside, "Permission denied: /x is outside the granted directories");
    }
}
