//! The wasm executor: runs WebAssembly components, and core modules of WASI preview 1.
//!
//! Owns the engines, the compiled code and the threads of a process. Runs each call in its own
//! store, so that nothing of a guest survives it. The imports of a guest are in `guest`, the
//! compiled code in [`cache`].

mod assets;
mod behind;
mod bounds;
#[doc(hidden)]
pub mod cache;
mod code_version;
#[doc(hidden)]
pub mod compiler;
mod engine;
mod guard;
mod guarded_writes;
mod guest;
mod guest_listing;
mod held;
mod hidden;
mod instance_memory;
mod linkers;
mod listing;
mod net;
mod ordinary;
mod p3;
mod path_target;
mod path_widening;
mod paths;
mod places;
mod preopens;
mod preview1;
mod program;
#[doc(hidden)]
pub mod script;
mod state;
mod stdio;
mod stream_count;
mod streams;
mod tasks;
mod threads;
mod ticker;
mod wasi_version;
mod workspace;

use std::fs::File;
use std::future::Future;
use std::io::Seek as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ikigai_protocol::Digest;
use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use self::cache::{CompileLock, CompiledProgram, ComponentCache, LockTimeouts};
use self::compiler::{CompiledCode, Compiler, Excess};
use self::engine::EngineKind;
use self::guest::{Guest, GuestOutcome};
use self::instance_memory::InstanceMemory;
use self::linkers::Linkers;
use self::preview1::CoreModuleError;
use self::program::LinkedProgram;
#[cfg(feature = "compiler")]
use self::program::LoadedCode;
use self::state::MemoryBudget;
use self::threads::{Boxed, GuestThreads, Pace, ThreadError, Until, Waits};
use self::ticker::Ticker;
#[cfg(feature = "compiler")]
use self::wasi_version::UsesAsync;
use super::assets::AssetGate;
use super::net::NetworkGate;
use super::output::Pipe;
use super::widening::Widening;
use super::{Call, Executor, Exit, Outcome, ResourceUsage};
use crate::limits::Limit;
use crate::policy::{Grant, WasiUse};
use ikigai_supervisor::isolation::{Guarantee, Isolation};

#[doc(hidden)]
pub use super::net::{NameResolver, SharedNetwork};
pub(crate) use behind::{BackgroundCompilation, WeakProgram};
pub use engine::Tier;
pub(in crate::exec) use hidden::HiddenPaths;
pub(crate) use threads::processors;

/// The reason that a component cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// It is a core module that cannot be a program; the text says why, and what to do.
    #[error("is a core WebAssembly module that cannot be a tool: it {0}")]
    CoreModule(String),
    /// It imports an interface of WASI in a version that this host does not have; the text names
    /// the interface.
    #[error("{}", wasi_version::OtherWasi(.0.clone()))]
    OtherWasi(String),
    /// It is a command of WASI in a version that this host does not have; the text names its export.
    #[error("{}", wasi_version::OtherCommand(.0.clone()))]
    OtherCommand(String),
    /// It uses a part of the async feature of the component model that this host does not have; the
    /// text names the built-in.
    #[error("{}", wasi_version::UsesAsync(.0.clone()))]
    UsesAsync(String),
    /// It does not parse or does not compile.
    #[error("does not compile: {0}")]
    Invalid(String),
    /// Compiling it took more than a component of its size may take.
    #[error(
        "was not compiled: that takes more than {0}, the limit for a component of its size; leave \
         out what it does not need, or split it into smaller tools"
    )]
    TooCostly(Excess),
    /// The file could not be read, or something else failed that may succeed another time.
    #[error("could not be loaded: {0}")]
    Unread(String),
    /// wasmtime does not run on this machine.
    #[error("cannot be run: {0}")]
    NoRuntime(String),
    /// It is not a command.
    #[error("does not export `wasi:cli/run`: it is a library, not a command")]
    NotACommand,
    /// It imports something that the host does not offer; the text names it.
    #[error("imports what this host does not offer: {0}")]
    Link(String),
}

impl ComponentError {
    /// Returns whether the component itself is at fault, so that the answer stays the same while
    /// its bytes and this host do.
    #[must_use]
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::CoreModule(_)
            | Self::OtherWasi(_)
            | Self::OtherCommand(_)
            | Self::UsesAsync(_)
            | Self::Invalid(_)
            | Self::NotACommand
            | Self::Link(_) => true,
            Self::TooCostly(_) | Self::Unread(_) | Self::NoRuntime(_) => false,
        }
    }
}

