//! Assets in memory, with the rules of a store as far as a tool can see them.
//!
//! The store has neither versions nor pins. The budget is a bound on all assets together.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ikigai_protocol::ToolCode;

use crate::ports::{AssetError, Assets, LineWindow};

/// The longest path of an asset, in bytes.
const MAX_PATH: usize = 1024;

/// One asset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryAsset {
    /// The stored bytes, which need not be UTF-8.
    pub content: Vec<u8>,
    /// `true` if the asset may only be read.
    pub read_only: bool,
}

/// The assets by their paths.
#[derive(Debug)]
pub struct MemoryAssets {
    assets: Mutex<BTreeMap<String, MemoryAsset>>,
    /// The limit of all assets together, in tokens.
    budget: u64,
}

impl MemoryAssets {
    /// Creates a store of `assets` that holds at most `budget` tokens.
    #[must_use]
    pub fn new(assets: BTreeMap<String, MemoryAsset>, budget: u64) -> Self {
        Self { assets: Mutex::new(assets), budget }
    }

    /// Returns the assets whose paths begin with `prefix`, in the order of the paths.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<(String, MemoryAsset)> {
        let assets = self.lock();
        let wanted = assets.iter().filter(|(path, _)| path.starts_with(prefix));
        wanted.map(|(path, asset)| (path.clone(), asset.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MemoryAsset>> {
        self.assets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores `content` as an asset, if the rules allow it.
    fn store(
        &self,
        assets: &mut BTreeMap<String, MemoryAsset>,
        path: &str,
        content: Vec<u8>,
    ) -> Result<(), AssetError> {
        let old = assets.get(path);
        if old.is_some_and(|old| old.read_only) {
            let message = format!("Asset is read-only: ikigai:///{path}");
            return Err(AssetError::new(ToolCode::ReadOnly, message));
        }
        let all: u64 = assets.values().map(|asset| tokens(&asset.content)).sum();
        let new = tokens(&content);
        let others = all - old.map_or(0, |old| tokens(&old.content));
        let shrinks = old.is_some_and(|old| content.len() <= old.content.len());
        if others + new > self.budget && !shrinks {
            let message = format!("Block budget exceeded: {all}/{} tokens", self.budget);
            return Err(AssetError::new(ToolCode::BudgetExceeded, message));
        }
        assets.insert(path.to_owned(), MemoryAsset { content, read_only: false });
        Ok(())
    }
}

impl Assets for MemoryAssets {
    fn read(&self, uri: &str, lines: LineWindow) -> Result<String, AssetError> {
        let path = path(uri)?;
        let assets = self.lock();
        let asset = assets.get(path).ok_or_else(|| missing(uri))?;
        let skip = usize::try_from(lines.skip).unwrap_or(usize::MAX);
        let limit = lines.limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        let all = asset.content.split_inclusive(|byte| *byte == b'\n');
        let shown: Vec<u8> = all.skip(skip).take(limit).flatten().copied().collect();
        Ok(String::from_utf8_lossy(&shown).into_owned())
    }

    fn write(&self, uri: &str, content: &str) -> Result<(), AssetError> {
        let path = path(uri)?;
        self.store(&mut self.lock(), path, content.as_bytes().to_vec())
    }

    fn edit(&self, uri: &str, old: &str, new: &str, all: bool) -> Result<u64, AssetError> {
        let path = path(uri)?;
        let mut assets = self.lock();
        let asset = assets.get(path).ok_or_else(|| missing(uri))?;
        let found: Vec<usize> = memchr::memmem::find_iter(&asset.content, old).collect();
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
            after.extend_from_slice(&asset.content[rest..*at]);
            after.extend_from_slice(new.as_bytes());
            rest = at + old.len();
        }
        after.extend_from_slice(&asset.content[rest..]);
        self.store(&mut assets, path, after)?;
        Ok(found.len() as u64)
    }
}

fn tokens(content: &[u8]) -> u64 {
    content.len().div_ceil(4) as u64
}

fn missing(uri: &str) -> AssetError {
    AssetError::new(ToolCode::FileNotFound, format!("File not found: {uri}"))
}

/// Returns the path in a URI: `ikigai://` with or without a third slash.
fn path(uri: &str) -> Result<&str, AssetError> {
    let Some(rest) = uri.strip_prefix("ikigai://") else {
        let message = format!("`{uri}` is not named as an asset is: ikigai:///PATH");
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
        _ => format!("`{}` names no asset", path.escape_debug()),
    };
    Err(AssetError::new(ToolCode::InvalidArg, message))
}
