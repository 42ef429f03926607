//! `ikigai tool run`: runs a tool by the bare protocol, with raw streams and exit code.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use clap::Args;

use super::call::{print_allow_with, read_arguments};
use super::named::named_tool;
use crate::approval::ApprovalOptions;
use crate::commands::cancelled_by_signals;
use crate::complete;
use crate::error::{self, CliError};
use crate::model::ENVIRONMENT;
use crate::options::SharedOptions;
use crate::output::{eprint, screen_of_stderr};
use crate::person::Person;
use ikigai_host::audit::Via;
use ikigai_host::exec::envelope;
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::{Exit, Outcome, Stdin};
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::{CallStreams, CallTarget};
use ikigai_terminal::editor::RestoredModes;

/// The exit code if a limit ended the tool, the same as for timeout(1).
const LIMIT: u8 = 124;

/// The exit code if a program cannot be started, the same as in shells.
const NOT_STARTED: u8 = 126;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    #[command(flatten)]
    approval: ApprovalOptions,
    /// The tool by name, or a file by its path (with a slash); ikigai passes on everything after it
    /// unchanged
    // One list, because clap would look for the host's own flags between two.
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true,
          value_names = ["NAME|PATH", "ARGS"], add = complete::tools_and_files())]
    command: Vec<OsString>,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
    approval: ApprovalOptions,
) -> Result<ExitCode, CliError> {
    let approval = arguments.approval.or(approval, ENVIRONMENT);
    let approval = approval.resolve(&options.config, ENVIRONMENT)?;
    let host = options.host_for_call(&approval)?;
    let cancel = cancelled_by_signals()?;
    let mut args = arguments.command.into_iter();
    // clap requires a reference.
    let reference = args.next().unwrap_or_default();
    let name = reference.to_string_lossy().into_owned();
    let named;
    let snapshot;
    let subject = if is_path(&reference) {
        let path = Path::new(&reference);
        named = host.registry().build_at(path).await.map_err(|reason| {
            let error = CliError::usage(anyhow::Error::msg(reason));
            if path.exists() {
                return error;
            }
            error.hint("write the tool's name without a slash; `ikigai tool list` lists the tools")
        })?;
        CallTarget::at_path(&named)
    } else {
        let looked_up = cancel.run_until_cancelled(host.look_up(&name)).await;
        let Some(found) = looked_up else {
            return Ok(ExitCode::from(error::INTERRUPTED));
        };
        snapshot = found;
        let tool = match named_tool(&snapshot, &name) {
            Ok(tool) => tool,
            Err(error) => {
                host.refuse_missing(&Via::Run.into(), &snapshot, &name);
                return Err(error.exiting(if snapshot.is_late() { LIMIT } else { error::USAGE }));
            }
        };
        CallTarget::from(tool)
    };
    let broken = Arc::new(OnceLock::new());
    let args: Vec<OsString> = args.collect();
    let stdin = match subject.build.wrapped_program() {
        // The host reads the arguments of a wrapped program, and a tool reads its own.
        Some(_) if args.is_empty() => Stdin::Bytes(read_arguments("-", options.timeout())?),
        Some(_) | None => Stdin::Inherit,
    };
    let streams = CallStreams {
        stdin,
        stdout: Sink::Forward(Arc::new(Mutex::new(Stdout(Arc::clone(&broken))))),
        stderr: Sink::Forward(Arc::new(Mutex::new(io::stderr()))),
    };
    let person =
        approval.asks_at_stderr().then(|| Arc::new(Person::before_run(screen_of_stderr())));
    let front_end = person.clone().map(|person| person as Arc<dyn FrontEnd>);
    let modes = RestoredModes::note();
    let ran = host.run(Via::Run, subject, args, streams, cancel, front_end).await;
    drop(modes);
    if let Some(person) = person {
        person.settle();
    }
    let (outcome, aside) = ran;
    let code = exit_code(&name, &outcome);
    print_allow_with(&aside);
    match broken.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        // The tool may have ended before it could notice.
        Some(error) if code == 0 => {
            let error = anyhow::anyhow!("the output of `{name}` could not be written: {error}");
            Err(CliError::failed(error))
        }
        Some(error) => {
            eprint(&format!("error: the output of `{name}` could not be written: {error}\n"));
            Ok(ExitCode::from(code))
        }
        None => Ok(ExitCode::from(code)),
    }
}

/// The stdout of this process, which keeps its first error.
struct Stdout(Arc<OnceLock<io::Error>>);

impl Stdout {
    fn kept(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        if kind != io::ErrorKind::Interrupted {
            // Later errors follow from the first.
            let _ = self.0.set(error);
        }
        kind.into()
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).map_err(|error| self.kept(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().map_err(|error| self.kept(error))
    }
}

/// Returns true if the reference has a slash, which makes it a path as in a shell.
fn is_path(reference: &OsStr) -> bool {
    reference.as_encoded_bytes().contains(&b'/')
}

/// Returns the code that this process exits with, and prints a line on stderr if the host
/// ended the tool.
fn exit_code(name: &str, outcome: &Outcome) -> u8 {
    if outcome.cancelled {
        return error::INTERRUPTED;
    }
    if let Some(limit) = outcome.limit {
        eprint(&format!("error: `{name}` exceeded its limit on {}\n", limit.as_str()));
        return LIMIT;
    }
    match &outcome.exit {
        Exit::Denied(reason) => {
            eprint(&format!("error: `{name}` may not be run: {reason}\n"));
            return NOT_STARTED;
        }
        Exit::NotStarted(reason) => {
            eprint(&format!("error: `{name}` could not be started: {reason}\n"));
            return NOT_STARTED;
        }
        Exit::Lost { reason, .. } => eprint(&format!("error: `{name}` was lost: {reason}\n")),
        Exit::Trap(reason) => eprint(&format!("error: `{name}` trapped: {reason}\n")),
        Exit::Code(_) | Exit::Signal(_) | Exit::Ended => {}
    }
    let code = envelope::exit_code(&outcome.exit).unwrap_or_default();
    // The kernel keeps eight bits of an exit code.
    code.to_le_bytes()[0]
}
