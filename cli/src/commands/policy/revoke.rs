//! `ikigai policy revoke`: takes away what the user's policy file grants a tool.
//!
//! A tool never gains access this way. Without an entry, a native tool of the user would run by the
//! rules of the profile. So its entry stays, bound to no contents, and the tool does not run until
//! the user grants it again. An entry with `deny = true` stays as well.

mod parts;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use self::parts::{Remainder, RevokedParts};
use super::grant::toolchain::InstalledToolchains;
use super::grant::{denied_text, lost};
use super::{carry_out, written};
use crate::complete;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print_exact};
use ikigai_host::host::{CallTarget, Host, request};
use ikigai_host::nearest::nearest;
use ikigai_host::policy::{Backend, Denial, NewKey, NewValue, Proposal, ToolOrigin};
use ikigai_host::registry::{Snapshot, Tool};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool; it may have been removed
    #[arg(add = complete::tools())]
    tool: String,
    #[command(flatten)]
    parts: RevokedParts,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The keys of an entry that grant something. The other keys take access away, and stay.
const GRANTING: [&str; 8] = ["backend", "sandbox", "fs", "net", "env", "path", "assets", "limits"];

/// The removal of a tool's grant, not written yet.
pub(in crate::commands) struct Revocation {
    pub(in crate::commands) proposal: Proposal,
    /// True if the tool no longer runs afterwards.
    pub(in crate::commands) stops: bool,
}

impl Revocation {
    /// Returns the removal of what the user's file grants the tool; `None` if it has no entry
    /// there.
    pub(in crate::commands) fn new(
        host: &Host,
        snapshot: &Snapshot,
        name: &str,
    ) -> Result<Option<Self>, CliError> {
        let authority = host.authority();
        let Some(removal) = authority.propose_revoke(name)? else { return Ok(None) };
        let is_native = may_be_native(snapshot, name);
        let is_denied = authority.written(name).is_some_and(|written| written.deny);
        if !is_native && !is_denied {
            return Ok(Some(Self { proposal: removal, stops: false }));
        }
        let sha256 = if is_native { NewValue::List(Vec::new()) } else { NewValue::Absent };
        let mut keys: Vec<NewKey> = vec![("sha256".to_owned(), sha256)];
        keys.extend(GRANTING.map(|key| (key.to_owned(), NewValue::Absent)));
        let proposal = authority.propose_grant(name, &keys)?;
        Ok(Some(Self { proposal, stops: true }))
    }
}

/// Returns whether a file runs as the user's native tool with this name, or may do so once it
/// prints its schema again.
fn may_be_native(snapshot: &Snapshot, name: &str) -> bool {
    let is_native = |tool: &Tool| {
        let mut builds = [Some(&tool.build), tool.other.as_ref()].into_iter().flatten();
        tool.origin == ToolOrigin::User && builds.any(|it| it.backend() == Backend::Native)
    };
    let is_component = |path: &Path| path.extension().is_some_and(|extension| extension == "wasm");
    let mut skipped = snapshot.skipped().iter().filter(|skipped| !is_component(&skipped.path));
    snapshot.get(name).is_some_and(is_native) || skipped.any(|skipped| skipped.is_called(name))
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let Arguments { tool: name, parts, yes, json } = arguments;
    if !parts.is_empty() {
        return take_back(&host, &name, &parts, (yes, json));
    }
    let snapshot = host.look_up(&name).await;
    let Some(Revocation { proposal, stops }) = Revocation::new(&host, &snapshot, &name)? else {
        return Err(without_entry(&host, &name));
    };
    if let Some(tool) = snapshot.get(&name) {
        warn_of_gains(&host, tool, &proposal);
    }
    let Some(written) = written(&proposal, yes)? else {
        return Ok(ExitCode::from(error::FAILED));
    };
    let denial = snapshot.get(&name).and_then(|tool| denial_by_others(&host, tool, &written));
    if json {
        let runs = !stops && denial.is_none();
        let value = json!({ "tool": name, "policy": written.path.to_string_lossy(), "runs": runs });
        print_exact(&format!("{value}\n"))?;
    } else if let Some(at) = written.denied_at() {
        eprint(&format!("revoked: {}\n", denied_text(&name, &at)));
    } else if let Some(denial) = denial {
        eprint(&format!("revoked: `{name}` does not run now: {denial}\n"));
    } else if stops {
        eprint(&format!(
            "revoked: `{name}` does not run now. `ikigai policy grant {name}` lets it run again, \
             with what its profile grants\n"
        ));
    } else {
        eprint(&format!("revoked: `{name}` has only what its profile grants\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the denial of the tool by a `deny = true` elsewhere, such as in `[tools."*"]`, once the
/// proposal is written.
fn denial_by_others(host: &Host, tool: &Tool, proposal: &Proposal) -> Option<Denial> {
    let contents = [tool.build.digest];
    let request = request(CallTarget::from(tool), &contents);
    let decided = host.authority().decide_with(proposal, &request);
    decided.err().filter(|denial| denial.is_by_deny)
}

/// Takes back the parts of an entry that flags name, and reports what stays.
fn take_back(
    host: &Host,
    name: &str,
    parts: &RevokedParts,
    (yes, json): (bool, bool),
) -> Result<ExitCode, CliError> {
    let authority = host.authority();
    let written = authority.written(name).ok_or_else(|| without_entry(host, name))?;
    let toolchains = InstalledToolchains::find(host, &parts.toolchain)?;
    let remainder = Remainder::new(name, written, parts, &toolchains)?;
    let proposal = authority.propose_grant(name, &remainder.keys())?;
    if !carry_out(&proposal, yes)? {
        return Ok(ExitCode::from(error::FAILED));
    }
    if json {
        let policy = proposal.path.to_string_lossy();
        let value = json!({ "tool": name, "policy": policy, "keeps": remainder.as_json() });
        print_exact(&format!("{value}\n"))?;
    } else {
        let rest = match remainder.in_flags() {
            rest if rest.is_empty() => format!(
                "stays and grants nothing; `ikigai policy revoke {name}` takes it back as a whole"
            ),
            rest => format!("keeps {rest}"),
        };
        eprint(&format!("revoked: the entry of `{name}` {rest}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the error for a tool that the user's file does not name.
fn without_entry(host: &Host, name: &str) -> CliError {
    let what = format!("nothing to revoke: your policy file has no entry for `{name}`");
    let named = host.authority().named();
    let near = nearest(name, named.iter().map(|(name, _)| name.as_str()));
    let hint = near.map(|near| format!("did you mean `{near}`?"));
    CliError::failed(anyhow::Error::msg(what)).hints(hint)
}

/// Warns about directories that a tool regains when the entry that narrowed its access is gone.
fn warn_of_gains(host: &Host, tool: &Tool, proposal: &Proposal) {
    let contents = [tool.build.digest];
    let after = host.authority().decide_with(proposal, &request(CallTarget::from(tool), &contents));
    for reached in lost(&after, &host.decide(tool.into())) {
        eprint(&format!("warning: `{}` can then {reached}\n", tool.name()));
    }
}
