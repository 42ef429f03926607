//! `ikigai tool schema`: the schemas of tools as a model receives them.

use std::process::ExitCode;
use std::str::FromStr;

use clap::Args;
use ikigai_protocol::ToolSchema;
use ikigai_provider::{OmittedTool, Provider, TranslatedTools, UnknownProvider, translate_all};
use serde_json::Value;

use super::call::print_hints;
use super::list;
use super::named::not_found_hints;
use crate::choice;
use crate::complete;
use crate::error::{self, CliError};
use crate::options::SharedOptions;
use crate::output::{eprint, print_json};
use crate::remedy;

use ikigai_host::host::Host;
use ikigai_host::registry::{ScanDepth, Snapshot};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tools [default: all]
    #[arg(add = complete::tools())]
    names: Vec<String>,
    /// The form of the schemas; a provider's form is exactly what ikigai sends to that provider
    #[arg(long, value_name = "FORM", default_value = CANONICAL,
          value_parser = choice::parser(SchemaForm::ALL, SchemaForm::help))]
    provider: SchemaForm,
}

/// A provider's form, or ikigai's own.
#[derive(Clone, Copy, Debug)]
struct SchemaForm(Option<Provider>);

/// The name of ikigai's own form.
const CANONICAL: &str = "canonical";

impl SchemaForm {
    const ALL: &[Self] = {
        let [one, two, three, four] = Provider::ALL;
        &[Self(None), Self(Some(one)), Self(Some(two)), Self(Some(three)), Self(Some(four))]
    };

    fn help(self) -> Option<&'static str> {
        Some(match self.0 {
            None => {
                "Name, description, parameters and, if the tool has it, `returns`, which describes the whole \
                 envelope of `tool call`"
            }
            Some(Provider::OpenAi) => "OpenAI's Responses API",
            Some(Provider::OpenAiChat) => "Chat Completions, which local servers support too",
            Some(Provider::Anthropic) => "Anthropic's Messages API",
            Some(Provider::Google) => "Google's Gemini API",
        })
    }
}

impl From<SchemaForm> for &'static str {
    fn from(form: SchemaForm) -> Self {
        form.0.map_or(CANONICAL, Provider::as_str)
    }
}

impl FromStr for SchemaForm {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(Self(if name == CANONICAL { None } else { Some(name.parse()?) }))
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let mut snapshot = host.registry().scan(ScanDepth::Remembered).await;
    let all = arguments.names.is_empty() && snapshot.skipped().iter().any(|it| it.failed);
    let named = |name: &String| snapshot.get(name).is_none() || snapshot.failed(name);
    if all || arguments.names.iter().any(named) {
        snapshot = host.registry().scan(ScanDepth::Failed).await;
    }
    list::print_warnings(&snapshot);
    list::print_not_offered(&host, &snapshot, &arguments.names);
    if let Some(provider) = arguments.provider.0.filter(|_| arguments.names.is_empty()) {
        return all_for(&host, provider, &snapshot, options);
    }
    let mut missing = false;
    let mut schemas: Vec<&ToolSchema> = Vec::new();
    if arguments.names.is_empty() {
        schemas.extend(snapshot.tools().map(|tool| &*tool.schema));
    }
    for name in &arguments.names {
        match snapshot.get(name) {
            Some(tool) => schemas.push(&tool.schema),
            None => {
                missing = true;
                eprint(&format!("error: tool `{name}` not found\n"));
                print_hints(&not_found_hints(&snapshot, name));
            }
        }
    }
    let shown = match arguments.provider.0 {
        None => schemas.into_iter().map(ToolSchema::canonical).collect::<Value>(),
        Some(provider) => {
            let bounds = options.config.offer(provider).bounds;
            let tools = translate_all(provider, bounds, schemas);
            missing |= !tools.left_out.is_empty();
            print_losses(provider, &tools, options.verbose);
            tools.value
        }
    };
    print_json(&shown)?;
    Ok(ExitCode::from(if missing { error::FAILED } else { 0 }))
}

/// Prints all tools as a conversation offers them to a provider, without the host's own tool.
fn all_for(
    host: &Host,
    provider: Provider,
    snapshot: &Snapshot,
    options: &SharedOptions,
) -> Result<ExitCode, CliError> {
    let offer = options.config.offer(provider);
    let mut beside_own = offer.clone();
    beside_own.bounds.tools = offer.bounds.tools.map(|room| room.saturating_sub(1));
    let tools = snapshot.tools().filter(|tool| host.offers(tool));
    let mut tools = ikigai_agent::offered(provider, &beside_own, tools, false);
    if let Some(crowded_out) = ikigai_agent::crowded_out(provider, &offer, &tools) {
        eprint(&format!("warning: {}\n", remedy::offer::warning(&crowded_out)));
    }
    // A limit on the number of tools is not a failure.
    tools.left_out.retain(|left| !left.reason.is_too_many());
    print_losses(provider, &tools, options.verbose);
    print_json(&tools.value)?;
    Ok(ExitCode::from(if tools.left_out.is_empty() { 0 } else { error::FAILED }))
}

/// Prints on stderr the tools that a provider does not get and, with `-v`, each difference between
/// a schema and the provider's form.
fn print_losses(provider: Provider, tools: &TranslatedTools, verbose: bool) {
    for OmittedTool { tool, reason } in &tools.left_out {
        eprint(&format!("error: `{tool}` cannot be offered to {provider}: {reason}\n"));
    }
    if verbose {
        for (tool, loss) in &tools.losses {
            eprint(&format!("{tool}: {loss}\n"));
        }
    } else if !tools.losses.is_empty() {
        let hint = "`-v` shows the differences from the tools' schemas";
        print_hints(&[hint.to_owned()]);
    }
}
