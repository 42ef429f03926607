//! `ikigai tool new --wrap`: a definition that makes a tool of a program, and works unchanged.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ikigai_host::policy::{Backend, shell_quoted};
use ikigai_host::registry::{ScanDepth, Tool, wrap_definition_path};
use ikigai_protocol::is_tool_name;
use serde_json::json;

use super::check_name;
use super::place::{self, ToolDirectory};
use crate::commands::program::find_with_wasm;
use crate::error::CliError;
use crate::options::SharedOptions;
use crate::output::{print, print_json};

/// The definition, with placeholder names.
const TEMPLATE: &str = include_str!("../../../../templates/wrap/tool.wrap.toml");

/// The permissions of a definition.
const DATA: u32 = 0o644;

/// Arguments with which most programs print their version.
const FIRST_CALL: &str = r#"{"args": ["--version"]}"#;

pub(super) async fn run(
    options: &SharedOptions,
    program: &str,
    name: Option<String>,
    dir: Option<PathBuf>,
    json: bool,
) -> Result<ExitCode, CliError> {
    let path = find_with_wasm(program).map_err(|error| {
        CliError::usage(error).hint("specify a program on your PATH, or the path of a program")
    })?;
    let name = match name {
        Some(name) => name,
        None => name_of(Path::new(&path))?,
    };
    let kind = format!("--wrap {}", shell_quoted(program));
    check_name(&name, &kind)?;
    let host = options.host()?;
    let place = ToolDirectory::new(&host, dir)?;
    place.check_free(&host, &name, &kind).await?;
    let definition = wrap_definition_path(&place.dir, &name);
    place::write(&definition, &text(&name, &path, &definition), DATA)?;
    let found = host.registry().tool_at(&definition, ScanDepth::Everything).await;
    let tool = found.map_err(|reason| {
        // The first error is the one to report.
        let _ = fs::remove_file(&definition);
        CliError::failed(anyhow::Error::msg(format!("`{path}` cannot be a tool: {reason}")))
    })?;
    let next = next(&tool, &definition, place.is_among_tools);
    if json {
        print_json(&json!({
            "name": name,
            "wraps": path,
            "backend": tool.build.backend().as_str(),
            "path": definition.to_string_lossy(),
            "next": next,
        }))?;
    } else {
        let about_grant = if place.is_among_tools { about_grant(&tool) } else { "" };
        print(&format!(
            "created {}, so that {name} runs {path}\n\nnext:\n  {}{about_grant}\n",
            definition.display(),
            next.join("\n  ")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of a tool for a program.
fn name_of(program: &Path) -> Result<String, CliError> {
    let file = program.file_name().unwrap_or_default().to_string_lossy();
    let name: String = file
        .trim_end_matches(".wasm")
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character } else { '_' })
        .collect();
    if is_tool_name(&name) {
        return Ok(name);
    }
    let what = format!("`{name}` is not a valid name of a tool");
    Err(CliError::usage(anyhow::Error::msg(what))
        .hint("name the tool: `ikigai tool new NAME --wrap PROGRAM`"))
}

/// Returns the text of a definition.
fn text(name: &str, program: &str, definition: &Path) -> String {
    let literal = |text: &str| toml_edit::Value::from(text).to_string();
    let file = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let description = format!("Run the program `{file}` with these arguments");
    // A line break would end the comment.
    let shown = shell_quoted(&definition.to_string_lossy()).replace(char::is_control, "?");
    TEMPLATE
        .replace("@NAME@", name)
        .replace("@PATH@", &shown)
        .replace("@DESCRIPTION@", &literal(&description))
        .replace("@PROGRAM@", &literal(program))
}

/// Returns the purpose of the last command, the grant, as a comment of the shell.
fn about_grant(tool: &Tool) -> &'static str {
    match tool.build.backend() {
        Backend::Wasm => "   # a component has no access without a grant",
        Backend::Native | Backend::Mcp => {
            "   # with --read, --write or --net: for access beyond the workspace"
        }
    }
}

/// Returns the commands to run next.
fn next(tool: &Tool, definition: &Path, is_among_tools: bool) -> Vec<String> {
    let (name, path) = (tool.name(), shell_quoted(&definition.to_string_lossy()));
    let mut next = vec![format!("${{EDITOR:-vi}} {path}"), format!("ikigai tool check {path}")];
    if !is_among_tools {
        next.push(format!("install -D -m 644 -t ~/.ikigai/tools {path}"));
        return next;
    }
    next.insert(0, format!("ikigai tool call {name} '{FIRST_CALL}'"));
    // A native tool can use the workspace without a grant, and keeps that access.
    let access = if tool.build.backend() == Backend::Wasm { " --read ." } else { "" };
    next.push(format!("ikigai policy grant {name}{access}"));
    next
}
