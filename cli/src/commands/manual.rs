//! `ikigai __manual`: writes the manual pages, for installers.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;
use strum::VariantArray as _;

use super::Cli;
use crate::error::{CliError, with_path};
use crate::help::{self, Topic};

/// Writes a page for each command and for each topic of help into a directory.
pub(super) fn write(dir: &Path) -> Result<ExitCode, CliError> {
    clap_mangen::generate_to(help::for_manual(Cli::command()), dir)
        .with_context(|| format!("cannot write manual pages into `{}`", dir.display()))
        .map_err(CliError::failed)?;
    for (name, page) in Topic::VARIANTS.iter().filter_map(|topic| topic.manual_page()) {
        let path = dir.join(name);
        with_path(fs::write(&path, page), "write", &path)?;
    }
    Ok(ExitCode::SUCCESS)
}
