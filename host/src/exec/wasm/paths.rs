//! The calls of `wasi:filesystem/types` that take a path, instead of wasmtime's own. They are linked
//! as WASI 0.2 here; [`p3`](super::p3) links the same functions as WASI 0.3.
//!
//! A path beneath a granted directory may lead into another file system. A root file system that is
//! being built has the host's own `/proc` and `/sys`. To make or remove a directory there is an
//! order to the kernel, and so is opening a device. So the host follows a path ([`location`]) to
//! the parent directory of the file that it names. It checks that directory and the file
//! ([`ordinary`](super::ordinary), and [`hidden`](super::hidden) names). From there wasmtime does
//! the work, with a single name and without following a link, so that a change of the path leads
//! nowhere else. An existing file is first opened without a right to its contents, checked, and
//! opened again by that handle ([`mod@open`]).
//!
//! A call that leads out of the grant is refused, or waits for the user's answer
//! ([`held`](super::held)).

pub(super) mod admission;
pub(super) mod location;
pub(super) mod open;

use std::os::fd::AsFd as _;

use ikigai_protocol::Access;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, DescriptorStat, ErrorCode, HostDescriptor as _, MetadataHashValue,
    NewTimestamp, OpenFlags, PathFlags,
};

use self::admission::{admit, keep, push};
use self::location::{Location, Touches};
use self::open::open_seen;
use super::guarded_writes;
use super::held::{self, OutsideEntry, RefusedCall};
use super::path_target::Existing;
use super::places::Handle;
use super::state::GuestState;

/// Links the calls of this module instead of wasmtime's.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    // Each call is a function of its arguments and of the state of the guest.
    macro_rules! serve {
        ($name:literal, $call:ident($($argument:ident: $kind:ty),*)) => {
            types.func_wrap_async(
                concat!("[method]descriptor.", $name),
                |mut store, ($($argument,)*): ($($kind,)*)| {
                    Box::new(async move {
                        answer($call(store.data_mut(), $($argument),*).await)
                    })
                },
            )?;
        };
    }
    serve!("open-at", open_at(dir: Handle, follow: PathFlags, path: String,
        open: OpenFlags, flags: DescriptorFlags));
    serve!("stat-at", stat_at(dir: Handle, follow: PathFlags, path: String));
    serve!("metadata-hash-at", metadata_hash_at(dir: Handle, follow: PathFlags, path: String));
    serve!("set-times-at", set_times_at(dir: Handle, follow: PathFlags, path: String,
        accessed: NewTimestamp, modified: NewTimestamp));
    serve!("readlink-at", readlink_at(dir: Handle, path: String));
    serve!("create-directory-at", create_directory_at(dir: Handle, path: String));
    serve!("remove-directory-at", remove_directory_at(dir: Handle, path: String));
    serve!("unlink-file-at", unlink_file_at(dir: Handle, path: String));
    serve!("symlink-at", symlink_at(dir: Handle, target: String, path: String));
    serve!("link-at", link_at(dir: Handle, follow: PathFlags, path: String,
        new_dir: Handle, new_path: String));
    serve!("rename-at", rename_at(dir: Handle, path: String, new_dir: Handle, new_path: String));
    linker.allow_shadowing(false);
    Ok(())
}

/// Returns a result as a guest gets it; an error of the host itself is a trap.
pub(super) fn answer<T>(result: FsResult<T>) -> wasmtime::Result<(Result<T, ErrorCode>,)> {
    Ok((match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.downcast()?),
    },))
}

