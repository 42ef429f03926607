//! `/mcp`: the servers of MCP, their state and their tools.

use std::io;

use super::Repl;
use crate::commands::mcp::list::{state, target};
use crate::mcp::description;
use ikigai_host::registry::{KnownServer, ServerState, Standing};

impl Repl {
    /// Lists the servers as they were when they were last asked. Starts none.
    pub(super) fn show_servers(&self) -> io::Result<()> {
        let snapshot = self.host.registry().snapshot();
        let servers: Vec<String> =
            snapshot.servers().iter().map(|server| self.described(server)).collect();
        self.out.line(&match servers.is_empty() {
            true => "No MCP server was added. `ikigai mcp add --help` shows how.".to_owned(),
            false => servers.join("\n"),
        })
    }

    /// Returns a server, and a line for each tool that its definition chooses.
    fn described(&self, server: &KnownServer) -> String {
        let mut text =
            format!("{}: {}\n  {}\n", server.name, state(&self.host, server), target(server));
        if let ServerState::Listed { tools, .. } = &server.state {
            for tool in tools.iter().filter(|tool| tool.standing != Standing::NotChosen) {
                text.push_str(&format!("  {}", description::in_short(tool)));
            }
        }
        if server.withheld().next().is_some() {
            let name = &server.name;
            text.push_str(&format!(
                "  `ikigai mcp approve {name}` offers those that are withheld\n"
            ));
        }
        text
    }
}
