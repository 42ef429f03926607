//! `ikigai policy grant`: writes an entry for a tool into the user's policy file.

mod lists;
pub(super) mod server;
pub(super) mod toolchain;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice::from_ref;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use strum::VariantArray as _;

use self::lists::ListChange;
use self::toolchain::Toolchains;
use super::carry_out;
use crate::choice;
use crate::commands::tool::list::{print_not_offered, print_warnings};
use crate::commands::tool::named::named_tool;
use crate::complete;
use crate::decision;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::person::UNCONFINED_MEANS;
use ikigai_host::Digest;
use ikigai_host::host::{CallTarget, Host, request};
use ikigai_host::limits;
use ikigai_host::policy::{
    Access, AssetAccess, Backend, BackendChoice, Denial, LayerKind, LimitKey, Net, NewKey,
    NewValue, Peer, PeerHost, Proposal, Provenance, Remedy, RequestedAccess, Sandbox, Shortfall,
    ToolOrigin, WrittenPath, check_variable, executed_place, parse_limit, unconfining_keys,
};
use ikigai_host::registry::Tool;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai policy grant bash --read ~/data\n  \
    ikigai policy grant bash --limit wall_clock=5m --limit memory=1GiB\n  \
    ikigai policy grant customer_db --net db.internal:5432 --env CUSTOMER_DB\n  \
    ikigai policy grant formatter --write . --limit wall_clock=5s --limit memory=256MiB\n  \
    ikigai policy grant grep --replace --read docs --yes\n  \
    ikigai policy grant bash --toolchain rust --toolchain node\n  \
    ikigai policy grant deploy --unconfined\n\n\
    A grant adds to what the tool has. A limit replaces the earlier limit of the same name. With \
    --replace, the flags replace the lists that they name: --read and --write the directories, \
    --net the hosts, --env the variables.\n\
    A native tool connects to its hosts through a proxy, whose address is in HTTP_PROXY and \
    similar variables. A program that ignores these variables cannot connect.";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool, by the name that `tool list` shows
    #[arg(add = complete::tools())]
    tool: String,
    /// A directory or a file to read; a path in the workspace is saved as a relative path, and so
    /// applies in every workspace
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    read: Vec<PathBuf>,
    /// A directory or a file to read and write
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    write: Vec<PathBuf>,
    /// A host to connect to; `*.a.example:443` is every name with one label before `.a.example`.
    /// `*` means every public host for a component, and the whole network for a native tool,
    /// including this machine
    #[arg(long, alias = "connect", value_name = "HOST:PORT")]
    net: Vec<String>,
    /// An environment variable that the tool may see
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// A toolchain to run: grants its directories on this machine (read-only), the caches that it
    /// must write, and its variables
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = toolchain::names())]
    toolchain: Vec<String>,
    /// The access to assets (`ikigai://`)
    #[arg(long, value_name = "ACCESS",
          value_parser = choice::parser(AssetAccess::VARIANTS, assets_help))]
    assets: Option<AssetAccess>,
    /// The rule for a native call if the sandbox cannot enforce the grant
    #[arg(long, value_name = "HOW", value_parser = choice::parser(Sandbox::VARIANTS, sandbox_help))]
    sandbox: Option<Sandbox>,
    /// Run your own native tool with all of your rights, without a sandbox
    #[arg(long, conflicts_with_all = ["read", "write", "net", "sandbox", "toolchain"])]
    unconfined: bool,
    /// A limit: wall_clock, fuel, memory, output, handles or processes
    #[arg(long, value_name = "LIMIT=VALUE", value_parser = limit)]
    limit: Vec<(LimitKey, String)>,
    /// Replace the lists that the flags name, instead of adding to them
    #[arg(long)]
    replace: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Returns whether a flag names something that an entry lists.
    fn names_lists(&self) -> bool {
        let Self { read, write, net, env, toolchain, assets, .. } = self;
        let lists = [read.is_empty(), write.is_empty(), net.is_empty(), env.is_empty()];
        !lists.iter().all(|is_empty| *is_empty) || !toolchain.is_empty() || assets.is_some()
    }
}

fn assets_help(access: AssetAccess) -> Option<&'static str> {
    Some(match access {
        AssetAccess::None => "Nothing",
        AssetAccess::Read => "Read and list them",
        AssetAccess::Write => "Also write and edit them",
    })
}

