//! The command line: clap's definitions, the only place that prints, and the
//! only place that picks exit codes.
//!
//! stdout carries the answer and nothing else; everything else goes to stderr.

mod ask;
mod asset;
mod audit;
mod call;
mod check;
mod complete;
mod config;
mod decided;
mod doctor;
mod error;
mod help;
mod layers;
mod list;
mod manual;
mod model;
mod options;
mod policy;
mod precompile;
mod progress;
mod repl;
mod run;
mod schema;
mod show;

use std::ffi::OsString;
use std::future::Future;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use ikigai_terminal::sanitize;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;

use self::error::CliError;
use self::model::ModelOptions;
use self::options::Options;
use ikigai_host::exec::native;

/// A host for tools that language models call.
///
/// A tool is a program that answers --schema with a JSON schema and turns one JSON
/// object on stdin into one JSON value on stdout: a native executable, or a
/// WebAssembly component that sees only the directories it was handed.
///
/// Without a command: a conversation with a model that may call the tools; where stdin
/// or stdout is no terminal, the same as ask.
#[derive(Debug, Parser)]
#[command(name = "ikigai", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 the tool or the operation failed, 2 usage or \
                        configuration, 130 interrupted; those of `tool run` are the tool's \
                        own.\nIKIGAI_LOG filters what is logged, such as \
                        IKIGAI_LOG=debug.")]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    model: ModelOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask a model, which may call the tools
    ///
    /// The answer goes to stdout as it comes; what is called, and what a person should know,
    /// to stderr.
    #[command(after_help = ask::NOTES)]
    Ask(ask::Arguments),
    /// Find, inspect and call tools
    #[command(subcommand)]
    Tool(ToolCommand),
    /// See and change what tools may touch
    #[command(subcommand)]
    Policy(policy::Command),
    /// See and change the assets under ikigai://
    #[command(subcommand)]
    Asset(asset::Command),
    /// Show what was called and what came of it
    ///
    /// Every call is recorded in $XDG_STATE_HOME/ikigai/audit.jsonl. A table of all of
    /// them, the oldest first, unless asked for less; times are of this machine's zone.
    Audit(audit::Arguments),
    /// Look at this machine and say what is missing
    ///
    /// Exits 1 if policy requires what the machine does not give.
    Doctor(doctor::Arguments),
    /// See what is configured
    #[command(subcommand)]
    Config(config::Command),
    /// Print the script that completes for a shell
    ///
    /// An installation has those of bash, zsh and fish where these look for them.
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
    /// Compile the components of a directory into its own cache; for installers
    #[command(name = "__precompile", hide = true)]
    Precompile {
        /// The directory
        dir: PathBuf,
    },
    /// Write the manual pages into a directory; for installers
    #[command(name = "__manual", hide = true)]
    Manual {
        /// The directory
        dir: PathBuf,
    },
}

/// How the script of a shell is used without an installation.
const COMPLETIONS: &str = "Examples:\n  \
    source <(ikigai completions bash)     in ~/.bashrc\n  \
    source <(ikigai completions zsh)      in ~/.zshrc, behind compinit\n  \
    ikigai completions fish | source      in ~/.config/fish/config.fish";

#[derive(Debug, Subcommand)]
enum ToolCommand {
    /// List the tools that can be called
    List(list::Arguments),
    /// Show everything known of one tool
    Show(show::Arguments),
    /// Call a tool with JSON and print the envelope
    ///
    /// Exits 0 only if the tool ran and answered; what the answer says is its own.
    Call(call::Arguments),
    /// Run a tool by the bare protocol: stdin, stdout and exit code as they are
    ///
    /// The same limits and grants hold as in a call. Exits with the tool's code, 124
    /// where a limit ended it, 126 where it could not be started or policy forbids it, 2
    /// where there is no such tool.
    Run(run::Arguments),
    /// Print the schemas of tools as a model is told them
    Schema(schema::Arguments),
    /// Check whether a file is a good tool
    ///
    /// Runs it with --schema and with malformed arguments, under the host's limits. A native
    /// file runs with your rights, unconfined, unless a grant has its digest; --schema alone
    /// is always asked in the sandbox.
    Check(check::Arguments),
}

/// Runs the command line of this process.
#[must_use]
pub(crate) fn main() -> ExitCode {
    if let Some(answered) = complete::answer() {
        return ended(answered);
    }
    let cli = match layers::read() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    log_to_stderr(cli.options.verbose);
    native::outlive_file_size_limit();
    ended(dispatch(cli))
}

