//! `ikigai session import`: imports the JSON lines that `export` writes. Stores nothing if the
//! events do not make up a conversation.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow, bail, ensure};
use bytesize::ByteSize;
use clap::{Args, ValueHint};
use ikigai_agent::journal::{JournalEvent, Replayed, replay};
use ikigai_assets::{Agent, Error, NewEvent, NewSession, SessionEvent, Store};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::export::{FORMAT, VERSION};
use super::{LEASE, as_json, owner, released, turns};
use crate::error::CliError;
use crate::output::{eprint, print_json};

/// The bytes of the largest file. It is in memory as a whole, since its events are checked
/// together.
const MOST_BYTES: u64 = 64 << 20;

/// The most events of a file, which are written in one transaction.
const MOST_EVENTS: usize = 100_000;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The file; stdin if missing or `-`
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A file that was read and checked.
struct Imported {
    header: ImportHeader,
    events: Vec<SessionEvent>,
    replayed: Replayed,
}

/// The first line. Its other members are for people.
#[derive(Deserialize)]
struct ImportHeader {
    format: String,
    version: u64,
    title: Option<String>,
    provider: Option<String>,
    model: Option<String>,
}

/// Another line.
#[derive(Deserialize)]
struct ImportLine<'a> {
    seq: u64,
    kind: String,
    #[serde(borrow)]
    event: &'a RawValue,
}

pub(super) async fn run(
    store: &Store,
    agent: &Agent,
    workspace: &str,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let file = arguments.file.as_deref().filter(|file| file.as_os_str() != "-");
    let name = file.map_or("stdin".to_owned(), |file| format!("`{}`", file.display()));
    let imported = read(file)
        .and_then(|text| parse(&text))
        .with_context(|| format!("cannot import {name}"))
        .map_err(CliError::failed)?;
    let session = keep(store, agent, workspace, &imported).await?;
    let lost = &imported.replayed.open().calls;
    if !lost.is_empty() {
        let names: Vec<String> = lost.iter().map(|lost| format!("`{}`", lost.call.name)).collect();
        eprint(&format!(
            "warning: these calls have no results; ikigai tells the model that they may have run: \
             {}\n",
            names.join(", ")
        ));
    }
    if arguments.json {
        print_json(&as_json(&session))?;
    } else {
        eprint(&format!("Imported {}: {}\n", session.id, turns(session.turns)));
    }
    Ok(ExitCode::SUCCESS)
}

async fn keep(
    store: &Store,
    agent: &Agent,
    workspace: &str,
    imported: &Imported,
) -> Result<ikigai_assets::SessionSummary, Error> {
    let Imported { header: ImportHeader { title, provider, model, .. }, events, .. } = imported;
    let (title, provider) = (title.as_deref(), provider.as_deref());
    let new = NewSession { workspace, title, provider, model: model.as_deref() };
    let lease = store.create_session(agent, &new, &owner(), LEASE).await?;
    let events: Vec<NewEvent<'_>> = events
        .iter()
        .map(|SessionEvent { kind, json, begins_turn, .. }| NewEvent {
            kind,
            json,
            begins_turn: *begins_turn,
        })
        .collect();
    match store.append_events(&lease, 0, &events, LEASE).await {
        Ok(_) => released(store, &lease).await,
        Err(error) => {
            // The session is still empty. The first error is the one that matters.
            if let Err(error) = store.remove_session(&lease.session(), lease.owner()).await {
                tracing::warn!("an empty session remains: {error}");
            }
            Err(error)
        }
    }
}

/// Reads the file, up to the size limit.
fn read(file: Option<&Path>) -> anyhow::Result<String> {
    let source: Box<dyn Read> = match file {
        Some(file) => Box::new(File::open(file)?),
        None => Box::new(io::stdin()),
    };
    let mut bytes = Vec::new();
    source.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "it has more than {}, the limit",
        ByteSize(MOST_BYTES)
    );
    Ok(String::from_utf8(bytes)?)
}

/// Reads the lines, and checks that the events make up a conversation.
fn parse(text: &str) -> anyhow::Result<Imported> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().and_then(|(_, line)| serde_json::from_str::<ImportHeader>(line).ok());
    let header = header.filter(|header| header.format == FORMAT);
    let header = header
        .ok_or_else(|| anyhow!("its first line is not from `ikigai session export --jsonl`"))?;
    ensure!(
        header.version <= VERSION,
        "a newer version of ikigai exported it: its format is {}, and this program reads up to {VERSION}",
        header.version
    );
    let mut events: Vec<SessionEvent> = Vec::new();
    for (number, line) in lines {
        let line: ImportLine<'_> =
            serde_json::from_str(line).with_context(|| format!("line {number} is not an event"))?;
        let expected = events.len() as u64 + 1;
        if line.seq != expected {
            bail!("line {number} has event {}; expected event {expected}", line.seq);
        }
        ensure!(events.len() < MOST_EVENTS, "it has more than {MOST_EVENTS} events");
        let mut event = SessionEvent {
            seq: line.seq,
            kind: line.kind,
            json: line.event.get().to_owned(),
            begins_turn: false,
            written_at: SystemTime::now(),
        };
        event.begins_turn = JournalEvent::read(&event)?.begins_turn();
        events.push(event);
    }
    let replayed = replay(&events)?;
    Ok(Imported { header, events, replayed })
}
