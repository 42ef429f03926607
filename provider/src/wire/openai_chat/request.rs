//! A request of Chat Completions, in the form that most servers accept: one system message, and
//! contents that are plain text unless they have images.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::wire::arguments::RawObject;
use crate::wire::ids::SentIds;
use crate::wire::{PostRequest, SHAPE_NAME, has_tools, names, to_json};
use crate::{AnswerShape, Blob, Effort, Image, Message, ModelRequest, Part, Provider, Role};

/// The separator of texts that are joined.
const BETWEEN: &str = "\n\n";

#[derive(Serialize)]
struct ChatBody<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    /// OpenAI's own name; its newer models refuse the other one.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    /// The name that every other server knows; Ollama knows only this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum ChatMessage<'a> {
    System {
        content: String,
    },
    User {
        content: ChatContent<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        /// The thoughts of the model, under the name that its server used.
        #[serde(flatten)]
        thoughts: Map<String, Value>,
    },
    Tool {
        tool_call_id: String,
        content: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'a> {
    Text(String),
    Parts(Vec<ContentPart<'a>>),
}

/// <https://platform.openai.com/docs/guides/images-vision?api-mode=chat>
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

impl ContentPart<'_> {
    fn image(image: &Image) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url: image.data_url() } }
    }
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    /// Text that contains an object: vLLM and llama.cpp parse it, and fail for anything else.
    #[serde(serialize_with = "as_text")]
    arguments: RawObject,
}

fn as_text<S: Serializer>(object: &RawObject, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(object.get())
}

pub(in crate::wire) fn outgoing(request: &ModelRequest<'_>, is_own_site: bool) -> PostRequest {
    let ids = SentIds::from_messages(request.messages);
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(ChatMessage::System { content: request.system.join(BETWEEN) });
    }
    // Thoughts are sent back while the calls after them are being answered, which DeepSeek
    // requires. Older thoughts would only fill the context.
    let asked = |message: &Message| {
        let mut parts = message.parts.iter();
        message.role == Role::User && parts.any(|part| matches!(part, Part::Text { .. }))
    };
    let turn = request.messages.iter().rposition(asked).unwrap_or_default();
    for (index, message) in request.messages.iter().enumerate() {
        let model = (index > turn).then_some(request.model);
        match message.role {
            Role::User => user(message, &ids, &mut messages),
            Role::Model => messages.extend(assistant(message, &ids, model)),
        }
    }
    let body = ChatBody {
        model: request.model,
        messages,
        tools: Some(request.tools).filter(|tools| has_tools(tools)),
        max_completion_tokens: request.max_output.filter(|_| is_own_site),
        max_tokens: request.max_output.filter(|_| !is_own_site),
        reasoning_effort: request.settings.effort,
        temperature: request.settings.temperature,
        response_format: request.shape.map(response_format),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    };
    PostRequest {
        path: vec!["chat".into(), "completions".into()],
        query: None,
        body: to_json(&body),
    }
}

fn response_format(shape: &AnswerShape) -> ResponseFormat<'_> {
    let json_schema = JsonSchema { name: SHAPE_NAME, schema: shape.sent(), strict: true };
    ResponseFormat { kind: "json_schema", json_schema }
}

/// Adds a user message. Results come first, because they must follow the calls directly. They can
/// only contain text, so their images are in the message after them.
fn user<'a>(message: &'a Message, ids: &SentIds<'_>, messages: &mut Vec<ChatMessage<'a>>) {
    for part in &message.parts {
        if let Part::Result(result) = part {
            messages.push(ChatMessage::Tool {
                tool_call_id: ids.get(&result.id),
                content: &result.content,
            });
        }
    }
    let pieces = pieces(message);
    if pieces.iter().any(|piece| matches!(piece, ContentPart::ImageUrl { .. })) {
        messages.push(ChatMessage::User { content: ChatContent::Parts(pieces) });
    } else if let Some(text) = text(message) {
        messages.push(ChatMessage::User { content: ChatContent::Text(text) });
    }
}

/// Returns the texts and images of a user message, the images of results first.
fn pieces(message: &Message) -> Vec<ContentPart<'_>> {
    let mut pieces = Vec::new();
    for part in &message.parts {
        if let Part::Result(result) = part
            && !result.images.is_empty()
        {
            let text = format!("From the result of {}:", result.name).into();
            pieces.push(ContentPart::Text { text });
            pieces.extend(result.images.iter().map(ContentPart::image));
        }
    }
    pieces.extend(message.parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } if !text.is_empty() => {
            Some(ContentPart::Text { text: text.into() })
        }
        Part::Image(image) => Some(ContentPart::image(image)),
        _ => None,
    }));
    pieces
}

/// Returns a message of the model, with the thoughts of `model` if its turn is not over.
fn assistant<'a>(
    message: &'a Message,
    ids: &SentIds<'_>,
    model: Option<&str>,
) -> Option<ChatMessage<'a>> {
    let is_own = |blob: &Blob| model.is_some_and(|model| blob.is_for(Provider::OpenAiChat, model));
    let mut tool_calls = Vec::new();
    let mut thoughts = Map::new();
    for part in &message.parts {
        match part {
            Part::Call(call) => tool_calls.push(ToolCall {
                id: ids.get(&call.id),
                kind: "function",
                function: Function {
                    name: names::sent(Provider::OpenAiChat, &call.name),
                    arguments: RawObject::of_arguments(&call.arguments),
                },
            }),
            Part::Blob(blob) if is_own(blob) => {
                thoughts.extend(blob.value.as_object().cloned().unwrap_or_default());
            }
            _ => {}
        }
    }
    let content = text(message);
    (content.is_some() || !tool_calls.is_empty()).then_some(ChatMessage::Assistant {
        content,
        tool_calls,
        thoughts,
    })
}

/// Joins the texts of a message.
fn text(message: &Message) -> Option<String> {
    let texts: Vec<&str> = message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Text { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join(BETWEEN))
}
