//! The Messages API: <https://docs.anthropic.com/en/api/messages>. Calls are described in
//! <https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use>, and thoughts
//! in <https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking>.

use serde_json::{Value, json};

use super::{IMAGES, is_base64, is_plain, list, repeated, text, unknown};
use crate::Received;
use crate::issued::Issued;
use crate::refusal::Refusal;

/// The members of a request.
const MEMBERS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "metadata",
    "temperature",
    "top_k",
    "top_p",
    "stop_sequences",
    "thinking",
    "service_tier",
    "container",
    "context_management",
    "mcp_servers",
    "output_config",
    "cache_control",
    "inference_geo",
];

pub(super) fn check(request: &Received, issued: &Issued) -> Result<(), Refusal> {
    if request.header("anthropic-version") != Some("2023-06-01") {
        return fault("anthropic-version: header is required");
    }
    let body = &request.body;
    if let Some(name) = unknown(body, MEMBERS) {
        return fault(format!("{name}: Extra inputs are not permitted"));
    }
    if text(&body["model"]).is_empty() {
        return fault("model: Field required");
    }
    match body["max_tokens"].as_u64() {
        None => return fault("max_tokens: Field required"),
        Some(0) => return fault("max_tokens: Input should be greater than or equal to 1"),
        Some(_) => {}
    }
    settings(body)?;
    tools(body)?;
    system(&body["system"])?;
    messages(&body["messages"], issued)?;
    let marks = count_marks(body);
    if marks > 4 {
        return fault(format!(
            "A maximum of 4 blocks with cache_control may be provided. Found {marks}."
        ));
    }
    Ok(())
}

fn fault<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::invalid(message))
}

/// Checks the settings of the answer:
/// <https://platform.claude.com/docs/en/build-with-claude/effort>,
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>.
fn settings(body: &Value) -> Result<(), Refusal> {
    let config = &body["output_config"];
    if let Some(name) = unknown(config, &["effort", "format"]) {
        return fault(format!("output_config.{name}: Extra inputs are not permitted"));
    }
    let effort = &config["effort"];
    if !effort.is_null() && !["low", "medium", "high", "xhigh", "max"].contains(&text(effort)) {
        return fault("output_config.effort: Input should be 'low', 'medium', 'high' or 'max'");
    }
    if !body["thinking"].is_null() && !body["temperature"].is_null() {
        return fault("`temperature` may only be set to 1 when thinking is enabled.");
    }
    let format = &config["format"];
    if format.is_null() {
        return Ok(());
    }
    if format["type"] != "json_schema" || unknown(format, &["type", "schema"]).is_some() {
        return fault("output_config.format: Input should be a json_schema");
    }
    closed(&format["schema"])
}

