//! The contents of files as streams of WASI 0.3, instead of wasmtime's own.
//!
//! A stream keeps its file open and counts as a handle. The bytes go between the file and the
//! memory of the guest, without a buffer in the host. A stream of a file that is passed to another
//! has a buffer of [`PIECE`] bytes.

use std::fs::File;
use std::io::{self, IoSlice};
use std::iter;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::{ReadWriteFlags, pwritev2};
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Destination, FutureReader, Lift, Linker, Lower, Source, StreamConsumer, StreamProducer,
    StreamReader, StreamResult, VecBuffer,
};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p3::bindings::filesystem::types::ErrorCode;

use super::counted::one_more;
use super::{FILES, poll_turn};
use crate::exec::wasm::places::Handle;
use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::stream_count::CountedStream;

/// The most bytes that one turn reads or writes: a guest may offer all its memory, and the thread
/// cannot be interrupted in between.
const MOST: usize = 1 << 20;

/// The size of the pieces between two streams of the host, in bytes.
const PIECE: usize = 64 << 10;

/// The result of a stream, for the guest.
type StreamEnd = FutureReader<Result<(), ErrorCode>>;

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    let mut types = linker.instance(FILES)?;
    types.func_wrap(
        "[method]descriptor.read-via-stream",
        |store, (file, offset): (Handle, u64)| Ok((read(store, &file, offset)?,)),
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |store, (file, bytes, offset): (Handle, StreamReader<u8>, u64)| {
            Ok((write(store, &file, bytes, Position::At(offset))?,))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |store, (file, bytes): (Handle, StreamReader<u8>)| {
            Ok((write(store, &file, bytes, Position::End)?,))
        },
    )
}

/// Returns a stream that has ended with this error.
pub(super) fn ended<T>(
    mut store: StoreContextMut<'_, GuestState>,
    code: ErrorCode,
) -> wasmtime::Result<(StreamReader<T>, StreamEnd)>
where
    T: Lower + Lift + Send + Sync + 'static,
{
    let nothing = StreamReader::new(&mut store, iter::empty())?;
    Ok((nothing, FutureReader::new(&mut store, async { wasmtime::error::Ok(Err(code)) })?))
}

/// Returns a file with the place of its stream, if the guest may have one more.
fn file(
    state: &mut GuestState,
    handle: &Handle,
    writes: bool,
) -> wasmtime::Result<Result<(Arc<File>, CountedStream), ErrorCode>> {
    let file = match state.filesystem().table.get(handle)? {
        Descriptor::File(file) if writes && file.perms.write_not_permitted() => {
            return Ok(Err(ErrorCode::NotPermitted));
        }
        Descriptor::File(file) => Arc::clone(&file.file),
        Descriptor::Dir(_) => return Ok(Err(ErrorCode::IsDirectory)),
    };
    Ok(one_more(state).map(|stream| (file, stream)).ok_or(ErrorCode::InsufficientMemory))
}

fn read(
    mut store: StoreContextMut<'_, GuestState>,
    handle: &Handle,
    offset: u64,
) -> wasmtime::Result<(StreamReader<u8>, StreamEnd)> {
    let (file, stream) = match file(store.data_mut(), handle, false)? {
        Ok(found) => found,
        Err(code) => return ended(store, code),
    };
    let (end, ends) = oneshot::channel();
    let reader = FileReader { file, offset, end: FileEnd(Some(end)), _stream: stream };
    let bytes = StreamReader::new(&mut store, reader)?;
    Ok((bytes, FutureReader::new(&mut store, ends)?))
}

fn write(
    mut store: StoreContextMut<'_, GuestState>,
    handle: &Handle,
    mut bytes: StreamReader<u8>,
    at: Position,
) -> wasmtime::Result<StreamEnd> {
    match file(store.data_mut(), handle, true)? {
        Ok((file, stream)) => {
            let (end, ends) = oneshot::channel();
            let writer = FileWriter { file, at, end: FileEnd(Some(end)), _stream: stream };
            bytes.pipe(&mut store, writer)?;
            FutureReader::new(&mut store, ends)
        }
        Err(code) => {
            bytes.close(&mut store)?;
            FutureReader::new(&mut store, async { wasmtime::error::Ok(Err(code)) })
        }
    }
}

/// The sender of a stream's result. A stream that the guest drops ends well.
struct FileEnd(Option<oneshot::Sender<Result<(), ErrorCode>>>);

impl FileEnd {
    fn send(&mut self, result: Result<(), ErrorCode>) -> StreamResult {
        if let Some(sender) = self.0.take() {
            // A guest that dropped the future does not want to know.
            let _ = sender.send(result);
        }
        StreamResult::Dropped
    }
}

impl Drop for FileEnd {
    fn drop(&mut self) {
        self.send(Ok(()));
    }
}

/// Returns the place after `count` bytes.
fn after(offset: u64, count: usize) -> Result<u64, ErrorCode> {
    offset.checked_add(count as u64).ok_or(ErrorCode::Overflow)
}

/// A file that is read as the guest asks for bytes.
struct FileReader {
    file: Arc<File>,
    offset: u64,
    end: FileEnd,
    _stream: CountedStream,
}

impl FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        let most = buffer.len().min(MOST);
        let count = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset = after(self.offset, count)?;
        Ok(count)
    }
}

impl StreamProducer<GuestState> for FileReader {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        store: StoreContextMut<'a, GuestState>,
        destination: Destination<'a, u8, Self::Buffer>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        match poll_turn(context) {
            Poll::Pending if finish => return Poll::Ready(Ok(StreamResult::Cancelled)),
            Poll::Pending => return Poll::Pending,
            Poll::Ready(()) => {}
        }
        let mut destination = destination.as_direct(store, PIECE);
        let buffer = destination.remaining();
        if buffer.is_empty() {
            // The guest asks whether there is something to read.
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        Poll::Ready(Ok(match self.read(buffer) {
            Ok(0) => self.end.send(Ok(())),
            Ok(count) => {
                destination.mark_written(count);
                StreamResult::Completed
            }
            Err(code) => self.end.send(Err(code)),
        }))
    }
}

/// The place in a file that is written next.
enum Position {
    At(u64),
    End,
}

/// A file that is written as bytes come from the guest.
struct FileWriter {
    file: Arc<File>,
    at: Position,
    end: FileEnd,
    _stream: CountedStream,
}

impl FileWriter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorCode> {
        let bytes = &bytes[..bytes.len().min(MOST)];
        match &mut self.at {
            Position::At(offset) => {
                let count = self.file.write_at(bytes, *offset)?;
                *offset = after(*offset, count)?;
                Ok(count)
            }
            Position::End => {
                let bytes = [IoSlice::new(bytes)];
                let count = pwritev2(&*self.file, &bytes, 0, ReadWriteFlags::APPEND);
                Ok(count.map_err(io::Error::from)?)
            }
        }
    }
}

impl StreamConsumer<GuestState> for FileWriter {
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
        if bytes.is_empty() {
            // The guest asks whether it may write.
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        Poll::Ready(Ok(match self.write(bytes) {
            Ok(count) => {
                source.mark_read(count);
                StreamResult::Completed
            }
            Err(code) => self.end.send(Err(code)),
        }))
    }
}
