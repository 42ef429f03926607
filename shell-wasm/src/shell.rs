//! The shell port: an interpreter inside the component, over the granted directories.
//!
//! WASI has no processes, so the commands of a script are the interpreter's own. The interpreter is
//! `bashkit`; this module gives it a file tree, an environment and commands that invent nothing,
//! and removes its limits: the host bounds a call.

mod commands;
mod errno;
mod granted;
mod limits;
mod refused;
pub(crate) mod script;
mod substitution;
mod world;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bashkit::{
    Bash, BashBuilder, CommandContext, Error, ExecOptions, ExecutionLimits, FileSystem, ShellState,
    StreamData,
};
use ikigai_tools::ports::Shell;
use wasip2::filesystem::preopens::get_directories;

use substitution::FedCommand;
use world::World;

/// The name of the shell in its messages, as for `sh -c` and `bash -c`.
const NAME: &str = "bash";

/// The exit code if the interpreter reaches one of its limits that cannot be raised.
const EXIT_LIMIT: i32 = 2;

/// The exit code of a script that is refused before it runs, the same as for a syntax error.
const EXIT_REFUSED: i32 = 2;

const PATH: &str = "/usr/bin:/bin";

/// The name of a user or a host that the component does not know.
const UNKNOWN: &str = "?";

/// The variables that the interpreter invents, about a user and a machine that the component does
/// not know.
const INVENTED: [&str; 8] =
    ["HOME", "USER", "UID", "EUID", "PPID", "OSTYPE", "HOSTTYPE", "MACHTYPE"];

/// The shell of a component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WasmShell;

impl Shell for WasmShell {
    fn run(&self, command: &str, output: &mut dyn FnMut(&[u8])) -> Result<i32, String> {
        let pending: Arc<Mutex<Vec<u8>>> = Arc::default();
        let sink = Arc::clone(&pending);
        let emit: OutputSink = Arc::new(Mutex::new(move |stdout: &[u8], stderr: &[u8]| {
            let mut pending = locked(&sink);
            // Both streams are complete here. A program's output comes last, because programs
            // buffer output that goes to a pipe, and do not buffer error messages.
            pending.extend_from_slice(stderr);
            pending.extend_from_slice(stdout);
            true
        }));
        let options = ExecOptions::new().stdin(StreamData::new());
        let code = block_on(run(command, &COMMAND, options, &emit))?;
        output(&locked(&pending));
        Ok(code)
    }
}

/// The words with which error messages begin.
struct ErrorPrefix<'a> {
    name: &'a str,
    /// The beginning of a message about a syntax error.
    syntax: &'a str,
}

/// The words of `bash -c`.
const COMMAND: ErrorPrefix<'static> = ErrorPrefix { name: NAME, syntax: "bash: -c" };

/// A receiver of pieces of standard output and of standard error. It returns `false` if it can take
/// no more.
type OutputSink = Arc<Mutex<dyn FnMut(&[u8], &[u8]) -> bool + Send>>;

fn emit_to(emit: &OutputSink, stdout: &[u8], stderr: &[u8]) -> bool {
    locked(emit)(stdout, stderr)
}

/// Locks a mutex. None is ever poisoned, because a panic ends the component.
fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| error.to_string())?;
    Ok(runtime.block_on(future))
}

/// Runs a script to its end and returns its exit code. The script is cancelled if its output can no
/// longer be taken.
async fn run(script: &str, who: &ErrorPrefix<'_>, options: ExecOptions, emit: &OutputSink) -> i32 {
    if let Some(reason) = refused::refusal(script) {
        emit_to(emit, &[], format!("{}: {reason}\n", who.name).as_bytes());
        return EXIT_REFUSED;
    }
    let world = Arc::new(World::new(get_directories(), commands::names()));
    let mut shell = new_shell(&world);
    let (sink, cancelled) = (Arc::clone(emit), shell.cancellation_token());
    let streaming = move |stdout: &StreamData, stderr: &StreamData| {
        if !emit_to(&sink, stdout.as_bytes(), stderr.as_bytes()) {
            cancelled.store(true, Ordering::Relaxed);
        }
    };
    let prepared = substitution::prepare(script);
    let options = options.streaming(Box::new(streaming));
    let result = shell.exec_with_options(&prepared.script, options).await;
    for fed in &prepared.fed {
        let (stdout, stderr) = feed(&world, &shell, fed, who).await;
        emit_to(emit, &stdout, &stderr);
    }
    match result {
        Ok(ended) => ended.exit_code,
        Err(error) => {
            emit_to(emit, &[], complaint(&error, who, script).as_bytes());
            EXIT_LIMIT
        }
    }
}

