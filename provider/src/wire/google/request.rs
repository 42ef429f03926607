//! A request of the Gemini API.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::blob;
use crate::wire::arguments::Object;
use crate::wire::{Outgoing, has_tools, names, to_json};
use crate::{Blob, Message, Part, Provider, Request, Role};

/// What stands for a signature where there is none, because another model made the call. Gemini
/// 3 refuses a turn whose first call has none:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The member under which a result is sent that is no object, and the one for an error:
/// <https://ai.google.dev/api/caching#FunctionResponse>.
const OUTPUT: &str = "output";
const ERROR: &str = "error";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Generation>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<Sent<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
    max_output_tokens: u32,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Sent<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Sent<'a> {
    #[serde(rename_all = "camelCase")]
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Call {
        function_call: Call<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    Result {
        function_response: Response<'a>,
    },
    Blob(&'a Value),
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: Object,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: Object,
}

pub(in crate::wire) fn outgoing(request: &Request<'_>) -> Outgoing {
    let system: Vec<_> = request
        .system
        .iter()
        .filter(|text| !text.is_empty())
        .map(|text| Sent::Text { text, thought_signature: None })
        .collect();
    let body = Body {
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        contents: contents(request.messages),
        tools: Some(request.tools).filter(|tools| has_tools(tools)),
        generation_config: request
            .max_output
            .map(|max_output_tokens| Generation { max_output_tokens }),
    };
    // Models are listed as `models/NAME`, and tuned ones as `tunedModels/NAME`.
    let model = request.model.trim_matches('/');
    let (collection, model) = model.split_once('/').unwrap_or(("models", model));
    let method = format!("{model}:streamGenerateContent");
    Outgoing {
        path: vec!["v1beta".into(), collection.to_owned(), method],
        query: Some("alt=sse"),
        body: to_json(&body),
    }
}

fn contents(messages: &[Message]) -> Vec<Content<'_>> {
    let own_calls = own_calls(messages);
    let mut contents: Vec<Content<'_>> = Vec::new();
    for message in messages {
        let (role, mut parts) = match message.role {
            Role::User => ("user", Vec::new()),
            Role::Model => ("model", Vec::new()),
        };
        let mut is_signed = is_signed(message);
        for part in &message.parts {
            parts.extend(sent(part, &own_calls, &mut is_signed));
        }
        // The results of calls belong together and directly after them.
        parts.sort_by_key(|part| role == "user" && !matches!(part, Sent::Result { .. }));
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => contents.push(Content { role, parts }),
        }
    }
    contents
}

/// Whether a call of the message has its signature; the others of the same step need none.
fn is_signed(message: &Message) -> bool {
    message.parts.iter().any(|part| match part {
        Part::Call(call) => member(call.blob.as_ref(), blob::SIGNATURE).is_some(),
        _ => false,
    })
}

/// The calls that Google's models made, by the ids of this crate, with the ids that Google gave
/// to them.
fn own_calls(messages: &[Message]) -> HashMap<&str, Option<&str>> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            Part::Call(call) if is_own(call) => {
                Some((call.id.as_str(), member(call.blob.as_ref(), blob::ID)))
            }
            _ => None,
        })
        .collect()
}

fn is_own(call: &crate::Call) -> bool {
    call.blob.as_ref().is_some_and(|blob| blob.provider == Provider::Google)
}

/// The name of a call. What Google named it stays: its signature is that of the whole call.
fn name(name: &str, is_own: bool) -> Cow<'_, str> {
    if is_own { name.into() } else { names::sent(Provider::Google, name) }
}

fn sent<'a>(
    part: &'a Part,
    own_calls: &HashMap<&str, Option<&'a str>>,
    is_signed: &mut bool,
) -> Option<Sent<'a>> {
    match part {
        Part::Text { text, blob } => {
            let thought_signature = member(blob.as_ref(), blob::SIGNATURE);
            // A signature may come alone, on a text without a letter.
            (!text.is_empty() || thought_signature.is_some())
                .then_some(Sent::Text { text, thought_signature })
        }
        Part::Call(call) => {
            let own = member(call.blob.as_ref(), blob::SIGNATURE);
            let missing = (!std::mem::replace(is_signed, true)).then_some(NO_SIGNATURE);
            let function_call = Call {
                id: member(call.blob.as_ref(), blob::ID),
                name: name(&call.name, is_own(call)),
                args: Object::of_arguments(&call.arguments),
            };
            Some(Sent::Call { function_call, thought_signature: own.or(missing) })
        }
        Part::Result(result) => {
            let own = own_calls.get(result.id.as_str());
            let function_response = Response {
                id: own.copied().flatten(),
                name: name(&result.name, own.is_some()),
                response: Object::of(&result.content, if result.is_error { ERROR } else { OUTPUT }),
            };
            Some(Sent::Result { function_response })
        }
        Part::Blob(blob) => (blob.provider == Provider::Google).then_some(Sent::Blob(&blob.value)),
    }
}

fn member<'a>(blob: Option<&'a Blob>, name: &str) -> Option<&'a str> {
    blob.filter(|blob| blob.provider == Provider::Google)?.value.get(name)?.as_str()
}