/// Opens a file or a directory, if the guest may open one more. With wasmtime's own call, it could
/// open files until the host has no descriptors left, or trap at the table's capacity.
pub(super) async fn open_at(
    state: &mut GuestState,
    dir: Handle,
    follow: PathFlags,
    path: String,
    open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Handle> {
    if !state.may_open() {
        // WASI has no "too many open files"; this is the nearest.
        return Err(ErrorCode::InsufficientMemory.into());
    }
    if state.held.is_none() {
        return open_granted(state, &dir, follow, path, open, flags).await;
    }
    match open_granted(state, &dir, follow, path.clone(), open, flags).await {
        Err(error) => {
            let refused = RefusedCall { dir: &dir, path: &path, follow, error };
            held::open(state, refused, open, flags).await
        }
        opened => opened,
    }
}

async fn open_granted(
    state: &mut GuestState,
    dir: &Handle,
    follow: PathFlags,
    path: String,
    mut open: OpenFlags,
    flags: DescriptorFlags,
) -> FsResult<Handle> {
    let follows = follow.contains(PathFlags::SYMLINK_FOLLOW);
    let writes = open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
        || flags.contains(DescriptorFlags::WRITE);
    // Most files are only read, are there, and lie where everything may be seen: one system call
    // finds them.
    let plain = state.places.origin(dir).filter(|origin| state.places.is_plain(*origin));
    if let Some(origin) = plain
        && !writes
        && state.hidden.is_none()
        && let Descriptor::Dir(start) = state.filesystem().table.get(dir)?
        && let Some(seen) = open::see(start, &path, follows)
    {
        let opened = open_seen(seen.as_fd(), start.perms, open, flags)?;
        let opened = push(state, opened)?;
        let opened = admit(state, opened, Some(origin.opened(&path)))?;
        state.note_use(origin, None);
        return Ok(opened);
    }
    let mut location = Location::resolve(state, dir, &path, Touches::Opened { follows })?;
    if location.is_single() && open.contains(OpenFlags::CREATE) {
        // Its directory is not granted. The file exists, or was removed just now.
        if open.contains(OpenFlags::EXCLUSIVE) {
            return location.finish(state, Err(ErrorCode::Exist.into()));
        }
        open &= !OpenFlags::CREATE;
    }
    if writes && let Err(error) = guarded_writes::check(state, &location, (dir, &path)).await {
        return location.finish(state, Err(error));
    }
    let origin = location.origin().map(|origin| origin.opened(&path));
    let opened = match location.take_seen() {
        Some(seen) => {
            let perms = location.perms(state)?;
            let opened = open_seen(seen.as_fd(), perms, open, flags);
            let opened = opened.and_then(|opened| push(state, opened));
            opened.and_then(|opened| admit(state, opened, origin))
        }
        None => {
            let (at, name) = (location.dir(), location.name());
            let opened =
                state.filesystem().open_at(at, PathFlags::empty(), name, open, flags).await;
            opened.and_then(|opened| keep(state, opened, origin))
        }
    };
    location.finish(state, opened)
}

fn borrowed(handle: &Handle) -> Handle {
    Resource::new_borrow(handle.rep())
}

/// Defines a call that asks about a file. The last name is the call for a file outside of the
/// grant, which the user allowed: C libraries make both calls about the same file.
macro_rules! ask {
    ($call:ident, $answer:ty, $by_handle:ident) => {
        pub(super) async fn $call(
            state: &mut GuestState,
            dir: Handle,
            follow: PathFlags,
            path: String,
        ) -> FsResult<$answer> {
            let found = async {
                let location = Location::resolve(state, &dir, &path, Touches::object(follow))?;
                let (at, name) = (location.dir(), location.name());
                let found = state.filesystem().$call(at, PathFlags::empty(), name).await;
                location.finish(state, found)
            }
            .await;
            match found {
                Err(error) if state.held.is_some() => {
                    let refused = RefusedCall { dir: &dir, path: &path, follow, error };
                    let seen = held::inspect(state, refused).await?;
                    let found = state.filesystem().$by_handle(borrowed(&seen)).await;
                    state.filesystem().table.delete(seen)?;
                    found
                }
                found => found,
            }
        }
    };
}

ask!(stat_at, DescriptorStat, stat);
ask!(metadata_hash_at, MetadataHashValue, metadata_hash);

pub(super) async fn set_times_at(
    state: &mut GuestState,
    dir: Handle,
    follow: PathFlags,
    path: String,
    accessed: NewTimestamp,
    modified: NewTimestamp,
) -> FsResult<()> {
    let done = async {
        let location = Location::resolve(state, &dir, &path, Touches::object(follow))?;
        if let Err(error) = guarded_writes::check(state, &location, (&dir, &path)).await {
            return location.finish(state, Err(error));
        }
        let (at, name) = (location.dir(), location.name());
        let done =
            state.filesystem().set_times_at(at, PathFlags::empty(), name, accessed, modified).await;
        location.finish(state, done)
    }
    .await;
    held::note(state, &dir, &path, Access::ReadWrite, done)
}

pub(super) async fn readlink_at(
    state: &mut GuestState,
    dir: Handle,
    path: String,
) -> FsResult<String> {
    let target = async {
        let location = Location::resolve(state, &dir, &path, Touches::ITSELF)?;
        let target = state.filesystem().readlink_at(location.dir(), location.name()).await;
        location.finish(state, target)
    }
    .await;
    held::note(state, &dir, &path, Access::ReadOnly, target)
}

/// A change of one entry of a directory.
enum EntryOperation {
    MakeDirectory,
    RemoveDirectory,
    UnlinkFile,
    Symlink { target: String },
}

impl EntryOperation {
    fn entry(&self) -> Existing {
        match self {
            Self::MakeDirectory | Self::Symlink { .. } => Existing::No,
            Self::RemoveDirectory | Self::UnlinkFile => Existing::Yes,
        }
    }
}

pub(super) async fn create_directory_at(
    state: &mut GuestState,
    dir: Handle,
    path: String,
) -> FsResult<()> {
    change_at(state, &dir, &path, EntryOperation::MakeDirectory).await
}

pub(super) async fn remove_directory_at(
    state: &mut GuestState,
    dir: Handle,
    path: String,
) -> FsResult<()> {
    change_at(state, &dir, &path, EntryOperation::RemoveDirectory).await
}

pub(super) async fn unlink_file_at(
    state: &mut GuestState,
    dir: Handle,
    path: String,
) -> FsResult<()> {
    change_at(state, &dir, &path, EntryOperation::UnlinkFile).await
}

pub(super) async fn symlink_at(
    state: &mut GuestState,
    dir: Handle,
    target: String,
    path: String,
) -> FsResult<()> {
    change_at(state, &dir, &path, EntryOperation::Symlink { target }).await
}

async fn change_at(
    state: &mut GuestState,
    dir: &Handle,
    path: &str,
    change: EntryOperation,
) -> FsResult<()> {
    match change_granted(state, dir, path, &change).await {
        Err(error) if state.held.is_some() => {
            let refused = RefusedCall::new(dir, path, error);
            let entry = held::entry(state, refused, change.entry()).await?;
            let done = change_granted(state, &entry.dir, &entry.name, &change).await;
            entry.close(state, done)
        }
        done => done,
    }
}

async fn change_granted(
    state: &mut GuestState,
    dir: &Handle,
    path: &str,
    change: &EntryOperation,
) -> FsResult<()> {
    let location = Location::resolve(state, dir, path, Touches::Entry)?;
    // Programs make the directories on the way to a file. They learn that a guarded one exists.
    let is_there = matches!(change, EntryOperation::MakeDirectory) && location.exists(state)?;
    if !is_there && let Err(error) = guarded_writes::check(state, &location, (dir, path)).await {
        return location.finish(state, Err(error));
    }
    if let EntryOperation::Symlink { target } = change
        && let Err(error) = guarded_writes::check_link(state, &location, target)
    {
        return location.finish(state, Err(error));
    }
    let (at, name) = (location.dir(), location.name());
    let mut files = state.filesystem();
    let done = match change {
        EntryOperation::MakeDirectory => files.create_directory_at(at, name).await,
        EntryOperation::RemoveDirectory => files.remove_directory_at(at, name).await,
        EntryOperation::UnlinkFile => files.unlink_file_at(at, name).await,
        EntryOperation::Symlink { target } => files.symlink_at(at, target.clone(), name).await,
    };
    location.finish(state, done)
}

pub(super) async fn link_at(
    state: &mut GuestState,
    dir: Handle,
    follow: PathFlags,
    path: String,
    new_dir: Handle,
    new_path: String,
) -> FsResult<()> {
    let old = Location::resolve(state, &dir, &path, Touches::ITSELF)?;
    if old.is_single() {
        // A second name would lie in a directory that is not granted with the file.
        return old.finish(state, Err(ErrorCode::NotPermitted.into()));
    }
    let done = match Location::resolve(state, &new_dir, &new_path, Touches::Entry) {
        Ok(new) => {
            let done = match check_both(state, (&old, (&dir, &path)), (&new, (&new_dir, &new_path)))
                .await
            {
                Ok(()) => {
                    let mut files = state.filesystem();
                    files.link_at(old.dir(), follow, old.name(), new.dir(), new.name()).await
                }
                Err(error) => Err(error),
            };
            new.finish(state, done)
        }
        Err(error) => Err(error),
    };
    let done = old.finish(state, done);
    held::note(state, &new_dir, &new_path, Access::ReadWrite, done)
}

pub(super) async fn rename_at(
    state: &mut GuestState,
    dir: Handle,
    path: String,
    new_dir: Handle,
    new_path: String,
) -> FsResult<()> {
    if state.held.is_none() {
        return rename_granted(state, (&dir, &path), (&new_dir, &new_path)).await;
    }
    // Each side on its own: a fault of one says nothing about the other.
    let mut old = side(state, &dir, &path, Existing::Yes).await?;
    let mut new = match side(state, &new_dir, &new_path, Existing::Either).await {
        Ok(new) => new,
        Err(error) => return held::close(state, old, Err(error)),
    };
    let mut done = rename_sides(state, (&dir, &path, &old), (&new_dir, &new_path, &new)).await;
    if let Err(error) = &done
        && error.downcast_ref() == Some(&ErrorCode::NotPermitted)
    {
        // One side may be in a directory that the grant only allows to read.
        let widened = async {
            if old.is_none() {
                old = held::entry_to_write(state, (&dir, &path), Existing::Yes).await?;
            }
            if new.is_none() {
                new = held::entry_to_write(state, (&new_dir, &new_path), Existing::Either).await?;
            }
            rename_sides(state, (&dir, &path, &old), (&new_dir, &new_path, &new)).await
        };
        done = widened.await;
    }
    let done = held::close(state, new, done);
    held::close(state, old, done)
}

/// Returns the entry that the user allowed, if the path leads out of the grant; otherwise nothing.
async fn side(
    state: &mut GuestState,
    dir: &Handle,
    path: &str,
    existing: Existing,
) -> FsResult<Option<OutsideEntry>> {
    match Location::resolve(state, dir, path, Touches::Entry) {
        Ok(location) => location.close(state).map(|()| None),
        Err(error) => {
            held::entry(state, RefusedCall::new(dir, path, error), existing).await.map(Some)
        }
    }
}

/// Renames. For paths that lead out, uses the entries that the user allowed.
async fn rename_sides(
    state: &mut GuestState,
    (dir, path, old): (&Handle, &str, &Option<OutsideEntry>),
    (new_dir, new_path, new): (&Handle, &str, &Option<OutsideEntry>),
) -> FsResult<()> {
    let old = old.as_ref().map_or((dir, path), |it| (&it.dir, &*it.name));
    let new = new.as_ref().map_or((new_dir, new_path), |it| (&it.dir, &*it.name));
    rename_granted(state, old, new).await
}

async fn rename_granted(
    state: &mut GuestState,
    (dir, path): (&Handle, &str),
    (new_dir, new_path): (&Handle, &str),
) -> FsResult<()> {
    let old = Location::resolve(state, dir, path, Touches::Entry)?;
    let done = match Location::resolve(state, new_dir, new_path, Touches::Entry) {
        Ok(new) => {
            let checked = match Location::check_move(state, &old, &new) {
                Ok(()) => check_both(state, (&old, (dir, path)), (&new, (new_dir, new_path))).await,
                Err(error) => Err(error),
            };
            let checked = checked.and_then(|()| guarded_writes::check_move(state, &old, &new));
            let done = match checked {
                Ok(()) => {
                    let mut files = state.filesystem();
                    files.rename_at(old.dir(), old.name(), new.dir(), new.name()).await
                }
                Err(error) => Err(error),
            };
            new.finish(state, done)
        }
        Err(error) => Err(error),
    };
    old.finish(state, done)
}

/// Fails if linking or renaming a file would change a guarded place.
async fn check_both(
    state: &mut GuestState,
    (old, asked): (&Location, (&Handle, &str)),
    (new, new_asked): (&Location, (&Handle, &str)),
) -> FsResult<()> {
    guarded_writes::check(state, old, asked).await?;
    guarded_writes::check(state, new, new_asked).await
}
