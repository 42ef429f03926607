//! The tools that can be called: discovery and its result, a snapshot.
//!
//! Owns the search of the tool directories, the memory of earlier answers, and the choice between
//! the builds of a tool. Does not know models, envelopes or flags.

mod candidate;
mod confinement;
mod definition;
mod file;
mod loader;
mod memo;
mod names;
pub(crate) mod reaching;
mod remembered;
mod scan;
mod scan_context;
mod servers;
mod tool;
mod workspace;
mod workspace_tool;
mod wrapped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ikigai_protocol::Digest;
use tokio::sync::{OnceCell, watch};

pub use crate::exec::arguments::Mismatch;
pub use definition::{ServerDefinition, defined_servers, definition_path};
pub(crate) use loader::GuestBudget;
pub use loader::{CompileEvent, ProgressFn};
pub use remembered::remembered;
pub use servers::{ApprovalState, KnownServer, ListedTool, ServerState, server_request};
pub use tool::{Build, Tool};
pub use workspace_tool::{WorkspaceTool, WorkspaceToolsFn};
pub use wrapped::{is_wrap_definition, wrap_definition_path};

use crate::exec::mcp::{Remote, ServerPool, ServerTarget};
use crate::exec::native::{MachineSandbox, Supervisor};
use crate::exec::wasm::cache::ComponentCache;
use crate::exec::wasm::compiler::Compiler;
use crate::limits::CallLimits;
use crate::paths::{Paths, SYSTEM_CACHE};
use crate::policy::{
    Authority, Backend, EarlierReach, InEarlierReach, RemedyHints, Sandbox, ToolOrigin,
};
use candidate::Candidate;
use loader::Loader;
use memo::Memo;
use scan_context::{ScanContext, ScanTarget};

/// The remembered answers that a scan trusts, for [`Registry::scan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanDepth {
    /// Trusts all answers, so unchanged files are not asked again.
    /// [`Host::refresh`](crate::Host::refresh) scans at this depth.
    Remembered,
    /// Trusts schemas. Files that failed are asked again, because the cause may have been
    /// elsewhere. For the same reason, the sandbox of native tools is tried again if it failed.
    Failed,
    /// Trusts only the schemas of components. Files that failed are asked again. So are native
    /// tools, because a native tool's schema may depend on more than its file.
    Everything,
}

/// The state of discovery, as reported by [`Registry::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// No scan has started.
    NotStarted,
    /// A scan is running.
    InProgress,
    /// The snapshot has all tools except those whose components are being compiled.
    Compiling,
    /// The snapshot is from the last scan.
    Complete,
    /// The last scan failed. The snapshot is from the scan before it.
    Failed,
}

/// A file that is not used as a tool, with the reason: [`Snapshot::skipped`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its path.
    pub path: PathBuf,
    /// The reason, for the user.
    pub reason: String,
    /// True if it is not a tool at all, and false if another tool is used instead.
    pub failed: bool,
}

impl Skipped {
    /// Returns a line for a debug log: the name of its file and the reason.
    #[must_use]
    pub fn line(&self) -> String {
        let what = if self.failed { "schema failed" } else { "left out" };
        format!("Debug: tool '{}' {what} ({})", file::name(&self.path), self.reason)
    }

    /// Returns whether its file has the name of the tool `name`.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        file::is_called(&self.path, name)
    }
}

/// The tools that one scan found. Never changes: each scan makes a new snapshot.
///
/// ```no_run
/// # async fn example(host: &ikigai_host::Host) {
/// let tools = host.refresh().await;
/// for tool in tools.tools() {
///     println!("{}: {}", tool.name(), tool.build.path.display());
/// }
/// for skipped in tools.skipped() {
///     println!("{} is not used: {}", skipped.path.display(), skipped.reason);
/// }
/// for warning in tools.warnings() {
///     println!("{warning}");
/// }
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Snapshot {
    tools: BTreeMap<String, Tool>,
    servers: Vec<KnownServer>,
    skipped: Vec<Skipped>,
    warnings: Vec<String>,
    is_late: bool,
}

