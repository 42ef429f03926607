//! The first page of help, for `ikigai --help`: commands in groups, examples, and pointers to
//! everything else.
//!
//! It is the same for `-h` and `--help`, and has few flags. `ikigai help options` lists all of
//! them.

use std::fmt::Write as _;

use clap::Command;
use strum::VariantArray as _;

use super::Topic;

/// The commands that a newcomer needs, in the order of use.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("Use", &["ask", "tool list", "tool show", "tool call", "completions"]),
    ("Allow", &["policy grant", "policy revoke", "policy suggest", "policy test"]),
    ("Inspect", &["policy show", "audit", "doctor", "config show"]),
    ("Connect", &["mcp install", "mcp add", "mcp list", "mcp serve"]),
    ("Store", &["asset put", "asset list", "asset get", "session list"]),
    ("Build", &["tool new", "tool build", "tool test", "tool install"]),
];

/// Examples of the program, each with its purpose.
const EXAMPLES: &[(&str, &str)] = &[
    ("ikigai", "talk to a model that can call the tools"),
    ("ikigai tool call file_read --file_path README.md", "call a tool yourself"),
    ("ikigai policy grant bash --read ~/data", "let a tool read a directory"),
    ("ikigai audit --failed --since today", "see what failed or was refused"),
    ("ikigai mcp install claude-code", "give the tools to Claude Code"),
    ("ikigai tool new my_tool --lang script", "write your own tool"),
];

/// The flags of the page, by clap's names. Each command shows its own.
pub(crate) const FLAGS: &[&str] =
    &["workspace", "continue", "resume", "verbose", "help", "version"];

/// Returns the program with the front page as its help.
pub(super) fn build(program: Command) -> Command {
    let page = template(&program);
    let program = program.mut_args(|arg| {
        let is_shown = FLAGS.contains(&arg.get_id().as_str());
        arg.hide(!is_shown).hide_short_help(false).hide_env(true)
    });
    program.help_template(page)
}

/// Returns the page as a clap template. clap fills in the rest.
fn template(program: &Command) -> String {
    let (header, literal) = (program.get_styles().get_header(), program.get_styles().get_literal());
    let mut page = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    let commands = GROUPS.iter().flat_map(|(_, commands)| *commands);
    let width = commands.map(|command| command.len()).max().unwrap_or_default();
    // Writing to a string cannot fail.
    for (title, commands) in GROUPS {
        let _ = writeln!(page, "\n{header}{title}:{header:#}");
        for path in *commands {
            let about = command(program, path).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(page, "  {literal}{path:width$}{literal:#}  {about}");
        }
    }
    let _ =
        writeln!(page, "\n{header}Options:{header:#}\n{{options}}\n\n{header}Examples:{header:#}");
    let width = EXAMPLES.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
    for (line, purpose) in EXAMPLES {
        let _ = writeln!(page, "  {literal}{line:width$}{literal:#}  {purpose}");
    }
    let topics: Vec<&str> = Topic::VARIANTS.iter().map(<&str>::from).collect();
    let _ = write!(
        page,
        "\n{header}More:{header:#}\n  \
         {literal}ikigai help COMMAND{literal:#}  explain a command, such as `tool call` or all of `policy`\n  \
         {literal}ikigai help TOPIC{literal:#}    explain {}\n",
        topics.join(", ")
    );
    page
}

/// Returns the command with a path such as `tool list`.
pub(crate) fn command<'a>(program: &'a Command, path: &str) -> Option<&'a Command> {
    path.split(' ').try_fold(program, |above, name| above.find_subcommand(name))
}
