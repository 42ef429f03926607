//! The headers that let a web page of an allowed origin use this server in a browser:
//! [CORS](https://fetch.spec.whatwg.org/#http-cors-protocol).

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};

use super::reply::BoxedResponse;

/// The methods of requests at the server's path.
const METHODS: &str = "GET, POST, DELETE";

/// The protocol's request headers, in addition to those that a page may always set.
const REQUEST_HEADERS: &str = "authorization, content-type, last-event-id, mcp-method, mcp-name, \
                               mcp-protocol-version, mcp-session-id";

/// The response headers that a client reads, in addition to those that a page may always read.
const ANSWER_HEADERS: &str = "mcp-protocol-version, mcp-session-id, www-authenticate";

/// The seconds for which a browser may cache the answer.
const MAX_AGE: &str = "600";

/// Returns whether this is a preflight request: a browser asks if a page may send another request.
pub(super) fn is_preflight(head: &Parts) -> bool {
    head.method == Method::OPTIONS && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the answer to a preflight request. A browser sends no token with it.
pub(super) fn preflight() -> BoxedResponse {
    let mut reply = Response::new(Full::new(Bytes::new()).boxed());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ] {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Returns an answer that a page of this origin may read.
pub(super) fn readable(mut reply: BoxedResponse, origin: HeaderValue) -> BoxedResponse {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(ANSWER_HEADERS));
    // A cache must not give the answer to a page of another origin.
    headers.append(VARY, HeaderValue::from_static("origin"));
    reply
}
