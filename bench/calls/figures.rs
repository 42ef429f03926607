//! The figures that `cargo xtask bench` cannot take from outside a process.
//!
//! The program prints one JSON object: the samples of each figure by the measured thing, in
//! microseconds unless the figure's name says otherwise.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use anyhow::ensure;
use bytes::Bytes;
use ikigai_host::Digest;
use ikigai_host::exec::native::NativeProgram;
use ikigai_host::exec::wasm::cache::ComponentCache;
use ikigai_host::exec::wasm::compiler::Compiler;
use ikigai_host::exec::wasm::{Runtime, Tier};
use ikigai_host::exec::{Executor as _, Exit};
use ikigai_host::policy::Sandbox;
use tokio_util::sync::CancellationToken;

use crate::bare::Bare;
use crate::rig::{self, Rig, SMALL_FILE, Served, micros_of_each};
use crate::sampling::{Samples, in_turn, micros};
use crate::{assets, searches, size};

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
    announce("the shell");
    figures.insert("shell".into(), shell(rig)?);
    announce("assets");
    let [asset, write] = assets::measure(rig)?;
    figures.insert("asset".into(), asset);
    figures.insert("assets_write".into(), write);
    announce("compiling and loading");
    figures.insert("compile".into(), compiling(rig)?);
    figures.insert("idle_bytes".into(), size::idle_peak()?);
    announce("small files");
    figures.insert("walk".into(), searches::walk(rig)?);
    announce("searches");
    for (name, samples) in searches::patterns(rig)? {
        figures.insert(format!("grep_wasm {name}"), samples);
    }
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
        rig.rounds(5),
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
        rig.rounds(5),
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
        rig.rounds(5),
        &mut [
            ("sandbox", &mut || micros_of_each(SPAWNS, || run(&program))),
            ("ready", &mut || micros_of_each(SPAWNS, || run(&ready))),
            ("spawn", &mut || {
                micros_of_each(SPAWNS, || rig::spawn(&path, &tree, &input).map(drop))
            }),
        ],
    )
}

/// Measures one warm call of the shell that is a component, and of the machine's own shell.
fn shell(rig: &Rig) -> anyhow::Result<Samples> {
    let tree = rig.small_tree();
    let runtime = rig::runtime()?;
    let input = Bytes::from_static(br#"{"command":"echo hi"}"#);
    let program = rig.compile(&rig.tool("bash.wasm"), rig::GUESTS)?;
    let native = rig.tool("bash");
    in_turn(
        rig.rounds(5),
        &mut [
            ("component", &mut || {
                micros_of_each(CALLS, || {
                    runtime.block_on(rig::run(&program, rig::call(&tree, &input))).map(drop)
                })
            }),
            ("spawn", &mut || {
                micros_of_each(SPAWNS, || rig::spawn(&native, &tree, &input).map(drop))
            }),
        ],
    )
}

/// Measures the first compilation of a component, and the loading of compiled code.
fn compiling(rig: &Rig) -> anyhow::Result<Samples> {
    let path = rig.tool("file-read.wasm");
    let digest = Digest::from_bytes(&rig::read(&path)?);
    let runtime = Runtime::new(16, u64::MAX).map_err(anyhow::Error::msg)?;
    let nowhere = ComponentCache::default();
    let compiler = Compiler::new(Some(rig.host_program()));
    let compile = || {
        let source = File::open(&path)?;
        let cancel = CancellationToken::new();
        let tier = Tier::Optimised;
        Ok(runtime.compile(&compiler, source, &digest, tier, &nowhere, &cancel).map(drop)?)
    };
    let cache = ComponentCache::open(Some(&rig.tool(".cache")), None);
    let mut load = || {
        let loaded = runtime.load_compiled(&digest, &cache);
        ensure!(loaded.is_some(), "the compiled component was not taken");
        Ok(())
    };
    in_turn(
        rig.rounds(100),
        &mut [
            ("small", &mut || micros(1, compile)),
            ("load", &mut || micros_of_each(10, &mut load)),
        ],
    )
}
