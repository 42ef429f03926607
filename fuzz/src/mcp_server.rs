//! The messages of an MCP server.

use bytes::Bytes;
use ikigai_mcp::fuzzing::{Heard, Traces, server_message};
use serde_json::Value;
use serde_json::value::RawValue;

/// The most characters that are shown of a server's text, plus one for the mark that it was cut.
const WORDS: usize = 301;

/// Checks that a message is passed on, answered or ignored. A message that is passed on contains
/// its result as a part of the bytes, and its texts have a bounded length.
pub(crate) fn run(data: &[u8]) {
    let text = Bytes::copy_from_slice(data);
    let (heard, Traces { result, progress }) = server_message(&text);
    if let Some(result) = result {
        assert!(data.windows(result.len()).any(|part| part == result), "not of the message");
        serde_json::from_slice::<&RawValue>(&result).expect("JSON");
        assert!(matches!(heard, Heard::Message(_)), "the library does not hear of it");
    }
    if let Some(message) = progress.and_then(|progress| progress.message) {
        bounded(&message);
    }
    match heard {
        Heard::Message(message) => {
            let message: Value = serde_json::from_str(&message).expect("JSON");
            assert_eq!(message["jsonrpc"], "2.0");
            if let Some(words) = message["error"]["message"].as_str() {
                bounded(words);
            }
        }
        Heard::Question(answer) => {
            assert!(answer.len() < 2 << 10, "an answer of {} bytes", answer.len());
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            assert!(answer["id"].is_string() || answer["id"].is_number(), "{answer}");
            assert!(answer["result"].is_object() != answer["error"].is_object(), "{answer}");
        }
        Heard::Ignored | Heard::Noise => {}
    }
}

fn bounded(words: &str) {
    assert!(words.chars().count() <= WORDS, "{} characters", words.chars().count());
    assert!(!words.contains(['\u{202e}', '\u{1b}']), "words that deceive");
}
