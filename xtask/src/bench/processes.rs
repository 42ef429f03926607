//! The figures of whole processes: the command line against a tool run by itself, `grep` against
//! ripgrep, and the first answer of a large component.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::corpus::PATTERNS;
use super::machine::cores;
use super::samples::Figures;
use super::sampling::{Samples, in_turn, micros};
use super::{BenchLayout, text};
use crate::run::note;

/// Adds the figures of whole processes.
pub(crate) fn measure(
    layout: &BenchLayout,
    quick: bool,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let rounds = |full: usize| if quick { full.div_ceil(4) } else { full };
    figures.insert("command".into(), command_line(layout, rounds(60))?);
    figures.insert("list".into(), start_and_list(layout, rounds(60))?);
    if let Some(rg) = layout.ripgrep() {
        let files = files_below(&layout.at("corpus"))?;
        for (name, pattern) in PATTERNS {
            let samples = ripgrep(layout, &rg, (pattern, &files), rounds(12))?;
            figures.insert(format!("grep_rg {name}"), samples);
        }
    } else {
        note("ripgrep could not be installed from PyPI, and is not compared with");
    }
    match layout.python() {
        Some(component) => {
            figures.insert("python".into(), first_answer(layout, &component, rounds(3))?);
        }
        None => note("the Python component is not built; `cargo xtask test` builds it"),
    }
    Ok(())
}

/// Measures `ikigai tool call` with everything cached, and the native tool by itself.
fn command_line(layout: &BenchLayout, rounds: usize) -> anyhow::Result<Samples> {
    let tree = layout.at("small");
    let arguments = r#"{"file_path":"d000/f0000.rs"}"#;
    let mut call = host(layout);
    call.current_dir(&tree).args(["tool", "call", "file_read", arguments]);
    let mut native_call = host(layout);
    native_call.current_dir(&tree).args(["--backend", "native"]);
    native_call.args(["tool", "call", "file_read", arguments]);
    let mut tool = Command::new(layout.tools().join("file-read"));
    tool.current_dir(&tree).env("IKIGAI_DIRS", format!("ro:{}", text(&tree)));
    in_turn(
        rounds,
        &mut [
            ("call", &mut || timed(&mut call, b"")),
            ("native call", &mut || timed(&mut native_call, b"")),
            ("tool", &mut || timed(&mut tool, arguments.as_bytes())),
        ],
    )
}

/// Measures a listing of the installed tools, of which nothing has changed, and a start of the
/// program that does nothing.
fn start_and_list(layout: &BenchLayout, rounds: usize) -> anyhow::Result<Samples> {
    let (mut list, mut version) = (host(layout), host(layout));
    list.current_dir(layout.at("small")).args(["tool", "list"]);
    version.current_dir(layout.at("small")).arg("--version");
    in_turn(
        rounds,
        &mut [
            ("list", &mut || timed(&mut list, b"")),
            ("version", &mut || timed(&mut version, b"")),
        ],
    )
}

