//! The connection to a provider: its address, its key and its model, and the place that set each.
//!
//! Owns the variables of the vendors' own programs, which override the files. The command that
//! prints a key runs only when a request is about to be sent, because it may ask the user.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::{Command, Stdio};

use ikigai_agent::ToolOffer;
use ikigai_provider::{
    AnswerSettings, ApiKey, Effort, Endpoint, Provider, RequestHeader, ToolBounds,
};
use thiserror::Error;

use super::{Config, Setting, SettingSource};
use crate::user_command::CommandGate;
use crate::variables;
use ikigai_host::limits;

/// The failure of a command that should print a key.
#[derive(Debug, Error)]
pub(crate) enum KeyCommandError {
    /// A tool could change the command.
    #[error("`key_command` of `{provider}` was not started: {reason}")]
    Refused {
        /// The provider whose key it prints.
        provider: Provider,
        /// The reason, and what to do.
        reason: String,
    },
    /// The command could not be started.
    #[error("`key_command` of `{provider}` cannot be started")]
    Start {
        /// The provider whose key it prints.
        provider: Provider,
        /// The reason.
        source: std::io::Error,
    },
    /// The command failed.
    #[error("`key_command` of `{provider}` failed ({status})")]
    Failed {
        /// The provider whose key it prints.
        provider: Provider,
        /// The status with which it ended.
        status: std::process::ExitStatus,
    },
    /// It printed nothing, or more than a key.
    #[error("`key_command` of `{provider}` did not print a key; expected one line")]
    NoKey {
        /// The provider whose key it prints.
        provider: Provider,
    },
}

/// A function that returns the value of an environment variable.
pub(crate) type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns the value of a variable of this process. An empty variable counts as unset.
#[must_use]
pub(crate) fn environment(name: &str) -> Option<String> {
    variables::text(name).filter(|value| !value.is_empty())
}

impl Config {
    /// Returns the address of a provider, if one is set instead of the provider's own.
    #[must_use]
    pub(crate) fn base_url(
        &self,
        provider: Provider,
        environment: EnvLookup<'_>,
    ) -> (Option<String>, SettingSource) {
        let variable = provider.base_url_variable();
        match (environment(variable), self.of_provider(provider, "base_url")) {
            (Some(value), _) => (Some(value), SettingSource::Variable(variable.to_owned())),
            (None, Some(setting)) => (Some(setting.value.clone()), setting.provenance()),
            (None, None) => (None, SettingSource::Default),
        }
    }

    /// Returns the model that a file names for a provider.
    #[must_use]
    pub(crate) fn model_of(&self, provider: Provider) -> Option<&Setting> {
        self.of_provider(provider, "model")
    }

    /// Returns the other settings that a file has for a provider, with their keys.
    #[must_use]
    pub(crate) fn other_settings(&self, provider: Provider) -> Vec<(&'static str, &Setting)> {
        let keys = [
            "model",
            "max_tokens",
            "context",
            "effort",
            "temperature",
            "first_tools",
            "connect_timeout",
            "silence_timeout",
        ];
        keys.into_iter().filter_map(|key| Some((key, self.of_provider(provider, key)?))).collect()
    }

    /// Returns the settings that a file has for single models of a provider, with the names of the
    /// models and the keys.
    pub(crate) fn models(
        &self,
        provider: Provider,
    ) -> impl Iterator<Item = (&str, &'static str, &Setting)> {
        let models = self.models.iter().filter(move |((of, _), _)| *of == provider);
        models.flat_map(|((_, model), settings)| {
            settings.iter().map(|(key, setting)| (model.as_str(), *key, setting))
        })
    }

    /// Returns a setting of a model: its own, or else its provider's.
    fn of_model(&self, provider: Provider, model: &str, key: &'static str) -> Option<&Setting> {
        let own = self.models.get(&(provider, model.to_owned())).and_then(|own| own.get(key));
        own.or_else(|| self.of_provider(provider, key))
    }

    /// Returns the limit on the tokens of an answer that a file sets for a model.
    #[must_use]
    pub(crate) fn max_tokens(&self, provider: Provider, model: &str) -> Option<u32> {
        // Checked when the file was read.
        self.of_model(provider, model, "max_tokens")?.value.parse().ok()
    }

