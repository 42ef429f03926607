//! Paths that lead out of the grant: the call waits while the user is asked, and then gets the
//! file.
//!
//! Before the question, the host follows links and opens the file so that nothing can be read or
//! written through it. So the question is about the file itself, and the guest gets that file, even
//! if another file has its name by then. The file must lie on an ordinary file system, as
//! everywhere.
//!
//! C libraries send the path `/etc/hosts` as `etc/hosts` to the preopen `.`, or to the witness. A
//! path of the preopen `.` that leads to nothing may therefore begin at the root, if it has a
//! slash.
//!
//! If the front end cannot ask, a guest learns nothing about such a path. The refusal is noted.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use ikigai_protocol::Access;
use rustix::fs::FileType;
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{
    Descriptor, Dir, File as GuestFile, OpenMode, WasiFilesystemView as _,
};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, HostDescriptor as _, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{FsError, FsResult};

use super::guarded_writes;
use super::hidden::real_path;
use super::path_target::{Existing, PathTarget};
use super::path_widening::AllowedPath;
use super::paths::admission::keep;
use super::paths::open::{listable, open_seen, reopened, writes};
use super::places::{GuestPlace, Handle, HandleOrigin};
use super::state::GuestState;
use crate::policy::RequestedAccess;

/// The most answers that are remembered here; the policy remembers all.
const REMEMBERED: usize = 64;

/// The most directories outside of the grant that a call gets handles beneath.
const MAX_PLACES: usize = 1_024;

/// A path call that was refused.
pub(super) struct RefusedCall<'a> {
    pub(super) dir: &'a Handle,
    pub(super) path: &'a str,
    pub(super) follow: PathFlags,
    pub(super) error: FsError,
}

impl<'a> RefusedCall<'a> {
    /// Returns a refused call by a path whose last name was not followed.
    pub(super) fn new(dir: &'a Handle, path: &'a str, error: FsError) -> Self {
        Self { dir, path, follow: PathFlags::empty(), error }
    }

    /// Returns the places that the path may mean, if the call was refused because it leads out.
    fn candidates(&self, state: &mut GuestState) -> Vec<PathBuf> {
        let code = self.error.downcast_ref().copied();
        let Some(code @ (ErrorCode::NotPermitted | ErrorCode::NoEntry)) = code else {
            return Vec::new();
        };
        candidates(state, self.dir, self.path, code)
    }

    fn follows(&self) -> bool {
        self.follow.contains(PathFlags::SYMLINK_FOLLOW) || self.path.ends_with('/')
    }

    /// Returns the answer for a file that was refused. If the user may have refused it, the guest
    /// may know that it exists.
    fn denied(self, state: &GuestState) -> FsError {
        let may_know = state.held.as_ref().is_some_and(|held| held.can_ask);
        if may_know { ErrorCode::NotPermitted.into() } else { self.error }
    }

    /// Returns the answer for a path at which nothing exists.
    fn missing(self, state: &GuestState) -> FsError {
        self.told(state, ErrorCode::NoEntry)
    }

    /// Returns this answer, if the guest may learn it.
    fn told(self, state: &GuestState, code: ErrorCode) -> FsError {
        let is_witness =
            state.places.origin(self.dir).is_some_and(|origin| state.places.is_witness(origin));
        // A guest does not learn what is missing, either, if the front end cannot ask.
        let may_know = state.held.as_ref().is_some_and(|held| held.can_ask);
        if is_witness && may_know { code.into() } else { self.error }
    }
}

fn candidates(state: &mut GuestState, dir: &Handle, path: &str, code: ErrorCode) -> Vec<PathBuf> {
    let (Some(origin), Some(held)) = (state.places.origin(dir), &state.held) else {
        return Vec::new();
    };
    // The directory itself: a program that begins to list all files.
    if path.split('/').all(|part| matches!(part, "" | ".")) {
        return Vec::new();
    }
    let rooted = Path::new("/").join(path);
    if state.places.is_witness(origin) {
        // A relative path comes here, too, if the workspace is not granted.
        return vec![rooted, held.workspace.join(path)];
    }
    let rooted = (origin.is_nameless() && path.trim_matches('/').contains('/')).then_some(rooted);
    let own = match (code, state.filesystem().table.get(dir)) {
        (ErrorCode::NotPermitted, Ok(Descriptor::Dir(dir))) => {
            real_path(dir.dir.as_fd()).ok().map(|dir| dir.join(path))
        }
        _ => None,
    };
    own.into_iter().chain(rooted).collect()
}

