//! The copy of a file in a directory of the user's own, hashed during the copy, with the facts
//! about its source.
//!
//! ikigai examines, verifies and places only the copy, since the original may lie where a tool can
//! write.

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
use ikigai_packages::download::LARGEST_FILE;
use ikigai_packages::lock::WantedVersion;
use ikigai_packages::open_regular;
use ikigai_packages::section::MAGIC;
use tempfile::TempDir;

use crate::error::CliError;

/// A fetched tool. The copy is removed with this value.
pub(crate) struct Fetched {
    /// The copy.
    pub(crate) path: PathBuf,
    /// The digest of the file.
    pub(crate) digest: Digest,
    /// The size of the file in bytes.
    pub(crate) size: u64,
    /// The place that the file came from.
    pub(crate) source: ToolSource,
    _directory: TempDir,
}

/// The place where a tool was found, and the signatures and notes found with it.
#[derive(Clone, Debug)]
pub(crate) struct ToolSource {
    /// The reference without tag, version and digest, in the form that a lock stores.
    pub(crate) from: String,
    /// The reference of this one tool, which identifies an approved tool. The path of a layout is
    /// shared by many tools, so there it is the registry reference in the name of the entry.
    pub(crate) reference: Option<String>,
    /// The requested version or tag.
    pub(crate) wanted: Option<WantedVersion>,
    /// True if exactly this version was requested, by its tag, its digest or a requirement.
    pub(crate) is_named: bool,
    /// The tag that was used.
    pub(crate) tag: Option<String>,
    /// The digest of the artifact's manifest, with its bytes if a signature may cover it.
    pub(crate) manifest: Option<(Digest, Bytes)>,
    /// The signatures, each with its place.
    pub(crate) signatures: Vec<(String, Bytes)>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
}

impl ToolSource {
    /// Returns the source of a file at a place, without other facts.
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
    /// Copies a file into a directory below `root`, under a name that shows its kind.
    pub(super) fn stage(root: &Path, file: &Path, source: ToolSource) -> Result<Self, CliError> {
        let unstaged = || format!("cannot copy `{}` to `{}`", file.display(), root.display());
        let staged = || -> io::Result<(TempDir, PathBuf, Digest, u64)> {
            make_private(root)?;
            sweep(root);
            let directory = tempfile::Builder::new().prefix("tool-").tempdir_in(root)?;
            let (path, size) = copy(file, directory.path())?;
            // Hash the written copy, not the bytes that were read.
            let digest = Digest::of_reader(File::open(&path)?)?;
            Ok((directory, path, digest, size))
        };
        let (directory, path, digest, size) =
            staged().with_context(unstaged).map_err(CliError::failed)?;
        Ok(Self { path, digest, size, source, _directory: directory })
    }

    /// Returns whether the copy is WebAssembly, judging by its name.
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

/// Removes the copies that killed commands left behind. If a copy cannot be removed, the next
/// command tries again.
fn sweep(root: &Path) {
    /// This is longer than any command needs its copy.
    const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|it| it.modified()).map(|at| at.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > LONG_AGO)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
