//! `ikigai session fork`, `rename` and `rm`.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use ikigai_assets::{Agent, SessionSummary, Store};
use serde_json::json;

use super::{LEASE, as_json, line, named, owner, released, turns};
use crate::commands::policy::agreed;
use crate::complete;
use crate::error::{self, CliError};
use crate::output::{eprint, print_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Fork {
    /// The conversation: its id, the beginning of its id, or its title
    #[arg(add = complete::sessions())]
    session: String,
    /// Copy only the first N turns
    #[arg(long, value_name = "N")]
    turns: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn fork(
    store: &Store,
    agent: &Agent,
    arguments: Fork,
) -> Result<ExitCode, CliError> {
    let original = named(store, agent, &arguments.session).await?;
    let up_to = match arguments.turns {
        None => original.events,
        Some(asked) if asked > original.turns => {
            let has = turns(original.turns);
            let what = anyhow!("session `{}` has {has}, not {asked}", original.id);
            return Err(CliError::usage(what));
        }
        Some(asked) => store.end_of_turn(&original.id, asked).await?,
    };
    let lease = store.fork_session(&original.id, up_to, agent, &owner(), LEASE).await?;
    let session = released(store, &lease).await?;
    if arguments.json {
        print_json(&as_json(&session))?;
    } else {
        let (of, id) = (original.id, session.id);
        eprint(&format!("Forked {of} into {id}: {}\n", turns(session.turns)));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub(in crate::commands) struct Rename {
    /// The conversation: its id, the beginning of its id, or its title
    #[arg(add = complete::sessions())]
    session: String,
    /// The new title
    title: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn rename(
    store: &Store,
    agent: &Agent,
    arguments: Rename,
) -> Result<ExitCode, CliError> {
    let session = named(store, agent, &arguments.session).await?;
    store.rename_session(&session.id, &arguments.title).await?;
    if arguments.json {
        print_json(&as_json(&store.session(&session.id).await?))?;
    } else {
        eprint(&format!("Renamed {} to {}\n", session.id, arguments.title));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
pub(in crate::commands) struct RemoveArguments {
    /// The conversations: each by its id, the beginning of its id, or its title
    #[arg(required = true, add = complete::sessions())]
    sessions: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn remove(
    store: &Store,
    agent: &Agent,
    arguments: RemoveArguments,
) -> Result<ExitCode, CliError> {
    let mut sessions: Vec<SessionSummary> = Vec::new();
    for name in &arguments.sessions {
        let session = named(store, agent, name).await?;
        if sessions.iter().all(|it| it.id != session.id) {
            sessions.push(session);
        }
    }
    if !arguments.yes && !is_agreed(&sessions)? {
        eprint("nothing was removed\n");
        return Ok(ExitCode::from(error::FAILED));
    }
    let mut removed = Vec::new();
    let mut done = Ok(());
    for session in &sessions {
        if let Err(error) = store.remove_session(&session.id, &owner()).await {
            done = Err(CliError::from(error));
            break;
        }
        removed.push(session);
    }
    // Print this even if one session could not be removed: the others are gone.
    if arguments.json {
        let removed: Vec<String> = removed.iter().map(|session| session.id.to_string()).collect();
        print_json(&json!({ "removed": removed }))?;
    } else {
        for session in removed {
            eprint(&format!("Removed {}\n", session.id));
        }
    }
    done.map(|()| ExitCode::SUCCESS)
}

/// Asks the user whether to remove these sessions.
fn is_agreed(sessions: &[SessionSummary]) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        let what = anyhow!(
            "nothing was removed: a removal is final, and ikigai needs a terminal to ask you"
        );
        return Err(CliError::failed(what).hint("add --yes"));
    }
    for session in sessions {
        eprint(&format!("{}, {}\n", line(session), turns(session.turns)));
    }
    let question = match sessions {
        [_] => "Permanently remove it?".to_owned(),
        _ => format!("Permanently remove these {} sessions?", sessions.len()),
    };
    agreed(&question)
}
