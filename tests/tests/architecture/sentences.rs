//! The opening of doc comments: a first sentence describes its item, and is not an indirect
//! question.
//!
//! All items are checked, public or not, and the pages of modules as well. Ordinary comments are
//! not checked.

use std::collections::BTreeMap;

/// The folders of sources that are checked, from the root of the repository.
pub(crate) const CHECKED: &[&str] = &[
    "agent/src",
    "assets/src",
    "assets/testing/src",
    "assets/tests",
    "bench/calls",
    "cli/src",
    "fuzz/src",
    "host/examples",
    "host/src",
    "mcp/src",
    "mcp/testing/src",
    "mcp/testing/tests",
    "protocol/src",
    "provider/src",
    "provider/testing/src",
    "provider/tests",
    "shell-wasm/src",
    "supervisor/src",
    "packages/src",
    "packages/testing/src",
    "packages/tests",
    "terminal/src",
    "terminal/testing/src",
    "terminal/tests",
    "tests/guests-async/src",
    "tests/guests/src",
    "tests/src",
    "tests/tests",
    "tests/tools-async/src",
    "tools-native/src",
    "tools-wasm/src",
    "tools/src",
    "xtask/src",
];

/// The words that open a question in place of a noun or a verb.
const QUESTIONS: &[&str] = &["What", "Whether", "How", "Why", "Where", "Who"];

/// Returns the doc comments that open with one of [`QUESTIONS`], each as `FILE:LINE: TEXT`.
pub(crate) fn questions(folder: &str, sources: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (path, source) in sources {
        for (line, text) in openings(source) {
            if QUESTIONS.contains(&first_word(text)) {
                found.push(format!("{folder}/{path}:{line}: {text}"));
            }
        }
    }
    found
}

/// Returns the first line with text of each doc comment, with its number.
fn openings(source: &str) -> Vec<(usize, &str)> {
    let mut openings = Vec::new();
    // The marker of the comment that has an opening already.
    let mut opened = None;
    for (index, line) in source.lines().enumerate() {
        match doc_comment(line) {
            None => opened = None,
            Some((marker, text)) if opened != Some(marker) && !text.is_empty() => {
                openings.push((index + 1, text));
                opened = Some(marker);
            }
            Some(_) => {}
        }
    }
    openings
}

/// Splits a line of a doc comment into its marker and its text.
fn doc_comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim();
    let marker = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker))?;
    // Four slashes are an ordinary comment.
    let text = line[marker.len()..].trim_start();
    (!line.starts_with("////")).then_some((marker, text))
}

/// Returns the first word of a text, without emphasis. The word is empty if the text begins with
/// code.
fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(['*', '_', '"']);
    text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default()
}