/// Checks that a core module can be a tool, without compiling it. Any other binary passes.
///
/// # Errors
///
/// Fails if it is malformed, is no program, or imports what this host does not offer.
pub fn check_core_module(binary: &[u8]) -> Result<(), ComponentError> {
    if !preview1::is_core_module(binary) {
        return Ok(());
    }
    preview1::check(binary).map_err(|error| match error.downcast_ref::<CoreModuleError>() {
        Some(refusal) => ComponentError::CoreModule(refusal.to_string()),
        None => ComponentError::Invalid(format!("{error:#}")),
    })
}

/// The support of this machine for components; an error is the reason that something is missing.
pub struct Capability {
    /// The engine, without which no component runs.
    pub engine: Result<(), String>,
    /// The compiler of the code that a large component runs first.
    pub baseline: Result<(), String>,
    /// The pool of instances that are allocated in advance.
    pub pool: Result<(), String>,
    /// The system call by which the kernel names the pages of an instance that were written.
    pub pagemap_scan: Result<(), String>,
}

/// Finds out the support of this machine for components, which this program compiles.
#[must_use]
pub fn capability(compiler: &Compiler) -> Capability {
    let text = |error: wasmtime::Error| format!("{error:#}");
    let compiles = |tier| compiler.check(tier).map_err(|error| error.to_string());
    let [pool, pagemap_scan] = engine::pool_capability().map(|made| made.map_err(text));
    let engine = engine::without_pool(EngineKind::Sequential).map_err(text);
    Capability {
        engine: engine.and_then(|_| compiles(Tier::Optimised)),
        baseline: compiles(Tier::Baseline),
        pool,
        pagemap_scan,
    }
}

/// The engines, threads and budgets that the components of one process share.
#[doc(hidden)]
pub struct Runtime {
    linkers: Linkers,
    /// Made when the first component needs it: most do not.
    concurrent: OnceLock<Result<Linkers, String>>,
    ticker: Arc<Ticker>,
    threads: GuestThreads,
    /// A permit for each guest that may run at once.
    permits: Arc<Semaphore>,
    budget: MemoryBudget,
    network: Arc<SharedNetwork>,
}

impl Runtime {
    /// Builds the engine. Costs about a millisecond and reserves address space; memory is taken
    /// only as guests use it.
    ///
    /// `guests` is the number of guests that may run at once, further calls wait; `memory` is the
    /// limit of all of them together, in bytes.
    ///
    /// # Errors
    ///
    /// Fails if wasmtime does not run on this machine.
    pub fn new(guests: u32, memory: u64) -> Result<Arc<Self>, String> {
        Self::with_network(guests, memory, SharedNetwork::default())
    }

    /// Builds the engine with a network other than the operating system's; see [`Self::new`].
    ///
    /// # Errors
    ///
    /// Fails if wasmtime does not run on this machine.
    pub fn with_network(
        guests: u32,
        memory: u64,
        network: SharedNetwork,
    ) -> Result<Arc<Self>, String> {
        let build = move || -> wasmtime::Result<Self> {
            let (engine, ticker) = (engine::new(guests)?, Arc::<Ticker>::default());
            let threads = GuestThreads::new(Arc::clone(&ticker));
            ticker.start(engine.weak(), threads.watch())?;
            Ok(Self {
                linkers: Linkers::new(engine, EngineKind::Sequential)?,
                concurrent: OnceLock::new(),
                ticker,
                threads,
                permits: Arc::new(Semaphore::new(guests as usize)),
                budget: MemoryBudget::new(memory),
                network: Arc::new(network),
            })
        };
        build().map(Arc::new).map_err(|error| format!("{error:#}"))
    }

    /// Returns the engine of this kind, with its linkers.
    fn linkers(&self, kind: EngineKind) -> Result<&Linkers, ComponentError> {
        let make = || -> wasmtime::Result<Linkers> {
            let engine = engine::without_pool(EngineKind::Concurrent)?;
            self.ticker.add(engine.weak());
            Linkers::new(engine, EngineKind::Concurrent)
        };
        match kind {
            EngineKind::Sequential => Ok(&self.linkers),
            EngineKind::Concurrent => {
                let made = self
                    .concurrent
                    .get_or_init(|| make().map_err(|error| format!("{error:#}")))
                    .as_ref();
                made.map_err(|reason| ComponentError::NoRuntime(reason.clone()))
            }
        }
    }

