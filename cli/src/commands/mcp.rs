//! `ikigai mcp`: the Model Context Protocol.

mod add;
mod approve;
mod code;
mod http;
mod install;
pub(super) mod list;
mod login;
mod logout;
mod remove;
pub(super) mod session;
mod show;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use ikigai_agent::SHOWN_CHARACTERS;
use ikigai_host::policy::{Approve, Override, Overrides};
use ikigai_mcp::ServerIdentity;
use strum::VariantArray as _;
use tokio_util::sync::CancellationToken;

use super::cancelled_by_signals;
use crate::choice;
use crate::complete;
use crate::error::{self, CliError};
use crate::logging::{finish_log, log_in_background};
use crate::mcp::{HostOffer, ServeSettings};
use crate::options::SharedOptions;
use crate::output::eprint;
use crate::progress;
use http::{HttpArguments, HttpServerSetup};

#[derive(Debug, Subcommand)]
pub(super) enum McpCommand {
    /// Serve the tools to the MCP client that started ikigai, or to several over HTTP
    ///
    /// Supports revision 2026-07-28 of the protocol, and the earlier revisions, which begin with a handshake. Uses
    /// stdin and stdout, or HTTP. The policy, the limits and the audit log apply to each call as they do to `tool
    /// call`. Assets are offered as resources.
    #[command(after_help = SERVE)]
    Serve(Box<ServeArguments>),
    /// Add ikigai to the configuration of an MCP client, such as Claude Code
    ///
    /// The client then starts `mcp serve` in each project's directory, with the shared flags of this command. Nothing
    /// else in its file changes. Prints what else this client needs.
    #[command(after_help = install::EXAMPLES)]
    Install(install::Arguments),
    /// Remove ikigai from the configuration of an MCP client
    #[command(after_help = install::UNINSTALL)]
    Uninstall(install::Uninstall),
    /// Add an MCP server, whose tools models can call
    ///
    /// Defines the server in ~/.ikigai/tools, grants it what the flags list, starts it, and lists its tools. Models
    /// get the tools that you approve. Asks before each step if stdin is a terminal. If a server with this name exists,
    /// replaces its definition and its grant. If the server does not work, undoes everything.
    #[command(after_help = add::EXAMPLES)]
    Add(Box<add::Arguments>),
    /// List the MCP servers that you added
    List(list::Arguments),
    /// Show an MCP server and its current tools
    ///
    /// Starts the server. For a tool that changed since you approved it, prints a diff.
    Show(show::Arguments),
    /// Approve an MCP server's current tools
    ///
    /// Shows one line for each new tool, with the rest on demand, and a diff for each changed one. Until you approve
    /// them, new, changed and renamed tools are withheld. The others are offered.
    #[command(after_help = approve::EXAMPLES)]
    Approve(approve::Arguments),
    /// Log in to an MCP server over HTTP, with a browser
    ///
    /// The server names the issuer of its tokens. ikigai shows you the issuer before sending anything to the issuer.
    /// Prints the URL, opens it if stdout is a terminal, and waits for at most five minutes.
    #[command(after_help = login::EXAMPLES)]
    Login(Box<login::Arguments>),
    /// Delete an MCP server's tokens, and have the issuer revoke them
    Logout(logout::Arguments),
    /// Remove an MCP server, its grants and its tokens
    Remove(remove::Arguments),
}

/// Runs a command. `definition` makes the command definition of this program.
pub(super) async fn run(
    options: &SharedOptions,
    command: McpCommand,
    definition: fn() -> clap::Command,
) -> Result<ExitCode, CliError> {
    match command {
        McpCommand::Serve(arguments) => serve(options, *arguments).await,
        McpCommand::Install(arguments) => install::run(options, arguments, definition),
        McpCommand::Uninstall(arguments) => install::uninstall(options, &arguments),
        McpCommand::Add(arguments) => add::run(options, *arguments).await,
        McpCommand::List(arguments) => list::run(options, arguments).await,
        McpCommand::Show(arguments) => show::run(options, arguments).await,
        McpCommand::Approve(arguments) => approve::run(options, arguments).await,
        McpCommand::Login(arguments) => login::run(options, *arguments).await,
        McpCommand::Logout(arguments) => logout::run(options, arguments).await,
        McpCommand::Remove(arguments) => remove::run(options, arguments),
    }
}

