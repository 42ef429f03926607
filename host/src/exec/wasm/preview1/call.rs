//! One call of a function of preview 1: the module's memory, its descriptors and the guest's state.

use wasmtime::{Caller, Extern};

use super::MEMORY;
use super::descriptors::ModuleState;
use super::errno::{CallError, CallResult};
use super::memory::ModuleMemory;
use crate::exec::wasm::state::GuestState;

/// The number of bytes that the host reads, writes or makes between two checks of the deadline.
pub(super) const CHUNK: u32 = 1 << 20;

/// A call of a function of preview 1.
pub(super) struct ModuleCall<'a> {
    pub(super) memory: ModuleMemory<'a>,
    pub(super) state: &'a mut GuestState,
    /// Taken from the guest's state for as long as the call takes.
    pub(super) module: Box<ModuleState>,
}

impl<'a> ModuleCall<'a> {
    /// Begins a call. The start function of a module may call before its memory is known.
    pub(super) fn begin(caller: &'a mut Caller<'_, GuestState>) -> wasmtime::Result<Self> {
        let missing = || wasmtime::Error::msg("it has no memory for the answer of WASI");
        let module = caller.data_mut().module.take().ok_or_else(missing)?;
        let memory =
            module.memory.or_else(|| caller.get_export(MEMORY).and_then(Extern::into_memory));
        let (memory, state) = memory.ok_or_else(missing)?.data_and_store_mut(caller);
        Ok(Self { memory: ModuleMemory(memory), state, module })
    }

    /// Ends the call, and returns the module's answer.
    pub(super) fn end(self, result: CallResult) -> wasmtime::Result<u32> {
        self.state.module = Some(self.module);
        match result {
            Ok(()) => Ok(0),
            Err(CallError::Errno(errno)) => Ok(errno as u32),
            Err(CallError::Trap(error)) => Err(error),
        }
    }
}

/// Lets the deadline and the cancellation of the call be seen, in work that the module made long.
pub(super) async fn pause() {
    tokio::task::yield_now().await;
}
