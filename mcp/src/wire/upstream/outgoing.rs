//! A message to a server, with the arguments of a call as the caller wrote them.

use std::sync::Arc;

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions as _, GetMeta as _, JsonRpcMessage,
    RequestId, RequestMetaObject,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ExtensionRequest, InputAnswers};

/// A message in the form that is sent.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum OutgoingMessage<'a> {
    Call(CallMessage<'a>),
    Other(&'a ClientJsonRpcMessage),
}

#[derive(Serialize)]
pub(crate) struct CallMessage<'a> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    #[serde(rename = "_meta")]
    meta: &'a RequestMetaObject,
    name: &'a str,
    arguments: &'a RawValue,
    #[serde(rename = "inputResponses", skip_serializing_if = "Option::is_none")]
    input_responses: Option<&'a Value>,
    #[serde(rename = "requestState", skip_serializing_if = "Option::is_none")]
    request_state: Option<&'a str>,
}

impl<'a> OutgoingMessage<'a> {
    /// Returns the message in the form that is sent.
    pub(crate) fn from_message(message: &'a ClientJsonRpcMessage) -> Self {
        Self::call(message).map_or(Self::Other(message), Self::Call)
    }

    fn call(message: &'a ClientJsonRpcMessage) -> Option<CallMessage<'a>> {
        let JsonRpcMessage::Request(message) = message else { return None };
        let ClientRequest::CallToolRequest(call) = &message.request else { return None };
        let asked = message.request.extensions().get::<Arc<ExtensionRequest>>()?;
        let arguments = asked.arguments.as_deref()?;
        let meta = message.request.get_meta();
        let InputAnswers { input_responses, request_state } = &asked.answers;
        let params = Params {
            meta,
            name: &call.params.name,
            arguments,
            input_responses: input_responses.as_ref(),
            request_state: request_state.as_deref(),
        };
        Some(CallMessage { jsonrpc: "2.0", id: &message.id, method: "tools/call", params })
    }
}
