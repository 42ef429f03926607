//! The host socket: what a native tool that is granted documents may ask, and what it
//! is answered. JSON-RPC 2.0, one message a line.
//!
//! A tool finds the number of the descriptor in [`HOST_FD_VARIABLE`]. Each request has
//! an id and is answered by one line, in the order of the requests. There are no
//! batches and no notifications: a request without an id is refused and not acted on.
//!
//! Shapes and their rules only. Who may ask, and what comes of it, is the host's.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AssetError, ToolCode};

/// The name of the variable that holds the descriptor's number.
pub const HOST_FD_VARIABLE: &str = "IKIGAI_HOST_FD";

/// The most that a document's text has on its way through any port, in bytes: ten
/// times what fits into the budget of pinned documents.
pub const MAX_CONTENT: usize = 4 << 20;

/// The longest line that the host reads, in bytes, its newline left out. A document of
/// [`MAX_CONTENT`] fits in any spelling: JSON needs six bytes for one at most. An edit's
/// two texts share it.
pub const MAX_LINE: usize = 6 * MAX_CONTENT + (64 << 10);

/// The longest id that is a string, in bytes.
pub const MAX_ID: usize = 128;

/// The longest reason of a refusal, in characters.
const MAX_REASON: usize = 500;

/// The code of a failed operation; `data.error_code` says which failure.
pub const OPERATION_FAILED: i32 = -32000;

/// What is asked, by its method and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Operation {
    /// Lines of a document.
    Read(Read),
    /// A document's whole text anew.
    Write(Write),
    /// One text in the place of another.
    Edit(Edit),
    /// Which documents there are.
    List(List),
}

/// The parameters of `read`. An absent `offset` or `limit` is no bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The document.
    pub uri: String,
    /// The first line, counted from 1; 0 is the first as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The parameters of `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The document, which need not be there.
    pub uri: String,
    /// Its whole text.
    pub content: String,
}

/// The parameters of `edit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The document.
    pub uri: String,
    /// What is replaced.
    pub old: String,
    /// What takes its place.
    pub new: String,
    /// Everywhere; otherwise it must stand there once.
    #[serde(default)]
    pub all: bool,
}

/// The parameters of `list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// What the paths begin with; all, if it is empty.
    #[serde(default)]
    pub prefix: String,
}

/// The result of `read`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The lines that were asked for, with their newlines.
    pub content: String,
}

/// The result of `write`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The size of the text, in bytes.
    pub bytes: u64,
}

/// The result of `edit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// How often the text was replaced.
    pub replacements: u64,
}

/// The result of `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// In the order of their paths.
    pub entries: Vec<Entry>,
    /// Whether there are more than a listing holds.
    pub more: bool,
}

/// One document of a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path: its URI without `ikigai:///`.
    pub path: String,
    /// Its size in tokens, as the budget counts them.
    pub tokens: u64,
    /// Whether nobody may change it.
    pub read_only: bool,
}

/// What tells the answer to one request from that to another, and comes back as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Id {
    /// Of an answer to what had no id that could be read.
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
        enum Given {
            Number(i64),
            String(String),
        }
        match Given::deserialize(deserializer) {
            Ok(Given::Number(number)) => Ok(Self::Number(number)),
            Ok(Given::String(text)) if text.len() <= MAX_ID => Ok(Self::String(text)),
            _ => Err(D::Error::custom(format_args!(
                "`id` must be a whole number or a string of at most {MAX_ID} bytes"
            ))),
        }
    }
}

/// A request as one line, without its newline.
#[derive(Debug, Serialize)]
pub struct Request {
    jsonrpc: &'static str,
    /// Comes back with the answer.
    pub id: Id,
    /// What is asked.
    #[serde(flatten)]
    pub operation: Operation,
}

impl Request {
    /// The request for `operation`.
    #[must_use]
    pub fn new(id: i64, operation: Operation) -> Self {
        Self { jsonrpc: "2.0", id: Id::Number(id), operation }
    }
}

