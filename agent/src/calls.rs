//! The calls of one answer: run at once where they may, their results in their order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ikigai_protocol::EnvelopeCode;
use ikigai_provider::{Call, CallResult, strip_nulls};
use tokio_util::sync::CancellationToken;

use super::excerpt::{self, Shown};
use super::members::Members;
use super::{Calling, Event, SLASH_COMMAND, Session, Tell, order, slash};
use ikigai_host::exec::envelope::{Envelope, Success};
use ikigai_host::registry::Snapshot;

/// Calls that run at once. As many as the host has places for components, where further ones
/// would wait; of native tools, each of which is a few processes, more would only be slower.
const AT_ONCE: usize = 16;

/// Calls of one answer that run; the others are told that they did not. Far more than a model
/// asks for that means what it does, and few enough that the audit log is not turned over by
/// the calls of one answer.
const MOST: usize = 256;

/// The code of an error to which the tool gave none that is a text.
const NO_CODE: &str = "failed";

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct Called {
    /// Unique in the conversation.
    pub id: String,
    /// The tool, as the model named it.
    pub name: String,
    /// As the model wrote them: JSON as a rule.
    pub arguments: String,
    /// What the model reads: an envelope in JSON, shortened if it was long.
    pub content: String,
    /// Whether the call failed as a call: `tool_success` is false.
    pub is_error: bool,
    /// The error of the envelope, or of the tool in its own answer.
    pub error: Option<CallError>,
    /// Whether it was ended, or never begun, because the turn was interrupted.
    pub is_cancelled: bool,
    /// From the call to its end, with waiting for a place and compiling.
    pub duration: Duration,
    /// Characters of the whole result, of which `content` may have fewer.
    pub characters: usize,
}

/// The error of a call: of the host, which did not get an answer, or of the tool, which answered
/// with an error of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The `error_code` of the envelope or of the tool's answer. `failed` where the tool's is not
    /// a text.
    pub code: String,
    /// The message for a person or a model.
    pub message: String,
}

impl CallError {
    /// Returns the error in an envelope. A tool's answer is one if it is an object with an
    /// `error_code` and a text as its `error`.
    fn of(envelope: &Envelope) -> Option<Self> {
        match envelope {
            Envelope::Failure(failure) => Some(Self {
                code: failure.error_code.as_str().to_owned(),
                message: failure.error.clone(),
            }),
            Envelope::Success(Success { result, .. }) => {
                let members = Members::of(result)?;
                let code = serde_json::from_str(members.get("error_code")?.get());
                Some(Self {
                    code: code.unwrap_or_else(|_| NO_CODE.to_owned()),
                    message: serde_json::from_str(members.get("error")?.get()).ok()?,
                })
            }
        }
    }
}

impl Called {
    /// A call beyond the most that one answer may have.
    fn beyond(call: &Call) -> Self {
        let reason =
            format!("not run: of the calls of one answer the first {MOST} are; ask for it again");
        let envelope = Envelope::refused(EnvelopeCode::InvalidParams, reason);
        Self::of(call, excerpt::whole(&envelope), &envelope, Duration::ZERO)
    }

    fn cancelled(call: &Call) -> Self {
        let text = format!("Tool '{}' was cancelled", call.name);
        let envelope = Envelope::refused(EnvelopeCode::ToolCrashed, text);
        let called = Self::of(call, excerpt::whole(&envelope), &envelope, Duration::ZERO);
        Self { is_cancelled: true, ..called }
    }

    fn of(call: &Call, shown: Shown, envelope: &Envelope, duration: Duration) -> Self {
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            content: shown.text,
            is_error: !envelope.is_success(),
            error: CallError::of(envelope),
            is_cancelled: false,
            duration,
            characters: shown.characters,
        }
    }

    /// What goes into the conversation.
    pub(super) fn result(&self) -> CallResult {
        CallResult {
            id: self.id.clone(),
            name: self.name.clone(),
            content: self.content.clone(),
            is_error: self.is_error,
        }
    }
}

impl<'a> From<&'a Call> for Calling<'a> {
    fn from(Call { id, name, arguments, .. }: &'a Call) -> Self {
        Self { id, name, arguments }
    }
}

