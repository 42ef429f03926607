//! `ikigai tool call`: one call, and its envelope on stdout.

mod unread;

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::slice::from_ref;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;

use super::list;
use super::named::{named_tool, not_found_hints};
use crate::approval::ApprovalOptions;
use crate::commands::{cancelled_by_signals, definition};
use crate::complete;
use crate::credentials;
use crate::error::{self, CliError};
use crate::model::ENVIRONMENT;
use crate::options::SharedOptions;
use crate::output::{eprint, print, print_exact, screen_of_stderr, visible};
use crate::person::Person;
use crate::remedy;
use crate::tool_flags::{HELP_OF_TOOL, ToolFlags, by_flags, in_json, usage};
use ikigai_host::audit::Requester;
use ikigai_host::exec::envelope::{Aside, Envelope, JsonLayout};
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::{AnsweredCall, Host};
use ikigai_host::registry::Tool;
use ikigai_protocol::EnvelopeCode;
use ikigai_terminal::one_line;

/// Example uses of the command.
pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai tool call file_read --file_path README.md --limit 10\n  \
    ikigai tool call file_read '{\"file_path\":\"README.md\",\"limit\":10}'\n  \
    ikigai tool call bash --command 'ls -l' --pretty\n\n\
    `ikigai tool call NAME --help` lists a tool's parameters. If a parameter has the same name as \
    an ikigai flag, such as `timeout`, pass the arguments as JSON.";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The tool, by the name that `tool list` shows
    #[arg(add = complete::tools())]
    name: String,
    /// The arguments in JSON; @FILE reads them from a file, - from stdin, for at most `--timeout`. Or give each as a
    /// flag: --PARAMETER VALUE
    #[arg(value_name = "JSON | @FILE | -")]
    arguments: Option<String>,
    #[command(flatten)]
    flags: ToolFlags,
    /// Pretty-print the JSON
    #[arg(long)]
    pretty: bool,
    /// Show the parameters of the tool; `--help` behind a name stands for it
    #[arg(long = HELP_OF_TOOL, id = HELP_OF_TOOL, hide = true)]
    help_of_tool: bool,
    #[command(flatten)]
    approval: ApprovalOptions,
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
    approval: ApprovalOptions,
) -> Result<ExitCode, CliError> {
    if arguments.help_of_tool {
        return print_help(options, &arguments.name).await;
    }
    let typed = arguments.arguments.as_deref();
    if typed.is_some() && !arguments.flags.is_empty() {
        let what = "the arguments are given as JSON and as flags; use one of the two";
        return Err(CliError::usage(anyhow::Error::msg(what)));
    }
    let json = typed.map(|text| read_arguments(text, options.timeout())).transpose()?;
    let approval = arguments.approval.or(approval, ENVIRONMENT);
    let approval = approval.resolve(&options.config, ENVIRONMENT)?;
    let host = options.host_for_call(&approval)?;
    let cancel = cancelled_by_signals()?;
    // Discovery may wait for a tool, or compile for many seconds.
    let looked_up = cancel.run_until_cancelled(host.look_up(&arguments.name)).await;
    let Some(snapshot) = looked_up else {
        return Ok(ExitCode::from(error::INTERRUPTED));
    };
    list::print_warnings(&snapshot);
    let is_told = list::print_not_offered(&host, &snapshot, from_ref(&arguments.name));
    if snapshot.get(&arguments.name).is_none() && !is_told {
        print_hints(&not_found_hints(&snapshot, &arguments.name));
    }
    let json = match (json, snapshot.get(&arguments.name)) {
        (Some(json), _) => json,
        (None, Some(tool)) => arguments.flags.to_json(&tool.schema, definition)?.into(),
        // The host refuses and records the call.
        (None, None) => Bytes::from_static(b"{}"),
    };
    // JSON arguments go to the tool unchanged: it may accept names that its schema does not have.
    if let Some(tool) = snapshot.get(&arguments.name).filter(|_| typed.is_none()) {
        check_required(&host, tool, &json)?;
    }
    let person =
        approval.asks_at_stderr().then(|| Arc::new(Person::about_one_call(screen_of_stderr())));
    let front_end = person.clone().map(|person| person as Arc<dyn FrontEnd>);
    let (requester, name) = (Requester::default(), &arguments.name);
    let (sent, control) = (json.clone(), cancel.clone());
    let call = host.call_with_decision(&requester, &snapshot, name, sent, control, front_end);
    let AnsweredCall { envelope, decision } = call.await;
    if let Some(person) = person {
        person.settle();
    }
    let layout = if arguments.pretty { JsonLayout::Indented } else { JsonLayout::Compact };
    let mut text = envelope.to_json(layout)?;
    text.push('\n');
    print_exact(&text)?;
    print_allow_with(envelope.aside());
    let missing = decision.and_then(|it| credentials::hint(name, &envelope, &it));
    print_hints(missing.as_slice());
    if let Some(tool) = snapshot.get(name) {
        print_hints(&examples(tool, &envelope, typed));
        let workspace = host.authority().workspace();
        print_hints(unread::hint(tool, &json, &envelope, workspace).as_slice());
    }
    Ok(ExitCode::from(match envelope.is_success() {
        true => 0,
        false if cancel.is_cancelled() => error::INTERRUPTED,
        false => error::FAILED,
    }))
}

