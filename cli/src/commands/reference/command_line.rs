//! The page of the commands. The options that several commands share come first, and then a section
//! for each command, in the groups of the front page of help.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};

use super::MADE;
use super::markdown::{MarkdownTable, cell, code, code_cell, escaped, one_line};
use crate::help::front_page::GROUPS;

/// The heading of the options that help shows without a heading.
const GENERAL: &str = "General";

/// Returns the page.
pub(super) fn page(program: &Command) -> String {
    let groups = groups(program);
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing to a string cannot fail, here and below.
    let mut page = format!("# Command line\n\n{}.\n\n", escaped(&about));
    let _ = writeln!(page, "```text\n{}\n```\n", usage(program));
    let _ = writeln!(
        page,
        "{MADE} `ikigai help COMMAND` prints the same texts. `ikigai help options` prints the exit codes.\n"
    );
    let _ = writeln!(page, "- [Options](#options)");
    for (title, commands) in &groups {
        let links: Vec<String> = commands.iter().map(|command| link("", command)).collect();
        let _ = writeln!(page, "- [{title}](#{}): {}", title.to_lowercase(), links.join(", "));
    }
    page.push('\n');
    page += &shared_options(program);
    for (title, commands) in &groups {
        let _ = writeln!(page, "## {title}\n");
        page.extend(commands.iter().map(|command| section(program, command)));
    }
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// Returns the groups of the front page. Each has its commands, and after each of them those that
/// the front page leaves out.
pub(super) fn groups(program: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, paths)| *paths).copied().collect();
    let mut groups = Vec::new();
    for (title, paths) in GROUPS {
        let mut commands = Vec::new();
        for path in *paths {
            commands.extend(with_unlisted(program, path, &listed));
        }
        groups.push((*title, commands));
    }
    groups
}

/// Returns the command with a path of the front page, and the commands that follow it in its
/// definition up to the next one that the front page lists.
fn with_unlisted<'a>(program: &'a Command, path: &str, listed: &[&str]) -> Vec<&'a Command> {
    let Some((above, name)) = path.split_once(' ') else {
        return program.find_subcommand(path).into_iter().collect();
    };
    let Some(above_it) = program.find_subcommand(above) else { return Vec::new() };
    let mut found = Vec::new();
    for command in above_it.get_subcommands().skip_while(|it| it.get_name() != name) {
        let is_other = listed.contains(&format!("{above} {}", command.get_name()).as_str());
        if is_other && !found.is_empty() {
            break;
        }
        if !command.is_hide_set() && command.get_name() != "help" {
            found.push(command);
        }
    }
    found
}

/// Returns the path of a command without the name of the program.
pub(super) fn path(command: &Command) -> &str {
    let name = command.get_bin_name().unwrap_or_default();
    name.strip_prefix("ikigai ").unwrap_or(name)
}

/// Returns a link to the section of a command, on this page or on another one.
pub(super) fn link(page: &str, command: &Command) -> String {
    let path = path(command);
    format!("[`{path}`]({page}#ikigai-{})", path.replace(' ', "-"))
}

fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines = usage.strip_prefix("Usage:").unwrap_or(&usage).lines().map(str::trim);
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the arguments of a command that its help shows.
pub(super) fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

fn prints_help(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

/// Returns the section of the options that several commands share.
fn shared_options(program: &Command) -> String {
    let own = shown(program).filter(|arg| !arg.is_global_set() && !prints_help(arg));
    let own: Vec<String> =
        own.filter_map(Arg::get_long).map(|it| code(&format!("--{it}"))).collect();
    let mut text = format!(
        "## Options\n\nEvery command accepts these options, before or after its name. The section of a command lists \
         the options that affect the command. Only `ikigai` and the commands whose sections list them accept \
         these exceptions: {}.\n\n",
        own.join(", ")
    );
    let mut headings: Vec<Option<&str>> = vec![None];
    for heading in shown(program).map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = writeln!(text, "### {}\n", heading.unwrap_or(GENERAL));
        let args = shown(program).filter(|arg| arg.get_help_heading() == heading);
        text += &options("option", args);
    }
    text
}

fn section(program: &Command, command: &Command) -> String {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let mut text = format!("### ikigai {}\n\n", path(command));
    for paragraph in about.split("\n\n") {
        let paragraph = escaped(paragraph.trim());
        let end = if paragraph.ends_with(['.', ':', '!', '?']) { "" } else { "." };
        let _ = writeln!(text, "{paragraph}{end}\n");
    }
    let _ = writeln!(text, "```text\n{}\n```\n", usage(command));
    let args = shown(command).filter(|arg| !prints_help(arg));
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) = args.partition(|arg| is_shared(program, arg));
    text += &options("argument", own.into_iter());
    let shared = shared_links(program, &shared);
    if !shared.is_empty() {
        let _ = writeln!(text, "Shared options: {}.\n", shared.join(", "));
    }
    if let Some(notes) = command.get_after_help() {
        text += &with_code(&notes.to_string());
    }
    text.push('\n');
    text
}

/// Returns whether an argument is an option that the program describes for several commands.
fn is_shared(program: &Command, arg: &Arg) -> bool {
    shown(program).any(|it| {
        let is_same_place = it.get_help_heading() == arg.get_help_heading();
        it.get_id() == arg.get_id() && is_same_place && help_text(it) == help_text(arg)
    })
}

