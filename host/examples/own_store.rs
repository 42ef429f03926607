//! Keeps assets in its own store, a map, which two tools read and write under `ikigai://`.
//!
//! ```text
//! cargo run --example own_store -- /usr
//! ```

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::future::ready;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ikigai_host::assets::{
    AssetCaller, AssetEntry, AssetError, AssetFuture, AssetListing, AssetStore, MAX_CONTENT,
    MAX_ENTRIES, Window,
};
use ikigai_host::{Bytes, CancellationToken, Host, Paths, ToolCode};

/// The notes by their paths. No method waits for anything, so a lock from the standard library is
/// enough.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

impl Notes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the path in `uri`: tools write `ikigai:///a/b` or `ikigai://a/b`.
fn path(uri: &str) -> Result<&str, AssetError> {
    let path = uri.strip_prefix("ikigai://").unwrap_or(uri).trim_start_matches('/');
    if path.is_empty() {
        return Err(AssetError::new(ToolCode::InvalidArg, format!("`{uri}` names no note")));
    }
    Ok(path)
}

/// Replaces `old` in a note, and returns the number of replacements.
fn replace(note: &mut String, old: &str, new: &str, all: bool) -> Result<u64, AssetError> {
    let count = note.matches(old).count();
    let refusal = match (count, all) {
        (0, _) => Some((ToolCode::NotFound, "the text is not in the note")),
        (2.., false) => Some((ToolCode::NotUnique, "the text is there more than once")),
        // Replacing many short matches with a long text could make the note grow to any size.
        _ if note.len() - count * old.len() + count * new.len() > MAX_CONTENT => {
            Some((ToolCode::InvalidArg, "the note would be too large"))
        }
        _ => None,
    };
    if let Some((code, message)) = refusal {
        return Err(AssetError::new(code, message));
    }
    *note = note.replace(old, new);
    Ok(count as u64)
}

fn missing(uri: &str) -> AssetError {
    AssetError::new(ToolCode::FileNotFound, format!("no note `{uri}`"))
}

// Before it calls a method, the host has checked the tool's grant and the size of the texts. The
// model that called the tool reads the errors.
impl AssetStore for Notes {
    fn files(&self) -> Vec<PathBuf> {
        // The store is in memory. A store in a file returns the file's path, which no tool may then
        // write.
        Vec::new()
    }

    fn read<'a>(
        &'a self,
        _: &'a AssetCaller,
        uri: &'a str,
        window: Window,
    ) -> AssetFuture<'a, Bytes> {
        let notes = self.lock();
        let note = path(uri).and_then(|path| notes.get(path).ok_or_else(|| missing(uri)));
        Box::pin(ready(note.map(|note| Bytes::copy_from_slice(window.cut(note.as_bytes())))))
    }

    fn write<'a>(
        &'a self,
        caller: &'a AssetCaller,
        uri: &'a str,
        content: &'a str,
    ) -> AssetFuture<'a, ()> {
        eprintln!("{} writes {uri}", caller.agent);
        let written = path(uri).map(|path| {
            self.lock().insert(path.to_owned(), content.to_owned());
        });
        Box::pin(ready(written))
    }

    fn edit<'a>(
        &'a self,
        _: &'a AssetCaller,
        uri: &'a str,
        old: &'a str,
        new: &'a str,
        all: bool,
    ) -> AssetFuture<'a, u64> {
        let mut notes = self.lock();
        let note = path(uri).and_then(|path| notes.get_mut(path).ok_or_else(|| missing(uri)));
        Box::pin(ready(note.and_then(|note| replace(note, old, new, all))))
    }

    fn list<'a>(&'a self, _: &'a AssetCaller, prefix: &'a str) -> AssetFuture<'a, AssetListing> {
        let notes = self.lock();
        let found = || notes.iter().filter(|(path, _)| path.starts_with(prefix));
        let entry = |(path, note): (&String, &String)| AssetEntry {
            path: path.clone(),
            tokens: note.len() as u64 / 4,
            read_only: false,
        };
        let entries = found().take(MAX_ENTRIES).map(entry).collect();
        let more = found().nth(MAX_ENTRIES).is_some();
        Box::pin(ready(Ok(AssetListing { entries, more })))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let prefix = env::args().nth(1).ok_or("usage: own_store PREFIX")?;
    let host = Host::builder(".")
        .paths(Paths::of_installation(prefix))
        .assets(Arc::new(Notes::default()), "example")
        .build()?;
    let tools = host.refresh().await;
    for (tool, arguments) in [
        ("file_write", r#"{"file_path": "ikigai://plan.md", "content": "1. build\n2. rest\n"}"#),
        ("file_read", r#"{"file_path": "ikigai://plan.md", "offset": 2}"#),
    ] {
        println!("{}", host.call(&tools, tool, arguments.into(), CancellationToken::new()).await);
    }
    Ok(())
}
