//! The Responses API: <https://platform.openai.com/docs/api-reference/responses/create>, reasoning
//! items in <https://platform.openai.com/docs/guides/reasoning>.

use serde_json::{Value, json};

use super::{is_image_url, is_plain, list, repeated, strict, text, unknown};
use crate::issued::Issued;
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &str = "model input instructions stream stream_options store include tools \
    tool_choice parallel_tool_calls max_output_tokens max_tool_calls reasoning text temperature \
    top_p truncation metadata service_tier background previous_response_id conversation prompt \
    prompt_cache_key prompt_cache_retention safety_identifier user";

pub(super) fn check(body: &Value, issued: &Issued) -> Result<(), Refusal> {
    members(body, MEMBERS, "")?;
    let is_missing = text(&body["model"]).is_empty();
    fault_if(is_missing, "Missing required parameter: 'model'.", "model")?;
    fault_if(
        !matches!(body["instructions"], Value::Null | Value::String(_)),
        "Invalid type for 'instructions': expected a string.",
        "instructions",
    )?;
    tools(list(&body["tools"]), None)?;
    members(&body["reasoning"], "effort summary", "reasoning.")?;
    let format = &body["text"]["format"];
    settings(&body["reasoning"]["effort"], format, format)?;
    match &body["input"] {
        Value::String(_) => Ok(()),
        Value::Array(items) if !items.is_empty() => input(items, body, issued),
        _ => fault("Missing required parameter: 'input'.", "input"),
    }
}

pub(super) fn fault<T>(message: impl Into<String>, param: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message).param(param))
}

pub(super) fn fault_if(
    is_wrong: bool,
    message: impl Into<String>,
    param: impl Into<String>,
) -> Result<(), Refusal> {
    if is_wrong { fault(message, param) } else { Ok(()) }
}

/// Refuses a member that is not among the known ones. `place` ends in a dot.
pub(super) fn members(value: &Value, known: &str, place: &str) -> Result<(), Refusal> {
    let Some(name) = unknown(value, known) else { return Ok(()) };
    let place = format!("{place}{name}");
    fault(format!("Unknown parameter: '{place}'."), place)
}

/// Checks the effort and the format of an answer. `schema` has the format's schema.
pub(super) fn settings(effort: &Value, format: &Value, schema: &Value) -> Result<(), Refusal> {
    fault_if(
        !effort.is_null() && !strict::EFFORTS.contains(&text(effort)),
        format!("Invalid value: {effort}."),
        "effort",
    )?;
    let is_schema = format["type"] == "json_schema";
    match is_schema.then(|| strict::fault_of_format(schema)).flatten() {
        Some(wrong) => fault(wrong, "format"),
        None => Ok(()),
    }
}

/// The maximum number of functions, for both interfaces:
/// <https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools>.
const TOOLS: usize = 128;

/// Checks the tools. Chat Completions has each function in a member of its tool, and functions are
/// not strict by default.
pub(super) fn tools(tools: &[Value], member: Option<&str>) -> Result<(), Refusal> {
    if tools.len() > TOOLS {
        return Err(Refusal::invalid(format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {TOOLS}, but \
             got an array with length {} instead.",
            tools.len()
        ))
        .param("tools")
        .code("array_above_max_length"));
    }
    let mut names = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools[{at}].");
        let is_function = tool["type"] == "function";
        fault_if(!is_function, format!("Missing required parameter: '{place}type'."), "tools")?;
        let (place, function, known) = match member {
            Some(member) => {
                (format!("{place}{member}."), &tool[member], "name description parameters strict")
            }
            None => (place, tool, "type name description parameters strict"),
        };
        let name = text(&function["name"]);
        fault_if(
            !is_plain(name, 64),
            format!("Invalid '{place}name': string does not match pattern."),
            format!("{place}name"),
        )?;
        members(function, known, &place)?;
        let is_strict = function["strict"].as_bool().unwrap_or(member.is_none());
        if let Some(wrong) = strict::fault_of_tool(name, &function["parameters"], is_strict) {
            return Err(Refusal::invalid(wrong)
                .param(format!("{place}parameters"))
                .code("invalid_function_parameters"));
        }
        names.push(name);
    }
    match repeated(names) {
        Some(name) => fault(format!("Duplicate function name: {name}"), "tools"),
        None => Ok(()),
    }
}

