//! `ikigai session show`: a conversation in readable form.

use std::process::ExitCode;

use clap::Args;
use ikigai_agent::journal::replay;
use ikigai_assets::{Agent, SessionSummary, Store};

use super::markdown::{ResultLength, Transcript};
use super::{as_json, log, named, unreadable};
use crate::complete;
use crate::error::CliError;
use crate::output::{print, print_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The conversation: its id, the beginning of its id, or its title
    #[arg(add = complete::sessions())]
    session: String,
    /// Print JSON, with the messages that are sent to the model
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    store: &Store,
    agent: &Agent,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let session = named(store, agent, &arguments.session).await?;
    if arguments.json {
        let (kept, _) = log(store, &session.id).await?;
        let replayed = replay(&kept).map_err(|error| unreadable(&session.id, error))?;
        let mut value = as_json(&session);
        value["notes"] = replayed.notes().into();
        value["messages"] = replayed.transcript();
        print_json(&value)?;
    } else {
        print(&markdown(store, &session, ResultLength::Beginnings).await?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a conversation as Markdown.
pub(super) async fn markdown(
    store: &Store,
    session: &SessionSummary,
    results: ResultLength,
) -> Result<String, CliError> {
    let (kept, read) = log(store, &session.id).await?;
    let replayed = replay(&kept).map_err(|error| unreadable(&session.id, error))?;
    let numbered = kept.iter().map(|event| event.seq).zip(read);
    let talk = Transcript { session, events: numbered.collect(), replayed, results };
    Ok(talk.render())
}
