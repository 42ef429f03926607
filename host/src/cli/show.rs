//! `ikigai tool show`: everything known of one tool.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::call::{not_found_hint, snapshot_with};
use super::error::CliError;
use super::list::{level, plain_table, tell_warnings};
use super::options::Options;
use super::print;
use crate::limits::Limits;
use crate::policy::{Grant, Sandbox};
use crate::registry::Tool;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The tool, by the name that `tool list` shows
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = snapshot_with(host, &arguments.name).await;
    tell_warnings(&snapshot);
    let Some(tool) = snapshot.get(&arguments.name) else {
        let hint = not_found_hint(&snapshot, &arguments.name);
        let hint = hint.trim_end().trim_start_matches("hint: ").to_owned();
        let text = format!("tool `{}` not found", arguments.name);
        return Err(CliError::failed(anyhow::Error::msg(text)).hint(hint));
    };
    let grant = host.grant(tool).map_err(|reason| CliError::failed(anyhow::Error::msg(reason)))?;
    let imports = tool.build.imports().await.map_err(CliError::failed)?;
    let text = if arguments.json {
        let value = as_json(tool, &grant, &imports, host.limits());
        format!("{}\n", serde_json::to_string_pretty(&value)?)
    } else {
        as_text(tool, &grant, &imports, host.limits())?
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(
    tool: &Tool,
    grant: &Grant,
    imports: &[String],
    limits: &Limits,
) -> Result<String, CliError> {
    let mut table = plain_table();
    let build = &tool.build;
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("name", tool.name().to_owned());
    row("description", tool.schema.description.clone());
    row("source", tool.origin.as_str().to_owned());
    row("backend", format!("{}: {}", build.backend().as_str(), tool.reason));
    row("sandbox", level(tool, grant).to_owned());
    row("path", build.path.display().to_string());
    row("sha256", build.digest.to_string());
    if let Some(other) = &tool.other {
        let text = format!("{} ({})", other.path.display(), other.backend().as_str());
        row("other build", text);
    }
    row("may touch", dirs(grant).unwrap_or_else(|| "nothing".to_owned()));
    row("environment", variables(grant));
    row("limits", limits_text(limits));
    if !imports.is_empty() {
        row("imports", imports.join("\n"));
    }
    let schema = serde_json::to_string_pretty(&tool.schema.to_value())?;
    Ok(format!("{table}\n\n{schema}\n"))
}

fn dirs(grant: &Grant) -> Option<String> {
    if grant.sandbox == Sandbox::Off {
        return Some("all that its user may".to_owned());
    }
    let line = |dir: &ikigai_protocol::GrantedDir| {
        format!("{}:{}", dir.access.as_str(), dir.path.display())
    };
    let lines: Vec<String> = grant.dirs.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn variables(grant: &Grant) -> String {
    let names: Vec<_> = grant.env.iter().map(|(name, _)| name.to_string_lossy()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

fn limits_text(limits: &Limits) -> String {
    let size = |bytes| bytesize::ByteSize(bytes);
    format!(
        "{} of time, {} fuel, {} of memory ({} native), {} of output",
        humantime::format_duration(limits.wall_clock),
        limits.fuel,
        size(limits.wasm_memory),
        size(limits.native_memory),
        size(limits.output)
    )
}

fn as_json(tool: &Tool, grant: &Grant, imports: &[String], limits: &Limits) -> Value {
    let build = &tool.build;
    let dirs = grant
        .dirs
        .iter()
        .map(|dir| json!({ "access": dir.access.as_str(), "path": dir.path.to_string_lossy() }));
    let names = grant.env.iter().map(|(name, _)| name.to_string_lossy());
    json!({
        "name": tool.name(),
        "description": tool.schema.description,
        "source": tool.origin.as_str(),
        "backend": build.backend().as_str(),
        "backend_reason": tool.reason,
        "sandbox": level(tool, grant),
        "path": build.path.to_string_lossy(),
        "digest": build.digest,
        "other_build": tool.other.as_ref().map(|other| json!({
            "backend": other.backend().as_str(),
            "path": other.path.to_string_lossy(),
            "digest": other.digest,
        })),
        "imports": imports,
        "grant": {
            "unconfined": grant.sandbox == Sandbox::Off,
            "dirs": dirs.collect::<Vec<_>>(),
            "env": names.collect::<Vec<_>>(),
        },
        "limits": {
            "wall_clock_ms": u64::try_from(limits.wall_clock.as_millis()).unwrap_or(u64::MAX),
            "fuel": limits.fuel,
            "wasm_memory": limits.wasm_memory,
            "native_memory": limits.native_memory,
            "output": limits.output,
        },
        "schema": tool.schema.to_value(),
    })
}
