//! The places that other programs execute, to which a guest may not write unless its grant names them.
//!
//! A place is known by the path that the kernel has for its directory, whatever way led there. A guest that
//! would write to one waits while a person is asked, where somebody can be.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ikigai_protocol::Access;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::hidden::path_of;
use super::paths::Location;
use super::state::State;
use crate::exec::executed_links;
use crate::policy::{Grant, Reached};

/// The guarded places of one call.
pub(super) struct Guard {
    grant: Arc<Grant>,
    /// The places that a person allowed.
    allowed: Vec<PathBuf>,
    /// The targets of links in places, each with its place, found when the guest first writes.
    linked: OnceLock<Vec<(PathBuf, PathBuf)>>,
}

impl Guard {
    pub(super) fn new(grant: &Arc<Grant>) -> Self {
        Self { grant: Arc::clone(grant), allowed: Vec::new(), linked: OnceLock::new() }
    }

    /// Returns the guarded place that a name in an open directory is, or lies in.
    pub(super) fn place(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<Option<PathBuf>> {
        if !self.grant.reserved.guards() {
            return Ok(None);
        }
        let path = path_of(dir, name)?;
        let place = self.grant.reserved.executed_place(&path).or_else(|| {
            let linked = self.linked.get_or_init(|| executed_links::targets(&self.grant));
            let target = linked.iter().find(|(real, _)| path.starts_with(real));
            target.map(|(_, place)| place.clone())
        });
        Ok(place.filter(|place| !self.allowed.contains(place)))
    }

    /// Returns whether the grant names something in a directory: by another path the name would open another place.
    fn leads_to_named(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
        Ok(self.grant.reserved.guards() && self.grant.reserved.leads_to_named(&path_of(dir, name)?))
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

/// Fails if a location is a directory that may not be renamed, since the grant names something in it.
pub(super) fn check_move(state: &mut State, location: &Location) -> FsResult<()> {
    let dir = match state.filesystem().table.get(&location.dir())? {
        Descriptor::Dir(dir) => Arc::clone(&dir.dir),
        Descriptor::File(_) => return Ok(()),
    };
    match state.guard.leads_to_named(dir.as_fd(), &location.name()) {
        Ok(false) => Ok(()),
        Ok(true) | Err(_) => Err(ErrorCode::Access.into()),
    }
}
