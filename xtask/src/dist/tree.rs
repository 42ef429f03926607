//! The files of a package, sorted by path, with modes that do not depend on the machine.
//!
//! Owns the modes and the reading of directories. The channels decide which files a package has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::place::{DATA, PROGRAM};

/// The files of a package, by paths with `/` that are relative to its root.
#[derive(Clone, Default)]
pub(crate) struct FileTree {
    files: BTreeMap<String, PackedFile>,
}

/// A file of a package.
#[derive(Clone)]
pub(crate) struct PackedFile {
    pub(crate) mode: u32,
    content: FileContent,
}

/// The source of a file's bytes. Programs stay on the disk, because each channel packs them anew.
#[derive(Clone)]
enum FileContent {
    Bytes(Vec<u8>),
    OnDisk(PathBuf),
}

impl FileTree {
    /// Adds a file with these bytes, in place of any earlier one.
    pub(crate) fn insert(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        let mode = mode(&bytes);
        let content = FileContent::Bytes(bytes);
        self.files.insert(path.into(), PackedFile { mode, content });
    }

    /// Adds a file of the disk.
    pub(crate) fn add_file(&mut self, path: String, source: &Path) -> anyhow::Result<()> {
        let cannot_read = || format!("cannot read `{}`", source.display());
        let mut head = Vec::new();
        File::open(source)
            .and_then(|file| file.take(HEAD).read_to_end(&mut head))
            .with_context(cannot_read)?;
        let content = FileContent::OnDisk(source.to_owned());
        self.files.insert(path, PackedFile { mode: mode(&head), content });
        Ok(())
    }

    /// Adds all files below a directory of the disk.
    pub(crate) fn add_directory(&mut self, path: &str, source: &Path) -> anyhow::Result<()> {
        let list = || format!("cannot list `{}`", source.display());
        for entry in fs::read_dir(source).with_context(list)? {
            let entry = entry.with_context(list)?;
            let Ok(name) = entry.file_name().into_string() else {
                bail!("the name of `{}` is not UTF-8", entry.path().display());
            };
            let inner = format!("{path}/{name}");
            let kind = entry.file_type().with_context(list)?;
            if kind.is_dir() {
                self.add_directory(&inner, &entry.path())?;
            } else if kind.is_file() {
                self.add_file(inner, &entry.path())?;
            } else {
                bail!("`{}` is neither a file nor a directory", entry.path().display());
            }
        }
        Ok(())
    }

    /// Returns the same files with other paths. A file for which `rename` returns `None` is left
    /// out.
    pub(crate) fn renamed(&self, rename: impl Fn(&str) -> Option<String>) -> Self {
        let renamed = |(path, file): (&String, &PackedFile)| Some((rename(path)?, file.clone()));
        Self { files: self.files.iter().filter_map(renamed).collect() }
    }

    /// Returns the files in the order of their paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &PackedFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Returns the bytes of a file.
    pub(crate) fn bytes(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let file = self.files.get(path).with_context(|| format!("`{path}` is missing"))?;
        file.bytes()
    }

    /// Returns the size of all files, in bytes.
    pub(crate) fn size(&self) -> anyhow::Result<u64> {
        self.files.values().map(PackedFile::size).sum()
    }
}

impl PackedFile {
    pub(crate) fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        match &self.content {
            FileContent::Bytes(bytes) => Ok(bytes.clone()),
            FileContent::OnDisk(path) => {
                fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
            }
        }
    }

    fn size(&self) -> anyhow::Result<u64> {
        match &self.content {
            FileContent::Bytes(bytes) => Ok(bytes.len() as u64),
            FileContent::OnDisk(path) => fs::metadata(path)
                .map(|metadata| metadata.len())
                .with_context(|| format!("cannot read `{}`", path.display())),
        }
    }
}

/// The bytes by which a program is recognised.
const HEAD: u64 = 18;

/// Returns the mode of a file that begins with `head`: only programs and scripts are executable.
/// The modes on the disk depend on the builder's umask.
fn mode(head: &[u8]) -> u32 {
    // The type of a program for ELF. Compiled components are ELF files of another type.
    const EXECUTABLE: [u8; 2] = [2, 0];
    const POSITION_INDEPENDENT: [u8; 2] = [3, 0];
    let kind = head.get(16..18);
    let is_program = head.starts_with(b"\x7fELF")
        && (kind == Some(&EXECUTABLE) || kind == Some(&POSITION_INDEPENDENT));
    if is_program || head.starts_with(b"#!") { PROGRAM } else { DATA }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_and_have_fixed_modes() {
        let mut tree = FileTree::default();
        tree.insert("b/script", "#!/bin/sh\n");
        tree.insert("b/note", "text");
        tree.insert("a", *b"\x7fELF............\x03\0");
        let modes: Vec<_> = tree.iter().map(|(path, file)| (path, file.mode)).collect();
        assert_eq!(modes, [("a", PROGRAM), ("b/note", DATA), ("b/script", PROGRAM)]);
        assert_eq!(tree.size().expect("a size"), 18 + 4 + 10);
        let kept = tree.renamed(|path| Some(format!("x/{}", path.strip_prefix("b/")?)));
        assert_eq!(kept.iter().map(|(path, _)| path).collect::<Vec<_>>(), ["x/note", "x/script"]);
    }

    #[test]
    fn a_component_is_not_a_program() {
        assert_eq!(mode(b"\0asm"), DATA);
        assert_eq!(mode(b"\x7fELF............\x01\0"), DATA, "compiled");
    }
}
