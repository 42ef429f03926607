//! `cargo xtask fuzz`: the fuzz targets under libFuzzer, each for a bounded time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::project::CargoProject;
use crate::run::{self, step};
use crate::{build, stage};

#[derive(Args)]
pub(crate) struct FuzzOptions {
    /// Targets, by the names of the folders in fuzz/corpus; all of them if none is named
    targets: Vec<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60, value_name = "N")]
    seconds: u32,
    /// The seed of the random numbers, to repeat a run
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u32,
}

/// The target that runs a component of the tests.
const WITH_GUEST: &str = "wasi_0_3";

/// The longest time for one input, in seconds: a parser that hangs is a finding.
const LONGEST: u32 = 10;

pub(crate) fn fuzz(project: &CargoProject, options: &FuzzOptions) -> anyhow::Result<()> {
    let seeds = project.root.join("fuzz").join("corpus");
    let known = targets(&seeds)?;
    for name in &options.targets {
        ensure!(
            known.contains(name),
            "`{name}` is not a target; the targets are {}",
            known.join(", ")
        );
    }
    let chosen = if options.targets.is_empty() { &known } else { &options.targets };
    step("Building the fuzz targets");
    let program = build::fuzz_targets(project)?;
    let guests = project.staged_guests();
    if chosen.iter().any(|name| name == WITH_GUEST) {
        stage::test_guests(project)?;
        ensure!(guests.is_dir(), "`{WITH_GUEST}` needs the guests in `{}`", guests.display());
    }
    let fuzzer = Fuzzer { program, guests, seeds, found: project.target.join("fuzz") };
    for name in chosen {
        step(&format!("Fuzzing: {name}"));
        fuzzer.run(name, options)?;
    }
    Ok(())
}

/// The program of all targets, and the paths that it uses.
struct Fuzzer {
    program: PathBuf,
    /// The components that only the tests run.
    guests: PathBuf,
    /// The corpus of each target.
    seeds: PathBuf,
    /// The inputs that earlier runs found, for each target.
    found: PathBuf,
}

impl Fuzzer {
    /// Runs one target.
    fn run(&self, name: &str, options: &FuzzOptions) -> anyhow::Result<()> {
        // The findings of a run are kept there, so that the next run continues from them.
        let grown = self.found.join(name);
        std::fs::create_dir_all(&grown)
            .with_context(|| format!("cannot make {}", grown.display()))?;
        let findings = self.found.join(format!("{name}-"));
        let log = self.found.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(&self.program);
        command
            .env("IKIGAI_FUZZ_TARGET", name)
            .env("IKIGAI_TEST_GUESTS", &self.guests)
            .args([&grown, &self.seeds.join(name)])
            .arg(format!("-max_total_time={}", options.seconds))
            .arg(format!("-seed={}", options.seed))
            .arg(format!("-timeout={LONGEST}"))
            .arg(format!("-artifact_prefix={}", findings.display()))
            // libFuzzer prints a lot, and only its findings are of interest.
            .args(["-verbosity=0", "-print_final_stats=1"])
            .stderr(file);
        let outcome = run::run(&mut command);
        let said = std::fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
        let said = String::from_utf8_lossy(&said);
        if let Err(error) = outcome {
            eprintln!("{said}");
            return Err(error.context(format!(
                "`{name}` has a finding: its input is the file that libFuzzer names above; copy it \
                 to fuzz/corpus/{name}/, where `cargo test --test corpus` replays it"
            )));
        }
        for line in said.lines().filter(|line| line.starts_with("stat::number_of_executed_units")) {
            eprintln!("    {line}");
        }
        Ok(())
    }
}

fn targets(seeds: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(seeds).with_context(|| format!("no {}", seeds.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().into_string();
        names.push(
            name.map_err(|name| {
                anyhow::anyhow!("`{}` is not UTF-8", PathBuf::from(name).display())
            })?,
        );
    }
    names.sort();
    Ok(names)
}
