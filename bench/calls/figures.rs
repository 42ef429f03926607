//! The figures that `cargo xtask bench` cannot take from outside a process.
//!
//! The program prints one JSON object: the samples of each figure by the measured thing, in
//! microseconds unless the figure's name says otherwise.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use anyhow::ensure;
use bytes::Bytes;
use ikigai_host::exec::native::NativeProgram;
use ikigai_host::exec::{Executor as _, Exit};
use ikigai_host::policy::Sandbox;

use crate::bare::Bare;
use crate::rig::{self, Rig, SMALL_FILE, Served, micros_of_each};
use crate::sampling::{Samples, in_turn, micros};
use crate::size;

/// The calls of each kind in one sample: a component's take a fraction of a process's.
const CALLS: u32 = 40;
const SPAWNS: u32 = 4;

type Figures = BTreeMap<String, Samples>;

pub(crate) fn print(rig: &Rig) -> anyhow::Result<()> {
    let mut figures = Figures::new();
    announce("calls");
    figures.insert("call_read".into(), calls(rig)?);
    figures.insert("limits".into(), physical_limits(rig)?);
    announce("native calls");
    figures.insert("native".into(), native(rig)?);
    announce("an idle host");
    figures.insert("idle_bytes".into(), size::idle_peak()?);
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn announce(what: &str) {
    eprintln!("    {what}");
}

/// Returns the arguments of a small call of `file_read`.
fn small_read() -> Bytes {
    Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#))
}

/// Measures one warm call of a small tool by the host, and the same natively.
fn calls(rig: &Rig) -> anyhow::Result<Samples> {
    let (tree, input) = (rig.small_tree(), small_read());
    let native = rig.tool("file-read");
    let mut served = Served::new(rig.host(&tree).build()?)?;
    in_turn(
        rig.rounds(),
        &mut [
            ("host", &mut || micros(CALLS, || served.call(CALLS, "file_read", &input))),
            ("spawn", &mut || {
                micros_of_each(SPAWNS, || rig::spawn(&native, &tree, &input).map(drop))
            }),
        ],
    )
}

/// Measures the limits of this machine, which no host can beat. They are a process that does
/// nothing, an instance that does nothing under all limits, and a byte that a thread sends back.
fn physical_limits(rig: &Rig) -> anyhow::Result<Samples> {
    /// A command that ends at once.
    const NOTHING: &str = r#"(component
        (core module $module (func (export "run") (result i32) (i32.const 0)))
        (core instance $core (instantiate $module))
        (func $run (result (result)) (canon lift (core func $core "run")))
        (instance $command (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $command)))"#;

    let (tree, runtime) = (rig.small_tree(), rig::runtime()?);
    let nothing = Bare::new(&wat::parse_str(NOTHING)?)?;
    let (mut there_end, mut there) = std::io::pipe()?;
    let (mut back, mut back_end) = std::io::pipe()?;
    let echo = std::thread::spawn(move || std::io::copy(&mut there_end, &mut back_end));
    let samples = in_turn(
        rig.rounds(),
        &mut [
            ("spawn", &mut || {
                micros_of_each(SPAWNS, || rig::spawn("/bin/true".as_ref(), &tree, b"").map(drop))
            }),
            ("instance", &mut || micros_of_each(CALLS, || runtime.block_on(nothing.call(&tree)))),
            ("pipe", &mut || {
                micros_of_each(CALLS, || {
                    there.write_all(b"1")?;
                    Ok(back.read_exact(&mut [0])?)
                })
            }),
        ],
    );
    drop(there);
    echo.join().map_err(|_| anyhow::Error::msg("the echo panicked"))??;
    samples
}

/// Measures a native call in the sandbox through the host and its supervisor, with supervisors in
/// reserve as well, and a plain spawn.
fn native(rig: &Rig) -> anyhow::Result<Samples> {
    let (tree, input) = (rig.small_tree(), small_read());
    let runtime = rig::runtime()?;
    let path = rig.tool("file-read");
    let program = NativeProgram::new(path.clone(), rig.supervisor(0));
    let ready = NativeProgram::new(path.clone(), rig.supervisor(2));
    let run = |program: &NativeProgram| {
        let mut call = rig::call(&tree, &input);
        Arc::make_mut(&mut call.grant).sandbox = Sandbox::Require;
        let outcome = runtime.block_on(program.run(call));
        ensure!(outcome.exit == Exit::Code(0), "a native call failed: {outcome:?}");
        Ok(())
    };
    in_turn(
        rig.rounds(),
        &mut [
            ("sandbox", &mut || micros_of_each(SPAWNS, || run(&program))),
            ("ready", &mut || micros_of_each(SPAWNS, || run(&ready))),
            ("spawn", &mut || {
                micros_of_each(SPAWNS, || rig::spawn(&path, &tree, &input).map(drop))
            }),
        ],
    )
}
