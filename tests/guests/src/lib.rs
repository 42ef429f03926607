//! What the hostile guests share: how they are told what to do, and how they say
//! what came of it. What they do is theirs.
//!
//! Every mode of a guest is named in the `enum` of its schema, and a test fails
//! for each that no test calls.

use std::fmt::Display;
use std::io::{self, Read as _, Write as _};

/// The most of stdin that is looked at for what to do.
const MOST: u64 = 4096;

/// What a guest was told to do: by its arguments, `MODE [PATH]`, or by JSON on stdin.
pub struct Order {
    /// One of the modes in the guest's schema.
    pub mode: String,
    /// What the mode works on.
    pub path: String,
}

impl Order {
    /// Answers `--schema` with `schema` and ends; otherwise reads what to do.
    #[must_use]
    pub fn read(schema: &str) -> Self {
        let mut args = std::env::args().skip(1);
        let Some(mode) = args.next() else { return Self::from_stdin() };
        if mode == "--schema" {
            say(schema);
            std::process::exit(0);
        }
        Self { mode, path: args.next().unwrap_or_default() }
    }

    /// A parser of JSON would be more code than the guests themselves; the tests
    /// write their arguments without escapes.
    fn from_stdin() -> Self {
        let mut text = Vec::new();
        // What cannot be read names no mode, and that is said.
        let _ = io::stdin().take(MOST).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let field = |name: &str| {
            let start = text.find(&format!("\"{name}\":\""))? + name.len() + 4;
            let length = text[start..].find('"')?;
            Some(text[start..start + length].to_owned())
        };
        Self { mode: field("mode").unwrap_or_default(), path: field("path").unwrap_or_default() }
    }
}

/// Writes to stdout. A guest that may not write has nobody to tell.
pub fn say(text: &str) {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// What a guest tried, and what came of each attempt, as one JSON object.
#[derive(Default)]
pub struct Attempts(Vec<String>);

impl Attempts {
    /// Notes an attempt; success is what the tests look for.
    pub fn note<T, E: Display>(&mut self, what: &str, result: Result<T, E>) {
        let came_of_it = match result {
            Ok(_) => "REACHED".to_owned(),
            Err(error) => error.to_string(),
        };
        self.tell(what, &came_of_it);
    }

    /// Notes what was seen.
    pub fn tell(&mut self, what: &str, seen: &str) {
        let quoted = |text: &str| {
            let plain = |c: char| if c.is_control() || "\\\"".contains(c) { '?' } else { c };
            text.chars().map(plain).collect::<String>()
        };
        self.0.push(format!("\"{}\":\"{}\"", quoted(what), quoted(seen)));
    }

    /// Says all of it.
    pub fn say(self) {
        say(&format!("{{{}}}", self.0.join(",")));
    }
}
