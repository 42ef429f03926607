//! `cargo xtask bench`: the current figures and their targets, as ratios that were measured in turn
//! in one run.
//!
//! This module owns the order of work and the layout in `target/bench`. It runs `bench/calls`,
//! which measures inside one process. [`processes`], [`shipping`] and [`mcp`] measure whole
//! processes. [`table`] turns the samples into rows.

mod corpus;
mod machine;
mod mcp;
mod processes;
mod samples;
mod shipping;
mod table;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::Value;

use self::corpus::{PATTERNS, TreeShape};
use self::samples::Figures;
use crate::build;
use crate::environments;
use crate::place::{self, PROGRAM};
use crate::project::{CargoProject, HOST, NATIVE_TOOLS, SUPERVISOR};
use crate::run::{self, note, step};
use crate::stage;
use crate::toolchain::{self, WASM_TARGET};

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

/// The package of the guest that does one thing at a time.
const GUEST: &str = "ikigai-bench-guest";
/// The package of [`ECHO`].
const MCP: &str = "ikigai-mcp";
/// The server that consists of the MCP library only.
const ECHO: &str = "rmcp-echo";
/// The package of [`BENCHMARK`].
const BENCH: &str = "ikigai-bench";

/// The number in the guest's schema that makes each copy a different tool.
const NUMBER: &[u8] = b"bench_tool_0000";

/// The number of tools for the row about discovery.
const DISCOVERED: usize = 100;

/// The program that measures inside one process.
const BENCHMARK: &str = "calls";

const RELEASE: &str = "release";

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
    step("Measuring tools that come from elsewhere");
    shipping::measure(&layout, options.quick, &mut figures)?;
    step("Measuring servers of MCP");
    mcp::measure(&layout, options.quick, &mut figures)?;
    let rows = table::rows(&figures);
    for what in table::without_limit(&rows) {
        note(&format!("no limit was measured for: {what}"));
    }
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
    mcp_clients: PathBuf,
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
            mcp_clients: project.environment(environments::MCP_CLIENTS),
            mcp_node: project.environment(environments::MCP_NODE),
        }
    }

    /// Returns the installed host.
    pub(crate) fn host(&self) -> PathBuf {
        self.root.join("prefix/bin/ikigai")
    }

    /// Returns the installed supervisor.
    pub(crate) fn supervisor(&self) -> PathBuf {
        self.at("prefix/libexec").join(SUPERVISOR)
    }

    /// Returns the directory of the installed tools.
    pub(crate) fn tools(&self) -> PathBuf {
        self.root.join("prefix/libexec/ikigai")
    }

    /// Returns the directory of a hundred different components.
    pub(crate) fn hundred(&self) -> PathBuf {
        self.root.join("hundred")
    }

    /// Returns another entry of this layout.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the Python component of docs/writing-tools.md, if the tests have built it.
    pub(crate) fn python(&self) -> Option<PathBuf> {
        let built = fs::read_dir(self.examples.join("python-component")).ok()?;
        let mut paths = built.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "wasm"))
    }

    /// Returns ripgrep, if it could be installed.
    pub(crate) fn ripgrep(&self) -> Option<PathBuf> {
        Some(self.ripgrep.join("bin").join("rg")).filter(|program| program.exists())
    }

    /// Returns the Python with the package `mcp`, if it could be installed.
    pub(crate) fn mcp_python(&self) -> PathBuf {
        self.mcp_clients.join("bin").join("python")
    }

    /// Returns the folder whose `node_modules` contains the MCP library, if it could be installed.
    pub(crate) fn mcp_node(&self) -> PathBuf {
        self.mcp_node.clone()
    }

    fn fill(&self) -> anyhow::Result<()> {
        note(&format!("small files: {}", self.small.text()));
        corpus::lay_out(&self.at("small"), self.small)?;
        note(&format!("files to search: {}", self.large.text()));
        corpus::lay_out(&self.at("corpus"), self.large)?;
        let patterns = serde_json::to_string(&PATTERNS)?;
        fs::write(self.at("patterns.json"), patterns).context("cannot write the patterns")?;
        let guest = fs::read(self.at("guest.wasm")).context("cannot read the guest")?;
        place::directory(&self.hundred())?;
        for number in 0..DISCOVERED {
            let path = self.hundred().join(format!("tool-{number:04}.wasm"));
            let copy = renumbered(&guest, number)?;
            if fs::read(&path).ok().as_ref() != Some(&copy) {
                fs::write(&path, copy)
                    .with_context(|| format!("cannot write `{}`", path.display()))?;
            }
        }
        Ok(())
    }
}

