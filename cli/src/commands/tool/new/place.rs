//! The directory for a tool that is one file and needs no build: the user's tools, or another
//! directory.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ikigai_host::host::Host;

use crate::error::CliError;

/// The directory of a tool's file.
pub(super) struct ToolDirectory {
    pub(super) dir: PathBuf,
    /// True if ikigai finds tools there.
    pub(super) is_among_tools: bool,
}

impl ToolDirectory {
    /// Returns the named directory, or else the directory of the user's tools.
    pub(super) fn new(host: &Host, dir: Option<PathBuf>) -> Result<Self, CliError> {
        if let Some(dir) = dir {
            return Ok(Self { dir: std::path::absolute(dir)?, is_among_tools: false });
        }
        let dir = host.registry().paths().user_tools.clone().ok_or_else(|| {
            let what = "there is no directory for your tools";
            CliError::usage(anyhow::Error::msg(what))
                .hint("set HOME, or specify a directory with --user-tools or --dir")
        })?;
        Ok(Self { dir: std::path::absolute(dir)?, is_among_tools: true })
    }

    /// Checks that no tool has the name, since a file here would replace a built-in tool such as
    /// `grep`. `kind` is the flag that the user typed.
    pub(super) async fn check_free(
        &self,
        host: &Host,
        name: &str,
        kind: &str,
    ) -> Result<(), CliError> {
        if !self.is_among_tools {
            return Ok(());
        }
        let snapshot = host.look_up(name).await;
        let Some(tool) = snapshot.get(name) else { return Ok(()) };
        let what = format!("there is already a tool `{name}`: `{}`", tool.build.path.display());
        Err(CliError::usage(anyhow::Error::msg(what))
            .hint(format!("choose another name: `ikigai tool new my_{name} {kind}`")))
    }
}

/// Writes a new file with these permissions.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> Result<(), CliError> {
    let what = || format!("cannot write `{}`", path.display());
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(what).map_err(CliError::failed)?;
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(what).map_err(CliError::failed)
}