fn input(items: &[Value], body: &Value, issued: &Issued) -> Result<(), Refusal> {
    for (at, item) in items.iter().enumerate() {
        let place = format!("input[{at}].");
        match text(&item["type"]) {
            "" | "message" => message(&place, item)?,
            "function_call" => call(&place, item)?,
            "function_call_output" => output(&place, item)?,
            "reasoning" => reasoning(&place, item, body, issued)?,
            kind => return fault(format!("Invalid value: '{kind}'."), place),
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

/// Refuses an item without a member that it needs.
fn require(is_there: bool, place: &str, name: &str) -> Result<(), Refusal> {
    let place = format!("{place}{name}");
    fault_if(!is_there, format!("Missing required parameter: '{place}'."), place)
}

/// Checks a message. It is a text with a role (`EasyInputMessage`), a list of inputs, or the
/// model's text as the API returned it (`OutputMessage`), with all its members:
/// <https://github.com/openai/openai-openapi>.
fn message(place: &str, item: &Value) -> Result<(), Refusal> {
    members(item, "type id role content status phase", place)?;
    let role = text(&item["role"]);
    let is_known = ["user", "system", "developer", "assistant"].contains(&role);
    fault_if(!is_known, format!("Invalid value: '{role}'."), format!("{place}role"))?;
    if item["content"].is_string() {
        return Ok(());
    }
    require(item["content"].is_array(), place, "content")?;
    let is_answer = role == "assistant";
    for name in ["id", "status"] {
        require(!is_answer || item[name].is_string(), place, name)?;
    }
    for (index, part) in list(&item["content"]).iter().enumerate() {
        let kind = text(&part["type"]);
        let is_known = match kind {
            "input_text" | "input_image" => !is_answer && is_input(part),
            "output_text" => is_answer && part["text"].is_string(),
            "refusal" => is_answer && part["refusal"].is_string(),
            _ => false,
        };
        let place = format!("{place}content[{index}]");
        fault_if(!is_known, format!("Invalid value: '{kind}'."), &place)?;
        let has_annotations = kind != "output_text" || part["annotations"].is_array();
        require(has_annotations, &place, ".annotations")?;
    }
    Ok(())
}

fn call(place: &str, item: &Value) -> Result<(), Refusal> {
    members(item, "type id call_id name arguments status", place)?;
    require(!text(&item["call_id"]).is_empty(), place, "call_id")?;
    require(is_plain(text(&item["name"]), 128), place, "name")?;
    require(item["arguments"].is_string(), place, "arguments")?;
    fault_if(
        item.get("id").is_some_and(|id| !text(id).starts_with("fc")),
        format!("Invalid '{place}id': {}. Expected an ID that begins with 'fc'.", item["id"]),
        format!("{place}id"),
    )
}

fn output(place: &str, item: &Value) -> Result<(), Refusal> {
    members(item, "type id call_id output status", place)?;
    let output = &item["output"];
    let is_list = output.is_array() && list(output).iter().all(is_input);
    require(is_list || output.is_string(), place, "output")
}

/// Returns whether a part may be in a question or in the list of an output.
fn is_input(part: &Value) -> bool {
    match text(&part["type"]) {
        "input_text" => part["text"].is_string(),
        "input_image" => {
            is_image_url(text(&part["image_url"]))
                && ["auto", "low", "high"].contains(&text(&part["detail"]))
                && unknown(part, "type image_url detail").is_none()
        }
        _ => false,
    }
}

fn reasoning(place: &str, item: &Value, body: &Value, issued: &Issued) -> Result<(), Refusal> {
    members(item, "type id summary content encrypted_content status", place)?;
    require(item["summary"].is_array(), place, "summary")?;
    let id = text(&item["id"]);
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
        let kind = text(&item["type"]);
        let before = at.checked_sub(1).map_or("", |before| text(&items[before]["id"]));
        if let Some(reason) = issued.reason_of(id) {
            fault_if(
                before != reason,
                format!(
                    "Item '{id}' of type '{kind}' was provided without its required \
                     'reasoning' item: '{reason}'."
                ),
                "input",
            )?;
        }
        let follows = items
            .get(at + 1)
            .is_some_and(|next| next["type"] == "function_call" || next["role"] == "assistant");
        fault_if(
            kind == "reasoning" && !follows,
            format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            ),
            "input",
        )?;
    }
    Ok(())
}

/// Checks that every call has one result after it, and every result its call.
fn pairs(items: &[Value]) -> Result<(), Refusal> {
    let (mut open, mut calls) = (Vec::new(), Vec::new());
    for item in items {
        let id = text(&item["call_id"]);
        match text(&item["type"]) {
            "function_call" => {
                let message = format!("Duplicate function call with call_id {id}.");
                fault_if(calls.contains(&id), message, "input")?;
                calls.push(id);
                open.push(id);
            }
            "function_call_output" => {
                let message =
                    format!("No tool call found for function call output with call_id {id}.");
                fault_if(!open.contains(&id), message, "input")?;
                open.retain(|open| *open != id);
            }
            _ => {}
        }
    }
    match open.first() {
        Some(id) => fault(format!("No tool output found for function call {id}."), "input"),
        None => Ok(()),
    }
}
