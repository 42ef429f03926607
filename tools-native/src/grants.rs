//! The directories of `IKIGAI_DIRS`, opened once, and the choice of the one that contains a path.
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
use ikigai_tools::{beneath, names_above};

use crate::errno::meaning_of;

/// The granted directories.
#[derive(Debug)]
pub(crate) struct Grants {
    dirs: Vec<GrantedDir>,
    /// The directory that relative paths are relative to; empty if it is unknown.
    current_dir: PathBuf,
}

#[derive(Debug)]
struct GrantedDir {
    /// The name as it was granted, and, where links lead to it, its canonical name.
    names: Vec<PathBuf>,
    access: Access,
    handle: Result<Dir, FsError>,
}

/// A path as a granted directory and a path beneath it.
#[derive(Debug)]
pub(crate) struct Place<'g> {
    pub(crate) dir: &'g Dir,
    pub(crate) access: Access,
    /// The path beneath the directory, relative and not empty.
    pub(crate) path: PathBuf,
}

impl Grants {
    /// Opens every directory of the list. A directory that cannot be opened is an error only for
    /// the paths beneath it.
    pub(crate) fn open(value: &OsStr) -> Result<Self, DirsError> {
        let open = |granted: ikigai_protocol::GrantedDir| {
            let handle = Dir::open_ambient_dir(&granted.path, ambient_authority());
            let real = std::fs::canonicalize(&granted.path).ok();
            let real = real.filter(|real| *real != granted.path);
            GrantedDir {
                names: std::iter::once(granted.path).chain(real).collect(),
                access: granted.access,
                handle: handle.map_err(|error| meaning_of(&error)),
            }
        };
        let dirs = decode_dirs(value)?.into_iter().map(open).collect();
        Ok(Self { dirs, current_dir: std::env::current_dir().unwrap_or_default() })
    }

    /// Returns the granted directory with the longest name that `path` is beneath.
    pub(crate) fn place(&self, path: &[u8]) -> Result<Place<'_>, FsError> {
        self.absolute(&self.joined(path))
    }

    /// Returns the names in a directory that no grant covers, by which granted ones are reached;
    /// `None` if there are none.
    pub(crate) fn names_above(&self, path: &[u8]) -> Option<Vec<OsString>> {
        let names = self.dirs.iter().flat_map(|dir| &dir.names);
        let names = names.map(|name| name.as_os_str().as_bytes());
        let above = names_above(&self.joined(path), names);
        let above: Vec<_> = above.into_iter().map(|it| OsStr::from_bytes(it).to_owned()).collect();
        (!above.is_empty()).then_some(above)
    }

    /// Makes a path absolute. The handle judges `..` in it, not the comparison of names.
    fn joined<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        if path.first() == Some(&b'/') {
            return Cow::Borrowed(path);
        }
        Cow::Owned([self.current_dir.as_os_str().as_bytes(), b"/", path].concat())
    }

    fn absolute(&self, path: &[u8]) -> Result<Place<'_>, FsError> {
        let named = self.dirs.iter().flat_map(|dir| dir.names.iter().map(move |name| (dir, name)));
        let within = named.filter_map(|(dir, name)| {
            let rest = beneath(name.as_os_str().as_bytes(), path)?;
            Some((dir, name.as_os_str().len(), rest))
        });
        let (dir, _, rest) = within.max_by_key(|(_, length, _)| *length).ok_or(FsError::Outside)?;
        let rest =
            if rest.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(rest)) };
        match &dir.handle {
            Ok(handle) => Ok(Place { dir: handle, access: dir.access, path: rest.to_owned() }),
            Err(error) => Err(*error),
        }
    }
}
