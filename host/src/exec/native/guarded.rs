//! The places in writable directories that other programs execute. A native tool may not write to them.
//!
//! The search covers the places directly in a granted directory, and the places of its repository. A place that
//! exists when a call begins becomes a read-only mount. A mount needs something to lie on, so a tool can make a
//! new place. After the call the host renames it, and no program executes it later. Owns the search and the
//! renaming.

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ikigai_protocol::Access;
use ikigai_supervisor::plan::Hidden;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, fstat, openat, readlinkat,
    renameat_with, statat,
};
use rustix::io::Errno;

use super::hidden::{LONGEST_PATH, identity};
use crate::policy::{EXECUTED_PLACES, GIT, Grant, IN_GIT, MODULES, WORKTREES};

/// The most directories of submodules and working trees that are looked at. Beyond it all of them are read-only.
const MAX_INNER: usize = 256;

/// The most names that are tried for something that is set aside.
const MAX_NAMES: u32 = 1_000;

/// The end of the name of something that was set aside.
const ASIDE: &str = ".withheld";

/// The guarded places of one call.
#[derive(Default)]
pub(super) struct Guarded {
    /// Those that are there.
    pub(super) read_only: Vec<Hidden>,
    expected: Vec<Expected>,
}

/// A place that is set aside after the call unless it is as it was.
struct Expected {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    name: OsString,
    /// The target, if the place is a link; nothing if it was not there.
    link: Option<CString>,
    /// Set while a call runs in which the place was not there.
    _absent: Option<Arc<()>>,
}

/// Something that a tool made at a guarded place.
pub(super) struct SetAside {
    /// The place.
    pub(super) path: PathBuf,
    /// Its name now, or the reason why it is still there.
    pub(super) now: Result<OsString, String>,
}

/// A name in a directory, which has this device and inode.
type PlaceKey = (u64, u64, OsString);

/// The places that did not exist when a running call began. If another call makes one in the meantime, it is new
/// for both.
static ABSENT: Mutex<Option<HashMap<PlaceKey, Weak<()>>>> = Mutex::new(None);

impl Guarded {
    /// Finds the guarded places in the directories that a grant lets a tool write to.
    ///
    /// # Errors
    ///
    /// A place cannot be looked at. The text says which, and why.
    pub(super) fn find(grant: &Grant) -> Result<Self, String> {
        forget_ended();
        let mut search = Search { grant, guarded: Self::default() };
        for dir in grant.dirs.iter().filter(|dir| dir.access == Access::ReadWrite) {
            let Some(open) = search.open(CWD, dir.path.as_os_str(), &dir.path)? else { continue };
            for place in EXECUTED_PLACES {
                search.look(&open, &dir.path, OsStr::new(place.name))?;
            }
            search.repository(&open, &dir.path)?;
        }
        Ok(search.guarded)
    }

    /// Renames what was made at guarded places during the call.
    pub(super) fn set_aside(self) -> Vec<SetAside> {
        self.expected.iter().filter_map(Expected::set_aside).collect()
    }
}

impl Expected {
    fn set_aside(&self) -> Option<SetAside> {
        let found = statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match found {
            Err(Errno::NOENT) => return None,
            Ok(_) if self.is_same_link() => return None,
            Ok(_) | Err(_) => {}
        }
        let now = found.and_then(|_| self.rename()).map_err(|errno| errno.to_string());
        Some(SetAside { path: self.path.clone(), now })
    }

    fn is_same_link(&self) -> bool {
        let Some(target) = &self.link else { return false };
        readlinkat(&self.dir, &self.name, Vec::new()).is_ok_and(|now| now == *target)
    }

    fn rename(&self) -> Result<OsString, Errno> {
        for number in 1..=MAX_NAMES {
            let mut name = self.name.clone();
            name.push(ASIDE);
            if number > 1 {
                name.push(format!("-{number}"));
            }
            let flags = RenameFlags::NOREPLACE;
            match renameat_with(&self.dir, &self.name, &self.dir, &name, flags) {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                renamed => return renamed.map(|()| name),
            }
        }
        Err(Errno::EXIST)
    }
}

