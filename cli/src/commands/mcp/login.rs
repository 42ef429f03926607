//! `ikigai mcp login`: the user logs in to a server over HTTP with a browser.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use ikigai_host::Host;
use ikigai_host::exec::mcp::{Auth, Remote};
use ikigai_host::policy::Authority;
use ikigai_mcp::{
    Authorization, Callback, Issuer, OAuthClient, OAuthError, OAuthHttp, OAuthSession, Protection,
};
use ikigai_protocol::written_out;
use indicatif::ProgressBar;
use tokio_util::sync::CancellationToken;

use super::session;
use crate::commands::cancelled_by_signals;
use crate::commands::policy::agreed;
use crate::complete;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::servers::logins::{Login, Logins};
use crate::servers::oauth::{issuer_http, server_http};
use crate::user_command;
use crate::variables;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai mcp login docs\n  \
    ikigai mcp login docs --scope 'read write'\n  \
    ikigai mcp login docs --client-id my-app --port 8765\n\n\
    ikigai stores the tokens in a file that you own and no tool can write to, and renews them \
    automatically. It sends them only to the server's URL.";

/// The time that the user has to log in.
const TIME: Duration = Duration::from_secs(5 * 60);

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The server
    #[arg(add = complete::servers())]
    name: String,
    /// The scopes to request in addition to the current login's scopes, separated by spaces
    /// [default: what the server asks for]
    #[arg(long, value_name = "SCOPES")]
    scope: Option<String>,
    /// The issuer to log in to, for a server with several issuers
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The client id of ikigai, for an issuer without dynamic registration
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// The environment variable with the secret for --client-id
    #[arg(long, value_name = "NAME", requires = "client_id")]
    client_secret_env: Option<String>,
    /// The local port that the browser is redirected to [default: any free port]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the URL without opening a browser
    #[arg(long)]
    no_browser: bool,
    /// Do not ask before logging in to the issuer
    #[arg(short, long)]
    yes: bool,
    /// Print the state of the login as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let remote = remote(&host, &arguments.name)?;
    // From here on, an interrupt closes the listener that waits for the browser, and stores
    // nothing.
    let cancel = cancelled_by_signals()?;
    let logins = Logins::from_paths(host.registry().paths());
    let authority = host.authority();
    let work =
        log_in(LoginRun { remote: &remote, arguments: &arguments, logins: &logins, authority });
    match cancel.run_until_cancelled(work).await {
        Some(logged_in) => logged_in,
        None => {
            eprint("login cancelled\n");
            Ok(ExitCode::from(error::INTERRUPTED))
        }
    }
}

/// The inputs of a login.
#[derive(Clone, Copy)]
struct LoginRun<'a> {
    remote: &'a Remote,
    arguments: &'a Arguments,
    logins: &'a Logins,
    /// The policy that checks the program that opens the browser.
    authority: &'a Authority,
}

/// Returns the server, which must use a login.
fn remote(host: &Host, name: &str) -> Result<Remote, CliError> {
    let remote = host.registry().remote_server(name).map_err(|reason| {
        let error = CliError::usage(anyhow::Error::msg(reason));
        error.hint("`ikigai mcp list` lists the servers")
    })?;
    if remote.auth != Auth::OAuth {
        let what = format!("`{name}` needs no login: its definition has no `oauth`");
        let (url, error) = (&remote.url, CliError::usage(anyhow::Error::msg(what)));
        return Err(error.hint(format!(
            "`ikigai mcp remove {name}`, and `ikigai mcp add {name} {url} --oauth`"
        )));
    }
    Ok(remote)
}

