//! `ikigai ask`: one prompt and its answer on stdout, for scripts and for a quick question.

mod exchange;
mod prompt;
mod report;
mod schema;
mod stream;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use ikigai_provider::FailureKind;
use ikigai_terminal::one_line;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::cancelled_by_signals;
use super::tool::list;
use super::tool::named::named_tool;
use crate::approval::ApprovalOptions;
use crate::complete;
use crate::error::{self, CliError};
use crate::kept::{self, KeptOptions, SessionChoice};
use crate::model::{ENVIRONMENT, ModelOptions, Models};
use crate::options::SharedOptions;
use crate::output::{eprint, print_exact, screen_of_stderr};
use crate::person::Person;
use crate::remedy;
use exchange::{CheckedEnd, ExchangeReport, SaveOutcome};
use ikigai_agent::{
    MAX_ROUNDS, Model, Prompt, Resumed, SLASH_COMMAND, Session, Turn, TurnEnd, TurnEvent,
    TurnSurroundings, prune_sessions,
};
use ikigai_host::front_end::FrontEnd;
use ikigai_host::host::Host;
use ikigai_host::registry::{ScanDepth, Snapshot};
use prompt::UserPrompt;
use report::TurnReport;
use schema::AnswerSchema;

/// The end of `--help`.
pub(super) const NOTES: &str = "\
A prompt can mention files and assets. ikigai replaces @src/main.c by the text of that file, and \
@@decisions by the text of the asset ikigai:///blocks/decisions.md. @picture.png sends that image. \
@\"a b.txt\" is a file name with a space, and \\@ is a plain @. ikigai sends text from stdin as it \
is. If there is a prompt, ikigai reads stdin only if stdin was redirected for this command, as by a \
pipe. If ikigai shares stdin with the shell or script that started ikigai, add - to make ikigai \
read stdin.

The answer goes to stdout. Text that the model writes before a call goes to stderr.

ikigai saves the conversation at a terminal, or if you give --keep, --continue or --resume. `ikigai \
--continue` continues the conversation with the same model. If you give one of these three flags and \
the store cannot be written, ikigai exits with code 1 before it runs a call that it cannot save.

With --stream-json, stdout has one JSON line per event: begin, warning, thinking, text, retry, \
compacted, answered, call, running, result and end. docs/guides/scripts.md lists their \
members.

With --json, stdout is one object with these members:
  prompt    the prompt
  session   the id of the saved conversation, or null
  unkept    why the rest of the conversation is not saved, or null
  provider, model
  stop      answered, mismatched, silent, cut, refused, exhausted, spent, unkept, interrupted or
            failed
  reason    why there is no complete answer, or null
  answer    the answer
  rounds    the number of requests to the model
  messages  role and parts; each part is a text, a call or a result
  calls     id, name, arguments (as the model wrote them), envelope (the result or error in JSON,
            as the model read it), duration_ms
  usage     the numbers of tokens: input with its parts cached and cache_written, and output with
            its part reasoning; null for a number that the provider does not report

Exit codes:
  0    answered
  1    no complete answer: the provider failed, the model refused or answered nothing, a limit was
       reached, or the answer did not match --schema or could not be saved
  2    usage or configuration, such as no key or no model
  3    answered, but the policy or you refused an access (0 with --denied-ok); if a command can
       allow the access, stderr has a hint with that command
  130  interrupted

At a terminal, if a call needs more than it is granted, ikigai asks you. With --approve never, it \
does not ask.

Examples:
  ikigai ask 'what does @src/main.c do?'
  git diff --staged | ikigai ask write a commit message
  while read -r file; do ikigai ask \"summarize @$file\"; done < list
  ikigai ask --continue 'and what does it not do?'
  ikigai ask --json - < prompt.txt
  ikigai ask --tools file_read,grep --schema port.json 'which port is set?'";