struct Search<'a> {
    grant: &'a Grant,
    guarded: Guarded,
}

impl Search<'_> {
    /// Opens a directory, if there is one.
    fn open(
        &self,
        parent: impl AsFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<Arc<OwnedFd>>, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(parent, name, flags, Mode::empty()) {
            Ok(open) => Ok(Some(Arc::new(open))),
            // The supervisor refuses a grant of what is not there, and says why.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(failed(path, errno)),
        }
    }

    fn is_guarded(&self, path: &Path) -> bool {
        self.grant.reserved.executed_place(path).is_some()
    }

    /// Looks at the place with a name in a directory.
    fn look(&mut self, dir: &Arc<OwnedFd>, around: &Path, name: &OsStr) -> Result<(), String> {
        let path = around.join(name);
        if !self.is_guarded(&path) {
            return Ok(());
        }
        let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return self.absent(dir, path, name),
            Err(errno) => return Err(failed(&path, errno)),
        };
        if is_absent(dir, name)? {
            self.absent(dir, path.clone(), name)?;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.link(dir, path, name),
            FileType::Directory if self.grant.reserved.leads_to_named(&path) => {
                self.beside_named(dir, &path, name)
            }
            _ => self.read_only(&path, identity(&stat)),
        }
    }

    fn absent(&mut self, dir: &Arc<OwnedFd>, path: PathBuf, name: &OsStr) -> Result<(), String> {
        let absent = Some(note_absent(dir, name).map_err(|errno| failed(&path, errno))?);
        let name = name.to_owned();
        self.guarded.expected.push(Expected {
            dir: Arc::clone(dir),
            path,
            name,
            link: None,
            _absent: absent,
        });
        Ok(())
    }

    /// Guards a link, and what it leads to in the granted directories.
    fn link(&mut self, dir: &Arc<OwnedFd>, path: PathBuf, name: &OsStr) -> Result<(), String> {
        let target = readlinkat(dir, name, Vec::new()).map_err(|errno| failed(&path, errno))?;
        let is_writable = |real: &Path| {
            let mut dirs = self.grant.dirs.iter().filter(|dir| dir.access == Access::ReadWrite);
            // A link to a granted directory itself would leave nothing to write to.
            dirs.any(|dir| real.starts_with(&dir.path) && real != dir.path)
        };
        if let Ok(real) = path.canonicalize()
            && is_writable(&real)
            && let Ok(stat) = statat(CWD, &real, AtFlags::SYMLINK_NOFOLLOW)
        {
            self.read_only(&real, identity(&stat))?;
        }
        let (dir, name, link) = (Arc::clone(dir), name.to_owned(), Some(target));
        self.guarded.expected.push(Expected { dir, path, name, link, _absent: None });
        Ok(())
    }

    /// Guards the contents of a place, except what the grant names.
    fn beside_named(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
    ) -> Result<(), String> {
        let Some(place) = self.open(dir, name, path)? else { return Ok(()) };
        for entry in self.listed(&place, path)? {
            self.look(&place, path, &entry)?;
        }
        Ok(())
    }

    /// Looks at the repository of a directory.
    fn repository(&mut self, dir: &Arc<OwnedFd>, around: &Path) -> Result<(), String> {
        let (name, path) = (OsStr::new(GIT), around.join(GIT));
        let Some(git) = self.open(dir, name, &path)? else {
            // None, or a file or a link that names another directory.
            return self.look(dir, around, name);
        };
        let before = self.guarded.read_only.len();
        if self.inner(&git, &path).is_ok_and(|is_whole| is_whole) {
            return Ok(());
        }
        // A tool may have made it too large, or taken rights away. That must not end later calls.
        self.guarded.read_only.truncate(before);
        self.look(dir, around, name)
    }

    /// Looks at the places in a repository. Returns false if there are too many.
    fn inner(&mut self, git: &Arc<OwnedFd>, path: &Path) -> Result<bool, String> {
        for place in IN_GIT.iter().filter(|place| ![MODULES, WORKTREES].contains(place)) {
            self.look(git, path, OsStr::new(place))?;
        }
        let mut left = MAX_INNER;
        for inner in [MODULES, WORKTREES] {
            let place = path.join(inner);
            let Some(open) = self.open(git, OsStr::new(inner), &place)? else { continue };
            if self.is_guarded(&place) && !self.repositories(&open, &place, &mut left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks at the repositories in a directory. Returns false if there are too many.
    fn repositories(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        left: &mut usize,
    ) -> Result<bool, String> {
        for name in self.listed(dir, path)? {
            let inner = path.join(&name);
            let Some(open) = self.open(dir, &name, &inner)? else { continue };
            if inner.as_os_str().len() > LONGEST_PATH {
                return Ok(false);
            }
            *left = match left.checked_sub(1) {
                Some(left) => left,
                None => return Ok(false),
            };
            let is_repository = statat(&open, "HEAD", AtFlags::SYMLINK_NOFOLLOW).is_ok();
            for place in IN_GIT.iter().map(OsStr::new).filter(|_| is_repository) {
                // A new submodule lacks them until git makes them.
                if statat(&open, place, AtFlags::SYMLINK_NOFOLLOW).is_ok() && place != MODULES {
                    self.look(&open, &inner, place)?;
                }
            }
            let below = match is_repository {
                true => self.open(&open, OsStr::new(MODULES), &inner)?,
                false => Some(open),
            };
            let below_path = if is_repository { inner.join(MODULES) } else { inner };
            if let Some(below) = below
                && !self.repositories(&below, &below_path, left)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn listed(&self, dir: &Arc<OwnedFd>, path: &Path) -> Result<Vec<OsString>, String> {
        let failed = |errno| failed(path, errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = openat(dir, ".", flags, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        for entry in Dir::new(open).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn read_only(
        &mut self,
        path: &Path,
        found: ikigai_supervisor::plan::Found,
    ) -> Result<(), String> {
        let text = CString::new(path.as_os_str().as_bytes());
        let path = text.map_err(|_| format!("`{}` contains a NUL", path.display()))?;
        self.guarded.read_only.push(Hidden { path, found });
        Ok(())
    }
}

/// Forgets the places that were absent for calls that have ended.
fn forget_ended() {
    let mut absent = ABSENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(absent) = absent.as_mut() {
        absent.retain(|_, call| call.strong_count() > 0);
    }
}

/// Notes that a name is absent for a call that begins.
fn note_absent(dir: &OwnedFd, name: &OsStr) -> Result<Arc<()>, Errno> {
    let stat = fstat(dir)?;
    let mut absent = ABSENT.lock().unwrap_or_else(PoisonError::into_inner);
    let absent = absent.get_or_insert_default();
    let noted = absent.entry((stat.st_dev, stat.st_ino, name.to_owned())).or_default();
    Ok(noted.upgrade().unwrap_or_else(|| {
        let call = Arc::default();
        *noted = Arc::downgrade(&call);
        call
    }))
}

/// Returns whether a name was absent when another call began that still runs.
fn is_absent(dir: &OwnedFd, name: &OsStr) -> Result<bool, String> {
    let mut absent = ABSENT.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(absent) = absent.as_mut().filter(|absent| !absent.is_empty()) else {
        return Ok(false);
    };
    let stat = fstat(dir).map_err(|errno| errno.to_string())?;
    let noted = absent.get(&(stat.st_dev, stat.st_ino, name.to_owned()));
    Ok(noted.is_some_and(|call| call.strong_count() > 0))
}

fn failed(path: &Path, errno: Errno) -> String {
    format!("`{}` cannot be looked at: {errno}", path.display())
}
