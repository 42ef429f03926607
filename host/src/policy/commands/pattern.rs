//! One rule for commands, in the form of a policy file: words, and `*` for more words.

use super::super::rule::Located;
use super::names;
use super::script::SimpleCommand;
use crate::toml_file::printable;

/// The lists of one entry. An absent `allow` has no effect. An empty `allow` is a list that lists
/// nothing.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct CommandRules {
    pub(in crate::policy) allow: Option<Vec<Located<CommandPrefix>>>,
    pub(in crate::policy) ask: Vec<Located<CommandPrefix>>,
    pub(in crate::policy) deny: Vec<Located<CommandPrefix>>,
}

impl CommandRules {
    /// Returns the rules as written, by list.
    pub(in crate::policy) fn texts(&self) -> [Option<Vec<&str>>; 3] {
        fn texts(rules: &[Located<CommandPrefix>]) -> Vec<&str> {
            rules.iter().map(|rule| rule.value.text()).collect()
        }
        [self.allow.as_deref().map(texts), Some(texts(&self.ask)), Some(texts(&self.deny))]
    }
}

/// The list that a rule is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum RuleList {
    /// Commands that run without consent.
    Allow,
    /// Commands that need consent.
    Ask,
    /// Commands that do not run.
    Deny,
}

/// The first words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::policy) struct CommandPrefix {
    text: String,
    words: Vec<String>,
    /// True if more words may follow.
    has_more: bool,
}

/// The characters that a word in a rule must not have, because rules are compared with words after
/// quotes are removed.
const OF_SHELL: &[char] = &[
    '\'', '"', '\\', '$', '`', ';', '&', '|', '<', '>', '(', ')', '{', '}', '[', ']', '*', '?',
    '!', '#', '~',
];

impl CommandPrefix {
    /// Parses a rule.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a valid rule. The error is the reason.
    pub(in crate::policy) fn parse(text: &str, purpose: RuleList) -> Result<Self, String> {
        let mut words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let has_more = words.last() == Some(&"*");
        if has_more {
            words.pop();
        }
        let Some(name) = words.first().copied() else {
            return Err(match has_more {
                true => "`*` would be every command: a rule begins with the name of a \
                    command"
                    .to_owned(),
                false => "a rule without words is about no command".to_owned(),
            });
        };
        for word in &words {
            let is_strange = |c: char| {
                OF_SHELL.contains(&c) || c.is_whitespace() || ikigai_protocol::is_invisible(c)
            };
            if let Some(strange) = word.chars().find(|c| is_strange(*c)) {
                let strange = printable(&strange.to_string());
                return Err(format!(
                    "`{}` has `{strange}`: a rule is words with spaces between them, without quotes \
                     and operators, and `*` at its end for more words",
                    printable(text)
                ));
            }
        }
        if purpose == RuleList::Allow {
            names::check_name(name)
                .map_err(|reason| format!("{reason}, so it cannot be listed"))?;
        }
        let words = words.into_iter().map(str::to_owned).collect();
        Ok(Self { text: text.to_owned(), words, has_more })
    }

    pub(in crate::policy) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the rule matches a command with these words.
    pub(super) fn is_of(&self, words: &[String]) -> bool {
        words.starts_with(&self.words) && (self.has_more || words.len() == self.words.len())
    }

    /// Returns whether a rule that denies or asks matches a command, which may begin with
    /// assignments and shell words. If the end of the command could not be read, it may have any
    /// further words.
    pub(super) fn concerns(&self, command: &SimpleCommand) -> bool {
        let bare = names::without_prefixes(&command.words);
        let is_of = |words: &[String]| match command.is_open {
            true => self.has_more && words.starts_with(&self.words),
            false => self.is_of(words),
        };
        is_of(&command.words) || is_of(bare)
    }
}
