//! The check of a script before it runs. The interpreter accepts some forms and silently gets them
//! wrong. Each of them is refused, and the message names a form that works.
//!
//! The check sees the script, and the text of `eval`, `bash -c` and `trap` if it is written out. It
//! sees neither scripts that lie in files nor the values of variables.

mod input;

use std::collections::HashMap;

use bashkit::parser::{
    Assignment, AssignmentValue, Command, CompoundCommand, Parser, Redirect, RedirectKind,
    SimpleCommand, Word, WordPart,
};

use self::input::InputSource;
use super::limits;

/// The nesting of scripts in texts that are checked.
const TEXTS: usize = 8;

/// The unary operators of `[[` that the interpreter does not know, and takes for a non-empty text.
/// It knows `-x`, but only as a synonym of `-e`.
const UNARY: &[&str] =
    &["-L", "-h", "-p", "-S", "-x", "-b", "-c", "-g", "-k", "-u", "-G", "-N", "-O"];

/// The binary operators of `[[` that look for their operands in `/`.
const BINARY: &[&str] = &["-nt", "-ot"];

/// The binary operator that neither `[[` nor `[` know.
const SAME: &str = "-ef";

/// The operations that the parser may spend on a script. A script whose items of `case` are not
/// closed exceeds any number.
const OPERATIONS: usize = 200_000;
const OPERATIONS_PER_BYTE: usize = 100;

/// The parser's message when the operations are used up.
const EXHAUSTED: &str = "parser fuel exhausted";

/// Returns the reason to refuse a script, with a form that works.
pub(super) fn refusal(script: &str) -> Option<String> {
    refusal_of(script, TEXTS)
}

fn refusal_of(script: &str, texts: usize) -> Option<String> {
    let depth = limits::execution().max_ast_depth;
    let operations = OPERATIONS + OPERATIONS_PER_BYTE * script.len();
    // If a line is wrong, the commands before it still run.
    let (script, error) = Parser::with_limits(script, depth, operations).parse_recovering();
    if error.is_some_and(|error| error.to_string().contains(EXHAUSTED)) {
        return Some("an item of `case` has no `;;` before the next one; write it".to_owned());
    }
    let mut functions = HashMap::new();
    script.commands.iter().for_each(|command| collect(command, &mut functions));
    let mut check = ScriptCheck { functions, texts, reason: None };
    check.commands(&script.commands);
    check.reason
}

/// The functions that a script defines, by their names.
type Functions<'s> = HashMap<&'s str, &'s Command>;

fn collect<'s>(command: &'s Command, functions: &mut Functions<'s>) {
    if let Command::Function(function) = command {
        functions.insert(&function.name, &function.body);
    }
    for inner in parts(command) {
        collect(inner, functions);
    }
}

/// Returns the commands that a command is made of, without those in its words.
fn parts(command: &Command) -> Vec<&Command> {
    let mut parts = Vec::new();
    match command {
        Command::Simple(_) => {}
        Command::Pipeline(pipeline) => parts.extend(&pipeline.commands),
        Command::List(list) => {
            parts.push(&*list.first);
            parts.extend(list.rest.iter().map(|(_, command)| command));
        }
        Command::Function(function) => parts.push(&*function.body),
        Command::Compound(compound, _) => match compound {
            CompoundCommand::If(it) => {
                parts.extend(it.condition.iter().chain(&it.then_branch));
                for (condition, branch) in &it.elif_branches {
                    parts.extend(condition.iter().chain(branch));
                }
                parts.extend(it.else_branch.iter().flatten());
            }
            CompoundCommand::For(it) => parts.extend(&it.body),
            CompoundCommand::ArithmeticFor(it) => parts.extend(&it.body),
            CompoundCommand::Select(it) => parts.extend(&it.body),
            CompoundCommand::While(it) => parts.extend(it.condition.iter().chain(&it.body)),
            CompoundCommand::Until(it) => parts.extend(it.condition.iter().chain(&it.body)),
            CompoundCommand::Case(it) => {
                parts.extend(it.cases.iter().flat_map(|case| &case.commands));
            }
            CompoundCommand::Subshell(commands) | CompoundCommand::BraceGroup(commands) => {
                parts.extend(commands);
            }
            CompoundCommand::Time(it) => parts.extend(it.command.as_deref()),
            CompoundCommand::Coproc(it) => parts.push(&*it.body),
            CompoundCommand::Arithmetic(_) | CompoundCommand::Conditional(_) => {}
        },
    }
    parts
}

