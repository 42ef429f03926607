//! The figures that `cargo xtask bench` cannot take from outside a process.
//!
//! The program prints one JSON object: the samples of each figure by the measured thing. They are
//! in microseconds, unless the name of the figure or of the thing says otherwise.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use ikigai_host::Digest;
use ikigai_host::exec::native::NativeProgram;
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::wasm::cache::ComponentCache;
use ikigai_host::exec::wasm::compiler::Compiler;
use ikigai_host::exec::wasm::{Runtime, Tier};
use ikigai_host::exec::{Executor as _, Exit};
use ikigai_host::limits::CallLimits;
use ikigai_host::policy::Sandbox;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use tokio_util::sync::CancellationToken;

use crate::bare::{Bare, With};
use crate::rig::{self, Rig, SMALL_FILE, Served};
use crate::samples::{Samples, in_turn, of_each};
use crate::{assets, searches, shipping, size, watched};

/// The calls of each kind in one sample: a component's take a fraction of a process's.
const CALLS: u32 = 40;
const SPAWNS: u32 = 4;

type Figures = BTreeMap<String, Samples>;

pub(crate) fn print(rig: &Rig) -> anyhow::Result<()> {
    let mut figures = Figures::new();
    // This figure comes first, because resident memory is seen best in a process that has done
    // little.
    announce("calls in flight");
    figures.insert("in_flight_bytes".into(), in_flight(rig)?);
    announce("calls");
    calls(rig, &mut figures)?;
    figures.insert("call_pinned".into(), on_one_processor(|| call_of_one(rig))?);
    figures.insert("limits".into(), physical_limits(rig)?);
    figures.insert("limits_pinned".into(), on_one_processor(|| physical_limits(rig))?);
    figures.insert("limits_search".into(), limits_in_a_search(rig)?);
    announce("throughput");
    figures.insert("throughput".into(), throughput(rig)?);
    figures.insert("call_busy".into(), under_load(rig)?);
    announce("native calls");
    native(rig, &mut figures)?;
    figures.insert("watched".into(), watched::search(rig)?);
    announce("the shell");
    figures.insert("shell".into(), shell(rig)?);
    announce("assets");
    let [asset, list, write, sessions] = assets::measure(rig)?;
    figures.insert("asset".into(), asset);
    figures.insert("assets_list".into(), list);
    figures.insert("assets_write".into(), write);
    figures.insert("sessions_list".into(), sessions);
    announce("compiling and loading");
    loading(rig, &mut figures)?;
    announce("signatures");
    figures.insert("sigstore".into(), shipping::bundle(rig)?);
    figures.insert("signed_check".into(), on_one_processor(|| shipping::required(rig))?);
    announce("large arguments");
    large(rig, &mut figures)?;
    announce("fuel");
    figures.insert("fuel_per_second".into(), on_one_processor(|| fuel(rig))?);
    figures.insert("idle_bytes".into(), size::idle_peak()?);
    announce("small files");
    let [walk, read] = searches::small_files(rig)?;
    figures.insert("walk".into(), walk);
    figures.insert("read".into(), read);
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

/// Measures one warm call of a small tool, on every layer of the host, and the same natively.
fn calls(rig: &Rig, figures: &mut Figures) -> anyhow::Result<()> {
    let tree = rig.small_tree();
    let runtime = rig::runtime()?;
    let mut served = Served::new(rig.host(&tree).build()?)?;
    let host = rig.host(&tree).build()?;
    let snapshot = runtime.block_on(host.refresh());
    let read = Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#));
    let text = Bytes::from_static(br#"{"text":"what all of this costs without a tool"}"#);
    for (figure, tool, component, native, input) in [
        ("call_read", Some("file_read"), rig.tool("file-read.wasm"), rig.tool("file-read"), read),
        ("call_echo", None, rig.guest("guest.wasm"), rig.guest("guest"), text),
    ] {
        let bytes = rig::read(&component)?;
        let (bare, limited) =
            (Bare::new(&bytes, With::NoLimits)?, Bare::new(&bytes, With::Limits)?);
        let program = rig.compile(&component, rig::GUESTS)?;
        let mut bare = || runtime.block_on(bare.call(&tree, &input)).map(drop);
        let mut limited = || runtime.block_on(limited.call(&tree, &input)).map(drop);
        let mut executor =
            || runtime.block_on(rig::run(&program, rig::call(&tree, &[], &input))).map(drop);
        let mut spawn = || rig::spawn(&native, &tree, &input).map(drop);
        let mut whole = || match tool {
            Some(tool) => served.call(1, CALLS, tool, &input),
            None => Ok(()),
        };
        let mut apart = || {
            let Some(tool) = tool else { return Ok(()) };
            let call = host.call(&snapshot, tool, input.clone(), CancellationToken::new());
            let envelope = runtime.block_on(call);
            ensure!(envelope.is_success(), "`{tool}` failed: {envelope:?}");
            Ok(())
        };
        let mut static_spawn = || rig::spawn(&rig.guest("file-read-musl"), &tree, &input).map(drop);
        let mut subjects: Vec<crate::samples::Subject<'_>> = vec![
            ("bare", CALLS, &mut bare),
            ("limited", CALLS, &mut limited),
            ("executor", CALLS, &mut executor),
            ("spawn", SPAWNS, &mut spawn),
        ];
        if tool.is_some() {
            subjects.push(("host", 1, &mut whole));
            subjects.push(("apart", CALLS, &mut apart));
            if rig.guest("file-read-musl").exists() {
                subjects.push(("musl", SPAWNS, &mut static_spawn));
            }
        }
        let mut samples = in_turn(rig.rounds(5), &mut subjects)?;
        of_each(&mut samples, "host", CALLS);
        figures.insert(figure.to_owned(), samples);
    }
    Ok(())
}

/// Measures a call through the host, and the same call in wasmtime without the host.
fn call_of_one(rig: &Rig) -> anyhow::Result<Samples> {
    let tree = rig.small_tree();
    let runtime = rig::runtime()?;
    let mut served = Served::new(rig.host(&tree).build()?)?;
    let input = Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#));
    let limited = Bare::new(&rig::read(&rig.tool("file-read.wasm"))?, With::Limits)?;
    let mut samples = in_turn(
        rig.rounds(5),
        &mut [
            ("limited", CALLS, &mut || runtime.block_on(limited.call(&tree, &input)).map(drop)),
            ("host", 1, &mut || served.call(1, CALLS, "file_read", &input)),
        ],
    )?;
    of_each(&mut samples, "host", CALLS);
    Ok(samples)
}

/// Does something with this thread, and those that it starts, on the processor that it is on.
fn on_one_processor<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    done
}

