//! One message from a server: its receiver, and the parts that are passed on.

use std::borrow::Cow;

use bytes::Bytes;
use ikigai_protocol::is_deceptive;
use rmcp::model::{
    EmptyResult, ErrorCode, ErrorData, JsonRpcMessage, ProgressToken, ProtocolVersion, RequestId,
    ServerJsonRpcMessage, ServerRequest, ServerResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{CallProgress, RequestKind, UpstreamState};
use crate::wire::members::{self, MessageMembers};

/// The longest message in bytes that is given to the library, which copies it into trees that may
/// take a hundred times as much memory.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// The method by which a server asks for a form.
pub(crate) const FORM: &str = "elicitation/create";

/// The longest text from a server that is shown, in characters.
const MAX_TEXT: usize = 300;

/// The longest introduction of a server in bytes. It includes instructions and icons.
const MAX_INTRODUCTION: usize = 1 << 20;

/// A message of a server.
#[derive(Debug)]
pub(crate) enum ServerMessage {
    /// A message for the library.
    Message(Box<ServerJsonRpcMessage>),
    /// A question. Holds the answer to send.
    Question(Value),
    /// A message that nothing waits for, or that was handled here.
    Ignored,
    /// Not a valid message.
    Noise,
}

impl ServerMessage {
    /// Reads one message.
    pub(crate) fn read(text: &Bytes, upstream: &UpstreamState) -> Self {
        let Some(members) = std::str::from_utf8(text).ok().and_then(|it| members::read(it).ok())
        else {
            return Self::Noise;
        };
        if members.jsonrpc.as_deref() != Some("2.0") {
            return Self::Noise;
        }
        let id = match members.id.filter(|id| id.get() != "null").map(members::id) {
            Some(None) => return Self::Noise,
            id => id.flatten(),
        };
        match (&members.method, id) {
            (Some(method), Some(id)) => Self::request(method, &id, text, upstream),
            (Some(method), None) => Self::notification(method, text, &members, upstream),
            (None, id) => Self::answer(id, text, &members, upstream),
        }
    }

    fn request(method: &str, id: &RequestId, text: &Bytes, upstream: &UpstreamState) -> Self {
        if method == FORM && text.len() <= MAX_MESSAGE {
            let message: Result<ServerJsonRpcMessage, _> = serde_json::from_slice(text);
            if let Ok(JsonRpcMessage::Request(request)) = message
                && matches!(request.request, ServerRequest::ElicitRequest(_))
                && upstream.take_form()
            {
                return Self::Message(Box::new(JsonRpcMessage::Request(request)));
            }
        }
        Self::Question(answer(method, id))
    }

    fn notification(
        method: &str,
        text: &Bytes,
        members: &MessageMembers<'_>,
        upstream: &UpstreamState,
    ) -> Self {
        match method {
            "notifications/tools/list_changed" => upstream.change(),
            "notifications/progress" => {
                let params = members.params.map(|it| serde_json::from_str::<Reported>(it.get()));
                if let Some(Ok(Reported { progress_token, progress, total, message })) = params {
                    let message = message.as_deref().map(plain);
                    upstream.progress(&progress_token, CallProgress { progress, total, message });
                }
            }
            // Notifications about a subscription or a form are for the library.
            "notifications/subscriptions/acknowledged" | "notifications/cancelled"
                if text.len() <= MAX_MESSAGE
                    && (upstream.is_listening() || upstream.is_asking()) =>
            {
                if let Ok(message) = serde_json::from_slice(text) {
                    return Self::Message(Box::new(message));
                }
            }
            _ => tracing::debug!("a notification `{}` of a server is ignored", plain(method)),
        }
        Self::Ignored
    }

    fn answer(
        id: Option<RequestId>,
        text: &Bytes,
        members: &MessageMembers<'_>,
        upstream: &UpstreamState,
    ) -> Self {
        let flight = match &id {
            Some(id) => upstream.answered(id),
            // A server that cannot parse the first request does not know its id.
            None if members.error.is_some() => upstream.opening(),
            None => None,
        };
        let Some((id, kind)) = flight else {
            tracing::debug!("an answer of a server is ignored: no request waits for it");
            return Self::Ignored;
        };
        if matches!(kind, RequestKind::GivenUp) {
            if members.result.is_some_and(|result| parse_result(result, text, &kind).is_ok()) {
                upstream.note_modern();
            }
            return Self::Ignored;
        }
        let message = match (members.result, members.error) {
            (Some(result), None) => match parse_result(result, text, &kind) {
                Ok(result) => JsonRpcMessage::response(result, id),
                Err(error) => JsonRpcMessage::error(error, Some(id)),
            },
            (None, Some(error)) => JsonRpcMessage::error(fault(error, &kind, upstream), Some(id)),
            _ => {
                let error = internal("the answer has neither a result nor an error, or both");
                JsonRpcMessage::error(error, Some(id))
            }
        };
        Self::Message(Box::new(message))
    }
}

/// Returns the error that the library gets as the answer to `server/discover` from a server of an
/// older revision. The library then continues with the older handshake.
pub(crate) fn not_modern(reason: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason.to_owned(), None)
}

