//! `write` of `wasi:io/streams`, instead of wasmtime's own.
//!
//! A guest may write as much as `check-write` permits. wasmtime leaves the check to each stream. A
//! file takes any size, and keeps it in the host until a thread has written it. Here every stream
//! is checked, before anything is copied.

use bytes::Bytes;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, WasmList};
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::p2::DynOutputStream;
use wasmtime_wasi::p2::bindings::io::streams::{Host as _, StreamError};

use super::state::GuestState;

pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker.instance("wasi:io/streams@0.2.12")?.func_wrap(
        "[method]output-stream.write",
        |store, (stream, bytes): (Resource<DynOutputStream>, WasmList<u8>)| {
            Ok((write(store, &stream, &bytes)?,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
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
