//! Refuses to grant something to an MCP server or to one of its tools as if it were a tool.
//!
//! Finds the server that is meant and names the command that grants it something. Grants nothing.

use ikigai_host::exec::mcp::{Auth, ServerTarget};
use ikigai_host::policy::shell_quoted;
use ikigai_host::registry::{KnownServer, ServerDefinition, Snapshot};

use super::Arguments;
use crate::error::CliError;

/// Refuses the name of a server, or of one of its tools. A user tool with the same name as a server
/// is a tool.
pub(super) fn refuse(snapshot: &Snapshot, arguments: &Arguments) -> Result<(), CliError> {
    let name = &arguments.tool;
    let Some(server) = meant(snapshot, name) else { return Ok(()) };
    let what = if server == name {
        format!("`{name}` is an MCP server, not a tool")
    } else {
        format!("`{name}` is a tool of the server `{server}`, which is granted as a whole")
    };
    let known = snapshot.servers().iter().find(|known| known.name == server);
    let definition = known.and_then(|known| known.definition.as_deref());
    let command = command(server, definition, &flags(arguments));
    let hint = format!(
        "`{command}` replaces the grant of the server: name all that it may touch with --read, \
         --write, --net, --env and --limit"
    );
    Err(CliError::usage(anyhow::Error::msg(what)).hint(hint))
}

/// Returns the name of the server that is meant: by its own name, by the name of a tool, or by the
/// beginning of a name that no tool has.
fn meant<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a str> {
    if let Some(tool) = snapshot.get(name) {
        return tool.build.of_a_server().map(|(server, _)| server.name.as_str());
    }
    let mut servers = snapshot.servers().iter().map(|KnownServer { name, .. }| name.as_str());
    // A server's name never has two underscores, and the names of its tools replace each hyphen
    // with one.
    let is_meant = |server: &&str| {
        let beginning = name.split_once("__").map(|(beginning, _)| beginning);
        *server == name || beginning == Some(&*server.replace('-', "_"))
    };
    servers.find(is_meant)
}

/// Returns the command that repeats the server's definition, with the grant that these flags name.
pub(in crate::commands::policy) fn command(
    server: &str,
    definition: Option<&ServerDefinition>,
    flags: &[String],
) -> String {
    let mut words = vec![format!("ikigai mcp add {server}")];
    let target = definition.map(|definition| &definition.server.target);
    if let Some(ServerTarget::Remote { url, auth }) = target {
        words.push(shell_quoted(url));
        words.extend(token(auth));
    }
    if let Some(tools) = definition.and_then(|definition| definition.tools.as_ref()) {
        words.push(format!("--tools {}", shell_quoted(&tools.join(","))));
    }
    words.extend_from_slice(flags);
    match target {
        Some(ServerTarget::Process { program, args }) => {
            words.push("--".to_owned());
            words.push(shell_quoted(&program.to_string_lossy()));
            words.extend(args.iter().map(|word| shell_quoted(&word.to_string_lossy())));
        }
        Some(ServerTarget::Remote { .. }) => {}
        None => words.push("-- COMMAND".to_owned()),
    }
    words.join(" ")
}

/// Returns the flag for the source of a token.
fn token(auth: &Auth) -> Option<String> {
    match auth {
        Auth::None => None,
        Auth::Variable(name) => Some(format!("--token-env {}", shell_quoted(name))),
        Auth::Command { program, args } => {
            let args = args.iter().map(|word| word.to_string_lossy());
            let words = std::iter::once(program.to_string_lossy()).chain(args);
            let words: Vec<String> = words.map(|word| shell_quoted(&word)).collect();
            Some(format!("--token-command {}", shell_quoted(&words.join(" "))))
        }
        Auth::OAuth => Some("--oauth".to_owned()),
    }
}

/// Returns the given flags that also apply to a server; without such flags, an example.
fn flags(arguments: &Arguments) -> Vec<String> {
    let Arguments { read, write, net, env, limit, .. } = arguments;
    let dirs = [("--read", read), ("--write", write)];
    let dirs = dirs.into_iter().flat_map(|(flag, dirs)| {
        dirs.iter().map(move |dir| format!("{flag} {}", shell_quoted(&dir.to_string_lossy())))
    });
    let net = net.iter().map(|peer| format!("--net {}", shell_quoted(peer)));
    let env = env.iter().map(|name| format!("--env {}", shell_quoted(name)));
    let limit = limit
        .iter()
        .map(|(key, value)| format!("--limit {}={}", key.as_str(), shell_quoted(value)));
    let flags: Vec<String> = dirs.chain(net).chain(env).chain(limit).collect();
    if flags.is_empty() { vec!["--read DIR".to_owned()] } else { flags }
}
