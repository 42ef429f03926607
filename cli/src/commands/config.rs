//! `ikigai config`: every setting, and the place that set it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ikigai_provider::{Endpoint, Header, Provider};
use serde_json::{Map, Value, json};

use super::tool::list::plain_table;
use crate::approval::{self, ApprovalOptions};
use crate::config::Provenance;
use crate::error::CliError;
use crate::model::{ENVIRONMENT, ModelOptions, OnOff};
use crate::options::Options;
use crate::output::{print, print_json};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show every setting and where it comes from
    ///
    /// Flags override environment variables, which override ~/.config/ikigai/config.toml, which overrides
    /// /etc/ikigai/config.toml. Keys and passwords are not shown. `ikigai help options` lists the flags.
    Show(Arguments),
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    approval: ApprovalOptions,
}

/// One setting.
struct Row {
    key: String,
    value: Option<String>,
    from: String,
}

impl Row {
    fn new(key: impl Into<String>, value: Option<String>, from: &Provenance) -> Self {
        Self { key: key.into(), value, from: from.to_string() }
    }
}

pub(super) async fn run(
    options: &Options,
    command: Command,
    before: ModelOptions,
    approval_before: ApprovalOptions,
) -> Result<ExitCode, CliError> {
    let Command::Show(arguments) = command;
    let model = arguments.model.or(before, ENVIRONMENT);
    let mut rows: Vec<Row> = options
        .values()?
        .into_iter()
        .map(|(key, value)| Row::new(key, value, options.provenance(key)))
        .collect();
    let approval = arguments.approval.or(approval_before, ENVIRONMENT);
    let approval = approval.resolve(&options.config, ENVIRONMENT)?;
    rows.push(Row::new(approval::KEY, Some(approval.approval.to_string()), &approval.from));
    rows.extend(of_model(options, &model)?);
    if arguments.json {
        print_json(&as_json(&rows))?;
    } else {
        print(&as_text(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_model(options: &Options, model: &ModelOptions) -> Result<Vec<Row>, CliError> {
    let config = &options.config;
    let choice = model.resolve(config, ENVIRONMENT)?;
    let row = |key: &str, set: Option<(String, Provenance)>| match set {
        Some((value, from)) => Row::new(key, Some(value), &from),
        None => Row::new(key, None, &Provenance::Default),
    };
    let provider = choice.provider.map(|(provider, from)| (provider.to_string(), from));
    let effort = choice.effort.map(|(effort, from)| (effort.to_string(), from));
    let on_off = |key: &str, set: Option<(OnOff, Provenance)>| {
        let (chosen, from) = set.unwrap_or((OnOff::default(), Provenance::Default));
        Row::new(key, Some(chosen.to_string()), &from)
    };
    let mut rows = vec![
        row("provider", provider),
        row("model", choice.model),
        row("system", choice.system),
        on_off("agents_md", choice.agents_md),
        on_off("auto_summary", choice.auto_summary),
        row("effort", effort),
    ];
    let (compact_at, from) = config.compact_at();
    rows.push(Row::new("compact_at", Some(compact_at.to_string()), &from));
    let (sessions, from) = config.sessions();
    rows.push(Row::new("sessions", Some(sessions.to_string()), &from));
    for (key, tokens, from) in config.spend() {
        rows.push(Row::new(format!("spend.{key}"), tokens.map(|it| it.to_string()), &from));
    }
    for provider in Provider::ALL {
        let (base_url, from) = config.base_url(provider, ENVIRONMENT);
        let endpoint = Endpoint { base_url, ..Endpoint::new(provider) };
        let url = Some(endpoint.shown_base_url());
        rows.push(Row::new(format!("providers.{provider}.base_url"), url, &from));
        let key = config.key_source(provider, ENVIRONMENT);
        let value = match &key {
            Provenance::Flag(_) | Provenance::Variable(_) => Some("(set)".to_owned()),
            Provenance::File { .. } => Some("(by a command)".to_owned()),
            Provenance::Default => None,
        };
        rows.push(Row::new(format!("providers.{provider}.key"), value, &key));
        for (key, value, from) in config.bounds(provider) {
            rows.push(Row::new(format!("providers.{provider}.{key}"), value, &from));
        }
        for (key, setting) in config.other_settings(provider) {
            let (value, from) = (setting.value.clone(), setting.provenance());
            rows.push(Row::new(format!("providers.{provider}.{key}"), Some(value), &from));
        }
        if let Some((headers, from)) = config.headers_of(provider) {
            let names: Vec<&str> = headers.iter().map(Header::name).collect();
            let value = format!("{} (not shown)", names.join(", "));
            rows.push(Row::new(format!("providers.{provider}.headers"), Some(value), from));
        }
        for (model, key, setting) in config.models(provider) {
            let key = format!("providers.{provider}.models.\"{model}\".{key}");
            rows.push(Row::new(key, Some(setting.value.clone()), &setting.provenance()));
        }
    }
    Ok(rows)
}

fn as_text(rows: &[Row]) -> String {
    let mut table = plain_table();
    table.set_header(["SETTING", "VALUE", "FROM"]);
    for row in rows {
        let value = row.value.as_deref().unwrap_or("–");
        table.add_row([row.key.as_str(), value, row.from.as_str()]);
    }
    format!("{table}\n")
}

fn as_json(rows: &[Row]) -> Map<String, Value> {
    let of = |row: &Row| (row.key.clone(), json!({ "value": row.value, "from": row.from }));
    rows.iter().map(of).collect()
}
