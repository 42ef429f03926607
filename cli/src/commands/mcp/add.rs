//! `ikigai mcp add`: defines an MCP server, grants it access, and asks the user to approve its
//! tools.

use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use ikigai_host::exec::mcp::{Auth, ServerTarget};
use ikigai_host::host::Host;
use ikigai_host::paths::draft_in;
use ikigai_host::policy::{
    Backend, LimitKey, NewKey, NewValue, Proposal, Sandbox, check_server_name, shell_quoted,
};
use ikigai_host::registry::{ServerDefinition, ServerState, definition_path};
use similar::TextDiff;
use toml_edit::{Array, DocumentMut, value};

use super::{approve, code};
use crate::commands::policy::{grant, written};
use crate::commands::program::find;
use crate::error::{self, CliError, with_path};
use crate::options::SharedOptions;
use crate::output::eprint;
use crate::servers::logins::{LoginState, Logins};
use crate::user_command;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai mcp add files --read ~/notes -- mcp-server-filesystem ~/notes\n  \
    ikigai mcp add git --write . --tools git_log,git_diff -- uv run mcp-server-git\n  \
    ikigai mcp add docs https://mcp.example.com/mcp --oauth\n  \
    ikigai mcp add docs https://mcp.example.com/mcp --token-command 'pass show mcp/docs'\n\n\
    ikigai runs the server in the sandbox. The server sees the granted directories, the system's programs and \
    its own program. It can connect to the hosts that you list with --net, through a proxy; with --net '*', to \
    the whole network. With --unconfined it has all of your rights.";

/// The programs that download the code that they run.
const DOWNLOADERS: [&str; 6] = ["npx", "bunx", "pnpx", "uvx", "pipx", "docker"];

/// The words that would make a shell do more than start one program.
const OPERATORS: [&str; 9] = ["|", "||", "&", "&&", ";", "<", ">", ">>", "2>"];

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The server's name, which is the prefix of its tools' names
    name: String,
    /// The URL of a server over HTTP
    #[arg(conflicts_with = "command")]
    url: Option<String>,
    /// The server's program and its arguments
    #[arg(last = true, value_name = "COMMAND", num_args = 1..)]
    command: Vec<String>,
    #[command(flatten)]
    grant: GrantArguments,
    #[command(flatten)]
    token: TokenArguments,
    /// Offer only these tools of the server [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Do not ask about the grant or the tools
    #[arg(short, long)]
    yes: bool,
}

/// The source of the token for a server over HTTP.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "command")]
struct TokenArguments {
    /// The environment variable with the token for a server over HTTP
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// The command that prints the token, run without a shell; ikigai keeps the token in memory
    #[arg(long, value_name = "COMMAND")]
    token_command: Option<String>,
    /// Log in to the server with a browser: see `ikigai mcp login`
    #[arg(long)]
    oauth: bool,
}

/// The directories, hosts and variables that the server may use, and its limits.
#[derive(Debug, Args)]
struct GrantArguments {
    /// A directory to read; a path in the workspace is saved as a relative path, and so applies in
    /// every workspace
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    read: Vec<PathBuf>,
    /// A directory to read and write
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    write: Vec<PathBuf>,
    /// A host to connect to; `*` is the whole network
    #[arg(long, value_name = "HOST:PORT")]
    net: Vec<String>,
    /// An environment variable that the server may see
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Run the server with all of your rights, without a sandbox
    #[arg(long, conflicts_with_all = ["url", "read", "write", "net"])]
    unconfined: bool,
    /// A limit: wall_clock (of a call), memory, output or processes
    #[arg(long, value_name = "LIMIT=VALUE", value_parser = grant::limit)]
    limit: Vec<(LimitKey, String)>,
}

