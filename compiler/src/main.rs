//! The program `ikigai-compiler`, which the host starts for each component that it has no code of.
//!
//! It is a program of its own so that `ikigai` has no compiler: Cranelift and Winch are half of the
//! size of a program that has them, and every start would pay for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_host::exec::wasm::compiler::main()
}
