//! The places that a guest reaches files through: granted directories, the directories of granted
//! files, and the witness of paths that lead to none of them.
//!
//! wasmtime's handle is a directory with permissions. This knows which place a handle belongs to.
//! The number of a closed handle is used again, so each directory that a guest gets a handle on is
//! noted here ([`GuestPlaces::note`]).

use std::path::{Path, PathBuf};

use ikigai_protocol::Access;
use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::{Descriptor, Dir};

/// A guest's handle on an open file or directory.
pub(super) type Handle = Resource<Descriptor>;

/// A granted directory, the directory of granted files, or the witness.
#[derive(Debug)]
pub(super) struct GuestPlace {
    /// The directory that was granted, from which hidden names count. For granted files, and the
    /// witness, their own directory.
    pub(super) root: PathBuf,
    /// The access to everything in it; nothing if only `files` are granted.
    pub(super) base: Option<Access>,
    /// The files of the preopened directory that are granted with more than `base`.
    pub(super) files: Vec<SingleFile>,
    /// True if a path call through it succeeded.
    is_used: bool,
}

/// A granted file.
#[derive(Debug)]
pub(super) struct SingleFile {
    pub(super) name: String,
    pub(super) access: Access,
    is_used: bool,
}

impl GuestPlace {
    pub(super) fn new(root: PathBuf, base: Option<Access>) -> Self {
        Self { root, base, files: Vec::new(), is_used: false }
    }

    /// Adds a file of the preopened directory.
    pub(super) fn add_file(&mut self, name: String, access: Access) {
        self.files.push(SingleFile { name, access, is_used: false });
    }
}

/// The origin of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandleOrigin {
    /// The number of the place.
    place: u32,
    /// True for the preopened directory itself, false for one beneath it.
    is_start: bool,
    /// True for the preopen to which C libraries send every path that belongs to no other preopen.
    /// They leave out the slash at its beginning.
    is_nameless: bool,
}

/// A preopened directory.
pub(super) struct Preopen {
    pub(super) name: String,
    pub(super) dir: Dir,
    origin: HandleOrigin,
}

/// The places of a guest.
#[derive(Default)]
pub(super) struct GuestPlaces {
    places: Vec<GuestPlace>,
    preopens: Vec<Preopen>,
    /// The origins of handles on directories, by their numbers.
    origins: Vec<Option<HandleOrigin>>,
    witness: Option<u32>,
}

impl GuestPlaces {
    /// Adds a place, and returns its number.
    pub(super) fn add(&mut self, place: GuestPlace) -> u32 {
        self.places.push(place);
        // There are only as many places as entries of a grant, and answers of the user.
        u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
    }

    /// Adds the witness: an empty directory, which gets all paths that lead to no place.
    pub(super) fn add_witness(&mut self, dir: Dir) {
        let place = self.add(GuestPlace::new(PathBuf::from("/"), None));
        self.witness = Some(place);
        // If two names fit equally well, C libraries prefer the later one. So relative paths still
        // lead to the workspace.
        self.preopens.insert(0, Preopen::new("/", dir, place));
    }

    pub(super) fn preopen(&mut self, name: &str, dir: Dir, place: u32) {
        self.preopens.push(Preopen::new(name, dir, place));
    }

    /// Returns whether a directory is preopened under this name.
    pub(super) fn has_preopen(&self, name: &str) -> bool {
        self.preopens.iter().any(|it| it.name == name)
    }

    pub(super) fn preopens(&self) -> impl Iterator<Item = (&str, &Dir, HandleOrigin)> {
        self.preopens.iter().map(|it| (it.name.as_str(), &it.dir, it.origin))
    }

    /// Notes the origin of a handle on a directory.
    pub(super) fn note(&mut self, handle: u32, origin: HandleOrigin) {
        let index = handle as usize;
        if self.origins.len() <= index {
            self.origins.resize(index + 1, None);
        }
        self.origins[index] = Some(origin);
    }

    /// Returns the origin of a handle on a directory.
    pub(super) fn origin(&self, handle: &Handle) -> Option<HandleOrigin> {
        self.origins.get(handle.rep() as usize).copied().flatten()
    }

