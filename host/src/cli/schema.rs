//! `ikigai tool schema`: what a model is told of the tools.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::call::{not_found_hints, say_hints};
use super::error::{self, CliError};
use super::options::Options;
use super::{list, print, say};
use crate::registry::Depth;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The tools; all of them if none is named
    names: Vec<String>,
    /// The form in which to print them
    #[arg(long, value_name = "FORM", default_value = "canonical")]
    provider: Form,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// Name, description, parameters and, where given, returns wrapped as the envelope is
    Canonical,
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let mut snapshot = host.registry.scan(Depth::Remembered).await;
    let all = arguments.names.is_empty() && snapshot.skipped().iter().any(|it| it.failed);
    let named = |name: &String| snapshot.get(name).is_none() || snapshot.failed(name);
    if all || arguments.names.iter().any(named) {
        snapshot = host.registry.scan(Depth::Failed).await;
    }
    list::tell_warnings(&snapshot);
    let Form::Canonical = arguments.provider;
    let mut missing = false;
    let mut schemas: Vec<Value> = Vec::new();
    if arguments.names.is_empty() {
        schemas.extend(snapshot.tools().map(|tool| tool.schema.canonical()));
    }
    for name in &arguments.names {
        match snapshot.get(name) {
            Some(tool) => schemas.push(tool.schema.canonical()),
            None => {
                missing = true;
                say(&format!("error: tool `{name}` not found\n"));
                say_hints(&not_found_hints(&snapshot, name));
            }
        }
    }
    let mut text = serde_json::to_string_pretty(&schemas)?;
    text.push('\n');
    print(text.as_bytes())?;
    Ok(ExitCode::from(if missing { error::FAILED } else { 0 }))
}
