//! Chat Completions: <https://platform.openai.com/docs/api-reference/chat/create>.

use serde_json::{Value, json};

use super::{is_image_url, is_plain, list, openai, repeated, strict, text, unknown};
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &[&str] = &[
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "n",
    "stop",
    "seed",
    "store",
    "metadata",
    "user",
    "reasoning_effort",
    "response_format",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
    "verbosity",
];

pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    if let Some(name) = unknown(body, MEMBERS) {
        return Err(Refusal::invalid(format!("Unrecognized request argument supplied: {name}")));
    }
    if text(&body["model"]).is_empty() {
        return Err(Refusal::invalid("you must provide a model parameter"));
    }
    tools(&body["tools"])?;
    let effort = &body["reasoning_effort"];
    if !effort.is_null() && !strict::EFFORTS.contains(&text(effort)) {
        return fault(format!("Invalid value: {effort}."), "reasoning_effort");
    }
    let format = &body["response_format"];
    if format["type"] == "json_schema"
        && let Some(wrong) = strict::fault_of_format(&format["json_schema"])
    {
        return fault(wrong, "response_format");
    }
    messages(list(&body["messages"]))
}

fn fault<T>(message: impl Into<String>, param: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message).param(param))
}

fn tools(tools: &Value) -> Result<(), Refusal> {
    if tools.as_array().is_some_and(Vec::is_empty) {
        return fault(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an \
             empty array instead.",
            "tools",
        );
    }
    openai::too_many(list(tools))?;
    for (at, tool) in list(tools).iter().enumerate() {
        let function = &tool["function"];
        let name = text(&function["name"]);
        let place = format!("tools[{at}].function");
        if tool["type"] != "function" {
            return fault(format!("Missing required parameter: 'tools[{at}].type'."), "tools");
        }
        if !is_plain(name, 64) {
            return fault(
                format!("Invalid '{place}.name': string does not match pattern."),
                format!("{place}.name"),
            );
        }
        let known = ["name", "description", "parameters", "strict"];
        if let Some(extra) = unknown(function, &known) {
            let place = format!("{place}.{extra}");
            return fault(format!("Unknown parameter: '{place}'."), place);
        }
        let is_strict = function["strict"] == json!(true);
        if let Some(wrong) = strict::fault_of_tool(name, &function["parameters"], is_strict) {
            return Err(Refusal::invalid(wrong)
                .param(format!("{place}.parameters"))
                .code("invalid_function_parameters"));
        }
    }
    match repeated(list(tools).iter().map(|tool| text(&tool["function"]["name"]))) {
        Some(name) => fault(format!("Duplicate function name: {name}"), "tools"),
        None => Ok(()),
    }
}

fn messages(messages: &[Value]) -> Result<(), Refusal> {
    if messages.is_empty() {
        return fault("Invalid 'messages': empty array.", "messages");
    }
    // The calls without a result so far.
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let place = format!("messages.[{at}].role");
        let role = text(&message["role"]);
        if role == "tool" {
            let id = text(&message["tool_call_id"]);
            let Some(place) = open.iter().position(|open| *open == id) else {
                return fault(
                    "Invalid parameter: messages with role 'tool' must be a response to a \
                     preceeding message with 'tool_calls'.",
                    place,
                );
            };
            open.remove(place);
        } else if !open.is_empty() {
            return unanswered(&open, place);
        }
        self::message(at, role, message)?;
        let calls = list(&message["tool_calls"]);
        open.extend(calls.iter().map(|call| text(&call["id"])));
        if let Some(id) = repeated(open.iter().copied()) {
            return fault(format!("Duplicate value for 'tool_call_id' of {id}"), place);
        }
    }
    if open.is_empty() { Ok(()) } else { unanswered(&open, "messages".to_owned()) }
}

fn unanswered(open: &[&str], place: String) -> Result<(), Refusal> {
    fault(
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages \
             responding to each 'tool_call_id'. The following tool_call_ids did not have \
             response messages: {}",
            open.join(", ")
        ),
        place,
    )
}

fn message(at: usize, role: &str, message: &Value) -> Result<(), Refusal> {
    let known: &[&str] = match role {
        "system" | "developer" | "user" => &["role", "content", "name"],
        // Some local servers accept the thoughts of their models back.
        "assistant" => &["role", "content", "name", "refusal", "tool_calls", "reasoning_content"],
        "tool" => &["role", "content", "tool_call_id"],
        _ => {
            return fault(
                format!(
                    "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'."
                ),
                format!("messages[{at}].role"),
            );
        }
    };
    if let Some(name) = unknown(message, known) {
        let place = format!("messages[{at}].{name}");
        return fault(format!("Unknown parameter: '{place}'."), place);
    }
    let place = format!("messages.[{at}].content");
    let has_calls = message.get("tool_calls").is_some();
    match &message["content"] {
        Value::String(_) => {}
        Value::Array(parts) if parts.iter().all(|part| part["type"] == "text") => {}
        Value::Array(parts) if role == "user" && parts.iter().all(is_piece) => {}
        Value::Null if has_calls => {}
        other => {
            return fault(
                format!("Invalid value for 'content': expected a string, got {other}."),
                place,
            );
        }
    }
    if has_calls && list(&message["tool_calls"]).is_empty() {
        return fault(
            format!(
                "Invalid 'messages[{at}].tool_calls': empty array. Expected an array with \
                 minimum length 1, but got an empty array instead."
            ),
            place,
        );
    }
    for (index, call) in list(&message["tool_calls"]).iter().enumerate() {
        let place = format!("messages[{at}].tool_calls[{index}]");
        let function = &call["function"];
        let is_whole = call["type"] == "function"
            && !text(&call["id"]).is_empty()
            && is_plain(text(&function["name"]), 64)
            && function["arguments"].is_string()
            && unknown(call, &["id", "type", "function"]).is_none()
            && unknown(function, &["name", "arguments"]).is_none();
        if !is_whole {
            return fault(format!("Invalid '{place}': {call}"), place);
        }
    }
    Ok(())
}

/// Returns whether a part may be in the content of a user.
fn is_piece(part: &Value) -> bool {
    match text(&part["type"]) {
        "text" => !text(&part["text"]).is_empty(),
        "image_url" => is_image_url(text(&part["image_url"]["url"])),
        _ => false,
    }
}
