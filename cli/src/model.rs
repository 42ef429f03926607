//! The flags of commands that talk to a model, and the provider and model that the flags choose.

use std::collections::BTreeMap;

use clap::Args;
use ikigai_assets::SessionSummary;
use ikigai_provider::{AnswerSettings, ApiKey, Effort, ModelClient, Provider};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::choice;
use crate::config::provider::{self, EnvLookup};
use crate::config::{Config, SettingSource};
use crate::error::CliError;
use crate::remedy;
use crate::user_command::CommandGate;
use ikigai_agent::Model;

/// The heading of these flags in `--help`.
const HEADING: &str = "Model";

const PROVIDER: &str = "IKIGAI_PROVIDER";
const MODEL: &str = "IKIGAI_MODEL";
const SYSTEM: &str = "IKIGAI_SYSTEM";
const EFFORT: &str = "IKIGAI_EFFORT";
const AGENTS_MD: &str = "IKIGAI_AGENTS_MD";
const AUTO_SUMMARY: &str = "IKIGAI_AUTO_SUMMARY";

/// A setting that is on unless somebody turns it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum OnOff {
    #[default]
    On,
    Off,
}

fn agents_md_help(choice: OnOff) -> Option<&'static str> {
    Some(match choice {
        OnOff::On => "Send the workspace's file, and your own file for all workspaces",
        OnOff::Off => "Send neither file",
    })
}

fn auto_summary_help(choice: OnOff) -> Option<&'static str> {
    Some(match choice {
        OnOff::On => "Send it, and add saved conversations to it when they end or grow long",
        OnOff::Off => "Neither send nor write it",
    })
}

/// The flags that choose a model and add to its system prompt.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ModelOptions {
    /// The provider: openai, openai-chat, anthropic or google [default: the one with a key]
    #[arg(long, value_name = "NAME", env = PROVIDER)]
    pub(crate) provider: Option<Provider>,

    /// The model, by the name that its provider uses
    #[arg(long, value_name = "NAME", env = MODEL)]
    pub(crate) model: Option<String>,

    /// Text to add to the system prompt
    #[arg(long, value_name = "TEXT", env = SYSTEM)]
    pub(crate) system: Option<String>,

    /// Reasoning effort: none, minimal, low, medium, high, xhigh or max, if the provider supports it [default: the
    /// provider's]
    #[arg(long, value_name = "LEVEL", env = EFFORT)]
    pub(crate) effort: Option<Effort>,

    /// Send the model AGENTS.md, or else CLAUDE.md [default: on]
    #[arg(long, value_name = "WHICH", env = AGENTS_MD,
          value_parser = choice::parser(OnOff::VARIANTS, agents_md_help))]
    pub(crate) agents_md: Option<OnOff>,

    /// Use a summary of earlier conversations in the workspace [default: on]
    #[arg(long, value_name = "WHICH", env = AUTO_SUMMARY,
          value_parser = choice::parser(OnOff::VARIANTS, auto_summary_help))]
    pub(crate) auto_summary: Option<OnOff>,
}

/// The settings of the model, each with the place that set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelChoice {
    /// The provider, if one was named or only one has a key.
    pub(crate) provider: Option<(Provider, SettingSource)>,
    /// The model, if one was named.
    pub(crate) model: Option<(String, SettingSource)>,
    /// The user's part of the system prompt.
    pub(crate) system: Option<(String, SettingSource)>,
    /// The effort of its thinking, if a flag or a variable sets it.
    pub(crate) effort: Option<(Effort, SettingSource)>,
    /// The choice whether the model gets notes from files, if the user made it.
    pub(crate) agents_md: Option<(OnOff, SettingSource)>,
    /// The choice whether earlier conversations are summarised, if the user made it.
    pub(crate) auto_summary: Option<(OnOff, SettingSource)>,
}