    /// Returns the number of the place of a directory with this access.
    pub(super) fn find(&self, root: &Path, access: Access) -> Option<u32> {
        let is_same = |it: &GuestPlace| it.root == root && it.base == Some(access);
        self.places.iter().position(is_same).and_then(|found| u32::try_from(found).ok())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place(&self, origin: HandleOrigin) -> Option<&GuestPlace> {
        self.places.get(origin.place as usize)
    }

    /// Returns the granted files of a place, if the directory is the place itself.
    pub(super) fn files(&self, origin: HandleOrigin) -> &[SingleFile] {
        let place = self.place(origin).filter(|_| origin.is_start);
        place.map_or(&[], |place| &place.files)
    }

    /// Returns whether every path beneath a directory has the same access.
    pub(super) fn is_plain(&self, origin: HandleOrigin) -> bool {
        let place = self.place(origin);
        place.is_some_and(|it| it.base.is_some() && (it.files.is_empty() || !origin.is_start))
    }

    pub(super) fn is_witness(&self, origin: HandleOrigin) -> bool {
        self.witness == Some(origin.place)
    }

    /// Returns what is used for the first time: the directory of the place, or the file.
    pub(super) fn first_use(
        &mut self,
        origin: HandleOrigin,
        file: Option<usize>,
    ) -> Option<PathBuf> {
        let place = self.places.get_mut(origin.place as usize)?;
        let (is_used, file) = match file {
            Some(file) => {
                let file = place.files.get_mut(file)?;
                (&mut file.is_used, Some(&file.name))
            }
            None => (&mut place.is_used, None),
        };
        if std::mem::replace(is_used, true) || file.is_none() && place.base.is_none() {
            return None;
        }
        Some(file.map_or_else(|| place.root.clone(), |name| place.root.join(name)))
    }
}

impl HandleOrigin {
    /// The origin of a handle on a place that is not a preopen.
    pub(super) fn beneath(place: u32) -> Self {
        Self { place, is_start: false, is_nameless: false }
    }

    /// Returns the origin of a directory that was opened at a path through this one.
    pub(super) fn opened(self, path: &str) -> Self {
        let is_same = path.split('/').all(|part| matches!(part, "" | "."));
        Self {
            is_start: self.is_start && is_same,
            is_nameless: self.is_nameless && is_same,
            ..self
        }
    }

    pub(super) fn is_nameless(self) -> bool {
        self.is_nameless
    }
}

impl Preopen {
    fn new(name: &str, dir: Dir, place: u32) -> Self {
        let is_nameless = matches!(name, "." | "/");
        let origin = HandleOrigin { place, is_start: true, is_nameless };
        Self { name: name.to_owned(), dir, origin }
    }
}

/// Returns the number of the file that a path names: only by its name, in this directory.
pub(super) fn single(files: &[SingleFile], path: &str) -> Option<usize> {
    let name = path.trim_start_matches("./");
    files.iter().position(|file| file.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_granted_file_has_one_name() {
        let mut place = GuestPlace::new("/etc".into(), None);
        place.add_file("hosts".into(), Access::ReadOnly);
        let found = |path: &str| single(&place.files, path);
        assert_eq!((found("hosts"), found("./hosts")), (Some(0), Some(0)));
        for other in ["hosts/", "hosts/.", "x/../hosts", "../etc/hosts", "HOSTS", "", ".", "/hosts"]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn each_place_is_reported_once() {
        let mut places = GuestPlaces::default();
        let directory = places.add(GuestPlace::new("/w".into(), Some(Access::ReadOnly)));
        let mut files = GuestPlace::new("/etc".into(), None);
        files.add_file("hosts".into(), Access::ReadOnly);
        let files = places.add(files);
        let (directory, files) = (HandleOrigin::beneath(directory), HandleOrigin::beneath(files));
        assert_eq!(places.first_use(directory, None), Some("/w".into()));
        assert_eq!(places.first_use(directory, None), None);
        // The directory of a granted file is not granted.
        assert_eq!(places.first_use(files, None), None);
        assert_eq!(places.first_use(files, Some(0)), Some("/etc/hosts".into()));
        assert_eq!(places.first_use(files, Some(0)), None);
    }
}