    /// Returns the size of the window that a file sets for a model, in tokens.
    #[must_use]
    pub(crate) fn context(&self, provider: Provider, model: &str) -> Option<u64> {
        // Checked when the file was read.
        self.of_model(provider, model, "context")?.value.parse().ok()
    }

    /// Returns the settings of a model's answers that a file sets.
    #[must_use]
    pub(crate) fn settings_of(&self, provider: Provider, model: &str) -> AnswerSettings {
        let set = |key| self.of_model(provider, model, key).map(|it| it.value.as_str());
        // Both were checked when the file was read.
        AnswerSettings {
            effort: set("effort").and_then(|value| value.parse().ok()),
            temperature: set("temperature").and_then(|value| value.parse().ok()),
        }
    }

    /// Returns the headers that are added to the requests of a provider, and the place that set
    /// them.
    #[must_use]
    pub(crate) fn headers_of(
        &self,
        provider: Provider,
    ) -> Option<(&[RequestHeader], &SettingSource)> {
        let (headers, from) = self.headers.get(&provider)?;
        Some((headers, from))
    }

    /// Returns the rules for offering tools to a provider.
    #[must_use]
    pub(crate) fn offer(&self, provider: Provider) -> ToolOffer {
        let set = |key| self.of_provider(provider, key).map(|it| it.value.as_str());
        // Both were checked when the file was read.
        let number = |key| set(key).and_then(|value| value.parse().ok());
        let own = ToolBounds::for_provider(provider);
        let bounds = ToolBounds {
            tools: number("max_tools").or(own.tools),
            description: number("max_description").or(own.description),
        };
        let first = set("first_tools").unwrap_or_default().split_whitespace();
        ToolOffer { bounds, first: first.map(str::to_owned).collect() }
    }

