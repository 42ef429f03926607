//! The places that other programs execute, to which a guest may not write unless its grant names them.
//!
//! A place is known by the path that the kernel has for its directory, whatever way led there. A guest that
//! would write to one waits while a person is asked, where somebody can be.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ikigai_protocol::Access;
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use super::hidden::path_of;
use super::paths::Location;
use super::state::State;
use crate::exec::executed_links;
use crate::policy::{GIT, Grant, Reached};

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
            let target = self.linked().iter().find(|(real, _)| path.starts_with(real));
            // What the grant names in it is open.
            let target = target.filter(|(real, _)| !self.grant.reserved.opens(real, &path));
            target.map(|(_, place)| place.clone())
        });
        Ok(place.filter(|place| !self.allowed.contains(place)))
    }

    fn linked(&self) -> &[(PathBuf, PathBuf)] {
        self.linked.get_or_init(|| executed_links::targets(&self.grant))
    }

    /// Returns whether a file or directory may be renamed. A directory may not if the grant names something in it, if
    /// a link in a place leads into it, or if it leaves a repository, in which other names are free.
    fn may_move(&self, old: &Path, new: &Path) -> bool {
        if !self.grant.reserved.guards() {
            return true;
        }
        let is_git = |dir: &&Path| dir.file_name().is_some_and(|it| it.eq_ignore_ascii_case(GIT));
        let is_in_git = |path: &Path| path.ancestors().any(|dir| is_git(&dir));
        let is_closed = |git: &Path| !self.grant.reserved.opens(git, old);
        let leaves_git = !is_in_git(new) && old.ancestors().filter(is_git).any(is_closed);
        let leads_to_named = |path: &Path| self.grant.reserved.leads_to_named(path);
        let holds_target = || self.linked().iter().any(|(real, _)| real.starts_with(old));
        let changes_place =
            leads_to_named(old) || leads_to_named(new) || leaves_git || holds_target();
        !changes_place
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

/// Fails if a location may not get the name of another.
pub(super) fn check_move(state: &mut State, old: &Location, new: &Location) -> FsResult<()> {
    let mut path = |location: &Location| -> FsResult<PathBuf> {
        match state.filesystem().table.get(&location.dir())? {
            Descriptor::Dir(dir) => {
                Ok(path_of(dir.dir.as_fd(), &location.name()).map_err(|_| ErrorCode::Access)?)
            }
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    };
    let (old, new) = (path(old)?, path(new)?);
    if state.guard.may_move(&old, &new) { Ok(()) } else { Err(ErrorCode::Access.into()) }
}
