//! The builder of a host.
//!
//! Owns the list of paths that no tool may ever write: the host's own files, computed from its
//! [`Paths`], its asset store and its program. Only the builder makes a [`Host`], so every host has
//! the list.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Host;
use crate::audit::Audit;
use crate::exec::assets::AssetStore;
use crate::exec::mcp::{Connect, ServerPool};
use crate::exec::native::Supervisor;
use crate::exec::wasm::compiler::Compiler;
use crate::limits::CallLimits;
use crate::paths::{self, Paths, WorkspaceError};
use crate::policy::{
    Authority, BackendChoice, EarlierReach, InEarlierReach, LimitKey, Override, Overrides,
    PolicyFiles, Profile, Remedy, RemedyHints, Signatures,
};
use crate::registry::{
    CompileEvent, GuestBudget, ProgressFn, Registry, RegistrySettings, WorkspaceTool,
    WorkspaceToolsFn,
};
use crate::toml_file::TomlError;

/// The number of components of one host that run at once, unless [`HostBuilder::components`] sets
/// another number.
const COMPONENTS: u32 = 16;

/// The error of [`HostBuilder::build`].
///
/// Its text is one line. Only the text about a policy file has more: it also shows the wrong line
/// of the file. The error of the system is its [`source`](std::error::Error::source).
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The workspace is not a usable directory.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A relative path was given, and the current directory does not exist.
    #[error("`{}` cannot be made absolute", path.display())]
    Relative {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A policy file cannot be used: it has a mistake, cannot be read, or other users may write to
    /// it.
    #[error(transparent)]
    Policy(#[from] TomlError),
    /// A policy file, or the directory of the configuration, the data or the state, lies where
    /// tools could write in an earlier run.
    #[error(transparent)]
    InEarlierReach(#[from] InEarlierReach),
}

/// Settings for a new [`Host`], made by [`Host::builder`].
///
/// | setting | default |
/// |---|---|
/// | [`paths`](Self::paths) | [`Paths::of_user`], for programs in the `bin` of an installation |
/// | [`profile`](Self::profile) | the policy's, otherwise [`Profile::Standard`] |
/// | [`backend`](Self::backend) | the policy's, otherwise [`BackendChoice::Auto`] |
/// | [`timeout`](Self::timeout), [`fuel`](Self::fuel), [`memory`](Self::memory), [`output`](Self::output), [`limit`](Self::limit) | the policy's, otherwise the defaults of [`CallLimits`] |
/// | [`overrides`](Self::overrides) | no overrides |
/// | [`ceiling`](Self::ceiling) | only the administrator's file |
/// | [`hints`](Self::hints) | denials carry no hint |
/// | [`assets`](Self::assets) | no asset store |
/// | [`secrets`](Self::secrets) | the usual places, the state, the data and the files of the asset store |
/// | [`components`](Self::components) | 16 at once |
/// | [`components_memory`](Self::components_memory) | half of the machine's memory |
/// | [`compile_timeout`](Self::compile_timeout) | as long as a compilation may take |
/// | [`supervisors_in_reserve`](Self::supervisors_in_reserve) | none |
/// | [`servers`](Self::servers) | server definitions are not used |
/// | [`signatures`](Self::signatures) | user tools don't run if a policy requires signatures |
/// | [`workspace_tools`](Self::workspace_tools) | the workspace brings no tools |
/// | [`record_arguments`](Self::record_arguments) | only their digest |
/// | [`progress`](Self::progress) | not reported |
///
/// ```no_run
/// use std::time::Duration;
///
/// use ikigai_host::{Host, Paths};
///
/// # fn main() -> Result<(), ikigai_host::BuildError> {
/// let host = Host::builder(".")
///     .paths(Paths::of_installation("/usr"))
///     .timeout(Duration::from_secs(5))
///     .memory(64 << 20)
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct HostBuilder {
    workspace: PathBuf,
    paths: Option<Paths>,
    ceilings: Vec<PathBuf>,
    overrides: Overrides,
    hints: RemedyHints,
    assets: Option<(Arc<dyn AssetStore>, Arc<str>)>,
    secrets: Vec<PathBuf>,
    budget: GuestBudget,
    compile_timeout: Option<Duration>,
    supervisors_in_reserve: usize,
    record_arguments: bool,
    connect: Option<Arc<dyn Connect>>,
    signatures: Option<Arc<dyn Signatures>>,
    workspace_tools: Option<WorkspaceToolsFn>,
    progress: ProgressFn,
}

impl HostBuilder {
    pub(super) fn new(workspace: PathBuf) -> Self {
        Self {
            workspace,
            paths: None,
            ceilings: Vec::new(),
            overrides: Overrides::default(),
            hints: RemedyHints::default(),
            assets: None,
            secrets: Vec::new(),
            budget: GuestBudget { guests: COMPONENTS, memory: half_of_memory() },
            compile_timeout: None,
            supervisors_in_reserve: 0,
            record_arguments: false,
            connect: None,
            signatures: None,
            workspace_tools: None,
            progress: Arc::new(|_| {}),
        }
    }

    /// Sets the paths of tools, policy, caches and audit log, and of the programs of the
    /// installation. See [`Paths`] for an example.
    pub fn paths(mut self, paths: Paths) -> Self {
        self.paths = Some(paths);
        self
    }

    /// Adds a policy file that bounds all others, like the administrator's policy. It must exist
    /// when the host is built. It grants nothing.
    pub fn ceiling(mut self, file: impl Into<PathBuf>) -> Self {
        self.ceilings.push(file.into());
        self
    }

    /// Sets profile, builds and limits together, each with the name of its author, and replaces
    /// what [`profile`](Self::profile), [`backend`](Self::backend) and [`limit`](Self::limit) have
    /// set. A program with such flags uses this method so that decisions name the flag.
    pub fn overrides(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Sets the profile, instead of the profile in the user's policy file. If the administrator or
    /// the workspace sets a stricter profile, the stricter one applies.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.overrides.profile = Some(Override::of_program(profile));
        self
    }

    /// Sets the builds that may run: only components or only native builds. A ceiling overrides it.
    pub fn backend(mut self, backend: BackendChoice) -> Self {
        self.overrides.backend = Some(Override::of_program(backend));
        self
    }

    /// Limits the wall clock of each call, counted from the start of its program.
    pub fn timeout(self, timeout: Duration) -> Self {
        // Five centuries amount to no limit.
        self.limit(LimitKey::WallClock, u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Limits the fuel of each call to a component, about one unit per instruction.
    pub fn fuel(self, units: u64) -> Self {
        self.limit(LimitKey::Fuel, units)
    }

    /// Limits the memory of each call in bytes, for components and native tools alike.
    pub fn memory(self, bytes: u64) -> Self {
        self.limit(LimitKey::Memory, bytes)
    }

    /// Limits the stdout of each call in bytes. More output ends the call.
    pub fn output(self, bytes: u64) -> Self {
        self.limit(LimitKey::Output, bytes)
    }

    /// Sets a limit of each call, in the unit of its key, instead of the default. A limit in a
    /// policy file is a bound: this can lower it but not raise it.
    pub fn limit(mut self, key: LimitKey, value: u64) -> Self {
        self.overrides.limits.retain(|(other, _)| *other != key);
        self.overrides.limits.push((key, Override::of_program(value)));
        self
    }

    /// Sets the sentences that tell the user what to do after a problem: a denial, a limit that
    /// ended a call, or a fault of the machine that stops a call or its record. The embedding
    /// program words them. They follow the reason in envelopes, in notes and in the log.
    ///
    /// ```no_run
    /// use ikigai_host::policy::Remedy;
    /// use ikigai_host::{Host, Paths};
    ///
    /// # fn main() -> Result<(), ikigai_host::BuildError> {
    /// let host = Host::builder(".")
    ///     .paths(Paths::of_installation("/usr"))
    ///     .hints(|remedy| match remedy {
    ///         Remedy::GrantToRun { tool } => format!("allow `{tool}` in the settings"),
    ///         _ => "ask your administrator".to_owned(),
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hints(mut self, sentence: impl Fn(&Remedy) -> String + Send + Sync + 'static) -> Self {
        self.hints = RemedyHints::new(sentence);
        self
    }

    /// Serves assets to the tools that the policy grants them. Each operation names the principal
    /// of the call as its [`AssetCaller`](crate::assets::AssetCaller), or `agent` in a call without a
    /// principal. No tool may write the files of the store. A tool sees them only if a grant names
    /// them.
    pub fn assets(mut self, store: Arc<dyn AssetStore>, agent: impl Into<Arc<str>>) -> Self {
        self.assets = Some((store, agent.into()));
        self
    }

    /// Adds files and directories with secrets of the embedding program, such as a token that its
    /// own clients need. They need not exist. A confined tool does not see them in the directories
    /// that it was granted, unless a grant names them.
    pub fn secrets(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.secrets.extend(places);
        self
    }

    /// Sets the number of components that run at once, at most; further calls wait.
    ///
    /// From 32 on, their memory comes from a pool. The first call of a component makes the pool and
    /// so takes longer; each further call is faster. Suits a long-lived host.
    pub fn components(mut self, at_once: u32) -> Self {
        self.budget.guests = at_once;
        self
    }

    /// Limits the total memory of all components that run at once, in bytes.
    pub fn components_memory(mut self, bytes: u64) -> Self {
        self.budget.memory = bytes;
        self
    }

    /// Limits the time that a call, or [`Host::look_up`], waits for the compilation of a component.
    /// Such a call is then answered with `TOOL_TIMEOUT`. [`Host::refresh`] is not limited.
    pub fn compile_timeout(mut self, timeout: Duration) -> Self {
        self.compile_timeout = Some(timeout);
        self
    }

    /// Keeps up to `count` supervisors started for future native calls, beginning with the first
    /// [scan](Host::refresh) that finds a native tool. Such a call does not wait for the start of a
    /// process. If more than `count` calls come at once, the others start their own. Suits a
    /// long-lived host. The processes end with the host.
    pub fn supervisors_in_reserve(mut self, count: usize) -> Self {
        self.supervisors_in_reserve = count;
        self
    }

    /// Connects to the Model Context Protocol (MCP) servers that the user's tool directory defines,
    /// and offers their approved tools.
    #[doc(hidden)]
    pub fn servers(mut self, connect: Arc<dyn Connect>) -> Self {
        self.connect = Some(connect);
        self
    }

    /// Checks the signers that policy files name. If a policy requires signatures, decides which
    /// tools may be called.
    pub fn signatures(mut self, signatures: Arc<dyn Signatures>) -> Self {
        self.signatures = Some(signatures);
        self
    }

    /// Offers the tools that `tools` returns in addition to those in the tool directories. Each
    /// scan calls `tools`. The result names files that the user approved for this workspace. A file
    /// is used only while its name and its contents are the approved ones. A workspace tool
    /// replaces a user tool with the same name, but never a tool of the installation. The policy
    /// treats it as a user tool.
    pub fn workspace_tools(
        mut self,
        tools: impl Fn() -> Vec<WorkspaceTool> + Send + Sync + 'static,
    ) -> Self {
        self.workspace_tools = Some(Arc::new(tools));
        self
    }

    /// Records the text of arguments in the audit log, not only their digest. The text may contain
    /// the user's secrets.
    pub fn record_arguments(mut self) -> Self {
        self.record_arguments = true;
        self
    }

    /// Sets the function that is called when a compilation begins and ends. The function runs on a
    /// compiling thread, and delays the compilation.
    ///
    /// ```no_run
    /// use ikigai_host::{Host, Paths, CompileEvent};
    ///
    /// # fn main() -> Result<(), ikigai_host::BuildError> {
    /// let host = Host::builder(".")
    ///     .paths(Paths::of_installation("/usr"))
    ///     .progress(|event| {
    ///         if let CompileEvent::Compiling(file) = event {
    ///             eprintln!("compiling {file}");
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(mut self, on_progress: impl Fn(CompileEvent) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(on_progress);
        self
    }

    /// Makes the host. Reads the policy files, and starts nothing: [`Host::refresh`] finds the
    /// tools.
    ///
    /// # Errors
    ///
    /// Fails if the workspace is not a directory, if a policy file cannot be used, or if tools
    /// could have written the host's own files in an earlier run. See [`BuildError`].
    pub fn build(self) -> Result<Arc<Host>, BuildError> {
        let workspace: Arc<Path> = paths::workspace(&self.workspace)?.into();
        let paths = self.paths.unwrap_or_else(Paths::of_user);
        let ceilings = self.ceilings.into_iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        let user = paths.policy.clone().map(absolute).transpose()?;
        let files = PolicyFiles {
            ceiling: Some(absolute(paths.ceiling.clone())?),
            user_is_named: paths.policy.as_ref().is_some_and(|it| paths.required.contains(it)),
            user,
            workspace: workspace.to_path_buf(),
            home: paths.home.clone(),
            state: paths.state.clone(),
            further_ceilings: ceilings,
        };
        let earlier = EarlierReach::from_paths(&paths);
        let own = [&paths.config, &paths.data, &paths.state, &files.user].into_iter().flatten();
        // The tools of the installation are where the user put them, with the program itself.
        let moved = paths.system_tools.as_ref().filter(|dir| paths.required.contains(dir));
        // The lock says who signed a tool. The policy knows the tools themselves by their contents.
        let lock = paths.lock().filter(|lock| lock.symlink_metadata().is_ok());
        for place in own.chain(&files.further_ceilings).chain(moved).chain(&lock) {
            earlier.check(place)?;
        }
        let mut protected = paths.protected();
        protected.extend(files.further_ceilings.iter().cloned());
        let (assets, agent) = self.assets.unzip();
        let stored: Vec<_> = assets.iter().flat_map(|assets| assets.files()).collect();
        protected.extend(stored.iter().flat_map(|file| paths::resolution_steps(file)));
        let secrets = stored.into_iter().chain(self.secrets).chain(paths.data.clone());
        let secrets = secrets.map(absolute).collect::<Result<Vec<_>, _>>()?;
        let own_peers = assets.as_ref().map(|assets| assets.addresses()).unwrap_or_default();
        let hints = self.hints;
        let authority =
            Authority::open(&files, self.overrides, protected, hints.clone(), self.signatures)?
                .with_secrets(secrets);
        let audit = Arc::new(Audit::new(
            paths.state.clone(),
            &workspace,
            self.record_arguments,
            hints.clone(),
        ));
        let supervisor = Supervisor::new(paths.supervisor.clone(), self.supervisors_in_reserve)
            .with_hints(hints.clone())
            .with_calls(paths.calls());
        let servers = Arc::new(ServerPool::new(self.connect, supervisor.clone(), hints));
        let registry = Registry::new(RegistrySettings {
            authority: Arc::new(authority),
            // The limits of the overrides apply to calls. They must not make `--schema` fail.
            limits: CallLimits::default(),
            workspace: Arc::clone(&workspace),
            budget: self.budget,
            compiler: Compiler::new(paths.compiler.clone()),
            supervisor,
            servers,
            workspace_tools: self.workspace_tools,
            progress: self.progress,
            paths,
        });
        Ok(Arc::new(Host {
            registry,
            workspace,
            audit,
            assets: assets.zip(agent),
            questions: Arc::default(),
            own_peers: own_peers.into(),
            compile_timeout: self.compile_timeout,
        }))
    }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

fn absolute(path: PathBuf) -> Result<PathBuf, BuildError> {
    std::path::absolute(&path).map_err(|source| BuildError::Relative { path, source })
}

fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    // Both fields have the C library's word size.
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) / 2
}
