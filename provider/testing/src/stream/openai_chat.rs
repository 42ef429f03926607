//! Chat Completions: <https://platform.openai.com/docs/api-reference/chat-streaming>.

use serde_json::{Value, json};

use super::{Asked, CREATED, Events, MARK, Step, fragments, obfuscation};
use crate::answer::{Answer, Ending, Piece};
use crate::{Trouble, Vendor};

struct Writer<'a, 'b> {
    events: Events,
    asked: &'a mut Asked<'b>,
    id: String,
    calls: usize,
}

pub(super) fn render(answer: &Answer, asked: &mut Asked<'_>) -> Vec<Step> {
    let id = asked.issued.id("chatcmpl-");
    let mut writer = Writer { events: Events::new("\n"), asked, id, calls: 0 };
    writer.delta(&json!({ "role": "assistant", "content": "", "refusal": null }));
    for piece in &answer.pieces {
        writer.piece(piece, answer);
    }
    writer.end(answer);
    writer.events.steps
}

impl Writer<'_, '_> {
    fn piece(&mut self, piece: &Piece, answer: &Answer) {
        match piece {
            Piece::Text(text) => self.delta(&json!({ "content": text })),
            Piece::Thinking(text) => self.delta(&json!({ "reasoning_content": text })),
            // Hidden thoughts are neither shown nor sent back.
            Piece::HiddenThinking => {}
            Piece::Call { id, name, arguments } => {
                let id = id.clone().unwrap_or_else(|| self.asked.issued.id("call_"));
                self.call(&id, name, &fragments(arguments, answer.fragment));
            }
            Piece::Ping => self.events.comment(),
            // Azure begins its streams like this: no choices, and additional members.
            Piece::UnknownEvent => self.events.data(
                &json!({
                    "choices": [], "created": 0, "id": "", "model": "", "object": "",
                    "prompt_filter_results": [{ "prompt_index": 0 }],
                })
                .to_string(),
            ),
            Piece::Event(event) => self.events.data(&event.to_string()),
            Piece::Error { trouble, .. } => self.error(*trouble),
            Piece::Bytes(bytes) => self.events.bytes(bytes.clone()),
            Piece::InvalidUtf8 => {
                self.delta(&json!({ "content": MARK }));
                self.events.spoil();
            }
            Piece::Stall(gate) => self.events.stall(gate),
        }
    }

    fn call(&mut self, id: &str, name: &str, fragments: &[String]) {
        let index = self.calls;
        self.calls += 1;
        self.delta(&json!({ "tool_calls": [{
            "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": "" },
        }] }));
        for fragment in fragments {
            self.delta(&json!({ "tool_calls": [{
                "index": index, "function": { "arguments": fragment },
            }] }));
        }
    }

    fn error(&mut self, trouble: Trouble) {
        let error = trouble.refusal(Vendor::OpenAiChat).openai();
        self.events.data(&json!({ "error": error }).to_string());
    }

    fn delta(&mut self, delta: &Value) {
        let choice = json!({
            "index": 0, "delta": delta, "logprobs": null, "finish_reason": null,
        });
        self.chunk(&json!([choice]), &Value::Null);
    }

    fn chunk(&mut self, choices: &Value, usage: &Value) {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.asked.model,
            "service_tier": "default",
            "system_fingerprint": null,
            "choices": choices,
            "obfuscation": obfuscation(),
        });
        if self.tells_usage() {
            chunk["usage"] = usage.clone();
        }
        self.events.data(&chunk.to_string());
    }

    fn tells_usage(&self) -> bool {
        self.asked.request.body["stream_options"]["include_usage"] == json!(true)
    }

    fn end(&mut self, answer: &Answer) {
        if let Ending::Refused(why) = &answer.ending {
            self.delta(&json!({ "refusal": why }));
        }
        let reason = match &answer.ending {
            Ending::Missing => return,
            Ending::Finished if self.calls > 0 => "tool_calls",
            Ending::Finished | Ending::Refused(_) => "stop",
            Ending::Length => "length",
            Ending::Word(word) => word,
        };
        let choice = json!({
            "index": 0, "delta": {}, "logprobs": null, "finish_reason": reason,
        });
        self.chunk(&json!([choice]), &Value::Null);
        if self.tells_usage() {
            let mut usage = json!({
                "prompt_tokens": answer.input,
                "completion_tokens": answer.output,
                "total_tokens": answer.input + answer.output,
                "prompt_tokens_details": { "cached_tokens": answer.cached, "audio_tokens": 0 },
                "completion_tokens_details": {
                    "reasoning_tokens": answer.thoughts(), "audio_tokens": 0,
                },
            });
            if answer.cache_written > 0 {
                let details = &mut usage["prompt_tokens_details"];
                details["cache_write_tokens"] = json!(answer.cache_written);
            }
            self.chunk(&json!([]), &usage);
        }
        self.events.data("[DONE]");
    }
}