    /// Waits for a permit and for memory. Returns nothing if the call is cancelled first.
    async fn permit(&self, cancel: &CancellationToken) -> Option<OwnedSemaphorePermit> {
        let permit = async {
            let permit = Arc::clone(&self.permits).acquire_owned().await;
            self.budget.room().await;
            // The semaphore is never closed.
            permit.ok()
        };
        cancel.run_until_cancelled(permit).await.flatten()
    }

    /// Returns a component that was compiled before, if its optimised code is in the cache and
    /// intact.
    ///
    /// # Errors
    ///
    /// Fails if it does not link to this host.
    pub fn load_compiled(
        self: &Arc<Self>,
        digest: &Digest,
        cache: &ComponentCache,
    ) -> Option<Result<GuestProgram, ComponentError>> {
        self.load(digest, Tier::Optimised, cache)
    }

    /// Returns a component that was compiled to code of this tier before.
    pub(crate) fn load(
        self: &Arc<Self>,
        digest: &Digest,
        tier: Tier,
        cache: &ComponentCache,
    ) -> Option<Result<GuestProgram, ComponentError>> {
        EngineKind::ALL.into_iter().find_map(|kind| {
            let fingerprint = code_version::fingerprint(tier, kind);
            if kind == EngineKind::Concurrent && !cache.holds(fingerprint, digest) {
                return None;
            }
            let linkers = match self.linkers(kind) {
                Ok(linkers) => linkers,
                Err(error) => return Some(Err(error)),
            };
            let component = cache.load(&linkers.engine, fingerprint, digest)?;
            Some(self.link(linkers, &component, tier))
        })
    }

    /// Compiles the component or core module in `source`, whose contents have this digest, in a
    /// separate process, and keeps the result. If another host is compiling it, waits for that and
    /// loads the result. Makes code of the baseline only if a cache keeps it until better code
    /// exists, and if Winch can make it. Blocks.
    ///
    /// # Errors
    ///
    /// See [`ComponentError`].
    pub fn compile(
        self: &Arc<Self>,
        compiler: &Compiler,
        source: File,
        digest: &Digest,
        tier: Tier,
        cache: &ComponentCache,
        cancel: &CancellationToken,
    ) -> Result<GuestProgram, ComponentError> {
        let lock = |tier| {
            let goes_on = || !cancel.is_cancelled();
            // Which engine the component needs is not known yet.
            let fingerprint = code_version::fingerprint(tier, EngineKind::Sequential);
            cache.lock_compilation(fingerprint, digest, LockTimeouts::OF_A_HOST, goes_on)
        };
        if tier == Tier::Baseline
            && cache.for_baseline().is_some()
            && let Some(lock) = lock(tier)
        {
            let again = source.try_clone();
            let again = again.map_err(|error| ComponentError::Unread(error.to_string()))?;
            let task = Compilation { compiler, source: again, digest, cancel };
            match self.compile_under(Some(lock), task, tier, cache) {
                // Winch knows fewer proposals of WebAssembly, for example, or the disk is full.
                Err(
                    error @ (ComponentError::Invalid(_)
                    | ComponentError::TooCostly(_)
                    | ComponentError::Unread(_)),
                ) => tracing::debug!("there is no code of the baseline of {digest}: {error}"),
                done => return done,
            }
        }
        let task = Compilation { compiler, source, digest, cancel };
        self.compile_under(lock(Tier::Optimised), task, Tier::Optimised, cache)
    }

