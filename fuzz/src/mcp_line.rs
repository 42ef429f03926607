//! The lines that an MCP client sends.

use bytes::Bytes;
use ikigai_mcp::fuzzing::{FuzzedLine, line};
use serde_json::Value;
use serde_json::value::RawValue;

/// Checks that a line is a message whose arguments are JSON and a part of the line, or is refused
/// with a short error.
pub(crate) fn run(data: &[u8]) {
    let text = Bytes::copy_from_slice(data);
    match line(&text) {
        FuzzedLine::Request { id, arguments } => {
            assert!(id.len() <= 256, "an id of {} bytes", id.len());
            let Some(arguments) = arguments else { return };
            assert!(data.windows(arguments.len()).any(|part| part == arguments), "not of the line");
            let value: &RawValue = serde_json::from_slice(&arguments).expect("JSON");
            assert_ne!(value.get(), "null");
        }
        FuzzedLine::Other => {}
        FuzzedLine::Refused(error) => {
            assert!(error.len() < 4 << 10, "an error of {} bytes", error.len());
            let error: Value = serde_json::from_str(&error).expect("JSON");
            let code = error["code"].as_i64();
            assert!(matches!(code, Some(-32700 | -32602 | -32600)), "{code:?}");
        }
    }
}
