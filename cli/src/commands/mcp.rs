//! `ikigai mcp`: the Model Context Protocol.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use ikigai_mcp::Server;

use super::cancelled_by_signals;
use crate::complete;
use crate::error::{self, CliError};
use crate::logging::{finish_log, log_in_background};
use crate::mcp::install::{self, Client, Entry, Scope};
use crate::mcp::{HostOffer, Settings};
use crate::options::Options;
use crate::output::print_raw;
use crate::progress;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the tools to a client that started this program
    ///
    /// Speaks the revision 2026-07-28 of the protocol and those with a handshake before it, on
    /// stdin and stdout. Each call is decided by policy, limited and recorded as one of `tool
    /// call` is. Assets are offered as resources.
    #[command(after_help = SERVE)]
    Serve(ServeArguments),
    /// Put the server into the configuration of a client
    ///
    /// The client then starts `mcp serve` in the directory of each project. Everything else in its
    /// file stays as it is.
    #[command(after_help = INSTALL)]
    Install(InstallArguments),
}

/// The use of `mcp install`.
const INSTALL: &str = "Examples:\n  \
    ikigai mcp install claude-code\n  \
    ikigai mcp install vscode --scope project -- --tools grep,file_read\n  \
    ikigai --workspace ~/work mcp install claude-desktop";

/// The use of `mcp serve`.
const SERVE: &str = "Examples:\n  \
    claude mcp add ikigai -- ikigai --workspace \"$PWD\" mcp serve\n  \
    ikigai mcp serve --tools grep,file_read";

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    /// Offer these tools alone [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', add = complete::tools())]
    tools: Vec<String>,
    /// Characters of a result that a client gets. The whole of a longer one is kept as an asset
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1_000..))]
    max_result: usize,
}

#[derive(Debug, Args)]
pub(super) struct InstallArguments {
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

/// Puts the server into the configuration of a client. `command` is the definition of this program.
pub(super) fn install(
    options: &Options,
    arguments: InstallArguments,
    command: fn() -> clap::Command,
) -> Result<ExitCode, CliError> {
    let InstallArguments { client, scope, print, flags } = arguments;
    let served = ["ikigai", "mcp", "serve"].into_iter().chain(flags.iter().map(String::as_str));
    command().try_get_matches_from(served).map_err(|error| {
        let text = error.render().to_string();
        let reason = text.lines().next().unwrap_or_default();
        let reason = reason.trim_start_matches("error: ").to_owned();
        CliError::usage(anyhow::Error::msg(reason))
            .hint("`ikigai mcp serve --help` lists the flags that may follow `--`")
    })?;
    let workspace = match options.named_workspace()? {
        Some(dir) => dir.display().to_string(),
        None => client.workspace().map(ToOwned::to_owned).ok_or_else(|| {
            let error = "this client starts servers outside of any project";
            CliError::usage(anyhow::Error::msg(error))
                .hint("name the directory to work in: `ikigai --workspace DIR mcp install …`")
        })?,
    };
    let own = ["--workspace".to_owned(), workspace, "mcp".to_owned(), "serve".to_owned()];
    let program = install::program().map_err(CliError::failed)?;
    let entry = Entry {
        command: program.to_str().map(ToOwned::to_owned).ok_or_else(|| {
            let text = format!("the path of this program is not UTF-8: `{}`", program.display());
            CliError::failed(anyhow::Error::msg(text))
        })?,
        args: own.into_iter().chain(flags).collect(),
    };
    if print {
        let text = client.edited("", &entry).map_err(CliError::failed)?;
        print_raw(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = client.file(scope, &options.workspace()?).map_err(CliError::usage)?;
    let before = install::read(&file).map_err(CliError::failed)?;
    let after = client.edited(&before, &entry).map_err(|error| {
        let left = format!("`{}` was left as it is", file.display());
        CliError::failed(error.context(left))
            .hint("mend the file, or copy what `ikigai mcp install … --print` prints")
    })?;
    let place = file.display();
    if after == before {
        print_raw(format!("`{place}` already has this entry\n").as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let project = (scope == Scope::Project).then(|| options.workspace()).transpose()?;
    install::write(&file, project.as_deref(), &before, &after).map_err(CliError::failed)?;
    print_raw(
        format!("added `ikigai` to `{place}`; start the client anew to see it\n").as_bytes(),
    )?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn serve(
    options: &Options,
    arguments: ServeArguments,
) -> Result<ExitCode, CliError> {
    log_in_background();
    let (host, assets) = options.living_host(progress::reporter())?;
    let cancel = cancelled_by_signals()?;
    let workspace = options.workspace()?;
    let server = Server {
        name: "ikigai".to_owned(),
        title: "ikigai".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: format!(
            "These tools work in the directory {}. Each call is confined to what its policy \
             grants, and ended by limits. A result that is cut names the asset with the whole.",
            workspace.display()
        ),
    };
    let settings = Settings { tools: arguments.tools, max_result: arguments.max_result };
    let offer = Arc::new(HostOffer::new(host, assets, settings));
    offer.watch_changes();
    let served = ikigai_mcp::serve_stdio(offer, server, cancel.clone()).await;
    finish_log();
    served.map_err(CliError::failed)?;
    let was_interrupted = cancel.is_cancelled();
    Ok(if was_interrupted { ExitCode::from(error::INTERRUPTED) } else { ExitCode::SUCCESS })
}
