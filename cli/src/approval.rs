//! `--approve`: when ikigai asks the user at the terminal about a call.

use std::io::IsTerminal as _;

use clap::Args;
use ikigai_host::policy::{Approve, Override, Overrides};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::choice;
use crate::config::provider::EnvLookup;
use crate::config::{Config, SettingSource};
use crate::error::CliError;

/// The variable for the flag.
const VARIABLE: &str = "IKIGAI_APPROVE";

/// The key of the configuration.
pub(crate) const KEY: &str = "approve";

/// The help heading of the flag, the same as for the shared flags for policy.
const HEADING: &str = "Policy";

/// When ikigai asks the user, by the names that other programs use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Approval {
    /// As [`Approval::OnRequest`], and before every call that may change something, except a script
    /// that the rules for commands list.
    Untrusted,
    /// If a call needs more than it is granted, or the policy requires approval.
    #[default]
    OnRequest,
    /// Never.
    Never,
}

fn help(approval: Approval) -> Option<&'static str> {
    Some(match approval {
        Approval::Untrusted => {
            "As `on-request`, and before calls that may write or reach other machines; for bash, only before \
             commands that the policy does not list"
        }
        Approval::OnRequest => {
            "When a call needs more than it is granted, or the policy requires approval"
        }
        Approval::Never => "Never ask, and refuse the calls that `on-request` asks about",
    })
}

/// The flag that says when a person is asked.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct ApprovalOptions {
    /// When to ask you, if stdin and stderr are a terminal [default: on-request]
    #[arg(long, help_heading = HEADING, value_name = "WHEN", env = VARIABLE,
          value_parser = choice::parser(Approval::VARIANTS, help))]
    approve: Option<Approval>,
}

impl ApprovalOptions {
    /// Returns this flag if it was given, then the one before the command, then the environment.
    /// clap reads the environment at both places.
    pub(crate) fn or(self, outer: Self, environment: EnvLookup<'_>) -> Self {
        let is_variable =
            |own: Approval| environment(VARIABLE).is_some_and(|it| it == own.to_string());
        Self {
            approve: match self.approve {
                Some(own) if is_variable(own) => outer.approve.or(Some(own)),
                own => own.or(outer.approve),
            },
        }
    }

    /// Returns the value in force: the flag overrides the environment, which overrides the files.
    ///
    /// # Errors
    ///
    /// Fails if a file has an invalid value.
    pub(crate) fn resolve(
        self,
        config: &Config,
        environment: EnvLookup<'_>,
    ) -> Result<Chosen, CliError> {
        if let Some(approval) = self.approve {
            let is_variable = environment(VARIABLE).is_some_and(|it| it == approval.to_string());
            let from = match is_variable {
                true => SettingSource::Variable(VARIABLE.to_owned()),
                false => SettingSource::Flag("--approve".to_owned()),
            };
            return Ok(Chosen { approval, from });
        }
        let Some(setting) = config.setting(KEY) else {
            return Ok(Chosen { approval: Approval::default(), from: SettingSource::Default });
        };
        let from = setting.provenance();
        let approval = check(&setting.value)
            .map_err(|error| CliError::usage(error.context(from.to_string())))?;
        Ok(Chosen { approval, from })
    }
}

/// Parses the value of the key in a file.
///
/// # Errors
///
/// Fails if the value is not one of the names.
pub(crate) fn check(value: &str) -> anyhow::Result<Approval> {
    value.parse().map_err(|_| {
        let words = Approval::VARIANTS.iter().map(|word| format!("`{word}`"));
        let words = words.collect::<Vec<_>>().join(", ");
        anyhow::Error::msg(format!("`{value}` is not valid for `{KEY}`; expected one of {words}"))
    })
}

/// The choice in force, and the place that made it.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) approval: Approval,
    pub(crate) from: SettingSource,
}

impl Chosen {
    /// Returns whether ikigai asks a user who is known to be at this terminal, as in the REPL.
    pub(crate) fn asks(&self) -> bool {
        self.approval != Approval::Never
    }

    /// Returns whether ikigai asks, when a user may be missing: stdin and stderr must be terminals,
    /// since questions go to stderr and answers come from stdin.
    pub(crate) fn asks_at_stderr(&self) -> bool {
        self.asks() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Adds the calls that need the user's approval, and whether ikigai asks at all.
    pub(crate) fn narrow(&self, overrides: Overrides) -> Overrides {
        let from = || self.from.to_string().into();
        match self.approval {
            Approval::Untrusted => {
                let approve = Some(Override { value: Approve::Unlisted, from: from() });
                Overrides { approve, ..overrides }
            }
            Approval::OnRequest => overrides,
            Approval::Never => {
                Overrides { ask: Some(Override { value: false, from: from() }), ..overrides }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(value: Option<&str>) -> impl Fn(&str) -> Option<String> {
        move |name| value.filter(|_| name == VARIABLE).map(str::to_owned)
    }

    #[test]
    fn the_inner_flag_is_above_the_outer_and_both_above_the_variable() {
        let options = |approve| ApprovalOptions { approve };
        let (never, untrusted) = (Some(Approval::Never), Some(Approval::Untrusted));
        let cases = [
            (untrusted, never, None, untrusted, "--approve"),
            (None, never, None, never, "--approve"),
            (untrusted, never, Some("untrusted"), never, "--approve"),
            (never, never, Some("never"), never, VARIABLE),
            (None, None, None, Some(Approval::OnRequest), "default"),
        ];
        for (inner, outer, variable, expected, from) in cases {
            let environment = environment(variable);
            let chosen = options(inner).or(options(outer), &environment);
            let chosen = chosen.resolve(&Config::default(), &environment).expect("a choice");
            assert_eq!(Some(chosen.approval), expected);
            assert!(chosen.from.to_string().contains(from), "{}: {from}", chosen.from);
        }
    }

    #[test]
    fn each_word_has_its_keys() {
        let narrowed = |approval| {
            let chosen = Chosen { approval, from: SettingSource::Default };
            let Overrides { ask, approve, .. } = chosen.narrow(Overrides::default());
            (ask.map(|it| it.value), approve.map(|it| it.value))
        };
        assert_eq!(narrowed(Approval::Untrusted), (None, Some(Approve::Unlisted)));
        assert_eq!(narrowed(Approval::OnRequest), (None, None));
        assert_eq!(narrowed(Approval::Never), (Some(false), None));
    }

    #[test]
    fn another_word_names_those_there_are() {
        let error = check("always").expect_err("a mistake").to_string();
        assert!(error.ends_with("expected one of `untrusted`, `on-request`, `never`"), "{error}");
    }
}
