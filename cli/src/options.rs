//! The flags that every command shares, and the host that they describe.
//!
//! Each of these flags and its environment variable is declared here and nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueHint};
use ikigai_assets::{self as assets, Agent, StoreUrl};
use strum::VariantArray as _;

use crate::approval::Chosen;
use crate::choice;
use crate::config::{Config, SettingSource};
use crate::error::CliError;
use crate::progress;
use crate::servers::Servers;
use crate::servers::logins::Logins;
use crate::shipping::{LockedSignatures, WorkspaceToolPaths};
use crate::user_command::{self, CommandEnv, CommandGate};
use crate::variables::{self, ProgramVariable};
use ikigai_agent::assets::StoredAssets;
use ikigai_agent::{self, Session, SessionAssets, Spend};
use ikigai_host::exec::assets::AssetStore;
use ikigai_host::exec::mcp::Connect;
use ikigai_host::host::Host;
use ikigai_host::limits::{self, CallLimits};
use ikigai_host::paths::{self, Paths};
use ikigai_host::policy::{
    Authority, BackendChoice, LimitKey, Override, Overrides, Profile, Provenance, STORE_VARIABLE,
};
use ikigai_host::registry::ProgressFn;

// The headings of the shared flags in `--help`. `help.rs` has the headings of each command.
/// The heading of the flags for directories.
pub(crate) const DIRECTORIES: &str = "Directories";
/// The heading of the flags for policy.
pub(crate) const POLICY: &str = "Policy";
/// The heading of the flags for calls.
pub(crate) const CALLS: &str = "Calls";
/// The heading of the flags for assets.
pub(crate) const ASSETS: &str = "Assets";

/// The key of the profile in the configuration.
pub(crate) const PROFILE: &str = "profile";

/// The variable of `--backend`.
const BACKEND_VARIABLE: &str = "IKIGAI_BACKEND";

