//! The program `ikigai-compiler`, which the host starts for each component that it has no code of.
//!
//! It is a separate program so that an installed `ikigai` does not contain Cranelift and Winch.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_host::exec::wasm::compiler::main()
}
