//! The environments of tests and of the benchmark: programs from PyPI and npm, each installed once
//! in the target directory, and again when its pinned versions change.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::place;
use crate::project::CargoProject;
use crate::run::{self, note, step};

/// An environment, with its versions in the folder `tests/NAME`.
struct PinnedEnvironment {
    name: &'static str,
    language: Language,
    purposes: &'static [EnvironmentPurpose],
    /// The variable that, set to `1`, makes a missing environment a failure, here and in the tests.
    require: &'static str,
}

/// The purpose of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvironmentPurpose {
    /// The tests.
    Tests,
    /// The benchmark, which compares with other programs.
    Benchmark,
}

/// The language of an environment.
#[derive(Clone, Copy)]
enum Language {
    /// Python, with the package that shows that the environment works.
    Python(&'static str),
    /// Node.js, with npm.
    Node,
}

use EnvironmentPurpose::{Benchmark, Tests};
use Language::{Node, Python};

const ENVIRONMENTS: &[PinnedEnvironment] = &[
    // Another host, which runs our components.
    PinnedEnvironment {
        name: OTHER_HOSTS,
        language: Python("wasmtime"),
        purposes: &[Tests],
        require: "IKIGAI_REQUIRE_OTHER_HOSTS",
    },
    // Compilers of other languages, which build the templates of `tool new`.
    PinnedEnvironment {
        name: TOOLCHAINS,
        language: Python("ziglang"),
        purposes: &[Tests],
        require: "IKIGAI_REQUIRE_TOOLCHAINS",
    },
    // The official client of MCP, a fuzzer and a server.
    PinnedEnvironment {
        name: MCP_CLIENTS,
        language: Python("mcp"),
        purposes: &[Tests],
        require: "IKIGAI_REQUIRE_MCP_CLIENTS",
    },
    // The same of Node.js, without a fuzzer, the conformance suite of the protocol, and a plain server
    // for the benchmark.
    PinnedEnvironment {
        name: MCP_NODE,
        language: Node,
        purposes: &[Tests, Benchmark],
        require: "IKIGAI_REQUIRE_MCP_CLIENTS",
    },
    // Two clients that people use. A model of the tests drives them.
    PinnedEnvironment {
        name: CODING_AGENTS,
        language: Node,
        purposes: &[Tests],
        require: "IKIGAI_REQUIRE_MCP_CLIENTS",
    },
    // The program that `grep` is compared with.
    PinnedEnvironment {
        name: RIPGREP,
        language: Python("ripgrep"),
        purposes: &[Benchmark],
        require: "IKIGAI_REQUIRE_RIPGREP",
    },
];

/// The environment with ripgrep.
pub(crate) const RIPGREP: &str = "ripgrep";

/// The environment with another host of components.
pub(crate) const OTHER_HOSTS: &str = "other-hosts";

/// The environment with compilers of other languages.
pub(crate) const TOOLCHAINS: &str = "toolchains";

/// The environment with MCP clients and servers in Python.
pub(crate) const MCP_CLIENTS: &str = "mcp-clients";

/// The environment with MCP clients and servers for Node.js.
pub(crate) const MCP_NODE: &str = "mcp-node";

/// The environment with Claude Code and Codex.
pub(crate) const CODING_AGENTS: &str = "coding-agents";

/// The file with the place of an environment and its list of versions, written when everything is
/// installed. Programs in a Python environment contain the place that they were installed in, and
/// start in no other.
const STAMP: &str = ".installed";

/// Creates the missing environments of this purpose.
///
/// If the language or the network is missing, an environment is left out, and its tests report
/// that. If the environment's variable is `1`, that is an error.
pub(crate) fn install(project: &CargoProject, purpose: EnvironmentPurpose) -> anyhow::Result<()> {
    let mut environments = ENVIRONMENTS.iter().filter(|it| it.purposes.contains(&purpose));
    environments.try_for_each(|environment| environment.install(project))
}

impl PinnedEnvironment {
    fn install(&self, project: &CargoProject) -> anyhow::Result<()> {
        let Self { name, language, purposes: _, require } = self;
        let directory = project.environment(name);
        let versions = project.root.join("tests").join(name).join(language.versions());
        let listed = fs::read_to_string(&versions)
            .with_context(|| format!("cannot read `{}`", project.shown(&versions)))?;
        let wanted = format!("{}\n{listed}", directory.display());
        let stamp = directory.join(STAMP);
        let is_installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
        if is_installed && language.works_in(&directory) {
            return Ok(());
        }
        step(&format!("Installing {name}"));
        if let Err(error) = language.make(&directory, &versions) {
            if env::var_os(require).is_some_and(|value| value == "1") {
                bail!("cannot install {name}, and `{require}` asks for it: {error:#}");
            }
            note(&format!("{name} is not installed, and what needs it is skipped: {error:#}"));
            return Ok(());
        }
        fs::write(&stamp, wanted).with_context(|| format!("cannot mark {name} as installed"))
    }
}

impl Language {
    /// Returns the name of the file with all versions.
    fn versions(self) -> &'static str {
        match self {
            Python(_) => "requirements.txt",
            Node => "package-lock.json",
        }
    }

    /// Returns `true` if the programs of an installed environment can be run. A Python environment
    /// does not outlive the Python that it was made with.
    fn works_in(self, directory: &Path) -> bool {
        match self {
            Python(package) => {
                let python = directory.join("bin").join("python");
                let ask = format!("import importlib.metadata as m; m.version('{package}')");
                run::works(&python.to_string_lossy(), &["-c", &ask])
            }
            Node => run::works("node", &["--version"]),
        }
    }

    /// Creates an environment in place of an earlier one, whose packages do not belong to it.
    fn make(self, directory: &Path, versions: &Path) -> anyhow::Result<()> {
        match self {
            Python(_) => {
                run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory))?;
                let mut pip = Command::new(directory.join("bin").join("python"));
                pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
                run::run(pip.args(["--only-binary=:all:", "--requirement"]).arg(versions))
            }
            Node => {
                // npm needs this file as well. It cannot differ from the versions, because npm
                // would then refuse to install.
                let package = versions.with_file_name("package.json");
                place::directory(directory)?;
                for file in [&package, &versions.to_owned()] {
                    let name = file.file_name().context("a file has a name")?;
                    fs::copy(file, directory.join(name))
                        .with_context(|| format!("cannot copy `{}`", file.display()))?;
                }
                let mut npm = Command::new("npm");
                // No package needs to run its own script at installation.
                npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
                run::run(npm.current_dir(directory))
            }
        }
    }
}
