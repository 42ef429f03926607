//! `ikigai asset put` and `rm`.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgGroup, Args, ValueHint};
use ikigai_assets::{
    Agent, AssetMetadata, AssetPath, Author, ChangeCause, Error, MAX_ASSET_BYTES, Precondition,
    Store,
};
use serde_json::json;

use super::named;
use crate::complete;
use crate::error::CliError;
use crate::output::{eprint, print_json};
use ikigai_agent::assets::StoredAssets;
use ikigai_agent::assets::display;

pub(super) const PUT_EXAMPLES: &str = "Examples:\n  \
    ikigai asset put blocks/decisions.md notes.md\n  \
    git log --oneline | ikigai asset put blocks/history.md -\n  \
    ikigai asset put blocks/rules.md rules.md --read-only";

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("lock").args(["read_only", "writable"])))]
pub(in crate::commands) struct Put {
    /// The asset's full path, such as `blocks/decisions.md`
    #[arg(add = complete::assets())]
    path: String,
    /// The file; stdin if missing or `-`
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Write only if the asset has this version; 0 if it must not exist
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
    /// Make the asset read-only after this change
    #[arg(long)]
    read_only: bool,
    /// Make a read-only asset writable before this change
    #[arg(long)]
    writable: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn put(
    assets: &StoredAssets,
    agent: &Agent,
    arguments: Put,
) -> Result<ExitCode, CliError> {
    let store = assets.open().await?;
    let path = AssetPath::parse(&arguments.path).map_err(Error::from)?;
    let content = content(arguments.file)?;
    let expected = match arguments.if_version {
        None => Precondition::Any,
        Some(0) => Precondition::Absent,
        Some(version) => Precondition::Version(version),
    };
    let author = Author { agent: agent.clone(), cause: ChangeCause::Write };
    let written = if arguments.read_only || arguments.writable {
        store.put(&path, &content, &author, expected, arguments.read_only).await?
    } else {
        store.write(&path, &content, &author, expected).await?
    };
    if path.is_output() {
        assets.prune(store).await;
    }
    if arguments.json {
        print_json(&json!({
            "path": path.as_str(),
            "uri": path.to_uri(),
            "bytes": content.len(),
            "tokens": written.tokens,
            "version": written.version,
            "read_only": arguments.read_only,
        }))?;
    } else {
        let (uri, version) = (path.to_uri(), written.version);
        eprint(&format!("Wrote {uri}: version {version}, {}\n", display::tokens(written.tokens)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the content to write, at most as much as an asset can hold.
fn content(file: Option<PathBuf>) -> Result<Vec<u8>, CliError> {
    let mut content = Vec::new();
    let (read, name) = match file.filter(|file| file.as_os_str() != "-") {
        None => (
            std::io::stdin().lock().take(MAX_ASSET_BYTES + 1).read_to_end(&mut content),
            "stdin".to_owned(),
        ),
        Some(file) => {
            let read = std::fs::File::open(&file)
                .and_then(|open| open.take(MAX_ASSET_BYTES + 1).read_to_end(&mut content));
            (read, format!("`{}`", file.display()))
        }
    };
    read.with_context(|| format!("cannot read {name}")).map_err(CliError::usage)?;
    Ok(content)
}

#[derive(Debug, Args)]
pub(in crate::commands) struct Remove {
    /// The assets
    #[arg(required = true, add = complete::assets())]
    paths: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn remove(
    store: &Store,
    agent: &Agent,
    arguments: Remove,
) -> Result<ExitCode, CliError> {
    let mut removed = Vec::new();
    let mut done = Ok(());
    for name in &arguments.paths {
        match remove_one(store, agent, name).await {
            Ok(metadata) => removed.push(metadata),
            Err(error) => {
                done = Err(error);
                break;
            }
        }
    }
    // Print this even if one asset could not be removed: the others are gone.
    if arguments.json {
        let removed =
            removed.iter().map(|it| json!({ "path": it.path.as_str(), "version": it.version }));
        print_json(&json!({ "removed": removed.collect::<Vec<_>>() }))?;
    } else {
        for AssetMetadata { path, version, .. } in &removed {
            let name = path.as_str();
            // Outputs of tools have no history.
            let kept = format!(
                "; its versions stay: `ikigai asset restore {name} {version}` brings it back, \
                 `ikigai asset purge {name}` removes them"
            );
            let kept = if path.is_output() { "" } else { &kept };
            eprint(&format!("Removed {name}{kept}\n"));
        }
    }
    done.map(|()| ExitCode::SUCCESS)
}

async fn remove_one(store: &Store, agent: &Agent, name: &str) -> Result<AssetMetadata, CliError> {
    let metadata = named(store, name).await?;
    store.remove(&metadata.path, agent, Precondition::Version(metadata.version)).await?;
    Ok(metadata)
}
