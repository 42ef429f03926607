//! The places that other programs execute, to which a guest may not write unless its grant names
//! them.
//!
//! A place is known by the path that the kernel has for its directory, however the guest got there.
//! A guest that would write to a place waits while the user is asked, if the front end can ask.

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
use super::places::HandleOrigin;
use super::state::GuestState;
use crate::exec::executed_links;
use crate::policy::{GIT, Grant, RequestedAccess};

/// The directories of a repository that have the commands of a rebase that is continued later. A
/// component does not run git, so it has no use for them.
const OF_A_REBASE: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// The guarded places of one call.
pub(super) struct Guard {
    grant: Arc<Grant>,
    /// The places that the user allowed.
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
            // Names in it that the grant lists are open.
            let target = target.filter(|(real, _)| !self.grant.reserved.opens(real, &path));
            target.map(|(_, place)| place.clone())
        });
        Ok(place.filter(|place| !self.allowed.contains(place)))
    }

    /// Returns whether a path is, or lies in, the directory of a rebase, in a repository that the
    /// grant does not name.
    pub(super) fn is_of_a_rebase(&self, path: &Path) -> bool {
        let reserved = &self.grant.reserved;
        let place = of_a_rebase(path).filter(|_| reserved.guards());
        place.is_some_and(|place| !place.ancestors().any(|dir| reserved.names(dir) && is_git(dir)))
    }

    fn linked(&self) -> &[(PathBuf, PathBuf)] {
        self.linked.get_or_init(|| executed_links::targets(&self.grant))
    }

    /// Returns whether a link in a place leads to something in this directory, which need not
    /// exist.
    fn holds_target(&self, dir: &Path) -> bool {
        self.linked().iter().any(|(real, _)| real.starts_with(dir))
    }

    /// Returns whether a link with this text may be made. A link into a repository would give its
    /// contents other names, which no rule protects. A link that replaces a directory would change
    /// the target of another link.
    fn may_link(&self, path: &Path, text: &Path) -> bool {
        let leads_in = text.iter().any(|name| name.eq_ignore_ascii_case(GIT));
        !self.grant.reserved.guards() || !leads_in && !self.holds_target(path)
    }

    /// Returns whether a file or directory may be renamed. A directory may not if the grant names
    /// something in it, or if a link in a place leads into it or into its new name. It may not
    /// leave a repository, either, because outside of one its names are free.
    fn may_move(&self, old: &Path, new: &Path) -> bool {
        if !self.grant.reserved.guards() {
            return true;
        }
        let is_in_git = |path: &Path| path.ancestors().any(is_git);
        let is_closed = |git: &Path| is_git(git) && !self.grant.reserved.opens(git, old);
        let leaves_git = !is_in_git(new) && old.ancestors().any(is_closed);
        let leads_to_named = |path: &Path| self.grant.reserved.leads_to_named(path);
        let changes_place = leads_to_named(old)
            || leads_to_named(new)
            || leaves_git
            || self.holds_target(old)
            || self.holds_target(new);
        !changes_place
    }
}

/// Fails if a write to a location would change a guarded place.
pub(super) async fn check(state: &mut GuestState, location: &Location) -> FsResult<()> {
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
    let Some(place) = place.map_err(|_| ErrorCode::Access)? else { return Ok(()) };
    if let Some(held) = &state.held {
        let widening = Arc::clone(&held.widening);
        let reached = RequestedAccess::Path { access: Access::ReadWrite, path: place.clone() };
        if widening.may(reached).await {
            state.guard.allowed.push(place);
            return Ok(());
        }
    }
    Err(ErrorCode::Access.into())
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

fn is_git(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT))
}

/// Returns the directory of a rebase that a path is, or lies in.
fn of_a_rebase(path: &Path) -> Option<PathBuf> {
    let is_named = |dir: &Path, known: &str| {
        dir.file_name().is_some_and(|name| name.eq_ignore_ascii_case(known))
    };
    let is_it = |dir: &&Path| {
        OF_A_REBASE.iter().any(|known| is_named(dir, known)) && dir.parent().is_some_and(is_git)
    };
    path.ancestors().find(is_it).map(Path::to_owned)
}

/// Fails if a location may not get the name of another.
pub(super) fn check_move(state: &mut GuestState, old: &Location, new: &Location) -> FsResult<()> {
    let (old, new) = (path(state, old)?, path(state, new)?);
    if state.guard.may_move(&old, &new) { Ok(()) } else { Err(ErrorCode::Access.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_rebase_is_known_in_a_repository_alone() {
        let place = |path: &str| of_a_rebase(Path::new(path)).map(|it| it.display().to_string());
        for (path, expected) in [
            ("/w/.git/rebase-merge", Some("/w/.git/rebase-merge")),
            ("/w/.GIT/Sequencer/todo", Some("/w/.GIT/Sequencer")),
            ("/w/rebase-merge/a", None),
        ] {
            assert_eq!(place(path).as_deref(), expected, "{path}");
        }
    }
}
