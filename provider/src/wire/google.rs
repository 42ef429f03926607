//! Google's Gemini API, `v1beta`: <https://ai.google.dev/api/generate-content>, streamed as
//! server-sent events, each a response with the next parts.

mod request;
mod stream;

pub(super) use request::outgoing;
pub(super) use stream::GoogleStream;

/// The members of a [`Blob`](crate::Blob). The stream writes them, the request reads them.
mod blob {
    /// The signature of a text, a thought or a call.
    pub(super) const SIGNATURE: &str = "thoughtSignature";
    /// Google's id of a call, which its result has too. If Google sends no id, it accepts none, so
    /// the id of this crate is never sent.
    pub(super) const ID: &str = "id";
}
