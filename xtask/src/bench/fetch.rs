//! The figure of a download: a file from a registry on this machine.

mod registry;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use self::registry::{BenchArtifact, BenchRegistry};
use super::BenchLayout;
use super::corpus::Random;
use super::processes::{finish, host};
use super::samples::Figures;
use super::sampling::{Samples, in_turn, micros};
use crate::place;
use crate::run::{self, note};

/// Bytes of the file that is fetched.
const LENGTH: usize = 20_000_000;

/// The programs that a download is compared with, and their packages.
const PROGRAMS: [(&str, &str); 2] = [("sha256sum", "coreutils"), ("curl", "curl")];

/// Adds the figure of a download.
pub(crate) fn measure(
    layout: &BenchLayout,
    quick: bool,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    for (program, package) in PROGRAMS {
        if !run::works(program, &["--version"]) {
            note(&format!("nothing is fetched without `{program}` (Debian: `{package}`)"));
            return Ok(());
        }
    }
    let place = layout.at("fetched");
    place::empty_directory(&place)?;
    let file = layout.at("large.bin");
    fs::write(&file, noise(LENGTH)).context("cannot write the file to fetch")?;
    let artifact = BenchArtifact::new("large", &file)?;
    let registry = BenchRegistry::start(&artifact)?;
    let mut ours = host(layout);
    ours.args(["tool", "fetch", &registry.reference(&artifact), "--out"]);
    ours.arg(place.join("layout")).env("XDG_CACHE_HOME", place.join("cache"));
    // The credentials of whoever measures are asked for nothing here.
    ours.env("HOME", &place).env_remove("DOCKER_CONFIG");
    let rounds = if quick { 5 } else { 20 };
    let samples = fetching(&place, &mut ours, (&registry, &artifact), rounds)?;
    figures.insert("fetch".into(), samples);
    Ok(())
}

/// Measures `tool fetch` of the file, `curl` with `sha256sum` of the same, and the writing of such a
/// file to the disk.
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
    let fetch = |command: &mut Command, file: &Path| {
        place::empty_directory(place)?;
        let mut printed = Vec::new();
        let taken = micros(1, || {
            printed = finish(command, b"")?;
            Ok(())
        })?;
        let length = file.metadata().map_or(0, |it| it.len());
        ensure!(length == artifact.size, "`{}` has {length} bytes", file.display());
        anyhow::Ok((taken, printed))
    };
    in_turn(
        rounds,
        &mut [
            ("ikigai", &mut || Ok(fetch(&mut *ours, &kept)?.0)),
            ("curl", &mut || {
                let (taken, printed) = fetch(&mut theirs, &downloaded)?;
                let is_right = printed.starts_with(artifact.digest.as_bytes());
                ensure!(is_right, "`sha256sum` says {}", String::from_utf8_lossy(&printed));
                Ok(taken)
            }),
            ("limit", &mut || {
                let contents = fs::read(&downloaded)?;
                micros(1, || {
                    let mut file = fs::File::create(place.join("written"))?;
                    file.write_all(&contents)?;
                    Ok(file.sync_all()?)
                })
            }),
        ],
    )
}

/// Returns bytes that nothing could make fewer, the same in each run.
fn noise(length: usize) -> Vec<u8> {
    let mut random = Random(0x1CEB_00DA);
    let words = std::iter::repeat_with(|| random.next().to_le_bytes());
    words.flatten().take(length).collect()
}