    /// Returns the bounds on the tools offered to a provider, each with its key and the place that
    /// set it.
    #[must_use]
    pub(crate) fn bounds(
        &self,
        provider: Provider,
    ) -> [(&'static str, Option<String>, SettingSource); 2] {
        let bounds = self.offer(provider).bounds;
        [("max_tools", bounds.tools), ("max_description", bounds.description)].map(
            |(key, value)| {
                let setting = self.of_provider(provider, key);
                let provenance = setting.map_or(SettingSource::Default, Setting::provenance);
                (key, value.map(|value| value.to_string()), provenance)
            },
        )
    }

    /// Returns the place that sets the key of a provider. Does not run the command that prints it.
    #[must_use]
    pub(crate) fn key_source(
        &self,
        provider: Provider,
        environment: EnvLookup<'_>,
    ) -> SettingSource {
        let variable = provider.key_variable().as_str();
        match (environment(variable), self.of_provider(provider, "key_command")) {
            (Some(_), _) => SettingSource::Variable(variable.to_owned()),
            (None, Some(setting)) => setting.provenance(),
            (None, None) => SettingSource::Default,
        }
    }

    /// Returns the providers of [`first_of_each_key`] that have a key. If there is only one, it is
    /// the default provider.
    #[must_use]
    pub(crate) fn keyed_providers(&self, environment: EnvLookup<'_>) -> Vec<Provider> {
        let has_key = |it: &Provider| self.key_source(*it, environment) != SettingSource::Default;
        first_of_each_key().into_iter().filter(has_key).collect()
    }

    /// Returns the address, key and timeouts of a provider. Runs `key_command` if no variable has
    /// the key, and waits for it. `gate` checks the command first.
    ///
    /// # Errors
    ///
    /// Fails if a tool could change the command, or if the command prints no key.
    pub(crate) fn endpoint(
        &self,
        provider: Provider,
        environment: EnvLookup<'_>,
        gate: &CommandGate,
    ) -> Result<Endpoint, KeyCommandError> {
        let variable = provider.key_variable().as_str();
        let key = match (environment(variable), self.of_provider(provider, "key_command")) {
            (Some(key), _) => Some(ApiKey::new(&key)),
            (None, Some(command)) => Some(run_key_command(provider, &command.value, gate)?),
            (None, None) => None,
        };
        let default = Endpoint::new(provider);
        let timeout = |key, default| {
            let setting = self.of_provider(provider, key);
            // Checked when the file was read.
            setting.and_then(|it| limits::parse_timeout(&it.value).ok()).unwrap_or(default)
        };
        Ok(Endpoint {
            base_url: self.base_url(provider, environment).0,
            key,
            connect_timeout: timeout("connect_timeout", default.connect_timeout),
            silence_timeout: timeout("silence_timeout", default.silence_timeout),
            headers: self.headers_of(provider).map_or_else(Vec::new, |(all, _)| all.to_vec()),
            ..default
        })
    }
}

/// Returns the providers, without those that share the key of an earlier one. For example,
/// `openai-chat` shares the key of `openai`.
pub(crate) fn first_of_each_key() -> Vec<Provider> {
    let mut keys = BTreeSet::new();
    Provider::ALL.into_iter().filter(|provider| keys.insert(provider.key_variable())).collect()
}

/// Checks a value in the table of a provider. The error explains the mistake.
pub(super) fn check(provider: Provider, key: &str, value: &str) -> Result<(), String> {
    match key {
        "connect_timeout" | "silence_timeout" => {
            limits::parse_timeout(value).map(drop).map_err(|what| format!("`{value}` {what}"))
        }
        "max_tokens" => match value.parse::<u32>() {
            Ok(1..) => Ok(()),
            _ => Err(format!("`{value}` is not a number of tokens; expected 1 to {}", u32::MAX)),
        },
        "effort" => {
            let effort = value.parse::<Effort>().map_err(|error| error.to_string())?;
            check_settings(provider, AnswerSettings { effort: Some(effort), temperature: None })
        }
        "temperature" => match value.parse::<f64>() {
            Ok(number) => {
                check_settings(provider, AnswerSettings { effort: None, temperature: Some(number) })
            }
            Err(_) => Err(format!("`{value}` is not a temperature; expected a number")),
        },
        "context" => match value.parse::<u64>() {
            Ok(1..) => Ok(()),
            _ => Err(format!("`{value}` is not a number of tokens; expected 1 or more")),
        },
        "max_tools" | "max_description" => match value.parse::<usize>() {
            Ok(1..) => Ok(()),
            _ => Err(format!("`{value}` is not a limit; expected a whole number from 1")),
        },
        "base_url" => {
            let base_url = Some(value.to_owned());
            let endpoint = Endpoint { base_url, ..Endpoint::new(provider) };
            endpoint
                .check_address()
                .map_err(|failure| format!("{}; expected `https://HOST/…`", failure.detail))
        }
        _ => Ok(()),
    }
}

fn check_settings(provider: Provider, settings: AnswerSettings) -> Result<(), String> {
    settings.check(provider).map_err(|error| error.to_string())
}

/// Runs a command with the shell and returns the key that it prints. The command has the terminal,
/// so it may ask the user. It starts in `/`, so that a workspace has no influence on it.
fn run_key_command(
    provider: Provider,
    command: &str,
    gate: &CommandGate,
) -> Result<ApiKey, KeyCommandError> {
    let words = ["/bin/sh", "-c", command].map(OsString::from);
    let env = gate.env(&words);
    let env = env.map_err(|reason| KeyCommandError::Refused { provider, reason })?;
    let [program, args @ ..] = &words;
    #[allow(clippy::disallowed_methods, reason = "no tool: a command of the user's own file")]
    let output = Command::new(program)
        .args(args)
        .env_clear()
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::inherit())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| KeyCommandError::Start { provider, source })?;
    if !output.status.success() {
        return Err(KeyCommandError::Failed { provider, status: output.status });
    }
    let key = std::str::from_utf8(&output.stdout).unwrap_or_default().trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(KeyCommandError::NoKey { provider });
    }
    Ok(ApiKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    fn config(text: &str) -> Config {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let path = scratch.path().join("config.toml");
        std::fs::write(&path, text).expect("a file");
        let mut config = Config::default();
        config.add(&path, Some(Path::new("/"))).expect("a configuration");
        config
    }

    fn no_variable(_: &str) -> Option<String> {
        None
    }

    fn unchecked() -> CommandGate {
        CommandGate::new(|_| Ok(vec![("PATH".into(), "/usr/bin:/bin".into())]))
    }

    #[test]
    fn a_variable_is_above_the_file() {
        let config = config(
            "[providers.anthropic]\nbase_url = \"http://file\"\nkey_command = \"exit 1\"\n\
             silence_timeout = \"7s\"",
        );
        let environment = |name: &str| match name {
            "ANTHROPIC_API_KEY" => Some(" from-variable \n".to_owned()),
            "ANTHROPIC_BASE_URL" => Some("http://variable".to_owned()),
            _ => None,
        };
        let endpoint = config.endpoint(Provider::Anthropic, &environment, &unchecked());
        let endpoint = endpoint.expect("an endpoint");
        assert_eq!(endpoint.base_url.as_deref(), Some("http://variable"));
        assert_eq!(endpoint.key, Some(ApiKey::new("from-variable")));
        assert_eq!(endpoint.silence_timeout, Duration::from_secs(7));
        assert_eq!(endpoint.connect_timeout, Duration::from_secs(10));
        let (url, provenance) = config.base_url(Provider::Anthropic, &no_variable);
        assert_eq!(url.as_deref(), Some("http://file"));
        assert!(provenance.to_string().ends_with("config.toml:2"), "{provenance}");
    }

    #[test]
    fn what_is_offered_is_the_vendors_bound_unless_a_file_sets_another() {
        for provider in Provider::ALL {
            assert_eq!(config("").offer(provider), ToolOffer::for_provider(provider));
        }
        let config = config(
            "[providers.openai-chat]\nmax_tools = 20\nmax_description = 1_024\n\
             first_tools = [\"grep\", \"db_query\"]",
        );
        let bounds = ToolBounds { tools: Some(20), description: Some(1024) };
        let first = vec!["grep".to_owned(), "db_query".to_owned()];
        assert_eq!(config.offer(Provider::OpenAiChat), ToolOffer { bounds, first });
        assert_eq!(config.offer(Provider::OpenAi), ToolOffer::for_provider(Provider::OpenAi));
        let [(_, tools, provenance), _] = config.bounds(Provider::OpenAiChat);
        assert_eq!(tools.as_deref(), Some("20"));
        assert!(provenance.to_string().ends_with("config.toml:2"), "{provenance}");
        let [_, (_, description, provenance)] = config.bounds(Provider::Google);
        assert_eq!((description, provenance), (None, SettingSource::Default));
    }

    #[test]
    fn a_command_gives_the_key_or_says_why_not() {
        let key = |command: &str| {
            let config = config(&format!("[providers.google]\nkey_command = {command:?}"));
            config.endpoint(Provider::Google, &no_variable, &unchecked()).map(|it| it.key)
        };
        assert_eq!(key("echo secret").expect("a key"), Some(ApiKey::new("secret")));
        assert_eq!(key("pwd").expect("a key"), Some(ApiKey::new("/")));
        let config = config("[providers.google]\nkey_command = \"echo secret\"");
        let gate = CommandGate::new(|words| Err(format!("{words:?} was replaced")));
        let refused = config.endpoint(Provider::Google, &no_variable, &gate).expect_err("refused");
        assert!(refused.to_string().contains("echo secret"), "{refused}");
        for (command, expected) in [
            ("exit 3", "exit status: 3"),
            ("true", "did not print a key"),
            ("echo a b", "did not print a key"),
        ] {
            let error = key(command).expect_err("no key").to_string();
            assert!(error.contains(expected) && error.contains("`google`"), "{error}");
        }
    }

    #[test]
    fn keys_are_found_in_variables_and_files() {
        let openai = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
        assert_eq!(config("").keyed_providers(&openai), [Provider::OpenAi]);
        assert_eq!(config("").keyed_providers(&no_variable), []);
        let two = config("[providers.google]\nkey_command = \"echo k\"");
        assert_eq!(two.keyed_providers(&no_variable), [Provider::Google]);
        assert_eq!(two.keyed_providers(&openai), [Provider::OpenAi, Provider::Google]);
    }
}