/// The shared flags, with the configuration that they override.
#[derive(Debug, Args)]
pub(crate) struct SharedOptions {
    /// Directory that tools work in [default: the current directory]
    #[arg(long, help_heading = DIRECTORIES, global = true, value_name = "DIR",
          env = "IKIGAI_WORKSPACE")]
    workspace: Option<PathBuf>,

    /// Directory of the built-in tools
    #[arg(long, help_heading = DIRECTORIES, global = true, value_name = "DIR",
          env = "IKIGAI_SYSTEM_TOOLS")]
    system_tools: Option<PathBuf>,

    /// Directory of your own tools [default: ~/.ikigai/tools]
    #[arg(long, help_heading = DIRECTORIES, global = true, value_name = "DIR",
          env = "IKIGAI_USER_TOOLS")]
    user_tools: Option<PathBuf>,

    /// Your policy [default: ~/.config/ikigai/policy.toml]
    #[arg(long, help_heading = POLICY, global = true, value_name = "FILE", env = "IKIGAI_POLICY",
          value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,

    /// Access for tools without a policy entry [default: standard]; a ceiling can require `strict`
    #[arg(long, help_heading = POLICY, global = true, value_name = "NAME",
          env = "IKIGAI_PROFILE", value_parser = choice::parser(Profile::VARIANTS, profile_help))]
    profile: Option<Profile>,

    /// A second ceiling, in addition to /etc/ikigai/policy.toml; it can only narrow grants
    #[arg(long, help_heading = POLICY, global = true, value_name = "FILE",
          env = "IKIGAI_CEILING", hide = true, value_hint = ValueHint::FilePath)]
    ceiling: Option<PathBuf>,

    /// Which build of a tool to run
    #[arg(long, help_heading = POLICY, global = true, value_name = "KIND",
          env = BACKEND_VARIABLE, default_value_t,
          value_parser = choice::parser(BackendChoice::VARIANTS, backend_help))]
    backend: BackendChoice,

    /// Time limit for a call, such as 500ms or 2m [default: 30s; 2m for bash in a conversation and in `mcp serve`]
    #[arg(long, help_heading = CALLS, global = true, value_name = "DURATION",
          env = "IKIGAI_TIMEOUT", value_parser = limits::parse_timeout)]
    timeout: Option<Duration>,

    /// Fuel limit for a component's call, about one unit per instruction
    #[arg(long, help_heading = CALLS, global = true, value_name = "N", env = "IKIGAI_FUEL")]
    fuel: Option<u64>,

    /// Memory limit for a call, such as 64KiB or 512MiB [default: 512MiB for components, 2GiB for native tools]
    #[arg(long, help_heading = CALLS, global = true, value_name = "SIZE", env = "IKIGAI_MEMORY",
          value_parser = memory)]
    memory: Option<u64>,

    /// Limit on a call's stdout [default: 16MiB]
    #[arg(long, help_heading = CALLS, global = true, value_name = "SIZE",
          env = "IKIGAI_MAX_OUTPUT", value_parser = limits::parse_size)]
    max_output: Option<u64>,

    /// The asset store: sqlite:PATH, postgres://… or memory: [default:
    /// ~/.local/share/ikigai/store.db]
    #[arg(long, help_heading = ASSETS, global = true, value_name = "URL",
          env = STORE_VARIABLE, hide_env_values = true)]
    store: Option<String>,

    /// Limit on the tokens in the assets that an agent has pinned
    #[arg(long, help_heading = ASSETS, global = true, value_name = "TOKENS",
          env = "IKIGAI_BUDGET", default_value_t = assets::Budget::default().0)]
    budget: u64,

    /// Limit on the total size of all assets in the store [default: 1GiB]
    #[arg(long, help_heading = ASSETS, global = true, value_name = "SIZE",
          env = "IKIGAI_CAPACITY", value_parser = limits::parse_size)]
    capacity: Option<u64>,

    /// The agent whose pins and budget apply [default: USER@HOST]
    #[arg(long, help_heading = ASSETS, global = true, value_name = "NAME",
          env = "IKIGAI_AGENT")]
    agent: Option<String>,

    /// Record the text of arguments in the audit log, not only their digest
    #[arg(long, help_heading = CALLS, global = true, env = "IKIGAI_AUDIT_ARGUMENTS")]
    audit_arguments: bool,

    /// Print more on stderr, such as why a file is not a tool
    #[arg(short, long, global = true, env = "IKIGAI_VERBOSE")]
    pub(crate) verbose: bool,

    /// The configuration files, with the values of these flags and of other settings.
    #[arg(skip)]
    pub(crate) config: Config,

    /// The flags that were set, by the keys of the configuration.
    #[arg(skip)]
    pub(crate) set: BTreeMap<&'static str, SetFlag>,
}

fn backend_help(choice: BackendChoice) -> Option<&'static str> {
    Some(match choice {
        BackendChoice::Auto => {
            "For bash, the native build if the sandbox works here. Otherwise the component, or the native build if \
             no component can be used"
        }
        BackendChoice::Wasm => "Components only",
        BackendChoice::Native => "Native builds only",
    })
}

/// Reads the memory of a call.
fn memory(text: &str) -> Result<u64, String> {
    limits::parse_size(text)?;
    limits::check_unit(text)?;
    limits::parse_memory(text)
}

fn profile_help(profile: Profile) -> Option<&'static str> {
    Some(match profile {
        Profile::Standard => {
            "The built-in tools and your native tools work in the workspace, sandboxed"
        }
        Profile::Strict => {
            "Your native tools do not run until granted; built-in tools still work in the \
             workspace; bash is a component, without this machine's programs"
        }
    })
}

/// A shared flag that was set, on the command line, in the environment or in a file.
#[derive(Debug)]
pub(crate) struct SetFlag {
    /// The place that set it.
    pub(crate) provenance: SettingSource,
    /// The value as it was written.
    pub(crate) value: String,
}

impl SharedOptions {
    /// Returns the host that these flags describe. Nothing is scanned yet.
    ///
    /// It lives as long as the process: freeing a pool of guests takes longer than a call, and
    /// the exit frees it anyway.
    pub(crate) fn host(&self) -> Result<Arc<Host>, CliError> {
        Ok(self.host_and_store(progress::reporter(), false, self.overrides(), Vec::new())?.0)
    }