async fn log_in(login_run: LoginRun<'_>) -> Result<ExitCode, CliError> {
    let LoginRun { remote, arguments, logins, .. } = login_run;
    let name = &remote.name;
    let certificates = |reason: String| CliError::failed(anyhow::Error::msg(reason));
    let server = server_http(remote).map_err(certificates)?;
    let protection = server.protection(&remote.url).await;
    let protection = protection.map_err(|error| failed(name, error))?;
    let issuer = chosen(name, &protection, arguments.issuer.as_deref())?;
    if !is_agreed(remote, issuer, arguments)? {
        eprint("nothing was sent to the issuer\n");
        return Ok(ExitCode::from(error::FAILED));
    }
    let http = issuer_http(remote).map_err(certificates)?;
    let issuer = http.issuer(issuer).await.map_err(|error| failed(name, error))?;
    let scope = arguments.scope.as_deref();
    let scope = scope.map(|scope| scope_with(scope, remote, issuer.name(), logins));
    let session = with_browser(&http, issuer, &protection, login_run, scope).await;
    let mut session = session?.map_err(|error| failed(name, error))?;
    if arguments.client_secret_env.is_some() {
        // The secret stays in its variable.
        session.client.secret = None;
    }
    let client_secret_env = arguments.client_secret_env.clone();
    let login = Login { url: remote.url.clone(), client_secret_env, session };
    let path = logins.keep(name, &login).map_err(CliError::failed)?;
    let state = logins.state(name, &remote.url);
    if arguments.json {
        print_json(&session::as_json(&state))?;
    } else {
        eprint(&format!("{}; stored in {}\n", session::text(&state), path.display()));
        eprint(&format!("`ikigai mcp approve {name}` shows its tools and approves them\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the issuer to log in at.
fn chosen<'a>(
    server: &str,
    protection: &'a Protection,
    named: Option<&str>,
) -> Result<&'a str, CliError> {
    let issuers = &protection.issuers;
    let found = match named {
        None => issuers.first(),
        Some(named) => issuers.iter().find(|issuer| *issuer == named),
    };
    found.map(String::as_str).ok_or_else(|| {
        let shown: Vec<String> = issuers.iter().map(|issuer| written_out(issuer)).collect();
        let what = format!("the server `{server}` got its tokens from another issuer");
        let hint = format!("it names `{}`", shown.join("`, `"));
        CliError::usage(anyhow::Error::msg(what)).hint(hint)
    })
}

/// Shows the issuer, before anything is sent to it, and returns whether the user agrees to it.
fn is_agreed(remote: &Remote, issuer: &str, arguments: &Arguments) -> Result<bool, CliError> {
    let (name, url) = (&remote.name, &remote.url);
    let issuer = written_out(issuer);
    eprint(&format!("{name} ({url}) has its tokens from {issuer}\n"));
    if arguments.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        let what = "there is no terminal to confirm this issuer";
        return Err(CliError::failed(anyhow::Error::msg(what)).hint("--yes confirms it"));
    }
    agreed(&format!("Log in to {issuer}?"))
}

/// Returns these scopes together with the present login's scopes, which other calls need.
fn scope_with(scope: &str, remote: &Remote, issuer: &str, logins: &Logins) -> String {
    // A login that cannot be used is replaced.
    let held = logins.find(&remote.name, &remote.url).ok().flatten();
    let held = held.filter(|login| login.session.issuer == issuer);
    held.map_or_else(|| scope.to_owned(), |login| login.session.scope_with(scope))
}

/// Has the user log in with a browser, and returns the tokens.
async fn with_browser(
    http: &OAuthHttp,
    issuer: Issuer,
    protection: &Protection,
    login_run: LoginRun<'_>,
    scope: Option<String>,
) -> Result<Result<OAuthSession, OAuthError>, CliError> {
    let LoginRun { arguments, authority, .. } = login_run;
    let callback = Callback::bind(arguments.port).await;
    let place = || format!("cannot listen on port {} of this machine", arguments.port);
    let callback = callback.with_context(place).map_err(CliError::failed)?;
    let redirect = callback.redirect();
    let secret = arguments.client_secret_env.as_deref().map(secret).transpose()?;
    let client = match &arguments.client_id {
        Some(id) => OAuthClient::known(&issuer, id.clone(), secret),
        None => match http.register(&issuer, &redirect).await {
            Ok(client) => client,
            Err(error) => return Ok(Err(error)),
        },
    };
    let login = match Authorization::new(issuer, protection, client, redirect, scope) {
        Ok(login) => login,
        Err(error) => return Ok(Err(error)),
    };
    let url = match login.url() {
        Ok(url) => url,
        Err(error) => return Ok(Err(error)),
    };
    eprint(&format!("open this URL to log in:\n{url}\n"));
    if io::stdout().is_terminal() && !arguments.no_browser {
        open(url.as_str(), authority);
    }
    let waiting = waiting();
    let code = tokio::time::timeout(TIME, callback.code(&login)).await;
    waiting.cancel();
    match code {
        Ok(Ok(code)) => Ok(login.exchange(http, &code).await),
        Ok(Err(error)) => Ok(Err(error)),
        Err(_) => {
            let what = format!("you did not log in within {} minutes", TIME.as_secs() / 60);
            let error = CliError::failed(anyhow::Error::msg(what));
            Err(error.hint("use a browser on this machine, because the issuer redirects it here"))
        }
    }
}

/// Returns the secret in a variable.
fn secret(variable: &str) -> Result<String, CliError> {
    let secret = variables::text(variable).filter(|secret| !secret.is_empty());
    secret.ok_or_else(|| {
        let what = format!("the variable `{variable}` with the client secret is not set");
        CliError::usage(anyhow::Error::msg(what))
    })
}

/// Shows that ikigai waits for the browser, until the token is cancelled.
fn waiting() -> CancellationToken {
    let over = CancellationToken::new();
    if !io::stderr().is_terminal() {
        eprint(&format!("waiting for the browser, for at most {} minutes\n", TIME.as_secs() / 60));
        return over;
    }
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    let ended = over.clone();
    tokio::spawn(async move {
        let begun = tokio::time::Instant::now();
        loop {
            let left = TIME.saturating_sub(begun.elapsed()).as_secs();
            bar.set_message(format!("waiting for the browser ({}:{:02})", left / 60, left % 60));
            tokio::select! {
                () = ended.cancelled() => break,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
        bar.finish_and_clear();
    });
    over
}

/// Opens an address in the user's browser, unless a tool could change the program that opens it.
/// The address was also printed, in case no browser opens.
#[allow(clippy::disallowed_methods, reason = "the browser of the person, and not a tool")]
fn open(url: &str, authority: &Authority) {
    use std::os::unix::process::CommandExt as _;

    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let env = match user_command::check(authority, &[OsString::from(opener)]) {
        Ok(env) => env,
        Err(reason) => {
            eprint(&format!("no browser was opened: `{opener}` was not started: {reason}\n"));
            return;
        }
    };
    let started = std::process::Command::new(opener)
        .arg(url)
        .env_clear()
        .envs(env)
        .current_dir("/")
        // An interrupt of this program must not reach the browser.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        tracing::debug!("no browser was opened: `{opener}`: {error}");
    }
}

fn failed(server: &str, error: OAuthError) -> CliError {
    let hint = match &error {
        OAuthError::NoRegistration => Some(
            "register ikigai with the issuer, and pass its id with --client-id; its redirect URL \
             is http://127.0.0.1:PORT/callback, with --port PORT if the issuer requires a fixed \
             port",
        ),
        OAuthError::Address(_) => Some(
            "an issuer needs a public address with https, or an address that the server is \
             granted: `ikigai mcp add … --net ADDRESS:PORT`",
        ),
        _ => None,
    };
    let error = anyhow::Error::new(error).context(format!("the login to `{server}` failed"));
    CliError::failed(error).hints(hint)
}