/// The exit code of what was done, and a word on what failed.
fn ended(done: Result<ExitCode, CliError>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) if error.is_broken_pipe() => ExitCode::from(error::FAILED),
        Err(error) => {
            say(&error.text());
            ExitCode::from(error.exit)
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let options = &cli.options;
    let Some(command) = cli.command else { return block_on(repl::run(options, cli.model)) };
    match command {
        Command::Tool(ToolCommand::List(arguments)) => block_on(list::run(options, arguments)),
        Command::Tool(ToolCommand::Show(arguments)) => block_on(show::run(options, arguments)),
        Command::Tool(ToolCommand::Call(arguments)) => block_on(call::run(options, arguments)),
        Command::Tool(ToolCommand::Run(arguments)) => block_on(run::run(options, arguments)),
        Command::Tool(ToolCommand::Schema(arguments)) => block_on(schema::run(options, arguments)),
        Command::Tool(ToolCommand::Check(arguments)) => block_on(check::run(options, arguments)),
        Command::Ask(arguments) => block_on(ask::run(options, arguments.or(cli.model))),
        Command::Asset(command) => block_on(asset::run(options, command)),
        Command::Audit(arguments) => block_on(audit::run(options, arguments)),
        Command::Doctor(arguments) => block_on(doctor::run(options, arguments)),
        Command::Policy(command) => block_on(policy::run(options, command)),
        Command::Config(command) => block_on(config::run(options, command, cli.model)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            complete::write_script(shell, &mut script)?;
            print_raw(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Manual { dir } => manual::write(&dir),
        Command::Precompile { dir } => block_on(precompile::run(dir)),
    }
}

/// Runs a command on a runtime of one thread: components have threads of their
/// own, native tools are processes, and starting more costs more than a call.
fn block_on(
    command: impl Future<Output = Result<ExitCode, CliError>>,
) -> Result<ExitCode, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(command);
    // Not taken apart: that would wait for threads that are stuck in the kernel, and for
    // the kernel to take a supervisor's namespace apart, which is 2 ms of a native call
    // and nothing of the tool's. What is left ends with this process.
    std::mem::forget(runtime);
    code
}

/// A token that is cancelled by Ctrl-C or SIGTERM, so that the call and all that
/// it started end with the host.
fn cancelled_by_signals() -> Result<CancellationToken, CliError> {
    use tokio::signal::unix::{SignalKind, signal};
    let cancel = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let token = cancel.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
    });
    Ok(cancel)
}

/// The exit code of a command that a person interrupted: 128 + SIGINT.
const INTERRUPTED: u8 = 130;

/// Writes what is for people to stdout, without anything that a terminal would obey: others
/// have put it into names, descriptions and paths, and a pipe often leads to a terminal.
fn print(text: &str) -> Result<(), CliError> {
    print_raw(sanitize(text).as_bytes())
}

/// Writes what is somebody's own text, or for a program, to stdout: as it is, but for a terminal.
fn print_exact(text: &str) -> Result<(), CliError> {
    if std::io::stdout().is_terminal() {
        return print(text);
    }
    print_raw(text.as_bytes())
}

/// Writes a value as indented JSON to stdout.
fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print_exact(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes bytes to stdout that a terminal may obey.
fn print_raw(bytes: &[u8]) -> Result<(), CliError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Writes to stderr. Nothing depends on whether somebody reads it, so it neither
/// waits for a reader nor for a thread that does and holds the standard library's
/// lock. Nothing that a terminal would obey is written, as in [`print`].
fn say(text: &str) {
    let text = sanitize(text);
    /// What a pipe that is ready takes without blocking, in bytes: POSIX's PIPE_BUF.
    const READY: usize = 512;
    let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let stderr = rustix::stdio::stderr();
    for piece in text.as_bytes().chunks(READY) {
        let ready = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&patience));
        if !ready.is_ok_and(|ready| ready > 0) || rustix::io::write(stderr, piece).is_err() {
            return;
        }
    }
}

fn log_to_stderr(verbose: bool) {
    let default = if verbose { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let asked = std::env::var("IKIGAI_LOG").ok().map(|text| (text.parse::<Targets>(), text));
    let filter = match &asked {
        Some((Ok(targets), _)) => targets.clone(),
        Some((Err(_), _)) | None => {
            Targets::new().with_default(LevelFilter::WARN).with_target("ikigai", default)
        }
    };
    let has_colours = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || LogWriter { has_colours })
        .with_ansi(has_colours)
        .without_time()
        .with_target(false);
    let subscriber = tracing_subscriber::registry().with(lines).with(filter);
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        say("warning: logging was set up before; IKIGAI_LOG has no effect\n");
    }
    if let Some((Err(error), text)) = asked {
        tracing::warn!("IKIGAI_LOG=`{text}` is no filter, ignored: {error}");
    }
}

/// Where lines of the log go: stderr, as [`say`] does, but for the colours of a terminal, where
/// the subscriber itself escapes what others have written.
struct LogWriter {
    has_colours: bool,
}

impl std::io::Write for LogWriter {
    /// Takes a whole line, as the subscriber hands it over.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let mut stderr = std::io::stderr().lock();
        if self.has_colours {
            stderr.write_all(line)?;
        } else {
            stderr.write_all(sanitize(&String::from_utf8_lossy(line)).as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// A path or a name of a tool.
#[derive(Clone, Debug)]
struct ToolReference(OsString);

impl ToolReference {
    /// Anything with a slash is a path, as for a shell.
    fn is_path(&self) -> bool {
        self.0.as_encoded_bytes().contains(&b'/')
    }
}

impl From<OsString> for ToolReference {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

/// How shells complete a value that is a file.
const FILE: ValueHint = ValueHint::FilePath;
