//! `ikigai asset list`: all assets, or those that contain a text; a table for people, JSON for
//! programs.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ikigai_assets::{Agent, AssetMetadata, Error, Store};
use ikigai_terminal::one_line;
use serde_json::json;

use super::{as_json, local};
use crate::commands::tool::list::plain_table;
use crate::complete;
use crate::error::CliError;
use crate::output::{eprint, print, print_json};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai asset list\n  \
    ikigai asset list notes/ --search 'release date'";

/// The most characters of a matching line in the table.
const SHOWN: usize = 60;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Only assets whose path starts with this
    #[arg(default_value = "", hide_default_value = true, add = complete::assets())]
    prefix: String,
    /// Only assets with this text in their path or content; case-insensitive
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    search: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    store: &Store,
    agent: &Agent,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let assets = store.list(&arguments.prefix, None).await?;
    let found = match &arguments.search {
        None => assets.into_iter().map(|metadata| ListedAsset { metadata, line: None }).collect(),
        Some(text) => search(store, assets, text).await?,
    };
    let pins = store.pins(agent).await?;
    let pinned: HashSet<&str> = pins.iter().map(|pin| pin.metadata.path.as_str()).collect();
    if arguments.json {
        let assets = found.iter().map(|ListedAsset { metadata, line }| {
            let mut value = as_json(metadata);
            value["pinned"] = pinned.contains(metadata.path.as_str()).into();
            if arguments.search.is_some() {
                value["match"] = json!(
                    line.as_ref().map(|(number, text)| json!({ "line": number, "text": text }))
                );
            }
            value
        });
        print_json(&json!({ "documents": assets.collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        eprint(match (&arguments.search, arguments.prefix.as_str()) {
            (Some(_), _) => "no asset has this text\n",
            (None, "") => "no assets; `ikigai asset put PATH FILE` writes one\n",
            (None, _) => "no asset has a path that starts with this\n",
        });
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = plain_table();
    let last = if arguments.search.is_some() { "FOUND" } else { "" };
    table.set_header(["PATH", "TOKENS", "VERSION", "WRITTEN", last]);
    for ListedAsset { metadata, line } in &found {
        let is_pinned = pinned.contains(metadata.path.as_str());
        let marks = [(is_pinned, "pinned"), (metadata.read_only, "read-only")];
        let marks = marks.into_iter().filter_map(|(is, mark)| is.then_some(mark.to_owned()));
        let line = line.as_ref().map(|(number, text)| {
            let text: String = one_line(text.trim()).chars().take(SHOWN).collect();
            format!("{number}: {text}")
        });
        table.add_row([
            metadata.path.as_str(),
            &metadata.tokens.to_string(),
            &metadata.version.to_string(),
            &local(metadata.updated_at),
            &line.into_iter().chain(marks).collect::<Vec<_>>().join(", "),
        ]);
    }
    print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// An asset of the list, with its first matching line and the number of that line, from 1.
struct ListedAsset {
    metadata: AssetMetadata,
    line: Option<(usize, String)>,
}

/// Returns the assets whose path or lines contain a text.
async fn search(
    store: &Store,
    assets: Vec<AssetMetadata>,
    text: &str,
) -> Result<Vec<ListedAsset>, CliError> {
    let wanted = text.to_lowercase();
    let has = |line: &str| line.to_lowercase().contains(&wanted);
    let mut found = Vec::new();
    for metadata in assets {
        let asset = match store.read(&metadata.path).await {
            Ok(asset) => asset,
            // The asset was removed after the listing.
            Err(Error::NotFound(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        let content = String::from_utf8_lossy(&asset.content);
        let line = content.lines().enumerate().find(|(_, line)| has(line));
        let line = line.map(|(index, line)| (index + 1, line.to_owned()));
        if line.is_some() || has(metadata.path.as_str()) {
            found.push(ListedAsset { metadata, line });
        }
    }
    Ok(found)
}
