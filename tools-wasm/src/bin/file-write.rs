//! `file_write` as a component.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_file_write(ikigai_tools_wasm::storage)
}
