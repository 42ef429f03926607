//! The copy of a file in a directory of the user alone, which is hashed while it is made, with what is
//! known of its source.
//!
//! Whatever is looked at, verified and placed is the copy: the file of a person may lie where a tool
//! can write.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use bytesize::ByteSize;
use ikigai_host::Digest;
use ikigai_host::paths::make_private;
use ikigai_supply::download::LARGEST_FILE;
use ikigai_supply::lock::Wanted;
use ikigai_supply::open_regular;
use ikigai_supply::section::MAGIC;
use tempfile::TempDir;

use crate::error::CliError;

/// A tool that was fetched. The copy is removed with this value.
pub(crate) struct Fetched {
    /// The copy.
    pub(crate) path: PathBuf,
    /// The digest of the file.
    pub(crate) digest: Digest,
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The place that it came from.
    pub(crate) source: Source,
    _directory: TempDir,
}

/// The place where a tool was found, and what was found beside it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The reference without tag, version and digest, as a lock keeps it.
    pub(crate) from: String,
    /// The reference of this one tool, by which an approved tool is found. In a layout, whose path is
    /// that of many tools, it is the registry's reference in the name of the entry.
    pub(crate) reference: Option<String>,
    /// The version or tag that was asked for.
    pub(crate) wanted: Option<Wanted>,
    /// True if exactly this version was asked for, by its tag, its digest or a requirement.
    pub(crate) is_named: bool,
    /// The tag that was taken.
    pub(crate) tag: Option<String>,
    /// The digest of the manifest of the artifact, with its bytes where a signature may be over it.
    pub(crate) manifest: Option<(Digest, Bytes)>,
    /// The signatures, each with the place where it was found.
    pub(crate) signatures: Vec<(String, Bytes)>,
    /// Notes for a person.
    pub(crate) notes: Vec<String>,
}

impl Source {
    /// Returns the source of a file at a place, of which nothing else is known.
    pub(super) fn at(from: String) -> Self {
        Self {
            reference: Some(from.clone()),
            from,
            wanted: None,
            is_named: false,
            tag: None,
            manifest: None,
            signatures: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Fetched {
    /// Copies a file into a directory beneath `root`, under a name that tells its kind.
    pub(super) fn stage(root: &Path, file: &Path, source: Source) -> Result<Self, CliError> {
        let unstaged = || format!("cannot copy `{}` to `{}`", file.display(), root.display());
        let staged = || -> io::Result<(TempDir, PathBuf, Digest, u64)> {
            make_private(root)?;
            sweep(root);
            let directory = tempfile::Builder::new().prefix("tool-").tempdir_in(root)?;
            let (path, size) = copy(file, directory.path())?;
            // What was written is hashed, not what was read.
            let digest = Digest::of_reader(File::open(&path)?)?;
            Ok((directory, path, digest, size))
        };
        let (directory, path, digest, size) =
            staged().with_context(unstaged).map_err(CliError::failed)?;
        Ok(Self { path, digest, size, source, _directory: directory })
    }

    /// Returns whether the file is WebAssembly, by its name in the copy.
    pub(crate) fn is_wasm(&self) -> bool {
        self.path.extension().is_some()
    }
}

/// Copies a file into a directory, and returns the path and the size of the copy.
fn copy(file: &Path, directory: &Path) -> io::Result<(PathBuf, u64)> {
    let opened = open_regular(file)?;
    let mut begin = Vec::new();
    (&opened).take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    let is_wasm = begin == MAGIC;
    let path = directory.join(if is_wasm { "tool.wasm" } else { "tool" });
    let mut copy = File::create_new(&path)?;
    copy.write_all(&begin)?;
    io::copy(&mut opened.take(LARGEST_FILE + 1 - begin.len() as u64), &mut copy)?;
    if !is_wasm {
        copy.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    let size = copy.metadata()?.len();
    if size > LARGEST_FILE {
        let most = ByteSize(LARGEST_FILE);
        return Err(io::Error::other(format!("it is larger than {most}, the limit for a tool")));
    }
    Ok((path, size))
}

/// Removes the copies that commands left behind which were killed. What cannot be removed is tried
/// again by the next command.
fn sweep(root: &Path) {
    /// Longer than any command needs its copy.
    const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|it| it.modified()).map(|at| at.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > LONG_AGO)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