impl ModelOptions {
    /// Returns these flags, then the flags before the command, then the environment. clap reads the
    /// environment at both places.
    pub(crate) fn or(self, outer: Self, environment: EnvLookup<'_>) -> Self {
        fn inner_or_outer<T>(
            own: Option<T>,
            outer: Option<T>,
            is_variable: impl Fn(&T) -> bool,
        ) -> Option<T> {
            match own {
                Some(own) if is_variable(&own) => outer.or(Some(own)),
                own => own.or(outer),
            }
        }
        let is = |variable: &str, own: &str| environment(variable).is_some_and(|it| it == own);
        Self {
            provider: inner_or_outer(self.provider, outer.provider, |it| is(PROVIDER, it.as_str())),
            model: inner_or_outer(self.model, outer.model, |it| is(MODEL, it)),
            system: inner_or_outer(self.system, outer.system, |it| is(SYSTEM, it)),
            effort: inner_or_outer(self.effort, outer.effort, |it| is(EFFORT, it.as_str())),
            agents_md: inner_or_outer(self.agents_md, outer.agents_md, |it| {
                is(AGENTS_MD, (*it).into())
            }),
            auto_summary: inner_or_outer(self.auto_summary, outer.auto_summary, |it| {
                is(AUTO_SUMMARY, (*it).into())
            }),
        }
    }

    /// Returns the settings in force: flags override the environment, which overrides the files.
    ///
    /// # Errors
    ///
    /// Fails if a file names an unknown provider.
    pub(crate) fn resolve(
        &self,
        config: &Config,
        environment: EnvLookup<'_>,
    ) -> Result<ModelChoice, CliError> {
        let of_line = |key: &str, variable: &str, value: Option<&str>| {
            let value = value.filter(|it| !it.is_empty())?.to_owned();
            let is_variable = environment(variable).as_ref() == Some(&value);
            let provenance = match is_variable {
                true => SettingSource::Variable(variable.to_owned()),
                false => SettingSource::Flag(format!("--{key}")),
            };
            Some((value, provenance))
        };
        let of_file = |key: &str| {
            config.setting(key).map(|setting| (setting.value.clone(), setting.provenance()))
        };
        let of_any = |key: &str, variable: &str, value: Option<&str>| {
            of_line(key, variable, value).or_else(|| of_file(key))
        };
        let provider = match of_any("provider", PROVIDER, self.provider.map(Provider::as_str)) {
            Some((name, provenance)) => {
                let provider = name.parse().map_err(|error| {
                    CliError::usage(anyhow::Error::new(error).context(provenance.to_string()))
                })?;
                Some((provider, provenance))
            }
            None => match config.keyed_providers(environment)[..] {
                [it] => Some((it, config.key_source(it, environment))),
                _ => None,
            },
        };
        let of_provider = || {
            let setting = config.model_of(provider.as_ref()?.0)?;
            Some((setting.value.clone(), setting.provenance()))
        };
        let on_or_off = |key: &str, variable: &str, value: Option<OnOff>| {
            let set = of_any(key, variable, value.map(<&str>::from));
            let parsed = set.map(|(word, provenance)| match check_on_off(key, &word) {
                Ok(chosen) => Ok((chosen, provenance)),
                Err(error) => Err(CliError::usage(error.context(provenance.to_string()))),
            });
            parsed.transpose()
        };
        // A model for one provider overrides a model for all of them.
        let model = of_line("model", MODEL, self.model.as_deref())
            .or_else(of_provider)
            .or_else(|| of_file("model"));
        Ok(ModelChoice {
            provider,
            model,
            system: of_any("system", SYSTEM, self.system.as_deref()),
            effort: self.effort.and_then(|effort| {
                let (_, provenance) = of_line("effort", EFFORT, Some(effort.as_str()))?;
                Some((effort, provenance))
            }),
            agents_md: on_or_off("agents_md", AGENTS_MD, self.agents_md)?,
            auto_summary: on_or_off("auto_summary", AUTO_SUMMARY, self.auto_summary)?,
        })
    }
}

/// Parses the value of an on-or-off key in a file.
pub(crate) fn check_on_off(key: &str, value: &str) -> anyhow::Result<OnOff> {
    value.parse().map_err(|_| {
        anyhow::Error::msg(format!("`{value}` is not valid for `{key}`; expected `on` or `off`"))
    })
}

