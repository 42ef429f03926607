//! The places in writable directories that other programs execute. A native tool may not write to
//! them.
//!
//! The search covers the places directly in a directory that the grant names, the places of its
//! repository, and the targets of links in places. A place that exists when a call begins becomes a
//! read-only mount. A mount needs something to lie on, so a tool can make a new place:
//! [`set_aside`](super::set_aside) renames it. Owns the search.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr, OsString};
use std::fs::symlink_metadata;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ikigai_supervisor::plan::HiddenPath;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::hidden_search::LONGEST_PATH;
use super::open_grant::identity;
use super::set_aside::{
    ExpectedPlace, GrantedRoot, InitialState, PartialPlace, SetAside, names_in,
};
use crate::exec::executed_links::links_in;
use crate::paths::resolution_steps;
use crate::policy::{EXECUTED_PLACES, GIT, Grant, IN_GIT, MODULES, WORKTREES};

/// The largest number of directories of submodules and working trees that are searched. If there
/// are more, all of them are read-only.
const MAX_INNER: usize = 256;

/// The names by which a repository is recognised: it has some of them.
const OF_REPOSITORIES: &[&str] =
    &["HEAD", "config", "commondir", "gitdir", "hooks", "index", "objects", "refs"];

/// The guarded places of one call.
#[derive(Default)]
pub(super) struct Guarded {
    /// The places that exist.
    pub(super) read_only: Vec<HiddenPath>,
    expected: Vec<ExpectedPlace>,
    listed: Vec<PartialPlace>,
    /// The directories that the tool may write to.
    writable: Vec<PathBuf>,
}

/// The device and the inode of a directory.
type DirKey = (u64, u64);

/// A name in the directory with this device and inode.
type PlaceKey = (u64, u64, OsString);

/// The places that did not exist when a running call began. If another call makes such a place in
/// the meantime, the place is new for both calls.
static ABSENT: Mutex<Option<HashMap<PlaceKey, Weak<()>>>> = Mutex::new(None);

/// The names that a directory had when the first running call began that looked there. Names that
/// another call adds later are new for each of these calls.
static LISTED: Mutex<Option<HashMap<DirKey, Weak<HashSet<OsString>>>>> = Mutex::new(None);

impl Guarded {
    /// Finds the guarded places in the directories that a grant lets a tool write to.
    ///
    /// # Errors
    ///
    /// Fails if a place cannot be examined. The text says which, and why.
    pub(super) fn find(grant: &Grant) -> Result<Self, String> {
        forget_ended();
        let writable: Vec<PathBuf> = grant.writable_dirs().map(Path::to_owned).collect();
        let guarded = Self { writable: writable.clone(), ..Self::default() };
        let mut search = GuardSearch { grant, guarded, root: None };
        for dir in &writable {
            let Some(open) = search.open(CWD, dir.as_os_str(), dir)? else {
                // Another program may have moved it for a moment. The supervisor would then find it
                // again.
                let is_file =
                    symlink_metadata(dir).is_ok_and(|it| !it.is_dir() && !it.is_symlink());
                if grant.dirs.iter().any(|it| it.path == *dir) && !is_file {
                    return Err(failed(dir, Errno::NOENT));
                }
                continue;
            };
            let around = search.root.as_ref().filter(|root| dir.starts_with(&root.path));
            if around.is_none() {
                search.root = Some(GrantedRoot { dir: Arc::clone(&open), path: dir.clone() });
            }
            for place in EXECUTED_PLACES {
                search.look(&open, dir, OsStr::new(place.name))?;
            }
            search.repository(&open, dir)?;
        }
        Ok(search.guarded)
    }

    /// Renames the files that were made at guarded places during the call.
    pub(super) fn set_aside(self) -> Vec<SetAside> {
        let mut done = Vec::new();
        for places in self.expected.chunk_by(|one, next| Arc::ptr_eq(&one.dir, &next.dir)) {
            let other = places[0].other_dir();
            for place in places {
                let dirs = std::iter::once(&*place.dir).chain(&other);
                done.extend(dirs.filter_map(|dir| place.set_aside_in(dir, &self.writable)));
            }
        }
        done.extend(self.listed.iter().flat_map(PartialPlace::set_aside));
        done
    }
}

