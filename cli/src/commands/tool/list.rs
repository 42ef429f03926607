//! `ikigai tool list`: a table for people, JSON for programs.

use std::process::ExitCode;

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::decision::{self, ToolRow};
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_json, visible};
use crate::remedy::REINSTALL;
use crate::shipping::{NotOffered, WorkspaceToolPaths};
use ikigai_host::host::Host;
use ikigai_host::paths::running_program;
use ikigai_host::registry::{KnownServer, ScanDepth, Snapshot, Tool};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Also show the files that are not tools, and why
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.registry().scan(ScanDepth::Failed).await;
    print_warnings(&snapshot);
    if host.registry().paths().system_tools.is_none()
        && let Err(error) = running_program()
    {
        eprint(&no_installation(&error));
    }
    print_not_offered(&host, &snapshot, &[]);
    if options.verbose {
        for skipped in snapshot.skipped() {
            eprint(&format!("{}\n", skipped.line()));
        }
    }
    let rows = ToolRow::all(&host, snapshot.tools()).await;
    if arguments.json {
        print_json(&as_json(&snapshot, &rows, arguments.all))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = if rows.is_empty() { String::new() } else { format!("{}\n", table(&rows)) };
    if arguments.all && !snapshot.skipped().is_empty() {
        text.push_str(&format!("\nSkipped:\n{}\n", skipped_table(&snapshot)));
    }
    print(&text)?;
    if rows.is_empty() {
        eprint(&format!(
            "no tools found\nhint: for the built-in tools, {REINSTALL}; put your own into \
             ~/.ikigai/tools\n"
        ));
    }
    for line in snapshot.servers().iter().filter_map(KnownServer::complaint) {
        eprint(&format!("{line}\n"));
    }
    let skipped = snapshot.skipped().len();
    if skipped > 0 && !arguments.all {
        eprint(&format!("{skipped} skipped; `ikigai tool list --all` shows why\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the warnings of a scan on stderr.
pub(in crate::commands) fn print_warnings(snapshot: &Snapshot) {
    for warning in snapshot.warnings() {
        eprint(&format!("warning: {warning}\n"));
    }
}

/// Returns the warning that the installation of this program cannot be found.
fn no_installation(error: &std::io::Error) -> String {
    format!(
        "warning: the built-in tools are not found, because the path of this program is unknown: \
         {error}\nhint: mount /proc, or start ikigai by its absolute path\n"
    )
}

/// Prints a warning on stderr for each tool of the workspace's lock that is not offered. If `names`
/// is not empty, considers only those tools. Warns about an unreadable lock in any case. Returns
/// whether a tool is not offered.
pub(in crate::commands) fn print_not_offered(
    host: &Host,
    snapshot: &Snapshot,
    names: &[String],
) -> bool {
    let workspace = host.authority().workspace();
    let Some(tools) = WorkspaceToolPaths::find(host.registry().paths(), workspace) else {
        return false;
    };
    let mut tools = match tools.not_offered() {
        Ok(tools) => tools,
        Err(error) => {
            eprint(&unreadable(&error));
            return false;
        }
    };
    tools.retain(|tool| names.is_empty() || names.contains(&tool.name));
    for tool in &tools {
        eprint(&not_offered(tool, snapshot));
    }
    !tools.is_empty()
}

/// Returns the warning about a tool of the workspace's lock that is not offered.
fn not_offered(NotOffered { name, changed }: &NotOffered, snapshot: &Snapshot) -> String {
    let reason = match changed {
        true => "its entry in `.ikigai/tools.lock` changed since you approved it",
        false => "you have not approved it",
    };
    let instead = snapshot.get(name).map_or_else(String::new, |tool| match tool.source() {
        "system" => "; the installed tool with this name runs instead".to_owned(),
        _ => {
            format!("; your own tool with this name, `{}`, runs instead", tool.build.path.display())
        }
    });
    format!(
        "warning: the tool `{name}` of this workspace is not offered, since {reason}{instead}; run \
         `ikigai tool sync`\n"
    )
}

/// Returns the warning about an unreadable lock.
fn unreadable(error: &CliError) -> String {
    let hints = error.given_hints().iter().map(|hint| format!("hint: {hint}\n"));
    let hints: String = hints.collect();
    format!("warning: no tool of this workspace is offered: {}\n{hints}", error.reason())
}

fn table(rows: &[ToolRow<'_>]) -> Table {
    let mut table = plain_table();
    table.set_header(["NAME", "DESCRIPTION", "BACKEND", "SANDBOX", "SOURCE"]);
    for ToolRow { tool, isolation, .. } in rows {
        let first_line = tool.schema.description.lines().next().unwrap_or_default();
        table.add_row([
            tool.name(),
            &visible(first_line),
            tool.build.backend().as_str(),
            isolation,
            &source(tool),
        ]);
    }
    table
}

/// Returns the source of a tool: its server, or the kind of its directory.
fn source(tool: &Tool) -> String {
    match tool.build.of_a_server() {
        Some((server, _)) => format!("server {}", server.name),
        None => tool.source().to_owned(),
    }
}

fn skipped_table(snapshot: &Snapshot) -> Table {
    let mut table = plain_table();
    for skipped in snapshot.skipped() {
        table.add_row([skipped.path.display().to_string(), skipped.reason.clone()]);
    }
    table
}

/// The width that is assumed for a terminal that does not know its size, in columns.
const USUAL_COLUMNS: u16 = 80;

/// Makes a table without lines, with columns that fit the terminal, so that it is easy to read and
/// to cut.
pub(in crate::commands) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals do not know their size and report zero columns.
    if table.width() == Some(0) {
        table.set_width(USUAL_COLUMNS);
    }
    table
}

fn as_json(snapshot: &Snapshot, rows: &[ToolRow<'_>], all: bool) -> Value {
    let tools = rows.iter().map(|ToolRow { tool, isolation, .. }| {
        json!({
            "name": tool.name(),
            "description": tool.schema.description,
            "backend": tool.build.backend().as_str(),
            "wasi": decision::wasi(&tool.build),
            "backend_reason": tool.reason,
            "sandbox": isolation,
            "source": tool.source(),
            "server": tool.build.of_a_server().map(|(server, _)| server.name.as_str()),
            "path": tool.build.path.to_string_lossy(),
            "digest": tool.build.digest,
        })
    });
    let mut value = json!({ "tools": tools.collect::<Vec<_>>() });
    if all {
        let skipped = snapshot.skipped().iter().map(
            |skipped| json!({ "path": skipped.path.to_string_lossy(), "reason": skipped.reason }),
        );
        value["skipped"] = skipped.collect();
    }
    value
}
