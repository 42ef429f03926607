//! A request of the Gemini API.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::blob;
use crate::wire::arguments::RawObject;
use crate::wire::{PostRequest, has_tools, names, to_json};
use crate::{
    AnswerShape, Blob, Effort, Image, ImageType, Message, ModelRequest, Part, Provider, Role,
};

/// The signature of a call that another model made. Gemini 3 refuses a turn whose first call has no
/// signature: <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>. It is sent to every
/// model, since aliases like `gemini-flash-latest` do not show which model they are. Gemini 2.5 has
/// been seen to refuse such turns too, <https://github.com/Gitlawb/openclaude/issues/583>, although
/// the page denies it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The members for a result that is not an object, and for an error:
/// <https://ai.google.dev/api/caching#FunctionResponse>.
const OUTPUT: &str = "output";
const ERROR: &str = "error";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerateBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Generation<'a>>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<RequestPart<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    /// <https://ai.google.dev/gemini-api/docs/structured-output>
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

/// <https://ai.google.dev/gemini-api/docs/thinking>
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u32>,
    include_thoughts: bool,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<RequestPart<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RequestPart<'a> {
    #[serde(rename_all = "camelCase")]
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: GoogleCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Result {
        function_response: FunctionResponse<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        inline_data: InlineData<'a>,
    },
    /// A line about an image.
    Line {
        text: String,
    },
    Blob(&'a Value),
}

/// <https://ai.google.dev/gemini-api/docs/image-understanding>
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'static str,
    data: &'a str,
}

/// An image within the result of a call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultImage<'a> {
    inline_data: InlineData<'a>,
}

impl<'a> InlineData<'a> {
    /// Returns the data of an image, or nothing for a GIF, which Google does not accept.
    fn from_image(image: &'a Image) -> Option<Self> {
        let kind = image.kind();
        let (mime_type, data) = (kind.media_type(), image.base64());
        (kind != ImageType::Gif).then_some(Self { mime_type, data })
    }
}

/// Returns an image, or a line that replaces it.
fn image(image: &Image) -> RequestPart<'_> {
    match InlineData::from_image(image) {
        Some(inline_data) => RequestPart::Image { inline_data },
        None => RequestPart::Line { text: format!("{image} is left out: Google takes no GIF") },
    }
}

#[derive(Serialize)]
struct GoogleCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: RawObject,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: RawObject,
    /// Images, which only some models accept here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<ResultImage<'a>>,
}

pub(in crate::wire) fn outgoing(request: &ModelRequest<'_>) -> PostRequest {
    let system: Vec<_> = request
        .system
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| RequestPart::Text { text, thought_signature: None })
        .collect();
    let body = GenerateBody {
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        contents: contents(request),
        tools: Some(request.tools).filter(|tools| has_tools(tools)),
        generation_config: generation(request),
    };
    // Models are listed as `models/NAME`, and tuned ones as `tunedModels/NAME`.
    let model = request.model.trim_matches('/');
    let (collection, model) = model.split_once('/').unwrap_or(("models", model));
    let method = format!("{model}:streamGenerateContent");
    PostRequest {
        path: vec!["v1beta".into(), collection.to_owned(), method],
        query: Some("alt=sse"),
        body: to_json(&body),
    }
}

/// Returns the settings of the answer, if there are any.
fn generation<'a>(request: &ModelRequest<'a>) -> Option<Generation<'a>> {
    let settings = request.settings;
    let is_set = request.max_output.is_some()
        || request.shape.is_some()
        || settings.effort.is_some()
        || settings.temperature.is_some();
    is_set.then(|| Generation {
        max_output_tokens: request.max_output,
        temperature: settings.temperature,
        thinking_config: settings.effort.map(|effort| thinking(request.model, effort)),
        response_mime_type: request.shape.map(|_| "application/json"),
        response_json_schema: request.shape.map(AnswerShape::sent),
    })
}

/// Returns the form of an effort. Gemini 2.5 knows only numbers of tokens. The numbers here are the
/// ones that Google gives for the same words in <https://ai.google.dev/gemini-api/docs/openai>.
fn thinking(model: &str, effort: Effort) -> ThinkingConfig {
    let budget = match effort {
        _ if !model.contains("gemini-2.5") => None,
        Effort::None => Some(0),
        Effort::Minimal | Effort::Low => Some(1024),
        Effort::Medium => Some(8192),
        Effort::High | Effort::XHigh | Effort::Max => Some(24_576),
    };
    let level = budget.is_none().then_some(effort);
    ThinkingConfig { thinking_level: level, thinking_budget: budget, include_thoughts: true }
}

fn contents<'a>(request: &ModelRequest<'a>) -> Vec<Content<'a>> {
    let own = ModelBlobs::from_request(request);
    let mut contents: Vec<Content<'_>> = Vec::new();
    for message in request.messages {
        let (role, mut parts) = match message.role {
            Role::User => ("user", Vec::new()),
            Role::Model => ("model", Vec::new()),
        };
        let mut is_signed = own.signs(message);
        for part in &message.parts {
            parts.extend(own.sent(part, &mut is_signed));
        }
        parts.extend(own.beside_results(message));
        // The results of calls must be together and directly after them.
        parts.sort_by_key(|part| role == "user" && !matches!(part, RequestPart::Result { .. }));
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => contents.push(Content { role, parts }),
        }
    }
    contents
}

