//! Runs a component or a core module with a directory as its `/`: `wasi-root DIR FILE [ARGS]`.
//!
//! Some cases of wasi-testsuite look for a preopen with the name `/`, and `cargo xtask fidelity` runs
//! them with this program. ikigai preopens a directory under its own path, and no policy lets a tool
//! write to `/`. So this program makes the directory its root, and calls the library without a
//! policy. It needs the right to change its root, and `DIR/proc` must be a mounted procfs.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::chroot;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::exec::wasm::Runtime;
use ikigai_host::exec::{Call, Executor as _, Exit, Stdin};
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::Grant;
use ikigai_protocol::{Access, GrantedDir};

/// The memory of all guests together, of which there is one.
const MEMORY: u64 = 1 << 30;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let (Some(root), Some(file)) = (args.next(), args.next()) else {
        return Err("usage: wasi-root DIR FILE [ARGS]".into());
    };
    let runtime = Runtime::new(1, MEMORY)?;
    let program = runtime.compile_here(&fs::read(file)?)?;
    chroot(root)?;
    env::set_current_dir("/")?;

    let root = Path::new("/");
    let access = Access::ReadWrite;
    let grant = Grant { dirs: vec![GrantedDir { access, path: root.into() }], ..Grant::default() };
    let call = Call {
        args: args.collect::<Vec<OsString>>(),
        stdin: Stdin::Inherit,
        grant: Arc::new(grant),
        limits: CallLimits { wall_clock: Duration::from_secs(20), ..CallLimits::default() },
        ..Call::new(root)
    };
    let driver = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = driver.block_on(program.run(call));
    io::stdout().write_all(&outcome.stdout.bytes)?;
    io::stderr().write_all(&outcome.stderr.bytes)?;
    match outcome.exit {
        Exit::Code(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        other => Err(format!("ended with {other:?}").into()),
    }
}
