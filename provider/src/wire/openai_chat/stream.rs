//! The events of an answer of Chat Completions: deltas of one message, the reason why it ended, its
//! usage, and `[DONE]`.
//!
//! The answer is complete once its finish reason was sent. Some servers end their streams there,
//! without `[DONE]`. A `[DONE]` without a reason proves nothing, because some servers send it after
//! a failure too.

use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::{Fragment, PartialCalls};
use crate::sse::SseEvent;
use crate::wire::ids::CallIds;
use crate::wire::refusal::ServerError;
use crate::wire::{Flow, OnAnswerEvent, StreamReader, from_json, malformed};
use crate::{
    AnswerEvent, Blob, FailureKind, ModelAnswer, ModelCall, Part, Provider, RequestFailure,
    StopReason, TokenUsage,
};

const PROVIDER: Provider = Provider::OpenAiChat;

/// The data of the last event, which is not JSON.
const DONE: &str = "[DONE]";

#[derive(Deserialize)]
struct ChatChunk {
    choices: Option<Vec<Choice>>,
    usage: Option<ChatUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<ChoiceDelta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct ChoiceDelta {
    content: Option<DeltaContent>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Fragment>>,
    /// The member's name for DeepSeek, llama.cpp and older vLLM.
    reasoning_content: Option<String>,
    /// The member's name for vLLM, Ollama and OpenRouter.
    reasoning: Option<String>,
}

/// A text, or the list of chunks that Mistral's reasoning models send:
/// <https://docs.mistral.ai/capabilities/reasoning>.
#[derive(Deserialize)]
#[serde(untagged)]
enum DeltaContent {
    Text(String),
    Chunks(Vec<Chunk>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Chunk {
    Text {
        text: String,
    },
    /// A thought, as a list of chunks. It is not sent back.
    Thinking {
        #[serde(default)]
        thinking: Vec<Chunk>,
    },
    #[serde(other)]
    Other,
}

#[derive(Clone, Copy, Deserialize)]
struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// The member's name for DeepSeek: <https://api-docs.deepseek.com/guides/kv_cache>.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    /// Sent by OpenAI from GPT-5.6 on, and by OpenRouter.
    cache_write_tokens: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// The reader of an answer.
pub(in crate::wire) struct ChatStream {
    ids: CallIds,
    model: String,
    text: String,
    refusal: String,
    /// The thoughts of the model, and the name of their member.
    thoughts: Option<(&'static str, String)>,
    calls: PartialCalls,
    stop: Option<StopReason>,
    usage: Option<ChatUsage>,
}

impl ChatStream {
    pub(in crate::wire) fn new(ids: CallIds, model: String) -> Self {
        Self {
            ids,
            model,
            text: String::new(),
            refusal: String::new(),
            thoughts: None,
            calls: PartialCalls::default(),
            stop: None,
            usage: None,
        }
    }

    fn grow(
        &mut self,
        delta: ChoiceDelta,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<(), RequestFailure> {
        let fragments = delta.tool_calls.unwrap_or_default();
        let (text, thought) = delta.content.map(DeltaContent::into_text).unwrap_or_default();
        let text = Some(text).filter(|text| !text.is_empty());
        if self.stop.is_some() && (text.is_some() || !fragments.is_empty()) {
            return Err(malformed(PROVIDER, "the answer went on after its end"));
        }
        if let Some(thought) = thought {
            on_event(AnswerEvent::Thinking(&thought));
        }
        for (name, thought) in
            [("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)]
        {
            self.think(name, &thought.unwrap_or_default(), on_event);
        }
        if let Some(text) = text {
            on_event(AnswerEvent::Text(&text));
            self.text.push_str(&text);
        }
        self.refusal.push_str(&delta.refusal.unwrap_or_default());
        for fragment in fragments {
            self.calls.add(fragment).map_err(|detail| malformed(PROVIDER, detail))?;
            self.calls.unreported(false).for_each(|name| on_event(AnswerEvent::Call(name)));
        }
        Ok(())
    }

    /// Adds to the thoughts. If both members arrive, they have the same text, and only the first is
    /// used.
    fn think(&mut self, name: &'static str, thought: &str, on_event: OnAnswerEvent<'_>) {
        if thought.is_empty() {
            return;
        }
        let (known, thoughts) = self.thoughts.get_or_insert_with(|| (name, String::new()));
        if *known == name {
            on_event(AnswerEvent::Thinking(thought));
            thoughts.push_str(thought);
        }
    }
}

impl DeltaContent {
    /// Returns the text, and the thought if there is one.
    fn into_text(self) -> (String, Option<String>) {
        let chunks = match self {
            Self::Text(text) => return (text, None),
            Self::Chunks(chunks) => chunks,
        };
        let (mut text, mut thought) = (String::new(), None);
        for chunk in chunks {
            match chunk {
                Chunk::Text { text: more } => text.push_str(&more),
                Chunk::Thinking { thinking } => {
                    let thought: &mut String = thought.get_or_insert_default();
                    thought.extend(thinking.into_iter().filter_map(Chunk::into_text));
                }
                Chunk::Other => {}
            }
        }
        (text, thought)
    }
}

impl Chunk {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text { text } => Some(text),
            Self::Thinking { .. } | Self::Other => None,
        }
    }
}

/// Returns the meaning of a finish reason. In addition to OpenAI's reasons, it knows those by
/// DeepSeek (<https://api-docs.deepseek.com/api/create-chat-completion>), Mistral
/// (<https://docs.mistral.ai/api/endpoint/chat>), and vLLM for a request that it aborted.
fn stop(reason: String) -> Result<StopReason, RequestFailure> {
    let failed = |kind, reason| Err(RequestFailure::new(PROVIDER, kind).with_detail(reason));
    match reason.as_str() {
        "length" => Ok(StopReason::Length),
        "model_length" => Ok(StopReason::Window),
        "content_filter" => Ok(StopReason::Refused(reason)),
        "insufficient_system_resource" => failed(FailureKind::Overloaded, reason),
        "error" | "abort" => failed(FailureKind::Server { status: 200 }, reason),
        // `stop`, `tool_calls`, `function_call`, and any other reason.
        _ => Ok(StopReason::Finished),
    }
}

impl StreamReader for ChatStream {
    fn event(
        &mut self,
        event: &SseEvent,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<Flow, RequestFailure> {
        if event.data.trim() == DONE {
            return Ok(Flow::Done);
        }
        let incoming: ChatChunk = from_json(PROVIDER, &event.data)?;
        if let Some(error) = incoming.error.filter(|error| !error.is_null()) {
            let reported = match error {
                Value::String(message) => ServerError::new(None, Some(message)),
                error => ServerError::from_value(&error).unwrap_or_default(),
            };
            return Err(reported.failure(PROVIDER, "", 200));
        }
        // Older versions of vLLM send the members of the error in the event itself.
        if incoming.choices.is_none()
            && let Some(reported) = ServerError::from_value(&from_json(PROVIDER, &event.data)?)
        {
            return Err(reported.failure(PROVIDER, "", 200));
        }
        self.usage = incoming.usage.or(self.usage);
        for choice in incoming.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.grow(delta, on_event)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop = Some(stop(reason)?);
                self.calls.unreported(true).for_each(|name| on_event(AnswerEvent::Call(name)));
            }
        }
        Ok(if self.stop.is_some() { Flow::Whole } else { Flow::More })
    }

    fn finish(self: Box<Self>, _ends_whole: bool) -> Result<ModelAnswer, RequestFailure> {
        let Self { mut ids, model, text, refusal, thoughts, calls, stop, usage, .. } = *self;
        let mut stop = stop.ok_or_else(|| RequestFailure::new(PROVIDER, FailureKind::Cut))?;
        if !refusal.is_empty() {
            stop = StopReason::Refused(refusal);
        }
        let mut parts = Vec::new();
        if let Some((name, thoughts)) = thoughts.filter(|_| !calls.is_empty()) {
            let value = json!({ name: thoughts });
            parts.push(Part::Blob(Blob { provider: PROVIDER, model, value }));
        }
        if !text.is_empty() {
            parts.push(Part::text(text));
        }
        for call in calls.into_all() {
            if call.name.is_empty() && stop == StopReason::Finished {
                return Err(malformed(PROVIDER, "a call without a name"));
            }
            let arguments =
                if call.arguments.is_empty() { "{}".to_owned() } else { call.arguments };
            let id = ids.take(&call.id);
            parts.push(Part::Call(ModelCall { id, name: call.name, arguments, blob: None }));
        }
        let usage = usage.map_or_else(TokenUsage::default, |tokens| {
            let input = tokens.prompt_tokens_details.unwrap_or_default();
            TokenUsage {
                input: tokens.prompt_tokens,
                output: tokens.completion_tokens,
                cached: input.cached_tokens.or(tokens.prompt_cache_hit_tokens),
                cache_written: input.cache_write_tokens,
                reasoning: tokens.completion_tokens_details.and_then(|it| it.reasoning_tokens),
            }
        });
        Ok(ModelAnswer { parts, stop, usage }.without_broken_calls())
    }
}
