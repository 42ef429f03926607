//! The events of an answer of the Messages API: blocks that begin, grow and end, each with an
//! index. The reason why the answer ended and the end of the answer follow.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::wire::ids::CallIds;
use crate::wire::refusal::ServerError;
use crate::wire::{Flow, OnAnswerEvent, StreamReader, from_json, malformed};
use crate::{
    AnswerEvent, Blob, FailureKind, ModelAnswer, ModelCall, Part, Provider, RequestFailure,
    StopReason, TokenUsage,
};

const PROVIDER: Provider = Provider::Anthropic;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessageEvent {
    MessageStart {
        message: StartedMessage,
    },
    ContentBlockStart {
        index: u64,
        content_block: Beginning,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: StopDelta,
        #[serde(default)]
        usage: MessageUsage,
    },
    MessageStop,
    Error {
        error: Value,
    },
    Ping,
    /// Any event that may be added later; the documentation asks clients to expect such events.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct StartedMessage {
    #[serde(default)]
    usage: MessageUsage,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MessageUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens_details: Option<ThinkingDetails>,
}

#[derive(Clone, Copy, Deserialize)]
struct ThinkingDetails {
    thinking_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Beginning {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
        input: Option<Value>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "these are the names on the wire")]
enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    OtherDelta,
}

#[derive(Deserialize)]
struct StopDelta {
    stop_reason: Option<String>,
    stop_details: Option<StopDetails>,
}

/// The reason of a refusal: <https://docs.anthropic.com/en/api/messages#response-stop-details>.
#[derive(Deserialize)]
struct StopDetails {
    category: Option<String>,
    explanation: Option<String>,
}

/// The start of a block with its input as raw text, for input that is sent all at once.
#[derive(Deserialize)]
struct WholeBlockStart {
    content_block: WholeBlock,
}

#[derive(Deserialize)]
struct WholeBlock {
    input: Box<RawValue>,
}

/// A block that is being received.
struct BlockState {
    content: BlockContent,
    is_open: bool,
}

enum BlockContent {
    Text(String),
    Thinking { thinking: String, signature: String },
    Redacted(String),
    Call { id: String, name: String, given: Option<String>, arguments: String },
    Other,
}

/// The reader of an answer.
pub(in crate::wire) struct AnthropicStream {
    ids: CallIds,
    model: String,
    blocks: BTreeMap<u64, BlockState>,
    usage: MessageUsage,
    stop: Option<StopReason>,
    is_begun: bool,
    is_done: bool,
}

impl AnthropicStream {
    pub(in crate::wire) fn new(ids: CallIds, model: String) -> Self {
        Self {
            ids,
            model,
            blocks: BTreeMap::new(),
            usage: MessageUsage::default(),
            stop: None,
            is_begun: false,
            is_done: false,
        }
    }

