//! The Messages API: <https://docs.anthropic.com/en/api/messages>. Calls are described in
//! <https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use>, and thoughts
//! in <https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking>.

use serde_json::{Value, json};

use super::{IMAGES, fault, fault_if, is_base64, is_plain, list, repeated, text, unknown};
use crate::Received;
use crate::issued::Issued;
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &str = "model messages max_tokens system stream tools tool_choice metadata \
    temperature top_k top_p stop_sequences thinking service_tier container context_management \
    mcp_servers output_config cache_control inference_geo";

pub(super) fn check(request: &Received, issued: &Issued) -> Result<(), Refusal> {
    let version = request.header("anthropic-version");
    fault_if(version != Some("2023-06-01"), "anthropic-version: header is required")?;
    let body = &request.body;
    members(body, MEMBERS, "")?;
    fault_if(text(&body["model"]).is_empty(), "model: Field required")?;
    let longest = &body["max_tokens"];
    fault_if(!longest.is_u64(), "max_tokens: Field required")?;
    fault_if(*longest == 0, "max_tokens: Input should be greater than or equal to 1")?;
    settings(body)?;
    tools(list(&body["tools"]))?;
    system(&body["system"])?;
    messages(list(&body["messages"]), issued)?;
    let marks = count_marks(body);
    fault_if(
        marks > 4,
        format!("A maximum of 4 blocks with cache_control may be provided. Found {marks}."),
    )
}

