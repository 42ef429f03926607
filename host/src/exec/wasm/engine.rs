//! The wasmtime engines of a process, which run the code of both tiers and compile nothing.
//!
//! Owns every setting that differs from wasmtime's default, with its reason.
//! docs/contributing/decisions has pages on the pool, on the two compilers, and on epochs and fuel.

use super::bounds;
use strum::{EnumString, IntoStaticStr};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy};

/// The compiler that made the code of a component. The same limits apply to the code of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Tier {
    /// Winch, which takes a fraction of the time and makes slower code.
    Baseline,
    /// Cranelift, with all optimisations.
    Optimised,
}

/// The engine that a component runs in. Code that was compiled for one does not load in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineKind {
    /// A guest does one thing at a time: the components of WASI 0.2.
    Sequential,
    /// A guest may have several tasks: the components of WASI 0.3, and those of 0.2 that use the
    /// async feature of the component model.
    Concurrent,
}

impl EngineKind {
    pub(super) const ALL: [Self; 2] = [Self::Sequential, Self::Concurrent];
}

/// The stack of a guest, in bytes; deeper recursion traps.
const WASM_STACK: usize = 1 << 20;

/// The stack of a guest and of the functions of the host that it calls, in bytes.
pub(super) const STACK: usize = 2 * WASM_STACK;

/// The part of a slot's memory that stays mapped between calls, in bytes.
const KEEP_RESIDENT: usize = 1 << 20;

/// The part of a slot's table that stays mapped between calls, in bytes: as much as an interpreter
/// needs.
const KEEP_RESIDENT_TABLE: usize = 8_192 * bounds::TABLE_ELEMENT;

/// The number of guests at once from which there is a pool. A pool makes each call cheaper by
/// 0.07 ms and costs 0.2 ms to build, which a command that makes one call never earns back. The
/// same compiled code runs with a pool and without.
const POOLED_FROM: u32 = 32;

/// Builds the sequential engine: with a pool if many guests may run at once and there is address space for it,
/// without one otherwise (in a container with `ulimit -v`, for example). Each of the `guests` in a
/// pool costs two system calls now.
pub(super) fn new(guests: u32) -> wasmtime::Result<Engine> {
    if guests < POOLED_FROM {
        return without_pool(EngineKind::Sequential);
    }
    pooled(guests, Enabled::Yes)
        .or_else(|error| {
            tracing::debug!("no pagemap scan, memory is reset by the kernel: {error:#}");
            pooled(guests, Enabled::No)
        })
        .or_else(|error| {
            tracing::debug!("no pool, instances are allocated on demand: {error:#}");
            without_pool(EngineKind::Sequential)
        })
}

/// Builds an engine that allocates each instance on demand. The concurrent engine has no pool: each
/// task of a guest that waits has a stack of its own, and a pool has one for each guest.
pub(super) fn without_pool(kind: EngineKind) -> wasmtime::Result<Engine> {
    Engine::new(&base(kind))
}

/// Returns why this machine has no pool, and why its pool cannot ask for the pages that were
/// written.
pub(super) fn pool_capability() -> [wasmtime::Result<()>; 2] {
    [Enabled::No, Enabled::Yes].map(|pagemap_scan| pooled(POOLED_FROM, pagemap_scan).map(drop))
}

/// Returns the settings that the code of both tiers is compiled for and runs under.
pub(super) fn base(kind: EngineKind) -> Config {
    let mut config = Config::new();
    config
        // Without it, an async call costs half, and the async feature of the component model is
        // ruled out.
        .concurrency_support(kind == EngineKind::Concurrent)
        .consume_fuel(true)
        // ikigai shows no addresses of a trap, and no debugger unwinds the code. The tables for both
        // were an eighth of the shell's compiled code.
        .generate_address_map(false)
        .native_unwind_info(false)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(STACK);
    config
}

fn pooled(guests: u32, pagemap_scan: Enabled) -> wasmtime::Result<Engine> {
    let mut pool = bounds::pool();
    pool.total_component_instances(guests)
        .total_stacks(guests)
        .total_core_instances(8 * guests)
        .total_memories(2 * guests)
        .total_tables(8 * guests)
        .total_gc_heaps(guests);
    // Keeping pages resident pays only if the kernel can name those that were written. Otherwise it
    // is slower than dropping them.
    if matches!(pagemap_scan, Enabled::Yes) {
        pool.linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(KEEP_RESIDENT_TABLE)
            .pagemap_scan(Enabled::Yes);
    }
    let mut config = base(EngineKind::Sequential);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}
