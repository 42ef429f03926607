//! `bash` as a component.
//!
//! A package of its own, because the interpreter is fifty times the code of the other
//! tools together, and whatever it is linked with is optimised as a whole.

mod shell;

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_bash(|| Ok(shell::WasmShell))
}
