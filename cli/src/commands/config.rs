//! `ikigai config`: every setting, and the place that set it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use ikigai_host::policy::Provenance;
use ikigai_provider::{Endpoint, Provider, RequestHeader};
use serde_json::{Map, Value, json};

use super::tool::list::plain_table;
use crate::approval::{self, ApprovalOptions};
use crate::config::SettingSource;
use crate::error::CliError;
use crate::model::{ENVIRONMENT, ModelOptions, OnOff};
use crate::options::{PROFILE, SharedOptions};
use crate::output::{print, print_json};

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show every setting and its source
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
#[derive(Clone)]
struct SettingRow {
    key: String,
    value: Option<String>,
    from: String,
}

impl SettingRow {
    fn new(key: impl Into<String>, value: Option<String>, from: &SettingSource) -> Self {
        Self { key: key.into(), value, from: from.to_string() }
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    command: ConfigCommand,
    before: ModelOptions,
    approval_before: ApprovalOptions,
) -> Result<ExitCode, CliError> {
    let ConfigCommand::Show(arguments) = command;
    let model = arguments.model.or(before, ENVIRONMENT);
    let values = options.values()?;
    let profile = profile(options)?;
    let row = |(key, value): (&str, Option<String>)| match key {
        PROFILE => profile.clone(),
        _ => SettingRow::new(key, value, options.provenance(key)),
    };
    let mut rows: Vec<SettingRow> = values.into_iter().map(row).collect();
    let approval = arguments.approval.or(approval_before, ENVIRONMENT);
    let approval = approval.resolve(&options.config, ENVIRONMENT)?;
    rows.push(SettingRow::new(approval::KEY, Some(approval.approval.to_string()), &approval.from));
    rows.extend(of_model(options, &model)?);
    if arguments.json {
        print_json(&as_json(&rows))?;
    } else {
        print(&as_text(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the profile in force, which the flags and each policy file can set.
fn profile(options: &SharedOptions) -> Result<SettingRow, CliError> {
    let (value, from) = match options.profile_in_force()? {
        Some((profile, Provenance::Profile(_))) => {
            (Some(profile), SettingSource::Default.to_string())
        }
        Some((profile, by)) => (Some(profile), by.to_string()),
        None => (None, "a policy file cannot be used; see `ikigai doctor`".to_owned()),
    };
    Ok(SettingRow { key: PROFILE.to_owned(), value: value.map(|it| it.to_string()), from })
}

fn of_model(options: &SharedOptions, model: &ModelOptions) -> Result<Vec<SettingRow>, CliError> {
    let config = &options.config;
    let choice = model.resolve(config, ENVIRONMENT)?;
    let row = |key: &str, set: Option<(String, SettingSource)>| match set {
        Some((value, from)) => SettingRow::new(key, Some(value), &from),
        None => SettingRow::new(key, None, &SettingSource::Default),
    };
    let provider = choice.provider.map(|(provider, from)| (provider.to_string(), from));
    let effort = choice.effort.map(|(effort, from)| (effort.to_string(), from));
    let on_off = |key: &str, set: Option<(OnOff, SettingSource)>| {
        let (chosen, from) = set.unwrap_or((OnOff::default(), SettingSource::Default));
        SettingRow::new(key, Some(chosen.to_string()), &from)
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
    rows.push(SettingRow::new("compact_at", Some(compact_at.to_string()), &from));
    let (sessions, from) = config.sessions();
    rows.push(SettingRow::new("sessions", Some(sessions.to_string()), &from));
    for (key, tokens, from) in config.spend() {
        rows.push(SettingRow::new(format!("spend.{key}"), tokens.map(|it| it.to_string()), &from));
    }
    for provider in Provider::ALL {
        let (base_url, from) = config.base_url(provider, ENVIRONMENT);
        let endpoint = Endpoint { base_url, ..Endpoint::new(provider) };
        let url = Some(endpoint.shown_base_url());
        rows.push(SettingRow::new(format!("providers.{provider}.base_url"), url, &from));
        let key = config.key_source(provider, ENVIRONMENT);
        let value = match &key {
            SettingSource::Flag(_) | SettingSource::Variable(_) => Some("(set)".to_owned()),
            SettingSource::File { .. } => Some("(by a command)".to_owned()),
            SettingSource::Default => None,
        };
        rows.push(SettingRow::new(format!("providers.{provider}.key"), value, &key));
        for (key, value, from) in config.bounds(provider) {
            rows.push(SettingRow::new(format!("providers.{provider}.{key}"), value, &from));
        }
        for (key, setting) in config.other_settings(provider) {
            let (value, from) = (setting.value.clone(), setting.provenance());
            rows.push(SettingRow::new(format!("providers.{provider}.{key}"), Some(value), &from));
        }
        if let Some((headers, from)) = config.headers_of(provider) {
            let names: Vec<&str> = headers.iter().map(RequestHeader::name).collect();
            let value = format!("{} (not shown)", names.join(", "));
            rows.push(SettingRow::new(format!("providers.{provider}.headers"), Some(value), from));
        }
        for (model, key, setting) in config.models(provider) {
            let key = format!("providers.{provider}.models.\"{model}\".{key}");
            rows.push(SettingRow::new(key, Some(setting.value.clone()), &setting.provenance()));
        }
    }
    Ok(rows)
}

fn as_text(rows: &[SettingRow]) -> String {
    let mut table = plain_table();
    table.set_header(["SETTING", "VALUE", "FROM"]);
    for row in rows {
        let value = row.value.as_deref().unwrap_or("–");
        table.add_row([row.key.as_str(), value, row.from.as_str()]);
    }
    format!("{table}\n")
}

fn as_json(rows: &[SettingRow]) -> Map<String, Value> {
    let of = |row: &SettingRow| (row.key.clone(), json!({ "value": row.value, "from": row.from }));
    rows.iter().map(of).collect()
}
