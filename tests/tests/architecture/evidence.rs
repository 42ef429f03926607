//! Checks the tests that the table of docs/security/evidence.md names for each claim: each file
//! must exist and contain each test.

use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The folder of the files that are named without a package.
const FOLDER: &str = "tests/tests";

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The text of the row's first cell.
    text: String,
    /// The files of the row's second cell, each with the names of its tests.
    files: Vec<(PathBuf, Vec<String>)>,
}

/// Returns the claims of a page, in all of its tables.
pub(crate) fn tests(page: &str) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    let (mut is_head, mut column) = (false, 0);
    for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::TableHead) => is_head = true,
            Event::End(TagEnd::TableHead) => is_head = false,
            Event::Start(Tag::TableRow) => {
                claims.push(Claim { text: String::new(), files: Vec::new() });
                column = 0;
            }
            Event::End(TagEnd::TableCell) => column += 1,
            Event::Text(text) | Event::Code(text) if column == 0 && !is_head => {
                if let Some(claim) = claims.last_mut() {
                    claim.text.push_str(&text);
                }
            }
            Event::Code(name) if column == 1 && !is_head => {
                let Some(claim) = claims.last_mut() else { continue };
                if name.ends_with(".rs") {
                    let is_whole = name.contains("/src/") || name.contains("/tests/");
                    let folder = if is_whole { Path::new("") } else { Path::new(FOLDER) };
                    claim.files.push((folder.join(&*name), Vec::new()));
                } else if let Some((_, tests)) = claim.files.last_mut() {
                    tests.push(name.into_string());
                }
            }
            _ => {}
        }
    }
    claims
}

/// Returns the files and the tests that do not exist, and the claims for which the page names no
/// file. `source` reads a file of the repository.
pub(crate) fn missing(claims: &[Claim], source: impl Fn(&Path) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for Claim { text, files } in claims {
        if files.is_empty() {
            found.push(format!("no test for: {text}"));
        }
        for (file, tests) in files {
            let Some(source) = source(file) else {
                found.push(file.display().to_string());
                continue;
            };
            let absent = tests.iter().filter(|test| !source.contains(&format!("fn {test}(")));
            found.extend(absent.map(|test| format!("{}: {test}", file.display())));
        }
    }
    found
}