/// Measures lower bounds that apply to every host. The subjects are a process that does nothing, an
/// instance that does nothing under all limits, a byte that goes to a thread and comes back, and a
/// byte for which no thread waits.
///
/// A bound that applies to a single figure is measured with that figure. Its name is `limit`, or
/// the name of the thing followed by ` limit`.
fn physical_limits(rig: &Rig) -> anyhow::Result<Samples> {
    /// A command that ends at once.
    const NOTHING: &str = r#"(component
        (core module $module (func (export "run") (result i32) (i32.const 0)))
        (core instance $core (instantiate $module))
        (func $run (result (result)) (canon lift (core func $core "run")))
        (instance $command (export "run" (func $run)))
        (export "wasi:cli/run@0.2.0" (instance $command)))"#;

    let (tree, runtime) = (rig.small_tree(), rig::runtime()?);
    let nothing = Bare::new(&wat::parse_str(NOTHING)?, With::Limits)?;
    let (mut there_end, mut there) = std::io::pipe()?;
    let (mut back, mut back_end) = std::io::pipe()?;
    let echo = std::thread::spawn(move || std::io::copy(&mut there_end, &mut back_end));
    let (mut own_end, mut own) = std::io::pipe()?;
    let samples = in_turn(
        rig.rounds(5),
        &mut [
            ("spawn", SPAWNS, &mut || rig::spawn("/bin/true".as_ref(), &tree, b"").map(drop)),
            ("instance", CALLS, &mut || {
                runtime.block_on(nothing.call(&tree, &Bytes::new())).map(drop)
            }),
            ("pipe", CALLS, &mut || {
                there.write_all(b"1")?;
                Ok(back.read_exact(&mut [0])?)
            }),
            ("no wait", CALLS, &mut || {
                // One round for the way there, one for the way back.
                (0..2).try_for_each(|_| {
                    own.write_all(b"1")?;
                    Ok(own_end.read_exact(&mut [0])?)
                })
            }),
        ],
    );
    drop(there);
    echo.join().map_err(|_| anyhow::Error::msg("the echo panicked"))??;
    samples
}

