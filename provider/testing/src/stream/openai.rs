//! The Responses API: <https://platform.openai.com/docs/api-reference/responses-streaming>.

use serde_json::{Value, json};

use super::{Asked, CREATED, Events, MARK, Step, fragments, obfuscation};
use crate::answer::{Answer, Ending, Piece};
use crate::{Trouble, Vendor};

/// An item that is being sent.
enum Open {
    Message { id: String, text: String },
    Reasoning { id: String, text: String },
}

struct Writer<'a, 'b> {
    events: Events,
    asked: &'a mut Asked<'b>,
    id: String,
    sequence: u64,
    open: Option<Open>,
    /// The items that are complete.
    output: Vec<Value>,
    /// The reasoning item that the next item comes from.
    reasoning: Option<String>,
}

pub(super) fn render(answer: &Answer, asked: &mut Asked<'_>) -> Vec<Step> {
    let id = asked.issued.id("resp_");
    let mut writer = Writer {
        events: Events::new("\n"),
        asked,
        id,
        sequence: 0,
        open: None,
        output: Vec::new(),
        reasoning: None,
    };
    for kind in ["response.created", "response.in_progress"] {
        let response = writer.response("in_progress");
        writer.event(json!({ "type": kind, "response": response }));
    }
    for piece in &answer.pieces {
        writer.piece(piece, answer);
    }
    writer.end(answer);
    writer.events.steps
}