/// Returns whether a path has a hidden name. A guest does not learn whether such a file exists.
fn names_hidden(state: &GuestState, candidates: &[PathBuf]) -> bool {
    let hidden = state.hidden.as_ref();
    hidden.is_some_and(|hidden| candidates.iter().any(|path| hidden.has_hidden_name(path)))
}

/// Opens the file if the user allows it.
pub(super) async fn open(
    state: &mut GuestState,
    refused: RefusedCall<'_>,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Handle> {
    let candidates = refused.candidates(state);
    if candidates.is_empty() {
        return Err(refused.error);
    }
    let creates = open.contains(OpenFlags::CREATE);
    if names_hidden(state, &candidates) {
        return Err(ErrorCode::Access.into());
    }
    let Some(target) = PathTarget::find(&candidates, refused.follows(), creates) else {
        return Err(refused.missing(state));
    };
    if target.is_hidden(state.hidden.as_deref()) {
        return Err(ErrorCode::Access.into());
    }
    let access = if writes(open, flags) { Access::ReadWrite } else { Access::ReadOnly };
    let Some(allowed) = allowed(state, access, &target, &candidates).await else {
        return Err(refused.denied(state));
    };
    match target {
        PathTarget::File { open: file, .. } => {
            let perms = perms(access);
            let opened = open_seen(file.as_fd(), perms, open, flags)?;
            Ok(state.filesystem().table.push(opened)?)
        }
        PathTarget::Directory { open: dir, .. } => {
            let file_flags = OpenFlags::CREATE | OpenFlags::TRUNCATE;
            if open.intersects(file_flags) || flags.contains(DescriptorFlags::WRITE) {
                return Err(ErrorCode::IsDirectory.into());
            }
            let dir = listable(dir.as_fd())?;
            // Libraries open a directory for changes even if they only list it. So opening one only
            // asks for read access.
            let perms = perms(allowed.access);
            let mode = match perms {
                FsPerms::ReadOnly => OpenMode::READ,
                FsPerms::ReadWrite => OpenMode::READ | OpenMode::WRITE,
            };
            let origin = place(state, allowed)?;
            let dir = Descriptor::Dir(Dir::new(dir, perms, mode, true));
            let dir = state.filesystem().table.push(dir)?;
            keep(state, dir, Some(origin))
        }
        PathTarget::Entry { parent, name, .. } => {
            let origin = place(state, allowed)?;
            let parent = Dir::new(parent.into(), FsPerms::ReadWrite, OpenMode::READ, true);
            let parent = state.filesystem().table.push(Descriptor::Dir(parent))?;
            let at = Handle::new_borrow(parent.rep());
            let made = state.filesystem().open_at(at, PathFlags::empty(), name, open, flags).await;
            state.filesystem().table.delete(parent)?;
            keep(state, made?, Some(origin))
        }
    }
}

/// Opens a file that the user allows to read, but only to ask about the file itself. Returns a
/// handle that the caller closes. Programs ask about a file before they open it, so this asks the
/// user about a file. They also ask about each directory on the way to a file; this does not ask
/// the user about those.
pub(super) async fn inspect(state: &mut GuestState, refused: RefusedCall<'_>) -> FsResult<Handle> {
    let candidates = refused.candidates(state);
    if candidates.is_empty() {
        return Err(refused.error);
    }
    if names_hidden(state, &candidates) {
        return Err(ErrorCode::Access.into());
    }
    let Some(target) = PathTarget::find(&candidates, refused.follows(), false) else {
        return Err(refused.missing(state));
    };
    if target.is_hidden(state.hidden.as_deref()) {
        return Err(ErrorCode::Access.into());
    }
    if let (PathTarget::Directory { path, .. }, Some(held)) = (&target, &state.held)
        && held.allowed(Access::ReadOnly, &target).is_none()
    {
        if !held.grant.dirs.iter().any(|dir| dir.path.starts_with(path)) {
            held.widening.withheld(reached(Access::ReadOnly, path));
        }
        return Err(refused.error);
    }
    if allowed(state, Access::ReadOnly, &target, &candidates).await.is_none() {
        return Err(refused.denied(state));
    }
    let (PathTarget::File { open, .. }
    | PathTarget::Directory { open, .. }
    | PathTarget::Entry { parent: open, .. }) = target;
    let seen = GuestFile::new(open.into(), FsPerms::ReadOnly, OpenMode::empty(), true);
    let pushed = state.filesystem().table.push(Descriptor::File(seen));
    pushed.map_err(|_| ErrorCode::InsufficientMemory.into())
}

