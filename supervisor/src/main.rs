//! The program `ikigai-supervisor`. The host starts it for one native call; people have no use
//! for it.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return ikigai_supervisor::main().into();
    #[cfg(not(target_os = "linux"))]
    return ExitCode::from(2);
}
