//! The called programs: the layout that `cargo xtask bench` makes, and hosts and plain processes over
//! it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use ikigai_host::exec::native::Supervisor;
use ikigai_host::exec::{Call, Stdin};
use ikigai_host::limits::CallLimits;
use ikigai_host::paths::Paths;
use ikigai_host::policy::Grant;
use ikigai_host::{Host, HostBuilder, Reactor, Snapshot};
use ikigai_protocol::{Access, DIRS_VARIABLE, GrantedDir, encode_dirs};
use tokio_util::sync::CancellationToken;

use crate::sampling::micros;

/// The variable with the directory of the layout, set by `cargo xtask bench`.
const ROOT: &str = "IKIGAI_BENCH";

/// The variable that is set for a run of fewer rounds.
const QUICK: &str = "IKIGAI_BENCH_QUICK";

/// The number of simultaneous calls that the hosts here allow: enough that there is a pool.
const GUESTS: u32 = 64;

/// A file of the small tree, relative to its root.
pub(crate) const SMALL_FILE: &str = "d000/f0000.rs";

/// The layout of one run.
pub(crate) struct Rig {
    root: PathBuf,
    quick: bool,
}

impl Rig {
    pub(crate) fn find() -> anyhow::Result<Self> {
        let root = std::env::var_os(ROOT).map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench"),
            PathBuf::from,
        );
        let root = root.canonicalize().with_context(|| {
            format!("there is no `{}`; `cargo xtask bench` makes it", root.display())
        })?;
        Ok(Self { root, quick: std::env::var_os(QUICK).is_some() })
    }

    /// Returns the number of rounds of a figure.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 15 } else { 60 }
    }

    /// Returns the release build of the supervisor, of which up to `in_reserve` wait for a call.
    pub(crate) fn supervisor(&self, in_reserve: usize) -> Supervisor {
        Supervisor::new(Some(self.root.join("prefix/libexec/ikigai-supervisor")), in_reserve)
    }

    /// Returns a tool of the installation: `file-read` or `file-read.wasm`.
    pub(crate) fn tool(&self, name: &str) -> PathBuf {
        self.root.join("prefix/libexec/ikigai").join(name)
    }

    /// Returns the tree of many small files.
    pub(crate) fn small_tree(&self) -> PathBuf {
        self.root.join("small")
    }

    /// A builder of a host over the installation, with `workspace` as its workspace.
    pub(crate) fn host(&self, workspace: &Path) -> HostBuilder {
        Host::builder(workspace).paths(self.paths()).components(GUESTS).components_memory(u64::MAX)
    }

    /// Returns the paths of a user without a home, without tools and without a policy.
    fn paths(&self) -> Paths {
        Paths {
            user_tools: Some(self.root.join("no-tools")),
            cache: Some(self.root.join("cache")),
            // Calls are recorded, as by every other front end.
            state: Some(self.root.join("state")),
            policy: None,
            home: None,
            ..Paths::of_installation(self.root.join("prefix"))
        }
    }
}

/// Creates a call with the grant of the file tools that only read.
pub(crate) fn call(workspace: &Path, input: &Bytes) -> Call {
    let dirs = vec![GrantedDir { access: Access::ReadOnly, path: workspace.to_owned() }];
    Call {
        stdin: Stdin::Bytes(input.clone()),
        grant: Arc::new(Grant { env: environment(workspace), dirs, ..Grant::default() }),
        // A slow disk must not end a call.
        limits: CallLimits { wall_clock: Duration::from_secs(600), ..CallLimits::default() },
        ..Call::new(workspace)
    }
}

/// Returns the environment that the host gives a file tool that only reads.
fn environment(workspace: &Path) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let dirs = [GrantedDir { access: Access::ReadOnly, path: workspace.to_owned() }];
    let mut env: Vec<_> = ["PATH", "HOME", "LANG"]
        .into_iter()
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect();
    // The paths here contain no newline, so they can be granted.
    env.extend(encode_dirs(&dirs).ok().map(|list| (DIRS_VARIABLE.into(), list)));
    env
}

/// Runs a process with pipes, from the standard library, without limits or supervision: the
/// baseline of every other way of running a tool.
pub(crate) fn spawn(program: &Path, workspace: &Path, input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut child = Command::new(program)
        .current_dir(workspace)
        .env_clear()
        .envs(environment(workspace))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`{}` failed: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// Creates a runtime of one thread.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// A program that answers requests: tasks of a reactor call, as in `ikigai mcp serve`.
pub(crate) struct Served {
    reactor: Reactor,
    host: Arc<Host>,
    snapshot: Arc<Snapshot>,
}

impl Served {
    pub(crate) fn new(host: Arc<Host>) -> anyhow::Result<Self> {
        let mut reactor = Reactor::new()?;
        let snapshot = reactor.block_on(host.refresh());
        Ok(Self { reactor, host, snapshot })
    }

    /// Has a task call a tool so many times, one call after the other.
    pub(crate) fn call(
        &mut self,
        times: u32,
        tool: &'static str,
        input: &Bytes,
    ) -> anyhow::Result<()> {
        let (host, snapshot) = (Arc::clone(&self.host), Arc::clone(&self.snapshot));
        let input = input.clone();
        let caller = async move {
            for _ in 0..times {
                let call = host.call(&snapshot, tool, input.clone(), CancellationToken::new());
                let envelope = call.await;
                ensure!(envelope.is_success(), "a call of {tool} failed: {envelope}");
            }
            anyhow::Ok(())
        };
        self.reactor.block_on(async { tokio::spawn(caller).await? })
    }
}

/// Does something so many times, and returns the microseconds of one time.
pub(crate) fn micros_of_each(
    times: u32,
    mut work: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    micros(times, || (0..times).try_for_each(|_| work()))
}
