//! Chat Completions: <https://platform.openai.com/docs/api-reference/chat/create>.

use serde_json::Value;

use super::openai::{self, fault, fault_if, members};
use super::{is_image_url, is_plain, list, repeated, text, unknown};
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &str = "model messages stream stream_options tools tool_choice parallel_tool_calls \
    max_tokens max_completion_tokens temperature top_p n stop seed store metadata user \
    reasoning_effort response_format service_tier prompt_cache_key safety_identifier verbosity";

pub(super) fn check(body: &Value) -> Result<(), Refusal> {
    if let Some(name) = unknown(body, MEMBERS) {
        return Err(Refusal::invalid(format!("Unrecognized request argument supplied: {name}")));
    }
    fault_if(text(&body["model"]).is_empty(), "you must provide a model parameter", "model")?;
    not_empty(body.get("tools").filter(|tools| !tools.is_null()), "tools")?;
    openai::tools(list(&body["tools"]), Some("function"))?;
    let format = &body["response_format"];
    openai::settings(&body["reasoning_effort"], format, &format["json_schema"])?;
    messages(list(&body["messages"]))
}

/// Refuses a list that is there and empty.
fn not_empty(value: Option<&Value>, place: &str) -> Result<(), Refusal> {
    fault_if(
        value.is_some_and(|value| list(value).is_empty()),
        format!(
            "Invalid '{place}': empty array. Expected an array with minimum length 1, but got an \
             empty array instead."
        ),
        place,
    )
}

fn messages(messages: &[Value]) -> Result<(), Refusal> {
    fault_if(messages.is_empty(), "Invalid 'messages': empty array.", "messages")?;
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
    let place = format!("messages[{at}].");
    let known = match role {
        "system" | "developer" | "user" => "role content name",
        // Some local servers accept the thoughts of their models back.
        "assistant" => "role content name refusal tool_calls reasoning_content",
        "tool" => "role content tool_call_id",
        _ => return fault(format!("Invalid value: '{role}'."), format!("{place}role")),
    };
    members(message, known, &place)?;
    let (content, calls) = (&message["content"], message.get("tool_calls"));
    let is_content = match content {
        Value::String(_) => true,
        Value::Array(parts) => {
            let are_texts = parts.iter().all(|part| part["type"] == "text");
            are_texts || role == "user" && parts.iter().all(is_piece)
        }
        Value::Null => calls.is_some(),
        _ => false,
    };
    fault_if(
        !is_content,
        format!("Invalid value for 'content': expected a string, got {content}."),
        format!("{place}content"),
    )?;
    not_empty(calls, &format!("{place}tool_calls"))?;
    for (index, call) in calls.map(list).unwrap_or_default().iter().enumerate() {
        let place = format!("{place}tool_calls[{index}]");
        let function = &call["function"];
        let is_whole = call["type"] == "function"
            && !text(&call["id"]).is_empty()
            && is_plain(text(&function["name"]), 64)
            && function["arguments"].is_string()
            && unknown(call, "id type function").is_none()
            && unknown(function, "name arguments").is_none();
        fault_if(!is_whole, format!("Invalid '{place}': {call}"), place)?;
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