    /// Returns the host for one call, about which ikigai may ask the user.
    pub(crate) fn host_for_call(&self, approval: &Chosen) -> Result<Arc<Host>, CliError> {
        let overrides = approval.narrow(self.overrides());
        Ok(self.host_and_store(progress::reporter(), false, overrides, Vec::new())?.0)
    }

    /// Returns the host and, if there is a place for it, the asset store. The host reports
    /// compilations to `progress`, and is ready for many calls if it `lives_on`. It hides `secrets`
    /// and the token of the user's MCP servers from tools.
    fn host_and_store(
        &self,
        progress: ProgressFn,
        lives_on: bool,
        overrides: Overrides,
        secrets: Vec<PathBuf>,
    ) -> Result<(Arc<Host>, Option<Arc<StoredAssets>>), CliError> {
        let (paths, workspace) = (self.paths(), self.workspace()?);
        let store = self.store(&paths).map(Arc::new);
        let state = paths.state.clone();
        let tools = WorkspaceToolPaths::find(&paths, &workspace);
        let approved = tools.as_ref().map(|tools| tools.approved().to_owned());
        let locks = paths.lock().into_iter().chain(approved);
        let servers = Arc::new(Servers::new(Logins::from_paths(&paths)));
        let mut host = Host::builder(workspace)
            .overrides(overrides)
            .hints(crate::remedy::policy::sentence)
            .servers(Arc::clone(&servers) as Arc<dyn Connect>)
            .signatures(Arc::new(LockedSignatures::new(locks)))
            .workspace_tools(move || {
                tools.as_ref().map(WorkspaceToolPaths::offered).unwrap_or_default()
            })
            .paths(paths)
            .secrets(secrets.into_iter().chain(runtime_dir()))
            .progress(move |event| progress(event));
        if lives_on {
            host = host.supervisors_in_reserve(RESERVE).components(COMPONENTS);
        }
        if let Some(file) = &self.ceiling {
            host = host.ceiling(file);
        }
        if let Some(store) = &store {
            host = host.assets(Arc::clone(store) as Arc<dyn AssetStore>, self.agent_name());
        }
        if self.audit_arguments {
            host = host.record_arguments();
        }
        if let Some(timeout) = self.timeout {
            host = host.compile_timeout(timeout);
        }
        let host = host.build()?;
        servers.set_authority(host.registry().authority());
        crate::notice::print_if_due(&host, state.as_deref());
        std::mem::forget(Arc::clone(&host));
        Ok((host, store))
    }

    /// Returns the build for a grant to name: the one on the command line. A build in the
    /// environment applies to every command, so a grant does not name it.
    pub(crate) fn backend_to_write(&self) -> BackendChoice {
        if variables::value(BACKEND_VARIABLE).is_some() {
            return BackendChoice::Auto;
        }
        self.backend
    }

    /// Returns the paths of this user, with those that the flags name.
    pub(crate) fn paths(&self) -> Paths {
        let found = Paths::of_user();
        let named = [&self.system_tools, &self.user_tools, &self.policy].into_iter().flatten();
        Paths {
            // An empty path does not count.
            required: named.filter(|dir| !dir.as_os_str().is_empty()).cloned().collect(),
            system_tools: self.system_tools.clone().or(found.system_tools),
            user_tools: self.user_tools.clone().or(found.user_tools),
            policy: self.policy.clone().or(found.policy),
            ..found
        }
    }

    /// Returns the additional ceiling, if one is named.
    pub(crate) fn ceiling(&self) -> Option<&PathBuf> {
        self.ceiling.as_ref()
    }