    fn begin(
        &mut self,
        index: u64,
        block: Beginning,
        data: &str,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<(), RequestFailure> {
        if !self.is_begun || self.stop.is_some() {
            return Err(malformed(PROVIDER, "a block outside of the message"));
        }
        let content = match block {
            Beginning::Text { text } => {
                report_text(&text, on_event);
                BlockContent::Text(text)
            }
            Beginning::Thinking { thinking, signature } => {
                on_event(AnswerEvent::Thinking(&thinking));
                BlockContent::Thinking { thinking, signature }
            }
            Beginning::RedactedThinking { data } => {
                on_event(AnswerEvent::Thinking(""));
                BlockContent::Redacted(data)
            }
            Beginning::ToolUse { id, name, input } => {
                on_event(AnswerEvent::Call(&name));
                // An empty object means that the input follows.
                let is_given = |input: &Value| input.as_object().is_none_or(|map| !map.is_empty());
                let given = match input.as_ref().is_some_and(is_given) {
                    true => Some(from_json::<WholeBlockStart>(PROVIDER, data)?.content_block.input),
                    false => None,
                };
                let given = given.map(|input| input.get().to_owned());
                BlockContent::Call { id, name, given, arguments: String::new() }
            }
            Beginning::Other => BlockContent::Other,
        };
        match self.blocks.insert(index, BlockState { content, is_open: true }) {
            None => Ok(()),
            Some(_) => Err(malformed(PROVIDER, format!("block {index} began twice"))),
        }
    }

    fn open(&mut self, index: u64) -> Result<&mut BlockState, RequestFailure> {
        self.blocks
            .get_mut(&index)
            .filter(|block| block.is_open)
            .ok_or_else(|| malformed(PROVIDER, format!("block {index} is not open")))
    }

    fn grow(
        &mut self,
        index: u64,
        delta: BlockDelta,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<(), RequestFailure> {
        match (&mut self.open(index)?.content, delta) {
            (_, BlockDelta::OtherDelta) | (BlockContent::Other, _) => {}
            (BlockContent::Text(text), BlockDelta::TextDelta { text: more }) => {
                report_text(&more, on_event);
                text.push_str(&more);
            }
            (
                BlockContent::Thinking { thinking, .. },
                BlockDelta::ThinkingDelta { thinking: more },
            ) => {
                on_event(AnswerEvent::Thinking(&more));
                thinking.push_str(&more);
            }
            (
                BlockContent::Thinking { signature, .. },
                BlockDelta::SignatureDelta { signature: more },
            ) => {
                signature.push_str(&more);
            }
            (BlockContent::Call { arguments, .. }, BlockDelta::InputJsonDelta { partial_json }) => {
                arguments.push_str(&partial_json);
            }
            _ => return Err(malformed(PROVIDER, format!("block {index} changed its kind"))),
        }
        Ok(())
    }

    fn end(&mut self, ending: StopDelta) {
        let Some(reason) = ending.stop_reason else { return };
        self.stop = Some(match reason.as_str() {
            "max_tokens" => StopReason::Length,
            // <https://docs.anthropic.com/en/docs/build-with-claude/handling-stop-reasons>.
            "model_context_window_exceeded" => StopReason::Window,
            "refusal" => {
                let details = ending.stop_details;
                let why = details.and_then(|details| details.explanation.or(details.category));
                StopReason::Refused(why.unwrap_or_default())
            }
            // `end_turn`, `tool_use`, `stop_sequence`, `pause_turn`, and any reason that is added
            // later.
            _ => StopReason::Finished,
        });
    }
}

/// Reports text, unless it is empty.
fn report_text(text: &str, on_event: OnAnswerEvent<'_>) {
    if !text.is_empty() {
        on_event(AnswerEvent::Text(text));
    }
}

impl StreamReader for AnthropicStream {
    fn event(
        &mut self,
        event: &SseEvent,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<Flow, RequestFailure> {
        match from_json(PROVIDER, &event.data)? {
            MessageEvent::MessageStart { .. } if self.is_begun => {
                return Err(malformed(PROVIDER, "the message began twice"));
            }
            MessageEvent::MessageStart { message } => {
                self.is_begun = true;
                self.usage.update(message.usage);
            }
            MessageEvent::ContentBlockStart { index, content_block } => {
                self.begin(index, content_block, &event.data, on_event)?;
            }
            MessageEvent::ContentBlockDelta { index, delta } => {
                self.grow(index, delta, on_event)?
            }
            MessageEvent::ContentBlockStop { index } => self.open(index)?.is_open = false,
            MessageEvent::MessageDelta { delta, usage } => {
                self.usage.update(usage);
                self.end(delta);
            }
            MessageEvent::MessageStop => {
                let is_open = self.blocks.values().any(|block| block.is_open);
                if is_open || self.stop.is_none() {
                    return Err(malformed(PROVIDER, "the message stopped before it had ended"));
                }
                self.is_done = true;
                return Ok(Flow::Done);
            }
            MessageEvent::Error { error } => {
                return Err(ServerError::from_value(&error)
                    .unwrap_or_default()
                    .failure(PROVIDER, "", 200));
            }
            MessageEvent::Ping => return Ok(Flow::Idle),
            MessageEvent::Other => {}
        }
        Ok(Flow::More)
    }

    fn finish(self: Box<Self>, _ends_whole: bool) -> Result<ModelAnswer, RequestFailure> {
        let Self { mut ids, model, blocks, usage, stop, is_done, .. } = *self;
        let (Some(stop), true) = (stop, is_done) else {
            return Err(RequestFailure::new(PROVIDER, FailureKind::Cut));
        };
        let parts = blocks.into_values().filter_map(|block| part(block.content, &mut ids, &model));
        Ok(ModelAnswer { parts: parts.collect(), stop, usage: usage.total() }
            .without_broken_calls())
    }
}

fn part(content: BlockContent, ids: &mut CallIds, model: &str) -> Option<Part> {
    let blob = |value| Part::Blob(Blob { provider: PROVIDER, model: model.to_owned(), value });
    match content {
        BlockContent::Text(text) => (!text.is_empty()).then(|| Part::text(text)),
        // The API refuses a thought without its signature when it is sent back.
        BlockContent::Thinking { signature, .. } if signature.is_empty() => None,
        BlockContent::Thinking { thinking, signature } => {
            Some(blob(json!({ "type": "thinking", "thinking": thinking, "signature": signature })))
        }
        BlockContent::Redacted(data) => {
            Some(blob(json!({ "type": "redacted_thinking", "data": data })))
        }
        BlockContent::Call { id, name, given, arguments } => {
            let arguments = match given {
                _ if !arguments.is_empty() => arguments,
                Some(given) => given,
                None => "{}".to_owned(),
            };
            Some(Part::Call(ModelCall { id: ids.take(&id), name, arguments, blob: None }))
        }
        BlockContent::Other => None,
    }
}

impl MessageUsage {
    /// Replaces earlier counts with later ones, which are already sums.
    fn update(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
    }

    /// Returns the totals. `input_tokens` excludes tokens read from the cache and written to it.
    fn total(&self) -> TokenUsage {
        let cache = [self.cache_creation_input_tokens, self.cache_read_input_tokens];
        let input = self
            .input_tokens
            .map(|fresh| cache.into_iter().flatten().fold(fresh, u64::saturating_add));
        TokenUsage {
            input,
            output: self.output_tokens,
            cached: self.cache_read_input_tokens,
            cache_written: self.cache_creation_input_tokens,
            reasoning: self.output_tokens_details.and_then(|details| details.thinking_tokens),
        }
    }
}
