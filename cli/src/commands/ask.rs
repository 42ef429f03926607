//! `ikigai ask`: one prompt and its answer on stdout, for scripts and for a quick question.

mod prompt;
mod report;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use ikigai_provider::FailureKind;
use tokio_util::sync::CancellationToken;

use super::{cancelled_by_signals, list};
use crate::error::{self, CliError};
use crate::kept::{self, KeptOptions};
use crate::model::{ENVIRONMENT, ModelOptions};
use crate::options::Options;
use crate::output::{eprint, print_exact};
use crate::remedy;
use ikigai_agent::{End, Event, MAX_ROUNDS, Prompt, Turn};
use ikigai_host::host::Host;
use ikigai_host::registry::{Depth, Snapshot};
use prompt::UserPrompt;
use report::{Exchange, Report};

/// The end of `--help`.
pub(super) const NOTES: &str = "\
A prompt may mention files and assets: @src/main.c is replaced by the text of that file, \
@@decisions by that of the asset ikigai:///blocks/decisions.md, @\"a b.txt\" is a file with a space; \
\\@ is a plain @. Text from stdin is sent as it is. stdin is read to its end unless it is a terminal, \
so a script that keeps it open should pass < /dev/null.

With --keep, --continue or --resume the conversation is kept, and the next call goes on with it.

With --json, stdout is one object: prompt, session (the id of what is kept, or null), provider, model, stop (answered, silent, cut, \
refused, exhausted, spent, interrupted or failed), reason (null if it was answered), answer, rounds, messages \
(role and parts, each a text, a call or a result), calls (id, name, arguments as the model wrote \
them, envelope as the model read it, duration_ms) and usage (tokens: input, of which cached and \
cache_written, and output, of which reasoning; null if the provider does not report them).

Exit codes: 0 answered; 1 no complete answer: the provider failed, the model refused, answered \
nothing, or reached a limit; 2 usage or configuration, such as no key or no model; 130 interrupted.

Examples:
  ikigai ask 'what does @src/main.c do?'
  git diff --staged | ikigai ask write a commit message
  ikigai ask --continue 'and what does it not do?'
  ikigai ask --json - < prompt.txt";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The prompt, words joined by spaces; - or nothing reads it from stdin. With both, the text
    /// from stdin follows the prompt
    prompt: Vec<String>,
    /// Limit on the requests to the model; an answer that calls tools leads to another request
    #[arg(long, value_name = "N", default_value_t = MAX_ROUNDS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_ROUNDS)))]
    max_rounds: u32,
    /// Print the whole exchange as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kept: KeptOptions,
    #[command(flatten)]
    model: ModelOptions,
}

impl Arguments {
    /// Returns the arguments for a prompt on stdin.
    pub(super) fn of_stdin(model: ModelOptions, kept: KeptOptions) -> Self {
        Self { prompt: Vec::new(), max_rounds: MAX_ROUNDS, json: false, kept, model }
    }

    /// Adds the flags of the model that stand before the command.
    pub(super) fn or(self, outer: ModelOptions) -> Self {
        Self { model: self.model.or(outer, ENVIRONMENT), ..self }
    }
}

pub(super) async fn run(options: &Options, arguments: Arguments) -> Result<ExitCode, CliError> {
    let cancel = cancelled_by_signals()?;
    let choice = arguments.model.resolve(&options.config, ENVIRONMENT)?;
    let model = choice.model(&options.config, ENVIRONMENT)?;
    let read = cancel.run_until_cancelled(UserPrompt::read(&arguments.prompt)).await;
    let Some(prompt) = read.transpose()? else {
        return Ok(ExitCode::from(error::INTERRUPTED));
    };
    let (host, mut session) = options.session(Some(model))?;
    session.set_system(choice.system());
    session.set_max_rounds(arguments.max_rounds);
    let resumed = arguments.kept.apply(&mut session).await?;
    if let Some(warning) = resumed.as_ref().and_then(kept::warning) {
        eprint(&format!("warning: {warning}\n"));
    }

    let shown = Shown { report: Report::new(arguments.json), failed: None };
    let shown = Arc::new(Mutex::new(shown));
    let mut on_event = on_event(&shown, &cancel);
    let sent = Prompt { typed: &prompt.typed, attached: prompt.attached.as_deref() };
    let turn = session.turn(tools(host), sent, &cancel, &mut on_event).await;
    drop(on_event);
    let kept = session.kept();
    if let Some(warning) = session.release().await {
        eprint(&format!("warning: {warning}\n"));
    }
    let turn = turn.map_err(CliError::usage)?;

    let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = shown.failed.take() {
        return Err(error);
    }
    if arguments.json {
        let exchange = Exchange::new(&prompt, &session, kept, &turn);
        let exchange = serde_json::to_string(&exchange)?;
        print_exact(&format!("{exchange}\n"))?;
    } else {
        shown.report.end_text()?;
        if let Some(kept) = kept {
            eprint(&format!("kept as {kept}\n"));
        }
    }
    exit_code(&turn)
}

/// Discovers the tools, and prints warnings.
async fn tools(host: Arc<Host>) -> Option<Arc<Snapshot>> {
    let snapshot = host.registry().scan(Depth::Remembered).await;
    list::print_warnings(&snapshot);
    Some(snapshot)
}

/// The report of a turn, and the first error of writing it.
struct Shown {
    report: Report,
    failed: Option<CliError>,
}

/// Returns a function that reports events. If stdout cannot be written to, it cancels the turn,
/// since nobody would read the rest.
fn on_event(
    shown: &Arc<Mutex<Shown>>,
    cancel: &CancellationToken,
) -> impl for<'e> FnMut(Event<'e>) + Send {
    let (shown, cancel) = (Arc::clone(shown), cancel.clone());
    move |event| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = shown.report.on_event(&event) {
            shown.failed.get_or_insert(error);
            cancel.cancel();
        }
    }
}

/// Returns the exit code of a turn, or the error that has one.
fn exit_code(turn: &Turn) -> Result<ExitCode, CliError> {
    let failed = |text: String| CliError::failed(anyhow::Error::msg(text));
    Err(match &turn.end {
        End::Answered => return Ok(ExitCode::SUCCESS),
        End::Interrupted => {
            // The terminal shows `^C` without an end of line.
            eprint("\ninterrupted\n");
            return Ok(ExitCode::from(error::INTERRUPTED));
        }
        End::Failed(failure) => {
            let is_usage = matches!(failure.kind, FailureKind::NoKey { .. } | FailureKind::Address);
            let error = CliError::failed(failure.clone());
            let error = remedy::provider::hint(failure).into_iter().fold(error, CliError::hint);
            if is_usage { error.into_usage() } else { error }
        }
        end => {
            let error = failed(report::reason(end).unwrap_or_default());
            let is_silent = *end == End::Silent;
            if is_silent { error.hint("ask again, or ask another model") } else { error }
        }
    })
}
