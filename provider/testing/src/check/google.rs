//! Gemini: <https://ai.google.dev/api/generate-content>. Calls are described in
//! <https://ai.google.dev/gemini-api/docs/function-calling>, and signatures in
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use serde_json::{Value, json};

use super::{IMAGES, fault, fault_if, is_base64, list, repeated, text, unknown};
use crate::issued::Issued;
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &str = "contents tools toolConfig safetySettings systemInstruction \
    generationConfig cachedContent store";

/// The members of a part. A part has exactly one of them.
const DATA: &str = "text inlineData functionCall functionResponse fileData";

/// The signatures for calls that Gemini did not make, in a conversation that began elsewhere:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const FOREIGN: &[&str] =
    &["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// The settings of an answer that a client may send:
/// <https://ai.google.dev/api/generate-content#v1beta.GenerationConfig>.
const GENERATION: &str = "maxOutputTokens temperature topP topK seed stopSequences \
    candidateCount responseMimeType responseSchema responseJsonSchema thinkingConfig";

/// The members of `parameters`, Google's own kind of schema:
/// <https://ai.google.dev/api/caching#Schema>.
const SCHEMA: &str = "type format title description nullable enum maxItems minItems properties \
    required minProperties maxProperties minLength maxLength pattern example anyOf \
    propertyOrdering default items minimum maximum";

/// The maximum number of functions: <https://github.com/google-gemini/gemini-cli/issues/19083>.
const DECLARATIONS: usize = 512;

pub(super) fn check(body: &Value, issued: &Issued) -> Result<(), Refusal> {
    members(body, MEMBERS, "")?;
    if let Some(instruction) = body.get("systemInstruction") {
        members(instruction, "role parts", "system_instruction")?;
        fault_if(
            list(&instruction["parts"]).is_empty(),
            "* GenerateContentRequest.system_instruction.parts: must not be empty",
        )?;
    }
    tools(list(&body["tools"]))?;
    generation(&body["generationConfig"])?;
    let contents = list(&body["contents"]);
    fault_if(contents.is_empty(), "* GenerateContentRequest.contents: contents is not specified")?;
    for (at, content) in contents.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "model" };
        fault_if(
            content["role"] != expected,
            "Please ensure that multiturn requests alternate between user and model.",
        )?;
        let place = format!("contents[{at}]");
        members(content, "role parts", &place)?;
        let parts = list(&content["parts"]);
        fault_if(
            parts.is_empty(),
            format!("* GenerateContentRequest.{place}.parts: contents.parts must not be empty."),
        )?;
        for (index, part) in parts.iter().enumerate() {
            self::part(part, expected, &format!("{place}.parts[{index}]"), issued)?;
        }
        let before = at.checked_sub(1).map_or(&Value::Null, |before| &contents[before]["parts"]);
        responses(list(before), parts)?;
    }
    fault_if(
        contents.len().is_multiple_of(2),
        "Please ensure that single turn requests end with a user role or the role field is empty.",
    )?;
    signatures(contents, issued)
}

/// Refuses a member that is not among the known ones.
fn members(value: &Value, known: &str, place: &str) -> Result<(), Refusal> {
    let Some(name) = unknown(value, known) else { return Ok(()) };
    let at = if place.is_empty() { String::new() } else { format!(" at '{place}'") };
    fault(format!("Invalid JSON payload received. Unknown name \"{name}\"{at}: Cannot find field."))
}

fn generation(config: &Value) -> Result<(), Refusal> {
    members(config, GENERATION, "generation_config")?;
    let thinking = &config["thinkingConfig"];
    let known = "thinkingLevel thinkingBudget includeThoughts";
    members(thinking, known, "generation_config.thinking_config")?;
    fault_if(
        !thinking["thinkingLevel"].is_null() && !thinking["thinkingBudget"].is_null(),
        "You can only set only one of thinking budget and thinking level.",
    )?;
    fault_if(
        !config["responseJsonSchema"].is_null() && config["responseMimeType"] != "application/json",
        "* GenerateContentRequest.generation_config.response_mime_type: must be application/json",
    )
}