/// Checks that each object of a schema declares that it has no other properties.
fn closed(schema: &Value) -> Result<(), Refusal> {
    if !schema.is_object() {
        return Ok(());
    }
    if schema["type"] == "object" && schema["additionalProperties"] != json!(false) {
        return fault(
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be \
             explicitly set to false",
        );
    }
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

fn tools(body: &Value) -> Result<(), Refusal> {
    let tools = list(&body["tools"]);
    for (at, tool) in tools.iter().enumerate() {
        if !is_plain(text(&tool["name"]), 128) {
            return fault(format!(
                "tools.{at}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            ));
        }
        let schema = &tool["input_schema"];
        if schema["type"] != "object" {
            return fault(format!("tools.{at}.custom.input_schema.type: Input should be 'object'"));
        }
        if ["oneOf", "allOf", "anyOf"].iter().any(|word| schema.get(word).is_some()) {
            return fault(format!(
                "tools.{at}.custom.input_schema: input_schema does not support oneOf, allOf, or \
                 anyOf at the top level"
            ));
        }
        let known = ["name", "description", "input_schema", "cache_control", "type", "strict"];
        if let Some(name) = unknown(tool, &known) {
            return fault(format!("tools.{at}.custom.{name}: Extra inputs are not permitted"));
        }
    }
    match repeated(tools.iter().map(|tool| text(&tool["name"]))) {
        Some(_) => fault("tools: Tool names must be unique."),
        None => Ok(()),
    }
}

fn system(system: &Value) -> Result<(), Refusal> {
    for (at, block) in list(system).iter().enumerate() {
        if block["type"] != "text" || text(&block["text"]).is_empty() {
            return fault(format!("system.{at}: text content blocks must be non-empty"));
        }
    }
    match system {
        Value::Null | Value::String(_) | Value::Array(_) => Ok(()),
        _ => fault("system: Input should be a valid list"),
    }
}

fn messages(messages: &Value, issued: &Issued) -> Result<(), Refusal> {
    let messages = list(messages);
    if messages.is_empty() {
        return fault("messages: at least one message is required");
    }
    let mut ids = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = text(&message["role"]);
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        // Anthropic itself joins messages of one side. Bedrock and other servers with its format
        // refuse them with this message.
        if role != expected {
            return fault(format!(
                "messages: roles must alternate between \"user\" and \"assistant\", but found \
                 `{role}` at {at}"
            ));
        }
        let is_empty = match &message["content"] {
            Value::String(text) => text.is_empty(),
            Value::Array(blocks) => blocks.is_empty(),
            _ => true,
        };
        if is_empty {
            return fault(format!("messages.{at}: all messages must have non-empty content"));
        }
        for (index, block) in list(&message["content"]).iter().enumerate() {
            self::block(block, role, &format!("messages.{at}.content.{index}"), issued)?;
            if block["type"] == "tool_use" {
                ids.push(text(&block["id"]));
            }
        }
        let before = at.checked_sub(1).map_or(&Value::Null, |before| &messages[before]["content"]);
        results(at, list(before), list(&message["content"]))?;
    }
    if repeated(ids).is_some() {
        return fault("messages: `tool_use` ids must be unique");
    }
    if messages.len().is_multiple_of(2) {
        return fault(
            "This model does not support assistant message prefill. The conversation must end \
             with a user message.",
        );
    }
    Ok(())
}

fn block(block: &Value, role: &str, place: &str, issued: &Issued) -> Result<(), Refusal> {
    let kind = text(&block["type"]);
    let known: &[&str] = match (kind, role) {
        ("text", _) => &["type", "text", "cache_control", "citations"],
        ("image", "user") => &["type", "source", "cache_control"],
        ("tool_use", "assistant") => &["type", "id", "name", "input", "cache_control", "caller"],
        ("tool_result", "user") => &["type", "tool_use_id", "content", "is_error", "cache_control"],
        ("thinking", "assistant") => &["type", "thinking", "signature"],
        ("redacted_thinking", "assistant") => &["type", "data"],
        _ => return fault(format!("{place}: unexpected `{kind}` in a message of `{role}`")),
    };
    if let Some(name) = unknown(block, known) {
        return fault(format!("{place}.{kind}.{name}: Extra inputs are not permitted"));
    }
    match kind {
        "text" if text(&block["text"]).is_empty() => {
            fault("messages: text content blocks must be non-empty")
        }
        "text" if text(&block["text"]).trim().is_empty() => {
            fault("messages: text content blocks must contain non-whitespace text")
        }
        "image" if !is_image(&block["source"]) => {
            fault(format!("{place}.image.source.base64.data: Could not process image"))
        }
        "tool_use" if !is_plain(text(&block["id"]), usize::MAX) => {
            fault(format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"))
        }
        "tool_use" if !is_plain(text(&block["name"]), 200) => {
            fault(format!("{place}.tool_use.name: String should match pattern"))
        }
        "tool_use" if !block["input"].is_object() => {
            fault(format!("{place}.tool_use.input: Input should be a valid dictionary"))
        }
        "tool_result"
            if !matches!(block["content"], Value::Null | Value::String(_) | Value::Array(_)) =>
        {
            fault(format!("{place}.tool_result.content: Input should be a valid string"))
        }
        "tool_result" if !list(&block["content"]).iter().all(is_content) => {
            fault(format!("{place}.tool_result.content: Input should be text or images"))
        }
        "tool_result" if !matches!(block["is_error"], Value::Null | Value::Bool(_)) => {
            fault(format!("{place}.tool_result.is_error: Input should be a valid boolean"))
        }
        "thinking" if issued.signed(text(&block["signature"])) != Some(&block["thinking"]) => {
            fault(format!("{place}: Invalid `signature` in `thinking` block"))
        }
        "redacted_thinking" if issued.signed(text(&block["data"])) != Some(&json!("hidden")) => {
            fault(format!("{place}: Invalid `data` in `redacted_thinking` block"))
        }
        _ => Ok(()),
    }
}

/// Returns whether the source of an image is in base64.
fn is_image(source: &Value) -> bool {
    source["type"] == "base64"
        && IMAGES.contains(&text(&source["media_type"]))
        && is_base64(text(&source["data"]))
        && unknown(source, &["type", "media_type", "data"]).is_none()
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
    let calls: Vec<&str> = before
        .iter()
        .filter(|block| block["type"] == "tool_use")
        .map(|block| text(&block["id"]))
        .collect();
    let leading = now.iter().take_while(|block| block["type"] == "tool_result");
    let answered: Vec<&str> = leading.map(|block| text(&block["tool_use_id"])).collect();
    let missing: Vec<&str> = calls.iter().copied().filter(|id| !answered.contains(id)).collect();
    if !missing.is_empty() {
        return fault(format!(
            "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately \
             after: {}. Each `tool_use` block must have a corresponding `tool_result` block in \
             the next message.",
            at - 1,
            missing.join(", ")
        ));
    }
    for (index, block) in now.iter().enumerate() {
        let id = text(&block["tool_use_id"]);
        if block["type"] == "tool_result" && !calls.contains(&id) {
            return fault(format!(
                "messages.{at}.content.{index}: unexpected `tool_use_id` found in `tool_result` \
                 blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` \
                 block in the previous message."
            ));
        }
    }
    match repeated(answered) {
        Some(id) => fault(format!(
            "messages.{at}: each tool_use must have a single result. Found multiple \
             `tool_result` blocks with id: {id}"
        )),
        None => Ok(()),
    }
}
