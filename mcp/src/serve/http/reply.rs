//! The answers that this server sends itself, before a request reaches the protocol's library.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};

/// An HTTP response.
pub(super) type BoxedResponse = Response<BoxBody<Bytes, Infallible>>;

/// The response to a request that is refused.
pub(super) type HttpRefusal = Box<BoxedResponse>;

/// Returns a response with a JSON text.
pub(super) fn json(status: StatusCode, text: impl Into<Bytes>) -> BoxedResponse {
    let mut reply = Response::new(Full::new(text.into()).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Returns the response to a request that is refused, with a protocol error as its body.
pub(super) fn refused(status: StatusCode, error: ErrorData, id: Option<RequestId>) -> HttpRefusal {
    let error = ServerJsonRpcMessage::error(error, id);
    Box::new(match serde_json::to_vec(&error) {
        Ok(text) => json(status, text),
        Err(error) => {
            tracing::error!("an error cannot be written as JSON: {error}");
            json(StatusCode::INTERNAL_SERVER_ERROR, "{}")
        }
    })
}

/// Returns the response to a request that is refused before its body is read.
pub(super) fn unread(status: StatusCode, reason: &'static str) -> HttpRefusal {
    refused(status, ErrorData::invalid_request(reason, None), None)
}

/// Returns the response with one more header.
pub(super) fn with(mut refusal: HttpRefusal, name: HeaderName, value: HeaderValue) -> HttpRefusal {
    refusal.headers_mut().insert(name, value);
    refusal
}
