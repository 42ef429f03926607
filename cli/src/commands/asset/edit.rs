//! `ikigai asset edit`: an asset in the user's own editor.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use ikigai_assets::{Agent, AssetPath, Author, ChangeCause, Error, Precondition, Store};
use serde_json::json;
use tempfile::NamedTempFile;

use super::named;
use crate::complete;
use crate::error::{self, CliError};
use crate::output::{eprint, print_json};
use crate::own_editor;
use crate::user_command::CommandGate;
use ikigai_agent::assets::display;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The asset; created if it does not exist
    #[arg(add = complete::assets())]
    path: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    store: &Store,
    agent: &Agent,
    arguments: Arguments,
    gate: &CommandGate,
) -> Result<ExitCode, CliError> {
    let before = before(store, &arguments.path).await?;
    let path = &before.path;
    // Editors recognise a file by its extension.
    let ending = Path::new(path.as_str()).extension().and_then(|it| it.to_str());
    let ending = ending.filter(|it| it.len() <= 16).map(|it| format!(".{it}"));
    let file = tempfile::Builder::new()
        .prefix("ikigai-")
        .suffix(ending.as_deref().unwrap_or_default())
        .tempfile();
    let mut file = file.context("cannot make a file to edit").map_err(CliError::failed)?;
    file.write_all(&before.content)?;
    file.flush()?;
    let edited = own_editor::edit(file.path(), gate);
    let edited = edited.map_err(|error| CliError::failed(error).hint("the asset is unchanged"));
    // Open the file again, because many editors replace it.
    let after = std::fs::read(file.path());
    match (edited, &after) {
        (Err(error), Ok(after)) if *after != before.content => return Err(kept(file, error)),
        (edited, _) => edited?,
    }
    let after = after
        .with_context(|| format!("cannot read `{}`", file.path().display()))
        .map_err(CliError::failed)?;
    let is_changed = after != before.content;
    if !is_changed {
        if arguments.json {
            print_json(&json!({ "path": path.as_str(), "changed": false }))?;
        } else {
            eprint(&format!("{} is unchanged\n", path.to_uri()));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let author = Author { agent: agent.clone(), cause: ChangeCause::Edit };
    match store.write(path, &after, &author, before.expected).await {
        Ok(written) if arguments.json => print_json(&json!({
            "path": path.as_str(),
            "changed": true,
            "version": written.version,
            "tokens": written.tokens,
        }))?,
        Ok(written) => {
            let (uri, version) = (path.to_uri(), written.version);
            eprint(&format!(
                "Wrote {uri}: version {version}, {}\n",
                display::tokens(written.tokens)
            ));
        }
        Err(error) => return Err(kept(file, error.into())),
    }
    Ok(ExitCode::SUCCESS)
}

/// The asset before the edit.
struct OriginalAsset {
    path: AssetPath,
    content: Vec<u8>,
    /// The version that the edit replaces, so that the edit overwrites no other change.
    expected: Precondition,
}

/// Reads the asset, which may not exist yet.
async fn before(store: &Store, name: &str) -> Result<OriginalAsset, CliError> {
    match named(store, name).await {
        Ok(metadata) => {
            if metadata.read_only {
                return Err(Error::ReadOnly(metadata.path).into());
            }
            let asset = store.read(&metadata.path).await?;
            let expected = Precondition::Version(asset.metadata.version);
            Ok(OriginalAsset { path: metadata.path, content: asset.content, expected })
        }
        Err(error) if error.exit == error::FAILED => {
            let path = AssetPath::parse(name).map_err(Error::from)?;
            // The name may have failed for another reason than a missing asset.
            match store.metadata(&path).await {
                Err(Error::NotFound(path)) => {
                    Ok(OriginalAsset { path, content: Vec::new(), expected: Precondition::Absent })
                }
                _ => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Keeps the file with a text that could not be stored, and adds its path to the error.
fn kept(file: NamedTempFile, error: CliError) -> CliError {
    match file.keep() {
        Ok((_, path)) => error.hint(format!("your text is saved in `{}`", path.display())),
        Err(lost) => error.hint(format!("your text could not be saved: {lost}")),
    }
}
