//! The contents of `--help`, completions and manual pages: the page of the program itself, and the
//! shared flags that affect each command. [`topic`] has the pages about topics other than commands.
//!
//! Every command accepts all shared flags, so that they may stand anywhere on the line.

pub(crate) mod front_page;
mod topic;
mod unknown;

use clap::{Arg, Args as _, Command};

use crate::options::{ASSETS, CALLS, DIRECTORIES, POLICY, SharedOptions};

pub(crate) use topic::{Topic, asked_topic};
pub(crate) use unknown::unknown_command;

const ALL: &[&str] = &[DIRECTORIES, POLICY, CALLS, ASSETS];

/// Returns the headings of the shared flags that affect a command.
pub(crate) fn headings(command: &[&str]) -> &'static [&'static str] {
    match command {
        // These commands only group others.
        ["tool" | "policy" | "asset" | "session" | "config" | "mcp"] => &[],
        ["tool", "new" | "test"] => &[],
        ["tool", "list" | "schema"] | ["policy", "test" | "grant" | "suggest"] => {
            &[DIRECTORIES, POLICY]
        }
        ["tool" | "policy", "show"] => &[DIRECTORIES, POLICY, CALLS],
        ["policy", "revoke"] => &[POLICY],
        ["mcp", "install"] => &[DIRECTORIES],
        ["asset", "check"] => &[DIRECTORIES, ASSETS],
        ["session", "list" | "import"] => &[DIRECTORIES, ASSETS],
        ["asset" | "session", _] => &[ASSETS],
        ["doctor"] => &[DIRECTORIES, POLICY, ASSETS],
        // This command shows the values of all flags.
        ["config", "show"] => &[],
        ["audit" | "completions"] => &[],
        _ => ALL,
    }
}

/// Returns the program's commands, each with the flags that it shows. The program itself shows the
/// front page.
pub(crate) fn with_shared_flags(program: Command) -> Command {
    front_page::build(with_all_flags(program))
}

/// Returns the program's commands, each with the flags that it shows. The program itself shows all
/// flags.
fn with_all_flags(program: Command) -> Command {
    let shared = SharedOptions::augment_args(Command::new("ikigai"));
    let shared: Vec<&Arg> = shared.get_arguments().collect();
    let root = shared.iter().fold(program, |command, arg| {
        command.mut_arg(arg.get_id(), |arg| with_visibility(arg, headings(&[])))
    });
    root.mut_subcommands(|command| with_flags(command, &shared, &[]))
}

/// Returns the program's commands for manual and reference pages. These have only the long form,
/// with the text of each flag.
pub(crate) fn for_manual(program: Command) -> Command {
    fn with_texts(command: Command) -> Command {
        command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(with_texts)
    }
    with_texts(with_all_flags(program))
}

/// Adds the shared flags to a command and to its subcommands.
fn with_flags(command: Command, shared: &[&Arg], above: &[&str]) -> Command {
    let name = command.get_name().to_owned();
    let path = [above, &[&name]].concat();
    let flags = shared.iter().map(|arg| with_visibility((*arg).clone(), headings(&path)));
    command.args(flags).mut_subcommands(|command| with_flags(command, shared, &path))
}

/// Shows a flag in `--help` if its heading is in the list, and hides it otherwise. A flag without a
/// heading belongs to every command and also appears in `-h`.
fn with_visibility(arg: Arg, headings: &[&str]) -> Arg {
    match arg.get_help_heading() {
        None => arg,
        Some(heading) if headings.contains(&heading) => arg.hide_short_help(true),
        Some(_) => arg.hide(true),
    }
}
