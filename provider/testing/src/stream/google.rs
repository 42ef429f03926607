//! Gemini: <https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent>,
//! signatures in <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use serde_json::{Value, json};

use super::{Asked, Events, MARK, Step};
use crate::answer::{Answer, Ending, Piece};
use crate::{Trouble, Vendor};

struct Writer<'a, 'b> {
    events: Events,
    asked: &'a mut Asked<'b>,
    id: String,
    usage: Value,
    has_thought: bool,
    has_call: bool,
    /// True if a call was requested that this format cannot express.
    is_malformed: bool,
    always_ends: bool,
}

pub(super) fn render(answer: &Answer, asked: &mut Asked<'_>) -> Vec<Step> {
    let id = asked.issued.id("resp");
    let mut writer = Writer {
        events: Events::new("\r\n"),
        asked,
        id,
        usage: usage(answer),
        has_thought: answer.has_thought(),
        has_call: false,
        is_malformed: false,
        always_ends: answer.always_ends,
    };
    for piece in &answer.pieces {
        writer.piece(piece);
    }
    writer.end(answer);
    writer.events.steps
}

impl Writer<'_, '_> {
    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) => self.part(&json!({ "text": text })),
            Piece::Thinking(text) => self.part(&json!({ "text": text, "thought": true })),
            // The signature contains the thought, so nothing is sent here.
            Piece::HiddenThinking => {}
            Piece::Call { id, name, arguments } => self.call(id.as_deref(), name, arguments),
            Piece::Ping => self.events.comment(),
            Piece::UnknownEvent => self.events.data(
                &json!({ "weather": "fair", "usageMetadata": self.usage, "responseId": self.id })
                    .to_string(),
            ),
            Piece::Event(event) => self.events.data(&event.to_string()),
            Piece::Error { trouble, is_other_form } => self.error(*trouble, *is_other_form),
            Piece::Bytes(bytes) => self.events.bytes(bytes.clone()),
            Piece::InvalidUtf8 => {
                self.part(&json!({ "text": MARK }));
                self.events.spoil();
            }
            Piece::Stall(gate) => self.events.stall(gate),
        }
    }

    /// Only the first call of an answer has the signature, and parallel calls do not.
    fn call(&mut self, id: Option<&str>, name: &str, arguments: &str) {
        let Ok(arguments @ Value::Object(_)) = serde_json::from_str(arguments) else {
            self.is_malformed = true;
            return;
        };
        let mut call = json!({ "name": name, "args": arguments });
        let id = id.map_or_else(|| self.asked.issued.id(""), str::to_owned);
        if !id.is_empty() {
            call["id"] = json!(id);
        }
        let mut part = json!({ "functionCall": call });
        if !self.has_call {
            let signed = json!({ "name": name, "args": arguments });
            part["thoughtSignature"] = json!(self.asked.issued.sign(signed));
        }
        self.has_call = true;
        self.part(&part);
    }

    fn part(&mut self, part: &Value) {
        let content = json!({ "parts": [part], "role": "model" });
        let mut candidate = json!({ "content": content, "index": 0 });
        if self.always_ends {
            candidate["finishReason"] = json!("STOP");
        }
        self.candidate(&candidate);
    }

    fn candidate(&mut self, candidate: &Value) {
        let chunk = json!({
            "candidates": [candidate],
            "usageMetadata": self.usage,
            "modelVersion": self.asked.model,
            "responseId": self.id,
        });
        self.events.data(&chunk.to_string());
    }

    /// Sends an error as an event, or as plain JSON after a stream began:
    /// <https://github.com/vercel/ai/issues/5217>.
    fn error(&mut self, trouble: Trouble, is_bare: bool) {
        let body = trouble.refusal(Vendor::Google).body(Vendor::Google);
        if is_bare {
            self.events.bytes(format!("{body:#}\n").into_bytes());
        } else {
            self.events.data(&body.to_string());
        }
    }

    fn end(&mut self, answer: &Answer) {
        let reason = match &answer.ending {
            Ending::Missing => return,
            Ending::Finished if self.is_malformed => "MALFORMED_FUNCTION_CALL",
            Ending::Finished => "STOP",
            Ending::Length => "MAX_TOKENS",
            Ending::Refused(_) => "SAFETY",
            Ending::Word(word) => word,
        };
        let mut part = json!({ "text": "" });
        if self.has_thought && !self.has_call {
            part["thoughtSignature"] = json!(self.asked.issued.sign(json!("text")));
        }
        let content = json!({ "parts": [part], "role": "model" });
        let mut candidate = json!({ "content": content, "finishReason": reason, "index": 0 });
        match &answer.ending {
            Ending::Refused(why) => candidate["finishMessage"] = json!(why),
            Ending::Finished if self.is_malformed => {
                candidate["finishMessage"] = json!("Malformed function call");
            }
            _ => {}
        }
        self.candidate(&candidate);
    }
}

/// Returns the usage. Thoughts are counted separately from the rest of the answer.
fn usage(answer: &Answer) -> Value {
    let thoughts = answer.thoughts();
    let mut usage = json!({
        "promptTokenCount": answer.input,
        "candidatesTokenCount": answer.output - thoughts,
        "totalTokenCount": answer.input + answer.output,
        "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": answer.input }],
    });
    if thoughts > 0 {
        usage["thoughtsTokenCount"] = json!(thoughts);
    }
    if answer.cached > 0 {
        usage["cachedContentTokenCount"] = json!(answer.cached);
    }
    usage
}
