//! Loads builds: a component from its `.wasm` file, by way of the cache or the compiler, with
//! the runtime that all components share made on first use.

use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

use ikigai_protocol::Digest;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::file;
use crate::exec::mcp::Pool;
use crate::exec::native::Supervisor;
use crate::exec::wasm::cache::Cache;
use crate::exec::wasm::compiler::Compiler;
use crate::exec::wasm::{ComponentError, GuestProgram, Runtime};

/// An event of work that a person may wait for, which
/// [`HostBuilder::progress`](crate::HostBuilder::progress) reports. The text is the name of the
/// component's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The compilation of a component begins.
    Compiling(String),
    /// The compilation has ended, well or not.
    Compiled(String),
}

/// Called with each event of [`Progress`].
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// Returns the number of cores of the machine, or of the container. The first call costs a
/// dozen system calls.
pub(super) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The size in bytes above which a component keeps every core busy while it is compiled. One
/// with an interpreter in it has 10 MB and more.
const LARGE: u64 = 1 << 20;

/// The resources of all components of one host together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Calls that run at once; further ones wait.
    pub(crate) guests: u32,
    /// Linear memory and tables, in bytes.
    pub(crate) memory: u64,
}

/// Opens the cache, on first use.
pub(super) type OpenCache = Box<dyn FnOnce() -> Cache + Send>;

/// Loads the builds of one host: components for its runtime, executables for its supervisor.
pub(super) struct Loader {
    runtime: OnceLock<Result<Arc<Runtime>, String>>,
    budget: Budget,
    cache: LazyLock<Cache, OpenCache>,
    compiler: Compiler,
    supervisor: Supervisor,
    servers: Arc<Pool>,
    progress: ProgressFn,
    /// A permit for each core. Compilation is parallel in itself: a component that has work for
    /// all cores takes all permits, since a second one would only take memory.
    compilations: Semaphore,
}

impl Loader {
    pub(super) fn new(
        budget: Budget,
        cache: OpenCache,
        compiler: Compiler,
        supervisor: Supervisor,
        servers: Arc<Pool>,
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
            compilations: Semaphore::new(cores()),
        }
    }

    /// Returns the program that native builds run under.
    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// Returns the servers that are in use.
    pub(super) fn servers(&self) -> &Arc<Pool> {
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
        let size = std::fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len());
        let permits = if size > LARGE { cores() } else { 1 };
        // The semaphore is never closed.
        let _permits = self.compilations.acquire_many(permits.try_into().unwrap_or(u32::MAX)).await;
        // A compilation ends with the future that waits for it.
        let cancel = CancellationToken::new();
        let _cancel_if_dropped = cancel.clone().drop_guard();
        let (loader, path) = (Arc::clone(self), path.to_owned());
        let compiled = tokio::task::spawn_blocking(move || loader.compile(&path, digest, &cancel));
        compiled.await.map_err(|error| ComponentError::Unread(error.to_string()))?
    }

    fn compile(
        &self,
        path: &Path,
        digest: Digest,
        cancel: &CancellationToken,
    ) -> Result<GuestProgram, ComponentError> {
        let name = file::name(path);
        let source = file::open_component(path)
            .map_err(|error| ComponentError::Unread(error.to_string()))?;
        (self.progress)(Progress::Compiling(name.clone()));
        let runtime = self.runtime()?;
        let compiled = runtime.compile(&self.compiler, source, &digest, &self.cache, cancel);
        (self.progress)(Progress::Compiled(name));
        compiled
    }

    /// Returns whether the component is in the cache.
    pub(super) fn is_compiled(&self, digest: &Digest) -> bool {
        self.runtime().is_ok_and(|runtime| runtime.load_compiled(digest, &self.cache).is_some())
    }
}
