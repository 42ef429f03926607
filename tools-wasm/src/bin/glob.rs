//! `glob` as a component.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_glob(ikigai_tools_wasm::files)
}
