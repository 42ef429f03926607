//! `bash` as a native executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_bash(ikigai_tools_native::shell)
}
