//! The bounded search for hidden names in the granted directories of a call.
//!
//! Owns the bounds of the search. It hides a directory as a whole if it cannot search it, or if
//! there is too much in it. A tool could make such a directory, and later calls must not fail
//! because of it. Follows no link, and leaves out the file systems that the supervisor covers.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use ikigai_supervisor::filesystems::is_ordinary;
use ikigai_supervisor::plan::InodeId;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::open_grant::{OpenGrant, identity};
use crate::paths::{CALL_AGE, InodeState};

/// The bounds of a search.
#[derive(Clone, Copy)]
pub(super) struct SearchBounds {
    /// The number of files and directories that are looked at.
    pub(super) entries: usize,
    /// The number of those that are hidden, and of the directories on the way to them: each is a
    /// mount.
    pub(super) hidden: usize,
    /// The depth of a directory. One descriptor is open for each.
    pub(super) depth: usize,
    /// The time that it takes.
    pub(super) time: Duration,
}

impl Default for SearchBounds {
    fn default() -> Self {
        Self { entries: 1_000_000, hidden: 4096, depth: 128, time: Duration::from_secs(10) }
    }
}

/// The longest path of a directory that is searched, in bytes. Every name in it has a path that the
/// kernel takes.
pub(super) const LONGEST_PATH: usize = 3_800;

/// The part of a bound that a directory takes at least, with all below it, to be hidden as a whole
/// when the bound is reached.
const LARGE: usize = 8;

/// The number of directories with too many entries after which no further directory is searched.
const MOST_LARGE: u32 = 4;

/// The files that a search looks for.
enum SearchCriterion<'a> {
    /// Those with a hidden name.
    Names(&'a dyn Fn(&Path) -> bool),
    /// These files, by device and number, whatever their names.
    Files(HashSet<(u64, u64)>),
    /// Files that have several names.
    AnyLinked,
}

/// The reason why a search stops.
enum SearchFailure {
    /// A bound was reached.
    TooMuch,
    /// The kernel refuses to look at what is in a directory.
    Refused(String),
    /// It cannot go on, for this reason.
    Failed(String),
}

/// The state of a search when it entered a directory.
#[derive(Clone, Copy)]
struct SearchMark {
    looked: usize,
    found: usize,
    above: usize,
}

/// The search for hidden names in the granted directories.
pub(super) struct HiddenSearch<'a> {
    wanted: SearchCriterion<'a>,
    bounds: SearchBounds,
    until: Instant,
    looked: usize,
    pub(super) found: BTreeMap<PathBuf, InodeId>,
    /// The hidden files with more than one name, by device and number.
    linked: HashSet<(u64, u64)>,
    /// The directories on the way to what was found, without the granted one.
    above: BTreeSet<PathBuf>,
    /// The granted directory that is searched.
    root: PathBuf,
    /// The directories that are hidden because they have too much in them, or lie too deep.
    pub(super) whole: HashSet<PathBuf>,
    /// The number of those with too many entries.
    large: u32,
    /// The directories that were searched.
    searched: Vec<Searched>,
    /// Set if one of them had changed so shortly before that a further change may have the same
    /// time.
    is_too_early: bool,
}

/// A directory, as it was when its search began.
struct Searched {
    path: PathBuf,
    state: InodeState,
}

impl<'a> HiddenSearch<'a> {
    /// Returns a search for the names that `hides` selects. It fails if it has not ended at
    /// `until`.
    pub(super) fn by_name(
        hides: &'a dyn Fn(&Path) -> bool,
        bounds: SearchBounds,
        until: Instant,
    ) -> Self {
        Self {
            wanted: SearchCriterion::Names(hides),
            bounds,
            until,
            looked: 0,
            found: BTreeMap::new(),
            linked: HashSet::new(),
            above: BTreeSet::new(),
            root: PathBuf::new(),
            whole: HashSet::new(),
            large: 0,
            searched: Vec::new(),
            is_too_early: false,
        }
    }

