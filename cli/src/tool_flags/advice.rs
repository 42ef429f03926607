//! The advice on a word that the command line may not have. clap's own advice is to write the word
//! after `--`, where `tool call` and `policy record` expect JSON.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Replaces clap's advice on an unknown word of `tool call` or `policy record`.
pub(crate) fn advise(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let Some(advice) = advice(&error, line) else { return error };
    if error.get(ContextKind::SuggestedArg).is_some() {
        // clap found a flag with a similar name, which is the better advice.
        error.remove(ContextKind::Suggested);
    } else {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

fn advice(error: &clap::Error, line: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let usage = error.get(ContextKind::Usage)?.to_string();
    if usage.contains("ikigai policy record ") {
        let name = word.strip_prefix("--").and_then(|flag| flag.split('=').next());
        let name = name.filter(|name| !name.is_empty()).unwrap_or("NAME");
        return Some(format!(
            "the arguments of each call are a JSON object: -- '{{\"{name}\":\"…\"}}'"
        ));
    }
    usage.contains("ikigai tool call ").then(|| match value_of_flag(word, line) {
        Some((flag, value)) => {
            format!("write '{flag}={value}', or give the arguments as JSON")
        }
        None => "write an argument of the tool as '--NAME=VALUE', or give them as JSON".to_owned(),
    })
}

/// Returns the flag before a word of the line, and the whole word: clap knows only the first letter
/// of `-lx`.
fn value_of_flag(word: &str, line: &[OsString]) -> Option<(String, String)> {
    let words: Vec<String> = line.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let pair = words.windows(2).find(|pair| pair[1].starts_with(word))?;
    let [flag, value] = pair else { return None };
    let is_flag = flag.starts_with("--") && flag.len() > 2 && !flag.contains('=');
    is_flag.then(|| (flag.clone(), value.clone()))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction, Command};

    use super::*;
    use crate::tool_flags::read;

    fn program() -> Command {
        let call = Command::new("call").args([Arg::new("name").required(true), Arg::new("json")]);
        let record = Command::new("record").args([
            Arg::new("tool").required(true),
            Arg::new("permissive").long("permissive").action(ArgAction::SetTrue),
            Arg::new("calls").last(true).required(true).num_args(1..),
        ]);
        Command::new("ikigai").subcommands([
            Command::new("tool").subcommands([call, Command::new("list").arg(Arg::new("json"))]),
            Command::new("policy").subcommand(record),
        ])
    }

    /// Returns the text of the error for a line.
    fn told(line: &str) -> String {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = read(program, &line).expect_err("a mistake");
        advise(error, &line).to_string()
    }

    #[test]
    fn the_advice_is_what_the_command_takes() {
        let as_json = "the arguments of each call are a JSON object: -- '{\"command\":\"…\"}'";
        for (line, advice) in [
            ("ikigai tool call wc --args -l", "write '--args=-l', or give the arguments as JSON"),
            ("ikigai tool call wc --args -lx", "write '--args=-lx', or"),
            ("ikigai tool call wc -l", "as '--NAME=VALUE', or give them as JSON"),
            ("ikigai tool call wc --args=x -l", "as '--NAME=VALUE', or"),
            ("ikigai policy record bash --command x", as_json),
            ("ikigai policy record bash --command=x", as_json),
            ("ikigai policy record bash --permisive", "'--permissive'"),
        ] {
            let told = told(line);
            assert!(told.contains(advice) && !told.contains("as a value"), "{line}: {told}");
        }
        // Other commands keep clap's advice.
        assert!(told("ikigai tool list -x").contains("as a value"));
    }
}
