//! The tools that can be called: discovery and the snapshot that comes of it.
//!
//! Owns what is found where, what was remembered of it, and which build of a
//! tool runs. Knows nothing of models, envelopes or flags.

mod candidate;
mod file;
mod loader;
mod memo;
mod remembered;
mod scan;
mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use loader::{Budget, Progress, ProgressFn};
pub use remembered::remembered;
pub use tool::{Build, Tool};

use crate::digest::Digest;
use crate::exec::native::Supervisor;
use crate::exec::wasm::cache::Cache;
use crate::exec::wasm::compiler::Compiler;
use crate::limits::Limits;
use crate::paths::{Paths, SYSTEM_CACHE};
use crate::policy::{Authority, ToolOrigin};
use candidate::Candidate;
use loader::Loader;
use memo::Memo;
use scan::{Scan, Wanted};

/// How much of what is remembered a scan believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All of it: files that are unchanged are not asked.
    Remembered,
    /// Schemas; what failed is asked again.
    Failed,
    /// Schemas of components; native tools and what failed are asked again.
    Everything,
}

/// How discovery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanState {
    /// No scan was begun.
    NotStarted,
    /// The first or a further scan runs.
    InProgress,
    /// The snapshot has all tools but those whose components are being compiled.
    Compiling,
    /// The snapshot is of the last scan.
    Complete,
    /// The last scan failed; the snapshot is of the one before it.
    Failed,
}

/// A file that is no tool, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where it is.
    pub path: PathBuf,
    /// For a person.
    pub reason: String,
    /// Whether it is no tool at all; else another took its place.
    pub failed: bool,
}

impl Skipped {
    /// The one line that a candidate gets that was left out.
    #[must_use]
    pub fn line(&self) -> String {
        let what = if self.failed { "schema failed" } else { "left out" };
        format!("Debug: tool '{}' {what} ({})", file::name(&self.path), self.reason)
    }

    /// Whether its file is called like a tool of this name.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        file::is_called(&self.path, name)
    }
}

/// What one scan found. Never changes; a new scan makes a new one.
#[derive(Clone, Default)]
pub struct Snapshot {
    tools: BTreeMap<String, Tool>,
    skipped: Vec<Skipped>,
    warnings: Vec<String>,
    is_late: bool,
}

impl Snapshot {
    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Every tool, by name.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.values()
    }

    /// Whether a file that is called like this tool failed.
    #[must_use]
    pub fn failed(&self, name: &str) -> bool {
        self.skipped.iter().any(|skipped| skipped.failed && skipped.is_called(name))
    }

    /// Whether tools are missing because their components were not compiled in time.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Every file that was looked at and is no tool.
    #[must_use]
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// What a person should know of the scan as a whole.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// What a registry is made from.
pub(crate) struct Settings {
    /// Where tools are found and caches kept.
    pub(crate) paths: Paths,
    /// Who says which build to take.
    pub(crate) authority: Arc<Authority>,
    /// The limits of a `--schema` call, but for time and output.
    pub(crate) limits: Limits,
    /// The directory that `--schema` calls start in.
    pub(crate) workspace: Arc<Path>,
    /// What all components together may take.
    pub(crate) budget: Budget,
    /// What compiles components.
    pub(crate) compiler: Compiler,
    /// What confines and watches native tools.
    pub(crate) supervisor: Supervisor,
    /// Where compilations are told.
    pub(crate) progress: ProgressFn,
}

/// The tools of one host.
pub struct Registry {
    settings: Settings,
    loader: Arc<Loader>,
    memo: Arc<Memo>,
    state: watch::Sender<ScanState>,
    snapshot: watch::Sender<Arc<Snapshot>>,
}

impl Registry {
    /// A registry that has not looked yet.
    pub(crate) fn new(settings: Settings) -> Self {
        let paths = &settings.paths;
        let system_cache = paths.system_cache.clone();
        let user_cache = paths.cache.clone();
        let cache = move || Cache::open(system_cache.as_deref(), user_cache.as_deref());
        let loader = Loader::new(
            settings.budget,
            Box::new(cache),
            settings.compiler.clone(),
            settings.supervisor.clone(),
            Arc::clone(&settings.progress),
        );
        let memo = Memo::open(paths.cache.as_deref(), memo::host_identity(paths));
        Self {
            loader: Arc::new(loader),
            memo: Arc::new(memo),
            state: watch::Sender::new(ScanState::NotStarted),
            snapshot: watch::Sender::new(Arc::default()),
            settings,
        }
    }

    /// Who says which build of a tool runs, and what it may touch.
    #[must_use]
    pub fn authority(&self) -> &Arc<Authority> {
        &self.settings.authority
    }

