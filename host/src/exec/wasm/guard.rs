//! The places that other programs execute, to which a guest may not write unless its grant names them.
//!
//! A place is known by the path that the kernel has for its directory, whatever way led there. A guest that
//! would write to one waits while a person is asked, where somebody can be.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use ikigai_protocol::Access;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::hidden::path_of;
use super::paths::Location;
use super::state::State;
use crate::policy::{Grant, Reached};

/// The guarded places of one call.
pub(super) struct Guard {
    grant: Arc<Grant>,
    /// The places that a person allowed.
    allowed: Vec<PathBuf>,
}

impl Guard {
    pub(super) fn new(grant: &Arc<Grant>) -> Self {
        Self { grant: Arc::clone(grant), allowed: Vec::new() }
    }

    /// Returns the guarded place that a name in an open directory is, or lies in.
    pub(super) fn place(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Option<PathBuf>> {
        if !self.grant.reserved.guards() {
            return Ok(None);
        }
        let place = self.grant.reserved.executed_place(&path_of(dir, name)?);
        Ok(place.filter(|place| !self.allowed.contains(place)))
    }
}

/// Fails if a write to a location would change a guarded place.
pub(super) async fn check(state: &mut State, location: &Location) -> FsResult<()> {
    let dir = match state.filesystem().table.get(&location.dir())? {
        Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        // wasmtime returns the right error.
        Descriptor::File(_) => return Ok(()),
    };
    let place = state.guard.place(dir.as_fd(), &location.name());
    let Some(place) = place.map_err(|_| ErrorCode::Access)? else { return Ok(()) };
    if let Some(held) = &state.held {
        let widening = Arc::clone(&held.widening);
        let reached = Reached::Path { access: Access::ReadWrite, path: place.clone() };
        if widening.may(reached).await {
            state.guard.allowed.push(place);
            return Ok(());
        }
    }
    Err(ErrorCode::Access.into())
}
