//! `cargo xtask bench`: the current figures with their targets, limits and peers, all measured in
//! turn in one run.
//!
//! This module owns the order of work and the layout in `target/bench`. `bench/calls`, which this
//! runs, measures inside one process; [`processes`] and [`mcp`] measure whole processes; [`table`]
//! makes rows of the samples.

mod corpus;
mod machine;
mod mcp;
mod processes;
mod samples;
mod sampling;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use self::corpus::TreeShape;
use self::samples::Figures;
use crate::build::{self, RELEASE_LTO};
use crate::environments;
use crate::place::{self, PROGRAM};
use crate::project::CargoProject;
use crate::run::{self, note, step};
use crate::stage;
use crate::toolchain::WASM_TARGET;

#[derive(Args)]
pub(crate) struct BenchOptions {
    /// Fewer rounds over smaller inputs: a minute instead of several
    #[arg(long)]
    quick: bool,
    /// Measure what the last run built
    #[arg(long)]
    no_build: bool,
    /// Print everything as JSON, samples included
    #[arg(long)]
    json: bool,
}

/// The package of [`BENCHMARK`].
const BENCH: &str = "ikigai-bench";

/// The program that measures inside one process.
const BENCHMARK: &str = "calls";

pub(crate) fn bench(project: &CargoProject, options: &BenchOptions) -> anyhow::Result<()> {
    let layout = BenchLayout::new(project, options.quick);
    if options.no_build {
        note("measuring what was built before");
    } else {
        environments::install(project, environments::EnvironmentPurpose::Benchmark)?;
        step("Building in release: the host, the native tools, the components, the benchmark");
        build_all(project, &layout)?;
    }
    step("Laying out the inputs");
    layout.fill()?;
    machine::warn_if_busy();
    step("Measuring inside one process");
    let mut figures = inside(&layout, options.quick)?;
    step("Measuring whole processes");
    processes::measure(&layout, options.quick, &mut figures)?;
    step("Measuring servers of MCP");
    mcp::measure(&layout, options.quick, &mut figures)?;
    let rows = table::rows(&figures);
    let machine = machine::describe();
    if options.json {
        println!("{}", table::json(&machine, &rows, &figures));
    } else {
        println!("\n{machine}\n\n{}", table::text(&rows));
    }
    Ok(())
}

/// The directories of everything that is run or read.
pub(crate) struct BenchLayout {
    root: PathBuf,
    small: TreeShape,
    large: TreeShape,
    examples: PathBuf,
    ripgrep: PathBuf,
    mcp_node: PathBuf,
}

impl BenchLayout {
    fn new(project: &CargoProject, quick: bool) -> Self {
        let small = TreeShape { directories: 100, files_in_each: 40, bytes: 1 << 10 };
        let large = if quick {
            TreeShape { directories: 20, files_in_each: 100, bytes: 12_500 }
        } else {
            TreeShape { directories: 160, files_in_each: 100, bytes: 12_500 }
        };
        Self {
            root: project.target.join("bench"),
            small,
            large,
            examples: project.built_examples(),
            ripgrep: project.environment(environments::RIPGREP),
            mcp_node: project.environment(environments::MCP_NODE),
        }
    }

    /// Returns the installed host.
    pub(crate) fn host(&self) -> PathBuf {
        self.root.join("prefix/bin/ikigai")
    }

    /// Returns the directory of the installed tools.
    pub(crate) fn tools(&self) -> PathBuf {
        self.root.join("prefix/libexec/ikigai")
    }

    /// Returns another entry of this layout.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the Python component of docs/guides/write-a-component.md, if the tests have built
    /// it.
    pub(crate) fn python(&self) -> Option<PathBuf> {
        let built = fs::read_dir(self.examples.join("python-component")).ok()?;
        let mut paths = built.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "wasm"))
    }

    /// Returns ripgrep, if it could be installed.
    pub(crate) fn ripgrep(&self) -> Option<PathBuf> {
        Some(self.ripgrep.join("bin").join("rg")).filter(|program| program.exists())
    }

    /// Returns the folder whose `node_modules` has the MCP library, if it could be
    /// installed.
    pub(crate) fn mcp_node(&self) -> PathBuf {
        self.mcp_node.clone()
    }

    fn fill(&self) -> anyhow::Result<()> {
        note(&format!("small files: {}", self.small.text()));
        corpus::lay_out(&self.at("small"), self.small)?;
        note(&format!("files to search: {}", self.large.text()));
        corpus::lay_out(&self.at("corpus"), self.large)
    }
}

/// Builds everything that is measured, into a directory that nothing else writes to.
fn build_all(project: &CargoProject, layout: &BenchLayout) -> anyhow::Result<()> {
    build::native(project, RELEASE_LTO)?;
    let benchmark = benchmark(project)?;
    let mut tools = build::native_tools(project, RELEASE_LTO)?;
    let components = stage::components(project, RELEASE_LTO, &[])?;
    if components.is_empty() {
        bail!("a benchmark without components says nothing; add the target {WASM_TARGET}");
    }
    tools.extend(components);

    place::directory(&layout.root)?;
    place::directory(&layout.at("prefix/bin"))?;
    place::file(&build::host(project, RELEASE_LTO).file, &layout.host(), PROGRAM)?;
    stage::place_tools(&build::helpers(project, RELEASE_LTO), &layout.at("prefix/libexec"))?;
    place::file(&benchmark, &layout.at(BENCHMARK), PROGRAM)?;
    stage::place_tools(&tools, &layout.tools())?;
    stage::precompile(&layout.host(), &layout.tools())
}

/// Builds the benchmark and returns its path. It is a build apart, because it has the compilers,
/// which the host that it is compared with lacks.
fn benchmark(project: &CargoProject) -> anyhow::Result<PathBuf> {
    let mut command = project.cargo(&["build", "--profile", RELEASE_LTO, "--bench", BENCHMARK]);
    command.args(["--package", BENCH]);
    command.arg("--message-format=json-render-diagnostics");
    let messages = run::output(&mut command)?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message["target"]["name"] == BENCHMARK;
        message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
    };
    messages.lines().find_map(executable).context("cargo built no benchmark")
}

/// Runs the benchmark of the host and reads its samples.
fn inside(layout: &BenchLayout, quick: bool) -> anyhow::Result<Figures> {
    let mut command = Command::new(layout.at(BENCHMARK));
    command.arg("--figures").env("IKIGAI_BENCH", &layout.root);
    if quick {
        command.env("IKIGAI_BENCH_QUICK", "1");
    }
    let text = run::output(&mut command)?;
    serde_json::from_str(text.trim()).context("the benchmark printed no figures")
}

/// Returns a path for the argument of a child, as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