fn sandbox_help(sandbox: Sandbox) -> Option<&'static str> {
    Some(match sandbox {
        Sandbox::Off => "The call runs anyway; your own native tool runs unconfined",
        Sandbox::Prefer => {
            "The call runs with the limits that can be enforced, which ikigai reports"
        }
        Sandbox::Require => "The call does not run",
    })
}

pub(in crate::commands) fn limit(text: &str) -> Result<(LimitKey, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as wall_clock=5s")?;
    let key = limit_key(name)?;
    if matches!(key, LimitKey::Memory | LimitKey::Output) {
        limits::check_unit(value).map_err(|what| format!("`{value}` {what}"))?;
    }
    parse_limit(key, value)?;
    Ok((key, value.to_owned()))
}

/// Returns the limit of this name.
pub(super) fn limit_key(name: &str) -> Result<LimitKey, String> {
    let names = || LimitKey::VARIANTS.iter().map(|key| key.as_str()).collect::<Vec<_>>().join(", ");
    name.parse().map_err(|_| format!("unknown limit `{name}`; expected one of {}", names()))
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.look_up(&arguments.tool).await;
    print_warnings(&snapshot);
    print_not_offered(&host, &snapshot, from_ref(&arguments.tool));
    server::refuse(&snapshot, &arguments)?;
    let tool = named_tool(&snapshot, &arguments.tool)?;
    refuse_denied(&host, tool)?;
    let before = host.decide(tool.into());
    let mut keys = keys(&host, tool, &arguments, options.backend_to_write())?;
    let mut change = ListChange::new(&host, tool, &arguments)?;
    let toolchains = Toolchains::add(&host, tool, &arguments, &mut change.lists)?;
    toolchains.show();
    for note in change.notes(&arguments) {
        eprint(&format!("{note}\n"));
    }
    keys.extend(change.keys());
    let gains = Gains::new(&keys, &before, arguments.names_lists());
    if gains == Gains::Known {
        eprint(&format!("`{}` has all of this already; nothing was changed\n", tool.name()));
        if arguments.json {
            print_json(&json!({ "tool": tool.name(), "toolchains": toolchains.as_json() }))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if gains == Gains::Nothing {
        return Err(nothing_to_grant(tool, &before));
    }
    let proposal = host.authority().propose_grant(tool.name(), &keys)?;
    let decided = checked(&host, tool, &proposal)?;
    check_environment(tool, &arguments, (&before, &decided))?;
    for warning in out_of_reach(&arguments.net, tool.build.backend()) {
        eprint(&format!("warning: {warning}\n"));
    }
    if let Ok(decision) = &decided
        && decision.is_unconfined(tool.build.backend())
    {
        eprint(&format!(
            "warning: `{}` runs unconfined then: it can {UNCONFINED_MEANS}\n",
            tool.name()
        ));
    }
    for reached in lost(&before, &decided) {
        eprint(&format!("warning: `{}` can then no longer {reached}\n", tool.name()));
    }
    if arguments.replace {
        for what in lost_names(&before, &decided) {
            eprint(&format!("warning: `{}` can then no longer {what}\n", tool.name()));
        }
    }
    let effect = GrantEffect::new(tool, &proposal, &decided);
    effect.warn();
    if !carry_out(&proposal, arguments.yes)? {
        return Ok(ExitCode::from(error::FAILED));
    }
    let backend = tool.build.backend();
    if arguments.json {
        let mut value = json!({
            "tool": tool.name(),
            "policy": proposal.path.to_string_lossy(),
            "sandbox": decision::isolation(&host, tool, &decided).await,
        });
        if let (serde_json::Value::Object(value), serde_json::Value::Object(decision)) =
            (&mut value, decision::as_json(backend, &decided))
        {
            value.extend(decision);
            value.insert("taken_away".to_owned(), effect.as_json());
            if !arguments.toolchain.is_empty() {
                value.insert("toolchains".to_owned(), toolchains.as_json());
            }
        }
        print_json(&value)?;
    }
    Ok(effect.conclude())
}

/// Refuses to grant anything to a tool that the user's own file denies by its name. Such an entry
/// has no effect until its author removes the line.
fn refuse_denied(host: &Host, tool: &Tool) -> Result<(), CliError> {
    let Some(at) = host.authority().denied_at(tool.name()) else { return Ok(()) };
    Err(CliError::failed(anyhow::Error::msg(denied_text(tool.name(), &at))))
}

/// Returns the sentence about a tool that a line of the user's own file denies.
pub(super) fn denied_text(name: &str, at: &Provenance) -> String {
    format!("`{name}` is denied by {at}; remove that line to let it run")
}

/// Tells whether an entry with these keys gives a tool something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gains {
    /// The entry has new keys, or the tool runs only with an entry, which may be empty.
    Something,
    /// The flags name only what the tool has.
    Known,
    /// No flag names anything.
    Nothing,
}

impl Gains {
    fn new(keys: &[NewKey], before: &decision::Decided, names_lists: bool) -> Self {
        let remedy = before.as_ref().err().and_then(|denial| denial.remedy.as_deref());
        let needs_entry = matches!(remedy, Some(Remedy::AddEntry { .. }));
        match (keys.is_empty() && !needs_entry, names_lists) {
            (false, _) => Self::Something,
            (true, true) => Self::Known,
            (true, false) => Self::Nothing,
        }
    }
}

/// Returns the error for a built-in tool and no flags: the reason why it does not run, or that it
/// runs without a grant.
fn nothing_to_grant(tool: &Tool, before: &decision::Decided) -> CliError {
    if let Err(denial) = before {
        return denial.clone().into();
    }
    let what =
        format!("nothing to grant: `{}` is a built-in tool and needs no grant to run", tool.name());
    CliError::usage(anyhow::Error::msg(what)).hint(
        "name what it may touch with --read, --write, --toolchain, --net, --env, --assets or \
         --limit",
    )
}

/// Returns warnings about granted names that lead only to this machine, since a name opens only
/// public addresses.
fn out_of_reach(net: &[String], backend: Backend) -> Vec<String> {
    let Ok(net) = Net::parse(net.iter().map(String::as_str)) else { return Vec::new() };
    // A native tool that may use the whole network is not checked.
    if net.any && backend == Backend::Native {
        return Vec::new();
    }
    let named = net.peers.iter().filter(|peer| is_of_this_machine(peer));
    let alone = named.filter(|name| !net.peers.iter().any(|peer| is_loopback_for(peer, name)));
    let warning = |peer: &Peer| {
        let port = peer.port.map_or_else(|| "*".to_owned(), |port| port.to_string());
        format!(
            "`{peer}` opens only public addresses, and this name has none: to connect to this \
             machine, name its address as well: --net '{peer}' --net '127.0.0.1:{port}'"
        )
    };
    alone.map(warning).collect()
}

/// Returns whether a peer is a name of the loopback (RFC 6761, section 6.3).
fn is_of_this_machine(peer: &Peer) -> bool {
    let PeerHost::Name(name) = &peer.host else { return false };
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns whether a peer names a loopback address on a port of another peer.
fn is_loopback_for(peer: &Peer, other: &Peer) -> bool {
    let PeerHost::Range(range) = &peer.host else { return false };
    let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let shares_port = peer.port.is_none() || other.port.is_none() || peer.port == other.port;
    shares_port && loopback.iter().any(|address| range.contains(address))
}

/// Returns the hosts and variables that a tool loses.
fn lost_names(before: &decision::Decided, now: &decision::Decided) -> Vec<String> {
    let (Ok(before), Ok(now)) = (before, now) else { return Vec::new() };
    let any = (before.grant.net.any && !now.grant.net.any).then(|| "connect to `*`".to_owned());
    let peers = before.grant.net.peers.iter();
    let peers = peers.filter(|peer| !now.grant.net.any && !now.grant.net.peers.contains(peer));
    let peers = peers.map(|peer| format!("connect to `{peer}`"));
    let is_seen = |name: &str| now.variables.iter().any(|variable| variable.name == name);
    let names = before.variables.iter().filter(|variable| !is_seen(&variable.name));
    let names = names.map(|variable| format!("see the variable `{}`", variable.name));
    any.into_iter().chain(peers).chain(names).collect()
}

/// Refuses to take the environment from a tool that sees all of it, unless --replace asks for that.
fn check_environment(
    tool: &Tool,
    arguments: &Arguments,
    (before, now): (&decision::Decided, &decision::Decided),
) -> Result<(), CliError> {
    let has_all = |decided: &decision::Decided| {
        decided.as_ref().is_ok_and(|decision| decision.grant.inherits_env)
    };
    if arguments.env.is_empty() || arguments.replace || !has_all(before) || has_all(now) {
        return Ok(());
    }
    let what = format!(
        "`{}` sees all of your environment now, and would then see only the variables in --env",
        tool.name()
    );
    Err(CliError::usage(anyhow::Error::msg(what))
        .hint("with --replace, it sees only these variables"))
}

/// Returns the directories that a tool loses.
pub(super) fn lost(before: &decision::Decided, now: &decision::Decided) -> Vec<RequestedAccess> {
    let (Ok(before), Ok(now)) = (before, now) else { return Vec::new() };
    let had = before.grant.dirs.iter();
    let had = had.map(|dir| RequestedAccess::Path { access: dir.access, path: dir.path.clone() });
    had.filter(|reached| !now.grant.covers(reached)).collect()
}

/// Returns the decision about the tool as if the proposal were written. Fails if the proposal
/// itself is not a valid grant.
pub(super) fn checked(
    host: &Host,
    tool: &Tool,
    proposal: &Proposal,
) -> Result<decision::Decided, CliError> {
    let contents = [tool.build.digest];
    let decided =
        host.authority().decide_with(proposal, &request(CallTarget::from(tool), &contents));
    match &decided {
        Err(denial) if !is_of_others(denial) => Err(denial.clone().into()),
        _ => Ok(decided),
    }
}

/// Returns true if a ceiling or a workspace forbids the grant, and not the grant itself.
fn is_of_others(denial: &Denial) -> bool {
    matches!(&denial.provenance, Some(Provenance::File { kind, .. }) if *kind != LayerKind::User)
}

/// The effect of a proposed entry: a ceiling or the workspace may take some of it away.
pub(in crate::commands) struct GrantEffect<'a> {
    tool: &'a Tool,
    decided: &'a decision::Decided,
    taken_away: Vec<Shortfall>,
}

impl<'a> GrantEffect<'a> {
    pub(in crate::commands) fn new(
        tool: &'a Tool,
        proposal: &Proposal,
        decided: &'a decision::Decided,
    ) -> Self {
        let backend = tool.build.backend();
        let taken_away = decided.as_ref().map(|decision| proposal.shortfalls(backend, decision));
        Self { tool, decided, taken_away: taken_away.unwrap_or_default() }
    }

    /// Prints a warning for each part that has no effect, before the user agrees to the entry.
    pub(in crate::commands) fn warn(&self) {
        match self.decided {
            Err(denial) => {
                eprint(&format!("warning: the tool may still not be called: {denial}\n"));
            }
            Ok(decision) => {
                for Shortfall { what, decided_by } in &self.taken_away {
                    let by = decided_by.iter().map(Provenance::to_string).collect::<Vec<_>>();
                    let by = by.join(", ");
                    eprint(&format!("warning: `{what}` is not granted: {by} does not allow it\n"));
                }
                for variable in decision.variables.iter().filter(|variable| !variable.is_set) {
                    eprint(&format!("warning: the variable `{}` is not set here\n", variable.name));
                }
            }
        }
    }

    /// Prints whether the written entry is in force as a whole, and returns the exit code.
    pub(super) fn conclude(&self) -> ExitCode {
        let name = self.tool.name();
        if self.is_whole() {
            eprint(&format!("granted; `ikigai policy show {name}` shows what it may touch\n"));
            return ExitCode::SUCCESS;
        }
        eprint(&format!(
            "your policy has the entry, and not all of it is in force here; `ikigai policy show \
             {name}` shows what the tool may touch\n"
        ));
        ExitCode::from(error::FAILED)
    }

    /// Returns whether all of the entry is in force.
    pub(in crate::commands) fn is_whole(&self) -> bool {
        self.decided.is_ok() && self.taken_away.is_empty()
    }

    pub(in crate::commands) fn as_json(&self) -> serde_json::Value {
        let part = |Shortfall { what, decided_by }: &Shortfall| {
            let by = decided_by.iter().map(Provenance::to_string).collect::<Vec<_>>();
            json!({ "what": what, "decided_by": by })
        };
        self.taken_away.iter().map(part).collect()
    }
}

/// Returns the key that binds an entry to the contents of the tool's files. Returns `None` for a
/// built-in tool, which changes only when ikigai is installed again.
pub(super) fn contents_key(host: &Host, tool: &Tool) -> Option<NewKey> {
    let is_bound =
        tool.origin == ToolOrigin::User || host.authority().is_bound_to_content(tool.name());
    is_bound.then(|| {
        let digests = contents(tool).iter().map(Digest::to_string).collect();
        ("sha256".to_owned(), NewValue::List(digests))
    })
}

/// Returns the digests of the tool's builds.
pub(super) fn contents(tool: &Tool) -> Vec<Digest> {
    let builds = [Some(&tool.build), tool.other.as_ref()].into_iter().flatten();
    builds.map(|build| build.digest).collect()
}

/// Returns the keys of the entry that the flags set, except its lists.
fn keys(
    host: &Host,
    tool: &Tool,
    arguments: &Arguments,
    backend: BackendChoice,
) -> Result<Vec<NewKey>, CliError> {
    let mut keys: Vec<NewKey> = Vec::new();
    let mut add = |key: &str, value: NewValue| keys.push((key.to_owned(), value));
    if let Some((key, value)) = contents_key(host, tool) {
        add(&key, value);
    }
    if backend != BackendChoice::Auto {
        add("backend", NewValue::Word(backend.as_str().to_owned()));
    }
    if arguments.unconfined {
        check_unconfined(tool)?;
        unconfining_keys().into_iter().for_each(|(key, value)| add(&key, value));
    }
    if let Some(sandbox) = arguments.sandbox {
        add("sandbox", NewValue::Word(sandbox.as_str().to_owned()));
    }
    keys.extend(limit_keys(&arguments.limit)?);
    Ok(keys)
}

/// Refuses to run anything unconfined except the user's own native tools.
fn check_unconfined(tool: &Tool) -> Result<(), CliError> {
    let what = match (tool.origin, tool.build.backend()) {
        (ToolOrigin::User, Backend::Native) => return Ok(()),
        (ToolOrigin::System, _) => "a built-in tool",
        (ToolOrigin::User, _) => "a component",
    };
    let text = format!("`{}` is {what}, which never runs unconfined", tool.name());
    let error = CliError::usage(anyhow::Error::msg(text));
    Err(error.hint("--read, --write and --net grant it what it needs"))
}

/// The capabilities that a user requests for a tool or a server.
pub(in crate::commands) struct GrantRequest<'a> {
    pub(in crate::commands) read: &'a [PathBuf],
    pub(in crate::commands) write: &'a [PathBuf],
    pub(in crate::commands) net: &'a [String],
    pub(in crate::commands) env: &'a [String],
    pub(in crate::commands) limit: &'a [(LimitKey, String)],
}

