//! The rules for commands of `bash`, and the verdict of a script: the key `commands` of
//! `[tools.bash]`.
//!
//! ```toml
//! [tools.bash]
//! approve = "unlisted"
//! commands = { allow = ["git status", "cargo test *"], ask = ["git push *"], deny = ["sudo *"] }
//! ```
//!
//! A rule is the beginning of a command, by words: `cargo test` matches only that exact command.
//! `cargo test *` also matches more words after it. Whole words are compared, after the shell's
//! quotes are removed.
//!
//! A script is listed if a rule of `allow` matches each of its simple commands, and no rule of
//! `ask` or `deny` matches one. With `approve = "unlisted"`, every other script needs consent.
//! `ask` and `deny` apply with every value of `approve`, but only to scripts that can be read: a
//! script that hides a command in an expansion escapes both. So `deny` is a courtesy, and the
//! sandbox is the boundary.
//!
//! # This is not a parser of bash
//!
//! "Listed" must mean that bash runs exactly these words. That cannot be shown for a parser of the
//! whole language, which depends on options, functions, aliases and the values of variables. So
//! [`script`] reads only a small part of the language: words without expansion, joined by `&&`,
//! `||`, `|`, `;` and newlines, with redirections to and from `/dev/null`. A test compares its
//! words with the words that bash runs. Everything else is unlisted. So are the words that change
//! the meaning of others, such as `cd`, `eval` and `export` ([`names`]).
//!
//! # Limits of a verdict
//!
//! A verdict is only about words, not about their effect in a program. `git *` lists everything
//! that git can do, including running another program with `-c core.pager=…`, and `make` runs the
//! commands of a file in the workspace. The word `git` means the program in the tool's `PATH`. A
//! granted variable can change that program's behaviour (`GIT_DIR`, `LD_PRELOAD`). Variables that
//! change how bash reads a script make every script unlisted ([`meet`]).

mod arguments;
mod meet;
mod names;
mod pattern;
mod requirement;
mod script;

use std::fmt;

use ikigai_protocol::written_out;

use super::provenance::Provenance;
pub(super) use meet::{Strictness, meet};
pub(super) use pattern::{CommandPrefix, CommandRules, RuleList};
pub use requirement::Requirement;
use script::SimpleCommand;

/// The most characters of a command in a message.
const COMMAND_SHOWN: usize = 120;

/// A rule for commands, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRule {
    pub(super) pattern: CommandPrefix,
    /// The line with the rule.
    pub provenance: Provenance,
}

impl CommandRule {
    /// Returns the rule as written in a policy file.
    #[must_use]
    pub fn text(&self) -> &str {
        self.pattern.text()
    }
}

impl fmt::Display for CommandRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", written_out(self.text()), self.provenance)
    }
}

/// The rules of all layers for a tool's commands, as a part of a [`Decision`](super::Decision).
/// Only `bash` has such rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    is_shell: bool,
    /// The list of each layer that has a list. A command must be in all of them.
    allow: Vec<Vec<CommandRule>>,
    ask: Vec<CommandRule>,
    deny: Vec<CommandRule>,
    /// The reason why every script is unlisted.
    obstacle: Option<String>,
    /// The reason why every script with characters beyond ASCII is unlisted.
    ascii_only: Option<String>,
}

/// The verdict of a script, by the rules for commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptVerdict {
    /// The rules list each of its commands.
    Listed {
        /// The words of the commands, in the order of the script. Bash runs these commands or some
        /// of them.
        commands: Vec<Vec<String>>,
        /// The distinct rules that list them.
        by: Vec<CommandRule>,
    },
    /// A rule of `ask` matches a command.
    Ask {
        /// The command, with deceptive characters escaped.
        command: String,
        /// The rule.
        rule: CommandRule,
    },
    /// A rule of `deny` matches a command.
    Denied {
        /// The command, with deceptive characters escaped.
        command: String,
        /// The rule.
        rule: CommandRule,
    },
    /// Anything else.
    Unlisted {
        /// The reason.
        reason: String,
    },
}

impl ScriptVerdict {
    /// Returns `listed`, `ask`, `denied` or `unlisted`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Listed { .. } => "listed",
            Self::Ask { .. } => "ask",
            Self::Denied { .. } => "denied",
            Self::Unlisted { .. } => "unlisted",
        }
    }

    /// Returns the reason in words, with the rules.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Listed { by, .. } => {
                let rules: Vec<String> = by.iter().map(ToString::to_string).collect();
                format!("by {}", rules.join(", "))
            }
            Self::Ask { command, rule } => {
                format!("the command `{command}` is asked about, by {rule}")
            }
            Self::Denied { command, rule } => {
                format!("the command `{command}` is denied, by {rule}")
            }
            Self::Unlisted { reason } => reason.clone(),
        }
    }
}

