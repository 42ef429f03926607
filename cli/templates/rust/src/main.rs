//! A tool for language models: counts the lines and words of a text.

use std::env;
use std::io::{self, Read, Write};

use serde_json::{Map, Value, json};

fn main() -> io::Result<()> {
    let answer = if env::args().skip(1).eq(["--schema"]) {
        schema()
    } else {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        answer(&input)
            .unwrap_or_else(|error| json!({"error": error, "error_code": "INVALID_PARAMS"}))
    };
    writeln!(io::stdout(), "{answer}")
}

/// Tells a model what the tool does and what it takes.
fn schema() -> Value {
    json!({
        "name": "word_count",
        "description": "Count the lines and the words of a text, exactly.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The text to count"}
            },
            "required": ["text"]
        }
    })
}

/// Answers a call. The error says what is wrong with the arguments, which a model wrote.
fn answer(input: &[u8]) -> Result<Value, &'static str> {
    let arguments: Map<String, Value> =
        serde_json::from_slice(input).map_err(|_| "the arguments must be one JSON object")?;
    let text = arguments.get("text").and_then(Value::as_str).ok_or("`text` must be a string")?;
    Ok(json!({"lines": text.lines().count(), "words": text.split_whitespace().count()}))
}
