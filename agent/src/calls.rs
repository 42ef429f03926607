//! The calls of one answer: they run at once where they may, and their results are in the order
//! of the calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ikigai_host::exec::envelope::{Envelope, Success};
use ikigai_host::registry::Snapshot;
use ikigai_protocol::EnvelopeCode;
use ikigai_provider::{Call, CallResult, strip_nulls};
use tokio_util::sync::CancellationToken;

use crate::event::{Event, OnEvent};
use crate::excerpt::{self, Shown};
use crate::members::Members;
use crate::order;
use crate::session::Environment;
use crate::slash::{self, SLASH_COMMAND};

/// The most calls that run at once. The host runs as many components at once, and further ones
/// would wait; of native tools, each of which is a few processes, more would only be slower.
const AT_ONCE: usize = 16;

/// The most calls of one answer that run; the others have a result that says that they did not.
/// Far more than a model asks for that means what it does, and few enough that the calls of one
/// answer do not fill the audit log.
const MOST: usize = 256;

/// The code of an error to which the tool gave none that is a text.
const NO_CODE: &str = "failed";

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct Called {
    /// The id of the call, unique in the conversation.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON as a rule.
    pub arguments: String,
    /// The text that the model reads: an envelope in JSON, shortened if it was long.
    pub content: String,
    /// True if the call failed as a call: `tool_success` is false.
    pub is_error: bool,
    /// The error of the envelope, or of the tool in its own answer.
    pub error: Option<CallError>,
    /// True if the call was ended, or never begun, because the turn was interrupted.
    pub is_cancelled: bool,
    /// The time from the call to its end, with waiting for a permit and compiling.
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
    /// Returns a call that did not run because the answer has too many.
    fn beyond(call: &Call) -> Self {
        let reason =
            format!("not run: of the calls of one answer the first {MOST} are; ask for it again");
        Self::not_run(call, EnvelopeCode::InvalidParams, reason)
    }

    /// Returns a call that did not run because the turn was interrupted.
    fn cancelled(call: &Call) -> Self {
        let reason = format!("Tool '{}' was cancelled", call.name);
        Self { is_cancelled: true, ..Self::not_run(call, EnvelopeCode::ToolCrashed, reason) }
    }

    fn not_run(call: &Call, code: EnvelopeCode, reason: String) -> Self {
        let envelope = Envelope::refused(code, reason);
        Self::of(call, excerpt::whole(&envelope), &envelope, Duration::ZERO)
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

    /// Returns the result for the conversation.
    pub(super) fn result(&self) -> CallResult {
        CallResult {
            id: self.id.clone(),
            name: self.name.clone(),
            content: self.content.clone(),
            is_error: self.is_error,
        }
    }
}

/// Runs the calls of one answer, and returns one [`Called`] for each, in the order of the calls.
/// Returns when nothing that they started is left running, also where they are cancelled.
pub(super) async fn run(
    environment: &Environment,
    snapshot: Option<&Arc<Snapshot>>,
    calls: &[Call],
    cancel: &CancellationToken,
    on_event: OnEvent<'_>,
) -> Vec<Called> {
    let (calls, beyond) = calls.split_at(calls.len().min(MOST));
    if !beyond.is_empty() {
        let (all, rest) = (calls.len() + beyond.len(), beyond.len());
        on_event(Event::Warning(&format!(
            "the model asked for {all} calls at once; the last {rest} do not run"
        )));
    }
    for call in calls {
        on_event(Event::Calling(call.into()));
    }
    let empty = Arc::default();
    let snapshot = snapshot.unwrap_or(&empty);
    let mut ended: Vec<Option<Called>> = calls.iter().map(|_| None).collect();
    let mut waiting = VecDeque::from(order::serial_groups(calls, &environment.workspace));
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < AT_ONCE
            && !cancel.is_cancelled()
            && let Some(mut group) = waiting.pop_front()
        {
            let Some(index) = group.pop_front() else { continue };
            let call = &calls[index];
            on_event(Event::Running(call.into()));
            running.push(async move {
                (group, index, run_one(environment, snapshot, call, cancel).await)
            });
        }
        let Some((group, index, called)) = running.next().await else { break };
        on_event(Event::Called(&called));
        ended[index] = Some(called);
        // Before the others: the rest of a group that was begun has waited the longest.
        waiting.push_front(group);
    }
    let ended = calls.iter().zip(ended).map(|(call, called)| {
        called.unwrap_or_else(|| {
            let called = Called::cancelled(call);
            on_event(Event::Called(&called));
            called
        })
    });
    ended.chain(beyond.iter().map(Called::beyond)).collect()
}

async fn run_one(
    environment: &Environment,
    snapshot: &Arc<Snapshot>,
    call: &Call,
    cancel: &CancellationToken,
) -> Called {
    let begun = Instant::now();
    let arguments = arguments(environment, snapshot, call);
    let host = &environment.host;
    let envelope = if call.name == SLASH_COMMAND {
        let answer = |granted| slash::answer(environment, &arguments, granted, snapshot, cancel);
        host.call_own(arguments.clone(), answer).await
    } else {
        host.call(snapshot, &call.name, arguments, cancel.clone()).await
    };
    let duration = begun.elapsed();
    let shown = excerpt::shown(&envelope, &call.id, environment.assets.as_ref()).await;
    let called = Called::of(call, shown, &envelope, duration);
    // A call that succeeded was not ended by the interruption that came after it.
    Called { is_cancelled: called.is_error && cancel.is_cancelled(), ..called }
}

/// Returns the arguments for the tool: those that the model wrote, without the nulls that stand
/// for arguments left out. Anything but JSON is returned as it is, and the host refuses it.
fn arguments(environment: &Environment, snapshot: &Snapshot, call: &Call) -> Bytes {
    if call.arguments.trim().is_empty() {
        // Some servers write a call without arguments this way.
        return Bytes::from_static(b"{}");
    }
    let written = || Bytes::copy_from_slice(call.arguments.as_bytes());
    let is_strict = environment.model.as_ref().is_some_and(|it| it.client.provider().is_strict());
    let (true, Some(tool)) = (is_strict, snapshot.get(&call.name)) else { return written() };
    strip_nulls(&tool.schema, &call.arguments).map_or_else(written, Bytes::from)
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
