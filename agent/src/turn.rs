//! One turn: from what a person says to the model's last word on it.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::join;
use ikigai_provider::{Answer, Call, Failure, Message, Part, Request, Role, Stop, Usage};
use tokio_util::sync::CancellationToken;

use super::calls::Called;
use super::mention;
use super::offer::is_silent;
use super::{Event, Model, Session, Tell};
use ikigai_host::registry::Snapshot;

/// What a person says.
#[derive(Clone, Copy, Debug)]
pub struct Prompt<'a> {
    /// What was typed: files and assets that are mentioned in it are put in their place.
    pub typed: &'a str,
    /// What was handed over with it, such as the output of a program: goes as it is, since
    /// nobody looked at what it mentions.
    pub attached: Option<&'a str>,
}

impl<'a> From<&'a str> for Prompt<'a> {
    fn from(typed: &'a str) -> Self {
        Self { typed, attached: None }
    }
}

/// What came of a turn.
#[derive(Debug)]
pub struct Turn {
    /// How it ended.
    pub end: End,
    /// The requests that were answered.
    pub rounds: u32,
    /// What all of them cost, as far as the provider says.
    pub usage: Usage,
    /// The calls of all answers, in their order.
    pub calls: Vec<Called>,
}

/// How a turn ended. Whatever it was, the next turn may follow.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The model had its say.
    Answered,
    /// The model ended without a word. Where nothing ran the prompt is taken back.
    Silent,
    /// The answer reached the limit on its length. What came of it stays; calls that were in
    /// it did not run.
    Cut,
    /// The provider or the model refused, for the reason that it gave, if any. Nothing of
    /// the answer stays, since a model that reads half of what it refused refuses again; where
    /// nothing ran the prompt is taken back as well.
    Refused(String),
    /// The model still wanted to call tools after the most requests that a turn may take.
    /// All that it called has run.
    Exhausted {
        /// How many that are.
        rounds: u32,
    },
    /// The person interrupted it. What the model had said stays; calls that had not ended
    /// have a result that says so. Where neither is there the prompt is taken back.
    Interrupted,
    /// There is no whole answer. Where it was the first of the turn the prompt is taken back,
    /// and may be sent again; otherwise what tools did stays, and the model may be told to go
    /// on.
    Failed(Failure),
}

/// No turn without a model.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no model is set")]
pub struct NoModel;

impl Session {
    /// Takes one turn: puts what the prompt mentions in its place, waits for `tools` (the
    /// scan may still run), then asks the model and runs what it calls, as often as it calls
    /// something.
    ///
    /// Every request of the turn has the tools of the one snapshot. Cancelling ends a stream
    /// at once and a call when all that it started is dead; then the turn returns. A future
    /// that is dropped instead takes the calls with it and leaves the conversation where the
    /// last whole round ended, with the prompt in it.
    ///
    /// # Errors
    ///
    /// [`NoModel`]; everything else is an [`End`].
    pub async fn turn(
        &mut self,
        tools: impl Future<Output = Option<Arc<Snapshot>>>,
        prompt: Prompt<'_>,
        cancel: &CancellationToken,
        tell: Tell<'_>,
    ) -> Result<Turn, NoModel> {
        if self.model.is_none() {
            return Err(NoModel);
        }
        let mut turn =
            Turn { end: End::Interrupted, rounds: 0, usage: Usage::default(), calls: Vec::new() };
        let ready = join(self.prompt(prompt, tell), tools);
        let Some((parts, snapshot)) = cancel.run_until_cancelled(ready).await else {
            return Ok(turn);
        };
        let before = Mark::of(&self.messages);
        self.push_user(parts);
        self.take_aside();
        turn.end = loop {
            if turn.rounds == self.max_rounds {
                break End::Exhausted { rounds: turn.rounds };
            }
            if let ControlFlow::Break(end) =
                self.round(&mut turn, snapshot.as_ref(), cancel, tell).await?
            {
                break end;
            }
        };
        turn.usage = sum(turn.usage, self.take_aside());
        let is_unanswered = self.messages.last().is_some_and(|last| last.role == Role::User);
        if turn.calls.is_empty() && is_unanswered {
            before.restore(&mut self.messages);
        }
        Ok(turn)
    }

    /// What the model is sent of a prompt.
    async fn prompt(&self, prompt: Prompt<'_>, tell: Tell<'_>) -> Vec<Part> {
        let expanded = mention::expand(self, prompt.typed).await;
        for warning in &expanded.warnings {
            tell(Event::Warning(warning));
        }
        let attached = prompt.attached.map(str::to_owned);
        let texts = [Some(expanded.text), attached].into_iter().flatten();
        texts.filter(|text| !text.trim().is_empty()).map(Part::text).collect()
    }

