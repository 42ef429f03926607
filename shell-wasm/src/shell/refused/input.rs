//! The commands in a loop or group that take its standard input.
//!
//! From a pipe, each of our commands takes the whole input with it, whether it reads the input or
//! not. `grep`, `cat` and `tr` do the same. Every other command except `read` gets all that is
//! left, and leaves it there for the next command, as with input from a file.

use bashkit::parser::{Command, CompoundCommand, Redirect, RedirectKind, SimpleCommand};

use super::{Functions, literal, parts, substituted, words};

/// The part of standard input that a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StdinUse {
    Nothing,
    Line,
    All,
}

/// The source of the input of a loop or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputSource {
    Pipe,
    File,
}

/// The commands that leave the input from a pipe to the others.
const HARMLESS: &[&str] = &[
    "", ":", "[", "break", "cd", "continue", "declare", "echo", "exit", "export", "false", "local",
    "printf", "read", "return", "set", "shift", "test", "true", "unset",
];

/// The commands that never read standard input.
const WITHOUT_INPUT: &[&str] = &[
    "", ":", "[", "alias", "basename", "break", "cd", "chmod", "continue", "cp", "date", "declare",
    "dirname", "du", "echo", "exit", "export", "expr", "false", "file", "find", "hash", "jobs",
    "kill", "let", "link", "ln", "local", "ls", "mkdir", "mktemp", "mv", "nproc", "popd",
    "printenv", "printf", "pushd", "pwd", "readlink", "readonly", "realpath", "return", "rm",
    "rmdir", "seq", "set", "shift", "shopt", "sleep", "stat", "test", "touch", "trap", "tree",
    "true", "truncate", "type", "typeset", "umask", "uname", "unlink", "unset", "unzip", "uuidgen",
    "wait", "which", "yes", "zip",
];

/// The commands that do not read standard input if they are given files: the number of operands
/// before the files, and the letters of options that take a value.
const WITH_FILES: &[(&str, usize, &str)] = &[
    ("awk", 1, "Fvf"),
    ("base64", 0, "w"),
    ("cat", 0, ""),
    ("cksum", 0, ""),
    ("cmp", 1, "in"),
    ("comm", 1, ""),
    ("cut", 0, "bcdf"),
    ("diff", 1, "CUIx"),
    ("egrep", 1, "ABCefm"),
    ("fgrep", 1, "ABCefm"),
    ("fmt", 0, "w"),
    ("fold", 0, "w"),
    ("gawk", 1, "Fvf"),
    ("grep", 1, "ABCefm"),
    ("gunzip", 0, ""),
    ("gzip", 0, ""),
    ("head", 0, "cn"),
    ("jq", 1, "fL"),
    ("md5sum", 0, ""),
    ("nl", 0, "bdfhilnsvw"),
    ("od", 0, "AjNStw"),
    ("paste", 0, "d"),
    ("rev", 0, ""),
    ("rg", 1, "ABCefgmt"),
    ("sed", 1, "efl"),
    ("sha1sum", 0, ""),
    ("sha256sum", 0, ""),
    ("sha512sum", 0, ""),
    ("sort", 0, "koStT"),
    ("strings", 0, "net"),
    ("tac", 0, "s"),
    ("tail", 0, "cn"),
    ("uniq", 0, "fsw"),
    ("wc", 0, ""),
    ("xxd", 0, "clos"),
];

/// Returns the name of a command that makes another command get less or more input than it would in
/// a real shell. The other command may be the same one in its next turn of the loop.
pub(super) fn misled(
    command: &Command,
    from: InputSource,
    functions: &Functions<'_>,
) -> Option<String> {
    let calls_function = |simple: &SimpleCommand| {
        literal(&simple.name).is_some_and(|name| functions.contains_key(name.as_str()))
    };
    let has_body = match command {
        Command::Compound(..) => true,
        Command::Simple(simple) => calls_function(simple),
        _ => false,
    };
    let mut readers = Readers { from, functions, called: Vec::new(), taker: None, misled: None };
    if has_body {
        readers.body(command, false);
    }
    readers.misled
}

struct Readers<'f> {
    from: InputSource,
    functions: &'f Functions<'f>,
    called: Vec<String>,
    /// The command that took the input.
    taker: Option<String>,
    misled: Option<String>,
}

