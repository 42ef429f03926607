//! The body of a request: its length, its time, and the memory of all bodies that are read at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use rmcp::model::ErrorData;

use super::reply::{HttpRefusal, refused, unread};
use crate::wire::{MalformedMessage, MessageBody};

/// The longest body in bytes.
pub(super) const MAX_BODY: usize = 4 << 20;

/// The maximum total size of all bodies that are being read, in bytes.
const MAX_READING: usize = 128 << 20;

/// The total size of all bodies that are being read, in bytes.
#[derive(Debug, Default)]
pub(super) struct BodyMemory(AtomicUsize);

/// One body's share of that total. Dropping it returns the share.
struct BodyShare<'a> {
    reading: &'a BodyMemory,
    bytes: usize,
}

impl Drop for BodyShare<'_> {
    fn drop(&mut self) {
        self.reading.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl BodyShare<'_> {
    /// Adds bytes to the share, and returns whether the total still allows them.
    fn grow(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.reading.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= MAX_READING
    }
}

impl BodyMemory {
    /// Reads the body of a request.
    ///
    /// # Errors
    ///
    /// Returns the answer to send if the body is too long, takes longer than `within`, or is not a
    /// message.
    pub(super) async fn read(
        &self,
        body: Incoming,
        within: Duration,
    ) -> Result<MessageBody, HttpRefusal> {
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_long());
        }
        let late = |_| unread(StatusCode::REQUEST_TIMEOUT, "the body came too slowly");
        let whole = tokio::time::timeout(within, self.collect(body)).await.map_err(late)??;
        MessageBody::parse(&whole).map_err(|it| {
            let MalformedMessage { error, id } = *it;
            refused(StatusCode::BAD_REQUEST, error, id)
        })
    }

    async fn collect(&self, mut body: Incoming) -> Result<Bytes, HttpRefusal> {
        let mut share = BodyShare { reading: self, bytes: 0 };
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                tracing::debug!("a body was not read to its end: {error}");
                unread(StatusCode::BAD_REQUEST, "the body is malformed or cut off")
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if whole.len() + data.len() > MAX_BODY {
                return Err(too_long());
            }
            if !share.grow(data.len()) {
                let reason = "too many bodies are being read; try again";
                return Err(unread(StatusCode::SERVICE_UNAVAILABLE, reason));
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }
}

fn too_long() -> HttpRefusal {
    let message = format!("the body has more than {MAX_BODY} bytes");
    refused(StatusCode::PAYLOAD_TOO_LARGE, ErrorData::invalid_request(message, None), None)
}
