//! The answer to a word that is not a command in its place: a tool, a command of another group, or
//! a topic that does not exist.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use ikigai_host::nearest::nearest;
use strum::VariantArray as _;

use super::Topic;
use crate::error::CliError;

/// Returns the error for a line with an unknown command, if it can say more than clap. `is_tool`
/// returns whether a tool with that name exists.
pub(crate) fn unknown_command(
    error: &clap::Error,
    program: &Command,
    line: &[OsString],
    is_tool: impl Fn(&str) -> bool,
) -> Option<CliError> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    else {
        return None;
    };
    let asks_help = line.get(1).is_some_and(|word| word == "help");
    let verb = if asks_help { "help " } else { "" };
    let paths = paths(program, "", name);
    let hint = match (&paths[..], is_tool(name)) {
        (_, true) if asks_help => {
            Some(format!("`{name}` is a tool: `ikigai tool call {name} --help`"))
        }
        (_, true) => Some(format!("`{name}` is a tool: `ikigai tool call {name}`")),
        ([], false) => None,
        (paths, false) => {
            let lines = paths.iter().map(|path| format!("`ikigai {verb}{path}`"));
            Some(format!("did you mean {}?", lines.collect::<Vec<_>>().join(" or ")))
        }
    };
    if !asks_help {
        return Some(mistake(format!("`{name}` is not a command")).hint(hint?));
    }
    let topics: Vec<&str> = Topic::VARIANTS.iter().map(<&str>::from).collect();
    let commands = program.get_subcommands().map(Command::get_name);
    let near = nearest(name, topics.iter().copied().chain(commands));
    let near = near.map(|near| format!("did you mean `ikigai help {near}`?"));
    let asked: Vec<_> = line.iter().skip(2).map(|word| word.to_string_lossy()).collect();
    let what = format!("no help on `{}`; topics: {}", asked.join(" "), topics.join(", "));
    Some(mistake(what).hints(hint.or(near)).hint("`ikigai --help` lists the commands"))
}

fn mistake(what: String) -> CliError {
    CliError::usage(anyhow::Error::msg(what))
}

/// Returns the paths of all commands with a name, such as `policy grant`.
fn paths(command: &Command, above: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = format!("{above}{}", below.get_name());
        found.extend(paths(below, &format!("{path} "), name));
        if below.get_name() == name {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let group = |name: &'static str, below: &[&'static str]| {
            Command::new(name).subcommands(below.iter().map(|name| Command::new(*name)))
        };
        let hidden = Command::new("__grant").hide(true);
        Command::new("ikigai").subcommands([
            group("policy", &["show", "grant"]),
            group("tool", &["show", "call"]),
            hidden,
        ])
    }

    /// Returns the text for a line; `None` if clap's own text stays.
    fn said(words: &str) -> Option<String> {
        let line: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let error = program().try_get_matches_from(&line).expect_err("unknown");
        let better = unknown_command(&error, &program(), &line, |name| name == "grep");
        better.map(|error| error.text())
    }

    #[test]
    fn a_word_that_is_no_command_leads_to_the_tool_or_the_command_that_is_meant() {
        for (line, expected) in [
            (
                "ikigai grep",
                "error: `grep` is not a command\nhint: `grep` is a tool: `ikigai tool call grep`\n",
            ),
            (
                "ikigai grant",
                "error: `grant` is not a command\nhint: did you mean `ikigai policy grant`?\n",
            ),
            (
                "ikigai tool grant",
                "error: `grant` is not a command\nhint: did you mean `ikigai policy grant`?\n",
            ),
            (
                "ikigai show",
                "error: `show` is not a command\nhint: did you mean `ikigai policy show` or `ikigai tool show`?\n",
            ),
            (
                "ikigai help grant",
                "error: no help on `grant`; topics: sandbox, policy-file, tools, options\n\
                 hint: did you mean `ikigai help policy grant`?\nhint: `ikigai --help` lists the commands\n",
            ),
            (
                "ikigai help sandbx",
                "error: no help on `sandbx`; topics: sandbox, policy-file, tools, options\n\
                 hint: did you mean `ikigai help sandbox`?\nhint: `ikigai --help` lists the commands\n",
            ),
            (
                "ikigai help zzz",
                "error: no help on `zzz`; topics: sandbox, policy-file, tools, options\n\
                 hint: `ikigai --help` lists the commands\n",
            ),
        ] {
            assert_eq!(said(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["ikigai polcy", "ikigai zzz", "ikigai --zzz"] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
