//! `ikigai policy show`: one page on the grants of every tool.

use std::process::ExitCode;

use clap::Args;
use ikigai_protocol::Access;
use serde_json::{Value, json};

use super::misplaced::{misplaced_tables, server_called};
use super::{signers, with_tilde};
use crate::commands::tool::list::{plain_table, print_warnings};
use crate::commands::tool::named::named_tool;
use crate::complete;
use crate::decision::{self, ToolRow};
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{print, print_json};
use ikigai_host::host::Host;
use ikigai_host::nearest::nearest;
use ikigai_host::policy::{FileStatus, Provenance};
use ikigai_host::registry::{KnownServer, ScanDepth, Snapshot, Tool};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool [default: all tools]
    #[arg(add = complete::tools())]
    tool: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = match &arguments.tool {
        Some(name) => host.look_up(name).await,
        None => host.registry().scan(ScanDepth::Failed).await,
    };
    print_warnings(&snapshot);
    let tools: Vec<&Tool> = match &arguments.tool {
        None => snapshot.tools().collect(),
        Some(name) => vec![named_tool(&snapshot, name)?],
    };
    let rows = ToolRow::all(&host, tools.into_iter()).await;
    if arguments.json {
        print_json(&as_json(&host, &rows)?)?;
    } else {
        print(&as_text(&host, &snapshot, &rows)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The narrowest terminal in which the table is readable, in columns.
const WIDE: u16 = 120;

/// The columns of the table, or the lines of a block.
const COLUMNS: [&str; 11] = [
    "TOOL",
    "SOURCE",
    "BUILD",
    "MAY READ",
    "MAY WRITE",
    "NETWORK",
    "ENVIRONMENT",
    "ASSETS",
    "SANDBOX",
    "LIMITS",
    "DECIDED BY",
];

/// The texts of one tool, in the order of [`COLUMNS`].
type Cells = [String; COLUMNS.len()];

/// Returns a table with a row for each tool.
fn table(rows: &[Cells]) -> String {
    let mut table = plain_table();
    table.set_header(COLUMNS);
    for row in rows {
        table.add_row(row);
    }
    format!("{table}\n")
}

/// Returns a block for each tool, with a line for each column that has a text.
fn blocks(rows: &[Cells]) -> String {
    let mut text = String::new();
    for row in rows {
        let [name, ..] = row;
        let mut table = plain_table();
        for (column, cell) in COLUMNS.iter().zip(row).skip(1) {
            if !cell.is_empty() {
                table.add_row([column.to_lowercase(), cell.clone()]);
            }
        }
        let gap = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{gap}{name}\n{table}\n"));
    }
    text
}

fn as_text(host: &Host, snapshot: &Snapshot, rows: &[ToolRow<'_>]) -> Result<String, CliError> {
    let home = host.registry().paths().home.as_ref();
    let workspace = host.authority().workspace().display().to_string();
    // Shorten paths, so that more fits on the page.
    let short = |text: String| {
        let lines = text.lines().map(|line| match line.strip_prefix(&workspace) {
            Some("") => ".".to_owned(),
            Some(rest) if rest.starts_with('/') => format!(".{rest}"),
            _ => with_tilde(line, home),
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut all_cells: Vec<Cells> = Vec::with_capacity(rows.len());
    let mut denied = Vec::new();
    for row in rows {
        let ToolRow { tool, decided, isolation } = row;
        let (backend, isolation) = (row.backend(), (*isolation).to_owned());
        let [name, source, build] =
            [tool.name(), tool.source(), backend.as_str()].map(str::to_owned);
        let [read, write, network, environment, assets, sandbox, limits, by] = match decided {
            Err(denial) => {
                denied.push(format!("{} may not be called: {denial}", tool.name()));
                let by = denial.provenance.as_ref().map(Provenance::to_string).unwrap_or_default();
                let no = String::new;
                [no(), no(), no(), no(), no(), isolation, no(), with_tilde(&by, home)]
            }
            Ok(decision) => {
                let keys = ["fs", "net", "env", "assets", "sandbox"];
                let keys = keys.into_iter().chain(decision::limit_keys()).collect::<Vec<_>>();
                let by = decision::sources(decision, &keys);
                let by = by.split(", ").map(|by| with_tilde(by, home)).collect::<Vec<_>>();
                [
                    short(decision::dirs(backend, decision, Access::ReadOnly)),
                    short(decision::dirs(backend, decision, Access::ReadWrite)),
                    decision::network(backend, decision),
                    decision::environment(decision),
                    decision::assets(decision).to_owned(),
                    isolation,
                    decision::main_limits(backend, &decision.limits),
                    by.join("\n"),
                ]
            }
        };
        all_cells.push([
            name,
            source,
            build,
            read,
            write,
            network,
            environment,
            assets,
            sandbox,
            limits,
            by,
        ]);
    }
    // A pipe has no width, and a program that reads it gets the table.
    let is_narrow = plain_table().width().is_some_and(|columns| columns < WIDE);
    let mut text = if is_narrow { blocks(&all_cells) } else { table(&all_cells) };
    let notes = rows.iter().filter_map(|row| row.decided.as_ref().ok());
    let notes = notes.flat_map(|decision| decision.notes.iter().cloned());
    let asked = rows.iter().filter_map(|row| {
        let which = decision::approval(row.backend(), row.decided.as_ref().ok()?)?;
        Some(format!("{}: calls that need your approval: {which}", row.tool.name()))
    });
    let decided = || rows.iter().filter_map(|row| Some((row, row.decided.as_ref().ok()?)));
    let narrowed = decided().flat_map(|(row, decision)| {
        let name = row.tool.name();
        let unasked = decision::unasked(decision)
            .map(|rule| format!("{name}: ikigai does not ask you if it needs more ({rule})"));
        let hidden =
            decision::hidden(decision).map(|patterns| format!("{name}: does not see {patterns}"));
        let wasi = decision::allowed_wasi(decision)
            .map(|versions| format!("{name}: may use WASI {versions}"));
        unasked.into_iter().chain(hidden).chain(wasi)
    });
    let commands = decided().flat_map(|(row, decision)| {
        let lines = decision::commands(&decision.commands).into_iter();
        lines.map(|line| with_tilde(&format!("{}: the policy {line}", row.tool.name()), home))
    });
    let servers = snapshot.servers().iter().filter_map(KnownServer::complaint);
    let misplaced = misplaced_tables(host, snapshot).into_iter();
    let misplaced =
        misplaced.map(|table| with_tilde(&format!("{}; {}", table.problem, table.advice), home));
    let unknown = misplaced.chain(unknown_tools(host, snapshot));
    let asked = asked.chain(narrowed).chain(commands);
    for line in denied.into_iter().chain(notes).chain(asked).chain(servers).chain(unknown) {
        text.push_str(&format!("\n{line}\n"));
    }
    let (profile, by) = host.authority().profile()?;
    // Without a rule, the profile is the default, which has no place to name.
    let by = by.iter().filter(|by| !matches!(by, Provenance::Profile(_)));
    let by: Vec<String> = by.map(|by| with_tilde(&by.to_string(), home)).collect();
    let by = if by.is_empty() { String::new() } else { format!(" (by {})", by.join(", ")) };
    text.push_str(&format!("\nProfile:   {profile}{by}\n"));
    text.push_str(&format!("Workspace: {workspace} (.)\n"));
    let sees_base_view =
        |(row, decision): (&ToolRow<'_>, _)| decision::sees_base_view(row.tool, decision);
    if decided().any(sees_base_view) {
        text.push_str(decision::BASE_VIEW);
    }
    text.push_str(&signers::as_text(host, home)?);
    text.push_str("\nFiles:\n");
    let mut table = plain_table();
    for file in host.authority().files() {
        let path = with_tilde(&file.path.display().to_string(), home);
        table.add_row([file.kind.as_str().to_owned(), path, file_state(&file)]);
    }
    Ok(format!("{text}{table}\n"))
}

/// Returns the state of a policy file, for a table.
fn file_state(file: &FileStatus) -> String {
    match (&file.problem, file.exists) {
        (Some(problem), _) => format!("an older text is in force: {}", problem.line()),
        (None, true) => "in force".to_owned(),
        (None, false) => "none".to_owned(),
    }
}

/// Returns a line for each entry of the user's file that names an unknown tool. Often the name is
/// misspelt. Omits the names of servers.
fn unknown_tools(host: &Host, snapshot: &Snapshot) -> Vec<String> {
    let unknown = host.authority().named().into_iter();
    let is_unknown =
        |name: &str| snapshot.get(name).is_none() && server_called(snapshot, name).is_none();
    let unknown = unknown.filter(|(name, _)| is_unknown(name));
    unknown
        .map(|(name, line)| {
            let near = nearest(&name, snapshot.tools().map(|tool| tool.name()));
            let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            format!("line {line} of your policy names `{name}`, but no such tool exists{meant}")
        })
        .collect()
}

fn as_json(host: &Host, rows: &[ToolRow<'_>]) -> Result<Value, CliError> {
    let tools = rows.iter().map(|row| {
        let ToolRow { tool, decided, isolation } = row;
        let backend = row.backend();
        let mut value = json!({
            "name": tool.name(),
            "source": tool.source(),
            "backend": backend.as_str(),
            "backend_reason": tool.reason,
            "sandbox": isolation,
        });
        if let (Value::Object(value), Value::Object(decision)) =
            (&mut value, decision::as_json(backend, decided))
        {
            value.extend(decision);
        }
        value
    });
    let files = host.authority().files().into_iter().map(|file| {
        json!({
            "layer": file.kind.as_str(),
            "path": file.path.to_string_lossy(),
            "exists": file.exists,
            "problem": file.problem.as_ref().map(|problem| problem.line()),
        })
    });
    let (profile, by) = host.authority().profile()?;
    let mut page = json!({
        "profile": profile.as_str(),
        "profile_decided_by": by.iter().map(Provenance::to_string).collect::<Vec<_>>(),
        "workspace": host.authority().workspace().to_string_lossy(),
        "files": files.collect::<Vec<_>>(),
        "tools": tools.collect::<Vec<_>>(),
    });
    if let (Value::Object(page), Value::Object(signed)) = (&mut page, signers::as_json(host)?) {
        page.extend(signed);
    }
    Ok(page)
}