    /// Searches the granted directories, and then for the other names of the files that it found.
    pub(super) fn run(mut self, granted: &[OpenGrant]) -> Result<Self, String> {
        self.all(granted)?;
        if self.linked.is_empty() && self.whole.is_empty() {
            return Ok(self);
        }
        // The second names of what was not looked at are unknown.
        let linked = std::mem::take(&mut self.linked);
        self.wanted = match self.whole.is_empty() {
            true => SearchCriterion::Files(linked),
            false => SearchCriterion::AnyLinked,
        };
        (self.looked, self.large) = (0, 0);
        self.all(granted)?;
        Ok(self)
    }

    /// Returns whether the directories are as they were when they were searched. Otherwise another
    /// program may have moved one from where the search had not been to where it had.
    pub(super) fn is_settled(&self) -> bool {
        !self.is_too_early
            && self.searched.iter().all(|it| {
                statat(CWD, &it.path, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| InodeState::from_stat(&stat) == it.state)
            })
    }

    fn all(&mut self, granted: &[OpenGrant]) -> Result<(), String> {
        for it in granted {
            if self.whole.contains(&it.path) {
                continue;
            }
            self.root.clone_from(&it.path);
            match self.granted(it) {
                Ok(()) => {}
                Err(SearchFailure::Failed(reason) | SearchFailure::Refused(reason)) => {
                    return Err(reason);
                }
                Err(SearchFailure::TooMuch) => {
                    self.forget(&it.path);
                    self.found.insert(it.path.clone(), it.found);
                    self.whole.insert(it.path.clone());
                }
            }
        }
        Ok(())
    }

    /// Searches a granted directory, or looks at a granted file.
    fn granted(
        &mut self,
        OpenGrant { path, place, found }: &OpenGrant,
    ) -> Result<(), SearchFailure> {
        if !found.directory {
            return self.entry(path.clone(), false, fstat(place)).map(drop);
        }
        let directory = open(place, OsStr::new(".")).map_err(unsearched(path))?;
        self.directory(&directory, path, false, 0)
    }

    /// Searches an open directory at `path`.
    fn directory(
        &mut self,
        directory: &OwnedFd,
        path: &Path,
        hidden: bool,
        depth: usize,
    ) -> Result<(), SearchFailure> {
        // The supervisor covers it, or refuses it as a grant.
        if !is_ordinary(directory).unwrap_or(false) {
            return Ok(());
        }
        let stat = fstat(directory).map_err(unsearched(path))?;
        let state = InodeState::from_stat(&stat);
        self.is_too_early |= !state.has_settled(CALL_AGE, SystemTime::now());
        self.searched.push(Searched { path: path.to_owned(), state });
        for entry in Dir::read_from(directory).map_err(unsearched(path))? {
            let entry = entry.map_err(unsearched(path))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.count(path)?;
            let path = path.join(name);
            let stat = || statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let mut kind = entry.file_type();
            // A file is only asked about where its name does not tell enough.
            let known = match (&self.wanted, kind) {
                (_, FileType::Unknown) => Some(stat()),
                (SearchCriterion::Names(hides), _) => (hidden || hides(&path)).then(stat),
                (SearchCriterion::Files(_) | SearchCriterion::AnyLinked, FileType::RegularFile) => {
                    Some(stat())
                }
                (SearchCriterion::Files(_) | SearchCriterion::AnyLinked, _) => None,
            };
            let hidden = match known {
                // It is gone, and with it the reason to hide it.
                Some(Err(Errno::NOENT)) => continue,
                Some(known) => {
                    if let Ok(stat) = &known {
                        kind = FileType::from_raw_mode(stat.st_mode);
                    }
                    self.entry(path.clone(), hidden, known)?
                }
                None => false,
            };
            if kind == FileType::Directory && !self.whole.contains(&path) {
                self.descend(directory, name, &path, hidden, depth + 1)?;
            }
        }
        Ok(())
    }