pub(super) async fn run(
    options: &SharedOptions,
    mut arguments: Arguments,
) -> Result<ExitCode, CliError> {
    check_server_name(&arguments.name).map_err(|what| CliError::usage(anyhow::Error::msg(what)))?;
    if arguments.url.is_none() && arguments.command.is_empty() {
        let name = &arguments.name;
        let what = format!("the server `{name}` has neither a program nor a URL");
        let hint = format!(
            "add its program at the end: `ikigai mcp add {name} -- PROGRAM ARGUMENT…`, or its URL: `ikigai mcp \
             add {name} https://…`"
        );
        return Err(CliError::usage(anyhow::Error::msg(what)).hint(hint));
    }
    let host = options.host()?;
    let dir = host.registry().paths().user_tools.clone().ok_or_else(|| {
        let what = "the directory of your tools, which needs to hold the definition, is unknown";
        CliError::usage(anyhow::Error::msg(what)).hint("specify one with --user-tools")
    })?;
    let path = definition_path(&dir, &arguments.name);
    let text = definition_text(&arguments)?;
    let definition = ServerDefinition::parse(&path, text.as_bytes())?;
    check_token_command(&host, &definition)?;
    let before = fs::read_to_string(&path).ok();
    let unread = unread_code(&host, &definition, &arguments);
    let asks = !arguments.yes && std::io::stdin().is_terminal();
    if asks {
        // The user is asked about the grant as a whole.
        arguments.grant.read.extend(unread.iter().cloned());
    }
    let keys = keys(&host, &definition, &arguments)?;
    let proposal = host.authority().propose_server(&arguments.name, &keys)?;
    for warning in warnings(&arguments) {
        eprint(&format!("warning: {warning}\n"));
    }
    let decided = approve::decide_with(&host, &definition, &proposal)?;
    if arguments.grant.unconfined && !decided?.is_unconfined(Backend::Mcp) {
        let what = format!(
            "`{}` may not run unconfined: the profile `strict`, a ceiling or the workspace keeps it in the \
             sandbox",
            arguments.name
        );
        let hint = "grant it what it needs with --read, --write and --net";
        return Err(CliError::failed(anyhow::Error::msg(what)).hint(hint));
    }
    for dir in &unread {
        let dir = dir.display();
        eprint(&match asks {
            true => format!("`{dir}` has the code of the program, and is granted for reading\n"),
            false => format!("warning: `{dir}` has the code of the program, and is not granted\n"),
        });
    }
    eprint(&format!("{}\n{}\n", path.display(), difference(before.as_deref(), &text)));
    let Some(granted) = written(&proposal, arguments.yes)? else {
        return Ok(ExitCode::from(error::FAILED));
    };
    let added = Added { dir, path, before, granted };
    if added.before.as_ref() != Some(&text) {
        write(&added.dir, &added.path, &text).map_err(CliError::failed)?;
    }
    if arguments.token.oauth && must_log_in(&host, &definition) {
        let name = &arguments.name;
        eprint(&format!(
            "added `{name}`; log in with `ikigai mcp login {name}`, then see its tools with `ikigai mcp approve \
             {name}`\n"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    eprint(&format!("asking `{}` for its tools\n", arguments.name));
    let server = approve::known(&host, &arguments.name).await?;
    if let ServerState::Unusable(reason) = &server.state {
        let error = CliError::failed(anyhow::Error::msg(reason.clone()));
        let error = error.hints(unread_hint(&unread, asks));
        let error = error.hints(hidden_hint(&host, &unread, &arguments));
        let error = error.hints(network_hint(&arguments));
        let is_sandboxed = !arguments.command.is_empty() && !arguments.grant.unconfined;
        let error = error.hints(is_sandboxed.then_some(approve::SANDBOX_HINT));
        return Err(error.hint(added.take_back()?));
    }
    let approved = approve::tools(&host, &server, &[], arguments.yes)?;
    Ok(ExitCode::from(if approved.is_some() { 0 } else { error::FAILED }))
}

/// The definition and the grant that were written, and the definition before.
struct Added {
    dir: PathBuf,
    path: PathBuf,
    before: Option<String>,
    granted: Proposal,
}

impl Added {
    /// Restores the definition and the grant, and reports that.
    fn take_back(&self) -> Result<&'static str, CliError> {
        let was_granted = with_path(self.granted.take_back(), "write", &self.granted.path)?;
        match &self.before {
            Some(before) => write(&self.dir, &self.path, before).map_err(CliError::failed)?,
            None => with_path(fs::remove_file(&self.path), "remove", &self.path)?,
        }
        Ok(match (was_granted, &self.before) {
            (false, _) => "the policy changed in the meantime, and the grant stays in it",
            (true, None) => "nothing was added",
            (true, Some(_)) => "nothing was changed for the server and its grant",
        })
    }
}

/// Returns a new definition as it is, and a changed one as a diff.
fn difference(before: Option<&str>, now: &str) -> String {
    let Some(before) = before.filter(|before| *before != now) else { return now.to_owned() };
    let lines = TextDiff::from_lines(before, now);
    lines.iter_all_changes().map(|change| format!("{}{}", change.tag(), change.value())).collect()
}

/// Returns the directories with the program's code that the arguments do not grant.
fn unread_code(host: &Host, definition: &ServerDefinition, arguments: &Arguments) -> Vec<PathBuf> {
    let ServerTarget::Process { program, .. } = &definition.server.target else {
        return Vec::new();
    };
    let program = program.to_string_lossy().into_owned();
    let words = std::iter::once(program).chain(arguments.command.iter().skip(1).cloned());
    let GrantArguments { read, write, unconfined, .. } = &arguments.grant;
    if *unconfined {
        return Vec::new();
    }
    let granted: Vec<PathBuf> = read.iter().chain(write).cloned().collect();
    code::directories(&words.collect::<Vec<_>>(), &granted, host.authority().workspace())
}

/// Returns the hint for code that ikigai did not ask the user to grant.
fn unread_hint(unread: &[PathBuf], was_asked: bool) -> Option<String> {
    (!was_asked && !unread.is_empty())
        .then(|| format!("`{}` grants it the code of its program", read_flags(unread)))
}

/// Returns the hint for files among the arguments of the program that the server does not see.
/// `unread` are the directories that another hint names.
fn hidden_hint(host: &Host, unread: &[PathBuf], arguments: &Arguments) -> Option<String> {
    let GrantArguments { read, write, unconfined, .. } = &arguments.grant;
    let words = arguments.command.get(1..).filter(|_| !unconfined)?;
    let seen: Vec<PathBuf> = read.iter().chain(write).chain(unread).cloned().collect();
    let home = host.registry().paths().home.as_deref();
    let hidden = code::of_hidden_files(words, &seen, host.authority().workspace(), home);
    (!hidden.is_empty()).then(|| {
        format!("it does not see a file that its command names; `{}` shows it", read_flags(&hidden))
    })
}

/// Returns the flags that grant reading these directories or files.
fn read_flags(paths: &[PathBuf]) -> String {
    let words = paths.iter().map(|path| shell_quoted(&path.to_string_lossy()));
    words.map(|word| format!("--read {word}")).collect::<Vec<_>>().join(" ")
}

/// Returns whether the server is a server over HTTP without a login.
fn must_log_in(host: &Host, definition: &ServerDefinition) -> bool {
    let server = &definition.server;
    let ServerTarget::Remote { url, .. } = &server.target else { return false };
    let state = Logins::from_paths(host.registry().paths()).state(&server.name, url);
    !matches!(state, LoginState::Active(_))
}

/// Refuses a command for the token that a tool could change.
fn check_token_command(host: &Host, definition: &ServerDefinition) -> Result<(), CliError> {
    let target = &definition.server.target;
    let ServerTarget::Remote { auth: Auth::Command { program, args }, .. } = target else {
        return Ok(());
    };
    let words: Vec<OsString> =
        [program.clone().into_os_string()].into_iter().chain(args.iter().cloned()).collect();
    let checked = user_command::check(host.authority(), &words);
    checked.map(drop).map_err(|reason| CliError::failed(anyhow::Error::msg(reason)))
}

/// Returns the text of a definition.
fn definition_text(arguments: &Arguments) -> Result<String, CliError> {
    let mut file = DocumentMut::new();
    let list = |words: &[String]| value(words.iter().collect::<Array>());
    if let [program, args @ ..] = &arguments.command[..] {
        let program = find(program).map_err(CliError::usage)?;
        file["command"] = value(program);
        file["args"] = list(args);
    }
    if let Some(url) = &arguments.url {
        file["url"] = value(url);
    }
    let TokenArguments { token_env, token_command, oauth } = &arguments.token;
    if let Some(name) = token_env {
        file["token_env"] = value(name);
    }
    if let Some(command) = token_command {
        file["token_command"] = list(&words(command).map_err(CliError::usage)?);
    }
    if *oauth {
        file["oauth"] = value(true);
    }
    if let Some(tools) = &arguments.tools {
        file["tools"] = list(tools);
    }
    Ok(file.to_string())
}

/// Splits a command into words as a shell does, and finds its program. No shell runs it, so nothing
/// else in it has a meaning.
fn words(command: &str) -> anyhow::Result<Vec<String>> {
    let shown = command.escape_debug();
    let mut words = shlex::split(command)
        .with_context(|| format!("the command `{shown}` has an unclosed quote"))?;
    let operator = words.iter().find(|word| OPERATORS.contains(&word.as_str()));
    if let Some(operator) = operator {
        anyhow::bail!(
            "no shell runs the command `{shown}`, in which `{operator}` would be an argument; \
             name a script, or `sh -c '…'`"
        );
    }
    let program = words.first_mut().with_context(|| format!("the command `{shown}` is empty"))?;
    *program = find(program)?;
    Ok(words)
}

/// Returns the keys of the server's entry in the policy.
fn keys(
    host: &Host,
    definition: &ServerDefinition,
    arguments: &Arguments,
) -> Result<Vec<NewKey>, CliError> {
    let mut keys = vec![approve::contents_key(host, definition)?];
    let GrantArguments { read, write, net, env, unconfined, limit } = &arguments.grant;
    let mut net = net.clone();
    // A server over HTTP is useless without access to its own address.
    if let Some(url) = &arguments.url
        && net.is_empty()
    {
        net.push(peer_of(url)?);
    }
    let asked = grant::GrantRequest { read, write, net: &net, env, limit };
    keys.extend(grant::capability_keys(&asked, host.authority().workspace())?);
    if *unconfined {
        keys.push(("sandbox".to_owned(), NewValue::Word(Sandbox::Off.as_str().to_owned())));
    }
    // Take away what was granted to an earlier definition and is not named now.
    for key in ["sandbox", "fs", "net", "env", "limits"] {
        let is_named = |(name, _): &NewKey| name.split('.').next() == Some(key);
        if !keys.iter().any(is_named) {
            keys.push((key.to_owned(), NewValue::Absent));
        }
    }
    Ok(keys)
}

/// Returns the host and the port of an address, as a grant names them.
fn peer_of(address: &str) -> Result<String, CliError> {
    let wrong = |what: &str| {
        let what = format!("`{}` {what}", address.escape_debug());
        CliError::usage(anyhow::Error::msg(what))
    };
    let url = url::Url::parse(address).map_err(|_| wrong("is not a URL"))?;
    let host = url.host_str().ok_or_else(|| wrong("names no host"))?;
    let is_here = matches!(url.host(), Some(url::Host::Ipv4(ip)) if ip.is_loopback())
        || matches!(url.host(), Some(url::Host::Ipv6(ip)) if ip.is_loopback());
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here) {
        return Err(
            wrong("is not https").hint("plain http is allowed only for addresses of this machine")
        );
    }
    if !url.username().is_empty() || url.password().is_some() {
        let hint =
            "store the token elsewhere: --token-env NAME, --token-command COMMAND or --oauth";
        return Err(wrong("has a password, which a definition must not contain").hint(hint));
    }
    let port = url.port_or_known_default().ok_or_else(|| wrong("names no port"))?;
    Ok(format!("{host}:{port}"))
}

/// Returns warnings about a command, before the user grants it anything.
fn warnings(arguments: &Arguments) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(program) = downloader(arguments) {
        warnings.push(format!(
            "`{program}` runs what it finds in a cache or downloads, which is not bound by the \
             digest of `{program}`; a program that is installed is"
        ));
    }
    if arguments.command.iter().any(|word| word.ends_with("@latest")) {
        warnings.push("`@latest` may be another program tomorrow; specify a version".to_owned());
    }
    warnings
}

fn downloader(arguments: &Arguments) -> Option<&'static str> {
    let program = Path::new(arguments.command.first()?).file_name()?;
    DOWNLOADERS.into_iter().find(|known| program == *known)
}

/// Returns the hint for a program that could not download the code that it runs.
fn network_hint(arguments: &Arguments) -> Option<String> {
    let GrantArguments { net, unconfined, .. } = &arguments.grant;
    let program = downloader(arguments).filter(|_| net.is_empty() && !unconfined)?;
    Some(format!(
        "`{program}` has no network here, and finds only what is in a granted directory; install \
         the server and name its program, or add --net HOST:PORT of its registry and --write for the cache of \
         `{program}`"
    ))
}

fn write(dir: &Path, path: &Path, text: &str) -> anyhow::Result<()> {
    let what = || format!("cannot write `{}`", path.display());
    fs::create_dir_all(dir).with_context(what)?;
    let mut file = draft_in(dir, 0o600).with_context(what)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).with_context(what)?;
    file.persist(path).with_context(what)?;
    Ok(())
}
