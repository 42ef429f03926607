//! The Responses API: <https://platform.openai.com/docs/api-reference/responses/create>, reasoning
//! items in <https://platform.openai.com/docs/guides/reasoning>.

use serde_json::{Value, json};

use super::{is_image_url, is_plain, list, repeated, strict, text, unknown};
use crate::issued::Issued;
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "stream_options",
    "store",
    "include",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "max_tool_calls",
    "reasoning",
    "text",
    "temperature",
    "top_p",
    "truncation",
    "metadata",
    "service_tier",
    "background",
    "previous_response_id",
    "conversation",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
];

pub(super) fn check(body: &Value, issued: &Issued) -> Result<(), Refusal> {
    if let Some(name) = unknown(body, MEMBERS) {
        return fault(format!("Unknown parameter: '{name}'."), name);
    }
    if text(&body["model"]).is_empty() {
        return fault("Missing required parameter: 'model'.", "model");
    }
    if !matches!(body["instructions"], Value::Null | Value::String(_)) {
        return fault("Invalid type for 'instructions': expected a string.", "instructions");
    }
    tools(list(&body["tools"]))?;
    settings(body)?;
    match &body["input"] {
        Value::String(_) => Ok(()),
        Value::Array(items) if !items.is_empty() => input(items, body, issued),
        _ => fault("Missing required parameter: 'input'.", "input"),
    }
}

fn settings(body: &Value) -> Result<(), Refusal> {
    let reasoning = &body["reasoning"];
    if let Some(name) = unknown(reasoning, &["effort", "summary"]) {
        return fault(format!("Unknown parameter: 'reasoning.{name}'."), "reasoning");
    }
    let effort = &reasoning["effort"];
    if !effort.is_null() && !strict::EFFORTS.contains(&text(effort)) {
        return fault(format!("Invalid value: {effort}."), "reasoning.effort");
    }
    let format = &body["text"]["format"];
    if format["type"] == "json_schema"
        && let Some(wrong) = strict::fault_of_format(format)
    {
        return fault(wrong, "text.format.schema");
    }
    Ok(())
}

fn fault<T>(message: impl Into<String>, param: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message).param(param))
}

/// The maximum number of functions, for both interfaces:
/// <https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools>.
const TOOLS: usize = 128;

fn tools(tools: &[Value]) -> Result<(), Refusal> {
    too_many(tools)?;
    for (at, tool) in tools.iter().enumerate() {
        let (name, place) = (text(&tool["name"]), format!("tools[{at}]"));
        if tool["type"] != "function" {
            return fault(format!("Missing required parameter: '{place}.type'."), place);
        }
        if !is_plain(name, 64) {
            return fault(format!("Invalid '{place}.name': string does not match pattern."), place);
        }
        let known = ["type", "name", "description", "parameters", "strict"];
        if let Some(extra) = unknown(tool, &known) {
            return fault(format!("Unknown parameter: '{place}.{extra}'."), place);
        }
        // The default is strict.
        let is_strict = tool["strict"] != json!(false);
        if let Some(wrong) = strict::fault_of_tool(name, &tool["parameters"], is_strict) {
            return Err(Refusal::invalid(wrong)
                .param(format!("{place}.parameters"))
                .code("invalid_function_parameters"));
        }
    }
    match repeated(tools.iter().map(|tool| text(&tool["name"]))) {
        Some(name) => fault(format!("Duplicate function name: {name}"), "tools"),
        None => Ok(()),
    }
}

/// Refuses too many tools.
pub(super) fn too_many(tools: &[Value]) -> Result<(), Refusal> {
    if tools.len() <= TOOLS {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "Invalid 'tools': array too long. Expected an array with maximum length {TOOLS}, but got \
         an array with length {} instead.",
        tools.len()
    ))
    .param("tools")
    .code("array_above_max_length"))
}

fn input(items: &[Value], body: &Value, issued: &Issued) -> Result<(), Refusal> {
    for (at, item) in items.iter().enumerate() {
        match text(&item["type"]) {
            "" | "message" => message(at, item)?,
            "function_call" => call(at, item)?,
            "function_call_output" => output(at, item)?,
            "reasoning" => reasoning(at, item, body, issued)?,
            kind => {
                let place = format!("input[{at}]");
                return fault(format!("Invalid value: '{kind}'."), place);
            }
        }
    }
    if let Some(id) = repeated(items.iter().filter_map(|item| item["id"].as_str())) {
        return fault(
            format!(
                "Duplicate item found with id {id}. Remove duplicate items from your input and \
                 try again."
            ),
            "input",
        );
    }
    reasons(items, issued)?;
    pairs(items)
}

fn members(at: usize, item: &Value, known: &[&str]) -> Result<(), Refusal> {
    match unknown(item, known) {
        Some(name) => {
            let place = format!("input[{at}].{name}");
            fault(format!("Unknown parameter: '{place}'."), place)
        }
        None => Ok(()),
    }
}

