//! The stdout and stderr of WASI 0.3, instead of wasmtime's own, which tell a guest that its stream
//! is broken if the output is too long. The call ends there, as in WASI 0.2.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    FutureReader, Linker, Source, StreamConsumer, StreamReader, StreamResult,
};
use wasmtime_wasi::p3::bindings::cli::types::ErrorCode;

use super::poll_turn;
use crate::exec::output::{Pipe, PipeError};
use crate::exec::wasm::state::{GuestOutputs, GuestState};
use crate::exec::wasm::stdio::{FULL, WRITE_PERMIT};

/// One of the two outputs of a guest.
type OutputOf = fn(&GuestOutputs) -> &Pipe;

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let streams: [(&str, OutputOf); 2] = [
        ("wasi:cli/stdout@0.3.0", |outputs| &outputs.stdout),
        ("wasi:cli/stderr@0.3.0", |outputs| &outputs.stderr),
    ];
    for (interface, pipe) in streams {
        linker.instance(interface)?.func_wrap(
            "write-via-stream",
            move |mut store: StoreContextMut<'_, GuestState>, (bytes,): (StreamReader<u8>,)| {
                let pipe = pipe(&store.data().outputs).clone();
                let (end, ends) = oneshot::channel();
                bytes.pipe(&mut store, Output { pipe, end: Some(end) })?;
                Ok((FutureReader::new(&mut store, ends)?,))
            },
        )?;
    }
    Ok(())
}

/// An output stream of a call.
struct Output {
    pipe: Pipe,
    end: Option<oneshot::Sender<Result<(), ErrorCode>>>,
}

impl Output {
    fn end(&mut self, result: Result<(), ErrorCode>) {
        if let Some(end) = self.end.take() {
            // A guest that dropped the future does not want to know.
            let _ = end.send(result);
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.end(Ok(()));
    }
}

impl StreamConsumer<GuestState> for Output {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        store: StoreContextMut<'_, GuestState>,
        source: Source<'_, u8>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        match poll_turn(context) {
            Poll::Pending if finish => return Poll::Ready(Ok(StreamResult::Cancelled)),
            Poll::Pending => return Poll::Pending,
            Poll::Ready(()) => {}
        }
        let mut source = source.as_direct(store);
        let bytes = source.remaining();
        let most = bytes.len().min(WRITE_PERMIT);
        match self.pipe.write(&bytes[..most]) {
            Ok(()) => {
                source.mark_read(most);
                Poll::Ready(Ok(StreamResult::Completed))
            }
            Err(PipeError::Full) => Poll::Ready(Err(wasmtime::Error::msg(FULL))),
            Err(PipeError::Broken(_)) => {
                self.end(Err(ErrorCode::Pipe));
                Poll::Ready(Ok(StreamResult::Dropped))
            }
        }
    }
}
