//! A request of the Messages API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::wire::arguments::Object;
use crate::wire::ids::SentIds;
use crate::wire::{Outgoing, has_tools, names, to_json};
use crate::{Message, Part, Provider, Request, Role};

/// The API wants a bound on every answer. This is the largest that each model in service
/// accepts (<https://docs.anthropic.com/en/docs/about-claude/models/overview>: the smallest of
/// the maxima is that of Claude Opus 4.1); only what is written is paid for.
const MAX_TOKENS: u32 = 32_000;

/// What marks how far a prompt is cached.
const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<System<'a>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    stream: bool,
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
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Object,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    #[serde(untagged)]
    Blob(&'a Value),
}

pub(in crate::wire) fn outgoing(request: &Request<'_>) -> Outgoing {
    let ids = SentIds::of(request.messages);
    let mut system: Vec<System<'_>> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| System { kind: "text", text, cache_control: None })
        .collect();
    if let Some(last) = system.last_mut() {
        last.cache_control = Some(EPHEMERAL);
    }
    let body = Body {
        model: request.model,
        max_tokens: request.max_output.unwrap_or(MAX_TOKENS),
        system,
        messages: turns(request.messages, &ids),
        tools: Some(request.tools).filter(|tools| has_tools(tools)),
        stream: true,
    };
    Outgoing { path: vec!["v1".into(), "messages".into()], query: None, body: to_json(&body) }
}

/// The messages that have something to say. Where one has not, its neighbours are of one side
/// and become one.
fn turns<'a>(messages: &'a [Message], ids: &SentIds<'_>) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::User => "user",
            Role::Model => "assistant",
        };
        let mut content: Vec<Block<'a>> =
            message.parts.iter().filter_map(|part| block(part, ids)).collect();
        match message.role {
            // Results must come before everything else; the sort keeps their order.
            Role::User => {
                content.sort_by_key(|block| !matches!(block, Block::ToolResult { .. }));
            }
            // Thoughts that led to nothing are refused at the end of a message.
            Role::Model => {
                while content.pop_if(|block| matches!(block, Block::Blob(_))).is_some() {}
            }
        }
        match turns.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(content),
            _ => turns.push(Turn { role, content }),
        }
    }
    turns
}

fn block<'a>(part: &'a Part, ids: &SentIds<'_>) -> Option<Block<'a>> {
    match part {
        // "text content blocks must contain non-whitespace text".
        Part::Text { text, .. } if text.trim().is_empty() => None,
        Part::Text { text, .. } => Some(Block::Text { text }),
        Part::Call(call) => Some(Block::ToolUse {
            id: ids.get(&call.id),
            name: names::sent(Provider::Anthropic, &call.name),
            input: Object::of_arguments(&call.arguments),
        }),
        Part::Result(result) => Some(Block::ToolResult {
            tool_use_id: ids.get(&result.id),
            content: &result.content,
            is_error: result.is_error,
        }),
        Part::Blob(blob) => {
            (blob.provider == Provider::Anthropic).then_some(Block::Blob(&blob.value))
        }
    }
}
