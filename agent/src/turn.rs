//! A turn: requests to the model and the calls of its answers, until it calls nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use ikigai_host::registry::Snapshot;
use ikigai_provider::{Answer, Failure, Message, Part, Request, Stop, Usage};
use tokio_util::sync::CancellationToken;

use crate::called::Called;
use crate::calls;
use crate::conversation::{self, EmptyPrompt, Exchange, is_silent};
use crate::environment::{Environment, Model};
use crate::event::{Event, OnEvent};
use crate::mention;
use crate::offer::OfferedTools;
use crate::system;
use crate::usage::sum;

/// A prompt of a person.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    /// The text that was typed. Mentions of files and assets in it are replaced by their text.
    pub typed: &'a str,
    /// A text that was handed over with it, such as the output of a program. It is sent as it
    /// is, since nobody has looked at its mentions.
    pub attached: Option<&'a str>,
}

impl<'a> From<&'a str> for Prompt<'a> {
    fn from(typed: &'a str) -> Self {
        Self { typed, attached: None }
    }
}

/// A turn that has ended.
#[derive(Debug)]
pub struct Turn {
    /// The way in which it ended.
    pub end: End,
    /// The number of requests that were answered.
    pub rounds: u32,
    /// The cost of all of them, as far as the provider says.
    pub usage: Usage,
    /// The calls of all answers, in their order.
    pub calls: Vec<Called>,
}

impl Turn {
    /// Returns a turn that was interrupted before its first request.
    pub(super) fn interrupted() -> Self {
        Self { end: End::Interrupted, rounds: 0, usage: Usage::default(), calls: Vec::new() }
    }
}

/// The way in which a turn ended. After each of them the next turn may follow.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The model answered.
    Answered,
    /// The model ended without a word. Where nothing ran the prompt is taken back.
    Silent,
    /// The answer reached the limit on its length, or filled the model's window. The part that
    /// came stays; calls that were in it did not run.
    Cut,
    /// The provider or the model refused, for the reason that it gave, if any. Nothing of
    /// the answer stays, since a model that reads half of what it refused refuses again; where
    /// nothing ran the prompt is taken back as well.
    Refused(String),
    /// The model still called tools in the last request that a turn may take. All that it
    /// called has run.
    Exhausted {
        /// The number of requests.
        rounds: u32,
    },
    /// The person interrupted it. The text that the model had written stays; calls that had not
    /// ended have a result that says so. Where there is neither the prompt is taken back.
    Interrupted,
    /// A request was not answered, or not to the end. Where it was the first of the turn the
    /// prompt is taken back, and may be sent again; otherwise the work of the tools stays, and
    /// the model may be asked to go on.
    Failed(Failure),
}

/// The reason for which no turn was taken. The conversation has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The session has no model.
    #[error("no model is set")]
    NoModel,
    /// The prompt has no text, and the model has nothing else to answer.
    #[error("the prompt is empty")]
    EmptyPrompt,
}

impl From<EmptyPrompt> for TurnError {
    fn from(_: EmptyPrompt) -> Self {
        Self::EmptyPrompt
    }
}

/// Returns the texts that the model is sent of a prompt.
pub(super) async fn texts(
    environment: &Environment,
    prompt: Prompt<'_>,
    on_event: OnEvent<'_>,
) -> Vec<String> {
    let Environment { workspace, assets, .. } = environment;
    let expanded = mention::expand(workspace, assets.as_ref(), prompt.typed).await;
    for warning in &expanded.warnings {
        on_event(Event::Warning(warning));
    }
    let attached = prompt.attached.map(str::to_owned);
    [Some(expanded.text), attached].into_iter().flatten().collect()
}

/// The requests of one turn, and everything that they have in common.
pub(super) struct Rounds<'a> {
    pub(super) environment: &'a Environment,
    pub(super) model: &'a Model,
    pub(super) snapshot: Option<&'a Arc<Snapshot>>,
    pub(super) tools: &'a mut OfferedTools,
    pub(super) cancel: &'a CancellationToken,
    pub(super) on_event: OnEvent<'a>,
}

/// The end of a turn, and the parts of the model's last word.
type Last = (End, Vec<Part>);