/// Returns the result for the library.
fn parse_result(
    result: &RawValue,
    text: &Bytes,
    kind: &RequestKind,
) -> Result<ServerResult, ErrorData> {
    match kind {
        RequestKind::Asked(asked) => {
            let is_first = asked.result.set(members::part(text, result.get())).is_ok();
            debug_assert!(is_first, "the request was taken out of those in flight");
            Ok(ServerResult::EmptyResult(EmptyResult {}))
        }
        RequestKind::Discover | RequestKind::GivenUp | RequestKind::Initialize => {
            introduction(result, kind)
        }
        RequestKind::Listen | RequestKind::Other if result.get().len() <= MAX_MESSAGE => {
            serde_json::from_str(result.get())
                .map_err(|error| internal(&plain(&format!("the result is malformed: {error}"))))
        }
        RequestKind::Listen | RequestKind::Other => Err(internal("the result is too large")),
    }
}

/// The relevant parts of a handshake's result. Instructions and icons, which may be large, are
/// skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Introduction<'a> {
    #[serde(borrow)]
    protocol_version: Option<Cow<'a, str>>,
    supported_versions: Option<Vec<String>>,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
struct Capabilities {
    tools: Option<ToolsSupport>,
}

#[derive(Deserialize)]
struct ToolsSupport {
    #[serde(default, rename = "listChanged")]
    list_changed: Option<bool>,
}

/// Returns the result of a handshake without the parts that may be large.
fn introduction(result: &RawValue, kind: &RequestKind) -> Result<ServerResult, ErrorData> {
    if result.get().len() > MAX_INTRODUCTION {
        return Err(internal(&format!("the introduction has more than {MAX_INTRODUCTION} bytes")));
    }
    let is_discovery = matches!(kind, RequestKind::Discover | RequestKind::GivenUp);
    let found: Introduction<'_> = serde_json::from_str(result.get()).map_err(|error| {
        let reason = plain(&format!("the introduction is malformed: {error}"));
        if is_discovery { not_modern(&reason) } else { internal(&reason) }
    })?;
    let capabilities = match found.capabilities.tools {
        Some(tools) => json!({ "tools": { "listChanged": tools.list_changed == Some(true) } }),
        None => json!({}),
    };
    let result = if is_discovery {
        let versions = found.supported_versions.unwrap_or_default();
        if !versions.iter().any(|it| it == ProtocolVersion::V_2026_07_28.as_str()) {
            return Err(not_modern("the server does not support the revision 2026-07-28"));
        }
        json!({
            "resultType": "complete",
            "supportedVersions": [ProtocolVersion::V_2026_07_28.as_str()],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
        })
    } else {
        json!({
            "protocolVersion": found.protocol_version.as_deref().map(plain),
            "capabilities": capabilities,
            "serverInfo": { "name": "", "version": "" },
        })
    };
    serde_json::from_value(result)
        .map_err(|error| internal(&format!("the introduction is malformed: {error}")))
}

/// An error from a server.
#[derive(Deserialize)]
struct ServerFault<'a> {
    code: i32,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    /// Only read for the revisions that the server supports.
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl ServerFault<'_> {
    /// Returns whether a server that refuses a revision says that it supports the newest.
    fn is_modern(&self) -> bool {
        #[derive(Deserialize)]
        struct SupportedVersions {
            supported: Vec<String>,
        }

        if self.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION.0 {
            return false;
        }
        let data = self.data.filter(|data| data.get().len() <= MAX_MESSAGE);
        let data = data.and_then(|data| serde_json::from_str::<SupportedVersions>(data.get()).ok());
        let newest = ProtocolVersion::V_2026_07_28;
        data.is_some_and(|data| data.supported.iter().any(|it| it == newest.as_str()))
    }
}