/// Returns the keys of an entry for directories, hosts, variables and limits.
pub(in crate::commands) fn capability_keys(
    asked: &GrantRequest<'_>,
    workspace: &Path,
) -> Result<Vec<NewKey>, CliError> {
    let wrong = |what: String| CliError::usage(anyhow::Error::msg(what));
    let mut keys: Vec<NewKey> = Vec::new();
    let mut add = |key: &str, value: NewValue| keys.push((key.to_owned(), value));
    let rules = dirs_to_grant(asked.read, asked.write, workspace)?;
    if !rules.is_empty() {
        add("fs", NewValue::List(rules.iter().map(WrittenPath::rule).collect()));
    }
    if !asked.net.is_empty() {
        Net::parse(asked.net.iter().map(String::as_str))
            .map_err(|what| wrong(format!("--net: {what}")))?;
        add("net", NewValue::List(asked.net.to_vec()));
    }
    if !asked.env.is_empty() {
        for name in asked.env {
            check_variable(name).map_err(|what| wrong(format!("--env: {what}")))?;
        }
        add("env", NewValue::List(asked.env.to_vec()));
    }
    keys.extend(limit_keys(asked.limit)?);
    Ok(keys)
}

/// Returns the keys of an entry for limits.
fn limit_keys(limits: &[(LimitKey, String)]) -> Result<Vec<NewKey>, CliError> {
    let key = |(key, text): &(LimitKey, String)| -> Result<NewKey, CliError> {
        let value = match key {
            LimitKey::WallClock | LimitKey::Memory | LimitKey::Output => {
                NewValue::Word(text.clone())
            }
            LimitKey::Fuel | LimitKey::Handles | LimitKey::Processes => {
                let number = parse_limit(*key, text);
                NewValue::Number(number.map_err(|what| CliError::usage(anyhow::Error::msg(what)))?)
            }
        };
        Ok((format!("limits.{}", key.as_str()), value))
    };
    limits.iter().map(key).collect()
}

