//! The events of an answer of the Gemini API, each a response with the next parts. No terminal
//! event exists. The last response has the reason why the answer ended, and the stream ends with
//! it. Some models send the reason in every response. So an answer is complete if a reason was
//! sent, and the stream did not break off within a further response.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::blob;
use crate::sse::SseEvent;
use crate::wire::ids::CallIds;
use crate::wire::refusal::ServerError;
use crate::wire::{Flow, OnAnswerEvent, StreamReader, from_json, malformed};
use crate::{
    AnswerEvent, Blob, FailureKind, ModelAnswer, ModelCall, Part, Provider, RequestFailure,
    StopReason, TokenUsage,
};

const PROVIDER: Provider = Provider::Google;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GenerateResponse {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<UsageMetadata>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: u64,
    content: Option<CandidateContent>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct CandidateContent {
    #[serde(default)]
    parts: Vec<CandidatePart>,
}

/// A part. Kinds that are never requested (images, code that was run) have no member of this type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CandidatePart {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: String,
    args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
    block_reason_message: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageMetadata {
    prompt_token_count: Option<u64>,
    /// The results of the provider's own tools, which are counted separately from the prompt.
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

/// The reader of an answer.
pub(in crate::wire) struct GoogleStream {
    ids: CallIds,
    model: String,
    parts: Vec<Part>,
    stop: Option<StopReason>,
    usage: Option<UsageMetadata>,
}

impl GoogleStream {
    pub(in crate::wire) fn new(ids: CallIds, model: String) -> Self {
        Self { ids, model, parts: Vec::new(), stop: None, usage: None }
    }

    fn part(&mut self, part: CandidatePart, on_event: OnAnswerEvent<'_>) {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            on_event(AnswerEvent::Call(&call.name));
            let arguments = call.args.map_or_else(|| "{}".to_owned(), |args| args.get().to_owned());
            let came = call.id.filter(|id| !id.is_empty());
            let id = self.ids.take(came.as_deref().unwrap_or_default());
            let blob = self.own([(blob::ID, came), (blob::SIGNATURE, signature)]);
            self.parts.push(Part::Call(ModelCall { id, name: call.name, arguments, blob }));
            return;
        }
        let Some(text) = part.text else { return };
        if part.thought {
            on_event(AnswerEvent::Thinking(&text));
            return;
        }
        if !text.is_empty() {
            on_event(AnswerEvent::Text(&text));
        }
        match (self.parts.last_mut(), signature) {
            // A signed part is kept separate, because the signature covers only its text.
            (_, Some(signature)) => {
                let blob = self.own([(blob::SIGNATURE, Some(signature))]);
                self.parts.push(Part::Text { text, blob });
            }
            (Some(Part::Text { text: last, blob: None }), None) => last.push_str(&text),
            (_, None) if text.is_empty() => {}
            (_, None) => self.parts.push(Part::text(text)),
        }
    }

    /// Returns the data that is sent back to the model, if there is any.
    fn own<const N: usize>(&self, members: [(&str, Option<String>); N]) -> Option<Blob> {
        let members = members.into_iter();
        let value: Map<String, Value> =
            members.filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect();
        let (model, value) = (&self.model, (!value.is_empty()).then_some(value)?);
        Some(Blob { provider: PROVIDER, model: model.clone(), value: value.into() })
    }
}

/// The reasons why the model or the provider refuses to continue, from
/// <https://ai.google.dev/api/generate-content#FinishReason> and `FinishReason` in
/// <https://github.com/googleapis/python-genai/blob/main/google/genai/types.py> (3.4.0).
const REFUSALS: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "NO_IMAGE",
    "TOO_MANY_TOOL_CALLS",
    "MISSING_THOUGHT_SIGNATURE",
    "ESCALATION",
    "PUP_LIMITED_DISABLED",
    "MODEL_ARMOR",
];

/// Returns the meaning of a finish reason. An unknown reason is an ordinary end, as for the other
/// providers: the calls are complete.
fn stop(reason: String, message: Option<String>) -> Result<StopReason, RequestFailure> {
    Ok(match reason.as_str() {
        // `CONTINUATION` is a limit on one request; the next request would continue.
        "MAX_TOKENS" | "CONTINUATION" => StopReason::Length,
        // The model wrote a call that its provider could not parse. Another attempt may help.
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
            let detail = message.map_or(reason.clone(), |message| format!("{reason}: {message}"));
            return Err(RequestFailure::new(PROVIDER, FailureKind::Server { status: 200 })
                .with_detail(detail));
        }
        known if REFUSALS.contains(&known) => StopReason::Refused(message.unwrap_or(reason)),
        _ => StopReason::Finished,
    })
}

impl StreamReader for GoogleStream {
    fn event(
        &mut self,
        event: &SseEvent,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<Flow, RequestFailure> {
        let incoming: GenerateResponse = from_json(PROVIDER, &event.data)?;
        if let Some(error) = incoming.error.filter(|error| !error.is_null()) {
            return Err(ServerError::from_value(&error)
                .unwrap_or_default()
                .failure(PROVIDER, "", 200));
        }
        self.usage = incoming.usage_metadata.or(self.usage);
        if let Some(Feedback { block_reason: Some(reason), block_reason_message }) =
            incoming.prompt_feedback
        {
            self.stop = Some(StopReason::Refused(block_reason_message.unwrap_or(reason)));
        }
        for candidate in incoming.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.into_iter().flat_map(|content| content.parts) {
                if self.stop.as_ref().is_some_and(|stop| *stop != StopReason::Finished) {
                    return Err(malformed(PROVIDER, "the answer went on after its end"));
                }
                self.part(part, on_event);
            }
            if let Some(reason) = candidate.finish_reason {
                self.stop = Some(stop(reason, candidate.finish_message)?);
            }
        }
        Ok(Flow::More)
    }

    fn finish(self: Box<Self>, ends_whole: bool) -> Result<ModelAnswer, RequestFailure> {
        let stop = self.stop.filter(|_| ends_whole);
        let stop = stop.ok_or_else(|| RequestFailure::new(PROVIDER, FailureKind::Cut))?;
        let usage = self.usage.map_or_else(TokenUsage::default, |tokens| {
            let sum =
                |counts: [Option<u64>; 2]| counts.into_iter().flatten().reduce(u64::saturating_add);
            TokenUsage {
                input: sum([tokens.prompt_token_count, tokens.tool_use_prompt_token_count]),
                output: sum([tokens.candidates_token_count, tokens.thoughts_token_count]),
                cached: tokens.cached_content_token_count,
                cache_written: None,
                reasoning: tokens.thoughts_token_count,
            }
        });
        Ok(ModelAnswer { parts: self.parts, stop, usage }.without_broken_calls())
    }
}