    /// One request, and the calls of its answer.
    async fn round(
        &mut self,
        turn: &mut Turn,
        snapshot: Option<&Arc<Snapshot>>,
        cancel: &CancellationToken,
        tell: Tell<'_>,
    ) -> Result<ControlFlow<End>, NoModel> {
        let mut said = String::new();
        let asked = cancel.run_until_cancelled(self.ask(snapshot, &mut said, tell)).await;
        let answer = match asked {
            None => {
                // A provider may refuse a text of white space alone, or one that ends in it.
                let said = said.trim_end();
                self.push_model(
                    Some(said).filter(|it| !it.is_empty()).map(Part::text).into_iter().collect(),
                );
                return Ok(ControlFlow::Break(End::Interrupted));
            }
            Some(Err(NotAnswered::NoModel)) => return Err(NoModel),
            Some(Err(NotAnswered::Failed(failure))) => {
                return Ok(ControlFlow::Break(End::Failed(failure)));
            }
            Some(Ok(answer)) => answer,
        };
        turn.rounds += 1;
        turn.usage = sum(turn.usage, answer.usage);
        tell(Event::Answered(answer.usage));
        let Answer { parts, stop, .. } = answer;
        let calls = calls_of(&parts);
        let end = match stop {
            Stop::Finished if !calls.is_empty() => None,
            Stop::Finished if is_silent(&parts) => Some(End::Silent),
            Stop::Finished => Some(End::Answered),
            Stop::Length => Some(End::Cut),
            Stop::Refused(reason) => Some(End::Refused(reason)),
        };
        if let Some(end) = end {
            if matches!(end, End::Answered | End::Cut) {
                self.push_model(parts);
            }
            return Ok(ControlFlow::Break(end));
        }
        let called = self.run_calls(snapshot, &calls, cancel, tell).await;
        // Both at once: a call without its result is no valid conversation, and this future
        // may be dropped wherever it waits.
        self.push_model(parts);
        self.push_user(called.iter().map(|called| Part::Result(called.result())).collect());
        turn.calls.extend(called);
        Ok(if cancel.is_cancelled() {
            ControlFlow::Break(End::Interrupted)
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Sends the conversation as it stands. `said` holds what of the answer has been shown.
    async fn ask(
        &mut self,
        snapshot: Option<&Arc<Snapshot>>,
        said: &mut String,
        tell: Tell<'_>,
    ) -> Result<Answer, NotAnswered> {
        let (tools, mut warnings) = self.tools_for(snapshot).ok_or(NotAnswered::NoModel)?;
        let (system, trouble) = self.system_blocks(snapshot.map(|it| &**it)).await;
        warnings.extend(trouble);
        for warning in &warnings {
            tell(Event::Warning(warning));
        }
        let Model { client, name, max_tokens, .. } =
            self.model.as_ref().ok_or(NotAnswered::NoModel)?;
        let request = Request {
            model: name,
            system: &system,
            messages: &self.messages,
            tools: &tools,
            max_output: *max_tokens,
        };
        let mut hear = |event: ikigai_provider::Event<'_>| match event {
            ikigai_provider::Event::Text(text) => {
                said.push_str(text);
                tell(Event::Text(text));
            }
            ikigai_provider::Event::Thinking => tell(Event::Thinking),
            ikigai_provider::Event::Call(name) => tell(Event::Asking(name)),
            ikigai_provider::Event::Retry { attempt, wait, failure } => {
                tell(Event::Retry { attempt, wait, failure });
            }
        };
        client.send(&request, &mut hear).await.map_err(NotAnswered::Failed)
    }
}

/// Why a request has no answer.
enum NotAnswered {
    NoModel,
    Failed(Failure),
}

/// Where a conversation stood.
struct Mark {
    messages: usize,
    parts: usize,
}

impl Mark {
    fn of(messages: &[Message]) -> Self {
        let parts = messages.last().map_or(0, |last| last.parts.len());
        Self { messages: messages.len(), parts }
    }

    fn restore(self, messages: &mut Vec<Message>) {
        messages.truncate(self.messages);
        if let Some(last) = messages.last_mut() {
            last.parts.truncate(self.parts);
        }
    }
}

fn calls_of(parts: &[Part]) -> Vec<Call> {
    let call = |part: &Part| match part {
        Part::Call(call) => Some(call.clone()),
        _ => None,
    };
    parts.iter().filter_map(call).collect()
}

/// Both together; what neither was told of stays unknown.
pub(super) fn sum(one: Usage, other: Usage) -> Usage {
    let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    Usage {
        input: add(one.input, other.input),
        output: add(one.output, other.output),
        cached: add(one.cached, other.cached),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_is_taken_back_leaves_what_was_there() {
        let said = |role, texts: &[&str]| Message {
            role,
            parts: texts.iter().map(|text| Part::text(*text)).collect(),
        };
        let user = said(Role::User, &["a"]);
        let mut messages = vec![user.clone()];
        let mark = Mark::of(&messages);
        messages[0].parts.push(Part::text("b"));
        mark.restore(&mut messages);
        assert_eq!(messages, [user]);

        let mut messages = Vec::new();
        let mark = Mark::of(&messages);
        messages.push(said(Role::User, &["a"]));
        mark.restore(&mut messages);
        assert_eq!(messages, []);
    }

    #[test]
    fn what_is_unknown_is_not_counted_as_nothing() {
        let one = Usage { input: Some(1), output: None, cached: None };
        let other = Usage { input: Some(2), output: Some(3), cached: None };
        assert_eq!(sum(one, other), Usage { input: Some(3), output: Some(3), cached: None });
    }
}
