//! The user's own editor: `$VISUAL`, `$EDITOR` or `vi`, on a file.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::user_command::CommandGate;
use crate::variables::ProgramVariable;

/// The editor if none is set; every system has it.
const EDITOR: &str = "vi";

/// Runs the editor on a file, and waits until it ends. As in other programs, the variable is a
/// command with its options. `gate` checks it first.
///
/// # Errors
///
/// Fails if a tool could change the editor, if it cannot be started, or if it fails itself.
#[allow(clippy::disallowed_methods, reason = "an editor of the person, and not a tool")]
pub(crate) fn edit(file: &Path, gate: &CommandGate) -> anyhow::Result<()> {
    let set = |variable: ProgramVariable| variable.value().filter(|value| !value.is_empty());
    let editor = set(ProgramVariable::Visual).or_else(|| set(ProgramVariable::Editor));
    let editor: OsString = editor.unwrap_or(EDITOR.into());
    let env = gate.env(&["/bin/sh".into(), "-c".into(), editor.clone()]).map_err(|reason| {
        anyhow::anyhow!("the editor `{}` was not started: {reason}", editor.display())
    })?;
    let mut command = OsString::from(&editor);
    command.push(" \"$1\"");
    // Ctrl-C is for the editor, and must not end this process. The editor starts with the default
    // actions of the signals that are handled here.
    let _interrupt = signal(SignalKind::interrupt())?;
    let _quit = signal(SignalKind::quit())?;
    let status = std::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .arg("sh")
        .arg(std::path::absolute(file).context("the file to edit has no absolute path")?)
        // In the current directory, the editor could load a file of a tool.
        .current_dir("/")
        .env_clear()
        .envs(env)
        .status()
        .context("cannot start a shell for the editor")?;
    if status.success() {
        return Ok(());
    }
    anyhow::bail!("the editor `{}` ended with {status}", editor.display());
}

/// Returns `text` as the user has edited it; `None` if it is empty or unchanged. `gate` checks the
/// editor.
///
/// # Errors
///
/// Fails if a tool could change the editor, if it cannot be started, if it fails itself, or if its
/// file cannot be read.
pub(crate) fn edited(text: &str, gate: &CommandGate) -> anyhow::Result<Option<String>> {
    let file = tempfile::Builder::new().prefix("ikigai-").suffix(".md").tempfile();
    let mut file = file.context("cannot make a file to edit")?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    edit(file.path(), gate)?;
    // Open the file again, because many editors replace it.
    let edited = std::fs::read_to_string(file.path())
        .with_context(|| format!("cannot read `{}`", file.path().display()))?;
    // Editors add a line end to the last line.
    let edited = edited.strip_suffix('\n').unwrap_or(&edited);
    Ok((!edited.trim().is_empty() && edited != text).then(|| edited.to_owned()))
}
