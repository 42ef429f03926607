//! The figures of installed tools: a file from a registry on this machine, and the first use of a
//! module that another language's compiler built.

mod module;
mod registry;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use self::registry::{BenchArtifact, BenchRegistry};
use super::BenchLayout;
use super::corpus::Random;
use super::processes::{finish, host, peak_memory};
use super::samples::{Figures, Samples};
use crate::place;
use crate::run::{self, note};

/// The size in bytes of the fetched file, and of a small file whose memory it is compared with.
const LARGE: usize = 20_000_000;
const SMALL: usize = 1_000;

/// Bytes of the module.
const MODULE: usize = 50_000;

/// The time between two readings of the memory of a process.
const LOOK: Duration = Duration::from_micros(200);

/// Adds the figures of installed tools.
pub(crate) fn measure(
    layout: &BenchLayout,
    quick: bool,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let rounds = |full: usize| if quick { full.div_ceil(4) } else { full };
    figures.insert("module".into(), first_use(layout, rounds(20))?);
    if !run::works("sha256sum", &["--version"]) {
        note("`sha256sum` is not installed, and nothing is fetched (Debian: `coreutils`)");
        return Ok(());
    }
    let place = layout.at("fetched");
    place::empty_directory(&place)?;
    let file = |name: &'static str, length| -> anyhow::Result<BenchArtifact> {
        let path = layout.at(&format!("{name}.bin"));
        fs::write(&path, noise(length)).with_context(|| format!("cannot write `{name}`"))?;
        BenchArtifact::new(name, &path)
    };
    let (large, small) = (file("large", LARGE)?, file("small", SMALL)?);
    let registry = BenchRegistry::start(&[&large, &small])?;
    let [fetch_large, fetch_small] = [&large, &small].map(|artifact| {
        let mut command = host(layout);
        command.args(["tool", "fetch", &registry.reference(artifact), "--out"]);
        command.arg(place.join("layout")).env("XDG_CACHE_HOME", place.join("cache"));
        // The user's own credentials must not be used here.
        command.env("HOME", &place).env_remove("DOCKER_CONFIG");
        command
    });
    let mut commands = [fetch_large, fetch_small];
    figures.insert("fetch_bytes".into(), memory(&place, &mut commands, rounds(12))?);
    if run::works("curl", &["--version"]) {
        let [ours, _] = &mut commands;
        let samples = fetching(&place, ours, (&registry, &large), rounds(20))?;
        figures.insert("fetch".into(), samples);
    } else {
        note("`curl` is not installed, which a download is compared with (Debian: `curl`)");
    }
    Ok(())
}

/// Measures `tool fetch` of the file, `curl` with `sha256sum` of the same file, and writing a file
/// of that size to the disk.
fn fetching(
    place: &Path,
    ours: &mut Command,
    (registry, artifact): (&BenchRegistry, &BenchArtifact),
    rounds: usize,
) -> anyhow::Result<Samples> {
    const SCRIPT: &str = r#"curl -q -sS --noproxy '*' -o "$1" "$2" && sha256sum "$1""#;
    let downloaded = place.join("file");
    let mut theirs = Command::new("sh");
    theirs.args(["-c", SCRIPT, "sh"]).arg(&downloaded).arg(registry.url(artifact));
    let kept = place.join("layout/blobs/sha256").join(&artifact.digest);
    let mut samples = Samples::new();
    for round in 0..=rounds {
        for (name, command, file) in
            [("ikigai", &mut *ours, &kept), ("curl", &mut theirs, &downloaded)]
        {
            place::empty_directory(place)?;
            let started = Instant::now();
            let printed = finish(command, b"")?;
            let micros = started.elapsed().as_secs_f64() * 1e6;
            let length = file.metadata().map_or(0, |it| it.len());
            ensure!(length == artifact.size, "`{name}` kept {length} bytes");
            let is_right = name != "curl" || printed.starts_with(artifact.digest.as_bytes());
            ensure!(is_right, "`sha256sum` says {}", String::from_utf8_lossy(&printed));
            if round > 0 {
                samples.entry(name.to_owned()).or_default().push(micros);
            }
        }
        let contents = fs::read(&downloaded)?;
        let started = Instant::now();
        let mut file = fs::File::create(place.join("written"))?;
        file.write_all(&contents)?;
        file.sync_all()?;
        if round > 0 {
            let micros = started.elapsed().as_secs_f64() * 1e6;
            samples.entry("limit".to_owned()).or_default().push(micros);
        }
    }
    Ok(samples)
}

/// Measures the most memory of a fetch of the large file, and of the small one.
fn memory(
    place: &Path,
    [large, small]: &mut [Command; 2],
    rounds: usize,
) -> anyhow::Result<Samples> {
    let mut samples = Samples::new();
    for _ in 0..rounds {
        for (name, command) in [("large", &mut *large), ("small", &mut *small)] {
            place::empty_directory(place)?;
            samples.entry(name.to_owned()).or_default().push(peak(command)? as f64);
        }
    }
    Ok(samples)
}

/// Returns the most memory that a command has resident, in bytes. The value is polled until the
/// command ends, because it cannot be read afterwards.
fn peak(command: &mut Command) -> anyhow::Result<u64> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start the host")?;
    let mut peak = 0;
    loop {
        // A process has no such value before its program is loaded, or after it ended.
        peak = peak_memory(child.id()).unwrap_or(0).max(peak);
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(peak),
            Some(status) => bail!("a fetch ended with {status}"),
            None => thread::sleep(LOOK),
        }
    }
}

/// Measures the schema of a core module that was never used here, and the same a second time.
fn first_use(layout: &BenchLayout, rounds: usize) -> anyhow::Result<Samples> {
    let path = layout.at("module.wasm");
    fs::write(&path, module::of_length(MODULE)).context("cannot write the module")?;
    let cache = layout.at("empty-cache");
    let mut ask = host(layout);
    ask.env("XDG_CACHE_HOME", &cache).args(["tool", "run"]).arg(&path).arg("--schema");
    let mut samples = Samples::new();
    for round in 0..=rounds {
        place::empty_directory(&cache)?;
        let mut compiled = BTreeSet::new();
        for name in ["first", "second"] {
            let started = Instant::now();
            let printed = finish(&mut ask, b"")?;
            let micros = started.elapsed().as_secs_f64() * 1e6;
            let answer = String::from_utf8_lossy(&printed);
            ensure!(answer.contains(module::NAME), "the module answers {answer}");
            if round > 0 {
                samples.entry(name.to_owned()).or_default().push(micros);
            }
            let there = files(&cache.join("ikigai/components"))?;
            ensure!(!there.is_empty(), "nothing compiled is kept");
            ensure!(name == "first" || there == compiled, "the module was compiled twice");
            compiled = there;
        }
    }
    Ok(samples)
}

/// Returns the files beneath a directory, each with the inode number, which changes if the file is
/// replaced.
fn files(directory: &Path) -> anyhow::Result<BTreeSet<(PathBuf, u64)>> {
    let list = || format!("cannot list `{}`", directory.display());
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(directory).with_context(list)? {
        let entry = entry.with_context(list)?;
        if entry.file_type().with_context(list)?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.insert((entry.path(), entry.metadata().with_context(list)?.ino()));
        }
    }
    Ok(found)
}

/// Returns bytes that cannot be compressed. They are the same in each run.
fn noise(length: usize) -> Vec<u8> {
    let mut random = Random(0x1CEB_00DA);
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    words.flatten().take(length).collect()
}