fn tools(tools: &[Value]) -> Result<(), Refusal> {
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        members(tool, "functionDeclarations", &format!("tools[{at}]"))?;
        for (index, function) in list(&tool["functionDeclarations"]).iter().enumerate() {
            let place = format!("tools[{at}].function_declarations[{index}]");
            members(function, "name description parameters parametersJsonSchema", &place)?;
            let name = text(&function["name"]);
            fault_if(
                !is_name(name),
                format!(
                    "* GenerateContentRequest.{place}.name: Invalid function name. Must start \
                     with a letter or an underscore."
                ),
            )?;
            names.push(name);
            let has = |member: &str| function.get(member).is_some();
            fault_if(
                has("parameters") && has("parametersJsonSchema"),
                format!("{place}: parameters and parameters_json_schema are both set"),
            )?;
            schema(&function["parameters"], &format!("{place}.parameters"))?;
        }
    }
    fault_if(
        names.len() > DECLARATIONS,
        format!(
            "* tools[0].function_declarations: [FIELD_INVALID] At most {DECLARATIONS} function \
             declarations can be specified."
        ),
    )?;
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

fn schema(schema: &Value, place: &str) -> Result<(), Refusal> {
    members(schema, SCHEMA, place)?;
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        self::schema(property, &format!("{place}.properties[{name}]"))?;
    }
    let mut inner = list(&schema["anyOf"]).iter().chain(schema.get("items"));
    inner.try_for_each(|inner| self::schema(inner, &format!("{place}.items")))
}

fn part(part: &Value, role: &str, place: &str, issued: &Issued) -> Result<(), Refusal> {
    members(part, &format!("{DATA} thought thoughtSignature"), place)?;
    let data: Vec<&str> = DATA.split(' ').filter(|data| part.get(*data).is_some()).collect();
    let signature = part["thoughtSignature"].as_str();
    match (data.as_slice(), role) {
        (["text"], _) => fault_if(
            text(&part["text"]).is_empty() && signature.is_none(),
            "Unable to submit request because it must have a text parameter.",
        )?,
        (["inlineData"], "user") if is_image(&part["inlineData"]) => {}
        (["functionCall"], "model") => {
            let call = &part["functionCall"];
            let place = format!("{place}.function_call");
            members(call, "id name args", &place)?;
            let is_object = matches!(call["args"], Value::Null | Value::Object(_));
            fault_if(!is_object, format!("Invalid value at '{place}.args'"))?;
        }
        (["functionResponse"], "user") => {
            let response = &part["functionResponse"];
            let place = format!("{place}.function_response");
            members(response, "id name response parts", &place)?;
            fault_if(
                text(&response["name"]).is_empty(),
                format!("* GenerateContentRequest.{place}.name: Name cannot be empty."),
            )?;
            let are_images =
                list(&response["parts"]).iter().all(|part| is_image(&part["inlineData"]));
            fault_if(!are_images, format!("Invalid value at '{place}.parts'"))?;
            let is_object = response["response"].is_object();
            fault_if(!is_object, format!("Invalid value at '{place}.response'"))?;
        }
        _ => {
            return fault(format!(
                "* GenerateContentRequest.{place}.data: required oneof field 'data' must have \
                 one initialized field"
            ));
        }
    }
    let is_known = |signature| issued.signed(signature).is_some() || FOREIGN.contains(&signature);
    fault_if(signature.is_some_and(|it| !is_known(it)), "Thought signature is not valid.")
}

/// Returns whether inline data is an image that Gemini takes.
fn is_image(data: &Value) -> bool {
    let kind = text(&data["mimeType"]);
    IMAGES.contains(&kind)
        && kind != "image/gif"
        && is_base64(text(&data["data"]))
        && unknown(data, "mimeType data displayName").is_none()
}

/// Checks that the content after calls has exactly their results.
fn responses(before: &[Value], now: &[Value]) -> Result<(), Refusal> {
    let names = |parts: &[Value], kind: &str| {
        let of_kind = parts.iter().filter_map(|part| part.get(kind));
        let names = of_kind.map(|data| [&data["name"], &data["id"]].map(|it| text(it).to_owned()));
        let mut names: Vec<[String; 2]> = names.collect();
        names.sort();
        names
    };
    let (calls, answered) = (names(before, "functionCall"), names(now, "functionResponse"));
    fault_if(
        calls.len() != answered.len(),
        "Please ensure that the number of function response parts is equal to the number of \
         function call parts of the function call turn.",
    )?;
    fault_if(
        calls != answered,
        format!("the function responses {answered:?} do not match the function calls {calls:?}"),
    )
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
