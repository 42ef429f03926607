//! The directories of `IKIGAI_DIRS`, opened once, and which of them a path is in.
//!
//! Only the choice of a directory looks at names. That a path stays beneath it,
//! through `..` and symbolic links, is held by its handle.

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
    /// What relative paths are relative to; nothing if it cannot be told.
    current_dir: PathBuf,
}

#[derive(Debug)]
struct GrantedDir {
    /// As it was granted, and, where links lead to it, as the system calls it.
    names: Vec<PathBuf>,
    access: Access,
    handle: Result<Dir, FsError>,
}

/// A path as a granted directory and a path beneath it.
#[derive(Debug)]
pub(crate) struct Place<'g> {
    pub(crate) dir: &'g Dir,
    pub(crate) access: Access,
    /// Relative, not empty.
    pub(crate) path: PathBuf,
}

impl Grants {
    /// Opens every directory of the list. One that cannot be opened is an error
    /// only of the paths beneath it.
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

    /// The granted directory with the longest name that `path` is beneath.
    pub(crate) fn place(&self, path: &[u8]) -> Result<Place<'_>, FsError> {
        self.absolute(&self.joined(path))
    }

    /// The names in a directory that no grant covers, by which granted ones are reached;
    /// nothing where there are none.
    pub(crate) fn names_above(&self, path: &[u8]) -> Option<Vec<OsString>> {
        let names = self.dirs.iter().flat_map(|dir| &dir.names);
        let names = names.map(|name| name.as_os_str().as_bytes());
        let above = names_above(&self.joined(path), names);
        let above: Vec<_> = above.into_iter().map(|it| OsStr::from_bytes(it).to_owned()).collect();
        (!above.is_empty()).then_some(above)
    }

    /// An absolute path. `..` in it is for the handle to judge, not for the comparison of
    /// names.
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
