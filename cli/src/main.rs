//! The `ikigai` program: its command line, or the compiler of one component if the first argument
//! requests that.

mod approval;
mod choice;
mod commands;
mod complete;
mod config;
mod credentials;
mod decision;
mod end_signals;
mod error;
mod help;
mod kept;
mod layers;
mod logging;
mod mcp;
mod model;
mod notice;
mod options;
mod output;
mod own_editor;
mod person;
mod progress;
mod remedy;
mod repl;
mod servers;
mod shipping;
mod tool_flags;
mod variables;

use std::process::ExitCode;

use ikigai_host::exec::wasm::compiler;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(argument) if argument == compiler::ARGUMENT => compiler::main(),
        _ => commands::main(),
    }
}
