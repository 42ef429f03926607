//! The events of a response, within a bound on each.

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use reqwest::Response;
use sse_stream::{Error, Sse, SseStream};

use super::requests::{HttpError, MAX_BODY};

/// Returns the events of a response.
pub(super) fn events(response: Response) -> BoxStream<'static, Result<Sse, Error>> {
    SseStream::from_bytes_stream(bounded(chunks(response), MAX_BODY)).boxed()
}

fn chunks(response: Response) -> impl Stream<Item = Result<Bytes, HttpError>> + Send {
    futures_util::stream::unfold(Some(response), |response| async {
        let mut response = response?;
        match response.chunk().await {
            Ok(Some(chunk)) => Some((Ok(chunk), Some(response))),
            Ok(None) => None,
            Err(_) => Some((Err(HttpError::Failed("a response broke off".to_owned())), None)),
        }
    })
}

/// Ends a stream with an error if more than `most` bytes arrive before an event ends.
fn bounded(
    chunks: impl Stream<Item = Result<Bytes, HttpError>> + Send,
    most: usize,
) -> impl Stream<Item = Result<Bytes, HttpError>> + Send {
    let mut open = 0;
    let mut is_line_empty = false;
    let mut has_failed = false;
    chunks
        .map(move |chunk| {
            let chunk = chunk?;
            for byte in &chunk {
                open += 1;
                match byte {
                    b'\n' if is_line_empty => open = 0,
                    b'\n' => is_line_empty = true,
                    b'\r' => {}
                    _ => is_line_empty = false,
                }
            }
            if open > most {
                return Err(HttpError::Failed(format!("an event has more than {most} bytes")));
            }
            Ok(chunk)
        })
        .take_while(move |chunk| {
            // The error itself is the last item.
            let is_open = !std::mem::replace(&mut has_failed, chunk.is_err());
            std::future::ready(is_open)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(chunks: &[&'static str]) -> Vec<Result<String, String>> {
        let chunks = chunks.iter().map(|it| Ok(Bytes::from_static(it.as_bytes())));
        let chunks = futures_util::stream::iter(chunks.collect::<Vec<_>>());
        let events = SseStream::from_bytes_stream(bounded(chunks, 20));
        events
            .map(|event| match event {
                Ok(event) => Ok(event.data.unwrap_or_default()),
                Err(error) => Err(error.to_string()),
            })
            .collect()
            .await
    }

    #[tokio::test]
    async fn events_are_bounded_each_by_itself() {
        let found = read(&["data: one\n\nda", "ta: two\r\n\r\n", "data: three\n\n"]).await;
        assert_eq!(found, ["one", "two", "three"].map(|it| Ok(it.to_owned())));
        let found = read(&["data: one\n\n", "data: 0123456789", "0123456789", "\n\n"]).await;
        assert_eq!(found[0], Ok("one".to_owned()));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].as_ref().is_err_and(|it| it.contains("more than 20 bytes")), "{found:?}");
    }
}
