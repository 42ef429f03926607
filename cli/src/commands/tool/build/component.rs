//! Turns the output of a command into the file of a tool: a component, a core module or a script.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use ikigai_host::exec::wasm::check_core_module;
use ikigai_host::paths::Paths;
use ikigai_packages::Manifest;
use ikigai_packages::section::{MAGIC, MAX_FILE_BYTES};

use super::script;
use crate::error::CliError;

/// The beginning of every script.
const SCRIPT: &[u8] = b"#!";

/// Returns the file that a command wrote, with a manifest in it. A script becomes part of the shell
/// component among the built-in tools.
pub(super) async fn build(
    output: PathBuf,
    manifest: Manifest,
    Paths { system_tools, .. }: Paths,
) -> Result<Vec<u8>, CliError> {
    let made = tokio::task::spawn_blocking(move || {
        let (file, head) = open(&output)?;
        let component = if head == MAGIC {
            of_wasm(file, &output)?
        } else if head.starts_with(SCRIPT) {
            of_script(file, &output, system_tools.as_deref())?
        } else {
            return Err(unknown(&output));
        };
        manifest.embed(&component).map_err(|error| failed(&output, error.to_string()))
    });
    made.await.map_err(CliError::failed)?
}

/// Opens a file, and returns its first bytes. A later read still starts at the beginning.
fn open(path: &Path) -> Result<(File, Vec<u8>), CliError> {
    let opened = || {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if file.metadata()?.len() > MAX_FILE_BYTES {
            let most = MAX_FILE_BYTES >> 20;
            return Err(io::Error::other(format!("it is larger than {most} MiB")));
        }
        let mut head = Vec::new();
        (&file).take(MAGIC.len() as u64).read_to_end(&mut head)?;
        file.seek(SeekFrom::Start(0))?;
        Ok((file, head))
    };
    opened().map_err(|error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let what = match is_missing {
            true => format!("the command wrote no `{}`", path.display()),
            false => format!("cannot read `{}`", path.display()),
        };
        let error = CliError::failed(anyhow::Error::new(error).context(what));
        error.hints(
            is_missing.then_some("`output` of `[build]` names the file that the command writes"),
        )
    })
}

/// Reads a component or a core module, which stays unchanged.
fn of_wasm(mut file: File, path: &Path) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    check_core_module(&bytes).map_err(|error| failed(path, error.to_string()))?;
    Ok(bytes)
}

fn of_script(
    mut file: File,
    path: &Path,
    system_tools: Option<&Path>,
) -> Result<Vec<u8>, CliError> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    script::component(system_tools, &text, path)
}

/// Returns the error for a refused file. The reason completes a sentence that begins with the file.
pub(super) fn failed(path: &Path, reason: String) -> CliError {
    CliError::failed(anyhow::Error::msg(format!("`{}` {reason}", path.display())))
}

fn unknown(path: &Path) -> CliError {
    failed(path, "is neither WebAssembly nor a script that begins with `#!`".to_owned()).hint(
        "have the command compile for wasm32-wasip2, or for wasm32-wasip1 (also called wasm32-wasi)",
    )
}
