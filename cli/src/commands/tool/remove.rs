//! `ikigai tool remove`: a tool that was installed, with its lock and its grant.

use std::fs::File;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Args;
use ikigai_host::Digest;
use ikigai_host::audit::Installation as Recorded;
use ikigai_host::policy::{Backend, ToolOrigin};
use ikigai_host::registry::Tool;
use serde_json::json;

use super::target::{Target, user_lock};
use super::update::chosen;
use crate::commands::policy::{agreed, carry_out};
use crate::complete;
use crate::error::{self, CliError};
use crate::options::Options;
use crate::output::{eprint, print_json};
use crate::shipping::{Placement, remove_file};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool
    #[arg(add = complete::tools())]
    name: String,
    /// That of this workspace's lock
    #[arg(long)]
    in_workspace: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let Arguments { name, in_workspace, yes, json } = arguments;
    let (host, paths) = (options.host()?, options.paths());
    let target = Target::of(options, &paths, in_workspace)?;
    let mut file = target.open(&paths)?;
    let names = [name.clone()];
    let locked = match chosen(file.lock(), &names) {
        Ok(chosen) => chosen.first().map(|(_, tool)| (*tool).clone()),
        Err(error) => {
            let there = host.look_up(&name).await;
            return Err(error.hints(there.get(&name).map(not_installed)));
        }
    };
    let Some(locked) = locked else { return Ok(ExitCode::SUCCESS) };
    let question = format!("Remove `{name}`, which is from `{}`?", locked.from);
    if !yes && std::io::stdin().is_terminal() && !agreed(&question)? {
        eprint("nothing was removed\n");
        return Ok(ExitCode::from(error::FAILED));
    }
    // The grant first: a file without one can touch nothing.
    let is_bound = host.authority().is_bound_to_content(&name);
    if is_bound && let Some(proposal) = host.authority().propose_revoke(&name)? {
        carry_out(&proposal, true)?;
    }
    // The file of a workspace's tool may be that of another one too, and is offered to nobody without a
    // lock.
    if let Target::User { directory, .. } = &target {
        for path in Placement::paths_in(directory, &name) {
            match File::open(&path).and_then(Digest::of_reader) {
                Ok(digest) if digest == locked.sha256 => remove_file(&path)?,
                Ok(_) => eprint(&format!(
                    "`{}` is not what was installed, and was left alone\n",
                    path.display()
                )),
                Err(_) => {}
            }
        }
    }
    file.remove([&*name])?;
    drop(file);
    if let Target::Workspace(workspace) = &target {
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

/// Returns what to do about a tool that is there and that no lock has.
fn not_installed(tool: &Tool) -> String {
    let name = tool.name();
    if tool.build.backend() == Backend::Mcp {
        return "it is a tool of a server of MCP; `ikigai mcp list` names the servers, and `ikigai mcp \
                remove` removes one"
            .to_owned();
    }
    if tool.origin == ToolOrigin::System {
        return format!(
            "`{name}` is one of ikigai's own tools, which are not removed; `deny = true` in the table \
             `[tools.{name}]` of your policy keeps it from running, and `--tools NAMES` of `ikigai ask` \
             and `ikigai mcp serve` offers a model other tools alone"
        );
    }
    if tool.source() == "workspace" {
        return format!(
            "the workspace brings it; `ikigai tool remove {name} --in-workspace` removes it"
        );
    }
    let path = tool.build.path.display();
    format!("`{path}` was put there by hand; remove it by hand")
}
