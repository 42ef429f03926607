//! The component examples of docs/writing-tools.md, built as the page says: by
//! the `build.sh` of each, in a copy under the target directory.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::place::{self, DATA, Placed};
use crate::project::Project;
use crate::run::{self, note, step};

/// What the build of an example needs that Rust's toolchain does not bring.
struct Needs {
    example: &'static str,
    program: &'static str,
    /// Arguments with which `program` exits 0 if it is good enough.
    probe: &'static [&'static str],
}

const NEEDS: &[Needs] = &[
    Needs { example: "python-component", program: "python3", probe: &["-c", "import ensurepip"] },
    Needs { example: "javascript-component", program: "npm", probe: &["--version"] },
];

/// What an example's `build.sh` leaves where it is run by hand.
const BUILT_IN_PLACE: &[&str] = &[".venv", "__pycache__", "node_modules", "target"];

/// Written when a build is complete.
const STAMP: &str = ".built";

/// Builds every example that has a `build.sh`, unless its files and the WIT are
/// those of the last build.
///
/// An example whose language is not on this machine is left out, and its tests
/// say so; in CI that is an error, because there nothing may be left out.
pub(crate) fn build(project: &Project) -> anyhow::Result<()> {
    let sources = project.root.join("tests").join("examples");
    for source in folders(&sources)? {
        if source.join("build.sh").is_file() {
            build_one(project, &source)?;
        }
    }
    Ok(())
}

fn build_one(project: &Project, source: &Path) -> anyhow::Result<()> {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let needs = NEEDS.iter().find(|needs| needs.example == name);
    if let Some(Needs { program, .. }) =
        needs.filter(|needs| !run::works(needs.program, needs.probe))
    {
        if env::var_os("CI").is_some() {
            bail!("the example `{name}` needs {program}, and in CI nothing may be left out");
        }
        note(&format!("the example `{name}` needs {program}; its tests are skipped"));
        return Ok(());
    }
    let directory = project.built_examples().join(&*name);
    let stamp = directory.join(STAMP);
    let wit = project.root.join("wit");
    let inputs = [(source, ""), (&wit, "wit")];
    let mut changed = !stamp.is_file();
    for (from, to) in inputs {
        changed |= copy_tree(from, &directory.join(to))?;
    }
    if !changed {
        return Ok(());
    }
    step(&format!("Building the example {name}"));
    if stamp.is_file() {
        fs::remove_file(&stamp).context("cannot mark the example as unbuilt")?;
    }
    let mut command = Command::new("sh");
    command
        .arg("build.sh")
        .current_dir(&directory)
        .env("WIT", directory.join("wit"))
        // A package of its own, as it is for its author.
        .env_remove("CARGO_TARGET_DIR");
    run::run(&mut command).with_context(|| format!("cannot build the example `{name}`"))?;
    fs::write(&stamp, "").context("cannot mark the example as built")
}

/// Copies the files below `from` that differ. True if any did.
fn copy_tree(from: &Path, to: &Path) -> anyhow::Result<bool> {
    place::directory(to)?;
    let mut changed = false;
    for (path, is_directory) in entries(from)? {
        if path.file_name().is_some_and(|name| BUILT_IN_PLACE.iter().any(|built| name == *built)) {
            continue;
        }
        let target = to.join(path.file_name().unwrap_or_default());
        changed |= if is_directory {
            copy_tree(&path, &target)?
        } else {
            place::file(&path, &target, DATA)? == Placed::Written
        };
    }
    Ok(changed)
}

fn folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    Ok(entries(path)?
        .into_iter()
        .filter(|(_, directory)| *directory)
        .map(|(path, _)| path)
        .collect())
}

/// What is in `path`, sorted, and whether each is a directory.
fn entries(path: &Path) -> anyhow::Result<BTreeMap<PathBuf, bool>> {
    let read = || {
        fs::read_dir(path)?
            .map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?.is_dir()))))
            .collect::<std::io::Result<_>>()
    };
    read().with_context(|| format!("cannot list `{}`", path.display()))
}
