//! The Python environments of tests, each created once in the target directory, and again when its
//! pinned versions change.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::project::Project;
use crate::run::{self, note, step};

/// An environment, with its versions in `tests/NAME/requirements.txt`.
struct Environment {
    name: &'static str,
    /// The module that the tests use.
    module: &'static str,
    /// The variable that, set to `1`, makes a missing module a failure, here and in the tests.
    require: &'static str,
}

const ENVIRONMENTS: &[Environment] = &[
    // A second implementation of the vendors, for the clients of models.
    Environment { name: LLMOCK, module: "llmock", require: "IKIGAI_REQUIRE_LLMOCK" },
    // Another host, which runs our components.
    Environment { name: OTHER_HOSTS, module: "wasmtime", require: "IKIGAI_REQUIRE_OTHER_HOSTS" },
    // The official client of MCP, and a plain server for the benchmark.
    Environment { name: MCP_CLIENTS, module: "mcp", require: "IKIGAI_REQUIRE_MCP_CLIENTS" },
];

/// The environment with llmock.
pub(crate) const LLMOCK: &str = "llmock";

/// The environment with another host of components.
pub(crate) const OTHER_HOSTS: &str = "other-hosts";

/// The environment with a client of MCP.
pub(crate) const MCP_CLIENTS: &str = "mcp-clients";

/// A copy of the list of versions, written when all of them are installed.
const STAMP: &str = ".installed";

/// Creates the missing environments.
///
/// Without Python or the network they are left out, and their tests report that; if the variable of
/// one is `1`, that is an error.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    ENVIRONMENTS.iter().try_for_each(|environment| environment.install(project))
}

impl Environment {
    fn install(&self, project: &Project) -> anyhow::Result<()> {
        let Self { name, module, require } = self;
        let directory = project.python(name);
        let versions = project.root.join("tests").join(name).join("requirements.txt");
        let wanted = fs::read(&versions)
            .with_context(|| format!("cannot read `{}`", project.shown(&versions)))?;
        let stamp = directory.join(STAMP);
        // Also tried, since an environment does not outlive the Python that it was made with.
        let python = directory.join("bin").join("python");
        let is_installed = fs::read(&stamp).is_ok_and(|installed| installed == wanted)
            && run::works(&python.to_string_lossy(), &["-c", &format!("import {module}")]);
        if is_installed {
            return Ok(());
        }
        step(&format!("Installing {module} for Python"));
        if let Err(error) = make(&directory, &versions) {
            if env::var_os(require).is_some_and(|value| value == "1") {
                bail!("cannot install {module}, and `{require}` asks for it: {error:#}");
            }
            note(&format!("{module} is not installed, and its tests are skipped: {error:#}"));
            return Ok(());
        }
        fs::write(&stamp, wanted).with_context(|| format!("cannot mark {module} as installed"))
    }
}

fn make(directory: &Path, versions: &Path) -> anyhow::Result<()> {
    // Packages of other versions do not belong to the new environment.
    run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory))?;
    let mut pip = Command::new(directory.join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run::run(pip.args(["--only-binary=:all:", "--requirement"]).arg(versions))
}