    /// Where tools are found and caches kept.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.settings.paths
    }

    /// The program that confines and watches native tools.
    #[must_use]
    pub fn supervisor(&self) -> &Supervisor {
        &self.settings.supervisor
    }

    /// Looks through both directories and swaps the snapshot in whole. Where components must
    /// be compiled first, one without their tools is there meanwhile.
    pub async fn scan(&self, depth: Depth) -> Arc<Snapshot> {
        self.state.send_replace(ScanState::InProgress);
        let unfinished = Unfinished(&self.state);
        if depth != Depth::Everything {
            let (known, is_whole) = self.scanner(depth, Wanted::Known).run().await;
            if is_whole {
                return self.complete(known, unfinished);
            }
            self.snapshot.send_replace(Arc::new(known));
            self.state.send_replace(ScanState::Compiling);
        }
        // What failed before was asked again just now.
        let depth = if depth == Depth::Failed { Depth::Remembered } else { depth };
        let (snapshot, _) = self.scanner(depth, Wanted::All).run().await;
        self.complete(snapshot, unfinished)
    }

    fn complete(&self, snapshot: Snapshot, unfinished: Unfinished<'_>) -> Arc<Snapshot> {
        let snapshot = Arc::new(snapshot);
        self.snapshot.send_replace(Arc::clone(&snapshot));
        std::mem::forget(unfinished);
        self.state.send_replace(ScanState::Complete);
        snapshot
    }

    /// Looks for one tool: what is remembered, or a second look where the name is not in it,
    /// or a file of that name once failed, which may be well by now.
    ///
    /// The first look compiles only what could be the tool by the name of its file, and other
    /// components are not in the snapshot then. So a component that has never been compiled
    /// takes the place of an installed tool at once only where it is called like it.
    ///
    /// For compilations it is waited no longer than `patience`.
    pub async fn look_up(&self, name: &str, patience: Option<Duration>) -> Arc<Snapshot> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let look = |depth, wanted| Scan { deadline, ..self.scanner(depth, wanted) }.run();
        let (snapshot, _) = look(Depth::Remembered, Wanted::Tool(name.to_owned())).await;
        let is_there = snapshot.get(name).is_some() && !snapshot.failed(name);
        if is_there || snapshot.is_late {
            return Arc::new(snapshot);
        }
        let (snapshot, _) = look(Depth::Failed, Wanted::All).await;
        Arc::new(snapshot)
    }

    /// The snapshot of the last scan that was finished, or an empty one.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.borrow())
    }

    /// How discovery stands, and how it goes on.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ScanState> {
        self.state.subscribe()
    }

    /// A tool that is named by its file, wherever that is. It counts as the
    /// user's.
    ///
    /// # Errors
    ///
    /// The file is no tool; the text says why.
    pub async fn tool_at(&self, path: &Path, depth: Depth) -> Result<Tool, String> {
        let candidate = named(path)?;
        let scan = self.scanner(depth, Wanted::All);
        let asked = scan.ask(&candidate).await;
        self.memo.save();
        let (build, schema) = asked.map_err(|refusal| refusal.reason().to_owned())?;
        let schema = Arc::new(schema);
        Ok(Tool {
            schema,
            origin: ToolOrigin::User,
            build,
            reason: WAS_NAMED.into(),
            other: None,
            fell_back: false,
        })
    }

    /// The program at a path, without asking it for its schema.
    ///
    /// # Errors
    ///
    /// The file is no candidate or cannot be read.
    pub fn build_at(&self, path: &Path) -> Result<Arc<Build>, String> {
        let candidate = named(path)?;
        Build::of(&candidate, &self.memo, &self.loader)
    }

    /// The digest of what the file of a build holds now.
    ///
    /// # Errors
    ///
    /// It is gone or cannot be read; the text says why.
    pub async fn present_digest(&self, build: &Build) -> Result<Digest, String> {
        let digest = build.present_digest(&self.memo).await;
        self.memo.save();
        digest
    }

    fn scanner(&self, depth: Depth, wanted: Wanted) -> Scan {
        let paths = &self.settings.paths;
        let system = paths.system_tools.clone().map(|dir| (dir, ToolOrigin::System));
        let user = paths.user_tools.clone().map(|dir| (dir, ToolOrigin::User));
        Scan {
            // Later wins on equal names.
            dirs: system.into_iter().chain(user).collect(),
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

/// Why a build runs that was given by its path.
pub const WAS_NAMED: &str = "it was named";

fn named(path: &Path) -> Result<Candidate, String> {
    Candidate::at(path.to_owned(), ToolOrigin::User)
        .map_err(|unfit| format!("`{}`: {unfit}", path.display()))
}

/// What comes of `work` until the deadline, if there is one.
pub(crate) async fn by<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.ok(),
    }
}

/// Marks a scan that is dropped half-way as failed.
struct Unfinished<'a>(&'a watch::Sender<ScanState>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.send_replace(ScanState::Failed);
    }
}

/// Compiles every component of a directory into the cache inside it, and says how
/// many there are.
///
/// # Errors
///
/// The directory cannot be read, or a component cannot be used.
pub async fn precompile(dir: &Path, progress: ProgressFn) -> Result<usize, String> {
    let listing = candidate::list(dir, ToolOrigin::System)
        .map_err(|error| format!("`{}` cannot be read: {error}", dir.display()))?;
    let cache = Cache::to_install(&dir.join(SYSTEM_CACHE))
        .map_err(|error| format!("`{}` cannot have a cache: {error}", dir.display()))?;
    let loader = Arc::new(Loader::new(
        Budget { guests: 1, memory: u64::MAX },
        Box::new(move || cache),
        Compiler::new(Some(Compiler::OF_THIS_PROCESS.into())),
        // No tool is asked anything.
        Supervisor::new(None),
        progress,
    ));
    let memo = Memo::open(None, String::new());
    let mut count = 0;
    for candidate in listing.candidates {
        let path = candidate.path.display().to_string();
        let build = Build::of(&candidate, &memo, &loader)?;
        if build.backend() == crate::policy::Backend::Wasm {
            build.program().await.map_err(|error| format!("`{path}` {error}"))?;
            count += 1;
        }
    }
    Ok(count)
}
