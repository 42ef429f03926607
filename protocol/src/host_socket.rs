//! The host socket: the requests that a native tool with a grant of assets may send, and the
//! host's answers. JSON-RPC 2.0, one message per line.
//!
//! A tool finds the number of the descriptor in [`HOST_FD_VARIABLE`]. Each request has an id and
//! is answered by one line, in the order of the requests. Batches and notifications are not
//! supported: a request without an id is refused and has no effect.
//!
//! This module owns the messages and their rules. The host decides about grants and acts on
//! requests.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AssetError, ToolCode};

/// The name of the variable that holds the descriptor's number.
pub const HOST_FD_VARIABLE: &str = "IKIGAI_HOST_FD";

/// The largest text of an asset that any port transfers, in bytes: ten times the budget of
/// pinned assets.
pub const MAX_CONTENT: usize = 4 << 20;

/// The longest line that the host reads, in bytes, without its newline. A text of
/// [`MAX_CONTENT`] always fits, however it is escaped: JSON needs at most six bytes for one. The
/// two texts of an edit share the limit.
pub const MAX_LINE: usize = 6 * MAX_CONTENT + (64 << 10);

/// The longest string that is accepted as an id, in bytes.
pub const MAX_ID: usize = 128;

/// The longest message of a refusal, in characters.
const MAX_REASON: usize = 500;

/// The JSON-RPC code of a failed operation; `data.error_code` has the [`ToolCode`].
pub const OPERATION_FAILED: i32 = -32000;

/// A requested operation, by its method and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Operation {
    /// Reads lines of an asset.
    Read(ReadParams),
    /// Replaces the whole text of an asset, or creates it.
    Write(WriteParams),
    /// Replaces one text in an asset by another.
    Edit(EditParams),
    /// Lists the assets.
    List(ListParams),
}

/// The parameters of `read`. If `offset` or `limit` is absent, it does not apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadParams {
    /// The URI of the asset.
    pub uri: String,
    /// The first line, counted from 1. 0 means the first line too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The number of lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The parameters of `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteParams {
    /// The URI of the asset, which need not exist.
    pub uri: String,
    /// The new text.
    pub content: String,
}

/// The parameters of `edit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditParams {
    /// The URI of the asset.
    pub uri: String,
    /// The text to replace.
    pub old: String,
    /// The text that replaces it.
    pub new: String,
    /// Replaces every occurrence; otherwise `old` must occur exactly once.
    #[serde(default)]
    pub all: bool,
}

/// The parameters of `list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// The beginning of the paths to list; empty for all.
    #[serde(default)]
    pub prefix: String,
}

/// The result of `read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadOutput {
    /// The requested lines, with their newlines.
    pub content: String,
}

/// The result of `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteOutput {
    /// The size of the new text, in bytes.
    pub bytes: u64,
}

/// The result of `edit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditOutput {
    /// The number of replacements.
    pub replacements: u64,
}

/// The result of `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetListing {
    /// The assets, in the order of their paths.
    pub entries: Vec<AssetEntry>,
    /// `true` if there are more assets than a listing holds.
    pub more: bool,
}

/// One asset of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssetEntry {
    /// The path: the URI without `ikigai:///`.
    pub path: String,
    /// The size in tokens, as the budget counts them.
    pub tokens: u64,
    /// `true` if changes of the asset are refused.
    pub read_only: bool,
}

/// The id of a request, which its answer repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Id {
    /// The id of an answer to a request whose id could not be read.
    Null,
    /// A whole number.
    Number(i64),
    /// A string of at most [`MAX_ID`] bytes.
    String(String),
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawId {
            Number(i64),
            String(String),
        }
        match RawId::deserialize(deserializer) {
            Ok(RawId::Number(number)) => Ok(Self::Number(number)),
            Ok(RawId::String(text)) if text.len() <= MAX_ID => Ok(Self::String(text)),
            _ => Err(D::Error::custom(format_args!(
                "`id` must be a whole number or a string of at most {MAX_ID} bytes"
            ))),
        }
    }
}

/// A request as one line, without its newline.
#[derive(Debug, Serialize)]
pub struct SocketRequest {
    jsonrpc: &'static str,
    /// The id, which the answer repeats.
    pub id: Id,
    /// The requested operation.
    #[serde(flatten)]
    pub operation: Operation,
}

impl SocketRequest {
    /// Creates the request for `operation`.
    #[must_use]
    pub fn new(id: i64, operation: Operation) -> Self {
        Self { jsonrpc: "2.0", id: Id::Number(id), operation }
    }
}

/// The reason why a line was refused before anything was done; one of JSON-RPC's own errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRefusal {
    /// The id of the request, or [`Id::Null`] if it could not be read.
    pub id: Id,
    /// The kind of error.
    pub fault: RequestFault,
    /// The error in words.
    pub message: String,
}

/// The kind of error in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The line is not JSON.
    Parse,
    /// The line is JSON, but not a request.
    Request,
    /// The method does not exist.
    Method,
    /// The parameters do not fit the method.
    Params,
}

impl RequestFault {
    /// Returns the code of JSON-RPC 2.0, section 5.1.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::Request => -32600,
            Self::Method => -32601,
            Self::Params => -32602,
        }
    }
}

