//! The program `ikigai-supervisor`. The host starts it for one native call; it has no use
//! for people.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return ikigai_supervisor::main();
    #[cfg(not(target_os = "linux"))]
    return ExitCode::from(2);
}