struct GuardSearch<'a> {
    grant: &'a Grant,
    guarded: Guarded,
    /// The outermost writable directory that is searched.
    root: Option<GrantedRoot>,
}

impl GuardSearch<'_> {
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
            kind => {
                self.read_only(&path, identity(&stat))?;
                if kind == FileType::Directory {
                    self.links_in(&path)?;
                }
                Ok(())
            }
        }
    }

    /// Guards the targets of the links in a place.
    fn links_in(&mut self, place: &Path) -> Result<(), String> {
        for link in links_in(place) {
            // All of the place is read-only. A link outside of it can be replaced.
            if resolution_steps(&link).iter().all(|step| step.starts_with(place)) {
                continue;
            }
            let target = self.target(&link)?;
            let (Some(around), Some(name)) = (link.parent(), link.file_name()) else { continue };
            // Outside of the granted directory nothing is renamed.
            let dir = self.root.as_ref().and_then(|root| root.open(around));
            let Some(dir) = dir.map(Arc::new) else { continue };
            let Ok(text) = readlinkat(&dir, name, Vec::new()) else { continue };
            // The end of the link has a mount. A link on the way to it cannot.
            self.expect(&dir, &link, name, InitialState::Link { text, target }, None);
        }
        Ok(())
    }

    /// Guards the target of a link if it lies in the directories that the tool may write to.
    /// Returns its path.
    fn target(&mut self, link: &Path) -> Result<Option<PathBuf>, String> {
        let target = link.canonicalize().ok();
        if let Some(real) = target.as_deref().filter(|real| self.is_writable(real))
            && let Ok(stat) = statat(CWD, real, AtFlags::SYMLINK_NOFOLLOW)
        {
            self.read_only(real, identity(&stat))?;
        }
        Ok(target)
    }

    /// Returns whether the tool may write to the target of a link. A link to a granted directory
    /// itself does not count: guarding that directory would leave nothing to write to.
    fn is_writable(&self, real: &Path) -> bool {
        let writable = &self.guarded.writable;
        writable.iter().any(|dir| real.starts_with(dir))
            && !writable.iter().any(|dir| dir.starts_with(real))
    }

    fn absent(&mut self, dir: &Arc<OwnedFd>, path: PathBuf, name: &OsStr) -> Result<(), String> {
        let absent = Some(note_absent(dir, name).map_err(|errno| failed(&path, errno))?);
        self.expect(dir, &path, name, InitialState::Nothing, absent);
        Ok(())
    }

    fn expect(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
        before: InitialState,
        absent: Option<Arc<()>>,
    ) {
        let Some(root) = self.root.clone() else { return };
        let around = path.parent().unwrap_or(path).to_owned();
        let (dir, name) = (Arc::clone(dir), name.to_owned());
        self.guarded.expected.push(ExpectedPlace {
            root,
            dir,
            around,
            name,
            before,
            _absent: absent,
        });
    }

    /// Guards a link, and its target in the granted directories.
    fn link(&mut self, dir: &Arc<OwnedFd>, path: PathBuf, name: &OsStr) -> Result<(), String> {
        let text = readlinkat(dir, name, Vec::new()).map_err(|errno| failed(&path, errno))?;
        let target = self.target(&path)?;
        if let Some(real) = target.as_deref().filter(|real| real.is_dir()) {
            self.links_in(real)?;
        }
        self.expect(dir, &path, name, InitialState::Link { text, target }, None);
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
        let names = names_in(&place).and_then(|names| note_listed(&place, names));
        let names = names.map_err(|errno| failed(path, errno))?;
        for entry in &*names {
            self.look(&place, path, entry)?;
        }
        self.guarded.listed.push(PartialPlace {
            around: Arc::clone(dir),
            dir: place,
            path: path.to_owned(),
            names,
            reserved: self.grant.reserved.clone(),
        });
        Ok(())
    }

    /// Guards the places in the repository of a directory.
    fn repository(&mut self, dir: &Arc<OwnedFd>, around: &Path) -> Result<(), String> {
        let (name, path) = (OsStr::new(GIT), around.join(GIT));
        let Some(git) = self.open(dir, name, &path)? else {
            // There is no repository, or a file or a link names another directory.
            return self.look(dir, around, name);
        };
        if !self.grant.reserved.names(&path) {
            let stat = fstat(&git).map_err(|errno| failed(&path, errno))?;
            let before = InitialState::Directory { device: stat.st_dev, inode: stat.st_ino };
            self.expect(dir, &path, name, before, None);
        }
        let before = self.guarded.read_only.len();
        if self.inner(&git, &path).is_ok_and(|is_whole| is_whole) {
            return Ok(());
        }
        // A tool may have made the repository too large, or taken rights away. Later calls must not
        // fail because of that.
        self.guarded.read_only.truncate(before);
        self.look(dir, around, name)
    }

    /// Guards the places in a repository. Returns false if there are too many.
    fn inner(&mut self, git: &Arc<OwnedFd>, path: &Path) -> Result<bool, String> {
        for place in IN_GIT.iter().filter(|place| ![MODULES, WORKTREES].contains(place)) {
            self.look(git, path, OsStr::new(place))?;
        }
        let mut left = MAX_INNER;
        for inner in [MODULES, WORKTREES] {
            let place = path.join(inner);
            let Some(open) = self.open(git, OsStr::new(inner), &place)? else {
                // A link, or something that git does not use.
                if statat(git, inner, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    self.look(git, path, OsStr::new(inner))?;
                }
                continue;
            };
            if self.is_guarded(&place) && !self.repositories(&open, &place, &mut left)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Guards the places in the repositories of a directory. Returns false if there are too many.
    fn repositories(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        left: &mut usize,
    ) -> Result<bool, String> {
        for name in names_in(dir).map_err(|errno| failed(path, errno))? {
            let inner = path.join(&name);
            let Some(open) = self.open(dir, &name, &inner)? else {
                // A link to a repository.
                self.look(dir, path, &name)?;
                continue;
            };
            if inner.as_os_str().len() > LONGEST_PATH {
                return Ok(false);
            }
            *left = match left.checked_sub(1) {
                Some(left) => left,
                None => return Ok(false),
            };
            // A tool may remove some of them between two calls.
            let is_there = |name: &str| statat(&open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            let is_repository = OF_REPOSITORIES.iter().any(|name| is_there(name));
            if is_repository {
                for place in IN_GIT.iter().filter(|place| **place != MODULES) {
                    self.look(&open, &inner, OsStr::new(place))?;
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

    fn read_only(
        &mut self,
        path: &Path,
        found: ikigai_supervisor::plan::InodeId,
    ) -> Result<(), String> {
        let text = CString::new(path.as_os_str().as_bytes());
        let path = text.map_err(|_| format!("`{}` contains a NUL", path.display()))?;
        self.guarded.read_only.push(HiddenPath { path, found });
        Ok(())
    }
}

/// Notes the names in a directory for a call that begins. Returns the names that were noted for the
/// first call that still runs.
fn note_listed(dir: &OwnedFd, names: Vec<OsString>) -> Result<Arc<HashSet<OsString>>, Errno> {
    let stat = fstat(dir)?;
    let mut listed = LISTED.lock();
    let listed = listed.get_or_insert_default();
    listed.retain(|_, names| names.strong_count() > 0);
    let noted = listed.entry((stat.st_dev, stat.st_ino)).or_default();
    Ok(noted.upgrade().unwrap_or_else(|| {
        let names = Arc::new(names.into_iter().collect());
        *noted = Arc::downgrade(&names);
        names
    }))
}

/// Forgets the places that were absent for calls that have ended.
fn forget_ended() {
    let mut absent = ABSENT.lock();
    if let Some(absent) = absent.as_mut() {
        absent.retain(|_, call| call.strong_count() > 0);
    }
}

/// Notes that a name is absent for a call that begins.
fn note_absent(dir: &OwnedFd, name: &OsStr) -> Result<Arc<()>, Errno> {
    let stat = fstat(dir)?;
    let mut absent = ABSENT.lock();
    let absent = absent.get_or_insert_default();
    let noted = absent.entry((stat.st_dev, stat.st_ino, name.to_owned())).or_default();
    Ok(noted.upgrade().unwrap_or_else(|| {
        let call = Arc::default();
        *noted = Arc::downgrade(&call);
        call
    }))
}

/// Returns whether a name was absent when another call began that is still running.
fn is_absent(dir: &OwnedFd, name: &OsStr) -> Result<bool, String> {
    let mut absent = ABSENT.lock();
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
