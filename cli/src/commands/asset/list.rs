//! `ikigai asset list`: a table of assets for a person, JSON for a program.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use ikigai_assets::{Agent, Store};

use super::{as_json, local};
use crate::commands::tool::list::plain_table;
use crate::complete;
use crate::error::CliError;
use crate::output::{eprint, print, print_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Only assets whose path begins with this
    #[arg(default_value = "", hide_default_value = true, add = complete::assets())]
    prefix: String,
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
    let pins = store.pins(agent).await?;
    let pinned: HashSet<&str> = pins.iter().map(|pin| pin.metadata.path.as_str()).collect();
    if arguments.json {
        let assets = assets.iter().map(|metadata| {
            let mut value = as_json(metadata);
            value["pinned"] = pinned.contains(metadata.path.as_str()).into();
            value
        });
        print_json(&serde_json::json!({ "documents": assets.collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if assets.is_empty() {
        let text = if arguments.prefix.is_empty() {
            "no assets; `ikigai asset put PATH FILE` writes one\n"
        } else {
            "no asset has a path that begins so\n"
        };
        eprint(text);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = plain_table();
    table.set_header(["PATH", "TOKENS", "VERSION", "WRITTEN", ""]);
    for metadata in &assets {
        let is_pinned = pinned.contains(metadata.path.as_str());
        let marks = [(is_pinned, "pinned"), (metadata.read_only, "read-only")];
        let marks: Vec<&str> =
            marks.into_iter().filter_map(|(is, mark)| is.then_some(mark)).collect();
        table.add_row([
            metadata.path.as_str(),
            &metadata.tokens.to_string(),
            &metadata.version.to_string(),
            &local(metadata.updated_at),
            &marks.join(", "),
        ]);
    }
    print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}