/// Why a line was refused before anything was done; one of JSON-RPC's own errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request's, where it could be read.
    pub id: Id,
    /// What is wrong.
    pub fault: Fault,
    /// The same for a person.
    pub message: String,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no JSON.
    Parse,
    /// It is JSON and no request.
    Request,
    /// There is no such method.
    Method,
    /// The parameters are not the method's.
    Params,
}

impl Fault {
    /// The code of JSON-RPC 2.0, section 5.1.
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

/// A request as it is read.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a RawValue,
    id: Option<&'a RawValue>,
    method: &'a RawValue,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Reads one line, without its newline.
///
/// # Errors
///
/// The line is no request, and what to answer.
pub fn decode(line: &[u8]) -> Result<(Id, Operation), Refusal> {
    // What the messages quote is as long as whoever sent it likes.
    let refuse = |id: &Id, fault, message: String| Refusal {
        id: id.clone(),
        fault,
        message: message.chars().take(MAX_REASON).collect(),
    };
    let text = std::str::from_utf8(line)
        .map_err(|error| refuse(&Id::Null, Fault::Parse, format!("not UTF-8: {error}")))?;
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        let fault = if error.is_data() { Fault::Request } else { Fault::Parse };
        refuse(&Id::Null, fault, error.to_string())
    })?;
    let id = match envelope.id {
        None => {
            let message = "`id` is missing; notifications are not served".to_owned();
            return Err(refuse(&Id::Null, Fault::Request, message));
        }
        Some(id) => serde_json::from_str::<Id>(id.get())
            .map_err(|error| refuse(&Id::Null, Fault::Request, error.to_string()))?,
    };
    if envelope.jsonrpc.get() != "\"2.0\"" {
        let message = "`jsonrpc` must be \"2.0\"".to_owned();
        return Err(refuse(&id, Fault::Request, message));
    }
    let method: String = serde_json::from_str(envelope.method.get())
        .map_err(|_| refuse(&id, Fault::Request, "`method` must be a string".to_owned()))?;
    let params = envelope.params.map_or("{}", RawValue::get);
    let operation = match method.as_str() {
        "read" => parameters(params).map(Operation::Read),
        "write" => parameters(params).map(Operation::Write),
        "edit" => parameters(params).map(Operation::Edit),
        "list" => parameters(params).map(Operation::List),
        _ => {
            let message = "there are `read`, `write`, `edit` and `list`".to_owned();
            return Err(refuse(&id, Fault::Method, message));
        }
    };
    operation
        .map(|operation| (id.clone(), operation))
        .map_err(|message| refuse(&id, Fault::Params, message))
}

/// Parameters by name; a list of values could be read as well, and is not.
fn parameters<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if !text.starts_with('{') {
        return Err("`params` must be an object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// The answer to a request that was served, as one line with its newline.
///
/// # Errors
///
/// None that a result of this module can have; serializing may fail in principle.
pub fn encode_result(id: &Id, result: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Answer<'a, R> {
        jsonrpc: &'static str,
        id: &'a Id,
        result: &'a R,
    }
    line(&Answer { jsonrpc: "2.0", id, result })
}

/// The answer to a request whose operation failed.
///
/// # Errors
///
/// As for [`encode_result`].
pub fn encode_failure(id: &Id, error: &AssetError) -> serde_json::Result<Vec<u8>> {
    let data = Some(Data { error_code: error.code });
    encode_error(id, OPERATION_FAILED, &error.message, data)
}

/// The answer to what was refused.
///
/// # Errors
///
/// As for [`encode_result`].
pub fn encode_refusal(refusal: &Refusal) -> serde_json::Result<Vec<u8>> {
    encode_error(&refusal.id, refusal.fault.code(), &refusal.message, None)
}

fn encode_error(
    id: &Id,
    code: i32,
    message: &str,
    data: Option<Data>,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: &'a Id,
        error: Said<'a>,
    }
    #[derive(Serialize)]
    struct Said<'a> {
        code: i32,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Data>,
    }
    line(&Answer { jsonrpc: "2.0", id, error: Said { code, message, data } })
}

