//! Executes the program `supervisor` in the same directory, with only as many descriptors as the
//! file `descriptors` there allows. A script would not work, because the host starts its supervisor
//! by descriptor.

use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

fn main() -> Result<(), Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let beside = own.parent().ok_or("no directory")?;
    let most = std::fs::read_to_string(beside.join("descriptors"))?.trim().parse()?;
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })?;
    Err(Command::new(beside.join("supervisor")).args(std::env::args_os().skip(1)).exec().into())
}