/// Selects the blobs of the requested model from those of all models.
struct ModelBlobs<'a> {
    model: &'a str,
    /// Google's ids of its calls, by the ids of this crate.
    calls: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> ModelBlobs<'a> {
    fn from_request(request: &ModelRequest<'a>) -> Self {
        let mut own = Self { model: request.model, calls: HashMap::new() };
        for part in request.messages.iter().flat_map(|message| &message.parts) {
            if let Part::Call(call) = part
                && let Some(blob) = own.blob(call.blob.as_ref())
            {
                own.calls.insert(&call.id, text(blob, blob::ID));
            }
        }
        own
    }

    fn blob<'b>(&self, blob: Option<&'b Blob>) -> Option<&'b Blob> {
        blob.filter(|blob| blob.is_for(Provider::Google, self.model))
    }

    fn signature<'b>(&self, blob: Option<&'b Blob>) -> Option<&'b str> {
        text(self.blob(blob)?, blob::SIGNATURE)
    }

    /// Returns whether a call of the message has a signature. The other calls of the same step need
    /// none.
    fn signs(&self, message: &Message) -> bool {
        message.parts.iter().any(|part| match part {
            Part::Call(call) => self.signature(call.blob.as_ref()).is_some(),
            _ => false,
        })
    }

    fn sent(&self, part: &'a Part, is_signed: &mut bool) -> Option<RequestPart<'a>> {
        match part {
            Part::Text { text, blob } => {
                let thought_signature = self.signature(blob.as_ref());
                // A signature may be on an empty text.
                (!text.is_empty() || thought_signature.is_some())
                    .then_some(RequestPart::Text { text, thought_signature })
            }
            Part::Call(call) => {
                let signature = self.signature(call.blob.as_ref());
                let missing = (!std::mem::replace(is_signed, true)).then_some(NO_SIGNATURE);
                let own = self.blob(call.blob.as_ref());
                let function_call = GoogleCall {
                    id: own.and_then(|blob| text(blob, blob::ID)),
                    name: name(&call.name, own.is_some()),
                    args: RawObject::of_arguments(&call.arguments),
                };
                Some(RequestPart::Call { function_call, thought_signature: signature.or(missing) })
            }
            Part::Result(result) => {
                let own = self.calls.get(result.id.as_str());
                let member = if result.is_error { ERROR } else { OUTPUT };
                let function_response = FunctionResponse {
                    id: own.copied().flatten(),
                    name: name(&result.name, own.is_some()),
                    response: RawObject::parse(&result.content, member),
                    parts: self.within(&result.images),
                };
                Some(RequestPart::Result { function_response })
            }
            Part::Image(part) => Some(image(part)),
            Part::Blob(blob) => self.blob(Some(blob)).map(|blob| RequestPart::Blob(&blob.value)),
        }
    }

    /// Returns the images of a result that are sent within it.
    fn within<'b>(&self, images: &'b [Image]) -> Vec<ResultImage<'b>> {
        if !has_images_in_results(self.model) {
            return Vec::new();
        }
        let images = images.iter().filter_map(InlineData::from_image);
        images.map(|inline_data| ResultImage { inline_data }).collect()
    }

    /// Returns the images of results that are sent next to the results, with the names of the
    /// tools.
    fn beside_results(&self, message: &'a Message) -> Vec<RequestPart<'a>> {
        let is_beside = |image: &&Image| {
            !has_images_in_results(self.model) || InlineData::from_image(image).is_none()
        };
        let mut parts = Vec::new();
        for part in &message.parts {
            let Part::Result(result) = part else { continue };
            let mut images = result.images.iter().filter(is_beside).peekable();
            if images.peek().is_some() {
                parts.push(RequestPart::Line {
                    text: format!("From the result of {}:", result.name),
                });
            }
            parts.extend(images.map(image));
        }
        parts
    }
}

/// Returns whether a model accepts images inside the results of calls, as all models since Gemini 3
/// do: <https://ai.google.dev/gemini-api/docs/function-calling#multimodal>. These models refuse
/// images next to a result (<https://github.com/google-gemini/gemini-cli/pull/29611>), and older
/// models refuse them inside it.
fn has_images_in_results(model: &str) -> bool {
    !["gemini-1", "gemini-2", "gemma"].iter().any(|older| model.contains(older))
}

/// Returns the name of a call. The model's own calls keep their names, because the signature covers
/// the whole call.
fn name(name: &str, is_own: bool) -> Cow<'_, str> {
    if is_own { name.into() } else { names::sent(Provider::Google, name) }
}

fn text<'a>(blob: &'a Blob, name: &str) -> Option<&'a str> {
    blob.value.get(name)?.as_str()
}
