//! `grep` as a native executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    ikigai_tools::run_grep(ikigai_tools_native::files)
}
