//! `grep` as a component.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_grep(ikigai_tools_wasm::files)
}