/// A request before its members are checked.
#[derive(Deserialize)]
struct RawRequest<'a> {
    jsonrpc: &'a RawValue,
    id: Option<&'a RawValue>,
    method: &'a RawValue,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Decodes one line, without its newline.
///
/// # Errors
///
/// Returns the refusal to answer with if the line is not a valid request.
pub fn decode(line: &[u8]) -> Result<(Id, Operation), RequestRefusal> {
    // The messages quote the line, which may be as long as the limit allows.
    let refuse = |id: &Id, fault, message: String| RequestRefusal {
        id: id.clone(),
        fault,
        message: message.chars().take(MAX_REASON).collect(),
    };
    let text = std::str::from_utf8(line)
        .map_err(|error| refuse(&Id::Null, RequestFault::Parse, format!("not UTF-8: {error}")))?;
    let envelope: RawRequest<'_> = serde_json::from_str(text).map_err(|error| {
        let fault = if error.is_data() { RequestFault::Request } else { RequestFault::Parse };
        refuse(&Id::Null, fault, error.to_string())
    })?;
    let id = match envelope.id {
        None => {
            let message = "`id` is missing; notifications are not served".to_owned();
            return Err(refuse(&Id::Null, RequestFault::Request, message));
        }
        Some(id) => serde_json::from_str::<Id>(id.get())
            .map_err(|error| refuse(&Id::Null, RequestFault::Request, error.to_string()))?,
    };
    if envelope.jsonrpc.get() != "\"2.0\"" {
        let message = "`jsonrpc` must be \"2.0\"".to_owned();
        return Err(refuse(&id, RequestFault::Request, message));
    }
    let method: String = serde_json::from_str(envelope.method.get())
        .map_err(|_| refuse(&id, RequestFault::Request, "`method` must be a string".to_owned()))?;
    let params = envelope.params.map_or("{}", RawValue::get);
    let operation = match method.as_str() {
        "read" => parameters(params).map(Operation::Read),
        "write" => parameters(params).map(Operation::Write),
        "edit" => parameters(params).map(Operation::Edit),
        "list" => parameters(params).map(Operation::List),
        _ => {
            let message = "there are `read`, `write`, `edit` and `list`".to_owned();
            return Err(refuse(&id, RequestFault::Method, message));
        }
    };
    operation
        .map(|operation| (id.clone(), operation))
        .map_err(|message| refuse(&id, RequestFault::Params, message))
}

/// Decodes parameters given by name. JSON-RPC also allows a list of values, which is refused.
fn parameters<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if !text.starts_with('{') {
        return Err("`params` must be an object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Encodes the answer to a successful request as one line with its newline.
///
/// # Errors
///
/// Fails if serializing fails, which does not happen for the results of this module.
pub fn encode_result(id: &Id, result: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct ResultAnswer<'a, R> {
        jsonrpc: &'static str,
        id: &'a Id,
        result: &'a R,
    }
    line(&ResultAnswer { jsonrpc: "2.0", id, result })
}

/// Encodes the answer to a request whose operation failed.
///
/// # Errors
///
/// Fails like [`encode_result`].
pub fn encode_failure(id: &Id, error: &AssetError) -> serde_json::Result<Vec<u8>> {
    let data = Some(FailureData { error_code: error.code });
    encode_error(id, OPERATION_FAILED, &error.message, data)
}

/// Encodes the answer to a refused line.
///
/// # Errors
///
/// Fails like [`encode_result`].
pub fn encode_refusal(refusal: &RequestRefusal) -> serde_json::Result<Vec<u8>> {
    encode_error(&refusal.id, refusal.fault.code(), &refusal.message, None)
}

fn encode_error(
    id: &Id,
    code: i32,
    message: &str,
    data: Option<FailureData>,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct ErrorAnswer<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        error: ErrorObject<'a>,
    }
    #[derive(Serialize)]
    struct ErrorObject<'a> {
        code: i32,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<FailureData>,
    }
    line(&ErrorAnswer { jsonrpc: "2.0", id, error: ErrorObject { code, message, data } })
}

fn line(answer: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Serialize, Deserialize)]
struct FailureData {
    error_code: ToolCode,
}

/// The error of [`decode_answer`] for a line that is not an answer to a valid request.
#[derive(Debug)]
pub struct InvalidAnswer(String);

impl fmt::Display for InvalidAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the host's answer cannot be read: {}", self.0)
    }
}

impl std::error::Error for InvalidAnswer {}

