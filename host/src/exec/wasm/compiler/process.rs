//! The process that compiles one component or core module. It sets limits for itself before it reads
//! its input.
//!
//! The component is its stdin, the code its stdout, the reason of a refusal its stderr.

mod behind;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use ikigai_protocol::Digest;
use ikigai_supervisor::core_dumps;
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, nice, set_parent_process_death_signal, setrlimit,
};

use super::super::engine::{EngineKind, Tier};
use super::super::preview1::CoreModuleError;
use super::super::wasi_version::UsesAsync;
use super::{CompilerTask, EMPTY, code, exit};

/// The niceness of the process: everything else on the machine goes first.
const NICENESS: i32 = 10;

/// Compiles a component as the arguments of this process say. It must be all that the `main` of a
/// program does: no thread may have been started.
#[must_use]
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (code, reason) = match run(&mut arguments) {
        Ok(code) => (code, String::new()),
        Err(CompilerFault { code, reason }) => (code, reason),
    };
    // This process has no other way to report a failure.
    let _ = io::stderr().write_all(reason.as_bytes());
    ExitCode::from(code as u8)
}

struct CompilerFault {
    code: i32,
    reason: String,
}

impl CompilerFault {
    fn failed(reason: impl ToString) -> Self {
        Self { code: exit::FAILED, reason: reason.to_string() }
    }
}

/// Does what the arguments say, and returns the exit code.
fn run(arguments: &mut dyn Iterator<Item = OsString>) -> Result<i32, CompilerFault> {
    let mut next = || {
        let argument = arguments.next().and_then(|argument| argument.into_string().ok());
        argument.ok_or_else(|| {
            CompilerFault::failed("arguments are missing: only the host starts this")
        })
    };
    let task: CompilerTask = next()?.parse().map_err(CompilerFault::failed)?;
    let digest = next()?;
    let tier = match task {
        CompilerTask::Behind => {
            return match behind::run(&digest, next()?.as_ref()).map_err(CompilerFault::failed)? {
                true => Ok(exit::DONE),
                false => Ok(exit::BUSY),
            };
        }
        CompilerTask::Baseline => Tier::Baseline,
        CompilerTask::Optimised => Tier::Optimised,
    };
    let mut number = || next()?.parse::<u64>().map_err(CompilerFault::failed);
    let (processor, memory, code, host) = (number()?, number()?, number()?, number()?);
    end_with(host).map_err(CompilerFault::failed)?;
    // The first signal names the limit; the second kills.
    limit(Resource::Cpu, processor, processor + 1)
        .and_then(|()| limit(Resource::Data, memory, memory))
        .and_then(|()| limit(Resource::Fsize, code, code))
        .and_then(|()| core_dumps::forbid())
        .map_err(|error| {
            CompilerFault::failed(format!("its compilation cannot be limited: {error}"))
        })?;
    // A container may forbid it, and the limits apply all the same.
    let _ = nice(NICENESS);

    // Starts the compiler's threads while there is memory for them, so that a failure to
    // start them is not blamed on the component.
    code::compile(EMPTY, tier).map_err(|error| CompilerFault::failed(format!("{error:#}")))?;
    let component = read(&digest)?;
    let compiled = code::compile(&component, tier).map_err(fault);
    drop(component);
    let (code, engine) = compiled?;
    write(&code)?;
    Ok(match engine {
        EngineKind::Sequential => exit::DONE,
        EngineKind::Concurrent => exit::DONE_CONCURRENT,
    })
}

/// Returns the fault of a binary that was refused.
fn fault(error: wasmtime::Error) -> CompilerFault {
    if let Some(UsesAsync(built_in)) = error.downcast_ref() {
        return CompilerFault { code: exit::USES_ASYNC, reason: built_in.clone() };
    }
    let code = if is_no_memory(&error) {
        exit::NO_MEMORY
    } else if error.is::<CoreModuleError>() {
        exit::NO_PROGRAM
    } else {
        exit::INVALID
    };
    CompilerFault { code, reason: format!("{error:#}") }
}

fn is_no_memory(error: &wasmtime::Error) -> bool {
    let of_system = |error: &io::Error| error.kind() == io::ErrorKind::OutOfMemory;
    error.is::<wasmtime::OutOfMemory>()
        || error.downcast_ref::<io::Error>().is_some_and(of_system)
        || error.downcast_ref::<rustix::io::Errno>() == Some(&rustix::io::Errno::NOMEM)
}

/// Makes this process end with the host, however that ends.
fn end_with(host: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    // The host may have ended before.
    if u64::try_from(parent).ok() != Some(host) {
        return Err(io::Error::other("the host has ended"));
    }
    Ok(())
}

/// Lowers a limit, unless it is lower already.
fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let own = getrlimit(resource);
    let lower = |own: Option<u64>, to: u64| Some(own.map_or(to, |own| own.min(to)));
    let (current, maximum) = (lower(own.current, soft), lower(own.maximum, hard));
    setrlimit(resource, Rlimit { current, maximum })?;
    Ok(())
}

fn read(digest: &str) -> Result<Vec<u8>, CompilerFault> {
    let mut component = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut component);
    read.map_err(|error| CompilerFault::failed(format!("it cannot be read: {error}")))?;
    if Digest::from_bytes(&component).to_string() != digest {
        return Err(CompilerFault::failed("the file has changed; scan again"));
    }
    Ok(component)
}

/// Writes the code to stdout, without the buffer of `io::stdout`, which looks for the ends of
/// lines.
fn write(code: &[u8]) -> Result<(), CompilerFault> {
    let own = io::stdout().as_fd().try_clone_to_owned().map_err(CompilerFault::failed)?;
    File::from(own).write_all(code).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            CompilerFault { code: exit::TOO_MUCH_CODE, reason: String::new() }
        }
        _ => CompilerFault::failed(format!("its code cannot be written: {error}")),
    })
}
