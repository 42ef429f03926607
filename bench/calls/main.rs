//! The cost of calls inside one process.
//!
//! `--figures` prints the samples from which `cargo xtask bench` makes its table. It needs the
//! layout of that command in `target/bench`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark: it prints, and spawns what it compares with"
)]

mod bare;
mod figures;
mod rig;
#[path = "../../xtask/src/bench/sampling.rs"]
mod sampling;
mod size;

use std::process::ExitCode;

use crate::rig::Rig;

fn main() -> ExitCode {
    let asked = std::env::args().nth(1);
    match asked.as_deref() {
        Some("--figures") => finish(Rig::find().and_then(|rig| figures::print(&rig))),
        Some("--idle") => finish(Rig::find().and_then(|rig| size::print_idle(&rig))),
        Some("--nothing") => finish(size::print_nothing()),
        // `cargo test --all-targets` runs this program to see that it starts.
        _ => ExitCode::SUCCESS,
    }
}

fn finish(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
