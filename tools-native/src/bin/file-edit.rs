//! `file_edit` as a native executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_file_edit(ikigai_tools_native::storage)
}
