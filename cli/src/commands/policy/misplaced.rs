//! The tables `[tools.NAME]` that have the name of an MCP server, and so apply to no tool.

use ikigai_host::host::Host;
use ikigai_host::registry::{KnownServer, Snapshot};

/// A table of a policy file that applies to nothing.
pub(in crate::commands) struct MisplacedTable {
    /// The line, and the reason why the table has no effect.
    pub(in crate::commands) problem: String,
    /// The tables that have an effect.
    pub(in crate::commands) advice: String,
}

/// Returns each table `[tools.NAME]` of a policy file that has the name of a server, unless a tool
/// has the same name.
pub(in crate::commands) fn misplaced_tables(
    host: &Host,
    snapshot: &Snapshot,
) -> Vec<MisplacedTable> {
    let entries = host.authority().tool_entries().into_iter();
    let entries = entries.filter(|(name, _)| snapshot.get(name).is_none());
    let tables = entries.filter_map(|(name, place)| {
        let server = server_called(snapshot, &name)?;
        let (own, prefix) = (&server.name, server.tool_prefix());
        Some(MisplacedTable {
            problem: format!(
                "{place}: `[tools.{name}]` has no effect, because `{own}` is an MCP server"
            ),
            advice: format!(
                "write `[servers.{own}]` for the whole server, or `[tools.{prefix}TOOL]` for one \
                 of its tools"
            ),
        })
    });
    tables.collect()
}

/// Returns the server that a table `[tools.NAME]` means. A server's name may have hyphens, which
/// the names of tools cannot have.
pub(super) fn server_called<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a KnownServer> {
    let mut servers = snapshot.servers().iter();
    servers.find(|server| server.tool_prefix().strip_suffix("__") == Some(name))
}
