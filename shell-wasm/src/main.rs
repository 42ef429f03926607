//! `bash` as a component, and any script as its own component.
//!
//! `bash` is a separate package, because the interpreter is fifty times the code of the other tools
//! together. All code that is linked with it is optimised as a whole.
//!
//! The program has room for a script. Without a script it is the tool `bash`. With a script it is
//! that script.

mod shell;

use std::hint::black_box;
use std::process::ExitCode;

use ikigai_protocol::ScriptSlot;

/// The place for a script, which is written into the file after this program was built.
static SLOT: ScriptSlot = ScriptSlot::empty();

fn main() -> ExitCode {
    // The slot is empty at compile time. `black_box` keeps the compiler from assuming that it stays
    // empty.
    match black_box(&SLOT).script() {
        Some(script) => shell::script::run(script),
        None => ikigai_tools::run_bash(|| Ok(shell::WasmShell)),
    }
}
