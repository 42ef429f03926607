//! `ikigai __manual`: writes the manual pages, for installers.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

use super::Cli;
use crate::error::CliError;
use crate::help;

/// Writes a page for each command into a directory.
pub(super) fn write(dir: &Path) -> Result<ExitCode, CliError> {
    clap_mangen::generate_to(help::with_shared_flags(Cli::command()), dir)
        .with_context(|| format!("cannot write manual pages into `{}`", dir.display()))
        .map_err(CliError::failed)?;
    Ok(ExitCode::SUCCESS)
}