    fn compile_under(
        self: &Arc<Self>,
        lock: Option<CompileLock>,
        Compilation { compiler, mut source, digest, cancel }: Compilation<'_>,
        tier: Tier,
        cache: &ComponentCache,
    ) -> Result<GuestProgram, ComponentError> {
        if lock.as_ref().is_some_and(|lock| lock.was_waited_for() || tier == Tier::Baseline)
            && let Some(program) =
                self.load_compiled(digest, cache).or_else(|| self.load(digest, tier, cache))
        {
            return program;
        }
        // A compiler process that ran before has read the file to its end.
        source.rewind().map_err(|error| ComponentError::Unread(error.to_string()))?;
        let CompiledCode { file, engine } = compiler.compile(source, digest, tier, cancel)?;
        let code = match cache.store(&file, code_version::fingerprint(tier, engine), digest) {
            Some(kept) => kept,
            None if tier == Tier::Baseline => {
                return Err(ComponentError::Unread("its code is not kept".to_owned()));
            }
            None => file,
        };
        let linkers = self.linkers(engine)?;
        // SAFETY: the host's own program has just written it, into a file without a name or into
        // the cache. No other user can write there.
        let component = unsafe { cache::load_open(&linkers.engine, &code) };
        drop(lock);
        self.link(linkers, &component.map_err(ComponentError::Unread)?, tier)
    }

    /// Compiles a component or a core module in this process, without a limit on time and memory,
    /// and keeps nothing. This is for a program that embeds the library and brings its components
    /// itself.
    ///
    /// # Errors
    ///
    /// See [`ComponentError`].
    #[cfg(feature = "compiler")]
    pub fn compile_here(self: &Arc<Self>, bytes: &[u8]) -> Result<GuestProgram, ComponentError> {
        self.compile_here_to(bytes, Tier::Optimised)
    }

    #[cfg(feature = "compiler")]
    fn compile_here_to(
        self: &Arc<Self>,
        bytes: &[u8],
        tier: Tier,
    ) -> Result<GuestProgram, ComponentError> {
        let invalid = |error: wasmtime::Error| ComponentError::Invalid(format!("{error:#}"));
        let compiled = compiler::code::compile(bytes, tier);
        let (code, engine) =
            compiled.map_err(|error| match error.downcast_ref::<CoreModuleError>() {
                Some(refusal) => ComponentError::CoreModule(refusal.to_string()),
                None => match error.downcast::<UsesAsync>() {
                    Ok(UsesAsync(built_in)) => ComponentError::UsesAsync(built_in),
                    Err(error) => invalid(error),
                },
            })?;
        let instances = InstanceMemory::after_code(&code).ok_or_else(|| {
            ComponentError::Invalid("its code does not say what its instances take".to_owned())
        })?;
        let linkers = self.linkers(engine)?;
        // SAFETY: it was compiled above.
        let code = unsafe { LoadedCode::from_bytes(&linkers.engine, &code, instances) };
        self.link(linkers, &CompiledProgram { code: code.map_err(invalid)?, instances }, tier)
    }

    fn link(
        self: &Arc<Self>,
        linkers: &Linkers,
        compiled: &CompiledProgram,
        tier: Tier,
    ) -> Result<GuestProgram, ComponentError> {
        let program = linkers.link(&compiled.code)?;
        let (engine, instances) = (linkers.kind, compiled.instances);
        let code = CompiledCommand { program, engine, instances, tier };
        Ok(GuestProgram {
            runtime: Arc::clone(self),
            code: Arc::new(RwLock::new(code)),
            pace: Pace::default(),
        })
    }
}

/// A component or core module, with its compiler.
struct Compilation<'a> {
    compiler: &'a Compiler,
    source: File,
    digest: &'a Digest,
    cancel: &'a CancellationToken,
}

/// A component that is compiled, linked and ready to be called.
#[doc(hidden)]
#[derive(Clone)]
pub struct GuestProgram {
    runtime: Arc<Runtime>,
    /// Replaced once, if it is baseline code. Shared by clones.
    code: Arc<RwLock<CompiledCommand>>,
    pace: Pace,
}

#[derive(Clone)]
struct CompiledCommand {
    program: LinkedProgram,
    engine: EngineKind,
    instances: InstanceMemory,
    tier: Tier,
}

impl GuestProgram {
    fn code(&self) -> CompiledCommand {
        self.code.read().clone()
    }

