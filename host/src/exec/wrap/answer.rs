//! The answer of a wrapped program: its output, the end of its stderr, and its exit code.

use std::io::{self, BufWriter, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use crate::exec::output::{Captured, Pipe};

/// The `error_code` of a program that ended with a code that its definition does not list as a success.
const FAILED: &str = "PROGRAM_FAILED";

/// The size of the pieces in which an answer is written.
const PIECE: usize = 64 << 10;

/// The answer to a call of a wrapped program.
#[derive(Serialize)]
pub(super) struct WrapAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<&'static str>,
    #[serde(flatten)]
    output: WrapOutput,
    /// The end of stderr. Bytes that are not UTF-8 are U+FFFD.
    #[serde(skip_serializing_if = "String::is_empty")]
    stderr: String,
    /// The length of stderr in bytes, if it is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_bytes: Option<u64>,
    exit_code: i32,
}

/// The whole stdout of the program.
#[derive(Serialize)]
enum WrapOutput {
    #[serde(rename = "output")]
    Text(String),
    #[serde(rename = "output_base64")]
    Bytes(String),
}

impl WrapAnswer {
    pub(super) fn new(
        program: &str,
        (exit_code, is_success): (i32, bool),
        stdout: Vec<u8>,
        stderr: &Captured,
    ) -> Self {
        let error = (!is_success).then(|| format!("`{program}` ended with exit code {exit_code}"));
        Self {
            error_code: error.is_some().then_some(FAILED),
            error,
            output: WrapOutput::from_bytes(stdout),
            stderr: String::from_utf8_lossy(&stderr.bytes).into_owned(),
            stderr_bytes: (stderr.total > stderr.bytes.len() as u64).then_some(stderr.total),
            exit_code,
        }
    }

    /// Writes the answer as JSON, until the pipe is full.
    pub(super) fn write(&self, pipe: &Pipe) -> serde_json::Result<()> {
        let mut writer = BufWriter::with_capacity(PIECE, PipeWriter(pipe));
        serde_json::to_writer(&mut writer, self)?;
        writer.flush().map_err(serde_json::Error::io)
    }
}

impl WrapOutput {
    /// Returns the output as text, if it is text. Output with a NUL is data, as it is to `grep` and `git`.
    fn from_bytes(stdout: Vec<u8>) -> Self {
        if stdout.contains(&0) {
            return Self::Bytes(STANDARD.encode(stdout));
        }
        String::from_utf8(stdout)
            .map_or_else(|error| Self::Bytes(STANDARD.encode(error.as_bytes())), Self::Text)
    }
}

/// Returns the JSON Schema of the answer, which a model reads in the description of the tool.
pub(crate) fn schema() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "properties": {
            "output": text("stdout"),
            "output_base64": text("stdout, if it is not UTF-8 text"),
            "stderr": text("the end of stderr, if there is any"),
            "exit_code": { "type": "integer" },
        },
    })
}

/// A pipe as a writer.
struct PipeWriter<'a>(&'a Pipe);

impl Write for PipeWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let refused = |_| io::Error::other("the answer is longer than the limit on output");
        self.0.write(bytes).map(|()| bytes.len()).map_err(refused)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
