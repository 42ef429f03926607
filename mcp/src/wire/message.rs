//! One line as a message of the library, with the arguments of a call separated from it.

use std::borrow::Cow;

use bytes::Bytes;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, Extensions,
    GetExtensions as _, GetMeta as _, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage,
};
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::MAX_LINE;
use super::members::{self, MessageMembers};

/// The longest message in bytes, without the arguments of a call. The library copies it into trees
/// that may take a hundred times as much memory.
const MAX_MESSAGE: usize = 64 << 10;

/// The longest message of an error in characters.
const MAX_REASON: usize = 300;

/// The method whose arguments travel separately.
const CALL: &str = "tools/call";

/// The arguments of a call as the client wrote them, stored as an extension of the request. They may
/// be any JSON value but `null`: the offer refuses a value that is not an object, and records the
/// call. A call without arguments does not have this extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawArguments(pub(crate) Bytes);

impl RawArguments {
    /// Takes the arguments of a call out of the extensions of its request. For an HTTP request,
    /// they are among the extensions of its head.
    pub(crate) fn take(extensions: &mut Extensions) -> Option<Bytes> {
        let raw = match extensions.get_mut::<http::request::Parts>() {
            Some(head) => head.extensions.remove::<Self>(),
            None => extensions.remove::<Self>(),
        };
        raw.map(|raw| raw.0)
    }
}

/// One line.
#[derive(Debug)]
pub(super) enum ReceivedLine {
    /// A request, which needs an answer.
    Request { message: ClientJsonRpcMessage, id: RequestId },
    /// A notification or an answer, and the request that it cancels.
    Other { message: ClientJsonRpcMessage, cancels: Option<RequestId> },
    /// An invalid line, and its id if that is valid.
    Refused { error: ErrorData, id: Option<RequestId> },
}

/// Returns the error for a line that was skipped.
pub(super) fn too_long() -> ErrorData {
    invalid(format!("a message has more than {MAX_LINE} bytes"))
}

/// Returns whether the library leaves its first phase with this request. In that phase it accepts
/// no notifications. The handshake of the older revisions ends it, and so does a request that
/// contains its own revision.
pub(super) fn opens(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        other => {
            let meta = other.get_meta();
            let is_complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
            let version = meta.protocol_version();
            is_complete && version.is_some_and(|it| ProtocolVersion::KNOWN_VERSIONS.contains(&it))
        }
    }
}

impl ReceivedLine {
    /// Reads one line.
    pub(super) fn parse(line: &Bytes) -> Self {
        let ParsedMessage { mut message, arguments, id, .. } = match ParsedMessage::from_bytes(line)
        {
            Ok(read) => read,
            Err(it) => {
                let MalformedMessage { error, id } = *it;
                return Self::Refused { error, id };
            }
        };
        if let (JsonRpcMessage::Request(request), Some(raw)) = (&mut message, arguments) {
            request.request.extensions_mut().insert(raw);
        }
        match (&message, id) {
            (JsonRpcMessage::Request(_), Some(id)) => Self::Request { message, id },
            _ => {
                let cancels = cancelled(&message);
                Self::Other { message, cancels }
            }
        }
    }
}

/// A message as the body of an HTTP request.
#[derive(Debug)]
pub(crate) struct MessageBody {
    /// The message, with an empty object in place of the arguments of a call.
    pub(crate) text: Bytes,
    /// The arguments of a call.
    pub(crate) arguments: Option<RawArguments>,
    /// The method of a request or a notification.
    pub(crate) method: Option<String>,
    /// The id of a request, or the id of the request that this message answers.
    pub(crate) id: Option<RequestId>,
}

impl MessageBody {
    /// Returns the request of the message; `None` if the message is not a request.
    pub(crate) fn request(&self) -> Option<ClientRequest> {
        let message: ClientJsonRpcMessage = serde_json::from_slice(&self.text).ok()?;
        match message {
            JsonRpcMessage::Request(request) => Some(request.request),
            _ => None,
        }
    }

    /// Reads a body.
    pub(crate) fn parse(body: &Bytes) -> Result<Self, Box<MalformedMessage>> {
        let ParsedMessage { text, arguments, method, id, .. } = ParsedMessage::from_bytes(body)?;
        let text = match text {
            Cow::Borrowed(_) => body.clone(),
            Cow::Owned(text) => text.into(),
        };
        Ok(Self { text, arguments, method, id })
    }
}

