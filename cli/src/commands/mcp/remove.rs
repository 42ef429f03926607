//! `ikigai mcp remove`: removes the definition of a server and everything that it was granted.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use ikigai_host::registry::definition_path;
use serde_json::json;

use crate::commands::policy::agreed;
use crate::complete;
use crate::error::{self, CliError};
use crate::mcp::approved::Approved;
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::servers::logins::Logins;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The server
    #[arg(add = complete::servers())]
    name: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print what was removed as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &SharedOptions, arguments: Arguments) -> Result<ExitCode, CliError> {
    let Arguments { name, yes, json } = arguments;
    let host = options.host()?;
    let dir = host.registry().paths().user_tools.as_deref();
    let path = dir.map(|dir| definition_path(dir, &name)).filter(|path| path.exists());
    let revoked = host.authority().propose_revoke_server(&name)?;
    if path.is_none() && revoked.is_none() {
        let what = format!("there is no server `{}`", name.escape_debug());
        let error = CliError::usage(anyhow::Error::msg(what));
        return Err(error.hint("`ikigai mcp list` lists the servers"));
    }
    if let Some(path) = &path {
        eprint(&format!("removes {}\n", path.display()));
    }
    if let Some(revoked) = &revoked {
        let lines: String = revoked.difference().iter().map(|line| format!("{line}\n")).collect();
        eprint(&format!("{}\n{lines}", revoked.path.display()));
    }
    if !yes && io::stdin().is_terminal() && !agreed(&format!("Remove `{name}`?"))? {
        eprint("nothing was removed\n");
        return Ok(ExitCode::from(error::FAILED));
    }
    let removed_login =
        Logins::from_paths(host.registry().paths()).remove(&name).map_err(CliError::failed)?;
    if removed_login {
        eprint("removed the tokens of its login; its issuer may accept them until they expire\n");
    }
    // Remove the grant first: a definition without a grant is not used.
    if let Some(revoked) = &revoked {
        let what = || format!("cannot write `{}`", revoked.path.display());
        revoked.write_merged().with_context(what).map_err(CliError::failed)?;
    }
    if let Some(path) = &path {
        let what = || format!("cannot remove `{}`", path.display());
        fs::remove_file(path).with_context(what).map_err(CliError::failed)?;
    }
    Approved::for_server(&host, &name).remove().map_err(CliError::failed)?;
    eprint(&format!("removed `{name}`\n"));
    if json {
        print_json(&json!({
            "definition": path.is_some(),
            "grant": revoked.is_some(),
            "login": removed_login,
        }))?;
    }
    Ok(ExitCode::SUCCESS)
}