/// An entry of a directory outside of the grant, which the user allowed to change.
pub(super) struct OutsideEntry {
    pub(super) dir: Handle,
    pub(super) name: String,
}

impl OutsideEntry {
    /// Closes the directory, and returns the result of the change.
    pub(super) fn close(self, state: &mut GuestState, done: FsResult<()>) -> FsResult<()> {
        state.filesystem().table.delete(self.dir)?;
        done
    }
}

/// Closes the directory of an entry, if there is one.
pub(super) fn close(
    state: &mut GuestState,
    entry: Option<OutsideEntry>,
    done: FsResult<()>,
) -> FsResult<()> {
    match entry {
        Some(entry) => entry.close(state, done),
        None => done,
    }
}

/// Opens the directory of an entry that is to be made, removed or renamed, if the user allows to
/// write to it.
pub(super) async fn entry(
    state: &mut GuestState,
    refused: RefusedCall<'_>,
    existing: Existing,
) -> FsResult<OutsideEntry> {
    let candidates = refused.candidates(state);
    if candidates.is_empty() {
        return Err(refused.error);
    }
    if names_hidden(state, &candidates) {
        return Err(ErrorCode::Access.into());
    }
    let found = candidates.iter().find_map(|path| PathTarget::entry(path, existing));
    let Some(target) = found else {
        let is_there = |path| PathTarget::entry(path, Existing::Yes).is_some();
        return Err(match candidates.iter().any(|path| is_there(path)) {
            true => refused.told(state, ErrorCode::Exist),
            false => refused.missing(state),
        });
    };
    if target.is_hidden(state.hidden.as_deref()) {
        return Err(ErrorCode::Access.into());
    }
    let Some(allowed) = allowed(state, Access::ReadWrite, &target, &candidates).await else {
        return Err(refused.denied(state));
    };
    let PathTarget::Entry { parent, name, .. } = target else { return Err(refused.error) };
    let origin = place(state, allowed)?;
    let parent = Dir::new(parent.into(), FsPerms::ReadWrite, OpenMode::READ, true);
    let dir = state.filesystem().table.push(Descriptor::Dir(parent))?;
    state.places.note(dir.rep(), origin);
    Ok(OutsideEntry { dir, name })
}

/// Opens the directory of an entry, as [`entry`] does, for a path that was followed. Returns
/// nothing if the grant allows to write to the directory.
pub(super) async fn entry_to_write(
    state: &mut GuestState,
    (dir, path): (&Handle, &str),
    existing: Existing,
) -> FsResult<Option<OutsideEntry>> {
    let refused = RefusedCall::new(dir, path, ErrorCode::NotPermitted.into());
    let candidates = refused.candidates(state);
    if names_hidden(state, &candidates) {
        return Err(ErrorCode::Access.into());
    }
    let found = candidates.iter().find_map(|path| PathTarget::entry(path, existing));
    let is_granted = found.is_none_or(|target| {
        let reached = reached(Access::ReadWrite, target.path());
        state.held.as_ref().is_some_and(|held| held.grant.covers(&reached))
    });
    if is_granted { Ok(None) } else { entry(state, refused, existing).await.map(Some) }
}

/// Opens an existing file to be written in place, if the user allows it.
pub(super) async fn writable(
    state: &mut GuestState,
    refused: RefusedCall<'_>,
) -> FsResult<std::fs::File> {
    let candidates = refused.candidates(state);
    let found = PathTarget::find(&candidates, refused.follows(), false);
    let Some(target @ PathTarget::File { .. }) = found else { return Err(refused.error) };
    if target.is_hidden(state.hidden.as_deref()) {
        return Err(ErrorCode::Access.into());
    }
    if allowed(state, Access::ReadWrite, &target, &candidates).await.is_none() {
        return Err(refused.denied(state));
    }
    let PathTarget::File { open, .. } = target else { return Err(refused.error) };
    Ok(reopened(open.as_fd(), FileType::RegularFile, OpenMode::WRITE, false)?)
}

