//! A component run by wasmtime itself, without the host: in the caller's thread, with the host's
//! settings and limits.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use ikigai_host::limits::CallLimits;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    StoreLimits, StoreLimitsBuilder,
};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

/// The capacity for the output of a call.
const OUTPUT: usize = 16 << 20;

/// The host's epoch.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Bare {
    component: CommandPre<State>,
    stop: Arc<AtomicBool>,
}

struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Bare {
    /// Compiles `bytes` for an engine with the host's settings.
    pub(crate) fn new(bytes: &[u8]) -> anyhow::Result<Self> {
        let engine = engine()?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        let component = Component::from_binary(&engine, bytes)?;
        let component = CommandPre::new(linker.instantiate_pre(&component)?)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                engine.increment_epoch();
                std::thread::sleep(TICK);
            }
        });
        Ok(Self { component, stop })
    }

    /// Makes one call in a fresh store.
    pub(crate) async fn call(&self, workspace: &Path) -> anyhow::Result<()> {
        let mut wasi = WasiCtxBuilder::new();
        wasi.allow_blocking_current_thread(true);
        wasi.arg("tool");
        let name = workspace.to_string_lossy();
        wasi.preopened_dir(workspace, &*name, FsPerms::ReadOnly)?;
        wasi.preopened_dir(workspace, ".", FsPerms::ReadOnly)?;
        wasi.stdin(MemoryInputPipe::new("")).stdout(MemoryOutputPipe::new(OUTPUT));
        let limits = CallLimits::default();
        let memory = usize::try_from(limits.wasm_memory)?;
        let state = State {
            wasi: wasi.build(),
            table: ResourceTable::new(),
            limits: StoreLimitsBuilder::new().memory_size(memory).build(),
        };
        let mut store = Store::new(self.component.engine(), state);
        store.limiter(|state| &mut state.limits);
        store.epoch_deadline_async_yield_and_update(1);
        store.set_epoch_deadline(1);
        store.set_fuel(limits.fuel)?;
        tokio::time::timeout(limits.wall_clock, self.run(&mut store)).await?
    }

    async fn run(&self, store: &mut Store<State>) -> anyhow::Result<()> {
        let command = self.component.instantiate_async(&mut *store).await?;
        let ended = command.wasi_cli_run().call_run(&mut *store).await?;
        ensure!(ended.is_ok(), "the component failed");
        Ok(())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Creates an engine with the settings of the host's engine, which are not public.
fn engine() -> anyhow::Result<Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(16)
        .total_stacks(16)
        .total_core_instances(128)
        .total_memories(32)
        .total_tables(128)
        .max_memory_size(1 << 32)
        .linear_memory_keep_resident(1 << 20)
        .table_keep_resident(1 << 20)
        .pagemap_scan(Enabled::Yes);
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(1 << 20)
        .async_stack_size(2 << 20)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Ok(Engine::new(&config)?)
}
