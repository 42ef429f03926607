//! Google's Gemini API, `v1beta`: <https://ai.google.dev/api/generate-content>, streamed as
//! server-sent events, each a whole response with the next parts.

mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::Stream;

/// What goes back beside a call: the members of its part and the id of its provider. Written by
/// the stream, read by the request.
mod blob {
    /// On the part of a text, a thought or a call.
    pub(super) const SIGNATURE: &str = "thoughtSignature";
    /// Within the call and its result. The id of this crate stays here: where Google sends
    /// none, it wants none.
    pub(super) const ID: &str = "id";
}
