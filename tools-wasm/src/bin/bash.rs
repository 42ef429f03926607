//! `bash` as a component.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_bash(ikigai_tools_wasm::shell)
}
