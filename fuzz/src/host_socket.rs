//! The messages of a native tool on the host socket.

use ikigai_protocol::host_socket::{Id, MAX_ID, Operation, decode, encode_refusal, encode_result};
use serde_json::{Value, json};

/// Checks that a line is a request that means the same after it is encoded again, or a refusal that
/// can be sent. In both cases the answer must be one line.
pub(crate) fn run(data: &[u8]) {
    match decode(data) {
        Ok((id, operation)) => {
            assert!(!matches!(&id, Id::Null), "a request without an id");
            assert!(!matches!(&id, Id::String(text) if text.len() > MAX_ID));
            let answer = encode_result(&id, &Value::Null).expect("JSON");
            assert_eq!(one_line(&answer)["id"], json!(id));
            let mut again = json!(operation);
            again["jsonrpc"] = json!("2.0");
            again["id"] = json!(id);
            let again: (Id, Operation) =
                decode(again.to_string().as_bytes()).expect("what was a request");
            assert_eq!(again, (id, operation));
        }
        Err(refusal) => {
            let answer = encode_refusal(&refusal).expect("JSON");
            assert!(answer.len() < 16 << 10, "a refusal of {} bytes", answer.len());
            let code = one_line(&answer)["error"]["code"].as_i64();
            assert!(matches!(code, Some(-32700 | -32602..=-32600)), "{code:?}");
        }
    }
}

fn one_line(answer: &[u8]) -> Value {
    let (newline, line) = answer.split_last().expect("a line");
    assert!(*newline == b'\n' && !line.contains(&b'\n'), "not one line");
    serde_json::from_slice(line).expect("one JSON value")
}
