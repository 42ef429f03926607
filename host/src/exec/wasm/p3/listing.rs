//! The entries of directories as streams of WASI 0.3, instead of wasmtime's own, which read a
//! directory as far as the guest has room for entries.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Destination, FutureReader, Linker, Resource, StreamProducer, StreamReader, StreamResult,
    VecBuffer,
};
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as OldCode;
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};

use super::counted::one_more;
use super::streams::ended;
use super::translation::{descriptor_type, error_code, to_error_code};
use super::{FILES, poll_turn};
use crate::exec::wasm::guest_listing::GuestListing;
use crate::exec::wasm::listing;
use crate::exec::wasm::state::GuestState;
use crate::exec::wasm::stream_count::CountedStream;

/// The most entries that are read at once, for a guest with room for more.
const ENTRIES: usize = 64;

/// The stream of a directory's entries, and its end.
type Listed = (StreamReader<DirectoryEntry>, FutureReader<Result<(), ErrorCode>>);

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.instance(FILES)?.func_wrap(
        "[method]descriptor.read-directory",
        |store, (directory,): (Resource<Descriptor>,)| Ok((read_directory(store, &directory)?,)),
    )
}

fn read_directory(
    mut store: StoreContextMut<'_, GuestState>,
    directory: &Resource<Descriptor>,
) -> wasmtime::Result<Listed> {
    let state = store.data_mut();
    match begin(state, directory) {
        Ok((listing, stream)) => {
            let (end, ends) = oneshot::channel();
            let entries =
                Entries { listing, end: Some(end), is_incomplete: false, _stream: stream };
            let entries = StreamReader::new(&mut store, entries)?;
            Ok((entries, FutureReader::new(&mut store, ends)?))
        }
        Err(error) => ended(store, to_error_code(error)?),
    }
}

fn begin(
    state: &mut GuestState,
    directory: &Resource<Descriptor>,
) -> FsResult<(GuestListing, CountedStream)> {
    let stream = one_more(state).ok_or(OldCode::InsufficientMemory)?;
    Ok((listing::begin(state, directory)?, stream))
}

/// A directory that is read as the guest asks for entries.
struct Entries {
    listing: GuestListing,
    end: Option<oneshot::Sender<Result<(), ErrorCode>>>,
    /// True after a name that WASI cannot express. The other names follow it.
    is_incomplete: bool,
    _stream: CountedStream,
}

impl Entries {
    fn end(&mut self, result: Result<(), ErrorCode>) {
        if let Some(end) = self.end.take() {
            // A guest that dropped the future does not want to know.
            let _ = end.send(result);
        }
    }

    /// Reads at most this number of names. Returns true at the end of the directory.
    fn read(&mut self, most: usize) -> wasmtime::Result<(Vec<DirectoryEntry>, bool)> {
        let mut read = Vec::new();
        for _ in 0..most {
            match listing::next_entry(&mut self.listing) {
                Ok(Some(entry)) => read
                    .push(DirectoryEntry { type_: descriptor_type(entry.type_), name: entry.name }),
                Ok(None) => {
                    let names = OldCode::IllegalByteSequence;
                    self.end(if self.is_incomplete { Err(error_code(names)) } else { Ok(()) });
                    return Ok((read, true));
                }
                Err(error) => match error.downcast()? {
                    OldCode::IllegalByteSequence => self.is_incomplete = true,
                    code => {
                        self.end(Err(error_code(code)));
                        return Ok((read, true));
                    }
                },
            }
        }
        Ok((read, false))
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        self.end(Ok(()));
    }
}

impl StreamProducer<GuestState> for Entries {
    type Item = DirectoryEntry;
    type Buffer = VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut store: StoreContextMut<'a, GuestState>,
        mut destination: Destination<'a, Self::Item, Self::Buffer>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let room = destination.remaining(&mut store).unwrap_or(ENTRIES);
        if room == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        match poll_turn(context) {
            Poll::Pending if finish => return Poll::Ready(Ok(StreamResult::Cancelled)),
            Poll::Pending => return Poll::Pending,
            Poll::Ready(()) => {}
        }
        let (read, is_over) = self.read(room.min(ENTRIES))?;
        if read.is_empty() && !is_over {
            // A directory full of names that WASI cannot express must not hold the thread.
            context.waker().wake_by_ref();
            return if finish { Poll::Ready(Ok(StreamResult::Cancelled)) } else { Poll::Pending };
        }
        destination.set_buffer(read.into());
        Poll::Ready(Ok(if is_over { StreamResult::Dropped } else { StreamResult::Completed }))
    }
}
