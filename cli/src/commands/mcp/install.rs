//! `ikigai mcp install` and `uninstall`: the server's entry in a client's configuration file.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum as _};
use ikigai_host::policy::shell_quoted;

use super::http;
use crate::commands::policy::with_tilde;
use crate::error::CliError;
use crate::mcp::install::{
    self, ClientFile, ClientProgram, EntryScope, PATIENCE_SECONDS, ServerEntry, home, is_bare,
};
use crate::options::{SharedOptions, shell_time};
use crate::output::print_raw;

/// The examples of `mcp install`.
pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai mcp install claude-code\n  \
    ikigai --timeout 10m mcp install codex\n  \
    ikigai mcp install vscode --scope project -- --tools grep,file_read\n  \
    ikigai --workspace ~/work mcp install claude-desktop";

/// The examples of `mcp uninstall`.
pub(super) const UNINSTALL: &str = "Examples:\n  \
    ikigai mcp uninstall claude-code\n  \
    ikigai mcp uninstall vscode --scope project";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The client
    client: ClientProgram,
    /// The projects in which the client gets the tools
    #[arg(long, default_value = "user")]
    scope: EntryScope,
    /// Print the entry without changing anything
    #[arg(long)]
    print: bool,
    /// Flags of `mcp serve`
    #[arg(last = true, value_name = "SERVE-FLAG")]
    flags: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::commands) struct Uninstall {
    /// The client
    client: ClientProgram,
    /// The projects in which the client gets the tools
    #[arg(long, default_value = "user")]
    scope: EntryScope,
}