/// A text that is not a valid message.
#[derive(Debug)]
pub(crate) struct MalformedMessage {
    pub(crate) error: ErrorData,
    /// Its id, if that is valid.
    pub(crate) id: Option<RequestId>,
}

impl From<ErrorData> for Box<MalformedMessage> {
    fn from(error: ErrorData) -> Self {
        Box::new(MalformedMessage { error: bounded(error), id: None })
    }
}

/// A parsed message.
struct ParsedMessage<'a> {
    message: ClientJsonRpcMessage,
    /// The text of the message, without the arguments of a call.
    text: Cow<'a, str>,
    arguments: Option<RawArguments>,
    id: Option<RequestId>,
    method: Option<String>,
}

impl<'a> ParsedMessage<'a> {
    /// Parses a text. The arguments of a call are a part of it, or a copy.
    fn from_bytes(whole: &'a Bytes) -> Result<Self, Box<MalformedMessage>> {
        let Ok(text) = std::str::from_utf8(whole) else {
            return Err(ErrorData::parse_error("the message is not UTF-8", None).into());
        };
        let members: MessageMembers<'_> = match members::read(text) {
            Ok(members) => members,
            Err(error) if error.classify() == Category::Data => {
                return Err(invalid(shape(text, &error)).into());
            }
            Err(error) => {
                let message = format!("the message is not JSON: {error}");
                return Err(ErrorData::parse_error(message, None).into());
            }
        };
        let id = match members.id.map(members::id) {
            None => None,
            Some(Some(id)) => Some(id),
            Some(None) => {
                let error = "the id is neither an integer nor a string of at most 256 bytes";
                return Err(invalid(error).into());
            }
        };
        Self::with(whole, text, &members, id.clone()).map_err(|error| {
            // A message without a method is an answer, so an error about it must not use its id.
            let id = id.filter(|_| members.method.is_some());
            Box::new(MalformedMessage { error: bounded(error), id })
        })
    }

    fn with(
        whole: &Bytes,
        text: &'a str,
        members: &MessageMembers<'_>,
        id: Option<RequestId>,
    ) -> Result<Self, ErrorData> {
        if members.jsonrpc.as_deref() != Some("2.0") {
            return Err(invalid("`jsonrpc` is not \"2.0\""));
        }
        let arguments = if members.method.as_deref() == Some(CALL) && id.is_some() {
            members.params.map(arguments).transpose()?.flatten()
        } else {
            None
        };
        let (text, arguments) = match arguments {
            None => (Cow::Borrowed(text), None),
            Some(raw) => {
                let arguments = members::part(whole, raw);
                (without(whole, raw), Some(RawArguments(arguments)))
            }
        };
        if text.len() > MAX_MESSAGE {
            let what = "only the arguments of `tools/call` may be longer";
            return Err(invalid(format!("the message has more than {MAX_MESSAGE} bytes; {what}")));
        }
        let malformed = |error| invalid(format!("the message is malformed: {error}"));
        // A call is parsed as its own type. For the type of all messages, the library first copies
        // the call, and then tries one type after the other.
        let call = id.clone().filter(|_| members.method.as_deref() == Some(CALL));
        let call = call.and_then(|id| Some((id, serde_json::from_str(&text).ok()?)));
        let message = match call {
            Some((id, call)) => {
                ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(call), id)
            }
            None => serde_json::from_str(&text).map_err(malformed)?,
        };
        let method = members.method.as_deref().map(str::to_owned);
        Ok(Self { message, text, arguments, id, method })
    }
}

/// Describes JSON that is not a message.
fn shape(text: &str, error: &serde_json::Error) -> String {
    match text.trim_start().as_bytes().first() {
        Some(b'[') => "batches are not supported; send each message by itself".to_owned(),
        Some(b'{') => format!("the message is malformed: {error}"),
        _ => "a message is a JSON object".to_owned(),
    }
}

/// Returns the text of the arguments in the parameters of a call, or `None` if they are missing.
fn arguments(params: &RawValue) -> Result<Option<&str>, ErrorData> {
    members::arguments(params.get()).map_err(|error| {
        ErrorData::invalid_params(format!("the parameters of `{CALL}`: {error}"), None)
    })
}

/// Returns the line with `part` replaced by an empty object. `part` must be a slice of the line.
fn without<'a>(line: &Bytes, part: &str) -> Cow<'a, str> {
    let start = part.as_ptr().addr() - line.as_ptr().addr();
    let text = [&line[..start], b"{}", &line[start + part.len()..]].concat();
    // The text was cut at character boundaries, so it is valid UTF-8.
    Cow::Owned(String::from_utf8(text).unwrap_or_default())
}