    /// Returns the values of these flags that override policy, each with the place that set it.
    pub(crate) fn overrides(&self) -> Overrides {
        fn overriding<T>(
            options: &SharedOptions,
            key: &str,
            flag: &'static str,
            value: T,
        ) -> Override<T> {
            let set = options.set.get(key);
            let from = set.map_or(flag.into(), |set| set.provenance.to_string().into());
            Override { value, from }
        }
        let limits = [
            (LimitKey::WallClock, "timeout", "--timeout", self.timeout.map(nanos)),
            (LimitKey::Fuel, "fuel", "--fuel", self.fuel),
            (LimitKey::Memory, "memory", "--memory", self.memory),
            (LimitKey::Output, "max_output", "--max-output", self.max_output),
        ];
        let limits = limits.into_iter().filter_map(|(limit, key, flag, value)| {
            Some((limit, overriding(self, key, flag, value?)))
        });
        Overrides {
            profile: self.profile.map(|profile| overriding(self, "profile", "--profile", profile)),
            backend: Some(overriding(self, "backend", "--backend", self.backend)),
            limits: limits.collect(),
            ..Overrides::default()
        }
    }

    /// Returns the place that set a flag, by the key of the configuration.
    pub(crate) fn provenance(&self, key: &str) -> &SettingSource {
        self.set.get(key).map_or(&SettingSource::Default, |set| &set.provenance)
    }

    /// Returns the values in force, by the keys of the configuration. A value is `None` if it is
    /// not set and has no default, for example a directory without a home. Leaves out passwords.
    pub(crate) fn values(&self) -> Result<Vec<(&'static str, Option<String>)>, CliError> {
        let paths = self.paths();
        let limits = CallLimits::default();
        let path = |path: &Option<PathBuf>| Some(path.as_ref()?.display().to_string());
        let written = |key: &str, default: String| {
            Some(self.set.get(key).map_or(default, |set| set.value.clone()))
        };
        let size = |bytes| bytesize::ByteSize(bytes).to_string();
        let memory = format!(
            "{} for components, {} for native tools",
            size(limits.wasm_memory),
            size(limits.native_memory)
        );
        let timeout = humantime::format_duration(limits.wall_clock).to_string();
        let store = self.store(&paths).map(|store| match store.url() {
            Ok(url) => url.to_string(),
            Err(error) => error.to_string(),
        });
        Ok(vec![
            ("workspace", Some(self.workspace()?.display().to_string())),
            ("system_tools", path(&paths.system_tools)),
            ("user_tools", path(&paths.user_tools)),
            ("policy", path(&paths.policy)),
            // The policy files may set another profile than the flag.
            (PROFILE, written(PROFILE, Profile::default().to_string())),
            ("backend", written("backend", BackendChoice::default().to_string())),
            ("timeout", written("timeout", timeout)),
            ("fuel", written("fuel", limits.fuel.to_string())),
            ("memory", written("memory", memory)),
            ("max_output", written("max_output", size(limits.output))),
            ("store", store),
            ("budget", Some(self.budget.to_string())),
            ("capacity", written("capacity", size(assets::Capacity::default().0))),
            ("agent", Some(self.agent_name())),
            ("audit_arguments", Some(self.audit_arguments.to_string())),
            ("verbose", Some(self.verbose.to_string())),
        ])
    }

    /// Returns the check of the commands that print keys, and of credential helpers. It reads the
    /// policy when a command is about to start.
    pub(crate) fn command_gate(&self) -> Result<CommandGate, CliError> {
        self.gate(user_command::check)
    }

    /// Returns the check of the user's editor. It reads the policy when the editor is about to
    /// start.
    pub(crate) fn editor_gate(&self) -> Result<CommandGate, CliError> {
        self.gate(user_command::check_editor)
    }

    fn gate(
        &self,
        check: fn(&Authority, &[OsString]) -> Result<CommandEnv, String>,
    ) -> Result<CommandGate, CliError> {
        let (workspace, paths) = (self.workspace()?, self.paths());
        Ok(CommandGate::new(move |words| {
            let host = Host::builder(workspace.clone()).paths(paths.clone()).build();
            let host = host.map_err(|error| error.to_string())?;
            check(host.authority(), words)
        }))
    }

