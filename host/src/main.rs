//! The `ikigai` program: the compiler of one component where it is asked to be one, the
//! command line otherwise.

use std::process::ExitCode;

use ikigai::exec::wasm::compiler;

fn main() -> ExitCode {
    // First of all, and without touching anything else: every native call starts
    // this program once more, and the supervisor must have one thread only.
    match std::env::args_os().nth(1) {
        Some(argument) if argument == compiler::ARGUMENT => compiler::main(),
        _ => ikigai::cli::main(),
    }
}