/// Measures the cost of fuel and epochs for code that computes: a search through small files.
fn limits_in_a_search(rig: &Rig) -> anyhow::Result<Samples> {
    let tree = rig.small_tree();
    let runtime = rig::runtime()?;
    let bytes = rig::read(&rig.tool("grep.wasm"))?;
    let (bare, limited) = (Bare::new(&bytes, With::NoLimits)?, Bare::new(&bytes, With::Limits)?);
    let input = Bytes::from(searches::grep("[a-z]+_nowhere"));
    in_turn(
        rig.rounds(50),
        &mut [
            ("bare", 1, &mut || runtime.block_on(bare.call(&tree, &input)).map(drop)),
            ("limited", 1, &mut || runtime.block_on(limited.call(&tree, &input)).map(drop)),
        ],
    )
}

/// Measures calls and spawns by two concurrent callers, and calls by one, in microseconds per call.
/// Also measures the component without the host, in one thread and in two, where each thread has
/// its own engine.
fn throughput(rig: &Rig) -> anyhow::Result<Samples> {
    // Some 30 ms per sample. An interruption that takes the processors away for the length of ten
    // samples then affects few of them.
    const EACH: u32 = 5 * CALLS;
    const EACH_SPAWNS: u32 = 2 * SPAWNS;
    let tree = rig.small_tree();
    let input = Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#));
    let served = RefCell::new(Served::new(rig.host(&tree).build()?)?);
    let call = |callers| served.borrow_mut().call(callers, EACH, "file_read", &input);
    let native = rig.tool("file-read");
    let spawns = || (0..EACH_SPAWNS).try_for_each(|_| rig::spawn(&native, &tree, &input).map(drop));
    let bytes = rig::read(&rig.tool("file-read.wasm"))?;
    let engines = [Bare::new(&bytes, With::Limits)?, Bare::new(&bytes, With::Limits)?];
    let by_itself = |component: &Bare| {
        let runtime = rig::runtime()?;
        let mut calls = 0..EACH;
        calls.try_for_each(|_| runtime.block_on(component.call(&tree, &input)).map(drop))
    };
    let [first, second] = engines.each_ref().map(|engine| move || by_itself(engine));
    let mut samples = in_turn(
        3 * rig.rounds(50),
        &mut [
            ("one", 1, &mut || call(1)),
            ("host", 1, &mut || call(2)),
            ("spawn", 1, &mut || at_once([&spawns, &spawns])),
            ("one limit", 1, &mut || at_once([&first])),
            ("host limit", 1, &mut || at_once([&first, &second])),
        ],
    )?;
    for (subject, calls) in [
        ("one", EACH),
        ("host", 2 * EACH),
        ("spawn", 2 * EACH_SPAWNS),
        ("one limit", EACH),
        ("host limit", 2 * EACH),
    ] {
        of_each(&mut samples, subject, calls);
    }
    Ok(samples)
}

/// Runs each caller in a thread.
fn at_once<const N: usize>(
    callers: [&(dyn Fn() -> anyhow::Result<()> + Sync); N],
) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let callers = callers.map(|caller| scope.spawn(caller));
        callers.into_iter().try_for_each(|caller| {
            caller.join().map_err(|_| anyhow::Error::msg("a caller panicked"))?
        })
    })
}

/// Measures one of many calls in flight, in microseconds per call.
fn under_load(rig: &Rig) -> anyhow::Result<Samples> {
    const IN_FLIGHT: u32 = 16;
    let tree = rig.small_tree();
    let input = Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#));
    let mut served = Served::new(rig.host(&tree).build()?)?;
    let mut busy = || served.call(IN_FLIGHT, CALLS, "file_read", &input);
    let mut samples = in_turn(rig.rounds(50), &mut [("host", 1, &mut busy)])?;
    of_each(&mut samples, "host", IN_FLIGHT * CALLS);
    Ok(samples)
}

/// Measures the memory of each of many sleeping guests.
fn in_flight(rig: &Rig) -> anyhow::Result<Samples> {
    const MANY: u32 = 1000;
    let limit = size::of_threads(MANY)?;
    let program = rig.compile(&rig.guest("guest.wasm"), MANY + 8)?;
    let tree = rig.small_tree();
    let text = Bytes::from_static(b"{}");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        rig::run(&program, rig::call(&tree, &[], &text)).await?;
        let before = size::resident()?;
        let cancel = CancellationToken::new();
        let calls: Vec<_> = (0..MANY)
            .map(|_| {
                let mut call = rig::call(&tree, &["sleep"], &text);
                call.cancel = cancel.clone();
                tokio::spawn(program.run(call))
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        ensure!(threads >= MANY as usize, "only {threads} guests run at once");
        let more = size::resident()?.saturating_sub(before);
        cancel.cancel();
        for call in calls {
            call.await?;
        }
        let each = more as f64 / f64::from(MANY);
        Ok([("each".to_owned(), vec![each]), ("limit".to_owned(), vec![limit])].into())
    })
}

