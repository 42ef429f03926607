//! The wasmtime engines of a process: one for each tier of code.
//!
//! Owns every setting that differs from wasmtime's default, with its reason.
//! docs/contributing/decisions has pages on the pool, on the two compilers, and on epochs and fuel.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::binary::{self, OfWasi03, UsesAsync};
use super::{Capability, adapt, bounds};
use strum::{EnumString, IntoStaticStr};
use wasmtime::component::Component;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    Strategy,
};

/// The compiler that made the code of a component. The same limits apply to the code of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Tier {
    /// Winch, which takes a fraction of the time and makes slower code.
    Baseline,
    /// Cranelift, with all optimisations.
    Optimised,
}

/// The stack of a guest, in bytes; deeper recursion traps.
const WASM_STACK: usize = 1 << 20;

/// The part of a slot's memory that stays mapped between calls, in bytes.
const KEEP_RESIDENT: usize = 1 << 20;

/// The part of a slot's table that stays mapped between calls, in bytes: as much as an interpreter
/// needs.
const KEEP_RESIDENT_TABLE: usize = 8_192 * bounds::TABLE_ELEMENT;

/// A number that changes when components must be compiled again for a reason that wasmtime does not
/// know. Code of earlier generations was not compiled under the bounds of [`bounds`].
const GENERATION: u32 = 1;

/// The number of guests at once from which there is a pool. A pool makes each call cheaper by
/// 0.07 ms and costs 0.2 ms to build, which a command that makes one call never earns back. The
/// same compiled code runs with a pool and without.
const POOLED_FROM: u32 = 32;

/// The smallest component: its header (the component model's binary format).
pub(super) const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// Builds an engine: with a pool if many guests may run at once and there is address space for it,
/// without one otherwise (in a container with `ulimit -v`, for example). Each of the `guests` in a
/// pool costs two system calls now.
pub(super) fn new(guests: u32) -> wasmtime::Result<Engine> {
    if guests < POOLED_FROM {
        return without_pool();
    }
    pooled(guests, Enabled::Yes)
        .or_else(|error| {
            tracing::debug!("no pagemap scan, memory is reset by the kernel: {error:#}");
            pooled(guests, Enabled::No)
        })
        .or_else(|error| {
            tracing::debug!("no pool, instances are allocated on demand: {error:#}");
            without_pool()
        })
}

/// Builds an engine that allocates each instance on demand.
pub(super) fn without_pool() -> wasmtime::Result<Engine> {
    Engine::new(&base(Tier::Optimised))
}

/// Builds the engine for code of the baseline. It has no pool: such code runs until better
/// code exists.
///
/// # Errors
///
/// Fails on other processors than x86-64: wasmtime considers Winch ready for untrusted code only
/// there (*Tiers of Support in Wasmtime*).
pub(super) fn of_the_baseline() -> wasmtime::Result<Engine> {
    ensure_baseline()?;
    Engine::new(&base(Tier::Baseline))
}

fn ensure_baseline() -> wasmtime::Result<()> {
    wasmtime::ensure!(cfg!(target_arch = "x86_64"), "Winch is used on x86-64 alone");
    Ok(())
}

/// Returns a hash of everything that compiled code depends on, except for the tool's file:
/// wasmtime's version, the engine's settings, the processor, the adapter of core modules. Two
/// engines with equal fingerprints can load each other's code.
pub(super) fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    GENERATION.hash(&mut hasher);
    adapt::version().hash(&mut hasher);
    hasher.finish()
}

/// Returns the support of this machine for the engine and its pool.
pub(super) fn capability() -> Capability {
    let text = |error: wasmtime::Error| format!("{error:#}");
    let compiles = |engine: Engine| Component::from_binary(&engine, EMPTY).map(drop);
    Capability {
        engine: without_pool().and_then(compiles).map_err(text),
        baseline: of_the_baseline().and_then(compiles).map_err(text),
        pool: pooled(POOLED_FROM, Enabled::No).map(drop).map_err(text),
        pagemap_scan: pooled(POOLED_FROM, Enabled::Yes).map(drop).map_err(text),
    }
}

fn base(tier: Tier) -> Config {
    let mut config = Config::new();
    match tier {
        Tier::Baseline => config.strategy(Strategy::Winch),
        Tier::Optimised => {
            config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::Speed)
        }
    };
    config
        // Halves the cost of an async call. Rules out component-model concurrency (p3), which no
        // tool of the 0.2 world uses.
        .concurrency_support(false)
        .consume_fuel(true)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(2 * WASM_STACK);
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
    with_pool(pool, Tier::Optimised)
}

fn with_pool(pool: PoolingAllocationConfig, tier: Tier) -> wasmtime::Result<Engine> {
    let mut config = base(tier);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}

/// Compiles a component, the build in it that is meant for this host, or a core module. Every
/// engine of this module for the tier and with the same fingerprint can load the code.
///
/// # Errors
///
/// Fails if it does not compile, or exceeds [`bounds`]. The error is [`OfWasi03`] if it was built
/// for WASI 0.3. It is [`UsesAsync`] if it uses the async feature without that, and
/// [`adapt::AdaptError`] if it is a core module that cannot be adapted.
pub(super) fn compile(binary: &[u8], tier: Tier) -> wasmtime::Result<Vec<u8>> {
    if tier == Tier::Baseline {
        ensure_baseline()?;
    }
    // The bounds belong to a pool from which nothing is ever allocated.
    let engine = with_pool(bounds::pool(), tier)?;
    let component = adapt::adapted(binary)?;
    let compiled = Component::from_binary(&engine, binary::for_this_host(&component));
    let compiled = compiled.map_err(|error| {
        if binary::is_of_wasi_0_3(&component) {
            return OfWasi03.into();
        }
        match binary::async_built_in(&format!("{error:#}")) {
            Some(built_in) => UsesAsync(built_in.to_owned()).into(),
            None => error,
        }
    });
    compiled?.serialize()
}
