//! The `ikigai` program: its command line.

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
mod user_command;
mod variables;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
