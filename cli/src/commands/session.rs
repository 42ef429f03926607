//! `ikigai session`: the user's commands for saved conversations.

mod change;
pub(super) mod export;
mod import;
mod list;
mod markdown;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use ikigai_agent::journal::{JournalEvent, ReplayError};
use ikigai_assets::{Error, Lease, SessionEvent, SessionId, SessionSummary, Store};
use serde_json::{Value, json};

use super::asset::{local, stamp};
use crate::error::CliError;
use crate::kept::{line, named};
use crate::options::SharedOptions;

/// The time for which a command leases a session that it makes. It releases the session at once.
const LEASE: Duration = Duration::from_secs(60);

/// The number of events that are read from the store at once.
const PAGE: u32 = 100;

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List the saved conversations of this workspace
    List(list::Arguments),
    /// Print a conversation, and mark what the model no longer sees
    Show(show::Arguments),
    /// Export a conversation as Markdown for people, or as JSON Lines for programs
    #[command(after_help = export::EXAMPLES)]
    Export(export::Arguments),
    /// Import a conversation that was exported as JSON Lines
    ///
    /// The conversation becomes a session of this workspace, with a new id. The model believes that everything in
    /// the file comes from you or from the model itself, so import only files that you trust.
    Import(import::Arguments),
    /// Copy a conversation, or its first turns
    ///
    /// The original does not change, and may be in use.
    Fork(change::Fork),
    /// Rename a conversation
    Rename(change::Rename),
    /// Permanently remove conversations
    Rm(change::RemoveArguments),
}

pub(super) async fn run(
    options: &SharedOptions,
    command: SessionCommand,
) -> Result<ExitCode, CliError> {
    let assets = options.assets()?;
    let store = assets.open().await?;
    let agent = options.agent()?;
    let workspace = || Ok::<_, CliError>(options.workspace()?.to_string_lossy().into_owned());
    match command {
        SessionCommand::List(arguments) => list::run(store, &agent, &workspace()?, arguments).await,
        SessionCommand::Show(arguments) => show::run(store, &agent, arguments).await,
        SessionCommand::Export(arguments) => export::run(store, &agent, arguments).await,
        SessionCommand::Import(arguments) => {
            import::run(store, &agent, &workspace()?, arguments).await
        }
        SessionCommand::Fork(arguments) => change::fork(store, &agent, arguments).await,
        SessionCommand::Rename(arguments) => change::rename(store, &agent, arguments).await,
        SessionCommand::Rm(arguments) => change::remove(store, &agent, arguments).await,
    }
}

/// Returns the title of a session for a table.
fn title(session: &SessionSummary) -> &str {
    session.title.as_deref().unwrap_or("-")
}

/// Returns the provider and the model that a session last used.
fn model(session: &SessionSummary) -> String {
    let names = [&session.provider, &session.model].into_iter().flatten();
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "-".to_owned() } else { names.join("/") }
}

fn turns(count: u64) -> String {
    format!("{count} turn{}", if count == 1 { "" } else { "s" })
}

/// Returns a session as JSON.
fn as_json(session: &SessionSummary) -> Value {
    json!({
        "id": session.id.to_string(),
        "agent": session.agent.as_str(),
        "workspace": session.workspace,
        "title": session.title,
        "provider": session.provider,
        "model": session.model,
        "forked_from": session.forked_from.map(|id| id.to_string()),
        "created_at": stamp(session.created_at),
        "updated_at": stamp(session.updated_at),
        "events": session.events,
        "turns": session.turns,
        "bytes": session.bytes,
        "in_use_by": session.holder.as_ref().map(|holder| &holder.owner),
    })
}

/// Calls `take` with all events of a session in order, with only some of them in memory at a time.
async fn each_event(
    store: &Store,
    id: &SessionId,
    mut take: impl FnMut(SessionEvent) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut after = 0;
    loop {
        let page = store.session_events(id, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        for event in page {
            take(event)?;
        }
    }
}

/// Returns all events of a session, as they are stored and as they are parsed.
async fn log(
    store: &Store,
    id: &SessionId,
) -> Result<(Vec<SessionEvent>, Vec<JournalEvent>), CliError> {
    let (mut kept, mut read) = (Vec::new(), Vec::new());
    each_event(store, id, |event| {
        read.push(JournalEvent::read(&event).map_err(|error| unreadable(id, error))?);
        kept.push(event);
        Ok(())
    })
    .await?;
    Ok((kept, read))
}

/// Returns the error for a session whose events do not make up a conversation.
fn unreadable(id: &SessionId, error: ReplayError) -> CliError {
    let error = anyhow::Error::from(error).context(format!("cannot read session `{id}`"));
    CliError::failed(error)
        .hint(format!("`ikigai session export {id} --jsonl` writes its events as they are"))
}

/// Returns the name under which this process leases a session.
fn owner() -> String {
    ikigai_agent::journal::owner()
}

/// Releases a session that this process has made, and returns it.
async fn released(store: &Store, lease: &Lease) -> Result<SessionSummary, Error> {
    let session = store.session(&lease.session()).await?;
    store.release_session(lease).await?;
    Ok(SessionSummary { holder: None, ..session })
}