/// The examples of `mcp serve`.
const SERVE: &str = "Examples:\n  \
    claude mcp add ikigai -- ikigai --workspace \"$PWD\" mcp serve\n  \
    ikigai mcp serve --tools grep,file_read\n  \
    ikigai mcp serve --http";

#[derive(Debug, Args)]
pub(super) struct ServeArguments {
    /// Offer only these tools, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = tool_name,
          add = complete::tools())]
    tools: Vec<String>,
    /// Limit on the characters of a result. A longer result is stored whole as an asset
    #[arg(long, value_name = "N", default_value_t = SHOWN_CHARACTERS,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1_000..))]
    max_result: usize,
    /// Have the client ask its user before these calls, and before the calls that the policy lists.
    /// A yes never grants more than the policy
    #[arg(long, value_name = "WHICH", value_parser = choice::parser(Approve::VARIANTS, approve_help))]
    approve: Option<Approve>,
    #[command(flatten)]
    http: HttpArguments,
}

/// Reads a name of `--tools`, which may have blanks around it.
fn tool_name(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("a name is missing"),
        name => Ok(name.to_owned()),
    }
}

fn approve_help(approve: Approve) -> Option<&'static str> {
    Some(match approve {
        Approve::None => "No further calls",
        Approve::Changes => "Calls that may write or reach other machines",
        Approve::Unlisted => "As `changes`, but for `bash` only the commands that no rule lists",
        Approve::Always => "All",
    })
}

async fn serve(options: &SharedOptions, arguments: ServeArguments) -> Result<ExitCode, CliError> {
    let ServeArguments { tools, max_result, approve, http } = arguments;
    log_in_background();
    let approve = approve.map(|value| Override { value, from: "--approve".into() });
    let overrides = Overrides { approve, ..options.overrides() };
    let (host, assets) = options.living_host(progress::reporter(), overrides, http.secrets())?;
    let cancel = cancelled_by_signals()?;
    let workspace = options.workspace()?;
    let server = ServerIdentity {
        name: "ikigai".to_owned(),
        title: "ikigai".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: format!(
            "These tools work in the directory {}. Each call is confined to what its policy \
             grants, except for tools whose description says that they run unconfined or elsewhere. \
             Limits end each call. A result that is cut names the asset with the whole. Files that \
             other programs execute without being told, such as .git/hooks, .git/config, .vscode and \
             .mcp.json, are read-only. If the user wants a change there, name the command that allows \
             it, such as: ikigai policy grant bash --write .git/config",
            workspace.display()
        ),
    };
    let asked = http.asked()?;
    let is_remote = asked.is_some();
    let settings = ServeSettings { tools, max_result, is_remote };
    let offer = HostOffer::new(host, assets, settings);
    offer.watch_changes();
    if let Err(missing) = offer.check_names().await {
        finish_log();
        let hint = "`ikigai tool list` lists the tools";
        return Err(CliError::usage(anyhow::Error::msg(missing)).hint(hint));
    }
    let served = match asked {
        Some(asked) => serve_http(offer, server, asked, cancel.clone()).await,
        None => {
            let served = ikigai_mcp::serve_stdio(Arc::new(offer), server, cancel.clone()).await;
            served.map_err(CliError::failed)
        }
    };
    finish_log();
    served?;
    let was_interrupted = cancel.is_cancelled();
    Ok(if was_interrupted { ExitCode::from(error::INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Serves clients over HTTP until `cancel` is cancelled.
async fn serve_http(
    offer: HostOffer,
    server: ServerIdentity,
    asked: HttpServerSetup,
    cancel: CancellationToken,
) -> Result<(), CliError> {
    let HttpServerSetup { address, settings, token, has_tls } = asked;
    let listener = ikigai_mcp::listen(address).map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("cannot listen at `{address}`"));
        CliError::failed(error)
            .hint("specify another address: `--http ADDR:PORT`; port 0 picks a free one")
    })?;
    let scheme = if has_tls { "https" } else { "http" };
    let mut told = format!("listening at {scheme}://{}/mcp\n", listener.local_addr()?);
    if let Some(token) = token {
        told.push_str(&format!("clients need the token in {}\n", token.display()));
    }
    eprint(&told);
    let offers = move |principal: &ikigai_mcp::Principal| Arc::new(offer.to(principal));
    let served = ikigai_mcp::serve_http(listener, offers, server, settings, cancel).await;
    served.map_err(CliError::failed)
}