fn line(answer: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Serialize, Deserialize)]
struct Data {
    error_code: ToolCode,
}

/// Why an answer of the host is none.
#[derive(Debug)]
pub struct NoAnswer(String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the host's answer cannot be read: {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// Reads the host's answer to a request: its result, or how the operation failed.
///
/// # Errors
///
/// It is no answer, or says that the request was none.
pub fn decode_answer<T: DeserializeOwned>(line: &[u8]) -> Result<Result<T, AssetError>, NoAnswer> {
    #[derive(Deserialize)]
    struct Answer<T> {
        result: Option<T>,
        error: Option<Said>,
    }
    #[derive(Deserialize)]
    struct Said {
        message: String,
        data: Option<Data>,
    }
    let answer: Answer<T> =
        serde_json::from_slice(line).map_err(|error| NoAnswer(error.to_string()))?;
    match answer {
        Answer { result: Some(result), error: None } => Ok(Ok(result)),
        Answer { error: Some(Said { message, data: Some(data) }), .. } => {
            Ok(Err(AssetError::new(data.error_code, message)))
        }
        Answer { error: Some(Said { message, data: None }), .. } => Err(NoAnswer(message)),
        Answer { result: None, error: None } => {
            Err(NoAnswer("neither a result nor an error".to_owned()))
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
    fn what_is_asked_arrives_as_it_was_sent() {
        let edit =
            Edit { uri: "ikigai:///a".into(), old: "\0\"".into(), new: "é\n".into(), all: true };
        let read = Read { uri: "ikigai:///a".into(), offset: None, limit: Some(u64::MAX) };
        let write = Write { uri: String::new(), content: "x\u{2028}".into() };
        let operations = [
            Operation::Read(read),
            Operation::Write(write),
            Operation::Edit(edit),
            Operation::List(List::default()),
        ];
        for operation in operations {
            let line = serde_json::to_vec(&Request::new(7, operation.clone())).expect("JSON");
            assert!(!line.contains(&b'\n'), "a request is one line");
            assert_eq!(decode(&line), Ok((Id::Number(7), operation)));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_by_its_number() {
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
        assert_eq!(decode(b"\xff").expect_err("no text").fault, Fault::Parse);
    }

    #[test]
    fn answers_come_back_as_they_were_given() {
        let id = Id::String("a".into());
        let line = encode_result(&id, &Replaced { replacements: 2 }).expect("JSON");
        assert_eq!(line, b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"replacements\":2}}\n");
        let answer = decode_answer::<Replaced>(&line).expect("an answer");
        assert_eq!(answer, Ok(Replaced { replacements: 2 }));

        let error = AssetError::new(ToolCode::FileNotFound, "gone");
        let line = encode_failure(&id, &error).expect("JSON");
        let text = String::from_utf8_lossy(&line);
        assert!(
            text.contains(
                r#""code":-32000,"message":"gone","data":{"error_code":"FILE_NOT_FOUND"}"#
            )
        );
        assert_eq!(decode_answer::<Replaced>(&line).expect("an answer"), Err(error));

        let refusal = decode(b"[").expect_err("no request");
        let line = encode_refusal(&refusal).expect("JSON");
        assert!(line.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"));
        assert!(decode_answer::<Replaced>(&line).is_err());
    }

    #[test]
    fn any_document_fits_into_a_line() {
        let write = Write { uri: "ikigai:///a".into(), content: "\u{1}".repeat(MAX_CONTENT) };
        let line = serde_json::to_vec(&Request::new(1, Operation::Write(write))).expect("JSON");
        assert!(line.len() > MAX_LINE - (64 << 10) && line.len() <= MAX_LINE, "{}", line.len());
    }
}
