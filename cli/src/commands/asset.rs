//! `ikigai asset`: the commands of a person for the assets under `ikigai://`.

mod change;
mod check;
mod edit;
mod history;
mod list;
mod pins;
mod purge;

use std::process::ExitCode;
use std::time::SystemTime;

use clap::Subcommand;
use ikigai_assets::{Error, Metadata, Store};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::options::Options;
use crate::remedy;
use ikigai_agent::assets::NotNamed;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List assets, with their tokens, or search them for a text
    #[command(after_help = list::EXAMPLES)]
    List(list::Arguments),
    /// Print an asset, as it is or as it was
    Get(history::Get),
    /// Keep a text as an asset under ikigai://, from a file or from stdin
    ///
    /// The old text stays in the history of the asset.
    #[command(after_help = change::PUT_EXAMPLES)]
    Put(change::Put),
    /// Change an asset in an editor
    ///
    /// Opens $VISUAL, else $EDITOR, else vi. A change that somebody else made meanwhile is not
    /// overwritten, and a text that could not be stored is kept in a file.
    Edit(edit::Arguments),
    /// Remove assets; their versions stay
    ///
    /// `restore` brings a version back, as long as it is kept: 90 days. `purge` removes an asset with its
    /// versions.
    Rm(change::Remove),
    /// Remove assets with all of their versions, for ever
    ///
    /// Also removes the versions of an asset that was removed before. Asks before it does, unless --yes
    /// is given.
    #[command(after_help = "Examples:\n  ikigai asset purge notes/draft.md\n  \
                            ikigai asset purge notes/draft.md notes/old.md --yes")]
    Purge(purge::Arguments),
    /// Show the versions of an asset
    Log(history::Log),
    /// Bring a version of an asset back, as a new version
    Restore(history::Restore),
    /// Pin an asset into the context of an agent, or show the pinned ones
    Pin(pins::Pin),
    /// Take an asset out of the context of an agent
    Unpin(pins::Unpin),
    /// Show the pinned assets and the contents of the store
    Usage(pins::Usage),
    /// Find references that lead nowhere
    ///
    /// Searches all assets for `ikigai://` and for paths of files, which are relative to the
    /// workspace, and the files that are named for `ikigai://`. Exits 1 if it finds any.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
}

pub(super) async fn run(options: &Options, command: Command) -> Result<ExitCode, CliError> {
    let assets = options.assets()?;
    let store = assets.open().await?;
    let agent = options.agent()?;
    match command {
        Command::List(arguments) => list::run(store, &agent, arguments).await,
        Command::Get(arguments) => history::get(store, arguments).await,
        Command::Put(arguments) => change::put(&assets, &agent, arguments).await,
        Command::Edit(arguments) => edit::run(store, &agent, arguments).await,
        Command::Rm(arguments) => change::remove(store, &agent, arguments).await,
        Command::Purge(arguments) => purge::run(store, arguments).await,
        Command::Log(arguments) => history::log(store, arguments).await,
        Command::Restore(arguments) => history::restore(store, &agent, arguments).await,
        Command::Pin(arguments) => pins::pin(store, &agent, arguments).await,
        Command::Unpin(arguments) => pins::unpin(store, &agent, arguments).await,
        Command::Usage(arguments) => pins::usage(store, &agent, arguments).await,
        Command::Check(arguments) => check::run(store, &options.workspace()?, arguments).await,
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        let hint = remedy::asset::hint(&error);
        let is_usage = matches!(
            error,
            Error::Path(_) | Error::Agent(_) | Error::Url(_) | Error::SessionText(_)
        );
        let error = if is_usage { Self::usage(error) } else { Self::failed(error) };
        error.hints(hint)
    }
}

impl From<NotNamed> for CliError {
    fn from(missing: NotNamed) -> Self {
        let error = Self::from(missing.error);
        match missing.nearest {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        }
    }
}

/// Returns the asset with a path or a short name.
async fn named(store: &Store, name: &str) -> Result<Metadata, CliError> {
    Ok(ikigai_agent::assets::named(store, name).await?)
}

/// Returns an asset as JSON.
fn as_json(metadata: &Metadata) -> Value {
    json!({
        "path": metadata.path.as_str(),
        "uri": metadata.path.to_uri(),
        "bytes": metadata.size,
        "tokens": metadata.tokens,
        "version": metadata.version,
        "read_only": metadata.read_only,
        "updated_at": stamp(metadata.updated_at),
    })
}

/// Formats a time as RFC 3339 in UTC.
pub(super) fn stamp(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().to_string()
}

/// Formats a time in the time zone of this machine, to the second.
pub(super) fn local(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    let zoned = time.to_zoned(TimeZone::system());
    let rounded = zoned.round(Unit::Second).unwrap_or(zoned);
    rounded.strftime("%Y-%m-%d %H:%M:%S").to_string()
}
