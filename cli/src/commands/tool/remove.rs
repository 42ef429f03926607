//! `ikigai tool remove`: removes an installed tool, its lock entry and its grant.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use ikigai_host::Digest;
use ikigai_host::audit::InstallationRecord as Recorded;
use ikigai_host::host::Host;
use ikigai_host::policy::{Backend, ToolOrigin, shell_quoted};
use ikigai_host::registry::Tool;
use ikigai_packages::LockedTool;
use serde_json::json;

use super::target::{InstallTarget, user_lock};
use super::update::chosen;
use crate::commands::policy::revoke::Revocation;
use crate::commands::policy::{agreed, carry_out};
use crate::complete;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::shipping::{Placement, remove_file};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool
    #[arg(add = complete::tools())]
    name: String,
    /// Use this workspace's lock file
    #[arg(long)]
    in_workspace: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { name, in_workspace, yes, json } = arguments;
    let (host, paths) = (options.host()?, options.paths());
    let target = InstallTarget::from_options(options, &paths, in_workspace)?;
    let mut file = target.open(&paths)?;
    let names = [name.clone()];
    let locked = match chosen(file.lock(), &names) {
        Ok(chosen) => chosen.first().map(|(_, tool)| (*tool).clone()),
        Err(error) => {
            let there = host.look_up(&name).await;
            return Err(error.hints(there.get(&name).map(|tool| not_installed(&host, tool))));
        }
    };
    let Some(locked) = locked else { return Ok(ExitCode::SUCCESS) };
    let question = format!("Remove `{name}`, installed from `{}`?", locked.from);
    if !yes && std::io::stdin().is_terminal() && !agreed(&question)? {
        eprint("nothing was removed\n");
        return Ok(ExitCode::from(error::FAILED));
    }
    // Another tool of the workspace may have the same file. Without a lock entry, ikigai does not
    // offer the file.
    if let InstallTarget::User { directory, .. } = &target {
        let paths = Placement::paths_in(directory, &name);
        let mut present = Vec::new();
        for path in &paths {
            present.extend(unchanged(path, &name, &locked)?);
        }
        for path in present {
            remove_file(path)?;
        }
    }
    // Take back the grant after the files are gone, and never before: a native tool that is still
    // there without an entry would run by the rules of the profile.
    let written = host.authority().written(&name).and_then(|written| written.sha256);
    if written.is_some_and(|granted| granted.contains(&locked.sha256)) {
        let snapshot = host.look_up(&name).await;
        if let Some(revocation) = Revocation::new(&host, &snapshot, &name)? {
            carry_out(&revocation.proposal, true)?;
        }
    }
    file.remove([&*name])?;
    drop(file);
    if let InstallTarget::Workspace(workspace) = &target {
        workspace.forget(&user_lock(&paths)?, &name)?;
    }
    let record = Recorded {
        action: "remove".to_owned(),
        source: locked.from.clone(),
        version: locked.version.as_ref().map(ToString::to_string),
        signer: locked.signer.to_string(),
        replaced: Some(locked.sha256),
    };
    host.record_installation(&name, None, None, record, Ok(()));
    if json {
        return print_json(&json!({ "name": name, "sha256": locked.sha256, "from": locked.from }))
            .map(|()| ExitCode::SUCCESS);
    }
    eprint(&format!("removed `{name}`\n"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the path if the installed file is there; `None` if no file is there.
///
/// # Errors
///
/// Fails if another file is in its place, or if the file cannot be read. Then nothing may be
/// removed: without its lock entry and its grant, the file would run as a tool that was never
/// installed.
fn unchanged<'a>(
    path: &'a Path,
    name: &str,
    locked: &LockedTool,
) -> Result<Option<&'a Path>, CliError> {
    let shown = path.display();
    let what = match File::open(path).and_then(Digest::of_reader) {
        Ok(digest) if digest == locked.sha256 => return Ok(Some(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(digest) => format!(
            "`{shown}` is not what was installed: its sha256 is {digest}, installed was {}; nothing \
             was removed",
            locked.sha256
        ),
        Err(error) => format!("`{shown}` cannot be read: {error}; nothing was removed"),
    };
    let quoted = shell_quoted(&path.to_string_lossy());
    let hint =
        format!("if you do not need this file: `rm {quoted}`, and `ikigai tool remove {name}`");
    Err(CliError::failed(anyhow::Error::msg(what)).hint(hint))
}

/// Returns the advice about an existing tool that no lock has.
fn not_installed(host: &Host, tool: &Tool) -> String {
    let name = tool.name();
    if tool.build.backend() == Backend::Mcp {
        return "it is a tool of an MCP server; `ikigai mcp list` lists the servers, and `ikigai mcp remove` \
         removes one"
            .to_owned();
    }
    if tool.origin == ToolOrigin::System {
        return format!(
            "`{name}` is a built-in tool, which cannot be removed; to keep it from running, set `deny = true` \
             in the table `[tools.{name}]` of your policy; to offer only other tools, use `--tools NAMES` with \
            `ikigai ask` and `ikigai mcp serve`"
        );
    }
    if tool.source() == "workspace" {
        return format!(
            "it belongs to the workspace; `ikigai tool remove {name} --in-workspace` removes it"
        );
    }
    let builds = [Some(&tool.build), tool.other.as_ref()].into_iter().flatten();
    let paths = builds.map(|build| shell_quoted(&build.path.to_string_lossy()));
    let removal = format!("`rm {}` removes the tool", paths.collect::<Vec<_>>().join(" "));
    // In this order: without its entry, a native tool that is still there would run by the rules of
    // the profile.
    match host.authority().written(name) {
        Some(_) => format!("{removal}; then `ikigai policy revoke {name}` removes its entry"),
        None => removal,
    }
}