/// Returns the words of a command itself.
fn words(command: &Command) -> Vec<&Word> {
    let mut words: Vec<&Word> = Vec::new();
    let redirects = match command {
        Command::Simple(simple) => {
            words.push(&simple.name);
            words.extend(&simple.args);
            words.extend(simple.assignments.iter().flat_map(assigned));
            &simple.redirects[..]
        }
        Command::Compound(compound, redirects) => {
            match compound {
                CompoundCommand::For(it) => words.extend(it.words.iter().flatten()),
                CompoundCommand::Select(it) => words.extend(&it.words),
                CompoundCommand::Case(it) => words.push(&it.word),
                CompoundCommand::Conditional(it) => words.extend(it),
                _ => {}
            }
            redirects
        }
        _ => &[],
    };
    words.extend(redirects.iter().map(|redirect| &redirect.target));
    words
}

fn assigned(assignment: &Assignment) -> Vec<&Word> {
    match &assignment.value {
        AssignmentValue::Scalar(word) => vec![word],
        AssignmentValue::Array(words) => words.iter().collect(),
    }
}

/// Returns the commands in a word.
fn substituted(word: &Word) -> impl Iterator<Item = &Command> {
    let commands = word.parts.iter().filter_map(|part| match part {
        WordPart::CommandSubstitution(commands)
        | WordPart::ProcessSubstitution { commands, .. } => Some(commands),
        _ => None,
    });
    commands.flatten()
}

/// Returns a word that stands for itself.
fn literal(word: &Word) -> Option<String> {
    let text = |part: &WordPart| match part {
        WordPart::Literal(text) => Some(text.clone()),
        _ => None,
    };
    word.parts.iter().map(text).collect()
}

/// A walk through a script, up to the first form that is refused.
struct ScriptCheck<'s> {
    functions: Functions<'s>,
    texts: usize,
    reason: Option<String>,
}

impl<'s> ScriptCheck<'s> {
    fn refuse(&mut self, reason: impl Into<String>) {
        self.reason.get_or_insert_with(|| reason.into());
    }

    fn commands(&mut self, commands: &'s [Command]) {
        commands.iter().for_each(|command| self.command(command));
    }

    fn command(&mut self, command: &'s Command) {
        match command {
            Command::Simple(simple) => {
                self.redirects(&simple.redirects);
                self.simple(simple);
            }
            Command::Pipeline(pipeline) => {
                for piped in pipeline.commands.iter().skip(1) {
                    if let Some(name) = input::misled(piped, InputSource::Pipe, &self.functions) {
                        self.refuse(format!(
                            "a loop or group after `|` in which `{name}` runs loses its input in \
                             this shell; write `while …; done < <(…)`"
                        ));
                    }
                }
            }
            Command::Compound(compound, redirects) => {
                self.redirects(redirects);
                if redirects.iter().any(input::is_input)
                    && let Some(name) = input::misled(command, InputSource::File, &self.functions)
                {
                    self.refuse(format!(
                        "`{name}` reads the input of a loop or group, and in this shell others \
                         get that again; give `{name}` an input of its own, as in `{name} < FILE`"
                    ));
                }
                if let CompoundCommand::Conditional(words) = compound {
                    self.conditional(words);
                }
            }
            Command::List(_) | Command::Function(_) => {}
        }
        for word in words(command) {
            substituted(word).for_each(|inner| self.command(inner));
        }
        for inner in parts(command) {
            self.command(inner);
        }
    }

    /// Checks the texts that a command runs.
    fn simple(&mut self, simple: &'s SimpleCommand) {
        let Some(texts) = self.texts.checked_sub(1) else { return };
        let name = literal(&simple.name).unwrap_or_default();
        let args: Vec<Option<String>> = simple.args.iter().map(literal).collect();
        let text = match name.as_str() {
            "eval" => args.iter().cloned().collect::<Option<Vec<_>>>().map(|args| args.join(" ")),
            "bash" | "sh" => {
                let is_command = |arg: &Option<String>| {
                    let letters = arg.as_deref().and_then(|arg| arg.strip_prefix('-'));
                    letters.is_some_and(|it| !it.starts_with('-') && it.contains('c'))
                };
                let at = args.iter().position(is_command);
                at.and_then(|at| args.get(at + 1).cloned().flatten())
            }
            "trap" => {
                let is_err = |arg: &Option<String>| {
                    let name = arg.as_deref().unwrap_or_default().to_ascii_uppercase();
                    matches!(name.as_str(), "ERR" | "SIGERR")
                };
                let action = args.iter().flatten().find(|arg| *arg != "--").cloned();
                if args.iter().skip(1).any(is_err)
                    && let Some(action) = &action
                    && let Some(end) = self.ends(action)
                {
                    self.refuse(format!(
                        "`{end}` in a trap of ERR does not end anything in this shell; write \
                         `set -e`, or `COMMAND || {end}`"
                    ));
                }
                action
            }
            "[" | "test" => {
                if args.iter().flatten().any(|arg| arg == SAME) {
                    self.refuse_same();
                }
                None
            }
            _ => None,
        };
        if let Some(reason) = text.and_then(|text| refusal_of(&text, texts)) {
            self.refuse(reason);
        }
    }

