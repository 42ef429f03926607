//! `ikigai asset`: the user's commands for the assets under `ikigai://`.

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
use ikigai_assets::{AssetMetadata, Error, Store};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::options::SharedOptions;
use crate::remedy;
use ikigai_agent::assets::NotNamed;

#[derive(Debug, Subcommand)]
pub(super) enum AssetCommand {
    /// List assets with their token counts, or search them for a text
    #[command(after_help = list::EXAMPLES)]
    List(list::Arguments),
    /// Print an asset, or an older version of it
    Get(history::Get),
    /// Store a text as an asset under ikigai://, from a file or from stdin
    ///
    /// The previous text stays in the asset's history.
    #[command(after_help = change::PUT_EXAMPLES)]
    Put(change::Put),
    /// Change an asset in an editor
    ///
    /// Opens $VISUAL, or else $EDITOR, or else vi. Does not overwrite a change that someone else made in the
    /// meantime. If your text cannot be stored, it is saved in a file.
    Edit(edit::Arguments),
    /// Remove assets, but keep their versions
    ///
    /// `restore` brings a version back within 90 days. `purge` removes an asset with its versions.
    Rm(change::Remove),
    /// Permanently remove assets and all of their versions
    ///
    /// Also removes the versions of an asset that was removed before. Asks first, unless you give --yes.
    #[command(after_help = "Examples:\n  ikigai asset purge notes/draft.md\n  \
                            ikigai asset purge notes/draft.md notes/old.md --yes")]
    Purge(purge::Arguments),
    /// Show the versions of an asset
    Log(history::LogArguments),
    /// Restore an older version of an asset, as a new version
    Restore(history::Restore),
    /// Pin an asset into an agent's context, or show the pinned assets
    Pin(pins::PinArguments),
    /// Unpin an asset from an agent's context
    Unpin(pins::Unpin),
    /// Show the pinned assets and how full the store is
    Usage(pins::UsageArguments),
    /// Find broken references
    ///
    /// Searches all assets for `ikigai://` references and for file paths, which are relative to the
    /// workspace. Searches the files that you list for `ikigai://` references. Exits 1 if it finds
    /// a broken reference.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Arguments),
}

pub(super) async fn run(
    options: &SharedOptions,
    command: AssetCommand,
) -> Result<ExitCode, CliError> {
    let assets = options.assets()?;
    let store = assets.open().await?;
    let agent = options.agent()?;
    match command {
        AssetCommand::List(arguments) => list::run(store, &agent, arguments).await,
        AssetCommand::Get(arguments) => history::get(store, arguments).await,
        AssetCommand::Put(arguments) => change::put(&assets, &agent, arguments).await,
        AssetCommand::Edit(arguments) => {
            edit::run(store, &agent, arguments, &options.editor_gate()?).await
        }
        AssetCommand::Rm(arguments) => change::remove(store, &agent, arguments).await,
        AssetCommand::Purge(arguments) => purge::run(store, arguments).await,
        AssetCommand::Log(arguments) => history::log(store, arguments).await,
        AssetCommand::Restore(arguments) => history::restore(store, &agent, arguments).await,
        AssetCommand::Pin(arguments) => pins::pin(store, &agent, arguments).await,
        AssetCommand::Unpin(arguments) => pins::unpin(store, &agent, arguments).await,
        AssetCommand::Usage(arguments) => pins::usage(store, &agent, arguments).await,
        AssetCommand::Check(arguments) => check::run(store, &options.workspace()?, arguments).await,
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
async fn named(store: &Store, name: &str) -> Result<AssetMetadata, CliError> {
    Ok(ikigai_agent::assets::named(store, name).await?)
}

/// Returns an asset as JSON.
fn as_json(metadata: &AssetMetadata) -> Value {
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
