//! A script as the whole program: it gets the process's arguments and standard input, and its
//! output and exit code become the process's.

use std::env;
use std::io::{self, Read as _, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use bashkit::{ExecOptions, StreamData};

use super::{ErrorPrefix, OutputSink, locked};

/// The argument by which a tool is asked for its schema.
const SCHEMA: &str = "--schema";

/// The exit code if the script cannot be run, or if its output cannot be written.
const EXIT_FAILED: u8 = 1;

/// Runs the script with the arguments and the streams of the process.
pub(crate) fn run(script: &[u8]) -> ExitCode {
    // WASI has arguments in UTF-8 only.
    let mut arguments = env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let name = arguments.next().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| super::NAME.to_owned());
    let Ok(script) = std::str::from_utf8(script) else {
        return complain(&name, "the script in this component is not UTF-8: build it anew");
    };
    let arguments: Vec<String> = arguments.collect();
    let input = match input(&arguments) {
        Ok(input) => input,
        Err(error) => return complain(&name, &format!("cannot read standard input: {error}")),
    };
    let options =
        ExecOptions::new().arg0(&name).positional(arguments).stdin(StreamData::from(input));
    let broken: Arc<Mutex<Option<io::Error>>> = Arc::default();
    let emit = to_streams(Arc::clone(&broken));
    let who = ErrorPrefix { name: &name, syntax: &name };
    let code = super::block_on(super::run(script, &who, options, &emit));
    let broken = locked(&broken).take();
    match (code, broken) {
        (_, Some(error)) => complain(&name, &format!("cannot write the output: {error}")),
        (Err(reason), None) => complain(&name, &reason),
        // An exit code is the lowest eight bits of the number.
        (Ok(code), None) => ExitCode::from(code as u8),
    }
}

/// Reads standard input, which the interpreter takes as a whole. A request for the schema has no
/// input, and a user who makes one at a terminal should not have to end it.
fn input(arguments: &[String]) -> io::Result<Vec<u8>> {
    let mut input = Vec::new();
    if arguments != [SCHEMA] {
        io::stdin().lock().read_to_end(&mut input)?;
    }
    Ok(input)
}

/// Returns a writer to the standard streams. It keeps the first error, and writes nothing after it.
fn to_streams(broken: Arc<Mutex<Option<io::Error>>>) -> OutputSink {
    Arc::new(Mutex::new(move |stdout: &[u8], stderr: &[u8]| {
        let mut broken = locked(&broken);
        if broken.is_none() {
            let written = write(io::stderr(), stderr).and_then(|()| write(io::stdout(), stdout));
            *broken = written.err();
        }
        broken.is_none()
    }))
}

fn write(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

fn complain(name: &str, message: &str) -> ExitCode {
    // If standard error is closed as well, the exit code is all that can be reported.
    let _ = writeln!(io::stderr(), "{name}: {message}");
    ExitCode::from(EXIT_FAILED)
}
