//! `ikigai tool build`: builds the tool of a project, from its author's command to a checked file.
//!
//! ```text
//! tool.toml ──► command ──► component ──► manifest ──► checks ──► dist/NAME.wasm
//!               of the      or core       in its                  whole, or as it was
//!               author      module        section
//! ```

mod command;
mod component;
mod script;

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use clap::{Args, ValueHint};
use ikigai_host::paths::draft_directory_in;
use ikigai_packages::Manifest;
use ikigai_protocol::Digest;
use serde_json::json;
use tempfile::TempDir;

use super::check::{self, CheckFinding, CheckResults, Grade};
use crate::commands::cancelled_by_signals;
use crate::error::{self, CliError, with_path};
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use crate::shipping::ProjectDirectory;
use command::CommandEnd;

/// Example uses of the command.
pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool build                the project in this directory\n  \
    ikigai tool build word_count     the one in word_count/, to word_count/dist/word_count.wasm";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The project's directory
    #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let project = ProjectDirectory::read(&arguments.dir)?;
    let build = project.build()?;
    // Report a configuration mistake before the command runs for minutes.
    let host = options.host()?;
    let cancel = cancelled_by_signals()?;
    eprint(&format!("building {}\n", project.manifest().name));
    match command::run(build, &project.path, &cancel).await? {
        CommandEnd::Interrupted => return Ok(ExitCode::from(error::INTERRUPTED)),
        CommandEnd::With(status) if !status.success() => return Err(failed(status)),
        CommandEnd::With(_) => {}
    }
    let output = project.path.join(&build.output);
    let paths = options.paths();
    let manifest = project.manifest();
    let finished = async {
        let component = component::build(output, manifest.clone(), paths).await?;
        let staged = Staged::write(&project, &component)?;
        let CheckResults { mut findings, tool } =
            check::check(&host, &options.config, &staged.file).await;
        let name = tool.as_ref().map(|tool| tool.name());
        findings.push(manifest_finding(&staged.file, manifest, name));
        let good = findings.iter().all(|finding| finding.verdict != Grade::Bad);
        if good {
            staged.place(&project.built())?;
        }
        Ok::<_, CliError>((component, findings, good))
    };
    let Some(finished) = cancel.run_until_cancelled(finished).await else {
        return Ok(ExitCode::from(error::INTERRUPTED));
    };
    let (component, findings, good) = finished?;
    if arguments.json {
        print_json(&as_json(&project, &component, &findings, good))?;
    } else {
        print(&as_text(&project, &component, &findings, good))?;
    }
    Ok(ExitCode::from(if good { 0 } else { error::FAILED }))
}

/// Returns the error for a failed command.
fn failed(status: ExitStatus) -> CliError {
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended with {status}"),
    };
    let what = format!("the command in `[build]` {end}, and nothing was built");
    CliError::failed(anyhow::Error::msg(what)).hint("its output is above")
}

/// A finished tool next to its destination. It is removed with this value unless it is placed.
struct Staged {
    file: PathBuf,
    _directory: TempDir,
}

impl Staged {
    /// Writes the component with the manifest of the project. The file has its final name, because
    /// that is checked too.
    fn write(project: &ProjectDirectory, component: &[u8]) -> Result<Self, CliError> {
        let dist = project.built_directory();
        with_path(fs::create_dir_all(&dist), "make", &dist)?;
        let directory = with_path(draft_directory_in(&dist), "write to", &dist)?;
        let path = directory.path().join(project.file_name());
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(component)?;
            file.sync_all()
        };
        with_path(write(), "write", &path)?;
        Ok(Self { file: path, _directory: directory })
    }

    /// Replaces an earlier tool with this one. At every moment, either the old or the new tool is
    /// there.
    fn place(self, destination: &Path) -> Result<(), CliError> {
        with_path(fs::rename(&self.file, destination), "replace", destination)
    }
}

/// Checks that the file carries the manifest of its project, and that the manifest names the tool
/// in it.
fn manifest_finding(file: &Path, manifest: &Manifest, name: Option<&str>) -> CheckFinding {
    const CHECK: &str = "manifest";
    let carried = File::open(file).map_err(|error| error.to_string());
    let carried =
        carried.and_then(|file| Manifest::of_file(file).map_err(|error| format!("it {error}")));
    match carried {
        Ok(Some(carried)) if carried == *manifest => {}
        Ok(_) => return check::finding(CHECK, Grade::Bad, "the file does not carry it"),
        Err(reason) => return check::finding(CHECK, Grade::Bad, reason),
    }
    match name {
        Some(name) if name != manifest.name => {
            let text = format!(
                "the tool is `{}` in `tool.toml`, and `{name}` in the schema; use the same name",
                manifest.name
            );
            check::finding(CHECK, Grade::Bad, text)
        }
        _ => {
            let text = format!("version {}, needs {}", manifest.version, needs(manifest));
            check::finding(CHECK, Grade::Good, text)
        }
    }
}

fn needs(manifest: &Manifest) -> String {
    let needs: Vec<String> = manifest.needs.iter().map(|need| need.to_string()).collect();
    if needs.is_empty() { "nothing".to_owned() } else { needs.join(", ") }
}

fn as_text(
    project: &ProjectDirectory,
    component: &[u8],
    findings: &[CheckFinding],
    good: bool,
) -> String {
    let manifest = project.manifest();
    let to_tell = findings.iter().filter(|finding| finding.verdict != Grade::Good);
    let mut text: String = to_tell.map(CheckFinding::line).collect();
    text += &if good {
        format!(
            "name     {}\nversion  {}\nneeds    {}\nsize     {} bytes\nsha256   {}\npath     {}\n",
            manifest.name,
            manifest.version,
            needs(manifest),
            component.len(),
            Digest::from_bytes(component),
            project.built().display()
        )
    } else {
        format!("{} is not a tool that ikigai would offer; nothing was placed\n", manifest.name)
    };
    text
}

fn as_json(
    project: &ProjectDirectory,
    component: &[u8],
    findings: &[CheckFinding],
    good: bool,
) -> serde_json::Value {
    let manifest = project.manifest();
    json!({
        "name": manifest.name,
        "version": manifest.version.to_string(),
        "size": component.len(),
        "sha256": Digest::from_bytes(component),
        "path": good.then(|| project.built().to_string_lossy().into_owned()),
        "good": good,
        "findings": findings.iter().map(CheckFinding::as_json).collect::<Vec<_>>(),
    })
}