    /// Returns the tier of the code that its next call runs.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.code.read().tier
    }

    /// Carries out a call of the program on a thread of its pool.
    pub(crate) async fn carry<T: Send + 'static>(&self, call: Boxed<T>) -> T {
        self.runtime.threads.carry(&self.pace, call).await
    }

    /// Returns the interfaces that the program imports, with their versions.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        self.code.read().program.imports()
    }

    /// Returns the versions of WASI that the program uses, in order.
    #[must_use]
    pub fn wasi(&self) -> Vec<WasiUse> {
        let code = self.code.read();
        code.program.wasi(code.engine)
    }

    async fn call(self, call: Call) -> Outcome {
        let runtime = Arc::clone(&self.runtime);
        let cancel = call.cancel.child_token();
        let _cancel_if_dropped = cancel.clone().drop_guard();
        let Some(permit) = runtime.permit(&cancel).await else {
            return Outcome::cancelled();
        };
        let limits = call.limits;
        let deadline = call.deadline.watch(&limits);
        let (grant, network) = (Arc::clone(&call.grant), Arc::clone(&runtime.network));
        let reach = Arc::new(NetworkGate::new(grant, network, call.widening.clone()));
        let gate = AssetGate::of_guest(&call);
        let (granted, widening) = (Arc::clone(&call.grant), call.widening.clone());
        let waits = if reach.is_none() { Waits::Timers } else { Waits::Sockets };
        let stdout = Pipe::new(call.stdout.clone(), limits.output);
        let stderr = Pipe::unlimited(call.stderr.clone());
        let code = self.code();
        let guest = Guest {
            program: code.program,
            instances: code.instances,
            call,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            budget: runtime.budget.clone(),
            reach: Arc::clone(&reach),
            gate: gate.clone(),
            cancel: cancel.clone(),
        };
        let ticking = runtime.ticker.enter();
        // A guest that is abandoned keeps its permit, and the epoch ticking, until it really
        // ends.
        let job = move || async move {
            let finished = guest.run().await;
            drop((permit, ticking));
            finished
        };
        let started = Instant::now();
        // The guest sees its end itself, unless it is blocked.
        let until = Until { cancel: cancel.clone(), deadline };
        let result = runtime.threads.run(waits, until, job).await;
        let has_ended = !matches!(result, Err(ThreadError::Abandoned));
        let finished = match result {
            Ok(finished) => finished,
            Err(ThreadError::Abandoned) => GuestOutcome {
                exit: guest::ended_by_host(),
                limit: (!cancel.is_cancelled()).then_some(Limit::WallClock),
                cancelled: cancel.is_cancelled(),
                usage: ResourceUsage { duration: started.elapsed(), ..ResourceUsage::default() },
            },
            Err(error) => return Outcome::not_started(error.to_string()),
        };
        let ran = !matches!(finished.exit, Exit::NotStarted(_));
        let isolation = || match has_ended {
            true => isolation_of(&granted, widening.as_deref(), &reach),
            false => Isolation::none(NOT_ENDED),
        };
        Outcome {
            exit: finished.exit,
            limit: finished.limit,
            cancelled: finished.cancelled,
            stdout: stdout.take(),
            stderr: stderr.take(),
            usage: finished.usage,
            isolation: ran.then(isolation),
            denied: reach.denied().and(gate.denied()),
        }
    }
}

/// The reason for an isolation without guarantees after a thread was abandoned.
const NOT_ENDED: &str = "a thread of the component was still in a function of the host when the \
    call was answered";

/// The guarantee for executed places if a component may write to a directory.
const BY_THEIR_PATHS: &str = "ikigai finds them by their paths: your own link may lead from one to \
    a place that the tool writes to, and another program may move a directory during the call";

/// The guarantee for the memory of a component that could connect to something.
const WITHOUT_SOCKETS: &str = "the kernel's buffers of the component's sockets and HTTP \
    connections do not count; their number is bounded";

/// Returns the isolation of a component after its run: with this grant, what the user allowed
/// in the meantime, and the sockets that it could have.
fn isolation_of(grant: &Grant, widening: Option<&Widening>, reach: &NetworkGate) -> Isolation {
    let mut isolation = Isolation::of_a_component();
    if grant.writable_dirs().next().is_some() || widening.is_some_and(Widening::may_write) {
        isolation.places = Some(Guarantee::Partial(BY_THEIR_PATHS.into()));
    }
    if reach.had_network() {
        isolation.memory = Guarantee::Partial(WITHOUT_SOCKETS.into());
    }
    isolation
}

