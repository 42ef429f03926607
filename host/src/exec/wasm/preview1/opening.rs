//! The descriptors that a module has from its start, and the end of each.

use wasmtime::component::Resource;
use wasmtime_wasi::WasiView as _;
use wasmtime_wasi::cli::WasiCliView as _;
use wasmtime_wasi::p2::bindings::cli::{
    stderr, stdin, stdout, terminal_stderr, terminal_stdin, terminal_stdout,
};

use super::descriptors::{Descriptor, Descriptors, ModuleState, OpenDirectory, StandardStream};
use super::errno::CallResult;
use crate::exec::wasm::preopens;
use crate::exec::wasm::state::GuestState;

impl ModuleState {
    /// Opens the standard streams and the granted directories.
    pub(super) fn new(state: &mut GuestState) -> wasmtime::Result<Self> {
        Ok(Self { memory: None, descriptors: Descriptors::open(state)? })
    }
}

impl Descriptors {
    /// Opens the standard streams as 0 to 2, and the granted directories from 3 on.
    fn open(state: &mut GuestState) -> wasmtime::Result<Self> {
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
        Ok(Self::new(all))
    }
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
