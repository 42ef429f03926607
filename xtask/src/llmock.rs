//! The Python environment that has llmock, which the tests of the clients of models talk
//! to: made once in the target directory, and again when its pinned versions change.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::project::Project;
use crate::run::{self, note, step};

/// Set to `1`, it makes the absence of llmock a failure, here and in its tests.
const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_LLMOCK";

/// A copy of the list of versions, written when all of them are installed.
const STAMP: &str = ".installed";

/// Makes the environment, unless it is there.
///
/// Without Python or the network it is left out, and its tests say so; where
/// [`REQUIRE_VARIABLE`] is `1` that is an error.
pub(crate) fn install(project: &Project) -> anyhow::Result<()> {
    let directory = project.llmock();
    let versions = project.root.join("tests").join("llmock").join("requirements.txt");
    let wanted = fs::read(&versions)
        .with_context(|| format!("cannot read `{}`", project.shown(&versions)))?;
    let stamp = directory.join(STAMP);
    // Tried as well, for an environment does not outlive the Python that it was made with.
    let python = directory.join("bin").join("python");
    let is_installed = fs::read(&stamp).is_ok_and(|installed| installed == wanted)
        && run::works(&python.to_string_lossy(), &["-c", "import llmock"]);
    if is_installed {
        return Ok(());
    }
    step("Installing llmock");
    if let Err(error) = make(&directory, &versions) {
        if env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1") {
            bail!("cannot install llmock, and `{REQUIRE_VARIABLE}` asks for it: {error:#}");
        }
        note(&format!("llmock is not installed, and its tests are skipped: {error:#}"));
        return Ok(());
    }
    fs::write(&stamp, wanted).context("cannot mark llmock as installed")
}

fn make(directory: &Path, versions: &Path) -> anyhow::Result<()> {
    // What is left of other versions is no part of the new environment.
    run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(directory))?;
    let mut pip = Command::new(directory.join("bin").join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run::run(pip.args(["--only-binary=:all:", "--requirement"]).arg(versions))
}
