//! Mentions in a prompt, put in their place: `@path` becomes the text of a file, `@@path`
//! that of a document.
//!
//! This happens when a person submits the prompt, with the person's own rights, and asks no
//! policy: what is mentioned is what the person wants to show. So a relative path leads
//! nowhere outside the workspace, not even by a link, which a tool could have put there; a
//! file outside is named by its absolute path. What cannot be shown stays as it is written,
//! and a warning says why.

mod parse;

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ikigai_assets::Error;
use rustix::fs::OFlags;

pub use parse::{Kind, Mention, Piece, parse};

use super::Session;
use crate::assets::named;

/// The largest file or document that is put into a prompt: 256 KiB, some 64,000 tokens.
pub const MAX_BYTES: u64 = 256 << 10;

/// A prompt with what it mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text for the model.
    pub text: String,
    /// What could not be shown, and why: a line each.
    pub warnings: Vec<String>,
}

/// A text that was mentioned, and what it is called.
struct Found {
    label: String,
    text: String,
}

/// Why nothing is shown.
enum Missing {
    /// There is nothing of this name; perhaps there is without the punctuation at its end.
    Absent(String),
    Unusable(String),
}

/// Puts what the prompt mentions in its place, fenced and under its name. What is mentioned
/// a second time is named only.
pub async fn expand(session: &Session, prompt: &str) -> Expanded {
    let mut expanded = Expanded::default();
    let mut shown = HashSet::new();
    for piece in parse(prompt) {
        let mention = match piece {
            Piece::Plain(text) => {
                expanded.text.push_str(text);
                continue;
            }
            Piece::Mention(mention) => mention,
        };
        match find(session, &mention).await {
            Ok((found, rest)) => {
                if shown.insert(found.label.clone()) {
                    expanded.push(&found);
                } else {
                    expanded.text.push_str(&format!("{} (shown above)", found.label));
                }
                expanded.text.push_str(rest);
            }
            Err(Missing::Absent(reason) | Missing::Unusable(reason)) => {
                expanded.text.push_str(mention.written);
                expanded.warnings.push(format!("`{}` is sent as it is: {reason}", mention.written));
            }
        }
    }
    expanded
}

impl Expanded {
    fn push(&mut self, found: &Found) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let fence = fence(&found.text);
        let end = if found.text.ends_with('\n') || found.text.is_empty() { "" } else { "\n" };
        let Found { label, text } = found;
        self.text.push_str(&format!("{label}:\n{fence}\n{text}{end}{fence}\n"));
    }
}

/// A fence that the text has none of.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    "`".repeat((longest + 1).max(3))
}

/// What is mentioned, and the punctuation behind its name.
async fn find<'a>(session: &Session, mention: &Mention<'a>) -> Result<(Found, &'a str), Missing> {
    let found = find_named(session, mention.kind, mention.name).await;
    let bare = mention.name.len() - mention.punctuation;
    match found {
        Err(Missing::Absent(_)) if mention.punctuation > 0 => {
            let (name, rest) = mention.name.split_at(bare);
            find_named(session, mention.kind, name).await.map(|found| (found, rest))
        }
        found => found.map(|found| (found, "")),
    }
}

async fn find_named(session: &Session, kind: Kind, name: &str) -> Result<Found, Missing> {
    match kind {
        Kind::Document => document(session, name).await,
        Kind::File => {
            let (workspace, name) = (session.workspace.clone(), name.to_owned());
            // A disk may be slow, and a terminal is to go on.
            tokio::task::spawn_blocking(move || file(&workspace, &name))
                .await
                .map_err(|error| Missing::Unusable(error.to_string()))?
        }
    }
}

async fn document(session: &Session, name: &str) -> Result<Found, Missing> {
    let unusable = |error: Error| Missing::Unusable(error.to_string());
    let documents = session.documents.as_ref();
    let documents =
        documents.ok_or_else(|| Missing::Unusable("there is no place for documents".to_owned()))?;
    let store = documents.store.open().await.map_err(unusable)?;
    let metadata = named(store, name).await.map_err(|missing| {
        let near = missing.nearest.map(|near| format!("; did you mean `@@{near}`?"));
        let reason = format!("{}{}", missing.error, near.unwrap_or_default());
        match missing.error {
            Error::NotFound(_) | Error::Path(_) => Missing::Absent(reason),
            _ => Missing::Unusable(reason),
        }
    })?;
    check_size(metadata.size)?;
    let document = store.read(&metadata.path).await.map_err(unusable)?;
    let text = text(document.content)?;
    Ok(Found { label: format!("Document {}", metadata.path.to_uri()), text })
}

fn file(workspace: &Path, name: &str) -> Result<Found, Missing> {
    let path = real(workspace, name)?;
    let failed = |error: std::io::Error| Missing::Unusable(error.to_string());
    // Asked before it is opened: opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(&path).map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "no regular file" };
        return Err(Missing::Unusable(format!("it is {what}")));
    }
    check_size(metadata.len())?;
    let mut content = Vec::new();
    // Some files of /proc are regular and wait for what comes next.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = std::fs::File::options().read(true).custom_flags(flags).open(&path);
    let file = file.map_err(failed)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    // It may have grown, and some files do not say how large they are.
    check_size(content.len() as u64)?;
    Ok(Found { label: format!("File {name}"), text: text(content)? })
}

/// The file that is meant, links looked through.
fn real(workspace: &Path, name: &str) -> Result<PathBuf, Missing> {
    let path = workspace.join(name).canonicalize().map_err(|error| {
        let reason = error.to_string();
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                Missing::Absent(format!("no file `{name}` in the workspace"))
            }
            _ => Missing::Unusable(reason),
        }
    })?;
    if Path::new(name).is_relative() && !path.starts_with(workspace) {
        return Err(Missing::Unusable(format!(
            "it is outside the workspace; `@{}` means it",
            path.display()
        )));
    }
    Ok(path)
}

fn check_size(bytes: u64) -> Result<(), Missing> {
    if bytes > MAX_BYTES {
        let reason = format!("it has {bytes} bytes, and {MAX_BYTES} are the most");
        return Err(Missing::Unusable(reason));
    }
    Ok(())
}

fn text(content: Vec<u8>) -> Result<String, Missing> {
    let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| Missing::Unusable("it is no text".to_owned()))
}