/// Returns the directories and files that flags name, as rules of a list `fs`.
fn dirs_to_grant(
    read: &[PathBuf],
    write: &[PathBuf],
    workspace: &Path,
) -> Result<Vec<WrittenPath>, CliError> {
    let read = read.iter().map(|dir| (Access::ReadOnly, dir));
    let write = write.iter().map(|dir| (Access::ReadWrite, dir));
    let rule = |(access, dir): (Access, &PathBuf)| -> Result<WrittenPath, CliError> {
        let place = new_place(dir, workspace).filter(|_| access == Access::ReadWrite);
        let path = place.map_or_else(|| path_to_grant(dir), Ok)?;
        Ok(WrittenPath { access, written: name_in_policy(dir, &path, workspace)?, path })
    };
    read.chain(write).map(rule).collect()
}

/// Returns the full path of a place that other programs execute and that does not exist yet. A
/// grant may create it.
fn new_place(path: &Path, workspace: &Path) -> Option<PathBuf> {
    if path.symlink_metadata().is_ok() {
        return None;
    }
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
    let place = dir.join(path.file_name()?);
    let relative = place.strip_prefix(workspace).unwrap_or(&place);
    (executed_place(relative)? == relative).then_some(place)
}

/// Returns the path of an existing directory or file, with links resolved.
fn path_to_grant(dir: &Path) -> Result<PathBuf, CliError> {
    let wrong = |error: anyhow::Error| CliError::usage(error);
    let resolved = dir
        .canonicalize()
        .with_context(|| format!("`{}` cannot be granted", dir.display()))
        .map_err(wrong)?;
    if !resolved.is_dir() && !resolved.is_file() {
        let what = format!("`{}` is neither a directory nor a regular file", dir.display());
        return Err(wrong(anyhow::Error::msg(what)));
    }
    Ok(resolved)
}