impl Session {
    /// Runs the calls of one answer and gives what came of each, in the order of the calls.
    /// Returns when nothing that they started is left running, also where it is cancelled.
    pub(super) async fn run_calls(
        &self,
        snapshot: Option<&Arc<Snapshot>>,
        calls: &[Call],
        cancel: &CancellationToken,
        tell: Tell<'_>,
    ) -> Vec<Called> {
        let (calls, beyond) = calls.split_at(calls.len().min(MOST));
        if !beyond.is_empty() {
            let (all, rest) = (calls.len() + beyond.len(), beyond.len());
            tell(Event::Warning(&format!(
                "the model asked for {all} calls at once; the last {rest} do not run"
            )));
        }
        for call in calls {
            tell(Event::Calling(call.into()));
        }
        let empty = Arc::default();
        let snapshot = snapshot.unwrap_or(&empty);
        let mut ended: Vec<Option<Called>> = calls.iter().map(|_| None).collect();
        let mut waiting = VecDeque::from(order::lanes(calls, &self.workspace));
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < AT_ONCE
                && !cancel.is_cancelled()
                && let Some(mut lane) = waiting.pop_front()
            {
                let Some(place) = lane.pop_front() else { continue };
                tell(Event::Running(Calling::from(&calls[place])));
                running.push(async move {
                    (lane, place, self.run_call(snapshot, &calls[place], cancel).await)
                });
            }
            let Some((lane, place, called)) = running.next().await else { break };
            tell(Event::Called(&called));
            ended[place] = Some(called);
            // Before the others: what waits in a lane has waited the longest.
            waiting.push_front(lane);
        }
        let ended = calls.iter().zip(ended);
        let ended = ended.map(|(call, called)| {
            called.unwrap_or_else(|| {
                let called = Called::cancelled(call);
                tell(Event::Called(&called));
                called
            })
        });
        ended.chain(beyond.iter().map(Called::beyond)).collect()
    }

    async fn run_call(
        &self,
        snapshot: &Arc<Snapshot>,
        call: &Call,
        cancel: &CancellationToken,
    ) -> Called {
        let begun = Instant::now();
        let arguments = self.arguments(snapshot, call);
        let envelope = if call.name == SLASH_COMMAND {
            let answer = |granted| slash::answer(self, &arguments, granted, snapshot, cancel);
            self.host.call_own(arguments.clone(), answer).await
        } else {
            self.host.call(snapshot, &call.name, arguments, cancel.clone()).await
        };
        let duration = begun.elapsed();
        let shown = excerpt::shown(&envelope, &call.id, self.assets.as_ref()).await;
        let called = Called::of(call, shown, &envelope, duration);
        // One that had ended well in time is none of those that were ended.
        Called { is_cancelled: called.is_error && cancel.is_cancelled(), ..called }
    }

    /// What the tool is given: what the model wrote, without the nulls that stand for
    /// arguments left out. What is no JSON goes on as it is, to be refused by the one path
    /// of a call.
    fn arguments(&self, snapshot: &Snapshot, call: &Call) -> Bytes {
        if call.arguments.trim().is_empty() {
            // How some servers write a call without arguments.
            return Bytes::from_static(b"{}");
        }
        let written = || Bytes::copy_from_slice(call.arguments.as_bytes());
        let is_strict = self.model.as_ref().is_some_and(|it| it.client.provider().is_strict());
        let (true, Some(tool)) = (is_strict, snapshot.get(&call.name)) else { return written() };
        strip_nulls(&tool.schema, &call.arguments).map_or_else(written, Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn error(result: &Value) -> Option<CallError> {
        let result = RawValue::from_string(result.to_string()).expect("JSON");
        CallError::of(&Envelope::answered(result))
    }

    #[test]
    fn an_error_is_of_the_host_or_of_the_tool() {
        let error_of = |code: &str, message: &str| {
            Some(CallError { code: code.to_owned(), message: message.to_owned() })
        };
        let not_found = CallError::of(&Envelope::not_found("x"));
        assert_eq!(not_found, error_of("TOOL_NOT_FOUND", "Tool 'x' not found"));
        let text = "File not found: a";
        let answered = error(&json!({ "error": text, "error_code": "FILE_NOT_FOUND" }));
        assert_eq!(answered, error_of("FILE_NOT_FOUND", text));
        let answered = error(&json!({ "error": text, "error_code": 7 }));
        assert_eq!(answered, error_of("failed", text));
    }

    #[test]
    fn an_answer_without_a_code_or_a_message_is_not_an_error() {
        for result in [
            json!({ "error": "a field" }),
            json!({ "error": 1, "error_code": "X" }),
            json!({ "error_code": "X" }),
            json!([1]),
        ] {
            assert_eq!(error(&result), None, "{result}");
        }
    }
}
