//! `ikigai tool show`: everything known about one tool.

use std::process::ExitCode;
use std::slice::from_ref;

use clap::Args;
use ikigai_host::exec::wasm::Tier;
use ikigai_protocol::Access;
use serde_json::{Value, json};

use super::list::{plain_table, print_not_offered, print_warnings};
use super::named::named_tool;
use crate::commands::definition;
use crate::complete;
use crate::decision::{self, ToolRow};
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{print, print_json, visible};
use crate::shipping::ToolFacts;
use crate::tool_flags::usage;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool, by the name that `tool list` shows
    #[arg(add = complete::tools())]
    name: String,
    /// List the interfaces that a component imports
    #[arg(long, conflicts_with = "json")]
    imports: bool,
    /// Print JSON, with the imports and the schema
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.look_up(&arguments.name).await;
    print_warnings(&snapshot);
    print_not_offered(&host, &snapshot, from_ref(&arguments.name));
    let tool = named_tool(&snapshot, &arguments.name)?;
    let row = ToolRow::for_tool(&host, tool).await;
    let known = ToolFacts::for_tool(&host, tool);
    let code = CompiledCode {
        tier: tool.build.tier().await.map_err(CliError::failed)?,
        imports: tool.build.imports().await.map_err(CliError::failed)?,
    };
    if arguments.json {
        print_json(&as_json(&row, &known, &code))?;
    } else {
        print(&as_text(&row, &known, &code, arguments.imports))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The compiled code of a tool; empty for a native build.
struct CompiledCode {
    /// The tier, and the reason if it stays at the baseline.
    tier: Option<(Tier, Option<String>)>,
    imports: Vec<String>,
}

impl CompiledCode {
    /// Returns the names of the imports, or their number; `None` without imports.
    fn imports(&self, with_names: bool) -> Option<String> {
        match self.imports.len() {
            0 => None,
            _ if with_names => Some(self.imports.join("\n")),
            1 => Some("1 interface; `--imports` lists it".to_owned()),
            count => Some(format!("{count} interfaces; `--imports` lists them")),
        }
    }

    fn text(&self) -> Option<String> {
        Some(match self.tier.as_ref()? {
            (Tier::Optimised, _) => "optimised".to_owned(),
            (Tier::Baseline, None) => "baseline, until optimised code is compiled".to_owned(),
            (Tier::Baseline, Some(reason)) => {
                format!("baseline: as optimised code it {reason}; ikigai tries again after an hour")
            }
        })
    }
}

fn as_text(
    &ToolRow { tool, ref decided, isolation }: &ToolRow<'_>,
    known: &ToolFacts,
    code: &CompiledCode,
    with_imports: bool,
) -> String {
    let mut head = plain_table();
    head.add_row(["name", tool.name()]);
    head.add_row(["description", &visible(&tool.schema.description)]);
    head.add_row(["example", &usage::example(&tool.schema, definition)]);
    let parameters = usage::parameter_lines(&tool.schema, definition);
    let mut table = plain_table();
    let build = &tool.build;
    let backend = build.backend();
    let mut row = |name: &str, value: String, by: String| {
        table.add_row([name.to_owned(), value, by]);
    };
    let nobody = String::new;
    row("source", tool.source().to_owned(), nobody());
    row("backend", format!("{}: {}", backend.as_str(), tool.reason), nobody());
    let wasi = decision::wasi(build);
    if !wasi.is_empty() {
        row("wasi", wasi.join(", "), nobody());
    }
    row("path", build.path.display().to_string(), nobody());
    if let Some(program) = build.wrapped_program() {
        row("wraps", program.display().to_string(), nobody());
    }
    row("sha256", build.digest.to_string(), nobody());
    for (name, value) in known.rows() {
        row(name, value, nobody());
    }
    if let Some(other) = &tool.other {
        let text = format!("{} ({})", other.path.display(), other.backend().as_str());
        row("other build", text, nobody());
    }
    match decided {
        Err(denial) => row("may be called", format!("no: {denial}"), nobody()),
        Ok(decision) => {
            let by = |capability| decision::sources(decision, &[capability]);
            row("sandbox", isolation.to_owned(), by("sandbox"));
            row("may read", decision::dirs(backend, decision, Access::ReadOnly), by("fs"));
            row("may write", decision::dirs(backend, decision, Access::ReadWrite), by("fs"));
            row("network", decision::network(backend, decision), by("net"));
            row("environment", decision::environment(decision), by("env"));
            row("assets", decision::assets(decision).to_owned(), by("assets"));
            let limits = decision::limits(backend, &decision.limits);
            row("limits", limits, decision::sources(decision, &decision::limit_keys()));
            if let Some(which) = decision::approval(backend, decision) {
                row("needs a yes", which, nobody());
            }
            if let Some(patterns) = decision::hidden(decision) {
                row("does not see", patterns, nobody());
            }
            if let Some(rule) = decision::unasked(decision) {
                row("nobody is asked", rule, nobody());
            }
            if !decision.notes.is_empty() {
                row("note", decision.notes.join("\n"), nobody());
            }
        }
    }
    if let Some(text) = code.text() {
        row("code", text, nobody());
    }
    if let Some(imports) = code.imports(with_imports) {
        row("imports", imports, nobody());
    }
    let sees_base_view = decided.as_ref().is_ok_and(|decision| {
        decision::sees_base_view(tool, decision) && !decision.is_unconfined(backend)
    });
    let base_view = if sees_base_view { decision::BASE_VIEW } else { "" };
    format!("{head}\n\n{parameters}\n{table}\n{base_view}")
}

fn as_json(
    &ToolRow { tool, ref decided, isolation }: &ToolRow<'_>,
    known: &ToolFacts,
    code: &CompiledCode,
) -> Value {
    let build = &tool.build;
    let mut value = json!({
        "name": tool.name(),
        "description": tool.schema.description,
        "source": tool.source(),
        "server": build.of_a_server().map(|(server, _)| server.name.as_str()),
        "backend": build.backend().as_str(),
        "wasi": decision::wasi(build),
        "backend_reason": tool.reason,
        "sandbox": isolation,
        "path": build.path.to_string_lossy(),
        "wraps": build.wrapped_program().map(|program| program.to_string_lossy()),
        "digest": build.digest,
        "other_build": tool.other.as_ref().map(|other| json!({
            "backend": other.backend().as_str(),
            "path": other.path.to_string_lossy(),
            "digest": other.digest,
        })),
        "code": code.tier.as_ref().map(|(tier, _)| <&str>::from(tier)),
        "code_stays": code.tier.as_ref().and_then(|(_, reason)| reason.as_deref()),
        "imports": code.imports,
    });
    if let (Value::Object(value), Value::Object(decision)) =
        (&mut value, decision::as_json(build.backend(), decided))
    {
        value.extend(known.fields());
        value.extend(decision);
        value.insert("schema".to_owned(), tool.schema.to_value());
    }
    value
}