/// Checks a message. It is a text with a role (`EasyInputMessage`), a list of inputs, or the
/// model's text as the API returned it (`OutputMessage`), with all its members:
/// <https://github.com/openai/openai-openapi>.
fn message(at: usize, item: &Value) -> Result<(), Refusal> {
    members(at, item, &["type", "id", "role", "content", "status", "phase"])?;
    let role = text(&item["role"]);
    let place = format!("input[{at}]");
    if !["user", "system", "developer", "assistant"].contains(&role) {
        return fault(format!("Invalid value: '{role}'."), format!("{place}.role"));
    }
    let missing = |name: &str| {
        let place = format!("{place}.{name}");
        fault(format!("Missing required parameter: '{place}'."), place)
    };
    let parts = match &item["content"] {
        Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        _ => return missing("content"),
    };
    let is_answer = role == "assistant";
    if is_answer
        && let Some(name) = ["id", "status"].into_iter().find(|name| !item[name].is_string())
    {
        return missing(name);
    }
    for (index, part) in parts.iter().enumerate() {
        let kind = text(&part["type"]);
        let is_known = match kind {
            "input_text" => !is_answer && part["text"].is_string(),
            "input_image" => !is_answer && is_input_image(part),
            "output_text" => is_answer && part["text"].is_string(),
            "refusal" => is_answer && part["refusal"].is_string(),
            _ => false,
        };
        if !is_known {
            let place = format!("{place}.content[{index}]");
            return fault(format!("Invalid value: '{kind}'."), place);
        }
        if kind == "output_text" && !part["annotations"].is_array() {
            return missing(&format!("content[{index}].annotations"));
        }
    }
    Ok(())
}

fn call(at: usize, item: &Value) -> Result<(), Refusal> {
    members(at, item, &["type", "id", "call_id", "name", "arguments", "status"])?;
    let place = format!("input[{at}]");
    if text(&item["call_id"]).is_empty() || !is_plain(text(&item["name"]), 128) {
        return fault(format!("Missing required parameter: '{place}.call_id'."), place);
    }
    if !item["arguments"].is_string() {
        return fault(
            format!("Invalid type for '{place}.arguments': expected a string."),
            format!("{place}.arguments"),
        );
    }
    match item.get("id").map(text) {
        Some(id) if !id.starts_with("fc") => fault(
            format!("Invalid '{place}.id': '{id}'. Expected an ID that begins with 'fc'."),
            format!("{place}.id"),
        ),
        _ => Ok(()),
    }
}

fn output(at: usize, item: &Value) -> Result<(), Refusal> {
    members(at, item, &["type", "id", "call_id", "output", "status"])?;
    match &item["output"] {
        Value::String(_) => Ok(()),
        Value::Array(parts) if parts.iter().all(is_input) => Ok(()),
        _ => fault(
            format!("Missing required parameter: 'input[{at}].output'."),
            format!("input[{at}].output"),
        ),
    }
}

/// Returns whether a part may be in the list of an output.
fn is_input(part: &Value) -> bool {
    match text(&part["type"]) {
        "input_text" => part["text"].is_string(),
        "input_image" => is_input_image(part),
        _ => false,
    }
}

fn is_input_image(part: &Value) -> bool {
    is_image_url(text(&part["image_url"]))
        && ["auto", "low", "high"].contains(&text(&part["detail"]))
        && unknown(part, &["type", "image_url", "detail"]).is_none()
}

fn reasoning(at: usize, item: &Value, body: &Value, issued: &Issued) -> Result<(), Refusal> {
    members(at, item, &["type", "id", "summary", "content", "encrypted_content", "status"])?;
    let (id, place) = (text(&item["id"]), format!("input[{at}]"));
    if !item["summary"].is_array() {
        return fault(format!("Missing required parameter: '{place}.summary'."), place);
    }
    match item["encrypted_content"].as_str() {
        Some(content) if issued.signed(content) != Some(&json!(id)) => Err(Refusal::invalid(
            format!("The encrypted content for item {id} could not be verified."),
        )
        .code("invalid_encrypted_content")),
        None if body["store"] == json!(false) => Err(Refusal::new(
            404,
            format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to \
                 false. Try again with `store` set to true, or remove this item from your input."
            ),
        )
        .param("input")),
        _ => Ok(()),
    }
}

/// Checks that every reasoning item is directly before the item that came from it, and that neither
/// occurs without the other.
fn reasons(items: &[Value], issued: &Issued) -> Result<(), Refusal> {
    for (at, item) in items.iter().enumerate() {
        let id = text(&item["id"]);
        let before = at.checked_sub(1).map_or("", |before| text(&items[before]["id"]));
        if let Some(reason) = issued.reason_of(id)
            && before != reason
        {
            let kind = text(&item["type"]);
            return fault(
                format!(
                    "Item '{id}' of type '{kind}' was provided without its required \
                     'reasoning' item: '{reason}'."
                ),
                "input",
            );
        }
        let follows = items
            .get(at + 1)
            .is_some_and(|next| next["type"] == "function_call" || next["role"] == "assistant");
        if item["type"] == "reasoning" && !follows {
            return fault(
                format!(
                    "Item '{id}' of type 'reasoning' was provided without its required \
                     following item."
                ),
                "input",
            );
        }
    }
    Ok(())
}

/// Checks that every call has one result after it, and every result its call.
fn pairs(items: &[Value]) -> Result<(), Refusal> {
    let mut open: Vec<&str> = Vec::new();
    let mut calls: Vec<&str> = Vec::new();
    for item in items {
        let id = text(&item["call_id"]);
        if item["type"] == "function_call" {
            if calls.contains(&id) {
                return fault(format!("Duplicate function call with call_id {id}."), "input");
            }
            calls.push(id);
            open.push(id);
        } else if item["type"] == "function_call_output" {
            let Some(place) = open.iter().position(|open| *open == id) else {
                return fault(
                    format!("No tool call found for function call output with call_id {id}."),
                    "input",
                );
            };
            open.remove(place);
        }
    }
    match open.first() {
        Some(id) => fault(format!("No tool output found for function call {id}."), "input"),
        None => Ok(()),
    }
}
