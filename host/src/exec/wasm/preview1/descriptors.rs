//! The table of a module's descriptors: the standard streams, the granted directories, and what
//! the module opened.
//!
//! Each file and directory in it is a handle of the guest's own table, which the limits count.

use wasmtime::Memory;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::filesystem::types::DirectoryEntry;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};

use super::errno::{CallResult, Errno};
use crate::exec::wasm::guest_listing::GuestListing;
use crate::exec::wasm::places::Handle;

/// The part of a guest's state that only a core module has.
pub(in crate::exec::wasm) struct ModuleState {
    /// Its memory, from the time when it is instantiated.
    pub(super) memory: Option<Memory>,
    pub(super) descriptors: Descriptors,
}

/// An entry of the table.
pub(super) enum Descriptor {
    /// stdin.
    Input(StandardStream<DynInputStream>),
    /// stdout or stderr.
    Output(StandardStream<DynOutputStream>),
    File(OpenFile),
    Directory(OpenDirectory),
}

/// A standard stream.
pub(super) struct StandardStream<T: 'static> {
    pub(super) stream: Resource<T>,
    pub(super) is_terminal: bool,
}

/// A file that is open.
pub(super) struct OpenFile {
    pub(super) handle: Handle,
    /// The offset of the next read or write.
    pub(super) position: u64,
    /// True if every write goes to the end of the file.
    pub(super) appends: bool,
    /// Remembered for the module; reads and writes of files always wait.
    pub(super) is_nonblocking: bool,
}

/// A directory that is open.
pub(super) struct OpenDirectory {
    pub(super) handle: Handle,
    /// The name under which it was granted.
    pub(super) preopen: Option<String>,
    /// The reading of its entries that has begun.
    pub(super) listing: Option<Listing>,
}

/// The reading of a directory that has begun.
pub(super) struct Listing {
    pub(super) stream: Resource<GuestListing>,
    /// The cookie of the next entry of the stream, or of `pending`.
    pub(super) cookie: u64,
    /// An entry that did not fit into the module's buffer.
    pub(super) pending: Option<DirectoryEntry>,
}

/// The table of descriptors. A new one gets the lowest free number.
pub(super) struct Descriptors(Vec<Option<Descriptor>>);

impl Descriptors {
    /// Returns a table with these entries, from number 0 on.
    pub(super) fn new(entries: Vec<Descriptor>) -> Self {
        Self(entries.into_iter().map(Some).collect())
    }

    pub(super) fn get(&mut self, fd: u32) -> CallResult<&mut Descriptor> {
        let entry = self.0.get_mut(fd as usize).and_then(Option::as_mut);
        entry.ok_or_else(|| Errno::Badf.into())
    }

    /// Returns an open file. A directory or a stream is none.
    pub(super) fn file(&mut self, fd: u32) -> CallResult<&mut OpenFile> {
        match self.get(fd)? {
            Descriptor::File(file) => Ok(file),
            _ => Err(Errno::Badf.into()),
        }
    }

    /// Returns an open file, whose position the module may ask for. Streams have none.
    pub(super) fn seekable(&mut self, fd: u32) -> CallResult<&mut OpenFile> {
        match self.get(fd)? {
            Descriptor::File(file) => Ok(file),
            Descriptor::Directory(_) => Err(Errno::Badf.into()),
            Descriptor::Input(_) | Descriptor::Output(_) => Err(Errno::Spipe.into()),
        }
    }

    pub(super) fn directory(&mut self, fd: u32) -> CallResult<&mut OpenDirectory> {
        match self.get(fd)? {
            Descriptor::Directory(directory) => Ok(directory),
            Descriptor::File(_) => Err(Errno::Notdir.into()),
            Descriptor::Input(_) | Descriptor::Output(_) => Err(Errno::Badf.into()),
        }
    }

    /// Returns the handle of a file or directory.
    pub(super) fn handle(&mut self, fd: u32) -> CallResult<Handle> {
        match self.get(fd)? {
            Descriptor::File(OpenFile { handle, .. })
            | Descriptor::Directory(OpenDirectory { handle, .. }) => Ok(borrowed(handle)),
            Descriptor::Input(_) | Descriptor::Output(_) => Err(Errno::Badf.into()),
        }
    }

    /// Returns stdin, whatever its number is, unless it is closed.
    pub(super) fn input(&self) -> Option<Resource<DynInputStream>> {
        self.0.iter().flatten().find_map(|entry| match entry {
            Descriptor::Input(input) => Some(borrowed(&input.stream)),
            _ => None,
        })
    }

    /// Adds an entry, and returns its number.
    pub(super) fn add(&mut self, entry: Descriptor) -> CallResult<u32> {
        let index = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let fd = u32::try_from(index).map_err(|_| Errno::Mfile)?;
        match self.0.get_mut(index) {
            Some(free) => *free = Some(entry),
            None => self.0.push(Some(entry)),
        }
        Ok(fd)
    }

    /// Takes an entry out of the table. Its handle is still open.
    pub(super) fn remove(&mut self, fd: u32) -> CallResult<Descriptor> {
        let entry = self.0.get_mut(fd as usize).and_then(Option::take);
        entry.ok_or_else(|| Errno::Badf.into())
    }

    /// Gives an entry the number of another one, which is free.
    pub(super) fn put(&mut self, fd: u32, entry: Descriptor) {
        if let Some(free) = self.0.get_mut(fd as usize) {
            *free = Some(entry);
        }
    }
}

/// Returns the same handle for a call, which does not close it.
pub(super) fn borrowed<T>(handle: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(handle.rep())
}
