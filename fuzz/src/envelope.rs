//! The output of a tool, on its way into an envelope.

use ikigai_host::ResultKind;
use ikigai_host::exec::envelope::{Envelope, JsonLayout, check_arguments};
use ikigai_host::exec::output::Captured;
use ikigai_host::exec::scrub::SecretValues;
use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::limits::CallLimits;
use serde_json::Value;
use serde_json::value::RawValue;

/// Checks that the tool's JSON arrives as it was written, or that the envelope gives the reason.
/// Accepted arguments must be a JSON object.
pub(crate) fn run(data: &[u8]) {
    let captured = || Captured { bytes: data.to_vec(), total: data.len() as u64 };
    for (exit, kind) in [
        (Exit::Code(0), ResultKind::Json),
        (Exit::Code(0), ResultKind::Content),
        (Exit::Code(3), ResultKind::Json),
    ] {
        let outcome =
            Outcome { exit, stdout: captured(), stderr: captured(), ..Outcome::not_started("") };
        let envelope = Envelope::from_outcome(
            "tool",
            kind,
            &CallLimits::default(),
            outcome,
            &SecretValues::default(),
        );
        let compact = envelope.to_json(JsonLayout::Compact).expect("JSON");
        let indented = envelope.to_json(JsonLayout::Indented).expect("JSON");
        let parse = |text: &str| -> Box<RawValue> {
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        assert_eq!(tokens(parse(&compact).get()), tokens(parse(&indented).get()));
        if let Envelope::Success(success) = &envelope {
            let own = std::str::from_utf8(data).expect("JSON is UTF-8").trim();
            assert_eq!(success.result.get(), own, "the tool's JSON was rewritten");
        }
        let _ = envelope.readable();
    }
    if check_arguments(data).is_ok() {
        match serde_json::from_slice::<Value>(data) {
            Ok(value) => assert!(value.is_object(), "{value}"),
            // A tree of values limits depth and numbers. Text has no such limits.
            Err(error) => assert!(!error.is_eof(), "{error}"),
        }
    }
}

/// The text without the white space between its tokens.
fn tokens(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in json.chars() {
        if quoted || !c.is_ascii_whitespace() {
            text.push(c);
        }
        match c {
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    text
}
