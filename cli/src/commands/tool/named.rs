//! The tool that a user named, and the hints if no tool has that name.

use std::path::Path;

use crate::error::CliError;
use ikigai_host::nearest::nearest;
use ikigai_host::registry::{ApprovalState, KnownServer, ServerState, Snapshot, Tool};

/// Returns the tool with a name, or an error with hints.
pub(in crate::commands) fn named_tool<'a>(
    snapshot: &'a Snapshot,
    name: &str,
) -> Result<&'a Tool, CliError> {
    snapshot.get(name).ok_or_else(|| {
        if let Some(server) = snapshot.servers().iter().find(|server| server.name == name) {
            return of_a_server(server);
        }
        let what = if snapshot.is_late() { "was not compiled in time" } else { "not found" };
        let error = anyhow::Error::msg(format!("tool `{name}` {what}"));
        CliError::failed(error).hints(not_found_hints(snapshot, name))
    })
}

/// Returns the error for the name of a server, with the names of its tools.
fn of_a_server(server: &KnownServer) -> CliError {
    let name = &server.name;
    let listed = match &server.state {
        ServerState::Listed { tools, .. } => &tools[..],
        ServerState::NotAsked | ServerState::Unusable(_) => &[],
    };
    let offered = listed.iter().filter(|tool| tool.standing == ApprovalState::Approved);
    let names: Vec<&str> = offered.map(|tool| tool.name.as_str()).collect();
    let what = match &names[..] {
        [] => format!("`{name}` is a server, and none of its tools is offered"),
        [tool] => format!("`{name}` is a server; its tool is {tool}"),
        names => format!("`{name}` is a server; its tools are {}", names.join(", ")),
    };
    let hint = format!("`ikigai mcp show {name}` shows the server and its tools");
    CliError::failed(anyhow::Error::msg(what)).hint(hint)
}

/// Returns hints for a name that no tool has.
pub(super) fn not_found_hints(snapshot: &Snapshot, name: &str) -> Vec<String> {
    if let Some(path) = as_path(name) {
        return vec![format!(
            "`ikigai tool run {path}` runs a file, `ikigai tool check {path}` checks it; here a \
             tool is called by the name that `ikigai tool list` shows"
        )];
    }
    if snapshot.is_late() {
        return vec!["`ikigai tool list` compiles every component; or raise `--timeout`".into()];
    }
    let skipped = snapshot.skipped().iter().find(|skipped| skipped.is_called(name));
    if let Some(skipped) = skipped {
        let path = skipped.path.display();
        return vec![
            format!("`{path}` is not a tool: {}", skipped.reason),
            format!("try `ikigai tool check {path}`"),
        ];
    }
    vec![match nearest(name, snapshot.tools().map(|tool| tool.name())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`ikigai tool list --all` shows every tool and what was skipped".to_owned(),
    }]
}

/// Returns the name as a path for `tool run`, if it names a file.
fn as_path(name: &str) -> Option<String> {
    if name.contains('/') {
        return Some(name.to_owned());
    }
    Path::new(name).is_file().then(|| format!("./{name}"))
}