/// Measures the native `grep` and ripgrep, with the same threads over the same files; and the reading
/// of these files, by as many threads, which no search of them can do without.
fn ripgrep(
    layout: &BenchLayout,
    rg: &Path,
    (pattern, files): (&str, &[PathBuf]),
    rounds: usize,
) -> anyhow::Result<Samples> {
    let corpus = layout.at("corpus");
    let arguments = format!(r#"{{"pattern":"{pattern}","path":".","glob":"**/*"}}"#);
    let mut ours = Command::new(layout.tools().join("grep"));
    ours.current_dir(&corpus).env("IKIGAI_DIRS", format!("ro:{}", text(&corpus)));
    let mut theirs = Command::new(rg);
    // The behaviour of `grep`: no ignore files, binary files as text, numbered lines.
    theirs.current_dir(&corpus).args(["--no-config", "--no-ignore", "--text", "--line-number"]);
    theirs.args(["--no-heading", "--color=never", "--threads", &cores().to_string()]);
    theirs.args(["--regexp", pattern, "."]);
    let answer: Value = serde_json::from_slice(&finish(&mut ours, arguments.as_bytes())?)?;
    let lines = finish(&mut theirs, b"")?.iter().filter(|byte| **byte == b'\n').count();
    ensure!(
        answer["count"].as_u64() == Some(lines as u64),
        "`{pattern}`: grep finds {}, ripgrep {lines}",
        answer["count"]
    );
    in_turn(
        rounds,
        &mut [
            ("grep", &mut || timed(&mut ours, arguments.as_bytes())),
            ("rg", &mut || timed(&mut theirs, b"")),
            ("limit", &mut || micros(1, || read_all(files))),
        ],
    )
}

/// Reads files with a thread for each processor.
fn read_all(files: &[PathBuf]) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let part = files.len().div_ceil(cores()).max(1);
        let read = |part: &[PathBuf]| {
            let mut buffer = vec![0; 64 << 10];
            part.iter().try_for_each(|path| {
                let mut file = fs::File::open(path)?;
                while file.read(&mut buffer)? > 0 {}
                Ok(())
            })
        };
        let threads: Vec<_> =
            files.chunks(part).map(|part| scope.spawn(move || read(part))).collect();
        threads.into_iter().try_for_each(|thread| {
            let read: std::io::Result<()> =
                thread.join().map_err(|_| anyhow::Error::msg("a reader panicked"))?;
            Ok(read?)
        })
    })
}

/// Returns the files below a directory.
fn files_below(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => files.extend(files_below(&entry.path())?),
            false => files.push(entry.path()),
        }
    }
    Ok(files)
}

/// Measures the first schema of a large component that was never compiled here, and the wait after
/// that until optimised code has replaced the code that answered.
fn first_answer(layout: &BenchLayout, component: &Path, rounds: usize) -> anyhow::Result<Samples> {
    let cache = layout.at("empty-cache");
    let ask = || {
        if cache.exists() {
            fs::remove_dir_all(&cache)?;
        }
        let mut command = host(layout);
        command.env("XDG_CACHE_HOME", &cache).args(["tool", "run"]);
        finish(command.arg(component).arg("--schema"), b"").map(drop)
    };
    let wait = || {
        let begun = Instant::now();
        let first = compiled(&cache)?;
        ensure!(!first.is_empty(), "the code of `{}` is not kept", component.display());
        while first.iter().any(|code| code.exists()) {
            ensure!(begun.elapsed() < LONGEST_COMPILATION, "there is no optimised code");
            std::thread::sleep(Duration::from_millis(20));
        }
        ensure!(!compiled(&cache)?.is_empty(), "nothing has replaced the first code");
        Ok(())
    };
    in_turn(
        rounds,
        &mut [("first", &mut || micros(1, ask)), ("optimised", &mut || micros(1, wait))],
    )
}

/// The time in which the largest component of the benchmark is surely compiled.
const LONGEST_COMPILATION: Duration = Duration::from_secs(300);

/// Returns the files of compiled code in a cache.
fn compiled(cache: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut code = Vec::new();
    for engine in fs::read_dir(cache.join("ikigai/components"))?.flatten() {
        if engine.file_type()?.is_dir() {
            let entries = fs::read_dir(engine.path())?.flatten().map(|entry| entry.path());
            code.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "cwasm")));
        }
    }
    Ok(code)
}

/// Returns the installed host, without anything of this user's.
pub(super) fn host(layout: &BenchLayout) -> Command {
    let mut command = Command::new(layout.host());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IKIGAI_") {
            command.env_remove(name);
        }
    }
    command.env("IKIGAI_USER_TOOLS", layout.at("no-tools"));
    command.env("XDG_CACHE_HOME", layout.at("xdg-cache"));
    command
}

/// Runs `command` as [`finish`] does, and returns the microseconds that it took.
fn timed(command: &mut Command, input: &[u8]) -> anyhow::Result<f64> {
    micros(1, || finish(command, input).map(drop))
}

/// Runs `command` with pipes and returns its output. ripgrep exits with 1 if nothing matches.
fn finish(command: &mut Command, input: &[u8]) -> anyhow::Result<Vec<u8>> {
    let program = text(Path::new(command.get_program()));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{program}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    let nothing_found = program.ends_with("/rg") && output.status.code() == Some(1);
    if !output.status.success() && !nothing_found {
        bail!("`{program}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}
