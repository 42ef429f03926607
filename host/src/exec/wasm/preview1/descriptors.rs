//! The table of a module's descriptors: the standard streams, the granted directories, and what
//! the module opened.
//!
//! Each file and directory in it is a handle of the guest's own table, which the limits count.

use wasmtime::component::Resource;
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::cli::WasiCliView as _;
use wasmtime_wasi::p2::bindings::cli::{
    stderr, stdin, stdout, terminal_stderr, terminal_stdin, terminal_stdout,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream};

use super::errno::{CallResult, Errno};
use super::listing::Listing;
use crate::exec::wasm::places::Handle;
use crate::exec::wasm::preopens;
use crate::exec::wasm::state::GuestState;

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

impl<T: 'static> StandardStream<T> {
    /// Takes a stream, and the terminal that it is, for which WASI 0.2 has a resource.
    fn new<Terminal: Send>(
        state: &mut GuestState,
        stream: Resource<T>,
        terminal: Option<Resource<Terminal>>,
    ) -> wasmtime::Result<Self> {
        let is_terminal = terminal.is_some();
        if let Some(terminal) = terminal {
            state.ctx().table.delete(terminal)?;
        }
        Ok(Self { stream, is_terminal })
    }
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

/// The table of descriptors. A new one gets the lowest free number.
pub(super) struct Descriptors(Vec<Option<Descriptor>>);

impl Descriptors {
    /// Opens the standard streams as 0 to 2, and the granted directories from 3 on.
    pub(super) fn open(state: &mut GuestState) -> wasmtime::Result<Self> {
        let input = stdin::Host::get_stdin(&mut state.cli())?;
        let terminal = terminal_stdin::Host::get_terminal_stdin(&mut state.cli())?;
        let input = StandardStream::new(state, input, terminal)?;
        let output = stdout::Host::get_stdout(&mut state.cli())?;
        let terminal = terminal_stdout::Host::get_terminal_stdout(&mut state.cli())?;
        let output = StandardStream::new(state, output, terminal)?;
        let errors = stderr::Host::get_stderr(&mut state.cli())?;
        let terminal = terminal_stderr::Host::get_terminal_stderr(&mut state.cli())?;
        let errors = StandardStream::new(state, errors, terminal)?;
        let mut all =
            vec![Descriptor::Input(input), Descriptor::Output(output), Descriptor::Output(errors)];
        for (handle, name) in preopens::get_directories(state)? {
            let preopen = Some(name);
            all.push(Descriptor::Directory(OpenDirectory { handle, preopen, listing: None }));
        }
        Ok(Self(all.into_iter().map(Some).collect()))
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

impl Descriptor {
    /// Closes what the entry has open.
    pub(super) fn close(self, state: &mut GuestState) -> CallResult {
        let table = state.ctx().table;
        match self {
            Self::Input(input) => drop(table.delete(input.stream)?),
            Self::Output(output) => drop(table.delete(output.stream)?),
            Self::File(file) => drop(table.delete(file.handle)?),
            Self::Directory(OpenDirectory { handle, listing, .. }) => {
                if let Some(listing) = listing {
                    listing.close(state)?;
                }
                drop(state.ctx().table.delete(handle)?);
            }
        }
        Ok(())
    }
}

/// Returns the same handle for a call, which does not close it.
pub(super) fn borrowed<T>(handle: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(handle.rep())
}