/// Prints the description and the parameters of a tool.
async fn print_help(options: &SharedOptions, name: &str) -> Result<ExitCode, CliError> {
    let host = options.host()?;
    let snapshot = host.look_up(name).await;
    list::print_warnings(&snapshot);
    print(&usage::help(&named_tool(&snapshot, name)?.schema, definition))?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a call whose flags lack a required parameter, since tools may crash without it. The
/// refusal is recorded.
fn check_required(host: &Host, tool: &Tool, arguments: &Bytes) -> Result<(), CliError> {
    let missing = usage::missing(&tool.schema, arguments);
    if missing.is_empty() {
        return Ok(());
    }
    let name = tool.name();
    let flags: Vec<String> = missing.iter().map(|it| format!("`--{it}`")).collect();
    let what = format!("`{name}` needs {}", flags.join(" and "));
    host.refuse_arguments(&Requester::default(), tool, arguments.clone(), &what);
    let error = CliError::usage(anyhow::Error::msg(what));
    let example = usage::example(&tool.schema, definition);
    Err(error
        .hint(format!("for example `{example}`"))
        .hint(format!("`ikigai tool call {name} --help` explains its parameters")))
}

/// Returns examples of the call if its arguments were wrong. They use the word that was typed in
/// place of JSON, if any.
fn examples(tool: &Tool, envelope: &Envelope, typed: Option<&str>) -> Vec<String> {
    let refused = envelope.failure().map(|(code, _)| code.as_str().to_owned());
    let answered = || credentials::tool_error(envelope).map(|(code, _)| code);
    let code = refused.or_else(answered);
    if code.as_deref() != Some(EnvelopeCode::InvalidParams.as_str()) {
        return Vec::new();
    }
    let is_word = |text: &&str| !text.starts_with(['{', '[', '"', '@', '-']);
    let (schema, word) = (&tool.schema, typed.filter(is_word));
    let json = format!("the arguments are a JSON object: `{}`", in_json(schema, word));
    let flags = by_flags(schema, word, definition).map(|line| format!("or flags: `{line}`"));
    std::iter::once(json).chain(flags).collect()
}

/// Prints the command that would allow a refused access.
pub(super) fn print_allow_with(aside: &Aside) {
    for text in aside.withheld.iter().flat_map(|text| text.lines()) {
        eprint(&format!("warning: {}\n", one_line(&visible(text))));
    }
    for text in aside.unnameable.iter().chain(&aside.loopback).chain(&aside.unwatched) {
        eprint(&format!("hint: {}\n", one_line(&visible(text))));
    }
    if let Some(command) = &aside.allow_with {
        eprint(&format!("{}\n", one_line(&visible(&remedy::allow_with(command)))));
    }
}

/// Prints hints on stderr.
pub(in crate::commands) fn print_hints(hints: &[String]) {
    let hints = hints.iter().map(|hint| format!("hint: {}\n", visible(hint)));
    eprint(&hints.collect::<String>());
}

pub(super) fn read_arguments(text: &str, within: Option<Duration>) -> Result<Bytes, CliError> {
    if text == "-" {
        let read = || {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        };
        let bytes = read_within(within, read)
            .context("cannot read the arguments from stdin")
            .map_err(CliError::failed)?;
        return Ok(bytes.into());
    }
    match text.strip_prefix('@') {
        Some(path) => {
            let path = PathBuf::from(path);
            let what = format!("cannot read the arguments from `{}`", path.display());
            let bytes = read_within(within, || fs::read(path)).context(what);
            Ok(bytes.map_err(CliError::usage)?.into())
        }
        None => Ok(Bytes::copy_from_slice(text.as_bytes())),
    }
}

/// Reads within the time limit of the call, if there is one, since a FIFO without a writer never
/// ends.
fn read_within(
    time: Option<Duration>,
    read: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
) -> io::Result<Vec<u8>> {
    let Some(time) = time else { return read() };
    let (sender, receiver) = mpsc::channel();
    // If the time is over, the thread ends with the process, and its send fails.
    thread::Builder::new().spawn(move || drop(sender.send(read())))?;
    receiver.recv_timeout(time).unwrap_or_else(|_| {
        let time = humantime::format_duration(time);
        let reason = format!("they did not end within {time}, the time that `--timeout` sets");
        Err(io::Error::new(io::ErrorKind::TimedOut, reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_without_an_end_are_waited_for_as_long_as_a_call_may_take() {
        let (writer, fifo) = mpsc::channel::<()>();
        let read = move || {
            // This blocks like a FIFO without a writer.
            let _ = fifo.recv();
            Ok(Vec::new())
        };
        let error = read_within(Some(Duration::from_millis(1)), read).expect_err("no end");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("1ms"), "{error}");
        drop(writer);
        let read = || Ok(b"{}".to_vec());
        assert_eq!(read_within(Some(Duration::MAX), read).expect("read"), b"{}");
        assert_eq!(read_within(None, read).expect("read"), b"{}");
    }
}
