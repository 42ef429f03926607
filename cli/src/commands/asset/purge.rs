//! `ikigai asset purge`: removes assets with all of their versions.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use ikigai_assets::{AssetPath, Error, Store};
use serde_json::json;

use super::named;
use crate::commands::policy::agreed;
use crate::complete;
use crate::error::{self, CliError};
use crate::output::{eprint, print_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The assets; use the full path for one that was removed before
    #[arg(required = true, add = complete::assets())]
    paths: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(store: &Store, arguments: Arguments) -> Result<ExitCode, CliError> {
    let mut paths: Vec<AssetPath> = Vec::new();
    for name in &arguments.paths {
        let path = path_of(store, name).await?;
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    if !arguments.yes && !is_agreed(&paths)? {
        eprint("nothing was removed\n");
        return Ok(ExitCode::from(error::FAILED));
    }
    let mut purged = Vec::new();
    let mut done = Ok(());
    for path in paths {
        match store.purge(&path).await {
            Ok(versions) => purged.push((path, versions)),
            Err(error) => {
                done = Err(CliError::from(error));
                break;
            }
        }
    }
    // Print this even if one asset could not be purged: the others are gone.
    if arguments.json {
        let purged = purged
            .iter()
            .map(|(path, versions)| json!({ "path": path.as_str(), "versions": versions }));
        print_json(&json!({ "purged": purged.collect::<Vec<_>>() }))?;
    } else {
        for (path, versions) in &purged {
            let s = if *versions == 1 { "" } else { "s" };
            eprint(&format!("Permanently removed {}: {versions} version{s}\n", path.as_str()));
        }
    }
    done.map(|()| ExitCode::SUCCESS)
}

/// Returns the path of an asset, which may have been removed. Only an existing asset has short
/// names.
async fn path_of(store: &Store, name: &str) -> Result<AssetPath, CliError> {
    let path = AssetPath::parse(name).map_err(Error::from)?;
    match store.log(&path).await {
        Err(Error::NotFound(_)) => Ok(named(store, name).await?.path),
        found => Ok(found.map(|_| path)?),
    }
}

/// Asks the user whether to remove these assets permanently.
fn is_agreed(paths: &[AssetPath]) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() {
        let what = anyhow!(
            "nothing was removed: a purge is final, and ikigai needs a terminal to ask you"
        );
        return Err(CliError::failed(what).hint("add --yes"));
    }
    for path in paths {
        eprint(&format!("{}\n", path.as_str()));
    }
    agreed("Permanently remove this with all versions?")
}
