//! The user's slash commands: those that a model has too, and those that it does not have.

use std::fmt::Write as _;
use std::sync::Arc;

use ikigai_provider::Provider;
use ikigai_terminal::finder::{self, NameSource};

use super::AssetNames;
use ikigai_agent::command as shared;
use ikigai_agent::command::Malformed;
use ikigai_host::host::Host;
use ikigai_host::nearest::nearest;

/// A slash command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlashCommand {
    Help,
    Refresh,
    Model(Option<String>),
    Key(Option<Provider>),
    System(Option<String>),
    Env {
        name: String,
        value: String,
    },
    Undo,
    Diff,
    /// With an answer to forget; without one, the answers are listed.
    Policy(Option<Forget>),
    Mcp,
    /// With a file; without one, the file is named after the conversation.
    Export(Option<String>),
    Clear,
    /// `/compact` without a path.
    Compact,
    Usage,
    Sessions,
    /// With a name; without one, the conversations are listed.
    Resume(Option<String>),
    Fork(Option<u64>),
    Rename(String),
    /// Show the whole result of this call, counted from the last.
    Last(usize),
    Exit,
    Shared(shared::AgentCommand),
}

/// The answers of this session that the user takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forget {
    All,
    /// The answer with this number, counted from 1.
    Nth(usize),
}

/// The usage and the help of each command that only the user has.
const COMMANDS: [(&str, &str); 20] = [
    (
        "/compact [PATH [TOKENS]]",
        "have the model shorten an asset; without PATH, make room in the conversation",
    ),
    ("/refresh", "rescan the tools, and reread AGENTS.md"),
    (
        "/model [NAME]",
        "continue with another model, or show the current one; PROVIDER/NAME of another provider",
    ),
    ("/system [TEXT]", "add text to the system prompt, or show the prompt; \"\" removes your text"),
    ("/key [PROVIDER]", "set a key for this run; ikigai asks for it without showing it"),
    ("/env NAME=VALUE", "set a variable for the tools of this run"),
    ("/undo", "undo what file_write and file_edit changed in the last turn"),
    ("/diff", "show what file_write and file_edit changed in this conversation"),
    ("/policy [forget N|all]", "show what you allowed and refused in this session; forget it"),
    ("/mcp", "list the MCP servers, their state and their tools"),
    ("/clear", "start a new conversation"),
    ("/sessions", "list the saved conversations of this workspace"),
    ("/resume [ID|TITLE]", "resume a saved conversation"),
    ("/fork [TURNS]", "continue in a copy of this conversation, or of its first turns"),
    ("/rename TITLE", "give this conversation a title"),
    ("/export [FILE]", "write this conversation to a file, as Markdown or as FILE.jsonl"),
    ("/usage", "show the token counts of the next request and of this session"),
    ("/last [N]", "show the whole result of the last or Nth-last call"),
    ("/help", "list the commands"),
    ("/exit", "exit; so does /quit"),
];

/// Returns the usage and the help of all commands. `/compact` is shared, and does more for the
/// user.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_own = |name: &str| COMMANDS.iter().any(|(usage, _)| word(usage) == name);
    shared::COMMANDS.into_iter().filter(move |(usage, _)| !is_own(word(usage))).chain(COMMANDS)
}

/// Returns true if a line is a command and not a prompt. A line that begins with a path is a
/// prompt. White space before a command does not matter, since a leading space must not send a
/// secret after `/env` to a model.
pub(super) fn is_command(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    first.strip_prefix('/').is_some_and(|name| !name.contains('/'))
}

