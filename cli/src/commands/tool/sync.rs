//! `ikigai tool sync`: the tools that the lock of the workspace names.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;

use super::install::{Consent, DisplayFlags, RegistryFlags, finish};
use super::installation::{ExpectedTool, Flags, InstallOutcome, Installer};
use super::target::{self, InstallTarget, user_lock};
use super::update::source;
use crate::commands::policy::agreed;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::eprint;
use crate::shipping::{RegistryClient, ToolRequest, read_lock, root};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool sync                  shows each tool in .ikigai/tools.lock, and asks\n  \
    ikigai tool sync --locked --yes   in CI: fetches and approves what is locked, grants nothing";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Exit 1 if the lock file would change, without changing it
    #[arg(long)]
    locked: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    shown: DisplayFlags,
    #[command(flatten)]
    network: RegistryFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { locked: is_locked, consent, shown, network, json } = arguments;
    let (host, paths) = (options.host()?, options.paths());
    let client = RegistryClient::new(&paths, network.offline, options.command_gate()?)?;
    let flags = Flags {
        grant: consent.grant,
        yes: consent.yes,
        accept_signer: consent.accept_signer,
        replace: true,
        downgrade: true,
        locked: is_locked,
        imports: shown.imports,
    };
    let workspace = target::workspace(options, &paths)?;
    let path = workspace.lock();
    let lock = read_lock(&path)?;
    let root = root(network.trusted_root.as_deref())?;
    let user = user_lock(&paths)?;
    let of_workspace = InstallTarget::Workspace(workspace.clone());
    let installation = Installer::new(&host, &paths, of_workspace, flags, "sync", root)?;
    if lock.is_empty() {
        eprint(&format!(
            "`{}` has no tools; `ikigai tool install REF --in-workspace` adds one\n",
            path.display()
        ));
    }
    let approved = read_lock(workspace.approved())?;
    let new: Vec<_> = lock.iter().filter(|(name, tool)| approved.get(name) != Some(tool)).collect();
    // The author of the lock chose these sources, which may be on this machine or in this network.
    if !new.is_empty() && !flags.yes {
        for (name, tool) in &new {
            let before = approved.get(name).filter(|before| before.from != tool.from);
            let before = before.map(|it| format!("  (you approved it from {})", it.from));
            eprint(&format!("{name}  {}{}\n", tool.from, before.unwrap_or_default()));
        }
        if !io::stdin().is_terminal() {
            let what = "these tools are not approved, and there is no terminal to ask you";
            return Err(CliError::failed(anyhow::Error::msg(what)).hint(
                "`ikigai tool sync --yes` downloads them from these sources, and approves them",
            ));
        }
        if !agreed("Download the tools from these sources?")? {
            eprint("nothing was downloaded\n");
            return Ok(ExitCode::from(error::FAILED));
        }
    }
    let mut done: Vec<InstallOutcome> = Vec::new();
    for (name, tool) in lock.iter() {
        let (reference, _) = source(tool)?;
        let request = ToolRequest { reference, versions: None, locked: Some(tool) };
        let found = request.fetch(&client).await?;
        let fetched = found.into_iter().find(|it| it.digest == tool.sha256);
        let fetched = fetched.ok_or_else(|| {
            let what = format!(
                "`{}` no longer has a file with the digest {}, which the lock has for `{name}`",
                tool.from, tool.sha256
            );
            CliError::failed(anyhow::Error::msg(what)).hint(
                "ask the author of the lock; `ikigai tool install --in-workspace` writes it again",
            )
        })?;
        done.push(installation.install(fetched, ExpectedTool::Locked(name, tool)).await?);
    }
    // Withdraw approvals that have left the lock. Otherwise they would apply again if an entry
    // returns.
    let gone: Vec<_> = approved.iter().filter(|(name, _)| lock.get(name).is_none()).collect();
    if !gone.is_empty() {
        workspace.withdraw(&user, &gone)?;
        let names: Vec<&str> = gone.iter().map(|(name, _)| *name).collect();
        eprint(&format!("no longer in the lock: {}\n", names.join(", ")));
    }
    finish(&done, json)
}
