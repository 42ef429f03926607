//! The streams of files, and `write` of `wasi:io/streams`, instead of wasmtime's own.
//!
//! A stream of a file has a buffer in the host, for what was read ahead or is still to be written.
//! With wasmtime's own calls, a guest can make as many as the table has entries, and no limit
//! counts their buffers. Here they count into the memory of the guest.
//!
//! A guest may write as much as `check-write` permits. wasmtime leaves the check to each stream. A
//! file takes any size, and keeps it in the host until a thread has written it. Here every stream
//! is checked, before anything is copied.

use bytes::Bytes;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, WasmList};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::filesystem::{WasiFilesystemCtxView, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, HostDescriptor as _};
use wasmtime_wasi::p2::bindings::io::streams::{Host as _, StreamError};
use wasmtime_wasi::p2::{DynOutputStream, FsResult};

use super::paths::answer;
use super::places::Handle;
use super::state::GuestState;

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance("wasi:io/streams@0.2.12")?.func_wrap(
        "[method]output-stream.write",
        |store, (stream, bytes): (Resource<DynOutputStream>, WasmList<u8>)| {
            Ok((write(store, &stream, &bytes)?,))
        },
    )?;
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    types.func_wrap(
        "[method]descriptor.read-via-stream",
        |mut store, (file, offset): (Handle, u64)| {
            answer(open(store.data_mut(), |files| files.read_via_stream(file, offset)))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store, (file, offset): (Handle, u64)| {
            answer(open(store.data_mut(), |files| files.write_via_stream(file, offset)))
        },
    )?;
    types.func_wrap("[method]descriptor.append-via-stream", |mut store, (file,): (Handle,)| {
        answer(open(store.data_mut(), |files| files.append_via_stream(file)))
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns a new stream of a file, if there is memory for its buffer.
pub(super) fn open<T>(
    state: &mut GuestState,
    make: impl FnOnce(&mut WasiFilesystemCtxView<'_>) -> FsResult<T>,
) -> FsResult<T> {
    if !state.may_stream(1) {
        return Err(ErrorCode::InsufficientMemory.into());
    }
    make(&mut state.filesystem())
}

fn write(
    mut store: StoreContextMut<'_, GuestState>,
    stream: &Resource<DynOutputStream>,
    bytes: &WasmList<u8>,
) -> wasmtime::Result<Result<(), StreamError>> {
    let permitted = store.data_mut().ctx().table.get_mut(stream)?.check_write();
    if let Ok(most) = permitted
        && bytes.len() > most
    {
        let length = bytes.len();
        return Err(wasmtime::Error::msg(format!(
            "a write of {length} bytes is not permitted; `check-write` permits {most}"
        )));
    }
    let written = match permitted {
        Ok(_) => {
            let bytes = Bytes::copy_from_slice(bytes.as_le_slice(&store));
            store.data_mut().ctx().table.get_mut(stream)?.write(bytes)
        }
        Err(error) => Err(error),
    };
    match written {
        Ok(()) => Ok(Ok(())),
        Err(error) => Ok(Err(store.data_mut().ctx().table.convert_stream_error(error)?)),
    }
}
