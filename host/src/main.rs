//! The `ikigai` program: the supervisor of one native call where it is asked to be
//! one, the command line otherwise.

use std::process::ExitCode;

use ikigai::exec::native::supervisor;

fn main() -> ExitCode {
    // First of all, and without touching anything else: every native call starts
    // this program once more, and the supervisor must have one thread only.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == supervisor::ARGUMENT) {
        return supervisor::main();
    }
    ikigai::cli::main()
}
