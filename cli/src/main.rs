//! The `ikigai` program: the compiler of one component where it is asked to be one, the
//! command line otherwise.

mod commands;
mod config;
mod error;
mod logging;
mod output;
mod remedy;
mod repl;

use std::process::ExitCode;

use ikigai_host::exec::wasm::compiler;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(argument) if argument == compiler::ARGUMENT => compiler::main(),
        _ => commands::main(),
    }
}