    /// Returns the command by which a text ends the shell or a function.
    fn ends(&self, text: &str) -> Option<&'static str> {
        let (script, _) = Parser::new(text).parse_recovering();
        let mut seen = Vec::new();
        script.commands.iter().find_map(|command| self.command_ends(command, &mut seen))
    }

    fn command_ends<'c>(&self, command: &'c Command, seen: &mut Vec<String>) -> Option<&'static str>
    where
        's: 'c,
    {
        if let Command::Simple(simple) = command {
            let name = literal(&simple.name).unwrap_or_default();
            match name.as_str() {
                "exit" => return Some("exit"),
                "return" if seen.is_empty() => return Some("return"),
                _ if seen.contains(&name) => return None,
                _ => {}
            }
            if let Some(body) = self.functions.get(name.as_str()) {
                seen.push(name);
                return self.command_ends(body, seen);
            }
        }
        parts(command).into_iter().find_map(|inner| self.command_ends(inner, seen))
    }

    fn refuse_same(&mut self) {
        self.refuse(format!(
            "this shell does not test `{SAME}`; compare what `realpath` prints of both files"
        ));
    }

    fn conditional(&mut self, words: &[Word]) {
        let texts: Vec<_> = words.iter().map(|it| literal(it).filter(|_| !it.quoted)).collect();
        let text = |at: usize| texts.get(at).cloned().flatten().unwrap_or_default();
        for (at, word) in texts.iter().enumerate() {
            let Some(word) = word.as_deref() else { continue };
            let before = at.checked_sub(1).map(text);
            let is_first = before.is_none_or(|it| matches!(it.as_str(), "!" | "(" | "&&" | "||"));
            let is_last =
                |at: usize| at >= words.len() || matches!(text(at).as_str(), ")" | "&&" | "||");
            let is_unary = UNARY.contains(&word) && is_first && !is_last(at + 1) && is_last(at + 2);
            let is_binary = BINARY.contains(&word) && !is_first && !is_last(at + 1);
            if word == SAME && !is_first && !is_last(at + 1) {
                self.refuse_same();
            } else if is_unary || is_binary {
                self.refuse(format!(
                    "this shell does not test `{word}` between `[[` and `]]`; write it with `[` \
                     and `]`"
                ));
            }
        }
    }

    fn redirects(&mut self, redirects: &[Redirect]) {
        let is_file = |it: &&Redirect| {
            matches!(
                it.kind,
                RedirectKind::Output
                    | RedirectKind::Clobber
                    | RedirectKind::Append
                    | RedirectKind::OutputBoth
            )
        };
        let mut outputs: Vec<i32> = Vec::new();
        for redirect in redirects.iter().filter(is_file) {
            let descriptors: &[i32] = match (redirect.kind, redirect.fd) {
                (RedirectKind::OutputBoth, _) => &[1, 2],
                (_, None | Some(1)) => &[1],
                (_, Some(2)) => &[2],
                // A redirect of a descriptor above 2 writes to a file that no standard output goes
                // to.
                (_, Some(_)) => &[],
            };
            if redirect.fd_var.is_none() && descriptors.iter().any(|it| outputs.contains(it)) {
                self.refuse(
                    "one command redirects an output to two files, and this shell writes to the \
                     first one; write `: > FILE` for that one before the command",
                );
            }
            outputs.extend(descriptors);
        }
        // `3>&1 1>&2 2>&3`: a descriptor that is saved in a third one, and restored from it.
        let copies = || redirects.iter().filter(|it| it.kind == RedirectKind::DupOutput);
        let kept = |redirect: &Redirect| {
            let from = literal(&redirect.target).unwrap_or_default();
            let from = from.trim_end_matches('-').parse::<i32>().ok();
            from.is_some_and(|from| from > 2 && copies().any(|it| it.fd == Some(from)))
        };
        if copies().any(kept) {
            self.refuse(
                "outputs that are swapped through a third descriptor keep their places in this \
                 shell; write them to files, as in `COMMAND > OUT 2> ERR`",
            );
        }
    }
}