impl Readers<'_> {
    fn visit(&mut self, command: &Command, repeats: bool) {
        let redirects = match command {
            Command::Simple(simple) => &simple.redirects[..],
            Command::Compound(_, redirects) => redirects,
            _ => &[],
        };
        for word in words(command) {
            substituted(word).for_each(|inner| self.visit(inner, repeats));
        }
        if !redirects.iter().any(is_input) {
            self.body(command, repeats);
        }
    }

    fn body(&mut self, command: &Command, repeats: bool) {
        match command {
            Command::Simple(simple) => self.simple(simple, repeats),
            // The other commands of a pipeline read from the one before them.
            Command::Pipeline(pipeline) => {
                pipeline.commands.first().into_iter().for_each(|it| self.visit(it, repeats));
            }
            Command::Function(_) => {}
            _ => {
                let repeats = repeats || is_loop(command);
                parts(command).into_iter().for_each(|inner| self.visit(inner, repeats));
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand, repeats: bool) {
        let name = literal(&simple.name);
        if let Some(body) = name.as_deref().and_then(|name| self.functions.get(name)) {
            let name = name.unwrap_or_default();
            if !self.called.contains(&name) {
                self.called.push(name);
                self.visit(body, repeats);
                self.called.pop();
            }
            return;
        }
        let reads = name.as_deref().map_or(StdinUse::All, |name| takes(name, simple));
        let is_harmless = name.as_deref().is_some_and(|name| HARMLESS.contains(&name));
        let name = name.unwrap_or_else(|| simple.name.to_string());
        if reads != StdinUse::Nothing
            && let Some(taker) = &self.taker
        {
            self.misled.get_or_insert_with(|| taker.clone());
        }
        let takes_all = match self.from {
            InputSource::Pipe => !is_harmless,
            InputSource::File => reads == StdinUse::All,
        };
        if takes_all && repeats {
            self.misled.get_or_insert_with(|| name.clone());
        }
        // `head` closes the pipe behind it, as it may in a real shell.
        if takes_all && !(self.from == InputSource::Pipe && name == "head") {
            self.taker = Some(name);
        }
    }
}

pub(super) fn is_input(redirect: &Redirect) -> bool {
    let is_input = matches!(
        redirect.kind,
        RedirectKind::Input
            | RedirectKind::HereDoc
            | RedirectKind::HereDocStrip
            | RedirectKind::HereString
            | RedirectKind::DupInput
            | RedirectKind::ReadWrite
    );
    is_input && redirect.fd.is_none_or(|fd| fd == 0)
}

fn is_loop(command: &Command) -> bool {
    matches!(
        command,
        Command::Compound(
            CompoundCommand::For(_)
                | CompoundCommand::ArithmeticFor(_)
                | CompoundCommand::While(_)
                | CompoundCommand::Until(_)
                | CompoundCommand::Select(_),
            _
        )
    )
}

fn takes(name: &str, simple: &SimpleCommand) -> StdinUse {
    if WITHOUT_INPUT.contains(&name) {
        return StdinUse::Nothing;
    }
    if name == "read" {
        return StdinUse::Line;
    }
    let known = WITH_FILES.iter().find(|(known, ..)| *known == name);
    match known {
        Some((_, before, letters)) if names_files(simple, *before, letters) => StdinUse::Nothing,
        _ => StdinUse::All,
    }
}

/// Returns whether a command has operands that are files. A word with a variable counts as an
/// operand.
fn names_files(simple: &SimpleCommand, mut before: usize, letters: &str) -> bool {
    let mut files = 0;
    let mut args = simple.args.iter().map(literal);
    let mut only_operands = false;
    while let Some(arg) = args.next() {
        match arg.as_deref() {
            Some("--") if !only_operands => only_operands = true,
            Some("-") => return false,
            Some(option) if option.starts_with('-') && !only_operands => {
                let mut given = option.trim_start_matches('-').char_indices();
                let end = given.find(|(_, letter)| letters.contains(*letter));
                if let Some((at, letter)) = end.filter(|_| !option.starts_with("--")) {
                    // `grep -e` and `awk -f` have no operand before the files.
                    if matches!(letter, 'e' | 'f') && before == 1 {
                        before = 0;
                    }
                    if at + letter.len_utf8() == option.len() - 1 {
                        args.next();
                    }
                }
            }
            _ if before > 0 => before -= 1,
            _ => files += 1,
        }
    }
    files > 0
}
