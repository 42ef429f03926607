//! The Messages API: <https://docs.anthropic.com/en/docs/build-with-claude/streaming>.

use serde_json::{Value, json};

use super::{Asked, Events, MARK, Step, fragments};
use crate::answer::{Answer, Ending, Piece};
use crate::{Trouble, Vendor};

/// A content block that is being sent.
enum Open {
    Text,
    Thinking(String),
}

struct Writer<'a, 'b> {
    events: Events,
    asked: &'a mut Asked<'b>,
    /// The index of the block that is open or comes next.
    index: usize,
    open: Option<Open>,
    has_call: bool,
}

pub(super) fn render(answer: &Answer, asked: &mut Asked<'_>) -> Vec<Step> {
    let events = Events::new("\n");
    let mut writer = Writer { events, asked, index: 0, open: None, has_call: false };
    writer.begin(answer);
    for piece in &answer.pieces {
        writer.piece(piece, answer);
    }
    writer.end(answer);
    writer.events.steps
}

impl Writer<'_, '_> {
    fn begin(&mut self, answer: &Answer) {
        let id = self.asked.issued.id("msg_");
        self.events.typed(&json!({
            "type": "message_start",
            "message": {
                "id": id,
                "type": "message",
                "role": "assistant",
                "model": self.asked.model,
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": usage(answer, 1),
            },
        }));
        self.events.typed(&json!({ "type": "ping" }));
    }

    fn piece(&mut self, piece: &Piece, answer: &Answer) {
        match piece {
            Piece::Text(text) => self.text(text),
            Piece::Thinking(text) => self.thinking(text),
            Piece::HiddenThinking => {
                let data = self.asked.issued.sign(json!("hidden"));
                self.start(&json!({ "type": "redacted_thinking", "data": data }));
                self.stop();
            }
            Piece::Call { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| self.asked.issued.id("toolu_"));
                self.start(&json!({ "type": "tool_use", "id": id, "name": name, "input": {} }));
                // The vendor's streams begin with an empty piece.
                self.delta(&json!({ "type": "input_json_delta", "partial_json": "" }));
                for fragment in fragments(arguments, answer.fragment) {
                    self.delta(&json!({ "type": "input_json_delta", "partial_json": fragment }));
                }
                self.stop();
                self.has_call = true;
            }
            Piece::Ping => self.events.typed(&json!({ "type": "ping" })),
            Piece::UnknownEvent => {
                self.events.typed(&json!({ "type": "message_weather", "weather": "fair" }));
            }
            Piece::Event(event) => self.events.typed(event),
            Piece::Error { trouble, .. } => self.error(*trouble),
            Piece::Bytes(bytes) => self.events.bytes(bytes.clone()),
            Piece::InvalidUtf8 => {
                self.text(MARK);
                self.events.spoil();
            }
            Piece::Stall(gate) => self.events.stall(gate),
        }
    }

    fn text(&mut self, text: &str) {
        if !matches!(self.open, Some(Open::Text)) {
            self.start(&json!({ "type": "text", "text": "" }));
            self.open = Some(Open::Text);
        }
        self.delta(&json!({ "type": "text_delta", "text": text }));
    }

    fn thinking(&mut self, text: &str) {
        if !matches!(self.open, Some(Open::Thinking(_))) {
            self.start(&json!({ "type": "thinking", "thinking": "", "signature": "" }));
            self.open = Some(Open::Thinking(String::new()));
        }
        if let Some(Open::Thinking(thought)) = &mut self.open {
            thought.push_str(text);
        }
        self.delta(&json!({ "type": "thinking_delta", "thinking": text }));
    }

    fn error(&mut self, trouble: Trouble) {
        let refusal = trouble.refusal(Vendor::Anthropic);
        self.events.typed(&json!({
            "type": "error",
            "error": { "type": refusal.anthropic_kind(), "message": refusal.message },
        }));
    }

    fn start(&mut self, block: &Value) {
        self.close();
        let index = self.index;
        self.events.typed(&json!({
            "type": "content_block_start", "index": index, "content_block": block,
        }));
    }

    fn delta(&mut self, delta: &Value) {
        let index = self.index;
        self.events.typed(&json!({
            "type": "content_block_delta", "index": index, "delta": delta,
        }));
    }

    /// Ends the block that is open.
    fn close(&mut self) {
        match self.open.take() {
            Some(Open::Thinking(thought)) => {
                let signature = self.asked.issued.sign(json!(thought));
                self.delta(&json!({ "type": "signature_delta", "signature": signature }));
                self.stop();
            }
            Some(Open::Text) => self.stop(),
            None => {}
        }
    }

    fn stop(&mut self) {
        self.events.typed(&json!({ "type": "content_block_stop", "index": self.index }));
        self.index += 1;
    }

    fn end(&mut self, answer: &Answer) {
        let reason = match &answer.ending {
            Ending::Missing => return,
            Ending::Finished if self.has_call => "tool_use",
            Ending::Finished => "end_turn",
            Ending::Length => "max_tokens",
            Ending::Refused(_) => "refusal",
            Ending::Word(word) => word,
        };
        self.close();
        let mut delta = json!({ "stop_reason": reason, "stop_sequence": null });
        if let Ending::Refused(why) = &answer.ending {
            delta["stop_details"] =
                json!({ "type": "refusal", "category": null, "explanation": why });
        }
        let mut usage = usage(answer, answer.output);
        usage["output_tokens_details"] = json!({ "thinking_tokens": answer.thoughts() });
        self.events.typed(&json!({ "type": "message_delta", "delta": delta, "usage": usage }));
        self.events.typed(&json!({ "type": "message_stop" }));
    }
}

/// Returns the usage. `input_tokens` excludes tokens that are read from the cache or written to it:
/// <https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching>.
fn usage(answer: &Answer, output: u64) -> Value {
    json!({
        "input_tokens": answer.input - answer.cached - answer.cache_written,
        "cache_creation_input_tokens": answer.cache_written,
        "cache_read_input_tokens": answer.cached,
        "output_tokens": output,
        "service_tier": "standard",
    })
}
