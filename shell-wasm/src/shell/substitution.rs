//! Output to a process substitution, `> >(command)`, in the cases in which the interpreter loses
//! it. The interpreter feeds the command when the simple command that named it ends. The output of
//! a compound command is never fed, and the output that `exec` redirects comes too late.
//!
//! So a line with a process substitution is run by `eval`, which is a simple command. The output
//! that `exec` redirects goes into a file, and the command is fed from it when the script ends.

use bashkit::parser::Parser;

const OPENS: &str = ">(";

/// A script that the interpreter can run, and the commands to feed after it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PreparedScript {
    pub(super) script: String,
    pub(super) fed: Vec<FedCommand>,
}

/// A command that reads the output that `exec` redirected to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FedCommand {
    pub(super) file: String,
    pub(super) command: String,
}

/// Prepares a script. A script without a process substitution for output stays unchanged.
pub(super) fn prepare(script: &str) -> PreparedScript {
    if !script.contains(OPENS) {
        return PreparedScript { script: script.to_owned(), fed: Vec::new() };
    }
    let mut prepared = PreparedScript::default();
    let mut rest = script;
    while !rest.is_empty() {
        let (unit, after) = first_unit(rest);
        rest = after;
        if unit.contains(OPENS) && parses(unit) {
            let unit = prepared.exec(unit);
            if unit.contains(OPENS) {
                let end = if unit.ends_with(';') { ';' } else { '\n' };
                let text = unit.trim_end_matches(end).replace('\'', "'\\''");
                prepared.script.push_str(&format!("eval '{text}'{end}"));
            } else {
                prepared.script.push_str(&unit);
            }
        } else {
            prepared.script.push_str(unit);
        }
    }
    prepared
}

impl PreparedScript {
    /// Replaces the process substitutions to which `exec` redirects by files.
    fn exec(&mut self, unit: &str) -> String {
        let mut text = String::new();
        let mut rest = unit;
        while let Some((before, inside, after)) = split(rest) {
            text.push_str(before);
            let clause = text.rsplit(['\n', ';', '&', '|', '{', '(']).next().unwrap_or_default();
            let of_exec = clause.split_ascii_whitespace().next() == Some("exec")
                && before.trim_end_matches([' ', '\t']).ends_with('>');
            if of_exec {
                let file = format!("/tmp/.substitution-{}", self.fed.len() + 1);
                text.push_str(&file);
                self.fed.push(FedCommand { file, command: inside.to_owned() });
            } else {
                text.push_str(&format!("{OPENS}{inside})"));
            }
            rest = after;
        }
        text.push_str(rest);
        text
    }
}

/// Splits a text into the text before the first process substitution, its command, and the text
/// after it.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(OPENS)?;
    let inside = &text[start + OPENS.len()..];
    let ends = inside.match_indices(')').map(|(end, _)| end);
    // A parenthesis within quotes leaves them open before it.
    let end = { ends }.find(|end| !inside[..*end].trim().is_empty() && parses(&inside[..*end]))?;
    Some((&text[..start], &inside[..end], &inside[end + 1..]))
}

/// Splits off the first complete commands, to the end of a line or a semicolon.
fn first_unit(script: &str) -> (&str, &str) {
    for (end, separator) in script.match_indices(['\n', ';']) {
        let unit = &script[..=end];
        // Only the whole text shows the end of a here-document.
        if unit.contains("<<") {
            break;
        }
        let escaped = script[..end].ends_with('\\');
        // A semicolon may be part of a comment, or of `;;`.
        let apart = separator == "\n"
            || !unit.contains('#') && !unit.ends_with(";;") && !script[end + 1..].starts_with(';');
        if !escaped && apart && parses(unit) {
            return script.split_at(end + 1);
        }
    }
    (script, "")
}

fn parses(text: &str) -> bool {
    Parser::new(text).parse().is_ok()
}
