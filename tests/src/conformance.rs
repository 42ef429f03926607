//! The black-box cases of `tests/conformance/cases.jsonl`: a tool, the files in its directory, its
//! input, and the expected results.
//!
//! A case does not depend on how the tool runs, which is a [`Port`]. `tests/conformance/README.md`
//! describes the format.

mod fake;
mod layout;
mod matcher;
mod process;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;
use tempfile::TempDir;

pub use fake::Fake;
pub use process::{Component, Native};

/// The time limit of a case, unless it sets another.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;

const CASES: &str = include_str!("../conformance/cases.jsonl");

/// One case, unchanged from the file.
#[derive(Clone, Debug)]
pub struct Case(Value);

/// The results of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code, or 128 + N for signal N.
    pub exit: i64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A way to run a tool.
pub trait Port: Sync {
    /// Runs the case's tool in `dir`.
    ///
    /// # Errors
    ///
    /// Returns an error if the tool cannot be run, or does not end in time.
    fn run(&self, case: &Case, dir: &Path) -> Result<Ran, String>;
}

/// Returns all cases, in the order of the file.
#[must_use]
pub fn cases() -> Vec<Case> {
    let lines = CASES.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| Case(serde_json::from_str(line).expect("a line is JSON"))).collect()
}

/// Runs each case on `port`, two at a time; the results are in the order of the cases.
#[must_use]
pub fn run_all(port: &dyn Port, cases: &[Case]) -> Vec<Result<(), String>> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![Ok(()); cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((index, case)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(index).map(|case| (index, case))
                } {
                    let outcome = case.run(port);
                    outcomes.lock().expect("no panic while held")[index] = outcome;
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic while held")
}

impl Case {
    /// Returns the name: `tool/case`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0["id"].as_str().expect("`id` is a string")
    }

    /// Returns the executable's name, with hyphens.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.0["tool"].as_str().expect("`tool` is a string")
    }

    fn args(&self) -> Vec<&str> {
        self.list("args").iter().filter_map(Value::as_str).collect()
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.0["timeout_ms"].as_u64().unwrap_or(DEFAULT_TIMEOUT_MS))
    }

    fn flag(&self, name: &str) -> bool {
        self.0[name].as_bool().unwrap_or(false)
    }

    fn list(&self, name: &str) -> &[Value] {
        self.0[name].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the tool's input.
    fn stdin(&self) -> Vec<u8> {
        if let Some(text) = self.0["stdin_b64"].as_str() {
            return decode(text);
        }
        if let Some(value) = self.0.get("stdin_json") {
            let text = value.to_string();
            return if self.flag("ascii") {
                escape_non_ascii(&text).into_bytes()
            } else {
                text.into_bytes()
            };
        }
        if let Some(repeat) = self.0.get("stdin_repeat") {
            return matcher::repeated(repeat).into_bytes();
        }
        self.0["stdin"].as_str().unwrap_or("").as_bytes().to_vec()
    }

    /// Runs the case in its own directory.
    ///
    /// # Errors
    ///
    /// Returns a description of the first unexpected result.
    pub fn run(&self, port: &dyn Port) -> Result<(), String> {
        let scratch = TempDir::new().map_err(|error| error.to_string())?;
        let dir = scratch.path().canonicalize().map_err(|error| error.to_string())?;
        let mode = if self.flag("as_nobody") { 0o777 } else { 0o755 };
        set_mode(&dir, mode).map_err(|error| error.to_string())?;
        let name = dir.to_str().ok_or("the temporary directory has no name in UTF-8")?;
        let case = Self(substituted(&self.0, name));
        let outcome = case.run_in(port, &dir);
        layout::make_removable(&dir);
        outcome
    }

    fn run_in(&self, port: &dyn Port, dir: &Path) -> Result<(), String> {
        layout::lay_out(self.list("setup"), dir).map_err(|error| format!("setup: {error}"))?;
        let inodes = layout::inodes(self.list("expect_files"), dir);
        let ran = port.run(self, dir)?;
        let described = |reason: String| {
            let text = |bytes: &[u8]| matcher::short(&String::from_utf8_lossy(bytes));
            format!(
                "{reason}\n  exit {}, stdout {}, stderr {}",
                ran.exit,
                text(&ran.stdout),
                text(&ran.stderr)
            )
        };
        check_block(&self.0, &ran).map_err(described)?;
        if let Some(blocks) = self.0["any_of"].as_array() {
            let failures: Vec<String> =
                blocks.iter().filter_map(|block| check_block(block, &ran).err()).collect();
            if failures.len() == blocks.len() {
                return Err(described(format!("no alternative holds: {}", failures.join(" | "))));
            }
        }
        layout::check(self.list("expect_files"), &inodes, dir).map_err(described)?;
        layout::check_listings(self.0.get("expect_ls"), dir).map_err(described)
    }
}

/// Checks exit code and streams against a block of expectations.
fn check_block(block: &Value, ran: &Ran) -> Result<(), String> {
    match &block["expect_exit"] {
        Value::Null => {}
        Value::Object(wanted) => {
            if wanted.get("$nonzero") == Some(&Value::Bool(true)) && ran.exit == 0 {
                return Err("exit 0, wanted another".to_owned());
            }
            if wanted
                .get("$in")
                .and_then(Value::as_array)
                .is_some_and(|list| !list.contains(&ran.exit.into()))
            {
                return Err(format!("exit {}, wanted {wanted:?}", ran.exit));
            }
        }
        wanted => {
            if wanted.as_i64() != Some(ran.exit) {
                return Err(format!("exit {}, wanted {wanted}", ran.exit));
            }
        }
    }
    if let Some(expected) = block.get("expect") {
        let found: Value = serde_json::from_slice(&ran.stdout)
            .map_err(|error| format!("stdout is not one JSON value: {error}"))?;
        matcher::check(expected, &found, "$")?;
    }
    for (name, stream) in [("expect_stdout", &ran.stdout), ("expect_stderr", &ran.stderr)] {
        if let Some(expected) = block.get(name) {
            let text = String::from_utf8_lossy(stream).into_owned();
            matcher::check(expected, &Value::String(text), name)?;
        }
    }
    Ok(())
}

/// Replaces `{{DIR}}` by the directory's name.
fn substituted(value: &Value, dir: &str) -> Value {
    let replace = |text: &str| text.replace("{{DIR}}", dir);
    match value {
        Value::String(text) => Value::String(replace(text)),
        Value::Array(list) => list.iter().map(|each| substituted(each, dir)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, each)| (replace(key), substituted(each, dir))).collect()
        }
        other => other.clone(),
    }
}

fn decode(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64 in a case")
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            let units = character.encode_utf16(&mut [0; 2]).to_vec();
            units.iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}