/// Returns links to the descriptions of the shared options of a command. Leaves out the general
/// options, which affect every command.
fn shared_links(program: &Command, shared: &[&Arg]) -> Vec<String> {
    let mut headings: Vec<&str> = Vec::new();
    for heading in shared.iter().filter_map(|arg| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings.into_iter().map(|heading| heading_link(program, heading, shared)).collect()
}

fn heading_link(program: &Command, heading: &str, shared: &[&Arg]) -> String {
    let is_below = |arg: &&Arg| arg.get_help_heading() == Some(heading);
    let is_taken = |arg: &Arg| shared.iter().any(|it| it.get_id() == arg.get_id());
    let (taken, others): (Vec<&Arg>, Vec<&Arg>) =
        shown(program).filter(is_below).partition(|arg| is_taken(arg));
    let names = |args: &[&Arg]| {
        let names = args.iter().filter_map(|arg| arg.get_long());
        names.map(|name| code(&format!("--{name}"))).collect::<Vec<_>>().join(" and ")
    };
    let anchor = heading.to_lowercase();
    match (others.len(), taken.len()) {
        (0, _) => format!("[{heading}](#{anchor})"),
        (others_len, taken_len) if others_len < taken_len => {
            format!("[{heading}](#{anchor}) except {}", names(&others))
        }
        _ => format!("{} of [{heading}](#{anchor})", names(&taken)),
    }
}

/// Returns the table of arguments. `title` heads its first column.
fn options<'a>(title: &'static str, args: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = MarkdownTable::new([title, "what it does", "default", "variable"]);
    for arg in args {
        let ArgDescription { name, mut text, default } = describe(arg);
        text.extend(values(arg));
        let variable = arg.get_env().unwrap_or_default().to_string_lossy();
        table.add([code_cell(&name), cell(&text), default, code_cell(&variable)]);
    }
    table.render()
}

/// An argument in the parts of its help.
pub(super) struct ArgDescription {
    /// The name with its value, such as `--timeout <DURATION>`.
    pub(super) name: String,
    /// The paragraphs of the text, without the default.
    pub(super) text: Vec<String>,
    /// The default, as the content of a cell. It may be empty.
    pub(super) default: String,
}

/// Returns the parts of an argument's help.
pub(super) fn describe(arg: &Arg) -> ArgDescription {
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {arg}"),
        _ => arg.to_string(),
    };
    let (mut text, mut default) = (Vec::new(), String::new());
    for paragraph in help_text(arg).split("\n\n").map(one_line) {
        let (rest, found) = without_default(&paragraph);
        text.push(rest);
        if let Some(found) = found {
            default = if found.contains(' ') { cell(&[found]) } else { code_cell(&found) };
        }
    }
    let is_set = arg.get_action().takes_values() && !arg.is_hide_default_value_set();
    if is_set && let Some(value) = arg.get_default_values().first() {
        default = code_cell(&value.to_string_lossy());
    }
    ArgDescription { name, text, default }
}

fn help_text(arg: &Arg) -> String {
    let text = arg.get_long_help().or_else(|| arg.get_help());
    text.map(ToString::to_string).unwrap_or_default()
}

/// Splits the part `[default: …]` off a text.
fn without_default(text: &str) -> (String, Option<String>) {
    let found = text.split_once(" [default: ").and_then(|(before, rest)| {
        let (default, after) = rest.split_once(']')?;
        Some((format!("{before}{after}"), Some(default.to_owned())))
    });
    found.unwrap_or_else(|| (text.to_owned(), None))
}

/// Returns the possible values of an argument, each with its help, or all on one line if they have
/// no help.
fn values(arg: &Arg) -> Vec<String> {
    if arg.is_hide_possible_values_set() {
        return Vec::new();
    }
    let values = arg.get_possible_values();
    let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if values.iter().all(|value| value.get_help().is_none()) {
        let names: Vec<String> = values.iter().map(|value| code(value.get_name())).collect();
        return names.first().map(|_| format!("One of {}", names.join(", "))).into_iter().collect();
    }
    let described = values.into_iter().map(|value| match value.get_help() {
        Some(help) => format!("{}: {help}", code(value.get_name())),
        None => code(value.get_name()),
    });
    described.collect()
}

/// Returns a text of help, with its indented lines as code.
fn with_code(text: &str) -> String {
    let mut page = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let indented = line.strip_prefix("  ");
        match (is_code, indented) {
            (false, Some(_)) => page.push_str("\n```text\n"),
            (true, None) => page.push_str("```\n\n"),
            _ => {}
        }
        is_code = indented.is_some();
        let line = indented.map_or_else(|| escaped(line), str::to_owned);
        let _ = writeln!(page, "{line}");
    }
    if is_code {
        page.push_str("```\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_help_are_separated() {
        let limit = Arg::new("limit").long("limit").short('l').value_name("N");
        let limit = limit.help("Limit, such as 2m [default: 30s; 2m in\n`ask`]; at most a week");
        let file = Arg::new("file").help("A file").default_value("a|b");
        let mut command = Command::new("test").args([limit, file]);
        command.build();
        let described = |name: &str| {
            describe(command.get_arguments().find(|it| it.get_id() == name).expect("an argument"))
        };
        let ArgDescription { name, text, default } = described("limit");
        assert_eq!((name.as_str(), default.as_str()), ("-l, --limit <N>", "30s; 2m in `ask`"));
        assert_eq!(text, ["Limit, such as 2m; at most a week"]);
        let plain = described("file");
        assert_eq!((plain.name.as_str(), plain.default.as_str()), ("[file]", "`a\\|b`"));
    }

    #[test]
    fn indented_lines_are_code() {
        let page = with_code("Examples:\n  ikigai <x>\n\nThe <x>.");
        assert_eq!(page, "Examples:\n\n```text\nikigai <x>\n```\n\n\nThe \\<x>.\n");
    }
}
