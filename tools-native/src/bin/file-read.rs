//! `file_read` as a native executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_file_read(ikigai_tools_native::storage)
}
