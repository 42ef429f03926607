//! `ikigai asset get`, `log` and `restore`: an asset and its older versions.

use std::process::ExitCode;

use clap::Args;
use ikigai_assets::{Agent, AssetPath, Author, ChangeCause, Error, Store, resolution};
use serde_json::{Value, json};

use super::{as_json, local, named, stamp};
use crate::commands::tool::list::plain_table;
use crate::complete;
use crate::error::{self, CliError};
use crate::output::{eprint, print, print_exact, print_json, print_raw};

#[derive(Debug, Args)]
pub(in crate::commands) struct Get {
    /// The asset: its path or a short name; `x` is the first that exists of `x`, `x.md`, `blocks/x` and
    /// `blocks/x.md`
    #[arg(add = complete::assets())]
    path: String,
    /// An older version, by its number
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Print JSON, with the size, the tokens and the version of the asset
    #[arg(long)]
    json: bool,
}

pub(super) async fn get(store: &Store, arguments: Get) -> Result<ExitCode, CliError> {
    let (mut value, content) = match arguments.version {
        None => {
            let path = named(store, &arguments.path).await?.path;
            let asset = store.read(&path).await?;
            (as_json(&asset.metadata), asset.content)
        }
        Some(version) => {
            let path = existing_or_removed(store, &arguments.path).await?;
            let snapshot = store.version(&path, version).await?;
            let value = json!({ "path": path.as_str(), "version": version });
            (value, snapshot.content)
        }
    };
    if arguments.json {
        value["content"] = String::from_utf8_lossy(&content).into();
        print_json(&value)?;
    } else if let Ok(text) = str::from_utf8(&content) {
        print_exact(text)?;
    } else {
        print_raw(&content)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the path of an asset, which may have been removed if it still has versions.
async fn existing_or_removed(store: &Store, name: &str) -> Result<AssetPath, CliError> {
    let missing = match named(store, name).await {
        Err(error) if error.exit == error::FAILED => error,
        found => return Ok(found?.path),
    };
    for path in resolution(name).map_err(Error::from)? {
        match store.log(&path).await {
            Ok(versions) if !versions.is_empty() => return Ok(path),
            Ok(_) | Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(missing)
}

#[derive(Debug, Args)]
pub(in crate::commands) struct LogArguments {
    /// The asset, which may have been removed
    #[arg(add = complete::assets())]
    path: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn log(store: &Store, arguments: LogArguments) -> Result<ExitCode, CliError> {
    let path = existing_or_removed(store, &arguments.path).await?;
    let versions = store.log(&path).await?;
    if arguments.json {
        let versions = versions.iter().map(|version| {
            let replaced = version.replaced.as_ref().map(|replaced| {
                json!({
                    "at": stamp(replaced.at),
                    "cause": replaced.cause.as_str(),
                    "agent": replaced.agent.as_str(),
                })
            });
            let Author { cause, agent } = &version.author;
            json!({
                "version": version.version,
                "bytes": version.size,
                "tokens": version.tokens,
                "written_at": stamp(version.written_at),
                "author": { "cause": cause.as_str(), "agent": agent.as_str() },
                "replaced": replaced,
            })
        });
        let versions: Vec<Value> = versions.collect();
        print_json(&json!({ "path": path.as_str(), "versions": versions }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = plain_table();
    table.set_header(["VERSION", "TOKENS", "WRITTEN", "BY", "REPLACED"]);
    for version in &versions {
        let Author { cause, agent } = &version.author;
        let by = format!("{}, {agent}", cause.as_str());
        let end = match &version.replaced {
            None => "-".to_owned(),
            // The next version does not name the agent that removed the asset.
            Some(end) if end.cause == ChangeCause::Remove => {
                format!("{}, removed by {}", local(end.at), end.agent)
            }
            Some(end) => local(end.at),
        };
        table.add_row([
            version.version.to_string(),
            version.tokens.to_string(),
            local(version.written_at),
            by,
            end,
        ]);
    }
    print(&format!("{}\n{table}\n", path.to_uri()))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub(in crate::commands) struct Restore {
    /// The asset, which may have been removed
    #[arg(add = complete::assets())]
    path: String,
    /// The number of the version, as `log` shows it
    version: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn restore(
    store: &Store,
    agent: &Agent,
    arguments: Restore,
) -> Result<ExitCode, CliError> {
    let path = existing_or_removed(store, &arguments.path).await?;
    let written = store.restore(&path, arguments.version, agent).await?;
    if arguments.json {
        print_json(&json!({
            "path": path.as_str(),
            "restored": arguments.version,
            "version": written.version,
            "tokens": written.tokens,
        }))?;
    } else {
        eprint(&format!(
            "Restored {path}: version {} has the text of version {}\n",
            written.version,
            arguments.version,
            path = path.as_str(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}