impl Snapshot {
    /// Returns the tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Returns every tool, in the order of their names.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.values()
    }

    /// Returns the snapshot with only these tools.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        let mut only = self.clone();
        only.tools.retain(|name, _| names.contains(&name.as_str()));
        only
    }

    /// Returns whether a file with the name of this tool failed.
    #[must_use]
    pub fn failed(&self, name: &str) -> bool {
        self.skipped.iter().any(|skipped| skipped.failed && skipped.is_called(name))
    }

    /// Returns every server that the user's tool directory defines.
    #[must_use]
    pub fn servers(&self) -> &[KnownServer] {
        &self.servers
    }

    /// Returns whether tools are missing because their components were not compiled in time.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Returns every file that was examined but is not used as a tool.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Returns warnings for the user, such as a directory that cannot be read, two tools with the
    /// same name, or builds of one tool with different schemas.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// The settings of a registry.
pub(crate) struct RegistrySettings {
    /// The directories of tools and caches.
    pub(crate) paths: Paths,
    /// The policy, which chooses builds.
    pub(crate) authority: Arc<Authority>,
    /// The limits of a `--schema` call, except time and output.
    pub(crate) limits: CallLimits,
    /// The directory that `--schema` calls start in.
    pub(crate) workspace: Arc<Path>,
    /// The resources of all components together.
    pub(crate) budget: GuestBudget,
    /// The program that compiles components.
    pub(crate) compiler: Compiler,
    /// The program that confines and watches native tools.
    pub(crate) supervisor: Supervisor,
    /// The servers in use.
    pub(crate) servers: Arc<ServerPool>,
    /// The tools of the workspace; `None` if it has none.
    pub(crate) workspace_tools: Option<WorkspaceToolsFn>,
    /// Called when a compilation begins and ends.
    pub(crate) progress: ProgressFn,
}

/// Returns the user's cache, unless a tool could have put machine code or schemas there in an
/// earlier run. Then logs a warning.
#[must_use]
pub fn usable_cache(paths: &Paths) -> Option<&Path> {
    let cache = paths.cache.as_deref()?;
    match EarlierReach::from_paths(paths).check(cache) {
        Ok(()) => Some(cache),
        Err(found) => {
            tracing::warn!(
                "the cache is not used, so each run compiles components and asks tools again: \
                 {found}; {}",
                InEarlierReach::HINT
            );
            None
        }
    }
}

/// The discovery of the tools of one host: [`Host::registry`](crate::Host::registry).
///
/// [`Host::refresh`](crate::Host::refresh) is enough for most programs. The registry is for
/// programs that show the [state](Self::state) of discovery, use a [snapshot](Self::snapshot)
/// before the scan is finished, or scan at another [`ScanDepth`].
pub struct Registry {
    settings: RegistrySettings,
    loader: Arc<Loader>,
    memo: Arc<Memo>,
    is_confining: OnceCell<bool>,
    state: watch::Sender<ScanState>,
    snapshot: watch::Sender<Arc<Snapshot>>,
}

impl Registry {
    /// Returns a registry that has not scanned yet.
    pub(crate) fn new(settings: RegistrySettings) -> Self {
        let paths = &settings.paths;
        let system_cache = paths.system_cache.clone();
        let user_cache = usable_cache(paths).map(Path::to_path_buf);
        let memo = Memo::open(user_cache.as_deref(), memo::host_identity(paths));
        let cache = move || ComponentCache::open(system_cache.as_deref(), user_cache.as_deref());
        let loader = Loader::new(
            settings.budget,
            Box::new(cache),
            settings.compiler.clone(),
            settings.supervisor.clone(),
            Arc::clone(&settings.servers),
            Arc::clone(&settings.progress),
        );
        Self {
            loader: Arc::new(loader),
            memo: Arc::new(memo),
            is_confining: OnceCell::new(),
            state: watch::Sender::new(ScanState::NotStarted),
            snapshot: watch::Sender::new(Arc::default()),
            settings,
        }
    }

