//! A tool as a component, in plain Rust: count what models count badly.

use std::env;
use std::io::{self, Read, Write};

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Arguments {
    text: String,
}

fn schema() -> Value {
    json!({
        "name": "text_count",
        "description": "Count the lines, words, characters and bytes of a text, exactly.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The text to count"}
            },
            "required": ["text"]
        }
    })
}

fn run(input: &[u8]) -> Value {
    match serde_json::from_slice::<Arguments>(input) {
        Ok(Arguments { text }) => json!({
            "lines": text.lines().count(),
            "words": text.split_whitespace().count(),
            "characters": text.chars().count(),
            "bytes": text.len(),
        }),
        Err(error) => json!({"error": error.to_string(), "error_code": "INVALID_PARAMS"}),
    }
}

fn main() -> io::Result<()> {
    let answer = if env::args().skip(1).eq(["--schema"]) {
        schema()
    } else {
        let mut input = Vec::new();
        io::stdin().read_to_end(&mut input)?;
        run(&input)
    };
    io::stdout().write_all(answer.to_string().as_bytes())
}
