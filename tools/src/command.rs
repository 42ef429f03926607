//! The two-line protocol: `TOOL --schema` prints the schema; `TOOL` reads one
//! JSON object on standard input and prints one JSON object.
//!
//! This is the only module that touches the standard streams and picks exit codes. A failed
//! operation exits 0, since the tool itself ran.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use crate::answer::{CallOutcome, ToolFailure};
use crate::args::Args;
use crate::ports::{Assets, Files, Shell, Storage};
use crate::{bash, file_edit, file_read, file_write, glob, grep, schemas};

/// The exit code for arguments that are neither a call nor `--schema`.
const EXIT_USAGE: u8 = 2;

/// Runs `bash`. The port is opened only for a call, not for `--schema`.
pub fn run_bash<S: Shell>(shell: impl FnOnce() -> Result<S, String>) -> ExitCode {
    run(schemas::BASH, shell, |shell, args| bash::call(shell, args, &mut io::stdout().lock()))
}

/// Runs `file_read`.
pub fn run_file_read<F: Files, A: Assets>(
    storage: impl FnOnce() -> Result<Storage<F, A>, String>,
) -> ExitCode {
    run(schemas::FILE_READ, storage, file_read::call)
}

/// Runs `file_write`.
pub fn run_file_write<F: Files, A: Assets>(
    storage: impl FnOnce() -> Result<Storage<F, A>, String>,
) -> ExitCode {
    run(schemas::FILE_WRITE, storage, file_write::call)
}

/// Runs `file_edit`.
pub fn run_file_edit<F: Files, A: Assets>(
    storage: impl FnOnce() -> Result<Storage<F, A>, String>,
) -> ExitCode {
    run(schemas::FILE_EDIT, storage, file_edit::call)
}

/// Runs `glob`.
pub fn run_glob<F: Files>(files: impl FnOnce() -> Result<F, String>) -> ExitCode {
    run(schemas::GLOB, files, glob::call)
}

/// Runs `grep`.
pub fn run_grep<F: Files>(files: impl FnOnce() -> Result<F, String>) -> ExitCode {
    run(schemas::GREP, files, grep::call)
}

/// Returns the output of `tool` for `input` over the ports of `storage`. `None` for a tool that
/// needs no files.
#[cfg(feature = "answers")]
pub fn answer<F: Files, A: Assets>(
    tool: &str,
    storage: &Storage<F, A>,
    input: &[u8],
) -> Option<Vec<u8>> {
    let call = match tool {
        "file-read" => file_read::call,
        "file-write" => file_write::call,
        "file-edit" => file_edit::call,
        "glob" => |storage: &Storage<F, A>, args: &Args<'_>| glob::call(&storage.files, args),
        "grep" => |storage: &Storage<F, A>, args: &Args<'_>| grep::call(&storage.files, args),
        _ => return None,
    };
    Some(match Args::parse(input).and_then(|args| call(storage, &args)) {
        Ok(answer) => answer.as_bytes().to_vec(),
        Err(failure) => failure.to_json(),
    })
}

/// Returns the schema of `tool`, as `--schema` prints it. `None` for a tool that needs no files.
#[cfg(feature = "answers")]
pub fn schema(tool: &str) -> Option<&'static str> {
    match tool {
        "file-read" => Some(schemas::FILE_READ),
        "file-write" => Some(schemas::FILE_WRITE),
        "file-edit" => Some(schemas::FILE_EDIT),
        "glob" => Some(schemas::GLOB),
        "grep" => Some(schemas::GREP),
        _ => None,
    }
}

fn run<P>(
    schema: &str,
    port: impl FnOnce() -> Result<P, String>,
    call: impl FnOnce(&P, &Args<'_>) -> CallOutcome,
) -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match (args.next(), args.next()) {
        (None, _) => {}
        (Some(arg), None) if arg == "--schema" => return print(schema.as_bytes()),
        _ => return complain(EXIT_USAGE, "usage: TOOL [--schema] <ARGUMENTS.json"),
    }
    let port = match port() {
        Ok(port) => port,
        Err(reason) => return complain(1, &reason),
    };
    let mut input = Vec::new();
    match io::stdin().lock().read_to_end(&mut input) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            return print(&ToolFailure::no_memory().to_json());
        }
        Err(error) => return complain(1, &format!("cannot read standard input: {error}")),
    }
    match Args::parse(&input).and_then(|args| call(&port, &args)) {
        Ok(answer) => print(answer.as_bytes()),
        Err(failure) => print(&failure.to_json()),
    }
}

fn print(bytes: &[u8]) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(1, &format!("cannot write the answer: {error}")),
    }
}

fn complain(code: u8, message: &str) -> ExitCode {
    // If standard error is closed as well, the exit code is all that can be reported.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(code)
}