/// The form of the output on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportForm {
    /// The answer only.
    Text,
    /// The whole exchange as one object.
    Object,
    /// The events as lines of JSON.
    Lines,
}

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The prompt, as words joined by spaces; read from stdin if missing or -. If ikigai reads both, the text from
    /// stdin follows the words
    prompt: Vec<String>,
    /// Limit on requests to the model; each answer that calls tools leads to another request
    #[arg(long, value_name = "N", default_value_t = MAX_ROUNDS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROUNDS)))]
    max_rounds: u32,
    /// The tools to offer to the model, separated by commas; '' for none [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', add = complete::tools())]
    tools: Option<Vec<String>>,
    /// Require an answer in JSON that matches this JSON Schema; any other answer is an error
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    schema: Option<PathBuf>,
    /// Print the whole exchange as one JSON object
    #[arg(long, conflicts_with = "stream_json")]
    json: bool,
    /// Print each event as a line of JSON, as it happens
    #[arg(long)]
    stream_json: bool,
    #[command(flatten)]
    kept: KeptOptions,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    approval: ApprovalOptions,
    /// Exit with 0, not 3, if an access was refused but the model answered
    #[arg(long)]
    denied_ok: bool,
}

impl Arguments {
    /// Returns the arguments for a prompt on stdin.
    pub(super) fn of_stdin(
        model: ModelOptions,
        kept: KeptOptions,
        approval: ApprovalOptions,
    ) -> Self {
        Self {
            prompt: Vec::new(),
            max_rounds: MAX_ROUNDS,
            tools: None,
            schema: None,
            json: false,
            stream_json: false,
            kept,
            model,
            approval,
            denied_ok: false,
        }
    }

    fn form(&self) -> ReportForm {
        match (self.json, self.stream_json) {
            (_, true) => ReportForm::Lines,
            (true, false) => ReportForm::Object,
            (false, false) => ReportForm::Text,
        }
    }

    /// Adds the flags for the model and for questions that stand before the command.
    pub(super) fn or(self, outer: ModelOptions, approval: ApprovalOptions) -> Self {
        let approval = self.approval.or(approval, ENVIRONMENT);
        Self { model: self.model.or(outer, ENVIRONMENT), approval, ..self }
    }
}

