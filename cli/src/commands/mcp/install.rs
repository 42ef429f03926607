//! `ikigai mcp install` and `uninstall`: the entry of the server in the file of a client.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::http;
use crate::error::CliError;
use crate::mcp::install::{self, Client, ClientFile, Entry, PATIENCE_SECONDS, Scope};
use crate::options::{Options, shell_time};
use crate::output::print_raw;

/// The use of `mcp install`.
pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai mcp install claude-code\n  \
    ikigai --timeout 10m mcp install codex\n  \
    ikigai mcp install vscode --scope project -- --tools grep,file_read\n  \
    ikigai --workspace ~/work mcp install claude-desktop";

/// The use of `mcp uninstall`.
pub(super) const UNINSTALL: &str = "Examples:\n  \
    ikigai mcp uninstall claude-code\n  \
    ikigai mcp uninstall vscode --scope project";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The client
    client: Client,
    /// The projects in which the client has the tools
    #[arg(long, default_value = "user")]
    scope: Scope,
    /// Print the entry, and change nothing
    #[arg(long)]
    print: bool,
    /// Flags of `mcp serve`
    #[arg(last = true, value_name = "SERVE-FLAG")]
    flags: Vec<String>,
}

#[derive(Debug, Args)]
pub(in crate::commands) struct Uninstall {
    /// The client
    client: Client,
    /// The projects in which the client has the tools
    #[arg(long, default_value = "user")]
    scope: Scope,
}

/// Puts the server into the configuration of a client. `command` is the definition of this program.
pub(super) fn run(
    options: &Options,
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
    let (opened, place) = open(options, client, scope)?;
    let before = opened.read().map_err(CliError::failed)?;
    let after = client.edited(&before, &entry).map_err(|error| {
        CliError::failed(error.context(format!("`{place}` was left as it is")))
            .hint("mend the file, or copy what `ikigai mcp install … --print` prints")
    })?;
    let done = if after == before {
        format!("`{place}` already has this entry\n")
    } else {
        opened.replace(&before, &after).map_err(CliError::failed)?;
        format!("put `ikigai` into `{place}`; start the client anew to see it\n")
    };
    let steps = client.next_steps(scope).into_iter().map(|step| format!("- {step}.\n"));
    let shared = (scope == Scope::Project)
        .then(|| "- Whoever opens the project needs `ikigai` on the PATH.\n".to_owned());
    print_raw(std::iter::once(done).chain(shared).chain(steps).collect::<String>().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Takes the entry out of the configuration of a client.
pub(super) fn uninstall(options: &Options, arguments: &Uninstall) -> Result<ExitCode, CliError> {
    let Uninstall { client, scope } = *arguments;
    let (opened, place) = open(options, client, scope)?;
    let before = opened.read().map_err(CliError::failed)?;
    let removed = client.removed(&before).map_err(|error| {
        CliError::failed(error.context(format!("`{place}` was left as it is")))
            .hint("mend the file, or remove its entry `ikigai` by hand")
    })?;
    let done = match removed {
        None => format!("`{place}` has no entry `ikigai`\n"),
        Some(after) => {
            opened.replace(&before, &after).map_err(CliError::failed)?;
            format!("removed `ikigai` from `{place}`; start the client anew\n")
        }
    };
    print_raw(done.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses flags that `mcp serve` does not have, or not for a client that starts it.
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
        let error = "the client starts the server and speaks with it over stdin and stdout";
        return Err(CliError::usage(anyhow::Error::msg(error))
            .hint("leave out `--http`; a server over HTTP is started by hand"));
    }
    Ok(())
}

fn entry(
    options: &Options,
    client: Client,
    scope: Scope,
    flags: Vec<String>,
) -> Result<Entry, CliError> {
    let own_word = client.workspace().map(ToOwned::to_owned);
    let named = options.named_workspace()?.map(|dir| dir.display().to_string());
    let workspace = match scope {
        // The file is in the workspace, and others have that elsewhere.
        Scope::Project => own_word.or(named),
        Scope::User => named.or(own_word),
    };
    let workspace = workspace.ok_or_else(|| {
        let error = "this client starts servers outside of any project";
        CliError::usage(anyhow::Error::msg(error))
            .hint("name the directory to work in: `ikigai --workspace DIR mcp install …`")
    })?;
    let command = match scope {
        Scope::Project => "ikigai".to_owned(),
        Scope::User => {
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
    Ok(Entry {
        command,
        args: own.chain(serve).chain(flags).collect(),
        seconds: whole + PATIENCE_SECONDS,
    })
}

/// Opens the file of a client. Returns its path as a person reads it, too.
fn open(options: &Options, client: Client, scope: Scope) -> Result<(ClientFile, String), CliError> {
    let file = client.file(scope, &options.workspace()?).map_err(CliError::usage)?;
    let project = (scope == Scope::Project).then(|| options.workspace()).transpose()?;
    let opened = ClientFile::open(&file, project.as_deref()).map_err(CliError::failed)?;
    Ok((opened, file.display().to_string()))
}
