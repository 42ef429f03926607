//! The commands as `--help`, completions and manual pages show them: of the shared flags,
//! each command shows those that do something for it.
//!
//! Every command takes all of them, so that they may stand anywhere on the line.

use clap::{Arg, Args as _, Command};

use crate::options::{ASSETS, CALLS, DIRECTORIES, Options, POLICY};

const ALL: &[&str] = &[DIRECTORIES, POLICY, CALLS, ASSETS];

/// The headings of the shared flags that do something for a command.
pub(crate) fn headings(command: &[&str]) -> &'static [&'static str] {
    match command {
        // They only hold others.
        ["tool" | "policy" | "asset" | "config"] => &[],
        ["tool", "list" | "schema"] | ["policy", "test" | "grant"] => &[DIRECTORIES, POLICY],
        ["tool" | "policy", "show"] => &[DIRECTORIES, POLICY, CALLS],
        ["policy", "revoke"] => &[POLICY],
        ["asset", "check"] => &[DIRECTORIES, ASSETS],
        ["asset", _] => &[ASSETS],
        ["doctor"] => &[DIRECTORIES, POLICY, ASSETS],
        // Shows what all of them are set to.
        ["config", "show"] => &[],
        ["audit" | "completions"] => &[],
        _ => ALL,
    }
}

/// Returns the program's commands, each with the flags that it shows.
pub(crate) fn with_shared_flags(program: Command) -> Command {
    let shared = Options::augment_args(Command::new("ikigai"));
    let shared: Vec<&Arg> = shared.get_arguments().collect();
    let root = shared.iter().fold(program, |command, arg| {
        command.mut_arg(arg.get_id(), |arg| fitted(arg, headings(&[])))
    });
    root.mut_subcommands(|command| with_flags(command, &shared, &[]))
}

/// The command and those below it. Flags that a command has are not handed down to it.
fn with_flags(command: Command, shared: &[&Arg], above: &[&str]) -> Command {
    let name = command.get_name().to_owned();
    let path = [above, &[&name]].concat();
    let flags = shared.iter().map(|arg| fitted((*arg).clone(), headings(&path)));
    command.args(flags).mut_subcommands(|command| with_flags(command, shared, &path))
}

/// Hides a flag, or shows it in `--help` alone: `-h` has what the command is about. One
/// without a heading belongs to every command.
fn fitted(arg: Arg, headings: &[&str]) -> Arg {
    match arg.get_help_heading() {
        None => arg,
        Some(heading) if headings.contains(&heading) => arg.hide_short_help(true),
        Some(_) => arg.hide(true),
    }
}
