//! The check that a guest's writes change no guarded place.
//!
//! A guest that would write to a place waits while the user is asked, if the front end can ask.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ikigai_protocol::Access;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::hidden::{path_of, real_path};
use super::paths::location::Location;
use super::places::{Handle, HandleOrigin};
use super::state::GuestState;
use crate::policy::RequestedAccess;

/// Fails if a write to a location would change a guarded place. `asked` is the path that led to the
/// location.
pub(super) async fn check(
    state: &mut GuestState,
    location: &Location,
    (from, asked): (&Handle, &str),
) -> FsResult<()> {
    let dir = match state.filesystem().table.get(&location.dir())? {
        Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        // wasmtime returns the right error.
        Descriptor::File(_) => return Ok(()),
    };
    let path = path(state, location)?;
    if state.guard.is_of_a_rebase(&path) || has_left(state, location.origin(), &path) {
        return Err(ErrorCode::Access.into());
    }
    let place = state.guard.place(dir.as_fd(), &location.name());
    let place = match place.map_err(|_| ErrorCode::Access)? {
        Some(place) => place,
        None => match place_on_the_way(state, from, asked)? {
            Some(place) => place,
            None => return Ok(()),
        },
    };
    if may_change(state, place).await { Ok(()) } else { Err(ErrorCode::Access.into()) }
}

/// Returns the guarded place that has a link on the way of a path. A program that executes the place
/// follows the link.
pub(super) fn place_on_the_way(
    state: &mut GuestState,
    from: &Handle,
    asked: &str,
) -> FsResult<Option<PathBuf>> {
    if !state.guard.grant.reserved.guards() {
        return Ok(None);
    }
    let start = match state.filesystem().table.get(from)? {
        Descriptor::Dir(dir) => real_path(dir.dir.as_fd()).map_err(|_| ErrorCode::Access)?,
        Descriptor::File(_) => return Ok(None),
    };
    let path = start.join(asked.trim_end_matches('/'));
    Ok(state.guard.place_with_link(&path).map_err(|_| ErrorCode::Access)?)
}

/// Asks whether the guest may change a guarded place.
pub(super) async fn may_change(state: &mut GuestState, place: PathBuf) -> bool {
    let reached = RequestedAccess::Path { access: Access::ReadWrite, path: place.clone() };
    let may = state.may_access(reached).await;
    if may {
        state.guard.allowed.push(place);
    }
    may
}

/// Fails if a link with this text may not be made at a location.
pub(super) fn check_link(state: &mut GuestState, location: &Location, text: &str) -> FsResult<()> {
    let path = path(state, location)?;
    if state.guard.may_link(&path, Path::new(text)) {
        Ok(())
    } else {
        Err(ErrorCode::Access.into())
    }
}

/// Returns whether a path does not lie in the granted directory through which it was reached,
/// because another program renamed that directory. Its places are then unknown.
pub(super) fn has_left(state: &GuestState, origin: Option<HandleOrigin>, path: &Path) -> bool {
    let place = origin.and_then(|origin| state.places.place(origin));
    // Granted files, and paths that the user allowed, are known by themselves.
    let place = place.filter(|place| place.base.is_some() && state.guard.grant.reserved.guards());
    place.is_some_and(|place| !path.starts_with(&place.root))
}

/// Returns the path that the kernel has for a location.
fn path(state: &mut GuestState, location: &Location) -> FsResult<PathBuf> {
    match state.filesystem().table.get(&location.dir())? {
        Descriptor::Dir(dir) => {
            Ok(path_of(dir.dir.as_fd(), &location.name()).map_err(|_| ErrorCode::Access)?)
        }
        Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
    }
}

/// Fails if a location may not get the name of another.
pub(super) fn check_move(state: &mut GuestState, old: &Location, new: &Location) -> FsResult<()> {
    let (old, new) = (path(state, old)?, path(state, new)?);
    if state.guard.may_move(&old, &new) { Ok(()) } else { Err(ErrorCode::Access.into()) }
}