    /// Returns the policy, which decides which build of a tool runs and what it may touch.
    #[doc(hidden)]
    #[must_use]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.settings.authority
    }

    /// Returns the paths of the host, as given to the builder.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.settings.paths
    }

    /// Returns the program that confines and watches native tools.
    #[doc(hidden)]
    #[must_use]
    pub fn supervisor(&self) -> &Supervisor {
        &self.settings.supervisor
    }

    /// Returns the sandbox that this machine supports for native tools:
    /// [`Host::machine`](crate::Host::machine).
    pub(crate) async fn machine(&self) -> MachineSandbox {
        let machine = confinement::machine(self.supervisor(), &self.memo).await;
        self.memo.save();
        machine
    }

    /// Returns whether this machine's sandbox enforces every boundary that a grant can require for
    /// a native tool. Tries the sandbox, unless an earlier success is remembered.
    #[doc(hidden)]
    pub async fn is_confining(&self) -> bool {
        let found = self.is_confining.get_or_init(|| async {
            let (supervisor, memo) = (self.supervisor(), &self.memo);
            let holds = confinement::is_confining(supervisor, memo, ScanDepth::Failed).await;
            memo.save();
            holds
        });
        *found.await
    }

    /// Scans both directories and replaces the snapshot. If components must be compiled first,
    /// publishes a snapshot without their tools in the meantime.
    pub async fn scan(&self, depth: ScanDepth) -> Arc<Snapshot> {
        self.state.send_replace(ScanState::InProgress);
        let unfinished = Unfinished(&self.state);
        if depth != ScanDepth::Everything {
            let (known, is_whole) = self.scanner(depth, ScanTarget::Known).run().await;
            if is_whole {
                return self.complete(known, unfinished);
            }
            self.snapshot.send_replace(Arc::new(known));
            self.state.send_replace(ScanState::Compiling);
        }
        // The first pass has already asked the failed files again.
        let depth = if depth == ScanDepth::Failed { ScanDepth::Remembered } else { depth };
        let (snapshot, _) = self.scanner(depth, ScanTarget::All).run().await;
        self.complete(snapshot, unfinished)
    }

    fn complete(&self, snapshot: Snapshot, unfinished: Unfinished<'_>) -> Arc<Snapshot> {
        if snapshot.tools().any(|tool| tool.build.backend() == Backend::Native) {
            // With a filled reserve, the first call does not wait for the start of a process.
            self.supervisor().fill_reserve(Sandbox::default());
        }
        let snapshot = Arc::new(snapshot);
        self.snapshot.send_replace(Arc::clone(&snapshot));
        std::mem::forget(unfinished);
        self.state.send_replace(ScanState::Complete);
        snapshot
    }

    /// Looks for one tool, first among the remembered answers. Scans a second time if the name is
    /// not among them, or if a file with that name failed earlier and may have been fixed.
    ///
    /// The first scan compiles only components whose files have the tool's name, and its snapshot
    /// omits all others. So a component that has never been compiled replaces an installed tool at
    /// once only if its file has that tool's name. The snapshot also omits another tool if the
    /// choice of its build needs a check of the sandbox.
    ///
    /// Waits for compilations for at most `timeout`.
    pub async fn look_up(&self, name: &str, timeout: Option<Duration>) -> Arc<Snapshot> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let look = |depth, wanted| ScanContext { deadline, ..self.scanner(depth, wanted) }.run();
        let (snapshot, _) = look(ScanDepth::Remembered, ScanTarget::Tool(name.to_owned())).await;
        let is_there = snapshot.get(name).is_some() && !snapshot.failed(name);
        if is_there || snapshot.is_late {
            return Arc::new(snapshot);
        }
        let (snapshot, _) = look(ScanDepth::Failed, ScanTarget::All).await;
        Arc::new(snapshot)
    }

    /// Returns the last snapshot: an empty one before the first scan, and one without the tools
    /// that are being compiled while the state is [`ScanState::Compiling`].
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// Returns a tokio channel with the state of discovery and its changes.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ScanState> {
        self.state.subscribe()
    }

    /// Returns the tool in the file at any `path`. It counts as a user tool.
    ///
    /// # Errors
    ///
    /// Fails if the file is not a tool. The text says why.
    #[doc(hidden)]
    pub async fn tool_at(&self, path: &Path, depth: ScanDepth) -> Result<Tool, String> {
        let candidate = self.named(path).await?;
        let scan = self.scanner(depth, ScanTarget::All);
        let asked = scan.ask(&candidate).await;
        self.memo.save();
        let (build, schema) = asked.map_err(|refusal| refusal.reason().to_owned())?;
        Ok(Tool::new(schema, ToolOrigin::User, build, WAS_NAMED.into(), None))
    }

    /// Examines one server, and always asks it for its tools.
    ///
    /// # Errors
    ///
    /// Fails if the user's tool directory does not define this server.
    #[doc(hidden)]
    pub async fn server(&self, name: &str) -> Result<KnownServer, String> {
        let candidate = self.definition_of(name)?;
        Ok(self.ask(name, &candidate).await)
    }

    fn definition_of(&self, name: &str) -> Result<Candidate, String> {
        let dir = self.settings.paths.user_tools.as_deref();
        let dir = dir.ok_or("there is no directory of the user's tools")?;
        Candidate::at(definition_path(dir, name), ToolOrigin::User)
            .map_err(|_| format!("there is no server `{}`", name.escape_debug()))
    }

    async fn ask(&self, name: &str, candidate: &Candidate) -> KnownServer {
        let wanted = ScanTarget::Tool(servers::prefix(name));
        let server = self.scanner(ScanDepth::Everything, wanted).server(candidate).await;
        self.memo.save();
        server
    }

    /// Asks several servers at once for their tools, if they were never asked. Their tools appear
    /// in the next scan. Scans never wait for servers, so a long-lived front end calls this in the
    /// background.
    pub async fn ask_servers(&self) {
        let snapshot = self.snapshot();
        let unknown = snapshot.servers().iter().filter(|it| it.state == ServerState::NotAsked);
        let candidate =
            |server: &KnownServer| Candidate::at(server.path.clone(), ToolOrigin::User).ok();
        let unknown: Vec<Candidate> = unknown.filter_map(candidate).collect();
        if unknown.is_empty() {
            return;
        }
        let scan = Arc::new(self.scanner(ScanDepth::Remembered, ScanTarget::Servers));
        scan::look_at_all(&scan, unknown).await;
        self.memo.save();
    }

    /// Returns how to connect to an HTTP server, with the check of its present grant. Does not
    /// connect.
    ///
    /// # Errors
    ///
    /// Fails if no definition has this name, if the definition names a program, or if the server
    /// has no grant.
    #[doc(hidden)]
    pub fn remote_server(&self, name: &str) -> Result<Remote, String> {
        let candidate = self.definition_of(name)?;
        self.scanner(ScanDepth::Remembered, ScanTarget::Known).remote(&candidate)
    }

    /// Returns the digests that a server's grant is bound to: the digest of its definition, and of
    /// its program if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the program cannot be read.
    #[doc(hidden)]
    pub fn server_contents(&self, definition: &ServerDefinition) -> Result<Vec<Digest>, String> {
        servers::contents(definition, &self.memo)
    }

    /// Returns the program at a path, without asking it for its schema, unless it is a registered
    /// tool that was never asked.
    ///
    /// # Errors
    ///
    /// Fails if the file is not a candidate, or cannot be read.
    #[doc(hidden)]
    pub async fn build_at(&self, path: &Path) -> Result<Arc<Build>, String> {
        let candidate = self.named(path).await?;
        Build::from_candidate(&candidate, &self.memo, &self.loader)
    }

    /// Returns the file at a path that a caller named, with the registered tools that it is.
    async fn named(&self, path: &Path) -> Result<Candidate, String> {
        let mut candidate = Candidate::at(path.to_owned(), ToolOrigin::User)
            .map_err(|unfit| format!("`{}`: {unfit}", path.display()))?;
        let scan = self.scanner(ScanDepth::Remembered, ScanTarget::All);
        candidate.registered = scan.tools_that_are(&candidate).await;
        self.memo.save();
        Ok(candidate)
    }

    /// Returns the present digest of a build's file. If the file is a server definition, also
    /// returns the digest of the program that it names.
    ///
    /// # Errors
    ///
    /// Fails if a file is gone or cannot be read. The text says why.
    pub(crate) async fn present_contents(&self, build: &Build) -> Result<Vec<Digest>, String> {
        let mut contents = vec![build.present_digest(&self.memo).await?];
        if let Some((server, _)) = build.of_a_server()
            && let ServerTarget::Process { program, .. } = &server.target
        {
            contents.push(servers::program_digest(program, &self.memo)?);
        }
        self.memo.save();
        Ok(contents)
    }

    /// Returns a channel with the number of times that a server's list of tools was read. A change
    /// means that another scan is worthwhile.
    #[must_use]
    pub fn server_changes(&self) -> watch::Receiver<u64> {
        self.loader.servers().changes()
    }

    fn scanner(&self, depth: ScanDepth, wanted: ScanTarget) -> ScanContext {
        let paths = &self.settings.paths;
        let system = paths.system_tools.clone().map(|dir| (dir, ToolOrigin::System));
        let user = paths.user_tools.clone().map(|dir| (dir, ToolOrigin::User));
        ScanContext {
            // If two tools have the same name, the later one is used.
            dirs: system.into_iter().chain(user).collect(),
            workspace_tools: self.settings.workspace_tools.clone(),
            required: paths.required.clone(),
            authority: Arc::clone(&self.settings.authority),
            limits: self.settings.limits,
            workspace: Arc::clone(&self.settings.workspace),
            loader: Arc::clone(&self.loader),
            memo: Arc::clone(&self.memo),
            depth,
            wanted,
            deadline: None,
        }
    }
}

