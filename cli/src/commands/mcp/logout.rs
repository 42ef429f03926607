//! `ikigai mcp logout`: forgets the tokens of a server, and has its issuer forget them.

use std::process::ExitCode;

use clap::Args;
use ikigai_host::Host;
use serde_json::json;

use crate::complete;
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::servers::logins::{Login, Logins};
use crate::servers::oauth::issuer_http;
use crate::variables;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The server
    #[arg(add = complete::servers())]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The outcome of the revocation at the issuer.
enum Revoked {
    Yes,
    No(String),
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let Arguments { name, json } = arguments;
    let host = options.host()?;
    let logins = Logins::from_paths(host.registry().paths());
    // The tokens of an unreadable login cannot be revoked, but the login can be removed.
    let login = logins.read(&name);
    let removed = logins.remove(&name).map_err(CliError::failed)?;
    if !removed {
        if !host
            .registry()
            .paths()
            .user_tools
            .as_deref()
            .is_some_and(|dir| ikigai_host::registry::definition_path(dir, &name).exists())
        {
            let what = format!("there is no server `{}`", name.escape_debug());
            let error = CliError::usage(anyhow::Error::msg(what));
            return Err(error.hint("`ikigai mcp list` lists the servers"));
        }
        if json {
            print_json(&json!({ "removed": false, "revoked": false }))?;
        } else {
            eprint(&format!("you were not logged in to `{name}`\n"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let revoked = match login {
        Ok(Some(login)) => revoke(&host, &name, &login).await,
        Ok(None) => Revoked::No("they were gone".to_owned()),
        Err(reason) => Revoked::No(reason),
    };
    match (&revoked, json) {
        (Revoked::Yes, true) => print_json(&json!({ "removed": true, "revoked": true }))?,
        (Revoked::No(reason), true) => {
            print_json(&json!({ "removed": true, "revoked": false, "reason": reason }))?;
        }
        (Revoked::Yes, false) => {
            eprint(&format!("logged out of `{name}`, and its issuer revoked the tokens\n"));
        }
        (Revoked::No(reason), false) => eprint(&format!(
            "logged out of `{name}`; its issuer may accept the tokens until they expire: {reason}\n"
        )),
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the issuer to revoke the tokens, if it supports that. The login is removed in any case.
async fn revoke(host: &Host, name: &str, login: &Login) -> Revoked {
    if !login.session.is_revocable() {
        return Revoked::No("it does not support revocation".to_owned());
    }
    let remote = host.registry().remote_server(name);
    let http = match remote.and_then(|remote| issuer_http(&remote)) {
        Ok(http) => http,
        Err(reason) => return Revoked::No(reason),
    };
    let mut session = login.session.clone();
    if let Some(variable) = &login.client_secret_env {
        session.client.secret = variables::text(variable);
    }
    match session.revoke(&http).await {
        Ok(()) => Revoked::Yes,
        Err(error) => Revoked::No(error.to_string()),
    }
}
