//! `mcp-peer [--http] DEFINITION`: a server of the Model Context Protocol that misbehaves as the file
//! DEFINITION says, for tests of clients.
//!
//! Depends on nothing of ikigai and on no library of the protocol: it is written from the
//! specification alone, so that a misreading in the client is noticed. Requests that the
//! specification forbids are lines `violation: …` of its journal.

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

/// The life of a child that nobody ends: longer than any test waits for its end.
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
    // Without stderr, the exit code has to say it.
    let _ = writeln!(io::stderr(), "mcp-peer: {message}");
    std::process::exit(2)
}
