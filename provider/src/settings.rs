//! The settings of an answer: how much a model thinks, and how much chance there is in its words.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::Provider;

/// The amount that a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// `none`: not at all.
    None,
    /// `minimal`
    Minimal,
    /// `low`
    Low,
    /// `medium`
    Medium,
    /// `high`
    High,
    /// `xhigh`
    XHigh,
    /// `max`: as much as the model can.
    Max,
}

/// The settings of a request that change the answer. The provider chooses the settings that are not
/// set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerSettings {
    /// The effort of its thinking. If this is set, the provider is also asked to send the model's
    /// thoughts, as far as it sends any.
    pub effort: Option<Effort>,
    /// The chance in the choice of words: 0 for as little as possible.
    pub temperature: Option<f64>,
}

/// The error for an effort that no provider knows.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown effort `{name}`; expected {}", list(&Effort::ALL))]
pub struct UnknownEffort {
    /// The name as it was given.
    pub name: String,
}

/// A setting that cannot be sent to a provider.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Unsupported {
    /// The provider has no such effort.
    #[error("`{provider}` has no effort `{effort}`; expected {}", list(provider.efforts()))]
    Effort {
        /// The provider.
        provider: Provider,
        /// The effort.
        effort: Effort,
    },
    /// The provider accepts a different range of temperatures.
    #[error("`{provider}` has no temperature {temperature}: it takes 0 to {}", provider.max_temperature())]
    Temperature {
        /// The provider.
        provider: Provider,
        /// The temperature.
        temperature: f64,
    },
    /// A model of the provider that thinks takes no temperature.
    #[error(
        "`{provider}` does not accept a temperature together with an effort; set only one of them"
    )]
    Both {
        /// The provider.
        provider: Provider,
    },
}

/// Returns names for a sentence: all of them in backquotes, with `or` before the last.
fn list(efforts: &[Effort]) -> String {
    let names: Vec<String> = efforts.iter().map(|effort| format!("`{effort}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

impl Effort {
    /// Every effort, from the least to the most.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// Returns the name that providers, the command line and the configuration use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|effort| effort.as_str() == name)
            .ok_or_else(|| UnknownEffort { name: name.to_owned() })
    }
}

impl Serialize for Effort {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Provider {
    /// Returns the efforts that the interface has names for. A model may accept fewer, and then its
    /// provider refuses the request. See <https://platform.openai.com/docs/guides/reasoning>,
    /// <https://platform.claude.com/docs/en/build-with-claude/effort> and
    /// <https://ai.google.dev/gemini-api/docs/thinking>.
    #[must_use]
    pub const fn efforts(self) -> &'static [Effort] {
        match self {
            Self::OpenAi | Self::OpenAiChat => &Effort::ALL,
            Self::Anthropic => {
                &[Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max]
            }
            Self::Google => &[Effort::Minimal, Effort::Low, Effort::Medium, Effort::High],
        }
    }

    /// Returns the highest temperature that the interface takes.
    const fn max_temperature(self) -> f64 {
        match self {
            Self::Anthropic => 1.0,
            Self::OpenAi | Self::OpenAiChat | Self::Google => 2.0,
        }
    }
}

impl AnswerSettings {
    /// Checks that the interface of a provider can express these settings.
    ///
    /// # Errors
    ///
    /// Fails with [`Unsupported`] if the interface cannot express them, and would refuse the
    /// request or ignore the setting.
    pub fn check(self, provider: Provider) -> Result<(), Unsupported> {
        if let Some(effort) = self.effort
            && !provider.efforts().contains(&effort)
        {
            return Err(Unsupported::Effort { provider, effort });
        }
        if let Some(temperature) = self.temperature
            && !(0.0..=provider.max_temperature()).contains(&temperature)
        {
            return Err(Unsupported::Temperature { provider, temperature });
        }
        // "`temperature` may only be set to 1 when thinking is enabled".
        if provider == Provider::Anthropic && self.effort.is_some() && self.temperature.is_some() {
            return Err(Unsupported::Both { provider });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efforts_are_known_by_their_names() {
        for effort in Effort::ALL {
            assert_eq!(effort.as_str().parse(), Ok(effort));
        }
        assert_eq!(
            "hard".parse::<Effort>().expect_err("no effort").to_string(),
            "unknown effort `hard`; expected `none`, `minimal`, `low`, `medium`, `high`, `xhigh` \
             or `max`"
        );
    }

    #[test]
    fn what_a_provider_cannot_express_is_told() {
        let told = |provider, effort, temperature| {
            let checked = AnswerSettings { effort, temperature }.check(provider);
            checked.expect_err("unsupported").to_string()
        };
        assert_eq!(
            told(Provider::Google, Some(Effort::Max), None),
            "`google` has no effort `max`; expected `minimal`, `low`, `medium` or `high`"
        );
        assert_eq!(
            told(Provider::Anthropic, None, Some(1.5)),
            "`anthropic` has no temperature 1.5: it takes 0 to 1"
        );
        assert_eq!(
            told(Provider::Anthropic, Some(Effort::Low), Some(0.5)),
            "`anthropic` does not accept a temperature together with an effort; set only one of \
             them"
        );
        for temperature in [-0.1, 2.1, f64::NAN, f64::INFINITY] {
            let settings = AnswerSettings { effort: None, temperature: Some(temperature) };
            for provider in Provider::ALL {
                assert!(settings.check(provider).is_err(), "{provider} {temperature}");
            }
        }
        for provider in Provider::ALL {
            assert_eq!(AnswerSettings::default().check(provider), Ok(()));
            for &effort in provider.efforts() {
                let settings = AnswerSettings { effort: Some(effort), temperature: None };
                assert_eq!(settings.check(provider), Ok(()), "{provider} {effort}");
            }
        }
    }
}
