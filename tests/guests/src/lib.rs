//! The common part of the hostile guests: their orders, and the report of their attempts.
//!
//! Every mode of a guest is named in the `enum` of its schema, and a test fails for each mode that
//! no test calls.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};

/// The most bytes of stdin that are searched for an order.
const MOST: u64 = 4096;

/// The order for a guest: its arguments, `MODE [PATH]`, or JSON on stdin.
pub struct Order {
    /// The mode, which the guest's schema lists.
    pub mode: String,
    /// The object that the mode works on.
    pub path: String,
}

impl Order {
    /// Answers `--schema` with `schema` and ends; otherwise reads the order.
    #[must_use]
    pub fn read(schema: &str) -> Self {
        let mut args = std::env::args().skip(1);
        let Some(mode) = args.next() else { return Self::from_stdin() };
        if mode == "--schema" {
            print(schema);
            std::process::exit(0);
        }
        Self { mode, path: args.next().unwrap_or_default() }
    }

    /// Reads JSON without a parser, which would be more code than the guests themselves. The tests
    /// write their arguments without escapes.
    fn from_stdin() -> Self {
        let mut text = Vec::new();
        // Input that cannot be read contains no mode, and the guest reports that.
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

/// Writes to stdout. A guest that may not write has no way to report that.
pub fn print(text: &str) {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// The attempts of a guest, and the result of each, as one JSON object.
#[derive(Default)]
pub struct Attempts(Vec<String>);

impl Attempts {
    /// Records an attempt; the tests look for success.
    pub fn note<T, E: Display>(&mut self, what: &str, result: Result<T, E>) {
        let outcome = match result {
            Ok(_) => "REACHED".to_owned(),
            Err(error) => error.to_string(),
        };
        self.observe(what, &outcome);
    }

    /// Records an observation.
    pub fn observe(&mut self, what: &str, seen: &str) {
        let quoted = |text: &str| {
            let plain = |c: char| if c.is_control() || "\\\"".contains(c) { '?' } else { c };
            text.chars().map(plain).collect::<String>()
        };
        self.0.push(format!("\"{}\":\"{}\"", quoted(what), quoted(seen)));
    }

    /// Prints the attempts.
    pub fn print(self) {
        print(&format!("{{{}}}", self.0.join(",")));
    }
}

/// Takes a step through Rust's standard library, as most programs do. Returns its result in words.
#[must_use]
pub fn std_step(verb: &str, words: &[&str]) -> String {
    let done = |result: io::Result<()>| result.map(|()| "done".to_owned());
    let seen = match (verb, words) {
        ("read", [path]) => fs::read_to_string(path),
        ("stat", [path]) => fs::metadata(path).map(|found| found.len().to_string()),
        ("list", [path]) => fs::read_dir(path).map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            let mut names: Vec<String> =
                names.map(|name| name.to_string_lossy().into_owned()).collect();
            names.sort();
            names.join(" ")
        }),
        ("write", [path, text]) => done(fs::write(path, text)),
        ("append", [path, text]) => {
            let opened = OpenOptions::new().append(true).open(path);
            done(opened.and_then(|mut file| file.write_all(text.as_bytes())))
        }
        ("unlink", [path]) => done(fs::remove_file(path)),
        ("mkdir", [path]) => done(fs::create_dir(path)),
        ("rename", [from, to]) => done(fs::rename(from, to)),
        ("link", [from, to]) => done(fs::hard_link(from, to)),
        _ => return "no such step".to_owned(),
    };
    seen.unwrap_or_else(|error| format!("{:?}", error.kind()))
}
