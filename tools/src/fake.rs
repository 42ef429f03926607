//! The ports in memory, for tests of the tools without an operating system or a store. Files are
//! here, assets in [`MemoryAssets`].
//!
//! The tree has files, directories, symbolic and hard links, and one granted directory. It has no
//! modes, owners, pipes or devices.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Mutex, MutexGuard, PoisonError};

mod assets;

pub use assets::{MemoryAsset, MemoryAssets};

use crate::grants::beneath;
use crate::ports::{Directory, FileKind, Files, FsError, OpenedFile, WriteFailure};

/// The number of links that Linux follows in one path.
const MAX_LINKS: u32 = 40;

/// The value of NAME_MAX on Linux.
const MAX_NAME_BYTES: usize = 255;

/// One name in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeNode {
    /// A file, by the number of its contents: two names with one number are hard links.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
}

/// The names by their path beneath the root, without slashes at either end; and the contents of
/// files.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The names, except the root's own.
    pub nodes: BTreeMap<Vec<u8>, FakeNode>,
    /// The contents by number.
    pub contents: BTreeMap<u64, Vec<u8>>,
}

/// Files in memory, granted under the name `root`.
#[derive(Debug)]
pub struct MemoryFiles {
    root: Vec<u8>,
    tree: Mutex<Tree>,
}

impl MemoryFiles {
    /// Creates a tree with the absolute path `root`, which is the current directory as well.
    #[must_use]
    pub fn new(root: &[u8], tree: Tree) -> Self {
        Self { root: root.to_vec(), tree: Mutex::new(tree) }
    }

    /// Returns the tree after all changes.
    #[must_use]
    pub fn into_tree(self) -> Tree {
        self.tree.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(&self, tree: &Tree, path: &[u8], follow: bool) -> Result<ResolvedNode, FsError> {
        let path = match path {
            [b'/', ..] => beneath(&self.root, path).ok_or(FsError::Outside)?,
            _ => path,
        };
        let mut resolved = tree.resolve(path, follow)?;
        resolved.wants_directory = path.last() == Some(&b'/');
        Ok(resolved)
    }
}

struct ResolvedNode {
    key: Vec<u8>,
    node: Option<FakeNode>,
    wants_directory: bool,
}

impl Tree {
    fn resolve(&self, path: &[u8], follow: bool) -> Result<ResolvedNode, FsError> {
        let split = |path: &[u8]| -> Vec<Vec<u8>> {
            let parts =
                path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
            parts.rev().map(<[u8]>::to_vec).collect()
        };
        let mut waiting = split(path);
        let mut key: Vec<u8> = Vec::new();
        let mut node = Some(FakeNode::Directory);
        let mut links = 0;
        while let Some(name) = waiting.pop() {
            if node != Some(FakeNode::Directory) {
                return Err(if node.is_none() { FsError::NotFound } else { FsError::Other });
            }
            if name == b".." {
                if key.is_empty() {
                    return Err(FsError::Outside);
                }
                key.truncate(key.iter().rposition(|byte| *byte == b'/').unwrap_or(0));
                continue;
            }
            if name.len() > MAX_NAME_BYTES {
                return Err(FsError::Other);
            }
            let child = if key.is_empty() { name } else { [&key[..], b"/", &name].concat() };
            match self.nodes.get(&child) {
                Some(FakeNode::Symlink(target)) if follow || !waiting.is_empty() => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(FsError::Other);
                    }
                    if target.first() == Some(&b'/') {
                        return Err(FsError::Outside);
                    }
                    waiting.extend(split(target));
                }
                found => {
                    node = found.cloned();
                    key = child;
                }
            }
        }
        Ok(ResolvedNode { key, node, wants_directory: false })
    }
}

impl ResolvedNode {
    fn kind(&self) -> Result<FileKind, FsError> {
        match &self.node {
            None => Err(FsError::NotFound),
            Some(FakeNode::Directory) => Ok(FileKind::Directory),
            Some(_) if self.wants_directory => Err(FsError::Other),
            Some(FakeNode::File(_)) => Ok(FileKind::Regular),
            Some(FakeNode::Symlink(_)) => Ok(FileKind::Symlink),
        }
    }
}