pub(super) async fn run(
    options: &SharedOptions,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let cancel = cancelled_by_signals()?;
    let choice = arguments.model.resolve(&options.config, ENVIRONMENT)?;
    let approval = arguments.approval.resolve(&options.config, ENVIRONMENT)?;
    let schema = arguments.schema.as_deref().map(AnswerSchema::read).transpose()?;
    let goes_on = arguments.kept.kept() != SessionChoice::New;
    // A resumed conversation has its own model.
    let gate = options.command_gate()?;
    let model = match goes_on {
        true => None,
        false => Some(choice.model(&options.config, ENVIRONMENT, &gate)?),
    };
    let read = cancel.run_until_cancelled(UserPrompt::read(&arguments.prompt)).await;
    let Some(prompt) = read.transpose()? else {
        return Ok(ExitCode::from(error::INTERRUPTED));
    };
    let (host, mut session) = options.session(model, &approval)?;
    let system = choice.system().into_iter().chain(schema.as_ref().map(AnswerSchema::instruction));
    session.set_system(Some(system.collect::<Vec<_>>().join("\n\n")));
    session.set_answer_schema(schema.as_ref().map(|schema| schema.schema().clone()));
    session.set_notes(choice.has_notes());
    session.set_auto_summary(choice.has_auto_summary());
    session.set_max_rounds(arguments.max_rounds);
    let tools = match &arguments.tools {
        None => ToolSet::All(Arc::clone(&host)),
        Some(names) => {
            let Some(snapshot) = cancel.run_until_cancelled(scan(&host)).await else {
                return Ok(ExitCode::from(error::INTERRUPTED));
            };
            ToolSet::Some(only(&mut session, &snapshot, names)?)
        }
    };
    let form = arguments.form();
    let is_read_by_person = form == ReportForm::Text
        && std::io::stdout().is_terminal()
        && std::io::stderr().is_terminal();
    let resumed = arguments.kept.apply(&mut session, is_read_by_person).await?;
    if let Some(resumed) = &resumed {
        let models = Models::new(options.config.clone(), arguments.model.clone(), gate);
        session.set_model(Some(model_of(&models, resumed)?));
    }
    if let Some(warning) = resumed.as_ref().and_then(kept::warning) {
        eprint(&format!("warning: {warning}\n"));
    }
    let before = resumed.and_then(|resumed| resumed.before);
    let tools = match before {
        None => tools,
        Some(before) => {
            let found = cancel.run_until_cancelled(tools.snapshot()).await.flatten();
            if let Some(snapshot) = &found {
                let now = TurnSurroundings::now(&host, session.assets(), Some(snapshot)).await;
                for line in before.changes(&now) {
                    eprint(&format!("{}\n", one_line(&line)));
                }
            }
            // If the scan was interrupted, the turn reports that.
            ToolSet::Some(found.unwrap_or_default())
        }
    };

    if form == ReportForm::Lines {
        stream::print_begin(&prompt, &session)?;
    }
    // An answer that does not match its schema does not count, so it is held until it is checked.
    // At a terminal everything but the answer goes through a screen, so that it waits for
    // questions.
    let screen = approval.asks_at_stderr().then(screen_of_stderr);
    let person = screen.clone().map(|screen| Arc::new(Person::alone(screen)));
    session.set_front_end(person.clone().map(|person| person as Arc<dyn FrontEnd>));
    let report = TurnReport::new(form, schema.is_some(), screen);
    let shown = ReportSink { report, failed: None };
    let shown = Arc::new(Mutex::new(shown));
    let mut on_event = on_event(&shown, &cancel);
    let sent = Prompt { typed: &prompt.typed, attached: prompt.attached.as_deref() };
    let turn = session.turn(tools.snapshot(), sent, &cancel, &mut on_event).await;
    drop(on_event);
    if let Some(person) = person {
        person.settle();
    }
    let mut kept =
        SaveOutcome { session: session.kept(), unkept: session.unkept().map(str::to_owned) };
    if let Some(warning) = session.release().await {
        eprint(&format!("warning: {warning}\n"));
        kept.unkept = Some(warning);
    }
    if kept.session.is_some() && kept.unkept.is_none() {
        prune(options, &session).await;
    }
    let turn = turn.map_err(CliError::usage)?;

    let mut shown = shown.lock();
    if let Some(error) = shown.failed.take() {
        return Err(error);
    }
    let ending = CheckedEnd::from_end(&turn.end, turn.answer.as_deref(), schema.as_ref());
    match form {
        ReportForm::Text => {
            shown.report.finish(&ending)?;
            if let Some(line) = kept.line() {
                eprint(&line);
            }
        }
        ReportForm::Object => {
            let exchange = ExchangeReport::new(&prompt, &session, &kept, &turn, &ending);
            print_exact(&format!("{}\n", serde_json::to_string(&exchange)?))?;
        }
        ReportForm::Lines => stream::print_end(&kept, &turn, &ending)?,
    }
    match ending {
        CheckedEnd::Mismatched(reason) => Err(CliError::failed(anyhow::Error::msg(reason))),
        CheckedEnd::Answered(_) | CheckedEnd::Other(_) => {
            let is_unkept = arguments.kept.is_required() && kept.unkept.is_some();
            exit_code(&turn, is_unkept, arguments.denied_ok)
        }
    }
}

/// Removes conversations that are past their retention, as each start of the REPL does.
async fn prune(options: &SharedOptions, session: &Session) {
    let Some(assets) = session.assets() else { return };
    if let Err(error) = prune_sessions(assets, options.config.sessions().0).await {
        eprint(&format!("warning: old conversations were not removed: {error}\n"));
    }
}

