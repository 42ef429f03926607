//! Executes `supervisor`, the program beside it, as the user without rights. For tests that run as root:
//! a host executes its supervisor as itself, and a script would not be found by its descriptor.

use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The number of that user, and of its group.
const NOBODY: u32 = 65_534;

fn main() -> Result<(), Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let supervisor = own.parent().ok_or("no directory")?.join("supervisor");
    rustix::thread::set_thread_groups(&[])?;
    Err(Command::new(supervisor)
        .args(std::env::args_os().skip(1))
        .uid(NOBODY)
        .gid(NOBODY)
        .exec()
        .into())
}
