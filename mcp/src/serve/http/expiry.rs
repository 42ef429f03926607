//! The end of a stream of events when the token of its request expires.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use tokio::time::Sleep;

use super::reply::BoxedResponse;

/// A body that ends at a time, even if there would be more of it.
struct ExpiringBody {
    inner: BoxBody<Bytes, Infallible>,
    at: SystemTime,
    timer: Pin<Box<Sleep>>,
}

impl Body for ExpiringBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The timer does not count the time for which the machine was suspended.
        if SystemTime::now() >= self.at || self.timer.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Returns the answer with a body that ends at this time, if there is one.
pub(super) fn ending(answer: BoxedResponse, at: Option<SystemTime>) -> BoxedResponse {
    let Some(at) = at else { return answer };
    let left = at.duration_since(SystemTime::now()).unwrap_or_default();
    let timer = Box::pin(tokio::time::sleep(left));
    answer.map(|inner| ExpiringBody { inner, at, timer }.boxed())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, stream};
    use http::Response;
    use http_body_util::StreamBody;

    use super::*;

    /// Returns an answer that sends one event and then nothing, but never ends.
    fn endless() -> BoxedResponse {
        let event = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"event")));
        let events = stream::iter([event]).chain(stream::pending());
        Response::new(http_body_util::BodyExt::boxed(StreamBody::new(events)))
    }

    #[tokio::test]
    async fn a_stream_ends_with_the_token_of_its_request() {
        let now = SystemTime::now();
        let expired = ending(endless(), Some(now)).into_body().collect().await.expect("a body");
        assert!(expired.to_bytes().is_empty());
        let soon = Some(now + Duration::from_millis(20));
        let ended = ending(endless(), soon).into_body().collect().await.expect("a body");
        assert!(matches!(&*ended.to_bytes(), b"event" | b""), "it ended");
        let mut body = ending(endless(), Some(now + Duration::from_secs(3600))).into_body();
        let first = body.frame().await.expect("a frame").expect("an event");
        assert_eq!(first.into_data().expect("data"), "event");
    }
}
