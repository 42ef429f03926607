//! A tool's answer: the JSON object it prints, success or error, in the key
//! order of the specification.
//!
//! Which code belongs to which failure of a file is decided here, once. Which
//! failure happened is the tools' and the ports' to say.

use std::fmt::Write as _;

use ikigai_protocol::ToolCode;

use crate::json;
use crate::ports::{AssetError, FsError};

/// The most a tool prints, in bytes: the host's default limit on standard output
/// (16 MiB), less room for what stands around the text.
pub(crate) const OUTPUT_CAP: usize = (16 << 20) - 4096;

/// A successful answer, already JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    json: Vec<u8>,
}

impl Answer {
    /// Begins `{"output":"`; the caller appends escaped text to [`Self::text`].
    pub(crate) fn begin() -> Self {
        Self { json: b"{\"output\":\"".to_vec() }
    }

    /// One line of text and one number after it.
    pub(crate) fn counted(text: &[u8], name: &str, number: u64) -> Self {
        let mut answer = Self::begin();
        json::escape(text, answer.text());
        answer.end_with(name, number)
    }

    /// The inside of the string `output`.
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

    /// The JSON text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.json
    }
}

/// An operation that failed; exit code 0 all the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: ToolCode,
    message: Vec<u8>,
}

impl Failure {
    /// A failure with the text `message`.
    pub(crate) fn new(code: ToolCode, message: impl Into<Vec<u8>>) -> Self {
        Self { code, message: message.into() }
    }

    /// `WHAT: PATH`, as the specification's messages are.
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

    /// A file that could not be opened for reading.
    pub(crate) fn open(error: FsError, path: &[u8]) -> Self {
        Self::access(error, path).unwrap_or_else(|| match error {
            FsError::NotFound => Self::about(ToolCode::FileNotFound, "File not found", path),
            _ => Self::about(ToolCode::OpenFailed, "Cannot open file", path),
        })
    }

    /// A file that could not be created or truncated: a missing directory is no
    /// missing file.
    pub(crate) fn create(error: FsError, path: &[u8]) -> Self {
        Self::access(error, path)
            .unwrap_or_else(|| Self::about(ToolCode::OpenFailed, "Cannot open file", path))
    }

    /// A file that was open and could not be written.
    pub(crate) fn write(error: FsError, path: &[u8]) -> Self {
        Self::access(error, path)
            .unwrap_or_else(|| Self::about(ToolCode::WriteFailed, "Failed to write file", path))
    }

    /// A file that was open and could not be read.
    pub(crate) fn read(path: &[u8]) -> Self {
        Self::about(ToolCode::ReadFailed, "Failed to read file", path)
    }

    /// A document, in the host's own words.
    pub(crate) fn document(error: AssetError) -> Self {
        Self::new(error.code, error.message)
    }

    /// Memory that could not be had.
    pub(crate) fn no_memory() -> Self {
        Self::new(ToolCode::OutOfMemory, "Out of memory")
    }

    /// The failures that read the same for every operation.
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

    /// The JSON text.
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

/// What a tool comes to.
pub(crate) type Outcome = Result<Answer, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_the_order_of_the_specification() {
        let answer = Answer::counted(b"Wrote 1 bytes to \"x\"", "bytes", 1);
        assert_eq!(answer.as_bytes(), br#"{"output":"Wrote 1 bytes to \"x\"","bytes":1}"#);
        let failure = Failure::open(FsError::NotFound, b"a\xff");
        assert_eq!(
            String::from_utf8(failure.to_json()).expect("UTF-8"),
            "{\"error\":\"File not found: a\u{FFFD}\",\"error_code\":\"FILE_NOT_FOUND\"}"
        );
    }

    #[test]
    fn outside_is_told_apart_from_denied() {
        let text = |failure: Failure| String::from_utf8(failure.message).expect("UTF-8");
        assert_eq!(text(Failure::open(FsError::Denied, b"/x")), "Permission denied: /x");
        let outside = text(Failure::create(FsError::Outside, b"/x"));
        assert_eq!(outside, "Permission denied: /x is outside the granted directories");
    }
}
