//! Loads builds. A component is loaded from its `.wasm` file, through the cache or the compiler.
//! The first use creates the runtime that all components share.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock, Weak, mpsc};
use std::time::Duration;

use ikigai_protocol::Digest;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::file;
use crate::exec::mcp::ServerPool;
use crate::exec::native::Supervisor;
use crate::exec::wasm::cache::ComponentCache;
use crate::exec::wasm::compiler::Compiler;
use crate::exec::wasm::{
    BackgroundCompilation, ComponentError, GuestProgram, Runtime, Tier, WeakProgram, processors,
};

/// An event of work that the user may wait for, which
/// [`HostBuilder::progress`](crate::HostBuilder::progress) reports. The text is the name of the
/// component's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileEvent {
    /// The compilation of a component begins.
    Compiling(String),
    /// The compilation has ended, with or without success.
    Compiled(String),
}

/// Called with each event of [`CompileEvent`].
pub type ProgressFn = Arc<dyn Fn(CompileEvent) + Send + Sync>;

/// The size in bytes above which a component keeps every core busy while it is compiled. A
/// component that contains an interpreter is 10 MB or larger.
const LARGE: u64 = 1 << 20;

/// The size in bytes above which a component first runs as baseline code. Optimising 1 MiB takes a
/// third of a second on two cores, and a user notices a second.
const SLOW: u64 = 4 << 20;

/// The interval at which a host looks for code that another host compiles in the background.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The resources of all components of one host together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuestBudget {
    /// The number of calls that run at once; further calls wait.
    pub(crate) guests: u32,
    /// Linear memory and tables, in bytes.
    pub(crate) memory: u64,
}

/// Opens the cache, on first use.
pub(super) type OpenCache = Box<dyn FnOnce() -> ComponentCache + Send>;

/// Loads the builds of one host: components for its runtime, executables for its supervisor.
pub(super) struct Loader {
    runtime: OnceLock<Result<Arc<Runtime>, String>>,
    budget: GuestBudget,
    cache: LazyLock<ComponentCache, OpenCache>,
    compiler: Compiler,
    supervisor: Supervisor,
    servers: Arc<ServerPool>,
    progress: ProgressFn,
    /// A permit for each core. Compilation itself is parallel. A component with work for all cores
    /// takes all permits, because a second compilation would only use more memory.
    compilations: Semaphore,
}