/// Returns the request that a notification cancels.
pub(crate) fn cancelled(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Notification(it) => match &it.notification {
            ClientNotification::CancelledNotification(it) => it.params.request_id.clone(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the id of the request that a message answers.
pub(crate) fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(answer) => Some(&answer.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

/// Shortens the message of an error. A parser's message may quote the whole line.
fn bounded(mut error: ErrorData) -> ErrorData {
    if let Some((end, _)) = error.message.char_indices().nth(MAX_REASON) {
        error.message = format!("{}…", &error.message[..end]).into();
    }
    error
}

fn invalid(message: impl Into<Cow<'static, str>>) -> ErrorData {
    ErrorData::invalid_request(message, None)
}

/// Reads lines for the fuzz target.
#[doc(hidden)]
pub(super) mod fuzzing {
    use super::*;

    /// A line after parsing.
    #[derive(Debug, PartialEq, Eq)]
    pub enum FuzzedLine {
        /// A request, with the arguments that were cut out of it.
        Request { id: String, arguments: Option<Bytes> },
        /// A notification or an answer.
        Other,
        /// An invalid line. Holds the error as JSON.
        Refused(String),
    }

    /// Reads one line.
    #[must_use]
    pub fn line(line: &Bytes) -> FuzzedLine {
        match ReceivedLine::parse(line) {
            ReceivedLine::Request { message, id } => {
                let JsonRpcMessage::Request(request) = message else { return FuzzedLine::Other };
                let raw = request.request.extensions().get::<RawArguments>();
                FuzzedLine::Request { id: id.to_string(), arguments: raw.map(|raw| raw.0.clone()) }
            }
            ReceivedLine::Other { .. } => FuzzedLine::Other,
            ReceivedLine::Refused { error, .. } => {
                FuzzedLine::Refused(serde_json::to_string(&error).unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    fn parse(line: &str) -> ReceivedLine {
        ReceivedLine::parse(&Bytes::copy_from_slice(line.as_bytes()))
    }

    fn refusal(line: &str) -> (ErrorCode, Option<RequestId>, String) {
        match parse(line) {
            ReceivedLine::Refused { error, id } => (error.code, id, error.message.into_owned()),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn arguments_are_the_bytes_of_the_client() {
        let arguments = r#"{ "b":1.10000000000000000001e400, "a": [ {"arguments":"x"} ],"a":2}"#;
        for line in [
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
            ),
            format!(
                r#"{{"params":{{"arguments" : {arguments} ,"name":"t"}},"id":1,"jsonrpc":"2.0","method":"tools/call"}}"#
            ),
        ] {
            let ReceivedLine::Request { message, id } = parse(&line) else { panic!("{line}") };
            assert_eq!(id, RequestId::Number(1));
            let JsonRpcMessage::Request(request) = message else { panic!("{line}") };
            let raw = request.request.extensions().get::<RawArguments>().expect("arguments");
            assert_eq!(raw.0, arguments);
            let ClientRequest::CallToolRequest(call) = request.request else { panic!("{line}") };
            assert_eq!(call.params.name, "t");
            assert!(call.params.arguments.expect("an object").is_empty());
        }
    }

    #[test]
    fn arguments_that_are_no_object_reach_the_offer() {
        for arguments in ["[1]", r#""x""#, "7", "false", r#"[{"arguments":{}}]"#] {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
            );
            let ReceivedLine::Request { message, .. } = parse(&line) else { panic!("{line}") };
            let JsonRpcMessage::Request(request) = message else { panic!("{line}") };
            let raw = request.request.extensions().get::<RawArguments>().expect("arguments");
            assert_eq!(raw.0, arguments);
        }
    }

    #[test]
    fn a_call_is_what_the_library_reads() {
        for (id, params) in [
            ("1", r#"{"name":"t"}"#),
            (r#""a""#, r#"{"name":"t","_meta":{"progressToken":7,"other":[1]}}"#),
            ("0", r#"{"name":"t","further":{},"requestState":"s","inputResponses":{}}"#),
            (
                "0",
                r#"{"name":"t","inputResponses":{"q":{"action":"accept","content":{"a":true}}}}"#,
            ),
            ("2", r#"{"name":7}"#),
        ] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
            let theirs = serde_json::from_str::<ClientJsonRpcMessage>(&line);
            match (parse(&line), theirs) {
                (ReceivedLine::Request { message, .. }, Ok(theirs)) => {
                    assert_eq!(format!("{message:?}"), format!("{theirs:?}"), "{line}");
                }
                (ours, theirs) => panic!("{line}: {ours:?}, {theirs:?}"),
            }
        }
    }

    #[test]
    fn a_call_without_arguments_has_none() {
        for params in [r#"{"name":"t"}"#, r#"{"name":"t","arguments":null}"#] {
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{params}}}"#);
            let ReceivedLine::Request { message: JsonRpcMessage::Request(request), .. } =
                parse(&line)
            else {
                panic!("{line}")
            };
            assert_eq!(request.request.extensions().get::<RawArguments>(), None);
        }
    }

    #[test]
    fn a_line_that_is_no_message_is_refused_with_the_code_of_its_fault() {
        let one = Some(RequestId::Number(1));
        let long = "x".repeat(MAX_MESSAGE);
        let deep = "[".repeat(1000);
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{deep}{}}}}}"#,
            "]".repeat(1000)
        );
        for (line, code, id, expected) in [
            ("nonsense", ErrorCode::PARSE_ERROR, None, "not JSON"),
            ("{\"jsonrpc\":\"2.0\"", ErrorCode::PARSE_ERROR, None, "not JSON"),
            ("7", ErrorCode::INVALID_REQUEST, None, "is a JSON object"),
            ("[]", ErrorCode::INVALID_REQUEST, None, "batches"),
            (r#"{"id":1}"#, ErrorCode::INVALID_REQUEST, None, "`jsonrpc`"),
            (
                r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
                ErrorCode::INVALID_REQUEST,
                one.clone(),
                "`jsonrpc`",
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                ErrorCode::INVALID_REQUEST,
                None,
                "the id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
                ErrorCode::INVALID_REQUEST,
                None,
                "the id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                ErrorCode::INVALID_REQUEST,
                None,
                "the id",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
                ErrorCode::INVALID_REQUEST,
                None,
                "duplicate field",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
                ErrorCode::INVALID_REQUEST,
                one.clone(),
                "malformed",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{},"arguments":{}}}"#,
                ErrorCode::INVALID_PARAMS,
                one.clone(),
                "duplicate field `arguments`",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}"#,
                ErrorCode::INVALID_PARAMS,
                one.clone(),
                "the parameters",
            ),
            (
                &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{long}"}}}}"#),
                ErrorCode::INVALID_REQUEST,
                one.clone(),
                "only the arguments",
            ),
            (&deep, ErrorCode::INVALID_REQUEST, one.clone(), "recursion limit"),
        ] {
            let (found, of, message) = refusal(line);
            let line = &line[..line.len().min(100)];
            assert_eq!((found, of), (code, id), "{line}: {message}");
            assert!(message.contains(expected), "{line}: {message}");
        }
        let quoted = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"{}"}}"#,
            "x".repeat(1 << 20)
        );
        assert!(refusal(&quoted).2.chars().count() <= MAX_REASON + 1);
        let (code, id, _) = match ReceivedLine::parse(&Bytes::from_static(b"{\"a\":\"\xff\"}")) {
            ReceivedLine::Refused { error, id } => (error.code, id, ()),
            other => panic!("{other:?}"),
        };
        assert_eq!((code, id), (ErrorCode::PARSE_ERROR, None));
    }

    #[test]
    fn deep_arguments_are_none_of_the_librarys_business() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"x":{deep}}}}}}}"#
        );
        assert!(matches!(parse(&line), ReceivedLine::Request { .. }));
    }

    #[test]
    fn the_first_phase_ends_with_a_handshake_or_a_request_that_names_its_revision() {
        let modern = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let unknown = modern.replace("2026", "2036");
        let initialize = r#""initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        for (rest, expected) in [
            (initialize.to_owned(), true),
            (format!(r#""tools/list","params":{{"_meta":{modern}}}"#), true),
            (format!(r#""tools/list","params":{{"_meta":{unknown}}}"#), false),
            (format!(r#""server/discover","params":{{"_meta":{modern}}}"#), false),
            (r#""tools/list","params":{}"#.to_owned(), false),
            (r#""ping""#.to_owned(), false),
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":{rest}}}"#);
            let ReceivedLine::Request { message, .. } = parse(&line) else { panic!("{line}") };
            assert_eq!(opens(&message), expected, "{line}");
        }
    }
}
