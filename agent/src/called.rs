//! A call that has ended, as the conversation and the user see it.

use std::time::Duration;

use ikigai_host::exec::envelope::{Envelope, Success};
use ikigai_protocol::EnvelopeCode;
use ikigai_provider::{CallResult, Image, ModelCall};

use crate::excerpt::{self, ResultText};
use crate::images::{self, Room};
use crate::members::RawMembers;
use crate::own_tool::SLASH_COMMAND;

/// The code of an error to which the tool gave no code, or one that is not a text.
const NO_CODE: &str = "failed";

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct FinishedCall {
    /// The id of the call, unique in the conversation.
    pub id: String,
    /// The name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them, usually JSON.
    pub arguments: String,
    /// The text that the model reads: an envelope in JSON, shortened if it was long.
    pub content: String,
    /// True if the call failed as a call: `tool_success` is false.
    pub is_error: bool,
    /// The error of the envelope, or of the tool in its own answer.
    pub error: Option<CallError>,
    /// The command that would allow what the call was refused, if there is one.
    pub allow_with: Option<String>,
    /// True if policy refused the call, or refused a part of it that the user could allow.
    pub is_refused: bool,
    /// The images of the answer that a model may be sent, in their order.
    pub images: Vec<Image>,
    /// True if the call was ended, or never begun, because the turn was interrupted.
    pub is_cancelled: bool,
    /// The time from the call to its end, with waiting for a permit and compiling.
    pub duration: Duration,
    /// The characters of the whole result. `content` may have fewer.
    pub characters: usize,
}

/// The error of a call. It is the host's error if the tool did not answer, and otherwise the error
/// that the tool answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError {
    /// The `error_code` of the envelope or of the tool's answer; `failed` if the tool's code is not
    /// a text.
    pub code: String,
    /// The message for the user or the model.
    pub message: String,
}

impl CallError {
    /// Returns the error in an envelope. A tool's answer is an error if it is an object with an
    /// `error_code` and a text as its `error`.
    fn from_envelope(envelope: &Envelope) -> Option<Self> {
        match envelope {
            Envelope::Failure(failure) => Some(Self {
                code: failure.error_code.as_str().to_owned(),
                message: failure.error.clone(),
            }),
            Envelope::Success(Success { result, .. }) => {
                let members = RawMembers::from_value(result)?;
                let code = serde_json::from_str(members.get("error_code")?.get());
                Some(Self {
                    code: code.unwrap_or_else(|_| NO_CODE.to_owned()),
                    message: serde_json::from_str(members.get("error")?.get()).ok()?,
                })
            }
        }
    }
}

impl FinishedCall {
    /// Returns a call that did not run because the answer has more than `most` calls.
    pub(super) fn beyond(call: &ModelCall, most: usize) -> Self {
        let reason =
            format!("not run: only the first {most} calls of an answer run; ask for it again");
        Self::not_run(call, EnvelopeCode::InvalidParams, reason)
    }

    /// Returns a call that did not run because the turn was interrupted.
    pub(super) fn cancelled(call: &ModelCall) -> Self {
        let reason = format!("Tool '{}' was cancelled", call.name);
        Self { is_cancelled: true, ..Self::not_run(call, EnvelopeCode::ToolCrashed, reason) }
    }

    fn not_run(call: &ModelCall, code: EnvelopeCode, reason: String) -> Self {
        let envelope = Envelope::refused(code, reason);
        Self::new(call, excerpt::whole(&envelope), &envelope, Duration::ZERO)
    }

    /// Returns a call that ended with this envelope. `shown` is the text that the model reads of
    /// it.
    pub(super) fn new(
        call: &ModelCall,
        shown: ResultText,
        envelope: &Envelope,
        duration: Duration,
    ) -> Self {
        let allow_with = envelope.aside().allow_with.clone();
        let code = envelope.failure().map(|(code, _)| code);
        // If `slash_command` is denied, the model asked for a command that models do not have.
        let is_denied = code == Some(EnvelopeCode::PermissionDenied) && call.name != SLASH_COMMAND;
        let is_refused = allow_with.is_some() || is_denied;
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            content: shown.text,
            is_error: !envelope.is_success(),
            error: CallError::from_envelope(envelope),
            allow_with,
            is_refused,
            images: Vec::new(),
            is_cancelled: false,
            duration,
            characters: shown.characters,
        }
    }

    /// Returns whether the call changed no file, because it was refused.
    pub(super) fn has_changed_nothing(&self) -> bool {
        let refusals = [
            EnvelopeCode::PermissionDenied,
            EnvelopeCode::InvalidParams,
            EnvelopeCode::ToolNotFound,
        ];
        // The built-in tools use the same code for a refused access.
        let code = self.error.as_ref().map(|error| error.code.as_str());
        refusals.iter().any(|refusal| code == Some(refusal.as_str()))
    }

    /// Returns the result for the conversation, with the images for which there is room.
    pub(super) fn result(&self, room: &mut Room) -> CallResult {
        let (mut fitting, mut left_out) = (Vec::new(), Vec::new());
        for image in &self.images {
            match room.take(image) {
                Ok(()) => fitting.push(image.clone()),
                Err(reason) => left_out.push(format!("{image}: {reason}")),
            }
        }
        CallResult {
            id: self.id.clone(),
            name: self.name.clone(),
            content: images::noted(self.content.clone(), &left_out),
            is_error: self.is_error,
            images: fitting,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    fn error(result: &Value) -> Option<CallError> {
        let result = RawValue::from_string(result.to_string()).expect("JSON");
        CallError::from_envelope(&Envelope::answered(result))
    }

    #[test]
    fn an_error_is_of_the_host_or_of_the_tool() {
        let error_of = |code: &str, message: &str| {
            Some(CallError { code: code.to_owned(), message: message.to_owned() })
        };
        let not_found = CallError::from_envelope(&Envelope::not_found("x"));
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
