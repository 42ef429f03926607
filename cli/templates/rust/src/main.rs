//! A tool for language models: counts the lines and words of a text or of a file.

use std::env;
use std::fs;
use std::io::{self, Read, Write};

use serde_json::{Map, Value, json};

fn main() -> io::Result<()> {
    let answer = if env::args().skip(1).eq(["--schema"]) {
        schema()
    } else {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        answer(&input)
            .unwrap_or_else(|(error, code)| json!({"error": error, "error_code": code}))
    };
    writeln!(io::stdout(), "{answer}")
}

/// Tells a model what the tool does and what it takes.
fn schema() -> Value {
    json!({
        "name": "word_count",
        "description": "Count the lines and the words of a text or a file, exactly.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The text to count"},
                "path": {"type": "string", "description": "The file to count, without a text"}
            }
        }
    })
}

/// Answers a call, or says what is wrong, with a code for the model that wrote the arguments.
fn answer(input: &[u8]) -> Result<Value, (String, &'static str)> {
    let wrong = |what: &str| (what.to_owned(), "INVALID_PARAMS");
    let arguments: Map<String, Value> = serde_json::from_slice(input)
        .map_err(|_| wrong("the arguments must be one JSON object"))?;
    let string = |name: &str| arguments.get(name).and_then(Value::as_str);
    let text = match (string("text"), string("path")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(path)) => fs::read_to_string(path)
            .map_err(|error| (format!("cannot read `{path}`: {error}"), "READ_FAILED"))?,
        (None, None) => return Err(wrong("`text` or `path` must be a string")),
    };
    Ok(json!({"lines": text.lines().count(), "words": text.split_whitespace().count()}))
}