impl SlashCommand {
    /// Parses a line.
    pub(super) fn parse(line: &str) -> Result<Self, Malformed> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let text = || Some(rest).filter(|text| !text.is_empty());
        match name {
            "/help" if rest.is_empty() => Ok(Self::Help),
            "/refresh" if rest.is_empty() => Ok(Self::Refresh),
            "/undo" if rest.is_empty() => Ok(Self::Undo),
            "/diff" if rest.is_empty() => Ok(Self::Diff),
            "/policy" if rest.is_empty() => Ok(Self::Policy(None)),
            "/policy" => forget(rest).ok_or_else(|| usage(name)),
            "/mcp" if rest.is_empty() => Ok(Self::Mcp),
            "/export" => Ok(Self::Export(text().map(str::to_owned))),
            "/clear" if rest.is_empty() => Ok(Self::Clear),
            "/exit" | "/quit" if rest.is_empty() => Ok(Self::Exit),
            "/quit" => Err(usage("/exit")),
            "/compact" if rest.is_empty() => Ok(Self::Compact),
            "/usage" if rest.is_empty() => Ok(Self::Usage),
            "/sessions" if rest.is_empty() => Ok(Self::Sessions),
            "/resume" => Ok(Self::Resume(text().map(str::to_owned))),
            "/fork" if rest.is_empty() => Ok(Self::Fork(None)),
            "/fork" => rest.parse().map(Some).map(Self::Fork).map_err(|_| usage(name)),
            "/rename" if !rest.is_empty() => Ok(Self::Rename(rest.to_owned())),
            "/last" if rest.is_empty() => Ok(Self::Last(1)),
            "/last" => rest.parse().map(Self::Last).map_err(|_| usage(name)),
            "/model" if !rest.contains(char::is_whitespace) => {
                Ok(Self::Model(text().map(str::to_owned)))
            }
            // The message must not contain any part of a key that was typed here.
            "/key" if rest.is_empty() => Ok(Self::Key(None)),
            "/key" => {
                rest.parse().map(|provider| Self::Key(Some(provider))).map_err(|_| usage(name))
            }
            "/system" if rest == "\"\"" => Ok(Self::System(Some(String::new()))),
            "/system" => Ok(Self::System(text().map(str::to_owned))),
            "/env" => variable(rest).ok_or_else(|| usage(name)),
            "/compact" => {
                shared::AgentCommand::parse(line).map(Self::Shared).map_err(|error| match error {
                    Malformed::Usage(_) => usage(name),
                    other => other,
                })
            }
            _ if COMMANDS.iter().any(|(usage, _)| word(usage) == name) => Err(usage(name)),
            _ => shared::AgentCommand::parse(line).map(Self::Shared).map_err(|malformed| {
                match malformed {
                    Malformed::Unknown { name, .. } => {
                        let nearest = nearest(&name, all().map(|(usage, _)| word(usage)));
                        let nearest = nearest.map(str::to_owned);
                        Malformed::Unknown { name, nearest }
                    }
                    other => other,
                }
            }),
        }
    }
}

fn variable(text: &str) -> Option<SlashCommand> {
    let unquoted = |text| -> Option<&str> { str::strip_suffix(str::strip_prefix(text, '"')?, '"') };
    let (name, value) = unquoted(text).unwrap_or(text).split_once('=')?;
    let value = unquoted(value).unwrap_or(value);
    Some(SlashCommand::Env { name: name.to_owned(), value: value.to_owned() })
}

fn forget(text: &str) -> Option<SlashCommand> {
    let forget = match text.strip_prefix("forget")?.trim() {
        "all" => Forget::All,
        number => Forget::Nth(number.parse().ok()?),
    };
    Some(SlashCommand::Policy(Some(forget)))
}

fn usage(name: &str) -> Malformed {
    let found = COMMANDS.iter().find(|(usage, _)| word(usage) == name);
    Malformed::Usage(found.map_or("", |(usage, _)| usage))
}

fn word(usage: &str) -> &str {
    usage.split(' ').next().unwrap_or(usage)
}

/// Returns the text of `/help`.
pub(super) fn help() -> String {
    let width = all().map(|(usage, _)| usage.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (usage, about) in all() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{usage:width$}  {about}");
    }
    text.push_str(
        "\n@ names a file, @@ an asset; their text is sent with the prompt.\n\
         In the menu, the arrows select, and Tab or Enter accepts.\n\
         !COMMAND runs in your shell; its output goes with the next prompt.\n\
         Alt-Enter or \\ at the end starts another line, Ctrl-X Ctrl-E opens your editor.\n\
         Ctrl-O shows a whole result, Ctrl-C or Esc interrupts, Ctrl-D leaves.\n\
         Ctrl-T gives the calls that run two more minutes.",
    );
    text
}

