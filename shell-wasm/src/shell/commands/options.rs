//! The options of commands: one grammar to write them down in, and one parser.
//!
//! The grammar is `getopt_long`'s: letters may be bundled, a value may be attached, long names may
//! be abbreviated if that is unambiguous, and options may follow operands. An unknown option is
//! refused with its name, so that no option is ignored silently.

use bashkit::{CommandContext, CommandStatus, Result};

/// The options of one command, in words that are separated by blanks. `f,force` is `-f` or
/// `--force`; `f` is only the letter, and `,force` only the long name. A `=` after the word takes a
/// value, and `[=]` takes an attached value. `+` ends the options at the first operand, and `#`
/// takes a number as an option, as in `-5`.
#[derive(Clone, Copy, Debug)]
pub(super) struct OptionSpec {
    pub(super) words: &'static str,
    /// The exit code for wrong options.
    pub(super) refusal: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionArgument {
    Nothing,
    Attached,
    Value,
}

#[derive(Clone, Copy, Debug)]
struct KnownOption {
    letter: Option<char>,
    long: Option<&'static str>,
    takes: OptionArgument,
}

impl KnownOption {
    fn parse(word: &'static str) -> Self {
        let (names, takes) = if let Some(names) = word.strip_suffix("[=]") {
            (names, OptionArgument::Attached)
        } else if let Some(names) = word.strip_suffix('=') {
            (names, OptionArgument::Value)
        } else {
            (word, OptionArgument::Nothing)
        };
        let (letter, long) = names.split_once(',').unwrap_or((names, ""));
        Self { letter: letter.chars().next(), long: Some(long).filter(|l| !l.is_empty()), takes }
    }

    /// Returns the long name, or the letter if the option has no long name.
    fn name(&self) -> String {
        self.long.map_or_else(|| self.letter.into_iter().collect(), str::to_owned)
    }
}

/// The parsed arguments of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedOptions {
    given: Vec<(String, Option<String>)>,
    pub(super) operands: Vec<String>,
}

impl ParsedOptions {
    /// Returns whichever of these options was given last.
    pub(super) fn last_of(&self, names: &[&str]) -> Option<&str> {
        let name = |(name, _): &'_ (String, _)| names.contains(&name.as_str());
        self.given.iter().rev().find(|given| name(given)).map(|(name, _)| name.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.last_of(&[name]).is_some()
    }

    /// Returns the last value of an option; empty if its value is optional and missing.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let given = self.given.iter().rev().find(|(given, _)| given == name);
        given.map(|(_, value)| value.as_deref().unwrap_or_default())
    }

    /// Returns every value of an option, in order.
    pub(super) fn values<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p str> {
        let of_name = self.given.iter().filter(move |(given, _)| given == name);
        of_name.map(|(_, value)| value.as_deref().unwrap_or_default())
    }
}

impl OptionSpec {
    fn known(self) -> impl Iterator<Item = KnownOption> {
        self.words
            .split_ascii_whitespace()
            .filter(|word| !["+", "#"].contains(word))
            .map(KnownOption::parse)
    }

    fn has_mark(self, mark: &str) -> bool {
        self.words.split_ascii_whitespace().any(|word| word == mark)
    }

