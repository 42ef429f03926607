//! The one wasmtime engine of a process, and the thread that ticks its epoch.
//!
//! Owns every setting that differs from wasmtime's default, with its reason; docs/performance.md
//! has the measurements.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::binary::{self, OfWasi03};
use super::{Capability, adapt, bounds};
use wasmtime::component::Component;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
};

/// The interval at which a running guest yields so that its deadline can be checked.
pub(super) const EPOCH_TICK: Duration = Duration::from_millis(10);

/// The ticks without a guest after which the ticker goes to sleep: a second. To wake it is dear, and
/// calls often follow each other within one.
const LINGERING: u32 = 100;

/// The stack of a guest, in bytes; deeper recursion traps.
const WASM_STACK: usize = 1 << 20;

/// The part of a slot's memory that stays mapped between calls, in bytes.
const KEEP_RESIDENT: usize = 1 << 20;

/// The part of a slot's table that stays mapped between calls, in bytes: that of an interpreter.
const KEEP_RESIDENT_TABLE: usize = 8_192 * bounds::TABLE_ELEMENT;

/// A number that changes when components must be compiled anew for a reason that wasmtime does
/// not know. Code from before the current one was not held to the bounds of [`bounds`].
const GENERATION: u32 = 1;

/// The number of guests at once from which there is a pool. A pool makes each call cheaper by
/// 0.07 ms and costs 0.2 ms to build, which a command that makes one call never earns back. The
/// same compiled code runs with a pool and without.
const POOLED_FROM: u32 = 32;

/// The smallest component: its header (the component model's binary format).
pub(super) const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// An engine with its ticker.
pub(super) struct GuestEngine {
    pub(super) engine: Engine,
    ticker: Arc<Ticker>,
}

impl GuestEngine {
    /// Builds the engine: with a pool if many guests may run at once and there is address space
    /// for it, without one otherwise (in a container with `ulimit -v`, for example). Each of the
    /// `guests` in a pool costs two system calls now.
    pub(super) fn new(guests: u32) -> wasmtime::Result<Self> {
        let engine = if guests < POOLED_FROM {
            Engine::new(&base())?
        } else {
            pooled(guests, Enabled::Yes)
                .or_else(|error| {
                    tracing::debug!("no pagemap scan, memory is reset by the kernel: {error:#}");
                    pooled(guests, Enabled::No)
                })
                .or_else(|error| {
                    tracing::debug!("no pool, instances are allocated on demand: {error:#}");
                    Engine::new(&base())
                })?
        };
        let ticker = Ticker::start(engine.clone());
        Ok(Self { engine, ticker })
    }

    /// Returns a hash of everything that compiled code depends on besides the tool's file: wasmtime's
    /// version, the engine's settings, the processor, the adapter of core modules. Two engines with
    /// equal fingerprints can load each other's code.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.engine.precompile_compatibility_hash().hash(&mut hasher);
        GENERATION.hash(&mut hasher);
        adapt::version().hash(&mut hasher);
        hasher.finish()
    }

    /// Keeps the epoch advancing while the value lives.
    pub(super) fn ticking(&self) -> Ticking {
        self.ticker.enter()
    }
}

/// Returns the support of this machine for the engine and its pool.
pub(super) fn capability() -> Capability {
    let text = |error: wasmtime::Error| format!("{error:#}");
    let compiles = |engine: Engine| Component::from_binary(&engine, EMPTY).map(drop);
    Capability {
        engine: Engine::new(&base()).and_then(compiles).map_err(text),
        pool: pooled(POOLED_FROM, Enabled::No).map(drop).map_err(text),
        pagemap_scan: pooled(POOLED_FROM, Enabled::Yes).map(drop).map_err(text),
    }
}

fn base() -> Config {
    let mut config = Config::new();
    config
        // Halves the cost of an async call. Rules out component-model concurrency (p3), which no
        // tool of the 0.2 world uses.
        .concurrency_support(false)
        .consume_fuel(true)
        .epoch_interruption(true)
        .cranelift_opt_level(OptLevel::Speed)
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
    // Keeping pages resident pays only where the kernel can name those that were written;
    // otherwise it is slower than dropping them.
    if matches!(pagemap_scan, Enabled::Yes) {
        pool.linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(KEEP_RESIDENT_TABLE)
            .pagemap_scan(Enabled::Yes);
    }
    with_pool(pool)
}

fn with_pool(pool: PoolingAllocationConfig) -> wasmtime::Result<Engine> {
    let mut config = base();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config)
}

/// Compiles a component, the build in it that is meant for this host, or a core module, to code that
/// every engine of this module with the same fingerprint can load.
///
/// # Errors
///
/// It does not compile, or exceeds [`bounds`]; [`OfWasi03`] if it was built for WASI 0.3;
/// [`adapt::Refusal`] if it is a core module that cannot be adapted.
pub(super) fn compile(binary: &[u8]) -> wasmtime::Result<Vec<u8>> {
    // The bounds are those of a pool, from which nothing is ever allocated.
    let engine = with_pool(bounds::pool())?;
    let component = adapt::adapted(binary)?;
    let compiled = Component::from_binary(&engine, binary::for_this_host(&component));
    let compiled = compiled.map_err(|error| {
        let is_of_wasi_0_3 = binary::is_of_wasi_0_3(&component, &format!("{error:#}"));
        if is_of_wasi_0_3 { OfWasi03.into() } else { error }
    });
    compiled?.serialize()
}

