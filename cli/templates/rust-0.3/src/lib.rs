//! A tool for language models: counts the lines and words of a text or of a file.
//!
//! It reads its input as a stream of WASI 0.3, so it never holds the whole text.

mod arguments;
mod count;

use std::fs::File;
use std::io::Read;

use serde_json::{Value, json};
use wasip3::cli::{environment, stdin, stdout};
use wasip3::wit_bindgen::StreamResult;

use arguments::ArgumentsReader;
use count::{Counter, Decoder};

/// The most bytes that the tool reads at once.
const PIECE: usize = 64 * 1024;

/// An error, with a code for the model that wrote the arguments.
type Failure = (String, &'static str);

struct Tool;

wasip3::cli::command::export!(Tool);

impl wasip3::exports::cli::run::Guest for Tool {
    async fn run() -> Result<(), ()> {
        let answer = if environment::get_arguments().iter().skip(1).eq(["--schema"]) {
            schema()
        } else {
            answer().await.unwrap_or_else(|(error, code)| json!({"error": error, "error_code": code}))
        };
        write(format!("{answer}\n")).await
    }
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

/// Answers a call.
async fn answer() -> Result<Value, Failure> {
    let arguments = read().await?;
    let counter = match (arguments.text, arguments.path) {
        (Some(counter), _) => counter,
        (None, Some(path)) => count_file(&path)
            .map_err(|error| (format!("cannot read `{path}`: {error}"), "READ_FAILED"))?,
        (None, None) => return Err(invalid("`text` or `path` must be a string")),
    };
    Ok(json!({"lines": counter.lines(), "words": counter.words()}))
}

/// Reads the arguments of the call, piece by piece, and counts the text among them.
async fn read() -> Result<arguments::Arguments, Failure> {
    let malformed = |_| invalid("the arguments must be one JSON object");
    let (mut input, end) = stdin::read_via_stream();
    let mut arguments = ArgumentsReader::default();
    let mut buffer = Vec::with_capacity(PIECE);
    while let (StreamResult::Complete(_), piece) = input.read(buffer).await {
        arguments.add(&piece).map_err(malformed)?;
        buffer = piece;
        buffer.clear();
    }
    end.await.map_err(|error| (format!("cannot read the input: {error:?}"), "READ_FAILED"))?;
    arguments.finish().map_err(malformed)
}

fn invalid(what: &str) -> Failure {
    (what.to_owned(), "INVALID_PARAMS")
}

/// Counts a file, piece by piece. The standard library reads files with WASI 0.2, which a component
/// may import beside 0.3.
fn count_file(path: &str) -> std::io::Result<Counter> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; PIECE];
    let mut decoder = Decoder::default();
    let mut counter = Counter::default();
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            decoder.finish()?;
            return Ok(counter);
        }
        counter.add(&decoder.decode(&buffer[..read])?);
    }
}

/// Writes the answer.
async fn write(answer: String) -> Result<(), ()> {
    let (mut output, contents) = wasip3::wit_stream::new();
    let end = stdout::write_via_stream(contents);
    output.write_all(answer.into_bytes()).await;
    drop(output);
    end.await.map_err(drop)
}