impl Writer<'_, '_> {
    fn piece(&mut self, piece: &Piece, answer: &Answer) {
        match piece {
            Piece::Text(text) => self.text(text),
            Piece::Thinking(text) => self.thinking(text),
            Piece::HiddenThinking => {
                self.close("completed");
                self.start_reasoning();
                self.close("completed");
            }
            Piece::Call { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| self.asked.issued.id("call_"));
                self.call(&id, name, arguments, answer.fragment);
            }
            Piece::Ping => self.events.comment(),
            Piece::UnknownEvent => self.event(json!({ "type": "response.weather.delta" })),
            Piece::Event(event) => self.event(event.clone()),
            Piece::Error { trouble, is_other_form } => self.error(*trouble, *is_other_form),
            Piece::Bytes(bytes) => self.events.bytes(bytes.clone()),
            Piece::InvalidUtf8 => {
                self.text(MARK);
                self.events.spoil();
            }
            Piece::Stall(gate) => self.events.stall(gate),
        }
    }

    /// Adds an event with its sequence number.
    fn event(&mut self, mut event: Value) {
        event["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        self.events.typed(&event);
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": self.id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": self.asked.request.body["instructions"],
            "model": self.asked.model,
            "output": self.output,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "store": self.asked.request.body["store"] != json!(false),
            "usage": null,
            "metadata": {},
        })
    }

    fn added(&mut self, item: &Value) {
        let index = self.output.len();
        self.event(json!({
            "type": "response.output_item.added", "output_index": index, "item": item,
        }));
    }

    fn done(&mut self, item: Value) {
        let index = self.output.len();
        self.event(json!({
            "type": "response.output_item.done", "output_index": index, "item": item,
        }));
        self.output.push(item);
    }

    /// Adds an event about one part of the open item.
    fn about(&mut self, kind: &str, id: &str, part: (&str, usize), members: Value) {
        let mut event = json!({
            "type": kind, "item_id": id, "output_index": self.output.len(),
        });
        let (counter, index) = part;
        if !counter.is_empty() {
            event[counter] = json!(index);
        }
        if let Value::Object(members) = members {
            for (name, value) in members {
                event[name] = value;
            }
        }
        self.event(event);
    }

    fn text(&mut self, fragment: &str) {
        if !matches!(self.open, Some(Open::Message { .. })) {
            self.close("completed");
            let id = self.new_item("msg_");
            self.added(&json!({
                "id": id, "type": "message", "status": "in_progress", "content": [],
                "role": "assistant",
            }));
            let part =
                json!({ "type": "output_text", "annotations": [], "logprobs": [], "text": "" });
            self.about("response.content_part.added", &id, CONTENT, json!({ "part": part }));
            self.open = Some(Open::Message { id, text: String::new() });
        }
        let Some(Open::Message { id, text }) = &mut self.open else { return };
        text.push_str(fragment);
        let id = id.clone();
        let delta = json!({ "delta": fragment, "logprobs": [], "obfuscation": obfuscation() });
        self.about("response.output_text.delta", &id, CONTENT, delta);
    }

    fn thinking(&mut self, fragment: &str) {
        if !matches!(self.open, Some(Open::Reasoning { .. })) {
            self.close("completed");
            let id = self.start_reasoning();
            let part = json!({ "type": "summary_text", "text": "" });
            let kind = "response.reasoning_summary_part.added";
            self.about(kind, &id, SUMMARY, json!({ "part": part }));
        }
        let Some(Open::Reasoning { id, text }) = &mut self.open else { return };
        text.push_str(fragment);
        let id = id.clone();
        let delta = json!({ "delta": fragment, "obfuscation": obfuscation() });
        self.about("response.reasoning_summary_text.delta", &id, SUMMARY, delta);
    }

    fn start_reasoning(&mut self) -> String {
        let id = self.asked.issued.id("rs_");
        let mut item = json!({ "id": id, "type": "reasoning", "summary": [] });
        if self.encrypts() {
            // The content at the beginning differs from the content of the complete item, and the
            // vendor accepts only the latter back.
            item["encrypted_content"] = json!("gAAAAA-of-a-beginning==");
        }
        self.added(&item);
        self.open = Some(Open::Reasoning { id: id.clone(), text: String::new() });
        id
    }

    /// Returns whether thoughts are sent in a form that can be sent back:
    /// <https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items>.
    fn encrypts(&self) -> bool {
        let include = self.asked.request.body["include"].as_array();
        include.is_some_and(|all| all.contains(&json!("reasoning.encrypted_content")))
    }

    /// Returns the id of an item that follows the last reasoning item.
    fn new_item(&mut self, prefix: &str) -> String {
        let id = self.asked.issued.id(prefix);
        if let Some(reasoning) = self.reasoning.take() {
            self.asked.issued.reasoned(&id, &reasoning);
        }
        id
    }

    fn call(&mut self, call_id: &str, name: &str, arguments: &str, fragment: usize) {
        self.close("completed");
        let id = self.new_item("fc_");
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "status": status, "arguments": arguments,
                "call_id": call_id, "name": name,
            })
        };
        self.added(&item("in_progress", ""));
        for fragment in fragments(arguments, fragment) {
            let delta = json!({ "delta": fragment, "obfuscation": obfuscation() });
            self.about("response.function_call_arguments.delta", &id, ("", 0), delta);
        }
        let whole = json!({ "arguments": arguments, "name": name });
        self.about("response.function_call_arguments.done", &id, ("", 0), whole);
        self.done(item("completed", arguments));
    }

    /// Ends the item that is open.
    fn close(&mut self, status: &str) {
        match self.open.take() {
            Some(Open::Message { id, text }) => {
                let done = json!({ "text": text, "logprobs": [] });
                self.about("response.output_text.done", &id, CONTENT, done);
                let part = json!({
                    "type": "output_text", "annotations": [], "logprobs": [], "text": text,
                });
                let done = json!({ "part": part });
                self.about("response.content_part.done", &id, CONTENT, done);
                self.done(json!({
                    "id": id, "type": "message", "status": status, "content": [part],
                    "role": "assistant",
                }));
            }
            Some(Open::Reasoning { id, text }) => self.close_reasoning(id, &text),
            None => {}
        }
    }

    fn close_reasoning(&mut self, id: String, text: &str) {
        let mut summary = Vec::new();
        if !text.is_empty() {
            let kind = "response.reasoning_summary_text.done";
            self.about(kind, &id, SUMMARY, json!({ "text": text }));
            let part = json!({ "type": "summary_text", "text": text });
            let kind = "response.reasoning_summary_part.done";
            self.about(kind, &id, SUMMARY, json!({ "part": part }));
            summary.push(part);
        }
        let mut item = json!({ "id": id, "type": "reasoning", "summary": summary });
        if self.encrypts() {
            item["encrypted_content"] = json!(self.asked.issued.sign(json!(id)));
        }
        self.done(item);
        self.reasoning = Some(id);
    }

    fn error(&mut self, trouble: Trouble, is_whole: bool) {
        let refusal = trouble.refusal(Vendor::OpenAi);
        let code = refusal.code.unwrap_or("server_error");
        if is_whole {
            let mut response = self.response("failed");
            response["error"] = json!({ "code": code, "message": refusal.message });
            self.event(json!({ "type": "response.failed", "response": response }));
        } else {
            self.event(json!({
                "type": "error", "code": code, "message": refusal.message, "param": null,
            }));
        }
    }

    fn end(&mut self, answer: &Answer) {
        let (status, reason) = match &answer.ending {
            Ending::Missing => return,
            Ending::Finished | Ending::Refused(_) => ("completed", None),
            Ending::Length => ("incomplete", Some("max_output_tokens")),
            Ending::Word(word) => ("incomplete", Some(word.as_str())),
        };
        self.close(status);
        if let Ending::Refused(why) = &answer.ending {
            self.refuse(why);
        }
        let mut response = self.response(status);
        if let Some(reason) = reason {
            response["incomplete_details"] = json!({ "reason": reason });
        }
        response["usage"] = json!({
            "input_tokens": answer.input,
            "input_tokens_details": { "cached_tokens": answer.cached },
            "output_tokens": answer.output,
            "output_tokens_details": { "reasoning_tokens": answer.thoughts() },
            "total_tokens": answer.input + answer.output,
        });
        if answer.cache_written > 0 {
            let details = &mut response["usage"]["input_tokens_details"];
            details["cache_write_tokens"] = json!(answer.cache_written);
        }
        self.event(json!({ "type": format!("response.{status}"), "response": response }));
    }

    fn refuse(&mut self, why: &str) {
        let id = self.new_item("msg_");
        self.added(&json!({
            "id": id, "type": "message", "status": "in_progress", "content": [],
            "role": "assistant",
        }));
        let part = json!({ "type": "refusal", "refusal": "" });
        self.about("response.content_part.added", &id, CONTENT, json!({ "part": part }));
        self.about("response.refusal.delta", &id, CONTENT, json!({ "delta": why }));
        self.about("response.refusal.done", &id, CONTENT, json!({ "refusal": why }));
        let part = json!({ "type": "refusal", "refusal": why });
        self.about("response.content_part.done", &id, CONTENT, json!({ "part": part }));
        self.done(json!({
            "id": id, "type": "message", "status": "completed", "content": [part],
            "role": "assistant",
        }));
    }
}

/// The only part of a message, and the only part of a summary.
const CONTENT: (&str, usize) = ("content_index", 0);
const SUMMARY: (&str, usize) = ("summary_index", 0);
