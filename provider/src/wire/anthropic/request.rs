//! A request of the Messages API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::wire::arguments::RawObject;
use crate::wire::ids::SentIds;
use crate::wire::{PostRequest, has_tools, names, to_json};
use crate::{CallResult, Effort, Image, ModelRequest, Part, Provider, Role};

/// The limit on an answer, which the API requires. This is the largest limit that each model in
/// service accepts: Claude Opus 4.1 has the smallest maximum
/// (<https://docs.anthropic.com/en/docs/about-claude/models/overview>). Anthropic charges only for
/// tokens that are written.
const MAX_TOKENS: u32 = 32_000;

/// The role of the user and of tool results.
const USER: &str = "user";

/// The mark for the end of a cached part of the prompt. At most 4 blocks of a request may have it:
/// <https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching>. One is on the last tool,
/// one on the last block of the system prompt, and [`MARKED_TURNS`] are in the conversation.
const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

/// The number of user messages with a mark, counted from the end. With the mark on the last
/// message, each round of a turn pays in full only for the messages since the round before. A mark
/// finds cached blocks at most 20 blocks before it, and a round with many parallel calls has more.
/// So the last message of the round before keeps its mark.
const MARKED_TURNS: usize = 2;

/// Parts of the names of models that think only with a budget, or not at all. They refuse
/// [`AdaptiveThinking`]; Claude Opus 4.5 accepts an effort without it.
const NOT_ADAPTIVE: &[&str] =
    &["claude-2", "claude-3", "-4-0", "-4-1", "-4-5", "-4-2025", "-4.1", "-4.5"];

#[derive(Serialize)]
struct MessagesBody<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<System<'a>>,
    messages: Vec<MessageParam<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<AdaptiveThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
}

/// The thinking of a model that decides itself when to think, including between calls:
/// <https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking>.
#[derive(Serialize)]
struct AdaptiveThinking {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Newer models do not send their thoughts unless the request asks for them.
    display: &'static str,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>
#[derive(Serialize)]
struct OutputFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a Value,
}

#[derive(Serialize)]
struct System<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct MessageParam<'a> {
    role: &'static str,
    content: Vec<MessageBlock<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessageBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: RawObject,
    },
    Image {
        source: ImageSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    #[serde(untagged)]
    Blob(&'a Value),
}

/// The content of a result.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    /// The text and the images after it.
    Blocks(Vec<MessageBlock<'a>>),
}

/// <https://platform.claude.com/docs/en/build-with-claude/vision>
#[derive(Serialize)]
struct ImageSource<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'static str,
    data: &'a str,
}

impl<'a> MessageBlock<'a> {
    fn image(image: &'a Image) -> Self {
        let (media_type, data) = (image.kind().media_type(), image.base64());
        Self::Image {
            source: ImageSource { kind: "base64", media_type, data },
            cache_control: None,
        }
    }
}

pub(in crate::wire) fn outgoing(request: &ModelRequest<'_>) -> PostRequest {
    let ids = SentIds::from_messages(request.messages);
    let mut system: Vec<System<'_>> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| System { kind: "text", text, cache_control: None })
        .collect();
    if let Some(last) = system.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    let mut messages = turns(request, &ids);
    let of_user = messages.iter_mut().rev().filter(|turn| turn.role == USER);
    of_user.take(MARKED_TURNS).filter_map(|turn| turn.content.last_mut()).for_each(mark);
    let effort = request.settings.effort;
    let format =
        request.shape.map(|shape| OutputFormat { kind: "json_schema", schema: shape.sent() });
    let body = MessagesBody {
        model: request.model,
        max_tokens: request.max_output.unwrap_or(MAX_TOKENS),
        system,
        messages,
        tools: Some(request.tools).filter(|tools| has_tools(tools)),
        thinking: effort
            .filter(|_| is_adaptive(request.model))
            .map(|_| AdaptiveThinking { kind: "adaptive", display: "summarized" }),
        output_config: (effort.is_some() || format.is_some())
            .then_some(OutputConfig { effort, format }),
        temperature: request.settings.temperature,
        stream: true,
    };
    PostRequest { path: vec!["v1".into(), "messages".into()], query: None, body: to_json(&body) }
}

fn is_adaptive(model: &str) -> bool {
    !NOT_ADAPTIVE.iter().any(|part| model.contains(part))
}

/// Returns the messages that are not empty. Consecutive messages of one side are merged.
fn turns<'a>(request: &ModelRequest<'a>, ids: &SentIds<'_>) -> Vec<MessageParam<'a>> {
    let mut turns: Vec<MessageParam<'a>> = Vec::new();
    for message in request.messages {
        let role = match message.role {
            Role::User => USER,
            Role::Model => "assistant",
        };
        let blocks = message.parts.iter().filter_map(|part| block(part, ids, request.model));
        let mut content: Vec<MessageBlock<'a>> = blocks.collect();
        match message.role {
            // Results must come before everything else; the sort keeps their order.
            Role::User => {
                content.sort_by_key(|block| !matches!(block, MessageBlock::ToolResult { .. }));
            }
            // Thoughts at the end of a message are refused.
            Role::Model => {
                while content.pop_if(|block| matches!(block, MessageBlock::Blob(_))).is_some() {}
            }
        }
        match turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(MessageParam { role, content }),
        }
    }
    turns
}

/// Marks everything up to this block as cached. A user message has only blocks of these kinds, and
/// thoughts cannot have a mark.
fn mark(block: &mut MessageBlock<'_>) {
    match block {
        MessageBlock::Text { cache_control, .. }
        | MessageBlock::Image { cache_control, .. }
        | MessageBlock::ToolResult { cache_control, .. } => {
            *cache_control = Some(EPHEMERAL);
        }
        MessageBlock::ToolUse { .. } | MessageBlock::Blob(_) => {}
    }
}

fn block<'a>(part: &'a Part, ids: &SentIds<'_>, model: &str) -> Option<MessageBlock<'a>> {
    match part {
        // "text content blocks must contain non-whitespace text".
        Part::Text { text, .. } if text.trim().is_empty() => None,
        Part::Text { text, .. } => Some(MessageBlock::Text { text, cache_control: None }),
        Part::Call(call) => Some(MessageBlock::ToolUse {
            id: ids.get(&call.id),
            name: names::sent(Provider::Anthropic, &call.name),
            input: RawObject::of_arguments(&call.arguments),
        }),
        Part::Result(result) => Some(MessageBlock::ToolResult {
            tool_use_id: ids.get(&result.id),
            content: content(result),
            is_error: result.is_error,
            cache_control: None,
        }),
        Part::Image(image) => Some(MessageBlock::image(image)),
        Part::Blob(blob) => {
            blob.is_for(Provider::Anthropic, model).then_some(MessageBlock::Blob(&blob.value))
        }
    }
}

/// Returns the content of a result, or nothing if it is empty.
fn content(result: &CallResult) -> Option<ResultContent<'_>> {
    let CallResult { content: text, images, .. } = result;
    if images.is_empty() {
        return (!text.is_empty()).then_some(ResultContent::Text(text));
    }
    let text =
        (!text.trim().is_empty()).then_some(MessageBlock::Text { text, cache_control: None });
    Some(ResultContent::Blocks(
        text.into_iter().chain(images.iter().map(MessageBlock::image)).collect(),
    ))
}
