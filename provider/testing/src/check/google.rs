//! Gemini: <https://ai.google.dev/api/generate-content>. Calls are described in
//! <https://ai.google.dev/gemini-api/docs/function-calling>, and signatures in
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use serde_json::{Value, json};

use super::{IMAGES, is_base64, list, repeated, text, unknown};
use crate::issued::Issued;
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &[&str] = &[
    "contents",
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "generationConfig",
    "cachedContent",
    "store",
];

/// The members of a part. A part has exactly one of them.
const DATA: &[&str] = &["text", "inlineData", "functionCall", "functionResponse", "fileData"];

/// The signatures for calls that Gemini did not make, in a conversation that began elsewhere:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const FOREIGN: &[&str] =
    &["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// The settings of an answer that a client may send:
/// <https://ai.google.dev/api/generate-content#v1beta.GenerationConfig>.
const GENERATION: &[&str] = &[
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "stopSequences",
    "candidateCount",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "thinkingConfig",
];

fn generation(config: &Value) -> Result<(), Refusal> {
    members(config, GENERATION, " at 'generation_config'")?;
    let thinking = &config["thinkingConfig"];
    let known = ["thinkingLevel", "thinkingBudget", "includeThoughts"];
    members(thinking, &known, " at 'generation_config.thinking_config'")?;
    if !thinking["thinkingLevel"].is_null() && !thinking["thinkingBudget"].is_null() {
        return fault("You can only set only one of thinking budget and thinking level.");
    }
    if !config["responseJsonSchema"].is_null() && config["responseMimeType"] != "application/json" {
        return fault(
            "* GenerateContentRequest.generation_config.response_mime_type: must be \
             application/json",
        );
    }
    Ok(())
}

pub(super) fn check(body: &Value, issued: &Issued) -> Result<(), Refusal> {
    members(body, MEMBERS, "")?;
    if let Some(instruction) = body.get("systemInstruction") {
        members(instruction, &["role", "parts"], " at 'system_instruction'")?;
        if list(&instruction["parts"]).is_empty() {
            return fault("* GenerateContentRequest.system_instruction.parts: must not be empty");
        }
    }
    tools(list(&body["tools"]))?;
    generation(&body["generationConfig"])?;
    let contents = list(&body["contents"]);
    if contents.is_empty() {
        return fault("* GenerateContentRequest.contents: contents is not specified");
    }
    for (at, content) in contents.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "model" };
        if content["role"] != expected {
            return fault(
                "Please ensure that multiturn requests alternate between user and model.",
            );
        }
        let place = format!("contents[{at}]");
        members(content, &["role", "parts"], &format!(" at '{place}'"))?;
        let parts = list(&content["parts"]);
        if parts.is_empty() {
            return fault(format!(
                "* GenerateContentRequest.{place}.parts: contents.parts must not be empty."
            ));
        }
        for (index, part) in parts.iter().enumerate() {
            self::part(part, expected, &format!("{place}.parts[{index}]"), issued)?;
        }
        let before = at.checked_sub(1).map_or(&Value::Null, |before| &contents[before]["parts"]);
        responses(list(before), parts)?;
    }
    if contents.len().is_multiple_of(2) {
        return fault(
            "Please ensure that single turn requests end with a user role or the role field is \
             empty.",
        );
    }
    signatures(contents, issued)
}

fn fault<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message))
}

fn members(value: &Value, known: &[&str], place: &str) -> Result<(), Refusal> {
    match unknown(value, known) {
        Some(name) => fault(format!(
            "Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."
        )),
        None => Ok(()),
    }
}

/// The maximum number of functions: <https://github.com/google-gemini/gemini-cli/issues/19083>.
const DECLARATIONS: usize = 512;

fn tools(tools: &[Value]) -> Result<(), Refusal> {
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        members(tool, &["functionDeclarations"], &format!(" at 'tools[{at}]'"))?;
        for (index, function) in list(&tool["functionDeclarations"]).iter().enumerate() {
            let place = format!("tools[{at}].function_declarations[{index}]");
            let known = ["name", "description", "parameters", "parametersJsonSchema"];
            members(function, &known, &format!(" at '{place}'"))?;
            let name = text(&function["name"]);
            if !is_name(name) {
                return fault(format!(
                    "* GenerateContentRequest.{place}.name: Invalid function name. Must start \
                     with a letter or an underscore."
                ));
            }
            names.push(name);
            if function.get("parameters").is_some()
                && function.get("parametersJsonSchema").is_some()
            {
                return fault(format!(
                    "{place}: parameters and parameters_json_schema are both set"
                ));
            }
            schema(&function["parameters"], &format!("{place}.parameters"))?;
        }
    }
    if names.len() > DECLARATIONS {
        return fault(format!(
            "* tools[0].function_declarations: [FIELD_INVALID] At most {DECLARATIONS} function \
             declarations can be specified."
        ));
    }
    match repeated(names) {
        Some(name) => fault(format!("Duplicate function declaration found: {name}")),
        None => Ok(()),
    }
}

/// Returns whether a name is a letter or an underscore, then letters, digits, `_`, `.`, `:` and
/// `-`; 64 at most.
fn is_name(name: &str) -> bool {
    let is_start = |first: char| first.is_ascii_alphabetic() || first == '_';
    let is_rest = |next: char| next.is_ascii_alphanumeric() || "_.:-".contains(next);
    name.starts_with(is_start) && name.chars().all(is_rest) && name.len() <= 64
}

