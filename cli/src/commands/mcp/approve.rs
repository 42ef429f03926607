//! `ikigai mcp approve`: shows the current tools of a server, and asks the user to approve them.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Args;
use ikigai_host::Digest;
use ikigai_host::exec::mcp::ServerTarget;
use ikigai_host::host::Host;
use ikigai_host::policy::{Backend, NewKey, NewValue, Proposal};
use ikigai_host::registry::{
    ApprovalState, KnownServer, ListedTool, ServerDefinition, ServerState, server_request,
};
use serde_json::{Value, json};

use crate::commands::policy::{agreed_with_details, carry_out};
use crate::complete;
use crate::decision::Decided;
use crate::error::{self, CliError, with_path};
use crate::mcp::approved::Approved;
use crate::mcp::description;
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::person::UNCONFINED_MEANS;
use crate::remedy::policy::approve_command;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai mcp approve files\n  \
    ikigai mcp approve files read_file list_directory --yes";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The server
    #[arg(add = complete::servers())]
    name: String,
    /// Its tools, by the server's own names [default: all that are not approved]
    tools: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print the newly approved tools as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { name, tools: names, yes, json } = arguments;
    let host = options.host()?;
    let mut server = known(&host, &name).await?;
    let mut granted_again = false;
    // Bind the server's entry to its contents first. Otherwise ikigai does not even ask the server.
    if let (ServerState::Unusable(_), Some(definition)) = (&server.state, &server.definition) {
        let key = contents_key(&host, definition)?;
        let proposal = host.authority().propose_server(&name, &[key])?;
        if !proposal.is_unchanged() {
            // This is only for its warning: a denial is reported when the server is asked.
            let _ = decide_with(&host, definition, &proposal)?;
            if !carry_out(&proposal, yes)? {
                return Ok(ExitCode::from(error::FAILED));
            }
            granted_again = true;
            server = known(&host, &name).await?;
        }
    }
    let Some(approved) = tools(&host, &server, &names, yes)? else {
        return Ok(ExitCode::from(error::FAILED));
    };
    if json {
        let approved: Vec<Value> = approved.iter().map(as_json).collect();
        print_json(&json!({ "granted_again": granted_again, "approved": approved }))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(tool: &ListedTool) -> Value {
    json!({
        "name": tool.description.name,
        "offered_as": tool.name,
        "digest": tool.digest,
    })
}

/// Returns a server as it is now.
pub(super) async fn known(host: &Host, name: &str) -> Result<KnownServer, CliError> {
    host.registry().server(name).await.map_err(|reason| {
        CliError::usage(anyhow::Error::msg(reason)).hint("`ikigai mcp list` lists the servers")
    })
}

/// Decides about a server as if the proposal were written, and warns if it would run unconfined.
pub(super) fn decide_with(
    host: &Host,
    definition: &ServerDefinition,
    proposal: &Proposal,
) -> Result<Decided, CliError> {
    let contents = contents(host, definition)?;
    let request = server_request(definition, &contents, None);
    let decided = host.authority().decide_with(proposal, &request);
    if decided.as_ref().is_ok_and(|decision| decision.is_unconfined(Backend::Mcp)) {
        eprint(&format!(
            "warning: `{}` runs unconfined then: it can {UNCONFINED_MEANS}\n",
            definition.server.name
        ));
    }
    Ok(decided)
}

/// Returns whether the policy lets a server run with all rights of its user.
pub(super) fn is_unconfined(host: &Host, server: &KnownServer) -> bool {
    let Some(definition) = &server.definition else { return false };
    let Ok(contents) = host.registry().server_contents(definition) else { return false };
    let decided = host.authority().decide(&server_request(definition, &contents, None));
    decided.is_ok_and(|decision| decision.is_unconfined(Backend::Mcp))
}

/// Returns the hints for a server that cannot be used.
fn hints(host: &Host, server: &KnownServer) -> Vec<String> {
    let name = &server.name;
    let target = server.definition.as_ref().map(|definition| &definition.server.target);
    let is_process = matches!(target, Some(ServerTarget::Process { .. }));
    let is_sandboxed = is_process && !is_unconfined(host, server);
    let sandbox = is_sandboxed.then(|| SANDBOX_HINT.to_owned());
    let kept = format!(
        "`ikigai mcp approve {name}` asks it again; `ikigai mcp remove {name}` removes its definition \
         and its grant"
    );
    sandbox.into_iter().chain([kept]).collect()
}

/// The hint for a process that cannot be used.
pub(super) const SANDBOX_HINT: &str = "it runs in a sandbox, with the system's programs, its own \
    and what it was granted; if it loads other files, grant them with `ikigai mcp add` and --read \
    DIR";

/// Returns the key that binds the entry of a server to its definition and its program.
pub(super) fn contents_key(host: &Host, definition: &ServerDefinition) -> Result<NewKey, CliError> {
    let digests = contents(host, definition)?.iter().map(ToString::to_string).collect();
    Ok(("sha256".to_owned(), NewValue::List(digests)))
}

/// Returns the digests of the definition of a server and of its program.
fn contents(host: &Host, definition: &ServerDefinition) -> Result<Vec<Digest>, CliError> {
    let contents = host.registry().server_contents(definition);
    contents.map_err(|reason| CliError::failed(anyhow::Error::msg(reason)))
}

/// Shows the tools of a server that are not approved in their present form, and approves them if
/// the user agrees. Shows a new tool as one line, with the rest on demand, and a changed tool as a
/// diff. If `names` is empty, all tools are meant. Returns the newly approved tools, or `None` if
/// the user did not agree.
pub(super) fn tools(
    host: &Host,
    server: &KnownServer,
    names: &[String],
    yes: bool,
) -> Result<Option<Vec<ListedTool>>, CliError> {
    let name = &server.name;
    let listed = match &server.state {
        ServerState::Listed { tools, .. } => tools,
        ServerState::Unusable(reason) => {
            let error = CliError::failed(anyhow::Error::msg(reason.clone()));
            return Err(error.hints(hints(host, server)));
        }
        ServerState::NotAsked => {
            let what = format!("the server `{name}` was not asked for its tools");
            return Err(CliError::failed(anyhow::Error::msg(what)));
        }
    };
    let chosen = chosen(name, listed, names)?;
    if chosen.is_empty() {
        eprint(&format!("all {} tools of `{name}` are approved\n", offered(listed)));
        return Ok(Some(Vec::new()));
    }
    let kept = Approved::for_server(host, name);
    eprint("\n");
    let mut details = String::new();
    for tool in &chosen {
        let before = kept.before(host, tool);
        let whole = format!("\n{}", description::render(tool, before.as_ref()));
        match before {
            None => eprint(&description::in_short(tool)),
            Some(_) => eprint(&whole),
        }
        details.push_str(&whole);
    }
    if !yes {
        if !std::io::stdin().is_terminal() {
            let what = match chosen.len() {
                1 => format!("one tool of `{name}` needs approval"),
                number => format!("{number} tools of `{name}` need approval"),
            };
            let error = CliError::failed(anyhow::Error::msg(what));
            return Err(error.hint(approval_hint(name, names)));
        }
        let question = match chosen.len() {
            1 => "\nOffer this tool to models?".to_owned(),
            number => format!("\nOffer these {number} tools to models?"),
        };
        if !agreed_with_details(&question, &details)? {
            eprint("nothing was approved\n");
            return Ok(None);
        }
    }
    let key = |tool: &&ListedTool| {
        let digest = NewValue::Word(tool.digest.to_string());
        (format!("tools.{}", tool.description.name), digest)
    };
    let keys: Vec<NewKey> = chosen.iter().map(key).collect();
    let proposal = host.authority().propose_server(name, &keys)?;
    // The user agreed to the tools, and not to the file, which may have changed in the meantime.
    with_path(proposal.write_merged(), "write", &proposal.path)?;
    if let Err(error) = kept.keep(&chosen) {
        eprint(&format!("warning: later changes cannot be shown as a diff: {error:#}\n"));
    }
    let called = chosen.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
    eprint(&format!("approved, and offered as {called}\n"));
    Ok(Some(chosen.into_iter().cloned().collect()))
}

/// Returns the hint for a command that could not ask the user about tools of a server. `names` are
/// the chosen tools; all of them if it is empty.
fn approval_hint(server: &str, names: &[String]) -> String {
    let (asks, approves) =
        (approve_command(server, names, false), approve_command(server, names, true));
    let all = if names.is_empty() { "all of them" } else { "them" };
    format!(
        "`ikigai mcp show {server}` shows them in full; `{asks}` asks about them, and needs a \
         terminal; `{approves}` approves {all}"
    )
}

/// Returns the tools that are meant and not approved yet.
fn chosen<'a>(
    server: &str,
    listed: &'a [ListedTool],
    names: &[String],
) -> Result<Vec<&'a ListedTool>, CliError> {
    if names.is_empty() {
        let waits = |tool: &&ListedTool| {
            matches!(tool.standing, ApprovalState::New | ApprovalState::Changed)
        };
        return Ok(listed.iter().filter(waits).collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let found = listed.iter().find(|tool| tool.description.name == *name || tool.name == *name);
        let tool = found.ok_or_else(|| {
            let what = format!("the server `{server}` has no tool `{}`", name.escape_debug());
            let hint = format!("`ikigai mcp show {server}` lists its tools");
            CliError::usage(anyhow::Error::msg(what)).hint(hint)
        })?;
        match &tool.standing {
            ApprovalState::Approved => {}
            ApprovalState::New | ApprovalState::Changed => chosen.push(tool),
            ApprovalState::NotChosen => {
                let what = format!("the definition of `{server}` does not choose `{name}`");
                return Err(CliError::usage(anyhow::Error::msg(what)));
            }
            ApprovalState::Forbidden(reason) => {
                return Err(CliError::failed(anyhow::Error::msg(reason.clone())));
            }
        }
    }
    Ok(chosen)
}

/// Returns the number of tools that are offered.
pub(super) fn offered(listed: &[ListedTool]) -> usize {
    listed.iter().filter(|tool| tool.standing == ApprovalState::Approved).count()
}