/// Adds the server to the configuration of a client. `command` makes the definition of this
/// program.
pub(super) fn run(
    options: &SharedOptions,
    arguments: Arguments,
    command: fn() -> clap::Command,
) -> Result<ExitCode, CliError> {
    let Arguments { client, scope, print, flags } = arguments;
    check_flags(&flags, command)?;
    let entry = entry(options, client, scope, flags)?;
    if print {
        let text = client.edited("", &entry).map_err(CliError::failed)?;
        print_raw(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let project = options.workspace()?;
    let file = client.file(scope, &project).map_err(CliError::usage)?;
    let (opened, place) = (open(&file, scope, &project)?, shown(&file));
    let before = opened.read().map_err(CliError::failed)?;
    let after = client.edited(&before, &entry).map_err(|error| {
        CliError::failed(error.context(format!("`{place}` was not changed")))
            .hint("fix the file, or copy the entry that `ikigai mcp install … --print` prints")
    })?;
    let done = if after == before {
        format!("`{place}` already has this entry\n")
    } else {
        opened.replace(&before, &after).map_err(CliError::failed)?;
        format!("added `ikigai` to `{place}`; restart the client to use it\n")
    };
    let steps = client.next_steps(scope).into_iter().map(|step| format!("- {step}\n"));
    let shared = (scope == EntryScope::Project)
        .then(|| "- Everyone who opens the project needs `ikigai` on their PATH.\n".to_owned());
    let undo = format!("undo: `{}`\n", undo_line(options, client, scope)?);
    let lines = std::iter::once(done).chain(shared).chain(steps).chain([undo]);
    print_raw(lines.collect::<String>().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the entry from the configuration of a client.
pub(super) fn uninstall(
    options: &SharedOptions,
    arguments: &Uninstall,
) -> Result<ExitCode, CliError> {
    let Uninstall { client, scope } = *arguments;
    let project = options.workspace()?;
    let file = client.file(scope, &project).map_err(CliError::usage)?;
    // Opening a file makes its directory.
    if matches!(file.try_exists(), Ok(false)) {
        return Err(no_entry(client, scope, &file, &project));
    }
    let (opened, place) = (open(&file, scope, &project)?, shown(&file));
    let before = opened.read().map_err(CliError::failed)?;
    let removed = client.removed(&before).map_err(|error| {
        CliError::failed(error.context(format!("`{place}` was not changed")))
            .hint("fix the file, or remove its entry `ikigai` by hand")
    })?;
    let Some(after) = removed else { return Err(no_entry(client, scope, &file, &project)) };
    // A link may lead into a collection of files, so its file stays.
    let done = if is_bare(&after) && !opened.is_link() {
        let root = match scope {
            EntryScope::User => home().context("HOME is not set").map_err(CliError::usage)?,
            EntryScope::Project => project,
        };
        opened.remove(&before, &root).map_err(CliError::failed)?;
        format!(
            "removed `ikigai`, and with it `{place}`, which had nothing else; restart the client\n"
        )
    } else {
        opened.replace(&before, &after).map_err(CliError::failed)?;
        format!("removed `ikigai` from `{place}`; restart the client\n")
    };
    print_raw(done.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the error for a file without the entry. Its hint names the other scope if that has the
/// entry.
fn no_entry(client: ClientProgram, scope: EntryScope, file: &Path, project: &Path) -> CliError {
    let error = anyhow::Error::msg(format!("`{}` has no entry `ikigai`", shown(file)));
    let error = CliError::failed(error);
    let other = match scope {
        EntryScope::User => EntryScope::Project,
        EntryScope::Project => EntryScope::User,
    };
    // A client without project files, or a file that cannot be read, has no entry to name.
    let Ok(other_file) = client.file(other, project) else { return error };
    let text = fs::read_to_string(&other_file).unwrap_or_default();
    if !matches!(client.removed(&text), Ok(Some(_))) {
        return error;
    }
    error.hint(match other {
        EntryScope::Project => {
            let name = other_file.strip_prefix(project).unwrap_or(&other_file);
            format!("this project's {} has one: add `--scope project`", name.display())
        }
        EntryScope::User => format!("{} has one: leave out `--scope project`", shown(&other_file)),
    })
}

/// Returns the command that removes an entry.
fn undo_line(
    options: &SharedOptions,
    client: ClientProgram,
    scope: EntryScope,
) -> Result<String, CliError> {
    let name = client.to_possible_value().map(|value| value.get_name().to_owned());
    let name = name.unwrap_or_default();
    if scope == EntryScope::User {
        return Ok(format!("ikigai mcp uninstall {name}"));
    }
    let workspace = options.named_workspace()?;
    let workspace =
        workspace.map(|dir| format!("--workspace {} ", shell_quoted(&dir.display().to_string())));
    let workspace = workspace.unwrap_or_default();
    Ok(format!("ikigai {workspace}mcp uninstall {name} --scope project"))
}

/// Refuses flags that `mcp serve` does not have, or that do not suit a client that starts it.
fn check_flags(flags: &[String], command: fn() -> clap::Command) -> Result<(), CliError> {
    let served = ["ikigai", "mcp", "serve"].into_iter().chain(flags.iter().map(String::as_str));
    let parsed = command().try_get_matches_from(served).map_err(|error| {
        let text = error.render().to_string();
        let reason = text.lines().next().unwrap_or_default();
        let reason = reason.trim_start_matches("error: ").to_owned();
        CliError::usage(anyhow::Error::msg(reason))
            .hint("`ikigai mcp serve --help` lists the flags that may follow `--`")
    })?;
    if http::is_asked_for(&parsed) {
        let error = "the client starts the server and talks to it over stdin and stdout";
        return Err(CliError::usage(anyhow::Error::msg(error))
            .hint("leave out `--http`; start an HTTP server yourself: `ikigai mcp serve --http`"));
    }
    Ok(())
}

fn entry(
    options: &SharedOptions,
    client: ClientProgram,
    scope: EntryScope,
    flags: Vec<String>,
) -> Result<ServerEntry, CliError> {
    let own_word = client.workspace().map(ToOwned::to_owned);
    let named = options.named_workspace()?.map(|dir| dir.display().to_string());
    let workspace = match scope {
        // The file is in the workspace, and other users have that workspace at another path.
        EntryScope::Project => own_word.or(named),
        EntryScope::User => named.or(own_word),
    };
    let workspace = workspace.ok_or_else(|| {
        let error = "this client starts servers outside of any project";
        CliError::usage(anyhow::Error::msg(error))
            .hint("specify the directory to work in: `ikigai --workspace DIR mcp install …`")
    })?;
    let command = match scope {
        EntryScope::Project => "ikigai".to_owned(),
        EntryScope::User => {
            let program = install::program().map_err(CliError::failed)?;
            program.to_str().map(ToOwned::to_owned).ok_or_else(|| {
                let text =
                    format!("the path of this program is not UTF-8: `{}`", program.display());
                CliError::failed(anyhow::Error::msg(text))
            })?
        }
    };
    let shared = options.typed_flags()?;
    let own = ["--workspace".to_owned(), workspace].into_iter().chain(shared);
    let serve = ["mcp", "serve"].map(str::to_owned);
    let time = options.timeout().unwrap_or_else(shell_time);
    let whole = time.as_secs() + u64::from(time > Duration::from_secs(time.as_secs()));
    Ok(ServerEntry {
        command,
        args: own.chain(serve).chain(flags).collect(),
        seconds: whole + PATIENCE_SECONDS,
    })
}

/// Opens the file of a client.
fn open(file: &Path, scope: EntryScope, project: &Path) -> Result<ClientFile, CliError> {
    let project = (scope == EntryScope::Project).then_some(project);
    ClientFile::open(file, project).map_err(CliError::failed)
}

/// Returns the path of a file as messages show it.
fn shown(file: &Path) -> String {
    with_tilde(&file.display().to_string(), home().as_ref())
}
