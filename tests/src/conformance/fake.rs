//! Running a case's tool on the file port in memory.
//!
//! The case's directory is read into memory, and the result of the tool is written back, so that a
//! case is laid out and checked as on any other port.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use ikigai_tools::fake::{FakeNode, MemoryAssets, MemoryFiles, Tree};
use ikigai_tools::ports::Storage;

use super::{Case, Port, Ran};

/// The port in memory.
#[derive(Clone, Copy, Debug)]
pub struct Fake;

impl Port for Fake {
    fn run(&self, case: &Case, dir: &Path) -> Result<Ran, String> {
        if !case.args().is_empty() {
            return Err("no command line in memory".to_owned());
        }
        let mut loader = Loader::default();
        loader.load(dir, b"").map_err(|error| error.to_string())?;
        let files = MemoryFiles::new(dir.as_os_str().as_bytes(), loader.tree);
        let assets = MemoryAssets::new(BTreeMap::new(), 0);
        let storage = Storage { files, assets };
        let stdout = ikigai_tools::answer(case.tool(), &storage, &case.stdin())
            .ok_or("not a tool of files")?;
        store(dir, &storage.files.into_tree(), &loader.modes).map_err(|error| error.to_string())?;
        Ok(Ran { exit: 0, stdout, stderr: Vec::new() })
    }
}

#[derive(Default)]
struct Loader {
    tree: Tree,
    modes: HashMap<Vec<u8>, u32>,
}

impl Loader {
    fn load(&mut self, dir: &Path, prefix: &[u8]) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let key = [prefix, entry.file_name().as_bytes()].concat();
            let metadata = entry.metadata()?;
            let node = if metadata.is_dir() {
                self.load(&entry.path(), &[&key[..], b"/"].concat())?;
                FakeNode::Directory
            } else if metadata.is_symlink() {
                FakeNode::Symlink(fs::read_link(entry.path())?.as_os_str().as_bytes().to_vec())
            } else if metadata.is_file() {
                self.modes.insert(key.clone(), metadata.mode());
                self.tree.contents.insert(metadata.ino(), fs::read(entry.path())?);
                FakeNode::File(metadata.ino())
            } else {
                return Err(io::Error::other("neither pipes nor devices in memory"));
            };
            self.tree.nodes.insert(key, node);
        }
        Ok(())
    }
}

/// Writes the tree back. Each file is new, as after a replacement.
fn store(dir: &Path, tree: &Tree, modes: &HashMap<Vec<u8>, u32>) -> io::Result<()> {
    let mut first: HashMap<u64, &[u8]> = HashMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path)?
        } else {
            fs::remove_file(path)?
        }
    }
    for (key, node) in &tree.nodes {
        let path = dir.join(OsStr::from_bytes(key));
        match node {
            FakeNode::Directory => fs::create_dir(path)?,
            FakeNode::Symlink(target) => symlink(OsStr::from_bytes(target), path)?,
            FakeNode::File(number) => match first.get(number) {
                Some(other) => fs::hard_link(dir.join(OsStr::from_bytes(other)), path)?,
                None => {
                    first.insert(*number, key);
                    fs::write(&path, tree.contents.get(number).map_or(&[][..], Vec::as_slice))?;
                    if let Some(mode) = modes.get(key) {
                        fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
                    }
                }
            },
        }
    }
    Ok(())
}