impl Files for MemoryFiles {
    type File = Cursor<Vec<u8>>;
    type Dir = MemoryDir;

    fn open(&self, path: &[u8]) -> Result<OpenedFile<Self::File>, FsError> {
        let tree = self.tree();
        let found = self.resolve(&tree, path, true)?;
        let kind = found.kind()?;
        let contents = match found.node {
            Some(FakeNode::File(number)) => tree.contents.get(&number).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        Ok(OpenedFile { kind, size: contents.len() as u64, file: Cursor::new(contents) })
    }

    fn write(&self, path: &[u8], contents: &[u8]) -> Result<(), WriteFailure> {
        let mut tree = self.tree();
        let found = self.resolve(&tree, path, true).map_err(WriteFailure::Open)?;
        let number = match found.kind() {
            Err(FsError::NotFound) if !found.wants_directory => {
                let number = tree.contents.keys().next_back().map_or(0, |last| last + 1);
                tree.nodes.insert(found.key, FakeNode::File(number));
                number
            }
            Ok(_) => match found.node {
                Some(FakeNode::File(number)) => number,
                _ => return Err(WriteFailure::Open(FsError::NotRegular)),
            },
            Err(_) => return Err(WriteFailure::Open(FsError::Other)),
        };
        tree.contents.insert(number, contents.to_vec());
        Ok(())
    }

    fn replace(&self, path: &[u8], contents: &[u8]) -> Result<(), FsError> {
        let mut tree = self.tree();
        let found = self.resolve(&tree, path, true)?;
        if found.kind()? != FileKind::Regular {
            return Err(FsError::NotRegular);
        }
        let number = tree.contents.keys().next_back().map_or(0, |last| last + 1);
        tree.nodes.insert(found.key, FakeNode::File(number));
        tree.contents.insert(number, contents.to_vec());
        Ok(())
    }

    fn kind(&self, path: &[u8], follow: bool) -> Result<FileKind, FsError> {
        self.resolve(&self.tree(), path, follow || path.ends_with(b"/"))?.kind()
    }

    fn open_dir(&self, path: &[u8]) -> Result<MemoryDir, FsError> {
        let tree = self.tree();
        let found = self.resolve(&tree, path, true)?;
        if found.kind()? != FileKind::Directory {
            return Err(FsError::Other);
        }
        let prefix =
            if found.key.is_empty() { Vec::new() } else { [&found.key[..], b"/"].concat() };
        let beneath = tree.nodes.iter().filter_map(|(path, node)| {
            let name = path.strip_prefix(&prefix[..]).filter(|name| !name.contains(&b'/'))?;
            let contents = match node {
                FakeNode::File(number) => tree.contents.get(number).cloned(),
                _ => None,
            };
            Some((name.to_vec(), (node.clone(), contents.unwrap_or_default())))
        });
        Ok(MemoryDir { entries: beneath.collect() })
    }
}

/// A snapshot of a directory, taken when it was opened.
#[derive(Debug)]
pub struct MemoryDir {
    entries: BTreeMap<Vec<u8>, (FakeNode, Vec<u8>)>,
}

impl Directory for MemoryDir {
    type File = Cursor<Vec<u8>>;

    fn entries(&self, visit: &mut dyn FnMut(&[u8], FileKind)) -> Result<u64, FsError> {
        for (name, (node, _)) in &self.entries {
            let found =
                ResolvedNode { key: Vec::new(), node: Some(node.clone()), wants_directory: false };
            visit(name, found.kind()?);
        }
        Ok(0)
    }

    fn open_file(&self, name: &[u8]) -> Result<Self::File, FsError> {
        match self.entries.get(name) {
            Some((FakeNode::File(_), contents)) => Ok(Cursor::new(contents.clone())),
            Some(_) => Err(FsError::Other),
            None => Err(FsError::NotFound),
        }
    }
}