fn complaint(error: &Error, who: &ErrorPrefix<'_>, script: &str) -> String {
    error.syntax_report(who.syntax, script).unwrap_or_else(|| match error {
        Error::ResourceLimit(limit) => format!("{}: {limit}\n", who.name),
        other => format!("{}: {other}\n", who.name),
    })
}

/// Runs a command that `exec` redirected to, with the shell's state at the end of its script, and
/// returns its output and its error output.
async fn feed(
    world: &Arc<World>,
    ended: &Bash,
    fed: &FedCommand,
    who: &ErrorPrefix<'_>,
) -> (Vec<u8>, Vec<u8>) {
    let input = ended.fs().read_file(Path::new(&fed.file)).await.unwrap_or_default();
    let mut shell = new_shell(world);
    shell.restore_shell_state(&ended.shell_state());
    let options = ExecOptions::new().stdin(StreamData::from(input));
    match shell.exec_with_options(&fed.command, options).await {
        Ok(ended) => (ended.stdout.into_bytes(), ended.stderr.into_bytes()),
        Err(error) => (Vec::new(), complaint(&error, who, &fed.command).into_bytes()),
    }
}

fn new_shell(world: &Arc<World>) -> Bash {
    let workspace = world.workspace().to_owned();
    let fs = Arc::clone(world) as Arc<dyn FileSystem>;
    let mut shell = builder(world, fs, limits::execution()).cwd(&workspace).build();
    let mut state = shell.shell_state();
    correct_variables(&mut state, &workspace);
    shell.restore_shell_state(&state);
    shell
}

/// Creates a shell for a child of a command, with its environment and its directory only.
fn child(world: &Arc<World>, context: &CommandContext<'_>, limit: Option<Duration>) -> Bash {
    let mut limits = limits::execution();
    limits.timeout = limit.unwrap_or(limits.timeout);
    let mut shell = builder(world, Arc::clone(&context.fs), limits).cwd(context.cwd).build();
    let mut state = shell.shell_state();
    for name in INVENTED {
        state.variables.remove(name);
        state.var_attrs.remove(name);
    }
    state.variables.extend(context.env.clone());
    state.env.clone_from(context.env);
    shell.restore_shell_state(&state);
    shell
}

fn builder(world: &Arc<World>, fs: Arc<dyn FileSystem>, limits: ExecutionLimits) -> BashBuilder {
    let builder = Bash::builder()
        .fs(fs)
        .rootfs(false)
        .username(UNKNOWN)
        .hostname(UNKNOWN)
        .limits(limits)
        .memory_limits(limits::memory())
        .session_limits(bashkit::SessionLimits::unlimited())
        .builtin_filter(commands::is_kept);
    commands::add_own(builder, world)
}

/// Sets the variables that a shell sets itself, and the granted environment.
fn correct_variables(state: &mut ShellState, workspace: &str) {
    for name in INVENTED {
        state.variables.remove(name);
        state.var_attrs.remove(name);
    }
    state.variables.insert("PATH".to_owned(), PATH.to_owned());
    state.env.insert("PATH".to_owned(), PATH.to_owned());
    state.env.insert("PWD".to_owned(), workspace.to_owned());
    for (name, value) in std::env::vars_os() {
        if let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) {
            state.variables.insert(name.clone(), value.clone());
            state.env.insert(name, value);
        }
    }
}
