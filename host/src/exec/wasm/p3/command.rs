//! The start of a component of WASI 0.3.

use wasmtime::Store;
use wasmtime::component::InstancePre;
use wasmtime_wasi::p3::bindings::CommandIndices;

use crate::exec::wasm::state::GuestState;

/// A component that exports `wasi:cli/run@0.3.0`, linked.
#[derive(Clone)]
pub(in crate::exec::wasm) struct AsyncCommand {
    instance: InstancePre<GuestState>,
    exports: CommandIndices,
}

impl AsyncCommand {
    /// # Errors
    ///
    /// Fails if the component does not export `wasi:cli/run@0.3.0`.
    pub(in crate::exec::wasm) fn new(instance: InstancePre<GuestState>) -> wasmtime::Result<Self> {
        let exports = CommandIndices::new(&instance)?;
        Ok(Self { instance, exports })
    }

    pub(in crate::exec::wasm) fn instance(&self) -> &InstancePre<GuestState> {
        &self.instance
    }

    /// Runs the component until its function returns. Tasks that are left then end with the store.
    pub(in crate::exec::wasm) async fn run(
        &self,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<Result<(), ()>> {
        let instance = self.instance.instantiate_async(&mut *store).await?;
        let command = self.exports.load(&mut *store, &instance)?;
        let run = async |accessor: &_| command.wasi_cli_run().call_run(accessor).await;
        store.run_concurrent(run).await?
    }
}