/// Checks `parameters`, Google's own kind of schema, which has only these members:
/// <https://ai.google.dev/api/caching#Schema>.
fn schema(schema: &Value, place: &str) -> Result<(), Refusal> {
    const KNOWN: &[&str] = &[
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "items",
        "minimum",
        "maximum",
    ];
    members(schema, KNOWN, &format!(" at '{place}'"))?;
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in properties {
        self::schema(property, &format!("{place}.properties[{name}]"))?;
    }
    for inner in list(&schema["anyOf"]).iter().chain(schema.get("items")) {
        self::schema(inner, &format!("{place}.items"))?;
    }
    Ok(())
}

fn part(part: &Value, role: &str, place: &str, issued: &Issued) -> Result<(), Refusal> {
    let known: Vec<&str> = DATA.iter().copied().chain(["thought", "thoughtSignature"]).collect();
    members(part, &known, &format!(" at '{place}'"))?;
    let held: Vec<&str> = DATA.iter().copied().filter(|data| part.get(data).is_some()).collect();
    let signature = part["thoughtSignature"].as_str();
    match held.as_slice() {
        ["text"] if text(&part["text"]).is_empty() && signature.is_none() => {
            return fault("Unable to submit request because it must have a text parameter.");
        }
        ["text"] => {}
        ["inlineData"] if role == "user" && is_image(&part["inlineData"]) => {}
        ["functionCall"] if role == "model" => {
            let call = &part["functionCall"];
            members(call, &["id", "name", "args"], &format!(" at '{place}.function_call'"))?;
            if !matches!(call["args"], Value::Null | Value::Object(_)) {
                return fault(format!("Invalid value at '{place}.function_call.args'"));
            }
        }
        ["functionResponse"] if role == "user" => {
            let response = &part["functionResponse"];
            let known = ["id", "name", "response", "parts"];
            members(response, &known, &format!(" at '{place}.function_response'"))?;
            if text(&response["name"]).is_empty() {
                return fault(format!(
                    "* GenerateContentRequest.{place}.function_response.name: Name cannot be \
                     empty."
                ));
            }
            if !list(&response["parts"]).iter().all(|part| is_image(&part["inlineData"])) {
                return fault(format!("Invalid value at '{place}.function_response.parts'"));
            }
            if !response["response"].is_object() {
                return fault(format!("Invalid value at '{place}.function_response.response'"));
            }
        }
        _ => {
            return fault(format!(
                "* GenerateContentRequest.{place}.data: required oneof field 'data' must have \
                 one initialized field"
            ));
        }
    }
    match signature {
        Some(signature) if issued.signed(signature).is_none() && !FOREIGN.contains(&signature) => {
            fault("Thought signature is not valid.")
        }
        _ => Ok(()),
    }
}

/// Returns whether inline data is an image that Gemini takes.
fn is_image(data: &Value) -> bool {
    let kind = text(&data["mimeType"]);
    IMAGES.contains(&kind)
        && kind != "image/gif"
        && is_base64(text(&data["data"]))
        && unknown(data, &["mimeType", "data", "displayName"]).is_none()
}

/// Checks that the content after calls has exactly their results.
fn responses(before: &[Value], now: &[Value]) -> Result<(), Refusal> {
    let names = |parts: &[Value], kind: &str| {
        let mut all: Vec<(String, String)> = parts
            .iter()
            .filter_map(|part| part.get(kind))
            .map(|held| (text(&held["name"]).to_owned(), text(&held["id"]).to_owned()))
            .collect();
        all.sort();
        all
    };
    let calls = names(before, "functionCall");
    let answered = names(now, "functionResponse");
    if calls.len() != answered.len() {
        return fault(
            "Please ensure that the number of function response parts is equal to the number of \
             function call parts of the function call turn.",
        );
    }
    if calls != answered {
        return fault(format!(
            "the function responses {answered:?} do not match the function calls {calls:?}"
        ));
    }
    Ok(())
}

/// Checks the signatures. In the current turn, the first call of each step must have one, as Gemini
/// 3 requires, and every signature must be on the part for which it was issued.
fn signatures(contents: &[Value], issued: &Issued) -> Result<(), Refusal> {
    let is_prompt = |content: &Value| {
        let parts = list(&content["parts"]);
        content["role"] == "user" && parts.iter().all(|part| part["functionResponse"].is_null())
    };
    let begin = contents.iter().rposition(is_prompt).unwrap_or_default();
    for (at, content) in contents.iter().enumerate() {
        let calls = list(&content["parts"]).iter().filter(|part| part["functionCall"].is_object());
        for (index, part) in calls.enumerate() {
            let call = &part["functionCall"];
            let args = if call["args"].is_null() { json!({}) } else { call["args"].clone() };
            let signed = json!({ "name": call["name"], "args": args });
            match part["thoughtSignature"].as_str() {
                Some(signature)
                    if !FOREIGN.contains(&signature)
                        && issued.signed(signature) != Some(&signed) =>
                {
                    return fault("Thought signature is not valid.");
                }
                None if index == 0 && at > begin => {
                    return fault(format!(
                        "Function call is missing a thought_signature in functionCall parts. \
                         This is required for tools to work correctly, and missing \
                         thought_signature may lead to degraded model performance. Additional \
                         data, function call `default_api:{}`, position {}.",
                        text(&call["name"]),
                        at + 1
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