/// The reason for a build that the caller named by its path.
pub(crate) const WAS_NAMED: &str = "it was named";

/// Returns the result of `work`, or `None` if it does not resolve before the deadline.
pub(crate) async fn before_deadline<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = T>,
) -> Option<T> {
    match deadline {
        None => Some(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.ok(),
    }
}

/// Marks a scan as failed if it is dropped before its end.
struct Unfinished<'a>(&'a watch::Sender<ScanState>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.send_replace(ScanState::Failed);
    }
}

/// Compiles every component of a directory by this program, into the cache inside that directory.
/// Returns the number of components.
///
/// # Errors
///
/// Fails if the directory cannot be read, or a component cannot be used.
pub async fn precompile(
    dir: &Path,
    compiler: Option<PathBuf>,
    progress: ProgressFn,
) -> Result<usize, String> {
    let listing = candidate::list(dir, ToolOrigin::System)
        .map_err(|error| format!("`{}` cannot be read: {error}", dir.display()))?;
    let cache = ComponentCache::to_install(&dir.join(SYSTEM_CACHE))
        .map_err(|error| format!("`{}` cannot have a cache: {error}", dir.display()))?;
    let loader = Arc::new(Loader::new(
        GuestBudget { guests: 1, memory: u64::MAX },
        Box::new(move || cache),
        Compiler::new(compiler).for_an_installer(),
        // Compiling runs no tools.
        Supervisor::new(None, 0),
        // It starts no servers either.
        Arc::new(ServerPool::new(None, Supervisor::new(None, 0), RemedyHints::default())),
        progress,
    ));
    let memo = Memo::open(None, String::new());
    let mut count = 0;
    for candidate in listing.candidates.into_iter().filter(|it| it.backend == Backend::Wasm) {
        let path = candidate.path.display().to_string();
        let build = Build::from_candidate(&candidate, &memo, &loader)?;
        build.program().await.map_err(|error| format!("`{path}` {error}"))?;
        count += 1;
    }
    Ok(count)
}
