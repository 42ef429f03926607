//! The directory entry streams of `wasi:filesystem/types`, instead of wasmtime's own.
//!
//! wasmtime reads a directory to its end as soon as a stream is made, and keeps the entries in the
//! host until the guest drops the stream. No limit counts that memory. Here a stream is an open
//! directory, is read as the guest asks, and counts as a handle. Its buffer counts into the guest's
//! memory. The types of entries come from the directory, without a system call for each. Names that
//! the guest does not see are left out.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir as Entries, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use wasmtime::component::{Linker, Resource, ResourceType};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::{DescriptorType, DirectoryEntry, ErrorCode};

use super::guest_listing::{GuestListing, VisibleNames};
use super::hidden::{HiddenPaths, real_path};
use super::paths::answer;
use super::places::HandleOrigin;
use super::state::GuestState;

type EntryStream = Resource<GuestListing>;

/// Links the streams of this module instead of wasmtime's.
pub(super) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    types.resource(
        "directory-entry-stream",
        ResourceType::host::<GuestListing>(),
        |mut store, stream| {
            let files = store.data_mut().filesystem();
            files.table.delete(EntryStream::new_own(stream))?;
            Ok(())
        },
    )?;
    types.func_wrap(
        "[method]descriptor.read-directory",
        |mut store, (directory,): (Resource<Descriptor>,)| {
            answer(read_directory(store.data_mut(), &directory))
        },
    )?;
    types.func_wrap(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store, (stream,): (EntryStream,)| answer(next(store.data_mut(), &stream)),
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

pub(super) fn read_directory(
    state: &mut GuestState,
    directory: &Resource<Descriptor>,
) -> FsResult<EntryStream> {
    if !state.may_open() || !state.may_stream(1) {
        // WASI has no "too many open files"; this is the nearest.
        return Err(ErrorCode::InsufficientMemory.into());
    }
    let listing = begin(state, directory)?;
    Ok(state.filesystem().table.push(listing)?)
}

/// Begins to read a directory. The caller counts the listing as a handle.
pub(super) fn begin(
    state: &mut GuestState,
    directory: &Resource<Descriptor>,
) -> FsResult<GuestListing> {
    let origin = state.places.origin(directory);
    if origin.is_some_and(|origin| state.places.is_witness(origin)) {
        return Err(ErrorCode::NotPermitted.into());
    }
    let files = state.filesystem();
    let Descriptor::Dir(directory) = files.table.get(directory)? else {
        return Err(ErrorCode::NotDirectory.into());
    };
    // Opened anew, so that the stream has its own read position.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = openat(directory.dir.as_fd(), c".", flags, Mode::empty());
    let entries = own.and_then(Entries::new).map_err(io::Error::from)?;
    let origin = origin.ok_or(ErrorCode::NotPermitted)?;
    let shown = shown(state, origin, &entries)?;
    state.note_use(origin, None);
    Ok(GuestListing { entries, shown })
}

/// Returns the names of a directory that the guest sees, if they are not all.
fn shown(
    state: &GuestState,
    origin: HandleOrigin,
    entries: &Entries,
) -> FsResult<Option<Box<VisibleNames>>> {
    let place = state.places.place(origin).ok_or(ErrorCode::NotPermitted)?;
    let names = || state.places.files(origin).iter().map(|file| file.name.clone()).collect();
    let only = place.base.is_none().then(names);
    let hidden = match &state.hidden {
        Some(hidden) => {
            let own = real_path(entries.fd().map_err(io::Error::from)?)?;
            if hidden.hides(&place.root, &own) {
                return Err(ErrorCode::Access.into());
            }
            Some((Arc::clone(hidden), place.root.clone(), own))
        }
        None => None,
    };
    Ok((only.is_some() || hidden.is_some()).then(|| Box::new(VisibleNames { only, hidden })))
}

impl VisibleNames {
    fn has(&self, name: &OsStr) -> bool {
        let is_granted = self
            .only
            .as_ref()
            .is_none_or(|names| names.iter().any(|granted| OsStr::new(granted) == name));
        let is_hidden = |(hidden, root, own): &(Arc<HiddenPaths>, PathBuf, PathBuf)| {
            hidden.hides(root, &own.join(name))
        };
        is_granted && !self.hidden.as_ref().is_some_and(is_hidden)
    }
}

pub(super) fn next(
    state: &mut GuestState,
    stream: &EntryStream,
) -> FsResult<Option<DirectoryEntry>> {
    next_entry(state.filesystem().table.get_mut(stream)?)
}

/// Returns the next entry that the guest sees, or nothing at the end of the directory.
pub(super) fn next_entry(listing: &mut GuestListing) -> FsResult<Option<DirectoryEntry>> {
    let GuestListing { entries, shown } = listing;
    while let Some(entry) = entries.read() {
        let entry = entry.map_err(io::Error::from)?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let text = entry.file_name().to_str();
        if let Some(shown) = shown {
            // WASI cannot express a name that is not UTF-8, but the guest would see that it exists.
            if !shown.has(OsStr::from_bytes(entry.file_name().to_bytes())) {
                // A directory may have any number of such names.
                if shown.hidden.as_ref().is_some_and(|(hidden, ..)| hidden.is_over()) {
                    return Err(ErrorCode::Interrupted.into());
                }
                continue;
            }
        }
        let kind = match entry.file_type() {
            // Not every file system knows the type.
            FileType::Unknown => kind(entries.fd().map_err(io::Error::from)?, entry.file_name()),
            kind => Some(kind),
        };
        // The entry has been removed.
        let Some(kind) = kind else { continue };
        let name = text.map_err(|_| ErrorCode::IllegalByteSequence)?;
        return Ok(Some(DirectoryEntry { type_: descriptor_type(kind), name: name.to_owned() }));
    }
    Ok(None)
}

fn kind(directory: BorrowedFd<'_>, name: &CStr) -> Option<FileType> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Some(FileType::from_raw_mode(found.st_mode)),
        Err(Errno::NOENT) => None,
        Err(_) => Some(FileType::Unknown),
    }
}

fn descriptor_type(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::Fifo => DescriptorType::Fifo,
        FileType::Socket => DescriptorType::Socket,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::Unknown => DescriptorType::Unknown,
    }
}
