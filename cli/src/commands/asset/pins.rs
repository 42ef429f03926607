//! `ikigai asset pin`, `unpin` and `usage`: the assets in the context of an agent.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use ikigai_assets::{Agent, PinOutcome, Store};
use serde_json::{Value, json};

use super::{as_json, named, stamp};
use crate::complete;
use crate::error::CliError;
use crate::output::{print, print_json};
use ikigai_agent::assets::display;

#[derive(Debug, Args)]
pub(in crate::commands) struct PinArguments {
    /// The asset; without it, the pinned assets are shown
    #[arg(add = complete::assets())]
    path: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn pin(
    store: &Store,
    agent: &Agent,
    arguments: PinArguments,
) -> Result<ExitCode, CliError> {
    let Some(name) = &arguments.path else {
        return show(store, agent, arguments.json).await;
    };
    let path = named(store, name).await?.path;
    let pinned = store.pin(agent, &path).await?;
    let is_new = pinned == PinOutcome::Now;
    if arguments.json {
        print_json(&json!({
            "path": path.as_str(), "agent": agent.as_str(), "pinned": true, "changed": is_new,
        }))?;
    } else {
        print(&format!("{}\n", display::pinned(&path, pinned)))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub(in crate::commands) struct Unpin {
    /// The asset; it stays in the store
    #[arg(add = complete::assets())]
    path: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn unpin(
    store: &Store,
    agent: &Agent,
    arguments: Unpin,
) -> Result<ExitCode, CliError> {
    let path = named(store, &arguments.path).await?.path;
    let was_pinned = store.unpin(agent, &path).await?;
    if arguments.json {
        print_json(&json!({
            "path": path.as_str(), "agent": agent.as_str(), "pinned": false, "changed": was_pinned,
        }))?;
    } else {
        print(&format!("{}\n", display::unpinned(&path, was_pinned)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the pinned assets, in the order of pinning.
async fn show(store: &Store, agent: &Agent, json: bool) -> Result<ExitCode, CliError> {
    let pins = pins(store, agent).await?;
    let usage = store.usage(agent).await?;
    if json {
        let budget = usage.budget.0;
        print_json(&json!({
            "agent": agent.as_str(),
            "pins": pins.iter().map(|pin| pin.1.clone()).collect::<Vec<_>>(),
            "pinned_tokens": usage.pinned_tokens,
            "budget": budget,
        }))?;
    } else {
        let lines: String = pins.into_iter().map(|(line, _)| line).collect();
        print(&format!("{}\n{lines}", display::pins_heading(&usage)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a line and a JSON value for each pin.
async fn pins(store: &Store, agent: &Agent) -> Result<Vec<(String, Value)>, CliError> {
    let pins = store.pins(agent).await?;
    Ok(pins
        .iter()
        .map(|pin| {
            let mut value = as_json(&pin.metadata);
            value["pinned_at"] = stamp(pin.pinned_at).into();
            (display::listed(&pin.metadata) + "\n", value)
        })
        .collect())
}

#[derive(Debug, Args)]
pub(in crate::commands) struct UsageArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn usage(
    store: &Store,
    agent: &Agent,
    arguments: UsageArguments,
) -> Result<ExitCode, CliError> {
    let usage = store.usage(agent).await?;
    let pins = pins(store, agent).await?;
    if arguments.json {
        print_json(&json!({
            "store": store.url().to_string(),
            "agent": agent.as_str(),
            "budget": usage.budget.0,
            "pinned_documents": usage.pinned_assets,
            "pinned_tokens": usage.pinned_tokens,
            "pins": pins.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
            "documents": usage.assets,
            "tokens": usage.tokens,
            "outputs": usage.outputs,
            "output_tokens": usage.output_tokens,
            "old_versions": usage.old_versions,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = display::pins_heading(&usage) + "\n";
    pins.into_iter().for_each(|(line, _)| text.push_str(&line));
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "\nAgent:     {agent}");
    let _ = writeln!(text, "Store:     {}", store.url());
    let _ = writeln!(text, "Assets:    {}, {}", usage.assets, display::tokens(usage.tokens));
    let _ =
        writeln!(text, "Outputs:   {}, {}", usage.outputs, display::tokens(usage.output_tokens));
    let _ = writeln!(text, "History:   {} older versions", usage.old_versions);
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