impl Loader {
    pub(super) fn new(
        budget: GuestBudget,
        cache: OpenCache,
        compiler: Compiler,
        supervisor: Supervisor,
        servers: Arc<ServerPool>,
        progress: ProgressFn,
    ) -> Self {
        Self {
            runtime: OnceLock::new(),
            budget,
            cache: LazyLock::new(cache),
            compiler,
            servers,
            supervisor,
            progress,
            compilations: Semaphore::new(processors()),
        }
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    pub(super) fn servers(&self) -> &Arc<ServerPool> {
        &self.servers
    }

    fn runtime(&self) -> Result<&Arc<Runtime>, ComponentError> {
        let runtime =
            self.runtime.get_or_init(|| Runtime::new(self.budget.guests, self.budget.memory));
        runtime.as_ref().map_err(|reason| ComponentError::NoRuntime(reason.clone()))
    }

    pub(super) async fn load(
        self: &Arc<Self>,
        path: &Path,
        digest: Digest,
    ) -> Result<GuestProgram, ComponentError> {
        let runtime = self.runtime()?;
        if let Some(program) = runtime.load_compiled(&digest, &self.cache) {
            return program;
        }
        let size = size(path);
        let tier = first_tier(size);
        if tier == Tier::Baseline
            && let Some(program) = runtime.load(&digest, tier, &self.cache)
        {
            return program.inspect(|program| self.optimise(program, path, digest));
        }
        let permits = if size > LARGE { processors() } else { 1 };
        // The semaphore is never closed.
        let _permits = self.compilations.acquire_many(permits.try_into().unwrap_or(u32::MAX)).await;
        // Dropping the future that waits for a compilation ends the compilation.
        let cancel = CancellationToken::new();
        let _cancel_if_dropped = cancel.clone().drop_guard();
        let (loader, from) = (Arc::clone(self), path.to_owned());
        let compile = move || loader.compile(&from, digest, tier, &cancel);
        let compiled = tokio::task::spawn_blocking(compile).await;
        let compiled = compiled.map_err(|error| ComponentError::Unread(error.to_string()))?;
        compiled.inspect(|program| self.optimise(program, path, digest))
    }

    fn compile(
        &self,
        path: &Path,
        digest: Digest,
        tier: Tier,
        cancel: &CancellationToken,
    ) -> Result<GuestProgram, ComponentError> {
        let name = file::name(path);
        let source = open(path)?;
        (self.progress)(CompileEvent::Compiling(name.clone()));
        let runtime = self.runtime()?;
        let compiled = runtime.compile(&self.compiler, source, &digest, tier, &self.cache, cancel);
        (self.progress)(CompileEvent::Compiled(name));
        compiled
    }

    /// If a component runs as baseline code, starts optimising it. Later calls then use the
    /// optimised code.
    fn optimise(self: &Arc<Self>, program: &GuestProgram, path: &Path, digest: Digest) {
        if program.tier() == Tier::Optimised {
            return;
        }
        // The work begins here, because a command may end before the thread has started. It begins
        // only if a thread exists that can wait for the process.
        let (begin, begun) = mpsc::channel();
        let (loader, program, from) = (Arc::downgrade(self), program.downgrade(), path.to_owned());
        let wait = move || {
            if let Ok(behind) = begun.recv() {
                wait_for_behind(&loader, behind, &program, &from, digest);
            }
        };
        match std::thread::Builder::new().name("optimise".into()).spawn(wait) {
            // The thread waits for this message.
            Ok(_) => drop(begin.send(self.begin_behind(path, digest))),
            Err(error) => tracing::debug!("the component {digest} stays as it is: {error}"),
        }
    }

    fn begin_behind(&self, path: &Path, digest: Digest) -> BackgroundCompilation {
        let Ok(runtime) = self.runtime() else { return BackgroundCompilation::Over };
        runtime.optimise(&self.compiler, &digest, &self.cache, || open(path))
    }

    /// Returns the reason why a component stays on baseline code.
    pub(super) fn why_unoptimised(&self, digest: &Digest) -> Option<String> {
        self.runtime().ok()?.why_unoptimised(digest, &self.cache)
    }

    /// Returns whether the component at `path` is in the cache.
    pub(super) fn is_compiled(&self, path: &Path, digest: &Digest) -> bool {
        let Ok(runtime) = self.runtime() else { return false };
        let is_there = |tier| runtime.load(digest, tier, &self.cache).is_some();
        is_there(Tier::Optimised)
            || first_tier(size(path)) == Tier::Baseline && is_there(Tier::Baseline)
    }
}

fn open(path: &Path) -> Result<File, ComponentError> {
    file::open_component(path).map_err(|error| ComponentError::Unread(error.to_string()))
}

/// Returns the size of a file, or the largest size if it is unknown.
fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len())
}

/// Returns the tier of code that a new component of this size first runs as.
fn first_tier(size: u64) -> Tier {
    if size > SLOW { Tier::Baseline } else { Tier::Optimised }
}

/// Waits until optimised code exists, and makes the program use it. Gives up when the code is not
/// being made any more. The host and the program may end in the meantime. The thread ends with the
/// process that it waits for.
fn wait_for_behind(
    loader: &Weak<Loader>,
    mut behind: BackgroundCompilation,
    program: &WeakProgram,
    path: &Path,
    digest: Digest,
) {
    loop {
        let is_over = behind.wait();
        let Some(host) = loader.upgrade() else { return };
        let (Ok(runtime), cache) = (host.runtime().cloned(), host.cache.clone()) else { return };
        // Don't keep the host alive while the new code is read.
        drop(host);
        if runtime.improve(program, &digest, &cache) || is_over {
            return;
        }
        drop(runtime);
        let Some(host) = loader.upgrade() else { return };
        behind = host.begin_behind(path, digest);
        drop(host);
        if matches!(behind, BackgroundCompilation::OfAnother) {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
