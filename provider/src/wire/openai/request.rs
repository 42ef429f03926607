//! A request of the Responses API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::wire::ids::SentIds;
use crate::wire::{PostRequest, SHAPE_NAME, has_tools, names, to_json};
use crate::{AnswerShape, Blob, CallResult, Effort, Image, ModelRequest, Part, Provider, Role};

/// The option that includes encrypted thoughts. Thoughts cannot be sent back without it, because
/// the answer is not stored:
/// <https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items>.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

/// The prefixes of models that do not reason. They refuse [`ENCRYPTED_REASONING`] with 400,
/// "Encrypted content is not supported with this model":
/// <https://github.com/pydantic/pydantic-ai/issues/3326>. All later models reason, including the
/// chat models after `gpt-5-chat`. Without the option they would forget their thoughts between
/// calls.
const NOT_REASONING: &[&str] = &["gpt-3.5", "gpt-4", "chatgpt-4o", "gpt-5-chat"];

#[derive(Serialize)]
struct ResponsesBody<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    input: Vec<InputItem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextConfig<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    store: bool,
    stream: bool,
}

#[derive(Serialize)]
struct Reasoning {
    effort: Effort,
    /// Asks for a summary of the thoughts, which is otherwise not sent. Some accounts are not
    /// allowed to have it, so it is requested only if the user chose an effort.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct TextConfig<'a> {
    format: TextFormat<'a>,
}

/// <https://platform.openai.com/docs/guides/structured-outputs>
#[derive(Serialize)]
struct TextFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message {
        role: &'static str,
        /// The text, in a form that both sides may use. The model's own form, a list of
        /// `output_text`, belongs to items with the `id` and `status` of a stored answer. The
        /// description (`OutputMessage` in <https://github.com/openai/openai-openapi>) and the SDK
        /// (`ResponseOutputMessageParam`) require both, and `annotations` in each text. Only
        /// `EasyInputMessage` works without them, and it accepts the role `assistant`.
        content: MessageContent<'a>,
        /// The purpose of the text, a comment or the answer; newer models expect it back.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a Value>,
    },
    FunctionCall {
        call_id: String,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: String,
        /// Text, or a list with images:
        /// <https://platform.openai.com/docs/guides/function-calling#formatting-results>.
        output: MessageContent<'a>,
    },
    #[serde(untagged)]
    Blob(&'a Value),
}

/// The content of a message, or of a result.
#[derive(Serialize)]
#[serde(untagged)]
enum MessageContent<'a> {
    Text(&'a str),
    Inputs(Vec<InputContent<'a>>),
}

/// <https://platform.openai.com/docs/guides/images-vision>
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputContent<'a> {
    InputText {
        text: &'a str,
    },
    InputImage {
        image_url: String,
        /// The description of the interface requires it; this is its default.
        detail: &'static str,
    },
}

impl InputContent<'_> {
    fn image(image: &Image) -> Self {
        Self::InputImage { image_url: image.data_url(), detail: "auto" }
    }
}

pub(in crate::wire) fn outgoing(request: &ModelRequest<'_>) -> PostRequest {
    let ids = SentIds::from_messages(request.messages);
    let mut input = Vec::new();
    for message in request.messages {
        let mut parts: Vec<&Part> = message.parts.iter().collect();
        // Results follow their calls directly; the user's text comes after them.
        parts.sort_by_key(|part| message.role == Role::User && !matches!(part, Part::Result(_)));
        input.extend(
            parts.into_iter().filter_map(|part| item(message.role, part, &ids, request.model)),
        );
        // Thoughts at the end: "provided without its required following item".
        if message.role == Role::Model {
            while input.pop_if(|item| matches!(item, InputItem::Blob(_))).is_some() {}
        }
    }
    let body = ResponsesBody {
        model: request.model,
        instructions: (!request.system.is_empty()).then(|| request.system.join("\n\n")),
        input,
        tools: Some(request.tools).filter(|tools| has_tools(tools)),
        max_output_tokens: request.max_output,
        reasoning: request.settings.effort.map(|effort| Reasoning {
            effort,
            summary: (effort != Effort::None).then_some("auto"),
        }),
        temperature: request.settings.temperature,
        text: request.shape.map(text),
        include: if reasons(request.model) { &[ENCRYPTED_REASONING] } else { &[] },
        store: false,
        stream: true,
    };
    PostRequest { path: vec!["responses".into()], query: None, body: to_json(&body) }
}

fn text(shape: &AnswerShape) -> TextConfig<'_> {
    let (name, schema) = (SHAPE_NAME, shape.sent());
    TextConfig { format: TextFormat { kind: "json_schema", name, schema, strict: true } }
}

fn reasons(model: &str) -> bool {
    // Gateways put the vendor before the name, and OpenAI puts `ft:` before the base of a tuned
    // model.
    let own = model.rsplit_once('/').map_or(model, |(_, own)| own);
    let base = own.strip_prefix("ft:").unwrap_or(own);
    !NOT_REASONING.iter().any(|start| base.starts_with(start))
}

fn item<'a>(role: Role, part: &'a Part, ids: &SentIds<'_>, model: &str) -> Option<InputItem<'a>> {
    match part {
        Part::Text { text, .. } if text.is_empty() => None,
        Part::Text { text, blob } => Some(match role {
            Role::User => InputItem::Message {
                role: "user",
                content: MessageContent::Text(text),
                phase: None,
            },
            Role::Model => InputItem::Message {
                role: "assistant",
                content: MessageContent::Text(text),
                phase: own(blob.as_ref(), model).and_then(|members| members.get(super::PHASE)),
            },
        }),
        Part::Call(call) => Some(InputItem::FunctionCall {
            call_id: ids.get(&call.id),
            name: names::sent(Provider::OpenAi, &call.name),
            arguments: if call.arguments.is_empty() {
                "{}".into()
            } else {
                (&call.arguments).into()
            },
        }),
        Part::Result(result) => Some(InputItem::FunctionCallOutput {
            call_id: ids.get(&result.id),
            output: output(result),
        }),
        Part::Image(image) => Some(InputItem::Message {
            role: "user",
            content: MessageContent::Inputs(vec![InputContent::image(image)]),
            phase: None,
        }),
        Part::Blob(blob) => is_own(blob, model).then_some(InputItem::Blob(&blob.value)),
    }
}

fn output(result: &CallResult) -> MessageContent<'_> {
    let CallResult { content: text, images, .. } = result;
    if images.is_empty() {
        return MessageContent::Text(text);
    }
    let text = (!text.is_empty()).then_some(InputContent::InputText { text });
    MessageContent::Inputs(text.into_iter().chain(images.iter().map(InputContent::image)).collect())
}

fn is_own(blob: &Blob, model: &str) -> bool {
    blob.is_for(Provider::OpenAi, model)
}

fn own<'a>(blob: Option<&'a Blob>, model: &str) -> Option<&'a Map<String, Value>> {
    blob.filter(|blob| is_own(blob, model))?.value.as_object()
}