/// A thread that advances the epoch while at least one guest runs, and for [`LINGERING`] ticks longer.
/// It sleeps otherwise, so that an idle host uses no processor.
#[derive(Default)]
struct Ticker {
    guests: Mutex<Guests>,
    began: Condvar,
}

/// The guests, as far as the ticker has to know of them.
#[derive(Default)]
struct Guests {
    running: usize,
    /// True if one has begun since the last tick. It may have ended as well.
    has_begun: bool,
    /// True while the thread sleeps until one begins: whoever begins wakes it then, and only then,
    /// since that is a system call for each call of a tool.
    is_awaited: bool,
}

impl Guests {
    fn are_idle(&self) -> bool {
        self.running == 0 && !self.has_begun
    }
}

/// Keeps the epoch advancing for a guest that runs, until it is dropped.
pub(super) struct Ticking(Arc<Ticker>);

impl Ticker {
    fn start(engine: Engine) -> Arc<Self> {
        let ticker = Arc::<Self>::default();
        // The thread must not keep the engine alive, nor the ticker.
        let (weak, engine) = (Arc::downgrade(&ticker), engine.weak());
        let tick = move || {
            let mut idle = 0;
            while let (Some(ticker), Some(engine)) = (weak.upgrade(), engine.upgrade()) {
                idle = ticker.idle_ticks(idle);
                engine.increment_epoch();
                drop((ticker, engine));
                std::thread::sleep(EPOCH_TICK);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("epoch".into()).spawn(tick) {
            // Without ticks the wall clock cannot end a spinning guest; fuel still does.
            tracing::warn!("cannot start the epoch thread: {error}");
        }
        ticker
    }

    /// Returns the number of ticks since a guest ran, of which there were `before` at the last tick.
    /// Where those are many, waits for a guest first.
    fn idle_ticks(&self, before: u32) -> u32 {
        let mut guests = self.lock();
        if before >= LINGERING && guests.are_idle() {
            guests.is_awaited = true;
            // Woken now and then to notice that the engine is gone.
            let woken = self
                .began
                .wait_timeout_while(guests, Duration::from_secs(60), |guests| guests.are_idle());
            guests = woken.unwrap_or_else(PoisonError::into_inner).0;
            guests.is_awaited = false;
        }
        if guests.are_idle() {
            return before.saturating_add(1);
        }
        guests.has_begun = false;
        0
    }

    fn enter(self: &Arc<Self>) -> Ticking {
        let mut guests = self.lock();
        guests.running += 1;
        guests.has_begun = true;
        if mem::take(&mut guests.is_awaited) {
            self.began.notify_one();
        }
        Ticking(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_ticker_lingers_and_then_sleeps_until_a_guest_begins() {
        let ticker = Arc::<Ticker>::default();
        // A guest that ended between two ticks counts as one that runs.
        drop(ticker.enter());
        assert_eq!(ticker.idle_ticks(7), 0);
        for before in 0..LINGERING {
            assert_eq!(ticker.idle_ticks(before), before + 1);
        }
        let running = ticker.enter();
        assert_eq!([ticker.idle_ticks(LINGERING), ticker.idle_ticks(LINGERING)], [0, 0]);
        drop(running);
        let (sender, woken) = mpsc::channel();
        let sleeping = Arc::clone(&ticker);
        let thread =
            std::thread::spawn(move || sender.send(sleeping.idle_ticks(LINGERING)).is_ok());
        while !ticker.lock().is_awaited {
            std::thread::yield_now();
        }
        assert_eq!(woken.try_recv(), Err(mpsc::TryRecvError::Empty));
        let running = ticker.enter();
        assert!(!ticker.lock().is_awaited, "it is woken once");
        assert_eq!(woken.recv_timeout(Duration::from_secs(30)), Ok(0));
        drop(running);
        assert!(thread.join().expect("no panic"));
    }

    /// The first guest after a pause is ended as one in the middle of others is.
    #[test]
    fn a_guest_that_begins_after_a_pause_sees_the_epoch_advance() {
        let engine = GuestEngine::new(1).expect("an engine");
        let module = wasmtime::Module::new(
            &engine.engine,
            wat::parse_str("(module (func (export \"spin\") (loop (br 0))))").expect("a module"),
        );
        let module = module.expect("compiled");
        for pause in [Duration::ZERO, 2 * LINGERING * EPOCH_TICK] {
            std::thread::sleep(pause);
            let mut store = wasmtime::Store::new(&engine.engine, ());
            store.set_fuel(u64::MAX).expect("fuel");
            store.set_epoch_deadline(1);
            let instance = wasmtime::Instance::new(&mut store, &module, &[]).expect("an instance");
            let spin = instance.get_typed_func::<(), ()>(&mut store, "spin").expect("a function");
            let _ticking = engine.ticking();
            let error = spin.call(&mut store, ()).expect_err("it is ended");
            let trap = error.downcast_ref::<wasmtime::Trap>();
            assert_eq!(trap, Some(&wasmtime::Trap::Interrupt), "after {pause:?}");
        }
    }
}