impl Rounds<'_> {
    /// Takes the turn that `exchange` began, with at most so many requests.
    pub(super) async fn run(mut self, mut exchange: Exchange<'_>, max_rounds: u32) -> Turn {
        let mut turn = Turn::interrupted();
        // A person's commands between two turns are no part of a turn's cost.
        self.environment.other_usage.take();
        let (end, last) = loop {
            if turn.rounds == max_rounds {
                break (End::Exhausted { rounds: turn.rounds }, Vec::new());
            }
            if let ControlFlow::Break(last) = self.round(&mut turn, &mut exchange).await {
                break last;
            }
        };
        exchange.end(last);
        turn.end = end;
        turn.usage = sum(turn.usage, self.environment.other_usage.take());
        turn
    }

    /// Sends one request, and runs the calls of its answer.
    async fn round(&mut self, turn: &mut Turn, exchange: &mut Exchange<'_>) -> ControlFlow<Last> {
        let mut shown = String::new();
        let cancel = self.cancel;
        let asked = self.ask(exchange.messages(), &mut shown);
        let answer = match cancel.run_until_cancelled(asked).await {
            // A provider may refuse a text that ends in white space.
            None => {
                return ControlFlow::Break((End::Interrupted, vec![Part::text(shown.trim_end())]));
            }
            Some(Err(failure)) => return ControlFlow::Break((End::Failed(failure), Vec::new())),
            Some(Ok(answer)) => answer,
        };
        turn.rounds += 1;
        turn.usage = sum(turn.usage, answer.usage);
        (self.on_event)(Event::Answered(answer.usage));
        let Answer { parts, stop, .. } = answer;
        let calls = conversation::calls(&parts);
        match stop {
            Stop::Finished if !calls.is_empty() => {}
            Stop::Finished if is_silent(&parts) => {
                return ControlFlow::Break((End::Silent, Vec::new()));
            }
            Stop::Finished => return ControlFlow::Break((End::Answered, parts)),
            Stop::Length | Stop::Window => return ControlFlow::Break((End::Cut, parts)),
            Stop::Refused(reason) => {
                return ControlFlow::Break((End::Refused(reason), Vec::new()));
            }
        }
        let Self { environment, snapshot, .. } = *self;
        let called = calls::run(environment, snapshot, &calls, cancel, self.on_event).await;
        // Not before: this future may be dropped wherever it waits.
        exchange.append(parts, called.iter().map(Called::result).collect());
        turn.calls.extend(called);
        if cancel.is_cancelled() {
            return ControlFlow::Break((End::Interrupted, Vec::new()));
        }
        ControlFlow::Continue(())
    }

    /// Sends the messages. `shown` collects the text of the answer as it arrives.
    async fn ask(&mut self, messages: &[Message], shown: &mut String) -> Result<Answer, Failure> {
        let Self { environment, model, snapshot, tools, on_event, .. } = self;
        let offered = tools.of(
            model.client.provider(),
            &model.offer,
            *snapshot,
            environment.assets.is_some(),
        );
        let (system, warning) = system::blocks(environment, snapshot.map(|it| &**it)).await;
        for warning in &offered.warnings {
            on_event(Event::Warning(warning));
        }
        if let Some(crowded_out) = &offered.crowded_out {
            on_event(Event::CrowdedOut(crowded_out));
        }
        if let Some(warning) = &warning {
            on_event(Event::Warning(warning));
        }
        let request = Request {
            model: &model.name,
            system: &system,
            messages,
            tools: &offered.value,
            max_output: model.max_tokens,
        };
        let mut on_provider_event = |event: ikigai_provider::Event<'_>| match event {
            ikigai_provider::Event::Text(text) => {
                shown.push_str(text);
                on_event(Event::Text(text));
            }
            ikigai_provider::Event::Thinking => on_event(Event::Thinking),
            ikigai_provider::Event::Call(name) => on_event(Event::Asking(name)),
            ikigai_provider::Event::Retry { attempt, wait, failure } => {
                on_event(Event::Retry { attempt, wait, failure });
            }
        };
        model.client.send(&request, &mut on_provider_event).await
    }
}
