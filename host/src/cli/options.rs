//! The flags that every command shares, and the host that comes of them.
//!
//! Each flag and its environment variable is declared here and nowhere else.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytesize::ByteSize;
use clap::{Args, ValueEnum};

use super::error::CliError;
use super::progress;
use crate::host::Host;
use crate::limits::Limits;
use crate::places::Places;
use crate::registry::{BackendChoice, Budget, Registry, Settings};

/// Heading of the shared flags in `--help`.
const HEADING: &str = "Shared options";

#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(super) struct Options {
    /// Directory that tools work in [default: the current directory]
    #[arg(long, global = true, value_name = "DIR", env = "IKIGAI_WORKSPACE")]
    workspace: Option<PathBuf>,

    /// Directory of the tools installed with ikigai
    #[arg(long, global = true, value_name = "DIR", env = "IKIGAI_SYSTEM_TOOLS")]
    system_tools: Option<PathBuf>,

    /// Directory of your own tools [default: ~/.ikigai/tools]
    #[arg(long, global = true, value_name = "DIR", env = "IKIGAI_USER_TOOLS")]
    user_tools: Option<PathBuf>,

    /// Which build of a tool to run
    #[arg(
        long,
        global = true,
        value_name = "KIND",
        env = "IKIGAI_BACKEND",
        default_value = "auto"
    )]
    backend: BackendArg,

    /// Wall clock of a call, such as 500ms, 30s or 2m [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", env = "IKIGAI_TIMEOUT",
          value_parser = parse_timeout)]
    timeout: Option<Duration>,

    /// Fuel of a component's call, about one unit an instruction
    #[arg(long, global = true, value_name = "N", env = "IKIGAI_FUEL")]
    fuel: Option<u64>,

    /// Memory of a call, such as 64KiB or 512MiB [default: 512MiB for components, 2GiB for
    /// native tools]
    #[arg(long, global = true, value_name = "SIZE", env = "IKIGAI_MEMORY",
          value_parser = parse_size)]
    memory: Option<ByteSize>,

    /// Bytes of stdout of a call [default: 16MiB]
    #[arg(long, global = true, value_name = "SIZE", env = "IKIGAI_MAX_OUTPUT",
          value_parser = parse_size)]
    max_output: Option<ByteSize>,

    /// Record the text of arguments in the audit log, not only their digest
    #[arg(long, global = true, env = "IKIGAI_AUDIT_ARGUMENTS")]
    audit_arguments: bool,

    /// Say more on stderr, among it why files are no tools
    #[arg(short, long, global = true, env = "IKIGAI_VERBOSE")]
    pub(super) verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BackendArg {
    /// The component; the native build where there is no usable component
    Auto,
    /// Components only
    Wasm,
    /// Native builds only
    Native,
}

/// No call is allowed to last forever, and a duration must fit a timer.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it as 500ms, 30s or 2m"))?;
    if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
        return Err("must be more than zero and at most 7days".to_owned());
    }
    Ok(timeout)
}

fn parse_size(text: &str) -> Result<ByteSize, String> {
    // The parser's own words speak of floats and say nothing of units.
    let size: ByteSize =
        text.parse().map_err(|_| "is no size; write it as 64KiB or 512MiB".to_owned())?;
    if size.as_u64() == 0 {
        return Err("must be more than zero".to_owned());
    }
    Ok(size)
}

impl Options {
    /// The host that these flags ask for. Nothing is scanned yet.
    ///
    /// It lives as long as the process: giving back a pool of guests takes longer
    /// than a call, and the exit does it anyway.
    pub(super) fn host(&self) -> Result<&'static Host, CliError> {
        let workspace = self.workspace()?;
        let limits = self.limits();
        let places = self.places();
        let registry = Registry::new(Settings {
            places,
            backend: match self.backend {
                BackendArg::Auto => BackendChoice::Auto,
                BackendArg::Wasm => BackendChoice::Wasm,
                BackendArg::Native => BackendChoice::Native,
            },
            // Those of the flags are for calls; a schema must not be lost to them.
            limits: Limits::default(),
            workspace: Arc::clone(&workspace),
            budget: Budget { guests: GUESTS, memory: memory_budget() },
            progress: progress::reporter(),
        });
        let mut host = Host::new(registry, workspace, limits);
        if self.audit_arguments {
            host.record_arguments();
        }
        Ok(Box::leak(Box::new(host)))
    }

    /// Where this user's things are, but for what the flags move.
    pub(super) fn places(&self) -> Places {
        let found = Places::find();
        Places {
            system_tools: self.system_tools.clone().or(found.system_tools),
            user_tools: self.user_tools.clone().or(found.user_tools),
            ..found
        }
    }

    fn workspace(&self) -> Result<Arc<std::path::Path>, CliError> {
        let dir = match &self.workspace {
            Some(dir) => dir.clone(),
            None => std::env::current_dir()
                .context("the current directory is gone")
                .map_err(|error| CliError::usage(error).hint("name another with --workspace"))?,
        };
        let workspace = dir
            .canonicalize()
            .with_context(|| format!("the workspace `{}` cannot be used", dir.display()))
            .map_err(CliError::usage)?;
        if !workspace.is_dir() {
            let text = format!("the workspace `{}` is no directory", dir.display());
            return Err(CliError::usage(anyhow::Error::msg(text)));
        }
        Ok(workspace.into())
    }

    fn limits(&self) -> Limits {
        let default = Limits::default();
        let memory = self.memory.map(|size| size.as_u64());
        Limits {
            wall_clock: self.timeout.unwrap_or(default.wall_clock),
            fuel: self.fuel.unwrap_or(default.fuel),
            wasm_memory: memory.unwrap_or(default.wasm_memory),
            native_memory: memory.unwrap_or(default.native_memory),
            output: self.max_output.map_or(default.output, |size| size.as_u64()),
            ..default
        }
    }
}

/// Components that run at once: a command asks a few for their schema and calls
/// one. Room for more would only make its start slower.
const GUESTS: u32 = 16;

/// What all components together may use: half of the machine's memory, in bytes.
fn memory_budget() -> u64 {
    let info = rustix::system::sysinfo();
    // Both fields are of the C library's word size.
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) / 2
}
