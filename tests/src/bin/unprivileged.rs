//! Executes the program `supervisor` in the same directory, as the user without rights. Tests that
//! run as root need it, because a host executes its supervisor as its own user. A script would not
//! work, because the host starts its supervisor by descriptor.

use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The number of the user without rights, and of its group.
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