/// Returns the error for the library.
fn fault(error: &RawValue, kind: &RequestKind, upstream: &UpstreamState) -> ErrorData {
    let Ok(fault) = serde_json::from_str::<ServerFault<'_>>(error.get()) else {
        return internal("the server's error is malformed");
    };
    let message = plain(&fault.message);
    if matches!(kind, RequestKind::Initialize) && fault.is_modern() {
        upstream.note_modern();
    }
    if !matches!(kind, RequestKind::Discover) {
        return ErrorData::new(ErrorCode(fault.code), message, None);
    }
    if fault.is_modern() && upstream.may_ask_again() {
        let data = json!({ "supported": [ProtocolVersion::V_2026_07_28.as_str()] });
        return ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data));
    }
    // The older handshake is worth a try, no matter why the server refuses this request.
    not_modern(&message)
}

/// The progress of a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reported<'a> {
    progress_token: ProgressToken,
    progress: f64,
    total: Option<f64>,
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

/// Returns the answer to a server's question. This client only answers pings and forms. A form that
/// cannot be passed on is declined.
fn answer(method: &str, id: &RequestId) -> Value {
    let result = match method {
        "ping" => json!({}),
        FORM => json!({ "action": "decline" }),
        _ => {
            let error = json!({
                "code": ErrorCode::METHOD_NOT_FOUND.0,
                "message": "this client has no such method",
            });
            return json!({ "jsonrpc": "2.0", "id": id, "error": error });
        }
    };
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Makes a text from a server safe to show: on one line, of a bounded length, and without deceptive
/// characters.
pub(crate) fn plain(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(MAX_TEXT)
        .map(|c| if is_deceptive(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect();
    if text.chars().nth(MAX_TEXT).is_some() {
        shown.push('…');
    }
    shown
}

fn internal(message: &str) -> ErrorData {
    ErrorData::internal_error(message.to_owned(), None)
}

/// Reads messages for the fuzz target.
#[doc(hidden)]
pub(crate) mod fuzzing {
    use std::sync::Arc;

    use serde_json::value::to_raw_value;

    use super::super::{ExtensionRequest, Flight, InputAnswers};
    use super::*;

    /// A message from a server after parsing.
    #[derive(Debug)]
    pub enum Heard {
        /// A message for the library, as JSON.
        Message(String),
        /// A question. Holds the answer as JSON.
        Question(String),
        /// A message that nothing waits for, or that was handled here.
        Ignored,
        /// Not a valid message.
        Noise,
    }

    /// The traces that a message left in a call.
    #[derive(Debug, Default)]
    pub struct Traces {
        /// The bytes of its result.
        pub result: Option<Bytes>,
        /// The progress that the caller gets.
        pub progress: Option<CallProgress>,
    }

    /// Reads one message from a server. The requests 0 to 4 are in flight: `server/discover`,
    /// `initialize`, a subscription, another request of the library, and a call.
    #[must_use]
    pub fn server_message(text: &Bytes) -> (Heard, Traces) {
        let upstream = UpstreamState::default();
        let arguments = to_raw_value(&json!({})).map(Arc::from);
        let Ok(arguments) = arguments else { return (Heard::Noise, Traces::default()) };
        let (asked, _questions) =
            ExtensionRequest::call(arguments, Default::default(), InputAnswers::default());
        let kinds = [
            RequestKind::Discover,
            RequestKind::Initialize,
            RequestKind::Listen,
            RequestKind::Other,
        ];
        let kinds = kinds.into_iter().chain([RequestKind::Asked(Arc::clone(&asked))]);
        for (id, kind) in (0..).map(RequestId::Number).zip(kinds) {
            let token = Some(ProgressToken(id.clone()));
            upstream.flights.lock().insert(id, Flight { kind, token });
        }
        let heard = match ServerMessage::read(text, &upstream) {
            ServerMessage::Message(message) => {
                Heard::Message(serde_json::to_string(&message).unwrap_or_default())
            }
            ServerMessage::Question(answer) => Heard::Question(answer.to_string()),
            ServerMessage::Ignored => Heard::Ignored,
            ServerMessage::Noise => Heard::Noise,
        };
        let progress = asked.progress().borrow().clone();
        (heard, Traces { result: asked.result(), progress })
    }
}
