//! `ikigai mcp`: the Model Context Protocol.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use ikigai_mcp::Server;

use super::cancelled_by_signals;
use crate::complete;
use crate::error::{self, CliError};
use crate::mcp::{HostOffer, Settings};
use crate::options::Options;
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
}

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

pub(super) async fn serve(
    options: &Options,
    arguments: ServeArguments,
) -> Result<ExitCode, CliError> {
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
    ikigai_mcp::serve_stdio(offer, server, cancel.clone()).await.map_err(CliError::failed)?;
    let was_interrupted = cancel.is_cancelled();
    Ok(if was_interrupted { ExitCode::from(error::INTERRUPTED) } else { ExitCode::SUCCESS })
}