impl ModelChoice {
    /// Returns the user's part of the system prompt.
    pub(crate) fn system(&self) -> Option<String> {
        self.system.as_ref().map(|(text, _)| text.clone())
    }

    /// Returns whether the model gets the notes in files.
    pub(crate) fn has_notes(&self) -> bool {
        self.agents_md.as_ref().is_none_or(|(chosen, _)| *chosen == OnOff::On)
    }

    /// Returns whether the summary of earlier conversations is sent and written.
    pub(crate) fn has_auto_summary(&self) -> bool {
        self.auto_summary.as_ref().is_none_or(|(chosen, _)| *chosen == OnOff::On)
    }

    /// Returns the model with a client for its provider. Runs the command that prints the key, if
    /// there is one and `gate` allows it.
    ///
    /// # Errors
    ///
    /// Fails if the provider or the model is not named, the command fails, the address is wrong, or
    /// the provider does not support a setting.
    pub(crate) fn model(
        &self,
        config: &Config,
        environment: EnvLookup<'_>,
        gate: &CommandGate,
    ) -> Result<Model, CliError> {
        let (provider, name) = self.provider_and_model(config, environment)?;
        let settings = self.settings(config, provider, name)?;
        let endpoint = config.endpoint(provider, environment, gate).map_err(CliError::usage)?;
        let client = ModelClient::new(endpoint).map_err(|failure| {
            let hint = remedy::provider::hint(&failure);
            CliError::usage(failure).hints(hint)
        })?;
        Ok(Model {
            client,
            name: name.to_owned(),
            max_tokens: config.max_tokens(provider, name),
            context: config.context(provider, name),
            settings,
            offer: config.offer(provider),
        })
    }

    /// Returns the settings for the model's answers. Flags and variables override the files.
    ///
    /// # Errors
    ///
    /// Fails if the provider does not support a setting.
    fn settings(
        &self,
        config: &Config,
        provider: Provider,
        name: &str,
    ) -> Result<AnswerSettings, CliError> {
        let mut settings = config.settings_of(provider, name);
        if let Some((effort, _)) = self.effort {
            settings.effort = Some(effort);
        }
        match (settings.check(provider), &self.effort) {
            (Ok(()), _) => Ok(settings),
            (Err(error), Some((_, from))) => {
                Err(CliError::usage(anyhow::Error::new(error).context(from.to_string())))
            }
            (Err(error), None) => Err(CliError::usage(error)),
        }
    }

    /// Returns the provider and the model.
    ///
    /// # Errors
    ///
    /// Fails if one of them is not named. The hints explain how to name it.
    fn provider_and_model(
        &self,
        config: &Config,
        environment: EnvLookup<'_>,
    ) -> Result<(Provider, &str), CliError> {
        let missing = |what: &str| CliError::usage(anyhow::Error::msg(what.to_owned()));
        let Some((provider, _)) = &self.provider else {
            let keyed = config.keyed_providers(environment);
            let addressed = addressed_provider(config, environment);
            let error = match (&keyed[..], &addressed) {
                ([], Some((provider, from))) => missing(
                    "there is no key for any model provider, and no provider is specified",
                )
                .hint(format!(
                    "{from} names a server: `--provider {provider}` asks it, and needs no key"
                )),
                ([], None) => missing("there is no key for any model provider").hint(format!(
                    "set one of {}, or specify a provider with --provider",
                    key_variables().join(", ")
                )),
                (keyed, _) => {
                    let names: Vec<_> = keyed.iter().map(|provider| provider.as_str()).collect();
                    missing(&format!("there are keys for several providers: {}", names.join(", ")))
                        .hint("choose one with --provider or IKIGAI_PROVIDER, or in config.toml")
                }
            };
            return Err(error.hint("`ikigai config show` shows what is set, and where"));
        };
        let Some((model, _)) = &self.model else {
            return Err(missing(&format!("no model of `{provider}` is specified"))
                .hint("specify one with --model or IKIGAI_MODEL, or in config.toml")
                .hint(format!("its models: {}", models_page(*provider))));
        };
        Ok((*provider, model))
    }
}

