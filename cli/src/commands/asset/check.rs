//! `ikigai asset check`: the damage of the store, and references without a target.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueHint};
use ikigai_assets::{
    AssetMetadata, AssetPath, Damage, Error, MAX_ASSET_BYTES, Store, StoredText, references,
};
use ikigai_terminal::one_line;
use serde_json::{Value, json};

use crate::error::{self, CliError};
use crate::output::{eprint, print, print_json};
use crate::remedy;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ikigai asset check\n  \
    ikigai asset check README.md docs/*.md";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Further files to search
    #[arg(value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A reference without a target.
struct Dangling {
    /// An asset's URI or the path of a file, and the line, counted from 1.
    place: (String, usize),
    /// The reference as it is written there.
    reference: String,
    why: String,
}

/// The outcome of a check.
struct CheckReport {
    damage: Vec<Damage>,
    /// The number of texts that were searched for references.
    looked: usize,
    dangling: Vec<Dangling>,
}

pub(super) async fn run(
    store: &Store,
    workspace: &Path,
    arguments: Arguments,
) -> Result<ExitCode, CliError> {
    let damage = store.check().await?;
    let mut found = CheckReport { damage, looked: 0, dangling: Vec::new() };
    // A damaged file may lack assets, so every reference to those would look broken.
    if !found.damage.iter().any(|it| matches!(it, Damage::File(_))) {
        found.look(store, workspace, &arguments.files).await?;
    }
    if arguments.json {
        print_json(&found.to_json(store))?;
    } else {
        found.print(store)?;
    }
    if found.damage.is_empty() {
        return Ok(ExitCode::from(if found.dangling.is_empty() { 0 } else { error::FAILED }));
    }
    let mut hints: Vec<&str> = Vec::new();
    for damage in &found.damage {
        let hint = remedy::asset::sentence(damage.into());
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    Err(CliError::failed(anyhow!("store `{}` is damaged", store.url())).hints(hints))
}

impl CheckReport {
    /// Looks for references in the assets that are not damaged, and in files.
    async fn look(
        &mut self,
        store: &Store,
        workspace: &Path,
        files: &[PathBuf],
    ) -> Result<(), CliError> {
        let assets = store.list("", None).await?;
        let known: BTreeSet<AssetPath> = assets.iter().map(|it| it.path.clone()).collect();
        for AssetMetadata { path, version, .. } in assets {
            let text = StoredText::Asset { path: path.clone(), version };
            // Outputs of tools may contain anything.
            if path.is_output() || self.damage.contains(&Damage::Text(text)) {
                continue;
            }
            let asset = match store.read(&path).await {
                // The asset was removed in the meantime.
                Err(Error::NotFound(_)) => continue,
                read => read?,
            };
            self.looked += 1;
            let place = path.to_uri();
            let text = String::from_utf8_lossy(&asset.content);
            assets_in(&text, &place, &known, &mut self.dangling);
            files_in(&text, &place, workspace, &mut self.dangling);
        }
        for file in files {
            self.looked += 1;
            let content = read(file)
                .with_context(|| format!("cannot read `{}`", file.display()))
                .map_err(CliError::usage)?;
            let text = String::from_utf8_lossy(&content);
            assets_in(&text, &file.display().to_string(), &known, &mut self.dangling);
        }
        Ok(())
    }

    fn to_json(&self, store: &Store) -> Value {
        let damaged = self.damage.iter().map(|it| match it {
            Damage::Text(StoredText::Asset { path, version }) => {
                json!({ "asset": path.to_uri(), "version": version })
            }
            Damage::Text(StoredText::Event { session, seq }) => {
                json!({ "session": session.to_string(), "event": seq })
            }
            Damage::File(why) => json!({ "store": store.url().to_string(), "why": why }),
        });
        let dangling = self.dangling.iter().map(|it| {
            let (place, line) = &it.place;
            json!({ "in": place, "line": line, "reference": it.reference, "why": it.why })
        });
        json!({
            "damaged": damaged.collect::<Vec<_>>(),
            "looked_at": self.looked,
            "dangling": dangling.collect::<Vec<_>>(),
        })
    }

    fn print(&self, store: &Store) -> Result<(), CliError> {
        let damaged = self.damage.iter().map(|it| match it {
            Damage::Text(text) => format!("{text} is not what was written\n"),
            Damage::File(why) => format!("{}: {}\n", store.url(), one_line(why)),
        });
        let dangling = self.dangling.iter().map(|it| {
            let (place, line) = &it.place;
            format!("{place}:{line}: {}: {}\n", it.reference, it.why)
        });
        print(&damaged.chain(dangling).collect::<String>())?;
        let noun = if self.looked == 1 { "text" } else { "texts" };
        let count = counted(self.dangling.len());
        eprint(&format!("{count} of {} {noun} are broken\n", self.looked));
        Ok(())
    }
}

/// Reads a file that is at most as large as an asset may be.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?.take(MAX_ASSET_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_ASSET_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "larger than the limit for an asset",
        ));
    }
    Ok(content)
}

fn counted(count: usize) -> String {
    if count == 1 { "1 reference".to_owned() } else { format!("{count} references") }
}

fn assets_in(text: &str, place: &str, known: &BTreeSet<AssetPath>, found: &mut Vec<Dangling>) {
    let mut lines = LineCounter::new(text);
    for reference in references(text) {
        let why = match &reference.path {
            Ok(path) if known.contains(path) => continue,
            Ok(_) => "no such asset".to_owned(),
            Err(error) => error.to_string(),
        };
        let line = lines.at(reference.at);
        let reference = reference.uri.to_owned();
        found.push(Dangling { place: (place.to_owned(), line), reference, why });
    }
}

fn files_in(text: &str, place: &str, workspace: &Path, found: &mut Vec<Dangling>) {
    let mut lines = LineCounter::new(text);
    for (at, name) in file_names(text) {
        if workspace.join(name).exists() {
            continue;
        }
        let why = "no such file in the workspace".to_owned();
        let line = lines.at(at);
        found.push(Dangling { place: (place.to_owned(), line), reference: name.to_owned(), why });
    }
}

/// A counter of lines, which reads the text once.
struct LineCounter<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> LineCounter<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// Returns the line of the byte `at`, which must not be before the `at` of the last call.
    fn at(&mut self, at: usize) -> usize {
        let passed = self.text.as_bytes()[self.at..at].iter();
        self.line += passed.filter(|byte| **byte == b'\n').count();
        self.at = at;
        self.line
    }
}

/// Returns the words of a text that look like file paths, with their positions: words with a slash
/// and a file extension, such as `src/db/schema.sql`. A word without a slash may be anything, and a
/// part of a URL is not a file.
fn file_names(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let ends_word = |c: char| c.is_whitespace() || c.is_control() || "()[]{}<>\"'`,;|".contains(c);
    let words = text.split(ends_word).map(|word| {
        let word = word.trim_end_matches(['.', ':', '-', '/', '!', '?', '*']);
        let word = word.trim_start_matches('*');
        (word.as_ptr().addr() - text.as_ptr().addr(), word)
    });
    words.filter(|(_, word)| {
        let Some((dir, name)) = word.rsplit_once('/') else { return false };
        let Some((stem, ending)) = name.rsplit_once('.') else { return false };
        let is_ending = (1..=8).contains(&ending.len())
            && ending.starts_with(|c: char| c.is_ascii_alphabetic())
            && ending.chars().all(|c| c.is_ascii_alphanumeric());
        // `~/…`, `@…`, `host:…` and `a?b=…` are not in the workspace.
        let is_path = word.chars().all(|c| c.is_alphanumeric() || "._-/+".contains(c));
        !dir.is_empty() && !stem.is_empty() && is_ending && is_path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_files_are_distinguished_from_other_words() {
        let text = "Implementation: src/db/connection.c.\nSchema: `src/db/schema.sql`, (docs/a.md)\n\
                    [x](../up/b.rs) https://example.com/c.html ikigai:///blocks/d.md e.md and/or \
                    1/2.5 https://e.com/foo%20bar/baz.html e.com/q?x=a/b.c **k/l.md** ~/f/g.md .github/h.yml a/.hidden git@host:i/j.git";
        let names: Vec<&str> = file_names(text).map(|(_, name)| name).collect();
        let expected = [
            "src/db/connection.c",
            "src/db/schema.sql",
            "docs/a.md",
            "../up/b.rs",
            "k/l.md",
            ".github/h.yml",
        ];
        assert_eq!(names, expected);
        assert!(file_names(text).all(|(at, name)| text[at..].starts_with(name)));
    }
}