/// Notes a call that was refused because its path leads out, without asking the user.
pub(super) fn note<T>(
    state: &mut GuestState,
    dir: &Handle,
    path: &str,
    access: Access,
    result: FsResult<T>,
) -> FsResult<T> {
    let refused = match result {
        Err(error) if state.held.is_some() => RefusedCall::new(dir, path, error),
        result => return result,
    };
    let candidates = refused.candidates(state);
    let target = PathTarget::find(&candidates, false, access == Access::ReadWrite);
    if let Some(target) = target
        && !target.is_hidden(state.hidden.as_deref())
        && let Some(held) = &state.held
        && !held.grant.covers(&reached(access, target.path()))
    {
        held.widening.withheld(reached(access, target.path()));
    }
    Err(refused.error)
}

fn reached(access: Access, path: &Path) -> RequestedAccess {
    RequestedAccess::Path { access, path: path.to_owned() }
}

fn perms(access: Access) -> FsPerms {
    match access {
        Access::ReadOnly => FsPerms::ReadOnly,
        Access::ReadWrite => FsPerms::ReadWrite,
    }
}

/// Asks for an access, unless it was answered before. Returns the permission that covers it.
async fn allowed(
    state: &mut GuestState,
    access: Access,
    target: &PathTarget,
    candidates: &[PathBuf],
) -> Option<AllowedPath> {
    let known = state.held.as_ref()?.allowed(access, target).cloned();
    let allowed = match known {
        Some(known) => known,
        None => ask(state, access, target).await?,
    };
    // A permission for a directory opens no place of secrets in it, and no place that other
    // programs execute.
    let path = target.itself();
    if target.is_hidden(state.hidden.as_deref()) {
        return None;
    }
    if access == Access::ReadOnly {
        return Some(allowed);
    }
    if state.guard.is_of_a_rebase(&path) {
        return None;
    }
    let mut place = state.guard.place_at(&path).ok()?;
    for candidate in candidates {
        if place.is_none() {
            place = state.guard.place_with_link(candidate).ok()?;
        }
    }
    match place {
        Some(place) => guarded_writes::may_change(state, place).await.then_some(allowed),
        None => Some(allowed),
    }
}

/// Asks for an access. Returns the permission for it.
async fn ask(state: &mut GuestState, access: Access, target: &PathTarget) -> Option<AllowedPath> {
    let path = target.path();
    let held = state.held.as_mut()?;
    let reached = held.widened.question_for(reached(access, path));
    // The grant has it by another name, and the guest may use that name.
    if held.grant.covers(&reached) {
        return None;
    }
    let is_refused = held.refused.iter().any(|(known, it)| (*known, &**it) == (access, path));
    if !held.can_ask || is_refused {
        held.widening.withheld(reached);
        return None;
    }
    let may = state.may_access(reached).await;
    let held = state.held.as_mut()?;
    if !may {
        if held.refused.len() < REMEMBERED && !held.has_question() {
            held.refused.push((access, path.to_owned()));
        }
        return None;
    }
    let is_dir = !matches!(target, PathTarget::File { .. });
    let allowed = AllowedPath { access, path: path.to_owned(), is_dir };
    if held.allowed.len() < REMEMBERED {
        held.allowed.push(allowed.clone());
    }
    Some(allowed)
}

/// Returns the origin of handles beneath a directory that the user allowed.
fn place(state: &mut GuestState, allowed: AllowedPath) -> FsResult<HandleOrigin> {
    let AllowedPath { access, path, .. } = allowed;
    if let Some(known) = state.places.find(&path, access) {
        return Ok(HandleOrigin::beneath(known));
    }
    if state.places.len() >= MAX_PLACES {
        return Err(ErrorCode::InsufficientMemory.into());
    }
    Ok(HandleOrigin::beneath(state.places.add(GuestPlace::new(path, Some(access)))))
}