/// Measures a native call through the host and its supervisor, without a sandbox and in one. Each
/// is measured with supervisors in reserve and compared with a plain spawn. Then measures the same
/// from a host with a large memory.
fn native(rig: &Rig, figures: &mut Figures) -> anyhow::Result<()> {
    const LARGE: usize = 512 << 20;
    let tree = rig.small_tree();
    let input = Bytes::from(format!(r#"{{"file_path":"{SMALL_FILE}"}}"#));
    let runtime = rig::runtime()?;
    let path = rig.tool("file-read");
    let program = NativeProgram::new(path.clone(), rig.supervisor(0));
    let ready = NativeProgram::new(path.clone(), rig.supervisor(2));
    let run = |program: &NativeProgram, sandbox| {
        let mut call = rig::call(&tree, &[], &input);
        Arc::make_mut(&mut call.grant).sandbox = sandbox;
        let outcome = runtime.block_on(program.run(call));
        ensure!(outcome.exit == Exit::Code(0), "a native call failed: {outcome:?}");
        Ok(())
    };
    let measure = || {
        in_turn(
            rig.rounds(5),
            &mut [
                ("host", SPAWNS, &mut || run(&program, Sandbox::Off)),
                ("sandbox", SPAWNS, &mut || run(&program, Sandbox::Require)),
                ("ready", SPAWNS, &mut || run(&ready, Sandbox::Require)),
                ("ready, free", SPAWNS, &mut || run(&ready, Sandbox::Off)),
                ("spawn", SPAWNS, &mut || rig::spawn(&path, &tree, &input).map(drop)),
            ],
        )
    };
    figures.insert("native".into(), measure()?);
    let ballast = vec![1_u8; LARGE];
    figures.insert("native_large_host".into(), measure()?);
    drop(std::hint::black_box(ballast));
    Ok(())
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
            ("component", CALLS, &mut || {
                runtime.block_on(rig::run(&program, rig::call(&tree, &[], &input))).map(drop)
            }),
            ("spawn", SPAWNS, &mut || rig::spawn(&native, &tree, &input).map(drop)),
        ],
    )
}

/// Measures the first compilation, the loading of compiled code, and the part of the loading that
/// checks that the file is unchanged.
fn loading(rig: &Rig, figures: &mut Figures) -> anyhow::Result<()> {
    let bytes = rig::read(&rig.tool("file-read.wasm"))?;
    let digest = Digest::from_bytes(&bytes);
    let runtime = Runtime::new(16, u64::MAX).map_err(anyhow::Error::msg)?;
    let nowhere = ComponentCache::default();
    let compiler = Compiler::new(Some(rig.host_program()));
    let mut compile = || {
        let source = std::fs::File::open(rig.tool("file-read.wasm"))?;
        let cancel = CancellationToken::new();
        let tier = Tier::Optimised;
        Ok(runtime.compile(&compiler, source, &digest, tier, &nowhere, &cancel).map(drop)?)
    };
    figures.insert("compile".into(), in_turn(rig.rounds(100), &mut [("small", 1, &mut compile)])?);

    let kept = rig.tool(".cache");
    let cache = ComponentCache::open(Some(&kept), None);
    let prefix = format!("{digest}.");
    let file = compiled(&kept)?
        .into_iter()
        .find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        })
        .context("the installation has no compiled `file-read.wasm`")?;
    let mut load = || {
        let loaded = runtime.load_compiled(&digest, &cache);
        ensure!(loaded.is_some(), "the compiled component was not taken");
        Ok(())
    };
    let mut check = || {
        std::hint::black_box(blake3::hash(&rig::read(&file)?));
        Ok(())
    };
    let mut read = || {
        std::hint::black_box(rig::read(&file)?);
        Ok(())
    };
    let samples = in_turn(
        rig.rounds(5),
        &mut [("load", 10, &mut load), ("check", 10, &mut check), ("limit", 10, &mut read)],
    )?;
    figures.insert("load".into(), samples);
    Ok(())
}

/// Returns the compiled components in a cache.
fn compiled(cache: &std::path::Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for engine in std::fs::read_dir(cache.join("components"))? {
        for entry in std::fs::read_dir(engine?.path())? {
            found.push(entry?.path());
        }
    }
    Ok(found)
}