    /// Returns the profile in force, and the rule that decided it; `None` if a policy file cannot
    /// be used. Needs no asset store.
    pub(crate) fn profile_in_force(&self) -> Result<Option<(Profile, Provenance)>, CliError> {
        let host = Host::builder(self.workspace()?).overrides(self.overrides()).paths(self.paths());
        let host = match &self.ceiling {
            Some(file) => host.ceiling(file),
            None => host,
        };
        let profile = host.build().ok().and_then(|host| host.authority().profile().ok());
        Ok(profile.and_then(|(profile, mut by)| Some((profile, by.pop()?))))
    }

    /// Returns the asset store. Fails if there is no place for one.
    pub(crate) fn assets(&self) -> Result<StoredAssets, CliError> {
        self.store(&self.paths()).ok_or_else(|| {
            let error = anyhow::Error::msg("no directory is known for the asset store");
            CliError::usage(error)
                .hint("set HOME or XDG_DATA_HOME, or specify a store with --store")
        })
    }

    /// Returns the asset store, if there is a place for one.
    fn store(&self, paths: &Paths) -> Option<StoredAssets> {
        let url = match self.store.as_ref().filter(|text| !text.is_empty()) {
            Some(text) => StoreUrl::parse(text),
            None => Ok(StoreUrl::sqlite(paths.data.as_ref()?.join(STORE))),
        };
        let capacity = self.capacity.map_or_else(assets::Capacity::default, assets::Capacity);
        Some(StoredAssets::at(url, assets::Budget(self.budget), capacity))
    }

    /// Starts a conversation with the tools and the assets that these flags describe.
    pub(crate) fn session(
        &self,
        model: Option<ikigai_agent::Model>,
        approval: &Chosen,
    ) -> Result<(Arc<Host>, Session), CliError> {
        self.session_with_progress(model, progress::reporter(), approval)
    }

    /// Starts a conversation that reports compilations to `progress`.
    pub(crate) fn session_with_progress(
        &self,
        model: Option<ikigai_agent::Model>,
        progress: ProgressFn,
        approval: &Chosen,
    ) -> Result<(Arc<Host>, Session), CliError> {
        let overrides = approval.narrow(self.overrides());
        let (host, assets) = self.living_host(progress, overrides, Vec::new())?;
        let mut session = Session::new(Arc::clone(&host), assets, model);
        session.set_compact_at(self.config.compact_at().0);
        let [(_, session_limit, _), (_, day, _)] = self.config.spend();
        session.set_spend(Spend { session: session_limit, day });
        Ok((host, session))
    }

    /// Returns the host of a conversation or a server, which is ready for many calls, and its
    /// assets if there is a place for a store. `secrets` are files of the program that no tool
    /// should see.
    pub(crate) fn living_host(
        &self,
        progress: ProgressFn,
        overrides: Overrides,
        secrets: Vec<PathBuf>,
    ) -> Result<(Arc<Host>, Option<SessionAssets>), CliError> {
        let overrides = Overrides { shell_limits: shell_limits(), ..overrides };
        let (host, store) = self.host_and_store(progress, true, overrides, secrets)?;
        let (agent, budget) = (self.agent()?, self.budget);
        Ok((host, store.map(|store| SessionAssets { store, budget, agent, is_principal: false })))
    }

    /// Returns the shared flags that were typed, for a command that another program starts
    /// elsewhere. Leaves out the workspace.
    pub(crate) fn typed_flags(&self) -> Result<Vec<String>, CliError> {
        let mut flags = Vec::new();
        for (key, SetFlag { provenance, value }) in &self.set {
            if *key == "workspace" || !matches!(provenance, SettingSource::Flag(_)) {
                continue;
            }
            flags.push(format!("--{}", key.replace('_', "-")));
            match *key {
                "audit_arguments" | "verbose" => {}
                "policy" | "ceiling" | "system_tools" | "user_tools" => {
                    let path = std::path::absolute(value).map_err(CliError::failed)?;
                    flags.push(path.display().to_string());
                }
                _ => flags.push(value.clone()),
            }
        }
        Ok(flags)
    }

    /// Returns the time limit of a call, if a flag or a variable sets it.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the agent whose pins and budget apply.
    pub(crate) fn agent(&self) -> Result<Agent, CliError> {
        let name = self.agent_name();
        Agent::new(&name)
            .with_context(|| format!("--agent: `{}`", name.escape_debug()))
            .map_err(CliError::usage)
    }

