//! The files of a tool directory that may be tools.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::file;
use super::memo::{Identity, Memo};
use crate::digest::Digest;
use crate::policy::{Backend, Origin};

/// What is read and digested in about the time that a thread takes to start, in
/// bytes.
const MUCH: u64 = 1 << 20;

/// A file that may be a tool.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    pub(super) backend: Backend,
    metadata: fs::Metadata,
}

impl Candidate {
    /// The file at `path`, if it is a regular file that is executable or ends in
    /// `.wasm`. Symbolic links to files count; nothing is opened.
    pub(super) fn at(path: PathBuf, origin: Origin) -> Option<Self> {
        // A tool starts in its workspace, which is not where the path was said.
        let path = std::path::absolute(path).ok()?;
        let metadata = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let backend = if path.extension().is_some_and(|extension| extension == "wasm") {
            Backend::Wasm
        } else if metadata.permissions().mode() & 0o111 != 0 {
            Backend::Native
        } else {
            return None;
        };
        Some(Self { path, origin, backend, metadata })
    }

    /// What two builds of one tool share: the name without `.wasm`.
    pub(super) fn stem(&self) -> PathBuf {
        match self.backend {
            Backend::Wasm => self.path.with_extension(""),
            Backend::Native => self.path.clone(),
        }
    }

    /// Whether [`Self::digest`] takes so long that nothing else may wait for it.
    pub(super) fn takes_long(&self, memo: &Memo) -> bool {
        self.metadata.len() > MUCH && memo.digest(&Identity::of(&self.metadata)).is_none()
    }

    /// The digest of the contents, read only if the file is not known.
    pub(super) fn digest(&self, memo: &Memo) -> io::Result<Digest> {
        let identity = Identity::of(&self.metadata);
        if let Some(digest) = memo.digest(&identity) {
            return Ok(digest);
        }
        if self.backend == Backend::Wasm {
            file::check_size(self.metadata.len())?;
        }
        let digest = Digest::of_reader(file::open(&self.path)?)?;
        memo.keep_digest(&identity, &self.metadata, digest);
        Ok(digest)
    }
}

/// The candidates of a directory in the order of their names. A directory that
/// does not exist is an empty one.
///
/// # Errors
///
/// The directory cannot be read.
pub(super) fn list(dir: &Path, origin: Origin) -> io::Result<Vec<Candidate>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| !is_hidden(path));
    paths.sort();
    Ok(paths.into_iter().filter_map(|path| Candidate::at(path, origin)).collect())
}

/// Hidden files are what editors and installers leave half-written.
fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
