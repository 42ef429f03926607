//! `bash` as a component, and any script as a component of its own.
//!
//! A package of its own, because the interpreter is fifty times the code of the other
//! tools together, and whatever it is linked with is optimised as a whole.
//!
//! The program has room for a script. Without one it is the tool `bash`; with one it is the script.

mod shell;

use std::hint::black_box;
use std::process::ExitCode;

use ikigai_protocol::ScriptSlot;

/// The place for a script, which is written into the file after this program was built.
static SLOT: ScriptSlot = ScriptSlot::empty();

fn main() -> ExitCode {
    // The compiler must not take the slot for empty because it is now.
    match black_box(&SLOT).script() {
        Some(script) => shell::script::run(script),
        None => ikigai_tools::run_bash(|| Ok(shell::WasmShell)),
    }
}