/// Returns a path as the policy file names it. A path that was given as relative, and is in the
/// workspace, stays relative, so that the rule applies in every workspace. Any other path is
/// written in full.
fn name_in_policy(given: &Path, resolved: &Path, workspace: &Path) -> Result<String, CliError> {
    let named = match given.is_relative() {
        true => ikigai_host::policy::path_in_policy(resolved, workspace),
        false => resolved.to_str().map(str::to_owned),
    };
    named.ok_or_else(|| {
        let what = format!("`{}` is not UTF-8, as a policy file must be", resolved.display());
        CliError::usage(anyhow::Error::msg(what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_this_machine_is_warned_of_unless_its_address_is_named_too() {
        let (component, native) = (Backend::Wasm, Backend::Native);
        for (net, backend, warned) in [
            (&["localhost:5611"][..], component, Some("--net '127.0.0.1:5611'")),
            (&["localhost:5611"], native, Some("--net '127.0.0.1:5611'")),
            (&["*", "db.localhost:*"], component, Some("--net '127.0.0.1:*'")),
            (&["localhost:5611", "127.0.0.1:80"], component, Some("`localhost:5611`")),
            (&["localhost:5611", "127.0.0.1:5611"], component, None),
            (&["localhost:5611", "[::1]:*"], component, None),
            (&["localhost:*", "127.0.0.0/8:80"], native, None),
            (&["*", "localhost:5611"], native, None),
            (&["127.0.0.1:5611", "a.example:443"], component, None),
        ] {
            let net: Vec<String> = net.iter().map(|&peer| peer.to_owned()).collect();
            let warnings = out_of_reach(&net, backend);
            match (warned, &warnings[..]) {
                (None, []) => {}
                (Some(part), [warning]) => assert!(warning.contains(part), "{warning}"),
                _ => panic!("{net:?}: {warnings:?}"),
            }
        }
    }
}
