//! The place of an installed file, and the order in which a file, its lock and its grant are
//! written.
//!
//! A process may die at each step. The file is either there as a whole or not at all, and is
//! written before its lock. Grants are bound to its digest. So the worst result is a tool without a
//! grant, which the same command repairs.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ikigai_host::Digest;
use ikigai_host::paths::draft_in;

use super::staging::Fetched;
use crate::error::{CliError, with_path};

/// The place for the file of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The path.
    pub(crate) path: PathBuf,
    /// The mode of the file.
    mode: u32,
}

impl Placement {
    /// Returns the place of a tool in a directory of tools.
    pub(crate) fn in_directory(directory: &Path, name: &str, is_native: bool) -> Self {
        if is_native {
            return Self { path: directory.join(name), mode: 0o755 };
        }
        Self { path: directory.join(format!("{name}.wasm")), mode: 0o644 }
    }

    /// Returns the paths that a tool in a directory of tools may have: for a component, and for a
    /// native program.
    pub(crate) fn paths_in(directory: &Path, name: &str) -> [PathBuf; 2] {
        [false, true].map(|is_native| Self::in_directory(directory, name, is_native).path)
    }

    /// Returns the place of a component at a path.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, mode: 0o644 }
    }

    /// Puts the file there, replacing an earlier file.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be written, if the disk is full, or if the written file
    /// differs from the examined one. Then an earlier file is unchanged.
    pub(crate) fn put(&self, fetched: &Fetched) -> Result<(), CliError> {
        let shown = self.path.display();
        let placed = self.write(&fetched.path, fetched.digest);
        placed
            .with_context(|| format!("cannot write `{shown}`; the previous file is unchanged"))
            .map_err(CliError::failed)
    }

    fn write(&self, from: &Path, digest: Digest) -> io::Result<()> {
        let directory = self.path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(directory)?;
        // Discovery ignores hidden names.
        let mut file = draft_in(directory, self.mode)?;
        io::copy(&mut File::open(from)?, &mut file)?;
        let written = Digest::of_reader(File::open(file.path())?)?;
        if written != digest {
            return Err(io::Error::other(format!(
                "the copy has the digest {written} instead of {digest}"
            )));
        }
        file.as_file().set_permissions(fs::Permissions::from_mode(self.mode))?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        File::open(directory)?.sync_all()
    }
}

/// Removes the file of a tool. A missing file is not an error.
pub(crate) fn remove_file(path: &Path) -> Result<(), CliError> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    with_path(removed, "remove", path)
}