/// Returns the model for a resumed conversation: its own, unless a flag names another. If ikigai
/// cannot ask its own model, returns the configured one and prints a warning.
fn model_of(models: &Models, resumed: &Resumed) -> Result<Model, CliError> {
    let error = match models.of_session(&resumed.session) {
        Ok(Some(model)) => return Ok(model),
        Ok(None) => return models.find(None, None),
        Err(error) => error,
    };
    let Ok(model) = models.find(None, None) else { return Err(error) };
    eprint(&format!("warning: {}\n", kept::other_model(&error, &model)));
    Ok(model)
}

/// The tools that the model is offered.
enum ToolSet {
    /// All tools, once they are known.
    All(Arc<Host>),
    /// The tools that `--tools` names.
    Some(Arc<Snapshot>),
}

impl ToolSet {
    async fn snapshot(self) -> Option<Arc<Snapshot>> {
        Some(match self {
            Self::All(host) => scan(&host).await,
            Self::Some(snapshot) => snapshot,
        })
    }
}

/// Discovers the tools, and prints warnings.
async fn scan(host: &Host) -> Arc<Snapshot> {
    let snapshot = host.registry().scan(ScanDepth::Remembered).await;
    list::print_warnings(&snapshot);
    snapshot
}

/// Returns only the tools with these names. The session offers its own tool only if it is among
/// them.
fn only(
    session: &mut Session,
    snapshot: &Snapshot,
    names: &[String],
) -> Result<Arc<Snapshot>, CliError> {
    let names: Vec<&str> =
        names.iter().map(|name| name.trim()).filter(|it| !it.is_empty()).collect();
    let (own, others): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| *name == SLASH_COMMAND);
    for name in &others {
        named_tool(snapshot, name).map_err(CliError::into_usage)?;
    }
    session.set_own_tool(!own.is_empty());
    Ok(Arc::new(snapshot.only(&others)))
}

/// The report of a turn, and the first error in writing it.
struct ReportSink {
    report: TurnReport,
    failed: Option<CliError>,
}

/// Returns a function that reports events. If it cannot write to stdout, it cancels the turn, since
/// there is no reader for the rest.
fn on_event(
    shown: &Arc<Mutex<ReportSink>>,
    cancel: &CancellationToken,
) -> impl for<'e> FnMut(TurnEvent<'e>) + Send {
    let (shown, cancel) = (Arc::clone(shown), cancel.clone());
    move |event| {
        let mut shown = shown.lock();
        if let Err(error) = shown.report.on_event(&event) {
            shown.failed.get_or_insert(error);
            cancel.cancel();
        }
    }
}

/// Returns the exit code of a turn, or the error that has an exit code.
fn exit_code(turn: &Turn, is_unkept: bool, denied_ok: bool) -> Result<ExitCode, CliError> {
    let failed = |text: String| CliError::failed(anyhow::Error::msg(text));
    if turn.end == TurnEnd::Answered && is_unkept {
        return Err(failed("the answer could not be saved".to_owned()));
    }
    Err(match &turn.end {
        TurnEnd::Answered if !denied_ok && turn.calls.iter().any(|call| call.is_refused) => {
            return Ok(ExitCode::from(error::REFUSED));
        }
        TurnEnd::Answered => return Ok(ExitCode::SUCCESS),
        TurnEnd::Interrupted => {
            // The terminal shows `^C` without a line end.
            eprint("\ninterrupted\n");
            return Ok(ExitCode::from(error::INTERRUPTED));
        }
        // A warning already gave the reason.
        TurnEnd::Unkept(_) => {
            failed("stopped, because the conversation could not be saved".to_owned())
        }
        TurnEnd::Failed(failure) => {
            let is_usage = matches!(failure.kind, FailureKind::NoKey { .. } | FailureKind::Address);
            let hint = remedy::provider::hint(failure);
            let error = CliError::failed(failure.clone()).hints(hint);
            if is_usage { error.into_usage() } else { error }
        }
        end => {
            let error = failed(exchange::reason(end).unwrap_or_default());
            let is_silent = *end == TurnEnd::Silent;
            if is_silent { error.hint("ask again, or ask another model") } else { error }
        }
    })
}
