//! `ikigai __precompile DIR`: fills the cache for a directory of built-in tools. An installer runs
//! it with the program that it has just installed, whose compiler makes the code that its engine
//! loads later.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::CliError;
use crate::output::eprint;
use crate::progress;
use ikigai_host::registry;

pub(super) async fn run(dir: PathBuf, compiler: Option<PathBuf>) -> Result<ExitCode, CliError> {
    let count = registry::precompile(&dir, compiler, progress::reporter())
        .await
        .map_err(|reason| CliError::failed(anyhow::Error::msg(reason)))?;
    eprint(&format!("{count} components are compiled\n"));
    Ok(ExitCode::SUCCESS)
}
