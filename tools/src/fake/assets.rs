//! Documents in memory, with the rules of a store as far as a tool can see them.
//!
//! It keeps no versions and no pins. What it calls the budget is a bound on all of its
//! documents together.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ikigai_protocol::ToolCode;

use crate::ports::{AssetError, Documents, Lines};

/// The longest path of a document, in bytes.
const MAX_PATH: usize = 1024;

/// One document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryDocument {
    /// What is stored, which need not be UTF-8.
    pub content: Vec<u8>,
    /// Whether it can be read only.
    pub read_only: bool,
}

/// Documents by their paths.
#[derive(Debug)]
pub struct MemoryDocuments {
    documents: Mutex<BTreeMap<String, MemoryDocument>>,
    /// In tokens, for all documents.
    budget: u64,
}

impl MemoryDocuments {
    /// The documents that are there at first, and the tokens that all may have together.
    #[must_use]
    pub fn new(documents: BTreeMap<String, MemoryDocument>, budget: u64) -> Self {
        Self { documents: Mutex::new(documents), budget }
    }

    /// What there is, in the order of the paths that begin with `prefix`.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<(String, MemoryDocument)> {
        let documents = self.lock();
        let wanted = documents.iter().filter(|(path, _)| path.starts_with(prefix));
        wanted.map(|(path, document)| (path.clone(), document.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MemoryDocument>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `content` in the place of a document, if the rules allow it.
    fn store(
        &self,
        documents: &mut BTreeMap<String, MemoryDocument>,
        path: &str,
        content: Vec<u8>,
    ) -> Result<(), AssetError> {
        let old = documents.get(path);
        if old.is_some_and(|old| old.read_only) {
            let message = format!("Document is read-only: ikigai:///{path}");
            return Err(AssetError::new(ToolCode::ReadOnly, message));
        }
        let all: u64 = documents.values().map(|document| tokens(&document.content)).sum();
        let new = tokens(&content);
        let others = all - old.map_or(0, |old| tokens(&old.content));
        let shrinks = old.is_some_and(|old| content.len() <= old.content.len());
        if others + new > self.budget && !shrinks {
            let message = format!("Block budget exceeded: {all}/{} tokens", self.budget);
            return Err(AssetError::new(ToolCode::BudgetExceeded, message));
        }
        documents.insert(path.to_owned(), MemoryDocument { content, read_only: false });
        Ok(())
    }
}

impl Documents for MemoryDocuments {
    fn read(&self, uri: &str, lines: Lines) -> Result<String, AssetError> {
        let path = path(uri)?;
        let documents = self.lock();
        let document = documents.get(path).ok_or_else(|| missing(uri))?;
        let skip = usize::try_from(lines.skip).unwrap_or(usize::MAX);
        let limit = lines.limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        let all = document.content.split_inclusive(|byte| *byte == b'\n');
        let shown: Vec<u8> = all.skip(skip).take(limit).flatten().copied().collect();
        Ok(String::from_utf8_lossy(&shown).into_owned())
    }

    fn write(&self, uri: &str, content: &str) -> Result<(), AssetError> {
        let path = path(uri)?;
        self.store(&mut self.lock(), path, content.as_bytes().to_vec())
    }

    fn edit(&self, uri: &str, old: &str, new: &str, all: bool) -> Result<u64, AssetError> {
        let path = path(uri)?;
        let mut documents = self.lock();
        let document = documents.get(path).ok_or_else(|| missing(uri))?;
        let found: Vec<usize> = memchr::memmem::find_iter(&document.content, old).collect();
        match found.len() {
            0 if !all => {
                return Err(AssetError::new(ToolCode::NotFound, "String not found in file"));
            }
            count if count > 1 && !all => {
                let message = format!("String found {count} times, use replace_all to replace all");
                return Err(AssetError::new(ToolCode::NotUnique, message));
            }
            _ => {}
        }
        let (mut after, mut rest) = (Vec::new(), 0);
        for at in &found {
            after.extend_from_slice(&document.content[rest..*at]);
            after.extend_from_slice(new.as_bytes());
            rest = at + old.len();
        }
        after.extend_from_slice(&document.content[rest..]);
        self.store(&mut documents, path, after)?;
        Ok(found.len() as u64)
    }
}

fn tokens(content: &[u8]) -> u64 {
    content.len().div_ceil(4) as u64
}

fn missing(uri: &str) -> AssetError {
    AssetError::new(ToolCode::FileNotFound, format!("File not found: {uri}"))
}

/// The path in a URI: `ikigai://` with or without a third slash.
fn path(uri: &str) -> Result<&str, AssetError> {
    let Some(rest) = uri.strip_prefix("ikigai://") else {
        let message = format!("`{uri}` is not named as a document is: ikigai:///PATH");
        return Err(AssetError::new(ToolCode::InvalidArg, message));
    };
    let path = rest.strip_prefix('/').unwrap_or(rest);
    let wrong = path.split('/').find(|segment| matches!(*segment, "" | "." | ".."));
    let message = match wrong {
        _ if path.is_empty() => "an asset's path cannot be empty".to_owned(),
        Some(segment) if !segment.is_empty() => {
            format!("`{segment}` cannot be a segment of an asset's path")
        }
        None if path.len() <= MAX_PATH => return Ok(path),
        _ => format!("`{}` names no document", path.escape_debug()),
    };
    Err(AssetError::new(ToolCode::InvalidArg, message))
}
