//! `ikigai mcp show`: everything known about one server, which is asked for its tools.

use std::process::ExitCode;

use clap::Args;
use ikigai_host::exec::mcp::ServerTarget;
use ikigai_host::host::Host;
use ikigai_host::policy::Sandbox;
use ikigai_host::registry::{KnownServer, ServerState};
use ikigai_protocol::written_out;

use super::approve::{is_unconfined, known};
use super::list::{as_json, target};
use super::session;
use crate::complete;
use crate::error::{self, CliError};
use crate::mcp::approved::Approved;
use crate::mcp::description;
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json};
use crate::person::UNCONFINED_MEANS;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The server
    #[arg(add = complete::servers())]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let server = known(&host, &arguments.name).await?;
    let is_usable = !matches!(server.state, ServerState::Unusable(_));
    let code = ExitCode::from(if is_usable { 0 } else { error::FAILED });
    if arguments.json {
        print_json(&as_json(&host, &server))?;
        return Ok(code);
    }
    let mut text = format!("{}\n{}\n", server.path.display(), target(&server));
    if let Some(state) = session::login_state(&host, &server) {
        text.push_str(&format!("{}\n", session::text(&state)));
    }
    if is_unconfined(&host, &server) {
        text.push_str(&format!("unconfined: it can {UNCONFINED_MEANS}\n"));
    }
    if let Some(network) = network(&host, &server) {
        text.push_str(&network);
    }
    match &server.state {
        ServerState::NotAsked => text.push_str("not asked yet\n"),
        ServerState::Unusable(reason) => text.push_str(&format!("not used: {reason}\n")),
        ServerState::Listed { tools, skipped } => {
            let kept = Approved::for_server(&host, &server.name);
            for tool in tools {
                let before = kept.before(&host, tool);
                text.push_str(&format!("\n{}", description::render(tool, before.as_ref())));
            }
            for (name, reason) in skipped {
                text.push_str(&format!("\n{} cannot be used: {reason}\n", written_out(name)));
            }
            if server.withheld().next().is_some() {
                let name = &server.name;
                eprint(&format!(
                    "`ikigai mcp approve {name}` offers those that are withheld: it asks at a \
                     terminal, and --yes approves all of them\n"
                ));
            }
        }
    }
    print(&text)?;
    Ok(code)
}

/// Returns a line about the hosts of a server in the sandbox; nothing for another server, and for
/// one that was granted nothing.
fn network(host: &Host, server: &KnownServer) -> Option<String> {
    let target = server.definition.as_ref().map(|definition| &definition.server.target);
    let written = host.authority().written_server(&server.name)?;
    if !matches!(target, Some(ServerTarget::Process { .. }))
        || written.sandbox == Some(Sandbox::Off)
    {
        return None;
    }
    let net = written.net.unwrap_or_default();
    if net.any {
        return Some("network: the whole network of this machine\n".to_owned());
    }
    let hosts = if net.is_none() { "no host".to_owned() } else { net.to_string() };
    let command = format!("ikigai policy suggest {}", server.name);
    Some(format!("network: {hosts}, through a proxy; `{command}` lists what the proxy refused\n"))
}