/// Decodes the host's answer to a request: the result, or the error of the operation.
///
/// # Errors
///
/// Returns [`InvalidAnswer`] if the line is not an answer, or reports that the request was
/// refused.
pub fn decode_answer<T: DeserializeOwned>(
    line: &[u8],
) -> Result<Result<T, AssetError>, InvalidAnswer> {
    #[derive(Deserialize)]
    struct HostAnswer<T> {
        result: Option<T>,
        error: Option<ReceivedError>,
    }
    #[derive(Deserialize)]
    struct ReceivedError {
        message: String,
        data: Option<FailureData>,
    }
    let answer: HostAnswer<T> =
        serde_json::from_slice(line).map_err(|error| InvalidAnswer(error.to_string()))?;
    match answer {
        HostAnswer { result: Some(result), error: None } => Ok(Ok(result)),
        HostAnswer { error: Some(ReceivedError { message, data: Some(data) }), .. } => {
            Ok(Err(AssetError::new(data.error_code, message)))
        }
        HostAnswer { error: Some(ReceivedError { message, data: None }), .. } => {
            Err(InvalidAnswer(message))
        }
        HostAnswer { result: None, error: None } => {
            Err(InvalidAnswer("neither a result nor an error".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (i32, Id) {
        let refusal = decode(line.as_bytes()).expect_err(line);
        (refusal.fault.code(), refusal.id)
    }

    #[test]
    fn a_request_is_decoded_as_it_was_encoded() {
        let edit = EditParams {
            uri: "ikigai:///a".into(),
            old: "\0\"".into(),
            new: "é\n".into(),
            all: true,
        };
        let read = ReadParams { uri: "ikigai:///a".into(), offset: None, limit: Some(u64::MAX) };
        let write = WriteParams { uri: String::new(), content: "x\u{2028}".into() };
        let operations = [
            Operation::Read(read),
            Operation::Write(write),
            Operation::Edit(edit),
            Operation::List(ListParams::default()),
        ];
        for operation in operations {
            let line = serde_json::to_vec(&SocketRequest::new(7, operation.clone())).expect("JSON");
            assert!(!line.contains(&b'\n'), "a request is one line");
            assert_eq!(decode(&line), Ok((Id::Number(7), operation)));
        }
    }

    #[test]
    fn a_line_that_is_not_a_request_is_refused_with_its_code_and_id() {
        let seven = Id::Number(7);
        for (line, code, id) in [
            ("", -32700, Id::Null),
            ("{", -32700, Id::Null),
            ("{} {}", -32600, Id::Null),
            ("[]", -32600, Id::Null),
            ("null", -32600, Id::Null),
            (r#"[{"jsonrpc":"2.0","id":7,"method":"list"}]"#, -32600, Id::Null),
            (r#"{"jsonrpc":"2.0","method":"list"}"#, -32600, Id::Null),
            (r#"{"jsonrpc":"2.0","id":null,"method":"list"}"#, -32600, Id::Null),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"list"}"#, -32600, Id::Null),
            (r#"{"jsonrpc":"2.0","id":{},"method":"list"}"#, -32600, Id::Null),
            (r#"{"jsonrpc":"1.0","id":7,"method":"list"}"#, -32600, seven.clone()),
            (r#"{"jsonrpc":"2.0","id":7,"method":1}"#, -32600, seven.clone()),
            (r#"{"jsonrpc":"2.0","id":7,"method":"remove"}"#, -32601, seven.clone()),
            (r#"{"jsonrpc":"2.0","id":7,"method":"read"}"#, -32602, seven.clone()),
            (r#"{"jsonrpc":"2.0","id":7,"method":"list","params":[""]}"#, -32602, seven.clone()),
            (r#"{"jsonrpc":"2.0","id":7,"method":"list","params":{"a":1}}"#, -32602, seven.clone()),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"read","params":{"uri":"a","limit":-1}}"#,
                -32602,
                seven,
            ),
        ] {
            assert_eq!(refused(line), (code, id), "{line}");
        }
        let long =
            format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"list"}}"#, "x".repeat(MAX_ID + 1));
        assert_eq!(refused(&long), (-32600, Id::Null));
        assert_eq!(decode(b"\xff").expect_err("no text").fault, RequestFault::Parse);
    }

    #[test]
    fn answers_are_decoded_as_they_were_encoded() {
        let id = Id::String("a".into());
        let line = encode_result(&id, &EditOutput { replacements: 2 }).expect("JSON");
        assert_eq!(line, b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"replacements\":2}}\n");
        let answer = decode_answer::<EditOutput>(&line).expect("an answer");
        assert_eq!(answer, Ok(EditOutput { replacements: 2 }));

        let error = AssetError::new(ToolCode::FileNotFound, "gone");
        let line = encode_failure(&id, &error).expect("JSON");
        let text = String::from_utf8_lossy(&line);
        assert!(
            text.contains(
                r#""code":-32000,"message":"gone","data":{"error_code":"FILE_NOT_FOUND"}"#
            )
        );
        assert_eq!(decode_answer::<EditOutput>(&line).expect("an answer"), Err(error));

        let refusal = decode(b"[").expect_err("no request");
        let line = encode_refusal(&refusal).expect("JSON");
        assert!(line.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"));
        assert!(decode_answer::<EditOutput>(&line).is_err());
    }

    #[test]
    fn any_asset_fits_into_a_line() {
        let write = WriteParams { uri: "ikigai:///a".into(), content: "\u{1}".repeat(MAX_CONTENT) };
        let line =
            serde_json::to_vec(&SocketRequest::new(1, Operation::Write(write))).expect("JSON");
        assert!(line.len() > MAX_LINE - (64 << 10) && line.len() <= MAX_LINE, "{}", line.len());
    }
}
