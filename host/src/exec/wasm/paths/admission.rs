//! The admission of opened files to a guest's table: it keeps what the guest may have.

use std::os::fd::AsFd as _;

use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use crate::exec::wasm::ordinary::is_allowed;
use crate::exec::wasm::places::{Handle, HandleOrigin};
use crate::exec::wasm::state::GuestState;

/// Adds what was opened to the table.
pub(super) fn push(state: &mut GuestState, opened: Descriptor) -> FsResult<Handle> {
    let pushed = state.filesystem().table.push(opened);
    pushed.map_err(|_| ErrorCode::InsufficientMemory.into())
}

/// Keeps what was opened by its name if the guest may have it, and closes it otherwise.
pub(in crate::exec::wasm) fn keep(
    state: &mut GuestState,
    opened: Handle,
    origin: Option<HandleOrigin>,
) -> FsResult<Handle> {
    let files = state.filesystem();
    let is_usable = match files.table.get(&opened)? {
        Descriptor::File(file) => is_allowed(file.file.as_fd()),
        Descriptor::Dir(dir) => is_allowed(dir.dir.as_fd()),
    };
    if !is_usable {
        files.table.delete(opened)?;
        return Err(ErrorCode::Access.into());
    }
    admit(state, opened, origin)
}

/// Keeps what was opened if it is not hidden, and closes it otherwise.
pub(super) fn admit(
    state: &mut GuestState,
    opened: Handle,
    origin: Option<HandleOrigin>,
) -> FsResult<Handle> {
    let hidden = state.hidden.clone();
    let root = hidden.as_ref().and(origin).and_then(|origin| state.places.place(origin));
    let root = root.map(|place| place.root.clone());
    let files = state.filesystem();
    let descriptor = files.table.get(&opened)?;
    let (file, is_dir) = match descriptor {
        Descriptor::File(file) => (file.file.as_fd(), false),
        Descriptor::Dir(dir) => (dir.dir.as_fd(), true),
    };
    let is_seen = match (&hidden, &root) {
        (Some(hidden), Some(root)) => hidden.check_open(root, file).is_ok(),
        _ => true,
    };
    if !is_seen {
        files.table.delete(opened)?;
        return Err(ErrorCode::Access.into());
    }
    if is_dir && let Some(origin) = origin {
        state.places.note(opened.rep(), origin);
    }
    Ok(opened)
}
