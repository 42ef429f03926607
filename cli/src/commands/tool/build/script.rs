//! The component for a script: the shell from the built-in tools, with the script in it.

use std::fs;
use std::path::Path;

use ikigai_host::exec::wasm::script;

use super::component::failed;
use crate::error::{CliError, with_path};

/// The component of the shell, which has room for a script.
const SHELL: &str = "bash.wasm";

/// Returns the component of the script in the file at `path`.
pub(super) fn component(
    system_tools: Option<&Path>,
    text: &[u8],
    path: &Path,
) -> Result<Vec<u8>, CliError> {
    let Some(shell) = system_tools.map(|dir| dir.join(SHELL)) else {
        let what = format!("the built-in tools are missing, and a script runs in their `{SHELL}`");
        return Err(CliError::failed(anyhow::Error::msg(what))
            .hint("specify the directory of the installed tools with `--system-tools`"));
    };
    let shell = with_path(fs::read(&shell), "read the shell of scripts,", &shell)?;
    script::embed(&shell, text).map_err(|error| failed(path, format!("cannot be a tool: {error}")))
}