    fn agent_name(&self) -> String {
        self.agent.clone().filter(|name| !name.is_empty()).unwrap_or_else(user_at_host)
    }

    /// Returns the workspace as a canonical path.
    pub(crate) fn workspace(&self) -> Result<PathBuf, CliError> {
        Ok(paths::workspace(&self.directory()?)?)
    }

    /// Returns the workspace as a canonical path, if one was named.
    pub(crate) fn named_workspace(&self) -> Result<Option<PathBuf>, CliError> {
        self.workspace.as_deref().map(|dir| Ok(paths::workspace(dir)?)).transpose()
    }

    /// Returns the workspace as it was named.
    fn directory(&self) -> Result<PathBuf, CliError> {
        match &self.workspace {
            Some(dir) => Ok(dir.clone()),
            None => std::env::current_dir()
                .context("the current directory does not exist any more")
                .map_err(|error| CliError::usage(error).hint("specify another with --workspace")),
        }
    }
}

/// Returns the limits of `bash` in a conversation and in `mcp serve`, where the user or the client
/// may end a command. Builds and tests often take longer than other calls. The fuel of its
/// component is raised as much as its time.
fn shell_limits() -> Vec<(LimitKey, Override<u64>)> {
    let fuel = CallLimits::default().fuel * u64::from(TIMES_AS_LONG);
    let of = |value| Override { value, from: "a conversation or `mcp serve`".into() };
    vec![(LimitKey::WallClock, of(nanos(shell_time()))), (LimitKey::Fuel, of(fuel))]
}

/// The limits of `bash` in a conversation and in `mcp serve`, as multiples of the default.
const TIMES_AS_LONG: u32 = 4;

/// Returns the time limit of a `bash` command in a conversation and in `mcp serve`.
pub(crate) fn shell_time() -> Duration {
    CallLimits::default().wall_clock * TIMES_AS_LONG
}

fn nanos(time: Duration) -> u64 {
    // The value is at most a week, so it fits.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of supervisors that a conversation keeps ready. A model seldom asks for more calls at
/// once.
const RESERVE: usize = 2;

/// The components that run at once in a conversation or a server. This equals the concurrent calls
/// of one `mcp serve` client, and is enough for a pool, which makes each call cheaper.
const COMPONENTS: u32 = 64;

/// The file of the asset store, unless another store is named.
const STORE: &str = "store.db";

/// Returns the default agent.
fn user_at_host() -> String {
    let set = |variable: ProgramVariable| variable.text().filter(|user| !user.is_empty());
    let user = [ProgramVariable::User, ProgramVariable::Logname].into_iter().find_map(set);
    let user = user.unwrap_or_else(|| {
        let id = rustix::process::getuid().as_raw().to_string();
        // A service or a container may have neither variable.
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        name_of_user(&users, &id).unwrap_or(id)
    });
    let host = rustix::system::uname();
    format!("{user}@{}", host.nodename().to_string_lossy())
}

/// Returns the name of the user with an id, from the text of `/etc/passwd`.
fn name_of_user(users: &str, id: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1) == Some(id)).then(|| name.to_owned())
    })
}

/// Returns the directory for ikigai's secrets that end with the user's login: below
/// `$XDG_RUNTIME_DIR`, as in the XDG base directory specification. It need not exist.
pub(crate) fn runtime_dir() -> Option<PathBuf> {
    let runtime = ProgramVariable::XdgRuntimeDir.value().map(PathBuf::from);
    Some(runtime.filter(|dir| dir.is_absolute())?.join("ikigai"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_variables_has_the_name_of_the_system() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\n:x:7::::\nmina:x:1000:0::/home/mina:/bin/sh\nbroken\n";
        for (id, name) in [("0", Some("root")), ("1000", Some("mina")), ("7", None), ("x", None)] {
            assert_eq!(name_of_user(users, id).as_deref(), name, "{id}");
        }
    }
}