/// Measures 50 MB of JSON in and out: through the whole host, which collects the answer, and from
/// stream to stream.
fn large(rig: &Rig, figures: &mut Figures) -> anyhow::Result<()> {
    const LENGTH: usize = 50 << 20;
    let limits = CallLimits { output: 2 * LENGTH as u64, ..CallLimits::default() };
    let text = Bytes::from(format!(r#"{{"text":"{}"}}"#, "x".repeat(LENGTH)));
    let runtime = rig::runtime()?;
    let host = rig.host(&rig.small_tree()).output(limits.output).build()?;
    let program = rig.compile(&rig.guest("guest.wasm"), 4)?;
    let snapshot = runtime.block_on(host.refresh());
    let name = "bench_tool_0000";
    ensure!(snapshot.get(name).is_some(), "the host does not find `{name}`");
    let mut whole = || {
        let call = host.call(&snapshot, name, text.clone(), CancellationToken::new());
        ensure!(runtime.block_on(call).is_success(), "the large call failed");
        Ok(())
    };
    let mut streamed = || {
        let mut call = rig::call(&rig.small_tree(), &["stream"], &text);
        call.stdout = Sink::Forward(Arc::new(Mutex::new(std::io::sink())));
        call.limits = limits;
        runtime.block_on(rig::run(&program, call)).map(drop)
    };
    // The limit is the size of the answer, which the caller keeps in memory.
    let mut growth = Samples::from([("limit".to_owned(), vec![LENGTH as f64])]);
    for (name, subject) in [
        ("host", &mut whole as &mut dyn FnMut() -> anyhow::Result<()>),
        ("streamed", &mut streamed),
    ] {
        let before = size::resident()?;
        size::forget_peak()?;
        subject()?;
        let grown = size::peak()?.saturating_sub(before) as f64;
        growth.insert(name.to_owned(), vec![grown]);
    }
    figures.insert("large_bytes".into(), growth);
    let mut piece = vec![0; 64 << 10];
    let mut copied = || {
        // One pass reads the text in, the other writes it out.
        for part in text.chunks(piece.len()).chain(text.chunks(piece.len())) {
            piece[..part.len()].copy_from_slice(part);
            std::hint::black_box(&mut piece);
        }
        Ok(())
    };
    let subjects: &mut [crate::samples::Subject<'_>] =
        &mut [("host", 1, &mut whole), ("streamed", 1, &mut streamed), ("limit", 1, &mut copied)];
    figures.insert("large".into(), in_turn(rig.rounds(100), subjects)?);
    Ok(())
}

/// Measures the fuel that a core burns per second in a loop of arithmetic, in ordinary code and in
/// a search. Also measures the fuel that it would burn per second at the speed of the native
/// builds.
fn fuel(rig: &Rig) -> anyhow::Result<Samples> {
    let runtime = rig::runtime()?;
    let guest = rig.compile(&rig.guest("guest.wasm"), 4)?;
    let grep = rig.compile(&rig.tool("grep.wasm"), 4)?;
    let (small, corpus) = (rig.small_tree(), rig.corpus());
    let nothing = Bytes::new();
    let search = Bytes::from(searches::grep("[a-z]+_nowhere"));
    let (native_guest, native_grep) = (rig.guest("guest"), rig.tool("grep"));
    let mut samples = Samples::new();
    for _ in 0..rig.rounds(200) {
        for (name, program, native, args, tree, input) in [
            ("loop", &guest, &native_guest, &["spin", "300000000"][..], &small, &nothing),
            ("ordinary", &guest, &native_guest, &["work", "6000"], &small, &nothing),
            ("search", &grep, &native_grep, &[], &corpus, &search),
        ] {
            let started = Instant::now();
            let outcome = runtime.block_on(rig::run(program, rig::call(tree, args, input)))?;
            let burnt = outcome.usage.fuel.context("no fuel was counted")? as f64;
            let rate = burnt / started.elapsed().as_secs_f64();
            samples.entry(name.to_owned()).or_default().push(rate);
            let started = Instant::now();
            let answer = rig::spawn_with(args, native, tree, input)?;
            let elapsed = started.elapsed();
            ensure!(answer == outcome.stdout.bytes, "`{name}` answers otherwise as a component");
            let rate = burnt / elapsed.as_secs_f64();
            samples.entry(format!("{name} limit")).or_default().push(rate);
        }
    }
    Ok(samples)
}