/// Refuses a member that is not among the known ones. `place` ends in a dot.
fn members(value: &Value, known: &str, place: &str) -> Result<(), Refusal> {
    match unknown(value, known) {
        Some(name) => fault(format!("{place}{name}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

/// Checks the settings of the answer:
/// <https://platform.claude.com/docs/en/build-with-claude/effort>,
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>.
fn settings(body: &Value) -> Result<(), Refusal> {
    let config = &body["output_config"];
    members(config, "effort format", "output_config.")?;
    let effort = &config["effort"];
    fault_if(
        !effort.is_null() && !["low", "medium", "high", "xhigh", "max"].contains(&text(effort)),
        "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'",
    )?;
    fault_if(
        !body["thinking"].is_null() && !body["temperature"].is_null(),
        "`temperature` may only be set to 1 when thinking is enabled.",
    )?;
    let format = &config["format"];
    if format.is_null() {
        return Ok(());
    }
    fault_if(
        format["type"] != "json_schema" || unknown(format, "type schema").is_some(),
        "output_config.format: Input should be a json_schema",
    )?;
    closed(&format["schema"])
}

/// Checks that each object of a schema declares that it has no other properties.
fn closed(schema: &Value) -> Result<(), Refusal> {
    if !schema.is_object() {
        return Ok(());
    }
    fault_if(
        schema["type"] == "object" && schema["additionalProperties"] != json!(false),
        "output_config.format.schema: For 'object' type, 'additionalProperties' must be \
         explicitly set to false",
    )?;
    let properties = schema["properties"].as_object().into_iter().flat_map(|all| all.values());
    properties.chain([&schema["items"]]).try_for_each(closed)
}

fn count_marks(value: &Value) -> usize {
    match value {
        Value::Array(all) => all.iter().map(count_marks).sum(),
        Value::Object(all) => {
            let inner: usize = all.values().map(count_marks).sum();
            inner + usize::from(all.contains_key("cache_control"))
        }
        _ => 0,
    }
}

fn tools(tools: &[Value]) -> Result<(), Refusal> {
    for (at, tool) in tools.iter().enumerate() {
        let place = format!("tools.{at}.custom");
        fault_if(
            !is_plain(text(&tool["name"]), 128),
            format!("{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"),
        )?;
        let schema = &tool["input_schema"];
        fault_if(
            schema["type"] != "object",
            format!("{place}.input_schema.type: Input should be 'object'"),
        )?;
        fault_if(
            ["oneOf", "allOf", "anyOf"].iter().any(|word| schema.get(word).is_some()),
            format!(
                "{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at \
                 the top level"
            ),
        )?;
        let known = "name description input_schema cache_control type strict";
        members(tool, known, &format!("{place}."))?;
    }
    let is_repeated = repeated(tools.iter().map(|tool| text(&tool["name"]))).is_some();
    fault_if(is_repeated, "tools: Tool names must be unique.")
}

fn system(system: &Value) -> Result<(), Refusal> {
    for (at, block) in list(system).iter().enumerate() {
        fault_if(
            block["type"] != "text" || text(&block["text"]).is_empty(),
            format!("system.{at}: text content blocks must be non-empty"),
        )?;
    }
    let is_text = matches!(system, Value::Null | Value::String(_) | Value::Array(_));
    fault_if(!is_text, "system: Input should be a valid list")
}

fn messages(messages: &[Value], issued: &Issued) -> Result<(), Refusal> {
    fault_if(messages.is_empty(), "messages: at least one message is required")?;
    let mut ids = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = text(&message["role"]);
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        // Anthropic itself joins messages of one side. Bedrock and other servers with its format
        // refuse them with this message.
        fault_if(
            role != expected,
            format!(
                "messages: roles must alternate between \"user\" and \"assistant\", but found \
                 `{role}` at {at}"
            ),
        )?;
        let content = &message["content"];
        let is_empty = text(content).is_empty() && list(content).is_empty();
        fault_if(is_empty, format!("messages.{at}: all messages must have non-empty content"))?;
        for (index, block) in list(content).iter().enumerate() {
            self::block(block, role, &format!("messages.{at}.content.{index}"), issued)?;
            if block["type"] == "tool_use" {
                ids.push(text(&block["id"]));
            }
        }
        let before = at.checked_sub(1).map_or(&Value::Null, |before| &messages[before]["content"]);
        results(at, list(before), list(content))?;
    }
    fault_if(repeated(ids).is_some(), "messages: `tool_use` ids must be unique")?;
    fault_if(
        messages.len().is_multiple_of(2),
        "This model does not support assistant message prefill. The conversation must end with a \
         user message.",
    )
}

fn block(block: &Value, role: &str, place: &str, issued: &Issued) -> Result<(), Refusal> {
    let kind = text(&block["type"]);
    let known = match (kind, role) {
        ("text", _) => "type text cache_control citations",
        ("image", "user") => "type source cache_control",
        ("tool_use", "assistant") => "type id name input cache_control caller",
        ("tool_result", "user") => "type tool_use_id content is_error cache_control",
        ("thinking", "assistant") => "type thinking signature",
        ("redacted_thinking", "assistant") => "type data",
        _ => return fault(format!("{place}: unexpected `{kind}` in a message of `{role}`")),
    };
    members(block, known, &format!("{place}.{kind}."))?;
    let place = format!("{place}.{kind}");
    match kind {
        "text" => {
            let text = text(&block["text"]);
            fault_if(text.is_empty(), "messages: text content blocks must be non-empty")?;
            fault_if(
                text.trim().is_empty(),
                "messages: text content blocks must contain non-whitespace text",
            )
        }
        "image" => fault_if(
            !is_image(&block["source"]),
            format!("{place}.source.base64.data: Could not process image"),
        ),
        "tool_use" => {
            let pattern = "String should match pattern '^[a-zA-Z0-9_-]+$'";
            let is_plain = |member: &str, longest| is_plain(text(&block[member]), longest);
            fault_if(!is_plain("id", usize::MAX), format!("{place}.id: {pattern}"))?;
            fault_if(!is_plain("name", 200), format!("{place}.name: {pattern}"))?;
            let is_object = block["input"].is_object();
            fault_if(!is_object, format!("{place}.input: Input should be a valid dictionary"))
        }
        "tool_result" => {
            let content = &block["content"];
            let is_content = matches!(content, Value::Null | Value::String(_) | Value::Array(_))
                && list(content).iter().all(is_content);
            fault_if(!is_content, format!("{place}.content: Input should be text or images"))?;
            let is_flag = matches!(block["is_error"], Value::Null | Value::Bool(_));
            fault_if(!is_flag, format!("{place}.is_error: Input should be a valid boolean"))
        }
        "thinking" => fault_if(
            issued.signed(text(&block["signature"])) != Some(&block["thinking"]),
            format!("{place}: Invalid `signature` in `thinking` block"),
        ),
        _ => fault_if(
            issued.signed(text(&block["data"])) != Some(&json!("hidden")),
            format!("{place}: Invalid `data` in `redacted_thinking` block"),
        ),
    }
}

/// Returns whether the source of an image is in base64.
fn is_image(source: &Value) -> bool {
    source["type"] == "base64"
        && IMAGES.contains(&text(&source["media_type"]))
        && is_base64(text(&source["data"]))
        && unknown(source, "type media_type data").is_none()
}

/// Returns whether a block may be in a result.
fn is_content(block: &Value) -> bool {
    match text(&block["type"]) {
        "text" => !text(&block["text"]).trim().is_empty(),
        "image" => is_image(&block["source"]),
        _ => false,
    }
}

/// Checks that the message after calls begins with their results, one for each.
fn results(at: usize, before: &[Value], now: &[Value]) -> Result<(), Refusal> {
    let calls = before.iter().filter(|block| block["type"] == "tool_use");
    let calls: Vec<&str> = calls.map(|block| text(&block["id"])).collect();
    let leading = now.iter().take_while(|block| block["type"] == "tool_result");
    let answered: Vec<&str> = leading.map(|block| text(&block["tool_use_id"])).collect();
    let missing: Vec<&str> = calls.iter().copied().filter(|id| !answered.contains(id)).collect();
    fault_if(
        !missing.is_empty(),
        format!(
            "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
             after: {}. Each `tool_use` block must have a corresponding `tool_result` block in \
             the next message.",
            at.saturating_sub(1),
            missing.join(", ")
        ),
    )?;
    for (index, block) in now.iter().enumerate() {
        let id = text(&block["tool_use_id"]);
        fault_if(
            block["type"] == "tool_result" && !calls.contains(&id),
            format!(
                "messages.{at}.content.{index}: unexpected `tool_use_id` found in `tool_result` \
                 blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` \
                 block in the previous message."
            ),
        )?;
    }
    match repeated(answered) {
        Some(id) => fault(format!(
            "messages.{at}: each tool_use must have a single result. Found multiple \
             `tool_result` blocks with id: {id}"
        )),
        None => Ok(()),
    }
}