impl Commands {
    /// Returns whether the tool runs scripts, so that rules for commands apply to its calls.
    #[must_use]
    pub fn is_shell(&self) -> bool {
        self.is_shell
    }

    /// Returns the lists of rules that let a command run without consent. A command must be in each
    /// list.
    #[must_use]
    pub fn allow(&self) -> &[Vec<CommandRule>] {
        &self.allow
    }

    /// Returns the rules for commands that need consent.
    #[must_use]
    pub fn ask(&self) -> &[CommandRule] {
        &self.ask
    }

    /// Returns the rules for denied commands.
    #[must_use]
    pub fn deny(&self) -> &[CommandRule] {
        &self.deny
    }

    /// Returns the reason why every script is unlisted, if there is one.
    #[must_use]
    pub fn obstacle(&self) -> Option<&str> {
        self.obstacle.as_deref()
    }

    /// Returns the verdict of a script.
    #[must_use]
    pub fn verdict(&self, script: &str) -> ScriptVerdict {
        let read = script::read(script);
        let first = |rules: &[CommandRule]| {
            read.commands.iter().find_map(|command| {
                let rule = rules.iter().find(|rule| rule.pattern.concerns(command))?;
                Some((shown(&command.words), rule.clone()))
            })
        };
        if let Some((command, rule)) = first(&self.deny) {
            return ScriptVerdict::Denied { command, rule };
        }
        if let Some((command, rule)) = first(&self.ask) {
            return ScriptVerdict::Ask { command, rule };
        }
        match self.listed(script, &read.commands, read.unread) {
            Ok(by) => {
                let commands = read.commands.into_iter().map(|command| command.words).collect();
                ScriptVerdict::Listed { commands, by }
            }
            Err(reason) => ScriptVerdict::Unlisted { reason },
        }
    }

    /// Returns the rules that list all of these commands, or the reason why they are not listed.
    fn listed(
        &self,
        script: &str,
        commands: &[SimpleCommand],
        unread: Option<&'static str>,
    ) -> Result<Vec<CommandRule>, String> {
        if let Some(reason) = &self.obstacle {
            return Err(reason.clone());
        }
        if let Some(reason) = &self.ascii_only
            && !script.is_ascii()
        {
            return Err(reason.clone());
        }
        if let Some(reason) = unread {
            return Err(reason.to_owned());
        }
        if commands.is_empty() {
            return Err("the script has no command".to_owned());
        }
        let mut by: Vec<CommandRule> = Vec::new();
        for SimpleCommand { words, .. } in commands {
            names::check(words)?;
            let unlisted = || format!("no rule lists `{}`", shown(words));
            if self.allow.is_empty() {
                return Err(unlisted());
            }
            for list in &self.allow {
                let rule =
                    list.iter().find(|rule| rule.pattern.is_of(words)).ok_or_else(unlisted)?;
                if !by.contains(rule) {
                    by.push(rule.clone());
                }
            }
        }
        Ok(by)
    }
}

/// Returns a command for a message, on one line.
fn shown(words: &[String]) -> String {
    let text = written_out(&words.join(" "));
    match text.char_indices().nth(COMMAND_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The matcher for the fuzz targets, which have no policy file.
#[doc(hidden)]
pub mod fuzzing {
    use super::super::Profile;
    use super::super::provenance::Provenance;
    use super::{CommandPrefix, CommandRule, Commands, RuleList, ScriptVerdict};

    /// Returns the verdict of a script by these rules.
    ///
    /// # Errors
    ///
    /// Fails if a rule is refused. The text is the reason.
    pub fn verdict(allow: &[&str], deny: &[&str], script: &str) -> Result<ScriptVerdict, String> {
        let provenance = Provenance::Profile(Profile::Standard);
        let rules = |texts: &[&str], purpose| {
            let rule = |text: &&str| {
                let pattern = CommandPrefix::parse(text, purpose)?;
                Ok(CommandRule { pattern, provenance: provenance.clone() })
            };
            texts.iter().map(rule).collect::<Result<Vec<_>, String>>()
        };
        let commands = Commands {
            is_shell: true,
            allow: vec![rules(allow, RuleList::Allow)?],
            deny: rules(deny, RuleList::Deny)?,
            ..Commands::default()
        };
        Ok(commands.verdict(script))
    }
}

#[cfg(test)]
mod tests;
