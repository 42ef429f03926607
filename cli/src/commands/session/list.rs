//! `ikigai session list`: a table of sessions for people, JSON for programs.

use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Args;
use ikigai_assets::{Agent, SessionFilter, Store};
use serde_json::json;

use super::{as_json, model, title};
use crate::commands::asset::local;
use crate::commands::tool::list::plain_table;
use crate::error::CliError;
use crate::output::{eprint, print, print_json};

/// The digits of an id in a table: the time to the millisecond, which identifies a session.
const ID: usize = 13;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// List the conversations of all workspaces
    #[arg(short, long)]
    all: bool,
    /// List at most N, newest first; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50)]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    store: &Store,
    agent: &Agent,
    workspace: &str,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let workspace = (!arguments.all).then_some(workspace);
    let filter = SessionFilter { agent, workspace };
    let limit = (arguments.limit > 0).then_some(arguments.limit);
    // One session more than is shown reveals whether there are more.
    let mut sessions = store.sessions(&filter, limit.map(|limit| limit.saturating_add(1))).await?;
    let shown = limit.map_or(sessions.len(), |limit| limit as usize);
    let is_cut = sessions.len() > shown;
    sessions.truncate(shown);
    if arguments.json {
        let sessions: Vec<_> = sessions.iter().map(as_json).collect();
        print_json(&json!({ "sessions": sessions, "is_cut": is_cut }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if sessions.is_empty() {
        let text = match workspace {
            Some(_) => "no sessions in this workspace; --all lists those of all\n",
            None => "no sessions\n",
        };
        eprint(text);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = plain_table();
    let mut header = vec!["ID", "TITLE", "TURNS", "SIZE", "MODEL", "LAST USED", ""];
    if arguments.all {
        header.push("WORKSPACE");
    }
    table.set_header(header);
    for session in &sessions {
        let in_use = if session.holder.is_some() { "in use" } else { "" };
        let mut row = vec![
            session.id.to_string()[..ID].to_owned(),
            title(session).to_owned(),
            session.turns.to_string(),
            ByteSize(session.bytes).to_string(),
            model(session),
            local(session.updated_at),
            in_use.to_owned(),
        ];
        if arguments.all {
            row.push(session.workspace.clone());
        }
        table.add_row(row);
    }
    print(&format!("{table}\n"))?;
    if is_cut {
        eprint("there are older ones; `-n N` lists N, `-n 0` lists all\n");
    }
    Ok(ExitCode::SUCCESS)
}
