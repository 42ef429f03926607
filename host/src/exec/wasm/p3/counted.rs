//! The streams of WASI 0.3 that count as handles, from their start to their end.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{FutureConsumer, FutureReader, Lift, Lower, Source};

use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::stream_count::CountedStream;

/// Returns a stream that counts, if the guest may have one more.
pub(super) fn one_more(state: &mut GuestState) -> Option<CountedStream> {
    let may = state.may_open() && state.may_stream(1);
    may.then(|| state.streams.enter())
}

/// Counts a stream until this future, which wasmtime resolves at the end of the stream, has its
/// value. Returns a future with that value for the guest.
pub(super) fn until_end<T>(
    mut store: StoreContextMut<'_, GuestState>,
    end: FutureReader<T>,
    stream: CountedStream,
) -> wasmtime::Result<FutureReader<T>>
where
    T: Lift + Lower + Send + Sync + Unpin + 'static,
{
    let (sender, value) = oneshot::channel();
    end.pipe(&mut store, StreamEnd { value: Some(sender), _stream: stream })?;
    FutureReader::new(&mut store, value)
}

/// The receiver of the value of a stream's end.
struct StreamEnd<T> {
    value: Option<oneshot::Sender<T>>,
    _stream: CountedStream,
}

impl<T: Lift + Send + Unpin + 'static> FutureConsumer<GuestState> for StreamEnd<T> {
    type Item = T;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, GuestState>,
        mut source: Source<'_, T>,
        _: bool,
    ) -> Poll<wasmtime::Result<()>> {
        let mut value = None;
        source.read(store, &mut value)?;
        if let (Some(value), Some(sender)) = (value, self.value.take()) {
            // A guest that dropped its future does not learn how the stream ended.
            let _ = sender.send(value);
        }
        Poll::Ready(Ok(()))
    }
}