impl Executor for GuestProgram {
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
        Box::pin(self.clone().call(call))
    }
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    use std::path::Path;

    use super::*;
    use crate::limits::CallLimits;

    /// A command that succeeds.
    const COMMAND: &str = r#"(component
        (core module $module (func (export "run") (result i32) (i32.const 0)))
        (core instance $core (instantiate $module))
        (func $run (result (result)) (canon lift (core func $core "run")))
        (instance $command (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $command)))"#;

    const ENDLESS: &str = "(loop $again (br $again)) unreachable";

    /// Compiles a component from its text.
    pub(super) fn compiled(text: &str) -> GuestProgram {
        compiled_to(text, Tier::Optimised)
    }

    pub(super) fn compiled_to(text: &str, tier: Tier) -> GuestProgram {
        let runtime = Runtime::new(1, u64::MAX).expect("a runtime");
        let bytes = wat::parse_str(text).expect("a component");
        runtime.compile_here_to(&bytes, tier).expect("compiled")
    }

    /// Returns the command with another body of its function, and more in its module.
    fn command(more: &str, body: &str) -> String {
        COMMAND.replace("(i32.const 0))", &format!("{body})\n{more}"))
    }

    pub(super) fn call() -> Call {
        Call::new(Path::new("/"))
    }

    #[tokio::test]
    async fn a_component_that_was_given_more_time_is_not_ended_at_its_first() {
        const FIRST: std::time::Duration = std::time::Duration::from_millis(300);
        let program = compiled(&command("", ENDLESS));
        let limits = CallLimits { wall_clock: FIRST, ..CallLimits::default() };
        let ended = program.run(Call { limits, ..call() }).await;
        assert_eq!((ended.limit, ended.cancelled), (Some(Limit::WallClock), false));
        let call = Call { limits, ..call() };
        call.deadline.begin(&limits);
        call.deadline.extend(100 * FIRST);
        let (deadline, cancel) = (call.deadline.clone(), call.cancel.clone());
        let meanwhile = async {
            tokio::time::sleep(2 * FIRST).await;
            deadline.extend(FIRST);
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(program.run(call), meanwhile);
        assert_eq!((ended.limit, ended.cancelled), (None, true));
    }

    /// Returns the command with more in its component.
    fn component(more: &str) -> String {
        COMMAND.replacen("(component", &format!("(component {more}"), 1)
    }

    #[tokio::test]
    async fn what_its_instances_take_counts_into_the_memory_of_a_component() {
        let elements = "$function ".repeat(10_000);
        let module = format!("(core module $large (func $function) (elem func {elements}))");
        let large = module + &"(core instance (instantiate $large))".repeat(40);
        let resource = "(type $r (resource (rep i32))) (export \"r\" (type $r))".to_owned();
        let nested = (0..3).fold(resource, |inner, level| {
            let instances = format!("(instance (instantiate $c{level}))").repeat(4);
            format!("(component $c{level} {inner}) {instances}")
        });
        for more in [large, nested] {
            let program = compiled(&component(&more));
            let run = |wasm_memory| {
                let limits = CallLimits { wasm_memory, ..CallLimits::default() };
                program.run(Call { limits, ..call() })
            };
            let refused = run(1 << 20).await;
            assert_eq!(refused.limit, Some(Limit::Memory), "{refused:?}");
            assert_eq!(refused.usage.peak_memory, Some(0), "{refused:?}");
            let ran = run(64 << 20).await;
            assert_eq!(ran.exit, Exit::Code(0), "{ran:?}");
            assert!(ran.usage.peak_memory > Some(4 << 20), "{ran:?}");
        }
        let ordinary = compiled(COMMAND).run(call()).await;
        assert_eq!(ordinary.usage.peak_memory, Some(0), "{ordinary:?}");
    }

    #[tokio::test]
    async fn a_component_has_a_limit_on_the_resources_that_it_makes_itself() {
        const MAKES: &str = r#"(component
            (type $resource (resource (rep i32)))
            (core func $new (canon resource.new $resource))
            (core module $module
                (import "" "new" (func $new (param i32) (result i32)))
                (func (export "run") (result i32)
                    (local $made i32)
                    (loop $again
                        (drop (call $new (i32.const 0)))
                        (local.set $made (i32.add (local.get $made) (i32.const 1)))
                        (br_if $again (i32.lt_u (local.get $made) (i32.const COUNT))))
                    (i32.const 0)))
            (core instance $core
                (instantiate $module (with "" (instance (export "new" (func $new))))))
            (func $run (result (result)) (canon lift (core func $core "run")))
            (instance $command (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $command)))"#;
        let made = async |count: usize| {
            compiled(&MAKES.replace("COUNT", &count.to_string())).run(call()).await.exit
        };
        assert_eq!(made(bounds::RESOURCES).await, Exit::Code(0));
        let refused = made(bounds::RESOURCES + 1).await;
        assert!(format!("{refused:?}").contains("handle limit"), "{refused:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[tokio::test]
    async fn every_limit_holds_in_the_code_of_both_tiers() {
        let short = std::time::Duration::from_millis(100);
        let limits = CallLimits { wall_clock: 100 * short, ..CallLimits::default() };
        let late = CallLimits { wall_clock: short, ..limits };
        let fuel = CallLimits { fuel: 1_000_000, ..limits };
        let memory = CallLimits { wasm_memory: 1 << 20, ..limits };
        let grows =
            "(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
            unreachable";
        let recursion = "(func $deep (param i32) (result i32)
            (i32.add (call $deep (local.get 0)) (i32.const 1)))";
        for tier in [Tier::Baseline, Tier::Optimised] {
            let run = async |limits, more, body| {
                let program = compiled_to(&command(more, body), tier);
                let ended = program.run(Call { limits, ..call() }).await;
                assert_ne!(ended.exit, Exit::Code(0), "{tier:?}: {ended:?}");
                (ended.limit, ended.usage.fuel, format!("{:?}", ended.exit))
            };
            assert_eq!(run(late, "", ENDLESS).await.0, Some(Limit::WallClock), "{tier:?}");
            let (limit, used, _) = run(fuel, "", ENDLESS).await;
            assert_eq!((limit, used), (Some(Limit::Fuel), Some(fuel.fuel)), "{tier:?}");
            let grown = run(memory, "(memory 1)", grows).await.0;
            assert_eq!(grown, Some(Limit::Memory), "{tier:?}");
            let (limit, _, exit) = run(limits, recursion, "(call $deep (i32.const 1))").await;
            assert!(limit.is_none() && exit.contains("stack"), "{tier:?}: {exit}");
            let outside = run(limits, "(memory 1)", "(i32.load (i32.const 65536))").await.2;
            assert!(outside.contains("out of bounds"), "{tier:?}: {outside}");
        }
    }

    /// Only the guest itself then keeps its engine alive, and the engine's epoch ends the guest.
    #[cfg(target_arch = "x86_64")]
    #[tokio::test]
    async fn a_guest_of_the_baseline_ends_when_all_that_called_it_is_gone() {
        let program = compiled_to(&command("", ENDLESS), Tier::Baseline);
        let limits =
            CallLimits { wall_clock: std::time::Duration::from_secs(600), ..CallLimits::default() };
        let call = Call { limits, ..call() };
        let guest = Arc::downgrade(&call.grant);
        let permits = Arc::clone(&program.runtime.permits);
        let running = tokio::spawn(program.run(call));
        drop(program);
        while permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        running.abort();
        assert!(running.await.expect_err("aborted").is_cancelled());
        let begun = Instant::now();
        while guest.strong_count() > 0 {
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the guest goes on");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_component_has_an_isolation_only_if_it_ran() {
        let (program, call) = (compiled(COMMAND), call());
        let ran = program.run(call.clone()).await;
        assert_eq!((ran.exit, ran.isolation), (Exit::Code(0), Some(Isolation::of_a_component())));
        let mut grant = Grant::clone(&call.grant);
        let dir = ikigai_protocol::GrantedDir {
            access: ikigai_protocol::Access::ReadWrite,
            path: std::env::temp_dir(),
        };
        grant.dirs.push(dir);
        let writing = program.run(Call { grant: Arc::new(grant), ..call.clone() }).await;
        let places = writing.isolation.and_then(|it| it.places).expect("said");
        assert!(places.reason().is_some_and(|why| why.contains("paths")), "{places}");
        let net = crate::policy::Net::parse(["a.test:443"]).expect("a list");
        let grant = Arc::new(Grant { net, ..Grant::clone(&call.grant) });
        let connected = program.run(Call { grant, ..call.clone() }).await;
        let memory = connected.isolation.expect("it ran").memory;
        assert!(memory.reason().is_some_and(|why| why.contains("sockets")), "{memory}");
        let args = vec![OsString::from_vec(vec![0xff])];
        let refused = program.run(Call { args, ..call }).await;
        assert!(matches!(refused.exit, Exit::NotStarted(_)), "{refused:?}");
        assert_eq!(refused.isolation, None);
    }
}
