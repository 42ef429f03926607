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
use tokio_util::sync::CancellationToken;

use super::hidden_search::LONGEST_PATH;
use super::open_grant::identity;
use super::set_aside::{
    ExpectedPlace, GrantedRoot, InitialState, LONGEST_WAY, PartialPlace, SetAside, first_names_in,
};
use crate::exec::executed_links::links_in;
use crate::paths::{LinkEnd, Resolution, resolve_within};
use crate::policy::{EXECUTED_PLACES, GIT, Grant, IN_GIT, MODULES, WORKTREES};

/// The bounds of the search. What exceeds one is read-only as a whole: a tool may have made it, and
/// later calls must not fail because of that.
#[derive(Clone, Copy)]
struct GuardBounds {
    /// The number of names among the submodules and working trees of a repository.
    inner: usize,
    /// The number of names in a place that the grant opens in part.
    names: usize,
    /// The number of places in a repository, or in a place that the grant opens in part. Each place
    /// that exists is a mount.
    places: usize,
    /// The number of components on the way of one link.
    way: usize,
    /// The number of components on the ways of all links of a granted directory, and again of all
    /// links among its submodules and working trees: a tool may have made those, and must not use
    /// up the share of the others.
    ways: usize,
}

impl Default for GuardBounds {
    fn default() -> Self {
        Self { inner: 256, names: 65_536, places: 2_048, way: LONGEST_WAY, ways: 131_072 }
    }
}

/// The names by which a repository is recognised: it has some of them.
const OF_REPOSITORIES: &[&str] =
    &["HEAD", "config", "commondir", "gitdir", "hooks", "index", "objects", "refs"];

/// The names by which git recognises a repository: it has all of the first, or, if it shares the
/// objects of another one, all of the second.
const NEEDED: [&[&str]; 2] = [&["HEAD", "objects", "refs"], &["HEAD", "commondir"]];

/// The guarded places of one call.
#[derive(Default)]
pub(super) struct Guarded {
    /// The places that exist.
    pub(super) read_only: Vec<HiddenPath>,
    expected: Vec<ExpectedPlace>,
    listed: Vec<PartialPlace>,
    /// The directories that exceed a bound, or that cannot be looked at.
    pub(super) too_large: Vec<PathBuf>,
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
    /// Finds the guarded places in the directories that a grant lets a tool write to. Once the
    /// search is `ended`, nobody needs its result, and it stops soon.
    ///
    /// # Errors
    ///
    /// Fails if a place cannot be examined. The text says which, and why.
    pub(super) fn find(grant: &Grant, ended: &CancellationToken) -> Result<Self, String> {
        Self::find_within(grant, GuardBounds::default(), ended)
    }