    fn descend(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        hidden: bool,
        depth: usize,
    ) -> Result<(), SearchFailure> {
        let is_deep = depth > self.bounds.depth || path.as_os_str().len() > LONGEST_PATH;
        if is_deep || self.large >= MOST_LARGE {
            return self.hide_whole(parent, name, path);
        }
        let mark =
            SearchMark { looked: self.looked, found: self.found.len(), above: self.above.len() };
        match open(parent, name) {
            Ok(directory) => match self.directory(&directory, path, hidden, depth) {
                Err(SearchFailure::TooMuch) if self.is_large(mark) => {
                    self.forget(path);
                    if self.looked > self.bounds.entries {
                        self.looked = mark.looked;
                        self.large += 1;
                    }
                    self.hide_whole(parent, name, path)
                }
                // It can be listed, but what is in it cannot be opened.
                Err(SearchFailure::Refused(_)) => {
                    self.forget(path);
                    self.hide_whole(parent, name, path)
                }
                searched => searched,
            },
            // Renamed or replaced meanwhile: the supervisor checks what it hides.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            // A tool that knows the names can open the files. It may also have taken the rights away,
            // so that this search does not find the other names of the files.
            Err(Errno::ACCESS | Errno::PERM) => self.hide_whole(parent, name, path),
            Err(errno) => Err(unsearched(path)(errno)),
        }
    }

    /// Returns whether much of a bound was used up since a mark.
    fn is_large(&self, mark: SearchMark) -> bool {
        let is_much = |now: usize, then: usize, bound: usize| {
            now.saturating_sub(then).saturating_mul(LARGE) >= bound
        };
        let SearchBounds { entries, hidden, .. } = self.bounds;
        is_much(self.looked, mark.looked, entries)
            || is_much(self.found.len(), mark.found, hidden)
            || is_much(self.above.len(), mark.above, hidden)
    }

    /// Forgets what was found in a directory.
    fn forget(&mut self, dir: &Path) {
        let is_elsewhere = |path: &PathBuf| !path.starts_with(dir);
        self.found.retain(|path, _| is_elsewhere(path));
        self.above.retain(is_elsewhere);
    }

    /// Hides a directory with all that is in it, which was not searched.
    fn hide_whole(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), SearchFailure> {
        match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                self.whole.insert(path.to_owned());
                self.hide(path.to_owned(), &stat)
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(unsearched(path)(errno)),
        }
    }

    /// Hides an entry if it is looked for, or is `within` a hidden directory. Returns whether it is
    /// hidden.
    fn entry(
        &mut self,
        path: PathBuf,
        within: bool,
        stat: Result<Stat, Errno>,
    ) -> Result<bool, SearchFailure> {
        let stat = stat.map_err(unsearched(&path))?;
        let file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let identity = (stat.st_dev, stat.st_ino);
        let hidden = match &self.wanted {
            SearchCriterion::Names(hides) => within || hides(&path),
            SearchCriterion::Files(files) => file && files.contains(&identity),
            SearchCriterion::AnyLinked => file && stat.st_nlink > 1,
        };
        if !hidden {
            return Ok(false);
        }
        if file && stat.st_nlink > 1 {
            self.linked.insert(identity);
        }
        // What is within a hidden directory is hidden with it.
        if !within {
            self.hide(path, &stat)?;
        }
        Ok(true)
    }

    fn hide(&mut self, path: PathBuf, stat: &Stat) -> Result<(), SearchFailure> {
        for dir in path.ancestors().skip(1) {
            if !dir.starts_with(&self.root)
                || dir == self.root
                || !self.above.insert(dir.to_owned())
            {
                break;
            }
        }
        self.found.insert(path, identity(stat));
        let most = self.bounds.hidden;
        if self.found.len() > most || self.above.len() > most {
            Err(SearchFailure::TooMuch)
        } else {
            Ok(())
        }
    }

    fn count(&mut self, path: &Path) -> Result<(), SearchFailure> {
        self.looked += 1;
        if self.looked > self.bounds.entries {
            return Err(SearchFailure::TooMuch);
        }
        if self.looked.is_multiple_of(1024) && Instant::now() > self.until {
            return Err(SearchFailure::Failed(format!(
                "the search of the granted directories took more than {} seconds, up to `{}`",
                self.bounds.time.as_secs(),
                path.display()
            )));
        }
        Ok(())
    }
}

/// Returns the failure to search a directory, or to look at a file.
fn unsearched(path: &Path) -> impl Fn(Errno) -> SearchFailure {
    move |errno| {
        let reason = format!("`{}` cannot be searched: {errno}", path.display());
        match errno {
            Errno::ACCESS | Errno::PERM => SearchFailure::Refused(reason),
            _ => SearchFailure::Failed(reason),
        }
    }
}

/// Opens a directory to list it, and follows no link at the end.
pub(super) fn open(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}