    /// Parses the arguments, or returns the message about the wrong one.
    pub(super) fn parse(self, arguments: &[String]) -> std::result::Result<ParsedOptions, String> {
        let mut parsed = ParsedOptions::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
            if argument == "--" {
                break;
            } else if let Some(long) = argument.strip_prefix("--") {
                parsed.given.push(self.long(long, &mut arguments)?);
            } else if let Some(letters) = argument.strip_prefix('-').filter(|l| !l.is_empty()) {
                if self.has_mark("#") && number(letters) {
                    parsed.given.push(("#".to_owned(), Some(letters.to_owned())));
                } else {
                    self.letters(letters, &mut arguments, &mut parsed.given)?;
                }
            } else {
                parsed.operands.push(argument.clone());
                if self.has_mark("+") {
                    break;
                }
            }
        }
        parsed.operands.extend(arguments.cloned());
        Ok(parsed)
    }

    fn long<'a>(
        self,
        text: &str,
        arguments: &mut impl Iterator<Item = &'a String>,
    ) -> std::result::Result<(String, Option<String>), String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let begins = |known: &KnownOption| known.long.is_some_and(|long| long.starts_with(name));
        let candidates: Vec<KnownOption> = self.known().filter(begins).collect();
        let exact = candidates.iter().find(|known| known.long == Some(name));
        let known = match (exact, candidates.as_slice()) {
            (Some(known), _) | (None, [known]) => known,
            (None, []) => return Err(format!("unrecognized option '--{name}'")),
            (None, _) => {
                let each = candidates.iter().filter_map(|known| known.long);
                let each: Vec<_> = each.map(|long| format!("'--{long}'")).collect();
                let each = each.join(" ");
                return Err(format!("option '--{name}' is ambiguous; possibilities: {each}"));
            }
        };
        let long = known.long.unwrap_or_default();
        let value = match (known.takes, value) {
            (OptionArgument::Nothing, Some(_)) => {
                return Err(format!("option '--{long}' doesn't allow an argument"));
            }
            (OptionArgument::Value, None) => Some(
                arguments
                    .next()
                    .cloned()
                    .ok_or_else(|| format!("option '--{long}' requires an argument"))?,
            ),
            (_, value) => value,
        };
        Ok((known.name(), value))
    }

    fn letters<'a>(
        self,
        letters: &str,
        arguments: &mut impl Iterator<Item = &'a String>,
        given: &mut Vec<(String, Option<String>)>,
    ) -> std::result::Result<(), String> {
        for (at, letter) in letters.char_indices() {
            let known = self.known().find(|known| known.letter == Some(letter));
            let known = known.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
            let rest = &letters[at + letter.len_utf8()..];
            let value = match known.takes {
                OptionArgument::Nothing => {
                    given.push((known.name(), None));
                    continue;
                }
                OptionArgument::Attached => Some(rest.to_owned()).filter(|rest| !rest.is_empty()),
                OptionArgument::Value if rest.is_empty() => Some(
                    arguments
                        .next()
                        .cloned()
                        .ok_or_else(|| format!("option requires an argument -- '{letter}'"))?,
                ),
                OptionArgument::Value => Some(rest.to_owned()),
            };
            given.push((known.name(), value));
            break;
        }
        Ok(())
    }

    /// Lists the options as they are typed, for `--help`.
    fn listed(self) -> String {
        let mut text = String::new();
        for known in self.known() {
            let letter = known.letter.map(|letter| format!("-{letter}"));
            let long = known.long.map(|long| format!("--{long}"));
            let names: Vec<String> = letter.into_iter().chain(long).collect();
            let value = match known.takes {
                OptionArgument::Nothing => "",
                OptionArgument::Attached => "[=VALUE]",
                OptionArgument::Value => " VALUE",
            };
            text.push_str(&format!("  {}{value}\n", names.join(", ")));
        }
        text
    }

    /// Parses the arguments of a call; if they are wrong, or request help, prints that and returns
    /// the status with which the command ends.
    pub(super) async fn read(
        self,
        context: &CommandContext<'_>,
    ) -> Result<std::result::Result<ParsedOptions, CommandStatus>> {
        let name = context.name;
        if context.args.iter().take_while(|argument| *argument != "--").any(|a| a == "--help") {
            let text = format!("Usage: {name} [OPTION]... [OPERAND]...\n{}", self.listed());
            context.stdout.write_all(text.as_bytes()).await?;
            return Ok(Err(CommandStatus::success()));
        }
        match self.parse(context.args) {
            Ok(parsed) => Ok(Ok(parsed)),
            Err(reason) => self.misused(context, &reason).await.map(Err),
        }
    }

    /// Ends a command that was called wrongly.
    pub(super) async fn misused(
        self,
        context: &CommandContext<'_>,
        reason: &str,
    ) -> Result<CommandStatus> {
        let name = context.name;
        let text = format!("{name}: {reason}\nTry '{name} --help' for more information.\n");
        context.stderr.write_all(text.as_bytes()).await?;
        Ok(CommandStatus::with_code(self.refusal))
    }
}