/// Returns the commands for menus, with the candidates for their arguments.
pub(super) fn for_menus(host: Arc<Host>, assets: &AssetNames) -> Vec<finder::FinderCommand> {
    let tools: NameSource = Arc::new(move || {
        host.registry().snapshot().tools().map(|tool| tool.name().to_owned()).collect()
    });
    let assets = assets.clone();
    let assets: NameSource = Arc::new(move || assets.all());
    let command = |(usage, about): (&'static str, &'static str)| finder::FinderCommand {
        name: word(usage).trim_start_matches('/').to_owned(),
        help: about.to_owned(),
        arguments: match word(usage) {
            "/tool" => Some(Arc::clone(&tools)),
            "/pin" | "/unpin" | "/compact" => Some(Arc::clone(&assets)),
            _ => None,
        },
    };
    all().map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> SlashCommand {
        SlashCommand::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn refused(line: &str) -> String {
        SlashCommand::parse(line).expect_err(line).to_string()
    }

    #[test]
    fn commands_have_arguments() {
        assert_eq!(read("/help"), SlashCommand::Help);
        assert_eq!(read("/model"), SlashCommand::Model(None));
        assert_eq!(
            read("/model openai-chat/meta/llama"),
            SlashCommand::Model(Some("openai-chat/meta/llama".into()))
        );
        assert_eq!(
            read("/system be  brief\nplease"),
            SlashCommand::System(Some("be  brief\nplease".into()))
        );
        assert_eq!(read("/system \"\""), SlashCommand::System(Some(String::new())));
        let env =
            |name: &str, value: &str| SlashCommand::Env { name: name.into(), value: value.into() };
        assert_eq!(read("/env KEY=a=b c"), env("KEY", "a=b c"));
        assert_eq!(read("/env KEY=\"a b\""), env("KEY", "a b"));
        assert_eq!(read("/env \"KEY=a b\""), env("KEY", "a b"));
        assert_eq!(read("/key"), SlashCommand::Key(None));
        assert_eq!(read("/key google"), SlashCommand::Key(Some(Provider::Google)));
        assert_eq!(read("/pinned"), SlashCommand::Shared(shared::AgentCommand::Pinned));
        assert_eq!(read("/compact"), SlashCommand::Compact);
        assert_eq!(read("/resume fix it"), SlashCommand::Resume(Some("fix it".into())));
        assert_eq!(read("/resume"), SlashCommand::Resume(None));
        assert_eq!(
            (read("/fork"), read("/fork 3")),
            (SlashCommand::Fork(None), SlashCommand::Fork(Some(3)))
        );
        assert_eq!(read("/policy"), SlashCommand::Policy(None));
        assert_eq!(read("/policy forget 2"), SlashCommand::Policy(Some(Forget::Nth(2))));
        assert_eq!(read("/policy forget all"), SlashCommand::Policy(Some(Forget::All)));
        assert_eq!(read("/export"), SlashCommand::Export(None));
        assert_eq!(read("/export a b.md"), SlashCommand::Export(Some("a b.md".into())));
        assert_eq!([read("/diff"), read("/mcp")], [SlashCommand::Diff, SlashCommand::Mcp]);
        assert_eq!(read("/rename the build"), SlashCommand::Rename("the build".into()));
        let compact = shared::AgentCommand::Compact { path: "x".into(), target: Some(4000) };
        assert_eq!(read("/compact x 4k"), SlashCommand::Shared(compact));
        assert_eq!(
            [read("/last"), read("/last 3")],
            [SlashCommand::Last(1), SlashCommand::Last(3)]
        );
        assert_eq!([read("/exit"), read("/quit")], [SlashCommand::Exit, SlashCommand::Exit]);
    }

    #[test]
    fn malformed_commands_are_refused() {
        assert_eq!(refused("/env KEY"), "usage: /env NAME=VALUE");
        assert_eq!(refused("/key sk-123"), "usage: /key [PROVIDER]");
        assert_eq!(refused("/exit now"), "usage: /exit");
        assert_eq!(refused("/quit now"), "usage: /exit");
        assert_eq!(refused("/last one"), "usage: /last [N]");
        assert_eq!(refused("/unpin"), "usage: /unpin PATH");
        assert_eq!(refused("/policy forget"), "usage: /policy [forget N|all]");
        assert_eq!(refused("/diff now"), "usage: /diff");
        assert_eq!(refused("/fork two"), "usage: /fork [TURNS]");
        assert_eq!(refused("/rename"), "usage: /rename TITLE");
        assert_eq!(refused("/compact x y"), "usage: /compact [PATH [TOKENS]]");
        assert_eq!(refused("/refrsh"), "unknown command `/refrsh`; did you mean `/refresh`?");
        assert_eq!(refused("/tol x"), "unknown command `/tol`; did you mean `/tool`?");
        assert_eq!(refused("/xyzzy"), "unknown command `/xyzzy`");
    }

    #[test]
    fn a_path_is_no_command() {
        assert!(is_command("/help") && is_command("/hlep me") && is_command("  /env A=b"));
        assert!(!is_command("/etc/hosts is what?") && !is_command("say /help") && !is_command(""));
    }

    #[test]
    fn every_command_is_in_the_help() {
        let help = help();
        for (usage, _) in all() {
            assert!(help.contains(usage), "{usage}");
        }
    }
}
