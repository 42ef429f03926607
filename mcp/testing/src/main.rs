//! `mcp-peer [--http] DEFINITION`: a server of the Model Context Protocol for tests of clients. It
//! misbehaves as the file DEFINITION says.
//!
//! It depends neither on ikigai nor on a protocol library. It is written only from the
//! specification, so that misreadings in the client are noticed. A request that the specification
//! forbids becomes a line `violation: …` in its journal.

mod behaviour;
mod calls;
mod check;
mod definition;
mod floods;
mod http;
mod journal;
mod message;
mod peer;
mod pending;
mod stdio;
mod tools;

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use crate::definition::Definition;

/// The argument of the child that the behaviour `fork` leaves behind.
const CHILD: &str = "--child";

/// The lifetime of a child that nothing kills. It is longer than any test waits for its end.
const LIFE_OF_A_CHILD: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let args: Vec<_> = env::args_os().skip(1).collect();
    let ran = match &args[..] {
        [child] if child == CHILD => {
            thread::sleep(LIFE_OF_A_CHILD);
            Ok(())
        }
        [file] => {
            let file = PathBuf::from(file);
            Definition::read(&file).and_then(|definition| stdio::serve(definition, file))
        }
        [flag, file] if flag == "--http" => {
            let file = PathBuf::from(file);
            Definition::read(&file).and_then(|definition| http::serve(definition, file))
        }
        _ => Err("usage: mcp-peer [--http] DEFINITION".to_owned()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Ends the program with a message on stderr.
fn fail(message: &str) -> ! {
    // If stderr is closed, the exit code must report the failure.
    let _ = writeln!(io::stderr(), "mcp-peer: {message}");
    std::process::exit(2)
}