    fn find_within(
        grant: &Grant,
        bounds: GuardBounds,
        ended: &CancellationToken,
    ) -> Result<Self, String> {
        forget_ended();
        let writable: Vec<PathBuf> = grant.writable_dirs().map(Path::to_owned).collect();
        let guarded = Self { writable: writable.clone(), ..Self::default() };
        let mut search = GuardSearch {
            grant,
            bounds,
            ended,
            guarded,
            root: None,
            within: None,
            ways_left: bounds.ways,
            is_exceeded: false,
        };
        for dir in &writable {
            search.ways_left = bounds.ways;
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

    /// Returns whether a path stays as it is: a read-only mount is on it or around it, or, if the
    /// call `sets_aside` what is new, the tool's change would be renamed.
    pub(super) fn keeps(&self, path: &Path, sets_aside: bool) -> bool {
        let is_mounted = |it: &HiddenPath| path.starts_with(OsStr::from_bytes(it.path.as_bytes()));
        let is_renamed = |it: &ExpectedPlace| {
            let place = it.around.join(&it.name);
            match it.before {
                // The directory must stay, but the tool may write in it.
                InitialState::Directory { .. } => path == place,
                InitialState::Nothing | InitialState::Link { .. } => path.starts_with(place),
                // Only a link would be renamed.
                InitialState::NoLink => false,
            }
        };
        let is_new = |it: &PartialPlace| {
            path.starts_with(&it.path) && it.reserved.executed_place(path).is_some()
        };
        self.read_only.iter().any(is_mounted)
            || sets_aside
                && (self.expected.iter().any(is_renamed) || self.listed.iter().any(is_new))
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
    bounds: GuardBounds,
    ended: &'a CancellationToken,
    guarded: Guarded,
    /// The outermost writable directory that is searched.
    root: Option<GrantedRoot>,
    /// The repository whose submodules and working trees are searched. A tool may have made them,
    /// and the links in them.
    within: Option<PathBuf>,
    /// The number of components that are still looked at on the ways of links.
    ways_left: usize,
    /// Set if a link among those submodules and working trees leads too far.
    is_exceeded: bool,
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
        if self.ended.is_cancelled() || !self.is_guarded(&path) {
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
            FileType::Symlink if holds_repositories(around) => self.inner_link(dir, &path, name),
            FileType::Symlink => self.link(dir, path, name),
            FileType::Directory if self.grant.reserved.leads_to_named(&path) => {
                self.beside_named(dir, &path, name)
            }
            kind => {
                self.read_only(&path, identity(&stat))?;
                // Links among submodules are not followed: a tool may have made them.
                if kind == FileType::Directory && !holds_repositories(&path) {
                    self.links_in(&path)?;
                }
                Ok(())
            }
        }
    }

    /// Guards the targets of the links in a place.
    fn links_in(&mut self, place: &Path) -> Result<(), String> {
        let links = links_in(place, &mut |link: &Path| self.resolve(link));
        for (link, way) in links {
            if way.end == LinkEnd::TooFar {
                self.exceeded(place);
                continue;
            }
            // All of the place is read-only. A link outside of it can be replaced.
            if way.steps.iter().all(|step| step.starts_with(place)) {
                continue;
            }
            self.guard_target(&way.end)?;
            let (Some(around), Some(name)) = (link.parent(), link.file_name()) else { continue };
            // Outside of the granted directory nothing is renamed.
            let dir = self.root.as_ref().and_then(|root| root.open(around));
            let Some(dir) = dir.map(Arc::new) else { continue };
            let Ok(text) = readlinkat(&dir, name, Vec::new()) else { continue };
            // The end of the link has a mount. A link on the way to it cannot.
            self.expect_link(&dir, &link, name, text, way.end);
        }
        Ok(())
    }

    /// Resolves a link within the bounds.
    fn resolve(&mut self, link: &Path) -> Resolution {
        let most = match self.ended.is_cancelled() {
            true => 0,
            false => self.bounds.way.min(self.ways_left),
        };
        let mut left = most;
        let way = resolve_within(link, &mut left);
        self.ways_left -= most - left;
        way
    }

    /// Notes that a link in a place leads too far. The place is read-only, and the end of the link
    /// is unknown. If a tool may have made the link, all of the repository becomes read-only.
    fn exceeded(&mut self, place: &Path) {
        if self.within.is_some() {
            self.is_exceeded = true;
        } else if !self.guarded.too_large.iter().any(|known| known == place) {
            self.guarded.too_large.push(place.to_owned());
        }
    }

    /// Guards the target of a link if it lies in the directories that the tool may write to.
    fn guard_target(&mut self, target: &LinkEnd) -> Result<(), String> {
        if let LinkEnd::At(real) = target
            && self.is_writable(real)
            && !self.is_needed_by_git(real)
            && let Ok(stat) = statat(CWD, real, AtFlags::SYMLINK_NOFOLLOW)
        {
            self.read_only(real, identity(&stat))?;
        }
        Ok(())
    }

    /// Returns whether the tool may write to the target of a link. A link to a granted directory
    /// itself does not count: guarding that directory would leave nothing to write to.
    fn is_writable(&self, real: &Path) -> bool {
        let writable = &self.guarded.writable;
        writable.iter().any(|dir| real.starts_with(dir))
            && !writable.iter().any(|dir| dir.starts_with(real))
    }

    /// Returns whether a link of a submodule or working tree leads to something that git must be
    /// able to change: a part of the repository that is no place, or a directory around it.
    fn is_needed_by_git(&self, real: &Path) -> bool {
        self.within.as_deref().is_some_and(|git| {
            git.starts_with(real) || real.starts_with(git) && !self.is_guarded(real)
        })
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

    /// Expects a link. It is made again if the tool removes it, unless a tool may have made it.
    fn expect_link(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        name: &OsStr,
        text: CString,
        target: LinkEnd,
    ) {
        let is_inner = path.ancestors().skip(1).any(holds_repositories);
        let is_restored = self.within.is_none() && !is_inner;
        self.expect(dir, path, name, InitialState::Link { text, target, is_restored }, None);
    }

    /// Guards a link, and its target in the granted directories.
    fn link(&mut self, dir: &Arc<OwnedFd>, path: PathBuf, name: &OsStr) -> Result<(), String> {
        let text = readlinkat(dir, name, Vec::new()).map_err(|errno| failed(&path, errno))?;
        let target = self.resolve(&path).end;
        if target == LinkEnd::TooFar {
            self.exceeded(&path);
        }
        self.guard_target(&target)?;
        if let LinkEnd::At(real) = &target
            && real.is_dir()
            && !self.is_needed_by_git(real)
        {
            self.links_in(real)?;
        }
        self.expect_link(dir, &path, name, text, target);
        Ok(())
    }

    /// Guards a link among submodules or working trees. Its target is guarded only if that is a
    /// repository. Git has no use for other links and for files here.
    fn inner_link(&mut self, dir: &Arc<OwnedFd>, path: &Path, name: &OsStr) -> Result<(), String> {
        let text = match readlinkat(dir, name, Vec::new()) {
            Ok(text) => text,
            Err(Errno::INVAL | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(path, errno)),
        };
        let target = self.resolve(path).end;
        if target == LinkEnd::TooFar {
            self.exceeded(path);
            return Ok(());
        }
        if let LinkEnd::At(real) = &target
            && is_repository(real)
            && !self.is_needed_by_git(real)
        {
            self.guard_target(&target)?;
            self.links_in(&real.join("hooks"))?;
        }
        self.expect_link(dir, path, name, text, target);
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
        let most = self.bounds.names;
        let found = first_names_in(&place, most.saturating_add(1));
        let found = found.map_err(|errno| failed(path, errno))?;
        if found.len() > most {
            return self.close(&place, path);
        }
        let names = note_listed(&place, found).map_err(|errno| failed(path, errno))?;
        let (mounts, places) = (self.guarded.read_only.len(), self.places());
        for entry in &*names {
            self.look(&place, path, entry)?;
            if self.places() - places > self.bounds.places {
                self.keep_outside(mounts, path);
                return self.close(&place, path);
            }
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
        let is_whole = self.inner(&git, &path).is_ok_and(|is_whole| is_whole);
        self.within = None;
        if is_whole {
            return Ok(());
        }
        // A tool may have made the repository too large, or taken rights away. Later calls must not
        // fail because of that.
        self.keep_outside(before, &path);
        if !self.is_guarded(&path) {
            return Ok(());
        }
        if self.grant.reserved.leads_to_named(&path) {
            self.guarded.too_large.push(path.clone());
            return self.beside_named(dir, &path, name);
        }
        self.close(&git, &path)
    }

    /// Makes a directory that exceeds a bound read-only as a whole.
    fn close(&mut self, dir: &OwnedFd, path: &Path) -> Result<(), String> {
        let stat = fstat(dir).map_err(|errno| failed(path, errno))?;
        self.read_only(path, identity(&stat))?;
        self.guarded.too_large.push(path.to_owned());
        Ok(())
    }

    /// Returns the number of places that were found so far.
    fn places(&self) -> usize {
        self.guarded.read_only.len() + self.guarded.expected.len()
    }

    /// Forgets the mounts in a directory, except for the first `before` mounts. The targets of
    /// links that lie outside of the directory stay.
    fn keep_outside(&mut self, before: usize, dir: &Path) {
        let found = self.guarded.read_only.split_off(before);
        let is_outside =
            |it: &HiddenPath| !Path::new(OsStr::from_bytes(it.path.to_bytes())).starts_with(dir);
        self.guarded.read_only.extend(found.into_iter().filter(is_outside));
    }

    /// Guards the places in a repository. Returns false if there are too many.
    fn inner(&mut self, git: &Arc<OwnedFd>, path: &Path) -> Result<bool, String> {
        for place in IN_GIT.iter().filter(|place| ![MODULES, WORKTREES].contains(place)) {
            self.look(git, path, OsStr::new(place))?;
        }
        (self.ways_left, self.is_exceeded) = (self.bounds.ways, false);
        let mut left = self.bounds.inner;
        let most = self.places() + self.bounds.places;
        for inner in [MODULES, WORKTREES] {
            let (name, place) = (OsStr::new(inner), path.join(inner));
            let open = self.open(git, name, &place)?;
            // A link, or something that git does not use.
            if open.is_none() && statat(git, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.look(git, path, name)?;
                continue;
            }
            if !self.is_guarded(&place) {
                continue;
            }
            // Later calls would take a link for the user's, and guard what it leads to.
            self.expect(git, &place, name, InitialState::NoLink, None);
            let Some(open) = open else { continue };
            self.within = Some(path.to_owned());
            if !self.repositories(&open, &place, &mut left, most)? {
                return Ok(false);
            }
            self.within = None;
        }
        Ok(true)
    }

    /// Guards the places in the repositories of a directory. Returns false if there are more names
    /// than are `left`, if the search has then found more than `most` places, or if a link leads
    /// too far.
    fn repositories(
        &mut self,
        dir: &Arc<OwnedFd>,
        path: &Path,
        left: &mut usize,
        most: usize,
    ) -> Result<bool, String> {
        let names = first_names_in(dir, left.saturating_add(1));
        for name in names.map_err(|errno| failed(path, errno))? {
            let inner = path.join(&name);
            if self.ended.is_cancelled() {
                return Ok(false);
            }
            // Every name counts, since a tool can make files and links here as well.
            *left = match left.checked_sub(1) {
                Some(left) if inner.as_os_str().len() <= LONGEST_PATH => left,
                _ => return Ok(false),
            };
            let Some(open) = self.open(dir, &name, &inner)? else {
                self.inner_link(dir, &inner, &name)?;
                if self.is_exceeded {
                    return Ok(false);
                }
                continue;
            };
            // A tool may remove some of them between two calls.
            let is_there = |name: &str| statat(&open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            let is_repository = OF_REPOSITORIES.iter().any(|name| is_there(name));
            if is_repository {
                for place in IN_GIT.iter().filter(|place| **place != MODULES) {
                    self.look(&open, &inner, OsStr::new(place))?;
                    if self.is_exceeded || self.places() > most {
                        return Ok(false);
                    }
                }
            }
            let below = match is_repository {
                true => self.open(&open, OsStr::new(MODULES), &inner)?,
                false => Some(open),
            };
            let below_path = if is_repository { inner.join(MODULES) } else { inner };
            if let Some(below) = below
                && !self.repositories(&below, &below_path, left, most)?
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

/// Returns whether git takes a directory for a repository.
fn is_repository(dir: &Path) -> bool {
    let is_there = |name: &str| symlink_metadata(dir.join(name)).is_ok();
    NEEDED.iter().any(|names| names.iter().all(|name| is_there(name)))
}

/// Returns whether a path is the directory of a repository's submodules or working trees.
fn holds_repositories(path: &Path) -> bool {
    let is_called = |path: &Path, known: &str| {
        path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(known))
    };
    [MODULES, WORKTREES].iter().any(|known| is_called(path, known))
        && path.parent().is_some_and(|git| is_called(git, GIT))
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

#[cfg(test)]
mod tests {
    use std::fs::{self, create_dir_all, remove_file, write};
    use std::os::unix::fs::symlink;

    use ikigai_protocol::{Access, GrantedDir};
    use tempfile::TempDir;

    use super::*;
    use crate::policy::Reserved;

    /// A writable directory with a repository in it.
    struct ScratchRepository {
        _scratch: TempDir,
        root: PathBuf,
    }

    impl ScratchRepository {
        fn new() -> Self {
            let scratch = tempfile::tempdir().expect("a directory");
            let root = scratch.path().canonicalize().expect("a path");
            let workspace = Self { _scratch: scratch, root };
            for file in [".git/HEAD", ".git/config", ".git/objects/o", "src/a", "Makefile"] {
                workspace.write(file);
            }
            workspace
        }

        fn write(&self, name: &str) {
            let path = self.root.join(name);
            create_dir_all(path.parent().expect("a parent")).expect("made");
            write(path, "good").expect("written");
        }

        fn link(&self, target: &str, name: &str) {
            symlink(target, self.root.join(name)).expect("linked");
        }

        /// Finds the places for a tool that may write to the directory, and to what is named.
        fn find(&self, named: &[&str], bounds: GuardBounds) -> Guarded {
            let named = named.iter().map(|name| self.root.join(name));
            let named = named.chain([self.root.clone()]);
            let named = named.map(|path| GrantedDir { access: Access::ReadWrite, path });
            let dirs = vec![GrantedDir { access: Access::ReadWrite, path: self.root.clone() }];
            let reserved = Reserved::guarding(named.collect());
            let grant = Grant { dirs, reserved, ..Grant::default() };
            let ended = CancellationToken::new();
            Guarded::find_within(&grant, bounds, &ended).expect("found")
        }

        /// Returns what is read-only, and what was too large to be searched.
        fn closed(&self, named: &[&str], bounds: GuardBounds) -> [Vec<String>; 2] {
            let guarded = self.find(named, bounds);
            let name =
                |path: &Path| path.strip_prefix(&self.root).expect("within").display().to_string();
            let read_only = guarded.read_only.iter();
            let read_only =
                read_only.map(|it| name(Path::new(OsStr::from_bytes(it.path.to_bytes()))));
            let mut read_only: Vec<String> = read_only.collect();
            read_only.sort();
            [read_only, guarded.too_large.iter().map(|path| name(path)).collect()]
        }
    }

    #[test]
    fn every_name_among_the_submodules_counts_and_too_many_close_the_repository() {
        let workspace = ScratchRepository::new();
        workspace.write("scripts/hook");
        workspace.write(".git/hooks/sample");
        workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
        for number in 0..5 {
            workspace.write(&format!(".git/modules/{number}"));
        }
        let bounds = GuardBounds::default();
        let [read_only, too_large] = workspace.closed(&[], GuardBounds { inner: 5, ..bounds });
        assert_eq!(read_only, [".git/config", ".git/hooks", "scripts/hook"]);
        assert_eq!(too_large, Vec::<String>::new());
        let [read_only, too_large] = workspace.closed(&[], GuardBounds { inner: 4, ..bounds });
        assert_eq!(read_only, [".git", "scripts/hook"]);
        assert_eq!(too_large, [".git"]);
        // What the grant names stays open.
        let bounds = GuardBounds { inner: 4, ..bounds };
        let [read_only, too_large] = workspace.closed(&[".git/config"], bounds);
        assert_eq!(read_only, [".git/hooks", ".git/modules", "scripts/hook", "scripts/hook"]);
        assert_eq!(too_large, [".git"]);
    }

    #[test]
    fn too_many_places_in_submodules_close_the_repository() {
        let workspace = ScratchRepository::new();
        workspace.write(".git/modules/sub/HEAD");
        workspace.write(".git/modules/sub/config");
        workspace.write(".git/modules/sub/hooks/pre-commit");
        let bounds = GuardBounds { places: 3, ..GuardBounds::default() };
        assert_eq!(workspace.closed(&[], bounds), [[".git"], [".git"]]);
        let [read_only, _] = workspace.closed(&[], GuardBounds::default());
        let inner = [".git/modules/sub/config", ".git/modules/sub/hooks"];
        assert_eq!(read_only, [".git/config", inner[0], inner[1]]);
    }

    /// Links that take the kernel long to follow. A tool could have made those among submodules.
    #[test]
    fn links_that_lead_too_far_close_the_repository_and_are_reported_elsewhere() {
        let far = |up: &str| format!("{up}{}scripts/hook", "src/../".repeat(80));
        let bounds = GuardBounds::default();
        for (up, link, read_only, too_large) in [
            ("../../../../", ".git/modules/sub/hooks/h", vec![".git"], ".git"),
            ("../../../../", ".git/worktrees/w/hooks/h", vec![".git"], ".git"),
            ("../../../", ".git/modules/sub/hooks", vec![".git"], ".git"),
            ("../../", ".git/modules/h", vec![".git"], ".git"),
            ("../../", ".git/hooks/h", vec![".git/config", ".git/hooks"], ".git/hooks"),
            ("", ".vscode", vec![".git/config"], ".vscode"),
        ] {
            let workspace = ScratchRepository::new();
            workspace.write("scripts/hook");
            for file in [".git/modules/sub/HEAD", ".git/worktrees/w/HEAD"] {
                workspace.write(file);
            }
            let path = workspace.root.join(link);
            create_dir_all(path.parent().expect("a parent")).expect("made");
            workspace.link(&far(up), link);
            assert_eq!(path.canonicalize().expect("there"), workspace.root.join("scripts/hook"));
            let [found, reported] = workspace.closed(&[], bounds);
            assert_eq!((found, reported), (strings(&read_only), strings(&[too_large])), "{link}");
        }
    }

    fn strings(all: &[&str]) -> Vec<String> {
        all.iter().map(|&it| it.to_owned()).collect()
    }

    #[test]
    fn links_among_submodules_use_up_a_share_of_their_own() {
        let workspace = ScratchRepository::new();
        for file in ["scripts/hook", ".git/hooks/sample", ".git/modules/sub/hooks/sample"] {
            workspace.write(file);
        }
        workspace.write(".git/modules/sub/HEAD");
        workspace.link("../../scripts/hook", ".git/hooks/pre-commit");
        let of_one = workspace.root.components().count() + 16;
        for number in 0..10 {
            workspace.link("../../../../Makefile", &format!(".git/modules/sub/hooks/{number}"));
        }
        let bounds = GuardBounds::default();
        let [read_only, too_large] = workspace.closed(&[], GuardBounds { ways: of_one, ..bounds });
        assert!(read_only.contains(&"scripts/hook".to_owned()), "{read_only:?}");
        assert_eq!(too_large, [".git"]);
        let [_, too_large] = workspace.closed(&[], GuardBounds { ways: of_one * 10, ..bounds });
        assert_eq!(too_large, Vec::<String>::new());
    }

    #[test]
    fn a_place_that_leads_too_far_is_made_again_if_the_tool_replaces_it() {
        let workspace = ScratchRepository::new();
        workspace.link(&format!("{}src", "src/../".repeat(80)), ".vscode");
        assert!(workspace.find(&[], GuardBounds::default()).set_aside().is_empty());
        let guarded = workspace.find(&[], GuardBounds::default());
        remove_file(workspace.root.join(".vscode")).expect("removed");
        workspace.write(".vscode/tasks.json");
        assert_eq!(guarded.set_aside().len(), 1);
        assert!(workspace.root.join(".vscode").is_symlink());
    }

    #[test]
    fn a_search_that_has_ended_looks_at_no_place() {
        let workspace = ScratchRepository::new();
        workspace.write(".vscode/tasks.json");
        let dirs = vec![GrantedDir { access: Access::ReadWrite, path: workspace.root.clone() }];
        let reserved = Reserved::guarding(dirs.clone());
        let grant = Grant { dirs, reserved, ..Grant::default() };
        let ended = CancellationToken::new();
        let found = |ended: &CancellationToken| {
            Guarded::find(&grant, ended).expect("found").read_only.len()
        };
        assert_eq!(found(&ended), 2);
        ended.cancel();
        assert_eq!(found(&ended), 0);
    }

    #[test]
    fn too_many_names_beside_a_named_one_close_the_directory() {
        let workspace = ScratchRepository::new();
        workspace.write(".claude/settings.json");
        for number in 0..5 {
            workspace.write(&format!(".claude/{number}"));
        }
        let named = [".claude/settings.json"];
        let bounds = GuardBounds::default();
        for few in [GuardBounds { places: 4, ..bounds }, GuardBounds { names: 5, ..bounds }] {
            let [read_only, too_large] = workspace.closed(&named, few);
            assert_eq!(read_only, [".claude", ".git/config"]);
            assert_eq!(too_large, [".claude"]);
        }
        let enough = GuardBounds { places: 6, names: 6, ..bounds };
        let [read_only, too_large] = workspace.closed(&named, enough);
        assert_eq!((read_only.len(), too_large.len()), (6, 0), "{read_only:?}");
    }

    #[test]
    fn what_is_new_in_a_place_that_is_open_in_part_is_noted_with_the_place() {
        let workspace = ScratchRepository::new();
        workspace.write(".claude/settings.json");
        let guarded = workspace.find(&[".claude/settings.json"], GuardBounds::default());
        for file in [".claude/hooks.json", ".claude/more.json"] {
            workspace.write(file);
        }
        let done = guarded.set_aside();
        assert_eq!(done.len(), 2);
        assert!(done.iter().all(|it| it.place == workspace.root.join(".claude")));
    }

    /// Links that a tool could have made in an earlier call.
    #[test]
    fn links_among_submodules_neither_guard_what_they_lead_to_nor_come_back() {
        let workspace = ScratchRepository::new();
        for file in ["sub.git/HEAD", "sub.git/objects/o", "sub.git/refs/r", ".git/modules/x/HEAD"] {
            workspace.write(file);
        }
        let links = [
            ("../../Makefile", ".git/modules/m"),
            ("../../src", ".git/modules/s"),
            ("../objects", ".git/modules/o"),
            ("../..", ".git/modules/w"),
            ("../../nowhere", ".git/modules/n"),
            ("../../../.git/objects", ".git/modules/x/hooks"),
            ("../../sub.git", ".git/modules/sub"),
        ];
        for (target, link) in links {
            workspace.link(target, link);
        }
        let [read_only, _] = workspace.closed(&[], GuardBounds::default());
        assert_eq!(read_only, [".git/config", "sub.git"], "a repository is guarded");
        let guarded = workspace.find(&[], GuardBounds::default());
        for (_, link) in links {
            remove_file(workspace.root.join(link)).expect("removed");
        }
        assert!(guarded.set_aside().is_empty());
        for (_, link) in links {
            assert!(!workspace.root.join(link).is_symlink(), "{link}");
        }
    }

    #[test]
    fn a_link_that_takes_the_place_of_the_submodules_is_set_aside() {
        for is_there in [true, false] {
            let workspace = ScratchRepository::new();
            let modules = workspace.root.join(".git/modules");
            if is_there {
                create_dir_all(&modules).expect("made");
            }
            let guarded = workspace.find(&[], GuardBounds::default());
            if is_there {
                fs::remove_dir(&modules).expect("removed");
            }
            workspace.link("../src", ".git/modules");
            let done = guarded.set_aside();
            assert_eq!(done.len(), 1);
            assert_eq!(done[0].now.as_deref(), Ok(OsStr::new("modules.withheld")));
            let guarded = workspace.find(&[], GuardBounds::default());
            create_dir_all(&modules).expect("made");
            assert!(guarded.set_aside().is_empty(), "git makes it for the first submodule");
        }
    }
}