/// Returns the guest with another number in its name.
fn renumbered(guest: &[u8], number: usize) -> anyhow::Result<Vec<u8>> {
    let Some(at) = guest.windows(NUMBER.len()).position(|window| window == NUMBER) else {
        bail!("the guest of the benchmark has no number to change")
    };
    let mut copy = guest.to_vec();
    let end = at + NUMBER.len();
    copy[end - 4..end].copy_from_slice(format!("{number:04}").as_bytes());
    Ok(copy)
}

/// Builds everything that is measured, into a directory that nothing else writes to.
fn build_all(project: &CargoProject, layout: &BenchLayout) -> anyhow::Result<()> {
    let benchmark = natively(project)?;
    let mut tools = build::native_tools(project, RELEASE)?;
    let components = stage::components(project, RELEASE, &[])?;
    if components.is_empty() {
        bail!("a benchmark without components says nothing; add the target {WASM_TARGET}");
    }
    tools.extend(components);
    let wasm = guest_component(project)?;

    place::directory(&layout.root)?;
    place::directory(&layout.at("prefix/bin"))?;
    place::file(&build::host(project, RELEASE).file, &layout.host(), PROGRAM)?;
    let supervisor = build::supervisor(project, RELEASE);
    stage::place_tools(&[supervisor], &layout.at("prefix/libexec"))?;
    place::file(&benchmark, &layout.at(BENCHMARK), PROGRAM)?;
    place::file(&project.built(RELEASE).join("examples").join(ECHO), &layout.at(ECHO), PROGRAM)?;
    place::file(&project.built(RELEASE).join(GUEST), &layout.at("guest"), PROGRAM)?;
    place::file(&wasm, &layout.at("guest.wasm"), PROGRAM)?;
    place::directory(&layout.at("user-tools"))?;
    place::file(&wasm, &layout.at("user-tools/bench-tool.wasm"), PROGRAM)?;
    stage::place_tools(&tools, &layout.tools())?;
    stage::precompile(&layout.host(), &layout.tools())?;
    musl(project, layout)
}

/// Builds the host, the native tools and the benchmark, and returns the path of the benchmark.
///
/// It is one command because cargo unifies features over all packages of a build. A second command
/// with the benchmark's dependencies would compile the host a second time.
fn natively(project: &CargoProject) -> anyhow::Result<PathBuf> {
    let mut command = project.cargo(&["build", "--release", "--bins", "--bench", BENCHMARK]);
    command.args(["--example", ECHO]);
    for package in [HOST, SUPERVISOR, NATIVE_TOOLS, GUEST, BENCH, MCP] {
        command.args(["--package", package]);
    }
    command.arg("--message-format=json-render-diagnostics");
    let messages = run::output(&mut command)?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message["target"]["name"] == BENCHMARK;
        message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
    };
    messages.lines().find_map(executable).context("cargo built no benchmark")
}

fn guest_component(project: &CargoProject) -> anyhow::Result<PathBuf> {
    let target = project.target.join("guest");
    let mut command = project.cargo(&["build", "--package", GUEST, "--profile", "guest"]);
    command.args(["--target", WASM_TARGET, "--target-dir"]).arg(&target);
    run::run(&mut command)?;
    Ok(target.join(WASM_TARGET).join("guest").join(format!("{GUEST}.wasm")))
}

/// Builds one tool statically, if the toolchain can. A static process starts faster, since nothing
/// is linked at its start.
fn musl(project: &CargoProject, layout: &BenchLayout) -> anyhow::Result<()> {
    let target = format!("{}-unknown-linux-musl", env::consts::ARCH);
    if !toolchain::has(project, &target)? {
        note(&format!("no static build to compare with: the target {target} is not installed"));
        return Ok(());
    }
    let mut command = project.cargo(&["build", "--release", "--target", &target]);
    command.args(["--package", NATIVE_TOOLS, "--bin", "file-read"]);
    run::run(&mut command)?;
    let built = project.target.join(&target).join("release").join("file-read");
    place::file(&built, &layout.at("file-read-musl"), PROGRAM).map(drop)
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
