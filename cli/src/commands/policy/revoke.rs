//! `ikigai policy revoke`: removes the entry of a tool from the user's policy file.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::carry_out;
use crate::complete;
use crate::error::{self, CliError};
use crate::options::Options;
use crate::output::{eprint, print_exact};
use ikigai_host::nearest::nearest;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool; it may have been removed
    #[arg(add = complete::tools())]
    tool: String,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let Arguments { tool, yes, json } = arguments;
    let Some(proposal) = host.authority().propose_revoke(&tool)? else {
        let error = anyhow::Error::msg(format!("your policy grants `{tool}` nothing"));
        let named = host.authority().named();
        let near = nearest(&tool, named.iter().map(|(name, _)| name.as_str()));
        let hint = near.map(|near| format!("did you mean `{near}`?"));
        return Err(CliError::failed(error).hints(hint));
    };
    if !carry_out(&proposal, yes)? {
        return Ok(ExitCode::from(error::FAILED));
    }
    if json {
        let value = json!({ "tool": tool, "policy": proposal.path.to_string_lossy() });
        print_exact(&format!("{value}\n"))?;
    } else {
        eprint(&format!("revoked: `{tool}` has what its profile gives it\n"));
    }
    Ok(ExitCode::SUCCESS)
}
