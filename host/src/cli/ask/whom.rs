//! Whom `ikigai ask` asks: the provider, its address and its key.

use std::time::Duration;

use ikigai_provider::{Client, Endpoint, Key, Provider};

use crate::agent::Model;
use crate::cli::error::CliError;

/// The model that the flags and the environment name.
pub(super) fn model(provider: Option<Provider>, name: Option<&str>) -> Result<Model, CliError> {
    let provider = provider.unwrap_or(Provider::OpenAi);
    let Some(name) = name else {
        return Err(
            CliError::usage(anyhow::Error::msg("no model is set")).hint("name one with --model")
        );
    };
    let (key, address) = match provider {
        Provider::OpenAi | Provider::OpenAiChat => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        Provider::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        Provider::Google => ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
    };
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = Endpoint {
        provider,
        base_url: set(address),
        key: set(key).map(|key| Key::new(&key)),
        connect_timeout: Duration::from_secs(10),
        silence: Duration::from_secs(300),
    };
    let client = Client::new(endpoint).map_err(CliError::usage)?;
    Ok(Model { client, name: name.to_owned() })
}