/// The models of a conversation, which the user changes by commands, and the keys that were entered
/// in it. An entered key is in no file and no variable, and ends with the process.
pub(crate) struct Models {
    config: Config,
    options: ModelOptions,
    /// The check of the commands that print keys.
    gate: CommandGate,
    keys: BTreeMap<&'static str, ApiKey>,
}

impl Models {
    pub(crate) fn new(config: Config, options: ModelOptions, gate: CommandGate) -> Self {
        Self { config, options, gate, keys: BTreeMap::new() }
    }

    /// Uses this key of a provider for the rest of the run, instead of the key from its variable or
    /// its command.
    pub(crate) fn give_key(&mut self, provider: Provider, key: &str) {
        self.keys.insert(provider.key_variable().as_str(), ApiKey::new(key));
    }

    /// Returns a model with a client for its provider: the named ones, or else the ones that the
    /// flags, the variables and the files name.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`ModelChoice::model`].
    pub(crate) fn find(
        &self,
        provider: Option<Provider>,
        name: Option<&str>,
    ) -> Result<Model, CliError> {
        let environment: EnvLookup<'_> = &|variable: &str| {
            let given = self.keys.get(variable).map(|key| key.reveal().to_owned());
            given.or_else(|| ENVIRONMENT(variable))
        };
        let options =
            ModelOptions { provider: provider.or(self.options.provider), ..self.options.clone() };
        let mut choice = options.resolve(&self.config, environment)?;
        if let Some(name) = name {
            choice.model = Some((name.to_owned(), SettingSource::Flag("/model".to_owned())));
        }
        choice.model(&self.config, environment, &self.gate)
    }

    /// Returns the model that a saved conversation last used. Returns `None` if a flag names a
    /// provider or a model, or if the conversation has not used a model.
    ///
    /// # Errors
    ///
    /// Fails if the model cannot be asked, for example because its provider has no key.
    pub(crate) fn of_session(&self, session: &SessionSummary) -> Result<Option<Model>, CliError> {
        let ModelChoice { provider, model, .. } =
            self.options.resolve(&self.config, ENVIRONMENT)?;
        let set_by = [provider.map(|(_, from)| from), model.map(|(_, from)| from)];
        if set_by.into_iter().flatten().any(|from| matches!(from, SettingSource::Flag(_))) {
            return Ok(None);
        }
        let (Some(provider), Some(name)) = (&session.provider, &session.model) else {
            return Ok(None);
        };
        let provider: Provider = provider.parse().map_err(CliError::usage)?;
        let model = self.find(Some(provider), Some(name))?;
        if model.client.lacks_key() {
            let error = anyhow::Error::msg(format!("there is no key for {provider}"));
            let variable = provider.key_variable();
            return Err(CliError::usage(error).hint(format!(
                "set {variable}, or choose another model with --provider and --model"
            )));
        }
        Ok(Some(model))
    }
}

/// Returns the variables with keys, in the order of the providers.
fn key_variables() -> Vec<&'static str> {
    let providers = provider::first_of_each_key().into_iter();
    providers.map(|provider| provider.key_variable().as_str()).collect()
}

/// Returns the provider whose address is set, and the place that sets it. Two providers share a
/// variable. A server from another vendor seldom has the newer of the two interfaces, so the older
/// one comes first.
fn addressed_provider(
    config: &Config,
    environment: EnvLookup<'_>,
) -> Option<(Provider, SettingSource)> {
    let all = [Provider::OpenAiChat, Provider::OpenAi, Provider::Anthropic, Provider::Google];
    all.into_iter().find_map(|provider| match config.base_url(provider, environment) {
        (Some(_), from) => Some((provider, from)),
        (None, _) => None,
    })
}

/// Returns the page on which a vendor lists its models. ikigai has no default model, since names
/// are retired within a year and prices differ.
const fn models_page(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAi => "https://platform.openai.com/docs/models",
        Provider::OpenAiChat => "the models of the server at its base URL",
        Provider::Anthropic => "https://docs.anthropic.com/en/docs/about-claude/models/overview",
        Provider::Google => "https://ai.google.dev/gemini-api/docs/models",
    }
}

/// The environment of this process.
pub(crate) const ENVIRONMENT: EnvLookup<'static> = &provider::environment;
