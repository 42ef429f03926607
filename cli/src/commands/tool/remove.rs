//! `ikigai tool remove`: a tool that was installed, with its lock and its grant.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Args;
use ikigai_host::audit::Installation as Recorded;
use serde_json::json;

use super::install::target;
use super::installation::{Target, no_home};
use super::update::chosen;
use crate::commands::policy::{agreed, carry_out};
use crate::complete;
use crate::error::{self, CliError};
use crate::options::Options;
use crate::output::{eprint, print_json};
use crate::shipping::{LockFile, Placement, remove_file};

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
    let user = paths.lock().ok_or_else(no_home)?;
    let target = target(options, &paths, in_workspace)?;
    let mut file = match &target {
        Target::User { lock, .. } => LockFile::of_user(lock)?,
        Target::Workspace(workspace) => LockFile::of_workspace(&workspace.lock(), &user)?,
    };
    let names = [name.clone()];
    let locked = match chosen(file.lock(), &names) {
        Ok(chosen) => chosen.first().map(|(_, tool)| (*tool).clone()),
        Err(error) => {
            let there = host.look_up(&name).await;
            let there = there.get(&name).map(|tool| tool.build.path.display().to_string());
            return Err(match there {
                Some(path) => {
                    error.hint(format!("`{path}` was put there by hand; remove it by hand"))
                }
                None => error,
            });
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
    match &target {
        Target::User { directory, .. } => {
            for is_native in [false, true] {
                let path = Placement::in_directory(directory, &name, is_native).path;
                let present = std::fs::File::open(&path).and_then(ikigai_host::Digest::of_reader);
                match present {
                    Ok(digest) if digest == locked.sha256 => remove_file(&path)?,
                    Ok(_) => eprint(&format!(
                        "`{}` is not what was installed, and was left alone\n",
                        path.display()
                    )),
                    Err(_) => {}
                }
            }
        }
        Target::Workspace(_) => {}
    }
    file.change(|lock| {
        lock.remove(&name);
        Ok(())
    })?;
    drop(file);
    if let Target::Workspace(workspace) = &target {
        // The file may be that of another workspace too, and is offered to nobody without a lock.
        workspace.open_approved(&user)?.change(|lock| {
            lock.remove(&name);
            Ok(())
        })?;
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
