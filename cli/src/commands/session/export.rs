//! `ikigai session export`: a conversation as Markdown, or its events as JSON lines.
//!
//! The first line describes the session. Each other line has an event, byte for byte as stored.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueHint};
use ikigai_assets::{Agent, SessionEvent, SessionSummary, Store};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::markdown::ResultLength;
use super::{as_json, each_event, named, show, stamp};
use crate::complete;
use crate::error::CliError;
use crate::output::{eprint, print_exact};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai session export 019f6b2e-7a41 talk.md\n  \
    ikigai session export 'fix the parser' --jsonl | ssh elsewhere ikigai session import";

/// The name of the form of the lines.
pub(super) const FORMAT: &str = "ikigai-session";

/// The version of that form.
pub(super) const VERSION: u64 = 1;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The conversation: its id, the beginning of its id, or its title
    #[arg(add = complete::sessions())]
    session: String,
    /// The file, which must not exist; stdout if missing or `-`
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Write JSON Lines for `ikigai session import`
    #[arg(long)]
    jsonl: bool,
}

pub(super) async fn run(
    store: &Store,
    agent: &Agent,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let session = named(store, agent, &arguments.session).await?;
    let file = arguments.file.as_deref().filter(|file| file.as_os_str() != "-");
    let Some(path) = file else {
        write(store, &session, arguments.jsonl, print_exact).await?;
        return Ok(ExitCode::SUCCESS);
    };
    write_file(store, &session, path, arguments.jsonl).await?;
    eprint(&format!("Wrote {}\n", path.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes a session to a new file, as JSON lines or as Markdown. Fails if the file exists. Removes
/// a file that could not be written completely.
pub(crate) async fn write_file(
    store: &Store,
    session: &SessionSummary,
    path: &Path,
    as_lines: bool,
) -> Result<(), CliError> {
    let cannot_write = || format!("cannot write `{}`", path.display());
    let file = File::create_new(path).with_context(cannot_write).map_err(CliError::failed)?;
    let mut out = BufWriter::new(file);
    let put = |text: &str| {
        let written = out.write_all(text.as_bytes());
        written.with_context(cannot_write).map_err(CliError::failed)
    };
    let mut written = write(store, session, as_lines, put).await;
    if written.is_ok() {
        written = out.flush().with_context(cannot_write).map_err(CliError::failed);
    }
    if written.is_err() {
        // A partial file would look like the whole conversation. The first error is the one that
        // matters.
        if let Err(error) = fs::remove_file(path) {
            tracing::warn!("a part of the session remains in `{}`: {error}", path.display());
        }
    }
    written
}

/// Passes the text of a session to `put`, in parts.
async fn write(
    store: &Store,
    session: &SessionSummary,
    as_lines: bool,
    mut put: impl FnMut(&str) -> Result<(), CliError>,
) -> Result<(), CliError> {
    if !as_lines {
        return put(&show::markdown(store, session, ResultLength::Whole).await?);
    }
    let mut header = serde_json::Map::new();
    header.insert("format".to_owned(), FORMAT.into());
    header.insert("version".to_owned(), VERSION.into());
    if let Value::Object(described) = as_json(session) {
        header.extend(described);
    }
    put(&format!("{}\n", Value::Object(header)))?;
    each_event(store, &session.id, |event| put(&line(&event)?)).await
}

/// A line with an event.
#[derive(Serialize)]
struct ExportLine<'a> {
    seq: u64,
    kind: &'a str,
    written_at: String,
    event: &'a RawValue,
}

/// Returns the line of an event.
fn line(event: &SessionEvent) -> Result<String, CliError> {
    let SessionEvent { seq, kind, json, written_at, .. } = event;
    // A line feed between the members would end the line.
    let raw = serde_json::from_str::<&RawValue>(json).ok().filter(|_| !json.contains('\n'));
    let raw =
        raw.ok_or_else(|| CliError::failed(anyhow!("event {seq} is not JSON in one line")))?;
    let line = ExportLine { seq: *seq, kind, written_at: stamp(*written_at), event: raw };
    Ok(serde_json::to_string(&line)? + "\n")
}
