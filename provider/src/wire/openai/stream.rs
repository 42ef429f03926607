//! The events of an answer of the Responses API: items that are added, grow and are done, each at
//! an index of the output. The whole response follows.
//!
//! The answer consists of the items in their final state. Earlier pieces are only reported, and the
//! pieces of arguments must equal the final arguments.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::sse::SseEvent;
use crate::wire::ids::CallIds;
use crate::wire::refusal::ServerError;
use crate::wire::{Flow, OnAnswerEvent, StreamReader, from_json, malformed};
use crate::{
    AnswerEvent, Blob, FailureKind, ModelAnswer, ModelCall, Part, Provider, RequestFailure,
    StopReason, TokenUsage,
};

const PROVIDER: Provider = Provider::OpenAi;

#[derive(Deserialize)]
#[serde(tag = "type")]
enum ResponseEvent {
    #[serde(rename = "response.output_item.added")]
    Added { output_index: u64, item: OutputItem },
    #[serde(rename = "response.output_item.done")]
    Done { output_index: u64, item: OutputItem },
    #[serde(rename = "response.output_text.delta")]
    Text { output_index: u64, delta: String },
    /// A piece of the thoughts: of their summary, or of the thoughts themselves, which open models
    /// send.
    #[serde(
        rename = "response.reasoning_summary_text.delta",
        alias = "response.reasoning_text.delta"
    )]
    Thought { delta: String },
    /// The beginning of a paragraph in the summary of the thoughts.
    #[serde(rename = "response.reasoning_summary_part.added")]
    Summary {
        #[serde(default)]
        summary_index: u64,
    },
    #[serde(rename = "response.function_call_arguments.delta")]
    Arguments { output_index: u64, delta: String },
    #[serde(rename = "response.function_call_arguments.done")]
    ArgumentsDone { output_index: u64, arguments: String },
    #[serde(
        rename = "response.completed",
        alias = "response.incomplete",
        alias = "response.failed"
    )]
    Ended { response: Response },
    #[serde(rename = "error")]
    Error {
        code: Option<String>,
        message: Option<String>,
        /// The error, if it is inside another `error`, as some servers send it.
        error: Option<Value>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputItem {
    Message {
        #[serde(default)]
        content: Vec<OutputContent>,
        phase: Option<Value>,
    },
    FunctionCall {
        call_id: Option<String>,
        name: String,
        #[serde(default)]
        arguments: String,
    },
    Reasoning {
        id: Option<Value>,
        #[serde(default)]
        summary: Value,
        content: Option<Value>,
        encrypted_content: Option<Value>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputContent {
    OutputText {
        text: String,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<Incomplete>,
    usage: Option<ResponseUsage>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponseUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
    /// Sent for models that charge for it, from GPT-5.6 on.
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

/// The state of one item of the output.
#[derive(Default)]
struct OutputSlot {
    is_added: bool,
    text: String,
    arguments: String,
    done: Option<OutputItem>,
}

/// The reader of an answer.
pub(in crate::wire) struct OpenAiStream {
    ids: CallIds,
    model: String,
    slots: BTreeMap<u64, OutputSlot>,
    end: Option<Response>,
}

impl OpenAiStream {
    pub(in crate::wire) fn new(ids: CallIds, model: String) -> Self {
        Self { ids, model, slots: BTreeMap::new(), end: None }
    }

    fn add(
        &mut self,
        index: u64,
        item: &OutputItem,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<(), RequestFailure> {
        let slot = self.slots.entry(index).or_default();
        if std::mem::replace(&mut slot.is_added, true) {
            return Err(malformed(PROVIDER, format!("item {index} was added twice")));
        }
        announce(item, on_event);
        Ok(())
    }

    /// Returns the state of an item that was added and is not done.
    fn open(&mut self, index: u64) -> Result<&mut OutputSlot, RequestFailure> {
        self.slots
            .get_mut(&index)
            .filter(|slot| slot.is_added && slot.done.is_none())
            .ok_or_else(|| malformed(PROVIDER, format!("item {index} is not open")))
    }

    fn done(
        &mut self,
        index: u64,
        item: OutputItem,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<(), RequestFailure> {
        let slot = self.slots.entry(index).or_default();
        if slot.done.is_some() {
            return Err(malformed(PROVIDER, format!("item {index} was done twice")));
        }
        if !std::mem::replace(&mut slot.is_added, true) {
            announce(&item, on_event);
        }
        match &item {
            OutputItem::FunctionCall { arguments, .. } => slot.is_same(index, arguments)?,
            OutputItem::Message { content, .. } if slot.text.is_empty() => {
                for piece in content {
                    if let OutputContent::OutputText { text } = piece
                        && !text.is_empty()
                    {
                        on_event(AnswerEvent::Text(text));
                    }
                }
            }
            _ => {}
        }
        slot.done = Some(item);
        Ok(())
    }
}

impl OutputSlot {
    /// Checks that the pieces of the arguments equal the whole.
    fn is_same(&self, index: u64, arguments: &str) -> Result<(), RequestFailure> {
        if self.arguments.is_empty() || self.arguments == arguments {
            Ok(())
        } else {
            Err(malformed(PROVIDER, format!("the arguments of item {index} changed")))
        }
    }
}

fn announce(item: &OutputItem, on_event: OnAnswerEvent<'_>) {
    match item {
        OutputItem::FunctionCall { name, .. } => on_event(AnswerEvent::Call(name)),
        OutputItem::Reasoning { .. } => on_event(AnswerEvent::Thinking("")),
        OutputItem::Message { .. } | OutputItem::Other => {}
    }
}

impl StreamReader for OpenAiStream {
    fn event(
        &mut self,
        event: &SseEvent,
        on_event: OnAnswerEvent<'_>,
    ) -> Result<Flow, RequestFailure> {
        match from_json(PROVIDER, &event.data)? {
            ResponseEvent::Added { output_index, item } => {
                self.add(output_index, &item, on_event)?
            }
            ResponseEvent::Done { output_index, item } => {
                self.done(output_index, item, on_event)?
            }
            ResponseEvent::Text { output_index, delta } => {
                let slot = self.open(output_index)?;
                slot.text.push_str(&delta);
                if !delta.is_empty() {
                    on_event(AnswerEvent::Text(&delta));
                }
            }
            ResponseEvent::Thought { delta } => on_event(AnswerEvent::Thinking(&delta)),
            ResponseEvent::Summary { summary_index } => {
                on_event(AnswerEvent::Thinking(if summary_index > 0 { "\n\n" } else { "" }));
            }
            ResponseEvent::Arguments { output_index, delta } => {
                self.open(output_index)?.arguments.push_str(&delta);
            }
            ResponseEvent::ArgumentsDone { output_index, arguments } => {
                self.open(output_index)?.is_same(output_index, &arguments)?;
            }
            ResponseEvent::Ended { response } => {
                let is_failed = response.status.as_deref() == Some("failed");
                if let Some(error) = response.error.as_ref().filter(|error| !error.is_null()) {
                    return Err(ServerError::from_value(error)
                        .unwrap_or_default()
                        .failure(PROVIDER, "", 200));
                } else if is_failed {
                    return Err(ServerError::default().failure(PROVIDER, "", 200));
                }
                self.end = Some(response);
                return Ok(Flow::Done);
            }
            ResponseEvent::Error { code, message, error } => {
                let reported = error.as_ref().and_then(ServerError::from_value);
                let reported = reported.unwrap_or_else(|| ServerError::new(code, message));
                return Err(reported.failure(PROVIDER, "", 200));
            }
            ResponseEvent::Other => {}
        }
        Ok(Flow::More)
    }

    fn finish(self: Box<Self>, _ends_whole: bool) -> Result<ModelAnswer, RequestFailure> {
        let Self { mut ids, model, slots, end } = *self;
        let end = end.ok_or_else(|| RequestFailure::new(PROVIDER, FailureKind::Cut))?;
        let reason = end.incomplete_details.and_then(|details| details.reason);
        let is_incomplete = reason.is_some() || end.status.as_deref() == Some("incomplete");
        let mut stop = match reason.as_deref() {
            Some("content_filter") => StopReason::Refused("content_filter".to_owned()),
            _ if is_incomplete => StopReason::Length,
            _ => StopReason::Finished,
        };
        let mut parts = Vec::new();
        for (index, slot) in slots {
            match slot.done {
                Some(item) => take(item, &mut ids, &model, &mut parts, &mut stop),
                None if !is_incomplete => {
                    return Err(malformed(PROVIDER, format!("item {index} was never done")));
                }
                None if !slot.text.is_empty() => parts.push(Part::text(slot.text)),
                None => {}
            }
        }
        let usage = end.usage.map_or_else(TokenUsage::default, |tokens| TokenUsage {
            input: tokens.input_tokens,
            output: tokens.output_tokens,
            cached: tokens.input_tokens_details.as_ref().and_then(|details| details.cached_tokens),
            cache_written: tokens.input_tokens_details.and_then(|it| it.cache_write_tokens),
            reasoning: tokens.output_tokens_details.and_then(|it| it.reasoning_tokens),
        });
        Ok(ModelAnswer { parts, stop, usage }.without_broken_calls())
    }
}

/// Adds an item that is done to the parts of the answer.
fn take(
    item: OutputItem,
    ids: &mut CallIds,
    model: &str,
    parts: &mut Vec<Part>,
    stop: &mut StopReason,
) {
    let blob = |value| Blob { provider: PROVIDER, model: model.to_owned(), value };
    match item {
        OutputItem::Message { content, phase } => {
            for piece in content {
                match piece {
                    OutputContent::OutputText { text } if !text.is_empty() => {
                        let phase = phase.as_ref().filter(|phase| !phase.is_null());
                        let blob = phase.map(|phase| blob(json!({ super::PHASE: phase })));
                        parts.push(Part::Text { text, blob });
                    }
                    OutputContent::Refusal { refusal } => *stop = StopReason::Refused(refusal),
                    OutputContent::OutputText { .. } | OutputContent::Other => {}
                }
            }
        }
        OutputItem::FunctionCall { call_id, name, arguments } => {
            parts.push(Part::Call(ModelCall {
                id: ids.take(call_id.as_deref().unwrap_or_default()),
                name,
                arguments: if arguments.is_empty() { "{}".to_owned() } else { arguments },
                blob: None,
            }))
        }
        // For an item without its content, the provider searches its stored items, and fails.
        OutputItem::Reasoning { encrypted_content: None, .. } | OutputItem::Other => {}
        OutputItem::Reasoning { id, summary, content, encrypted_content } => {
            let mut value = json!({ "type": "reasoning" });
            let members = [
                ("id", id),
                ("summary", Some(if summary.is_null() { json!([]) } else { summary })),
                ("content", content),
                ("encrypted_content", encrypted_content),
            ];
            for (name, member) in members {
                if let Some(member) = member {
                    value[name] = member;
                }
            }
            parts.push(Part::Blob(blob(value)));
        }
    }
}
