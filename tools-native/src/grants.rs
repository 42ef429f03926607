//! The directories and files of `IKIGAI_DIRS`, opened once, and the choice of the one that contains
//! a path.
//!
//! Only the choice compares names. The handle of a directory enforces that a path stays beneath it,
//! through `..` and symbolic links.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use ikigai_protocol::{Access, DirsError, decode_dirs};
use ikigai_tools::ports::FsError;
use ikigai_tools::{beneath, join, names_above};

use crate::errno::meaning_of;

/// The granted directories.
#[derive(Debug)]
pub(crate) struct Grants {
    dirs: Vec<DirGrant>,
    /// The directory that relative paths are relative to; empty if it is unknown.
    current_dir: PathBuf,
}

#[derive(Debug)]
struct DirGrant {
    /// The name as it was granted and, if links lead to it, its canonical name.
    names: Vec<PathBuf>,
    access: Access,
    /// The directory itself, or the directory that contains a granted file.
    handle: Result<Dir, FsError>,
    /// The name of a granted file in its directory. Nothing else there is granted.
    file: Option<OsString>,
}

/// A path as a granted directory and a path beneath it.
#[derive(Debug)]
pub(crate) struct GrantedPath<'g> {
    pub(crate) dir: &'g Dir,
    pub(crate) access: Access,
    /// The path beneath the directory, relative and not empty.
    pub(crate) path: PathBuf,
    /// Set if only the file is granted. No other file may be created in its directory.
    pub(crate) alone: bool,
}

impl Grants {
    /// Opens every directory of the list. A directory that cannot be opened is an error only for
    /// the paths beneath it.
    pub(crate) fn open(value: &OsStr) -> Result<Self, DirsError> {
        let open = |granted: ikigai_protocol::GrantedDir| {
            let is_file = std::fs::metadata(&granted.path).is_ok_and(|it| !it.is_dir());
            let real = std::fs::canonicalize(&granted.path).ok();
            let (place, file) = match real.as_ref().filter(|_| is_file) {
                Some(real) => (real.parent(), real.file_name().map(OsStr::to_owned)),
                None => (None, None),
            };
            let place = place.unwrap_or(&granted.path);
            let handle = Dir::open_ambient_dir(place, ambient_authority());
            let real = real.filter(|real| *real != granted.path);
            DirGrant {
                file,
                names: std::iter::once(granted.path).chain(real).collect(),
                access: granted.access,
                handle: handle.map_err(|error| meaning_of(&error)),
            }
        };
        let dirs = decode_dirs(value)?.into_iter().map(open).collect();
        Ok(Self { dirs, current_dir: std::env::current_dir().unwrap_or_default() })
    }

    /// Returns the granted directory with the longest name that `path` is beneath.
    pub(crate) fn place(&self, path: &[u8]) -> Result<GrantedPath<'_>, FsError> {
        self.absolute(&self.joined(path))
    }

    /// Returns the names by which a directory that no grant covers leads to granted ones, each with
    /// whether it is a granted file. Returns `None` if no name does.
    pub(crate) fn names_above(&self, path: &[u8]) -> Option<Vec<(OsString, bool)>> {
        let path = self.joined(path);
        let names = self.dirs.iter().flat_map(|dir| &dir.names);
        let names = names.map(|name| name.as_os_str().as_bytes());
        let files = self.dirs.iter().filter(|dir| dir.file.is_some()).flat_map(|dir| &dir.names);
        let files: Vec<_> =
            files.filter_map(|file| beneath(&path, file.as_os_str().as_bytes())).collect();
        let above = names_above(&path, names).into_iter();
        let above = above.map(|it| (OsStr::from_bytes(it).to_owned(), files.contains(&it)));
        let above: Vec<_> = above.collect();
        (!above.is_empty()).then_some(above)
    }

    /// Makes a path absolute. The handle enforces the rule for a `..` that remains in it. The
    /// comparison of names does not.
    fn joined<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        if path.first() == Some(&b'/') {
            return Cow::Borrowed(path);
        }
        Cow::Owned(join(self.current_dir.as_os_str().as_bytes(), path))
    }

    fn absolute(&self, path: &[u8]) -> Result<GrantedPath<'_>, FsError> {
        let named = self.dirs.iter().flat_map(|dir| dir.names.iter().map(move |name| (dir, name)));
        let within = named.filter_map(|(dir, name)| {
            let rest = beneath(name.as_os_str().as_bytes(), path)?;
            Some((dir, name.as_os_str().len(), rest))
        });
        let (dir, _, rest) = within.max_by_key(|(_, length, _)| *length).ok_or(FsError::Outside)?;
        let handle = dir.handle.as_ref().map_err(|error| *error)?;
        let path = match &dir.file {
            None if rest.is_empty() => Path::new("."),
            None => Path::new(OsStr::from_bytes(rest)),
            Some(_) if !rest.is_empty() => return Err(FsError::NotFound),
            // A link that replaced the file since would lead to another file of the directory.
            Some(name) if handle.symlink_metadata(name).is_ok_and(|it| it.is_symlink()) => {
                return Err(FsError::Outside);
            }
            Some(name) => Path::new(name),
        };
        let (access, alone) = (dir.access, dir.file.is_some());
        Ok(GrantedPath { dir: handle, access, path: path.to_owned(), alone })
    }
}
