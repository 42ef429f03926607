//! Answers as the bytes that a vendor streams. Each vendor's format has its own module; this module
//! has the shared parts.

mod anthropic;
mod google;
mod openai;
mod openai_chat;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::issued::Issued;
use crate::{Gate, Received, Vendor};

/// A step of sending an answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Send these bytes, as one event.
    Bytes(Vec<u8>),
    /// Send nothing more until the gate opens.
    Stall(Gate),
}

/// The context of an answer: the request and the issued data.
pub(crate) struct Asked<'a> {
    pub(crate) model: String,
    pub(crate) request: &'a Received,
    pub(crate) issued: &'a mut Issued,
}

/// Returns the steps of sending an answer, in their order.
pub(crate) fn render(vendor: Vendor, answer: &Answer, asked: &mut Asked<'_>) -> Vec<Step> {
    match vendor {
        Vendor::OpenAi => openai::render(answer, asked),
        Vendor::OpenAiChat => openai_chat::render(answer, asked),
        Vendor::Anthropic => anthropic::render(answer, asked),
        Vendor::Google => google::render(answer, asked),
    }
}

/// Server-sent events, one step each:
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html>.
struct Events {
    steps: Vec<Step>,
    end_of_line: &'static str,
}

impl Events {
    fn new(end_of_line: &'static str) -> Self {
        Self { steps: Vec::new(), end_of_line }
    }

    /// Adds an event without a name.
    fn data(&mut self, data: &str) {
        let end = self.end_of_line;
        self.bytes(format!("data: {data}{end}{end}").into_bytes());
    }

    /// Adds an event that is named by the member `type` of its data.
    fn typed(&mut self, data: &Value) {
        let (name, end) = (data["type"].as_str().unwrap_or("message"), self.end_of_line);
        self.bytes(format!("event: {name}{end}data: {data}{end}{end}").into_bytes());
    }

    fn comment(&mut self) {
        let end = self.end_of_line;
        self.bytes(format!(": keep-alive{end}{end}").into_bytes());
    }

    fn bytes(&mut self, bytes: Vec<u8>) {
        self.steps.push(Step::Bytes(bytes));
    }

    fn stall(&mut self, gate: &Gate) {
        self.steps.push(Step::Stall(gate.clone()));
    }

    /// Replaces [`MARK`] in the last event by bytes that are not UTF-8.
    fn spoil(&mut self) {
        let Some(Step::Bytes(bytes)) = self.steps.last_mut() else { return };
        let mark = MARK.as_bytes();
        if let Some(at) = bytes.windows(mark.len()).position(|window| window == mark) {
            bytes.splice(at..at + mark.len(), *b"\xff\xc3\x28");
        }
    }
}

/// The text that [`Events::spoil`] replaces.
const MARK: &str = "BROKEN-UTF-8";

/// The creation time of every answer: 2026-01-01.
const CREATED: u64 = 1_767_225_600;

/// Splits a text into fragments of this many characters; an empty text is one empty fragment.
fn fragments(text: &str, characters: usize) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    if text.is_empty() {
        return vec![String::new()];
    }
    text.chunks(characters).map(|chunk| chunk.iter().collect()).collect()
}

/// Returns the padding that providers of OpenAI's formats add to each delta. It protects against
/// eavesdroppers who count bytes.
fn obfuscation() -> Value {
    json!("aBcDeFgH")
}
