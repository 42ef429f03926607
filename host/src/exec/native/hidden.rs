//! The search for the files of a grant that a native tool does not see, or may not write to.
//!
//! The supervisor hides what exists when a call begins: this finds it. Owns the bounds of the search. It
//! hides a directory as a whole if it cannot search it, or if there is too much in it. A tool could make such a
//! directory, and later calls must not fail because of it. A call whose search does not end in time is refused.
//! Follows no link, and leaves out the file systems that the supervisor covers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use ikigai_protocol::GrantedDir;
use ikigai_supervisor::filesystems::is_ordinary;
use ikigai_supervisor::plan::{HiddenPath, InodeId};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::dir_state::{DirState, TICK};
use super::guarded::Guarded;
use super::secrets::{self, SecretDirs};
use crate::exec::Call;
use crate::policy::Sandbox;

/// The files that a tool does not see, or may not write to, each with its identity.
#[derive(Default)]
pub(super) struct Unseen {
    /// Those that are hidden in what was granted.
    pub(super) hidden: Vec<HiddenPath>,
    /// The places that other programs execute.
    pub(super) guarded: Guarded,
    /// The identity of each granted directory and file that was searched.
    pub(super) searched: HashMap<PathBuf, InodeId>,
    /// Set for a permissive recording, which shows the machine: those that it does not show.
    pub(super) machine: Option<Vec<HiddenPath>>,
    /// The directories in which a place of secrets can appear while the tool runs.
    pub(super) secret_dirs: SecretDirs,
    /// Set if directories changed in each search for hidden names, so that another program may have moved one past
    /// the search.
    pub(super) may_be_incomplete: bool,
}

/// Finds the files that the tool of a call does not see. An unconfined tool has all rights of its
/// user, and nothing is hidden from it.
pub(super) async fn find_for_call(call: &Call) -> Result<Unseen, String> {
    let recorded = call.widening.clone().filter(|widening| widening.is_permissive());
    let hides = !call.grant.hide.is_empty();
    let hides_secrets = call.grant.reserved.hides_secrets();
    let guards = call.grant.reserved.guards();
    let hides_nothing = !hides && !hides_secrets && recorded.is_none();
    if hides_nothing && !guards || call.grant.sandbox == Sandbox::Off {
        return Ok(Unseen::default());
    }
    let grant = call.grant.clone();
    let search = move |granted: Vec<OpenGrant>| {
        let mut secret_dirs = SecretDirs::default();
        let mut secrets = Vec::new();
        if hides_secrets {
            // Before the search: a place that appears during it changes one of them.
            secret_dirs = SecretDirs::look(&grant);
            secrets = secrets::find(&grant)?;
        }
        let is_hidden = |path: &Path| grant.hides(path) || secrets.iter().any(|it| it == path);
        let (hidden, may_be_incomplete) = match hides {
            true => find(&granted, &is_hidden, SearchBounds::default())?,
            // Few places, each with its path, so that nothing has to be searched.
            false => (present(&secrets, &granted)?, false),
        };
        let searched = granted.into_iter().map(|it| (it.path, it.found)).collect();
        if may_be_incomplete && grant.sandbox == Sandbox::Require {
            return Err("other programs changed directories during each search".to_owned());
        }
        let guarded = if guards { Guarded::find(&grant)? } else { Guarded::default() };
        let machine = recorded.map(|it| present(&it.kept_from_recordings(), &[])).transpose()?;
        secret_dirs.forget_hidden(&hidden);
        Ok(Unseen { hidden, guarded, searched, machine, secret_dirs, may_be_incomplete })
    };
    let dirs = call.grant.dirs.clone();
    let search = tokio::task::spawn_blocking(move || {
        let granted = OpenGrant::open_all(&dirs)?;
        search(granted).map_err(|reason: String| {
            format!("the files that are hidden or kept from the tool are unknown: {reason}")
        })
    });
    // The kernel may have it wait for another program.
    let time = SearchBounds::default().time.min(call.limits.wall_clock);
    match tokio::time::timeout(time, search).await {
        Ok(found) => found.unwrap_or_else(|error| Err(error.to_string())),
        Err(_) => Err(format!(
            "the granted directories could not be searched within {} s, since other programs keep \
             them busy; call it again",
            time.as_secs_f32()
        )),
    }
}

/// A granted directory or file that was opened by its path once. The search does not use the path again: another program
/// may move something else there, and back. The supervisor refuses what it finds there if it is not this.
pub(super) struct OpenGrant {
    path: PathBuf,
    place: OwnedFd,
    found: InodeId,
}

impl OpenGrant {
    /// Opens what was granted, without the right to read it.
    ///
    /// # Errors
    ///
    /// The reason, for a person. One that is missing is an error: another program may have moved it for this moment, and
    /// the supervisor would find it again.
    pub(super) fn open_all(dirs: &[GrantedDir]) -> Result<Vec<Self>, String> {
        let open = |dir: &GrantedDir| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let place = openat(CWD, &dir.path, flags, Mode::empty())?;
            let found = identity(&fstat(&place)?);
            Ok(Self { path: dir.path.clone(), place, found })
        };
        let failed = |dir: &GrantedDir, errno: Errno| match errno {
            Errno::NOENT => format!(
                "the granted `{}` does not exist; make it, or take it out of the grant",
                dir.path.display()
            ),
            errno => format!("the granted `{}` cannot be opened: {errno}", dir.path.display()),
        };
        dirs.iter().map(|dir| open(dir).map_err(|errno| failed(dir, errno))).collect()
    }
}

/// The bounds of a search.
#[derive(Clone, Copy)]
pub(super) struct SearchBounds {
    /// The number of files and directories that are looked at.
    pub(super) entries: usize,
    /// The number of those that are hidden, and of the directories on the way to them: each is a mount.
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

/// The longest path of a directory that is searched, in bytes. Every name in it has a path that the kernel takes.
pub(super) const LONGEST_PATH: usize = 3_800;

/// The part of a bound that a directory takes at least, with all below it, to be hidden as a whole when the bound is
/// reached.
const LARGE: usize = 8;

/// The number of directories with too many entries after which no further directory is searched.
const MOST_LARGE: u32 = 4;

/// The number of searches after which directories may still have changed during each.
const SEARCHES: u32 = 3;

/// Finds what `hides` names in the granted directories, by its absolute path, with every other name of
/// such a file. Returns as well whether it may have missed something, because directories changed during each search.
///
/// # Errors
///
/// The reason why the search did not end, for a person.
pub(super) fn find(
    granted: &[OpenGrant],
    hides: &dyn Fn(&Path) -> bool,
    bounds: SearchBounds,
) -> Result<(Vec<HiddenPath>, bool), String> {
    let until = Instant::now() + bounds.time;
    let mut left = SEARCHES;
    let (search, is_settled) = loop {
        let search =
            HiddenSearch { bounds, until, ..HiddenSearch::new(SearchCriterion::Names(hides)) }
                .run(granted)?;
        let is_settled = search.is_settled();
        left -= 1;
        if is_settled || left == 0 {
            break (search, is_settled);
        }
        // A change right after one more search would have another time.
        thread::sleep(TICK);
    };
    for path in &search.whole {
        tracing::warn!(
            "`{}` has too much in it, and is hidden from the tool as a whole",
            path.display()
        );
    }
    Ok((outermost(&search.found)?, !is_settled))
}

/// Returns those of `places` that are there. They have no links in them. Looks for one in what was `granted` there.
fn present(places: &[PathBuf], granted: &[OpenGrant]) -> Result<Vec<HiddenPath>, String> {
    let mut found = BTreeMap::new();
    for path in places {
        let around = granted.iter().find_map(|it| Some((it, path.strip_prefix(&it.path).ok()?)));
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let stat = match around {
            Some((granted, rest)) => statat(&granted.place, rest, flags),
            None => statat(CWD, path, flags),
        };
        match stat {
            Ok(stat) => drop(found.insert(path.clone(), identity(&stat))),
            // What this user cannot find, the tool cannot.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(errno) => return Err(format!("`{}`: {errno}", path.display())),
        }
    }
    outermost(&found)
}

/// Returns what lies in nothing else that was found.
fn outermost(found: &BTreeMap<PathBuf, InodeId>) -> Result<Vec<HiddenPath>, String> {
    let is_outermost =
        |path: &PathBuf| !path.ancestors().skip(1).any(|above| found.contains_key(above));
    let outer = found.iter().filter(|(path, _)| is_outermost(path));
    let hidden = outer.map(|(path, found)| {
        let path = CString::new(path.as_os_str().as_bytes());
        path.map(|path| HiddenPath { path, found: *found })
            .map_err(|_| "a hidden path contains a NUL".to_owned())
    });
    hidden.collect()
}

pub(super) fn identity(stat: &Stat) -> InodeId {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    InodeId { directory, device: stat.st_dev, inode: stat.st_ino }
}

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

struct HiddenSearch<'a> {
    wanted: SearchCriterion<'a>,
    bounds: SearchBounds,
    until: Instant,
    looked: usize,
    found: BTreeMap<PathBuf, InodeId>,
    /// The hidden files with more than one name, by device and number.
    linked: HashSet<(u64, u64)>,
    /// The directories on the way to what was found, without the granted one.
    above: BTreeSet<PathBuf>,
    /// The granted directory that is searched.
    root: PathBuf,
    /// The directories that are hidden because they have too much in them, or lie too deep.
    whole: HashSet<PathBuf>,
    /// The number of those with too many entries.
    large: u32,
    /// The directories that were searched.
    searched: Vec<Searched>,
    /// Set if one of them had changed so shortly before that a further change may have the same time.
    is_too_early: bool,
}

/// A directory, as it was when its search began.
struct Searched {
    path: PathBuf,
    state: DirState,
}

impl<'a> HiddenSearch<'a> {
    fn new(wanted: SearchCriterion<'a>) -> Self {
        Self {
            wanted,
            bounds: SearchBounds::default(),
            until: Instant::now(),
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
    fn run(mut self, granted: &[OpenGrant]) -> Result<Self, String> {
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

    /// Returns whether the directories are as they were when they were searched. Otherwise another program may have
    /// moved one from where the search had not been to where it had.
    fn is_settled(&self) -> bool {
        !self.is_too_early
            && self.searched.iter().all(|it| {
                statat(CWD, &it.path, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| DirState::from_stat(&stat) == it.state)
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
                Err(SearchFailure::Failed(reason)) => return Err(reason),
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
        let state = DirState::from_stat(&stat);
        self.is_too_early |= state.is_too_young(SystemTime::now());
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
                searched => searched,
            },
            // Renamed or replaced meanwhile: the supervisor checks what it hides.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            // Its files can be opened by their names, if somebody knows these.
            Err(Errno::ACCESS | Errno::PERM) => {
                let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
                self.hide(path.to_owned(), &stat.map_err(unsearched(path))?)
            }
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
    move |errno| SearchFailure::Failed(format!("`{}` cannot be searched: {errno}", path.display()))
}

/// Opens a directory to list it, and follows no link at the end.
fn open(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::symlink;

    use ikigai_protocol::Access;

    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        for dir in ["a/b", "secret/deep", "out"] {
            fs::create_dir_all(root.join(dir)).expect("made");
        }
        for file in [".env", "a/b/.env", "a/plain", "secret/deep/key"] {
            fs::write(root.join(file), "x").expect("written");
        }
        fs::hard_link(root.join(".env"), root.join("a/other")).expect("linked");
        fs::hard_link(root.join("secret/deep/key"), root.join("out/key")).expect("linked");
        symlink(root.join("a"), root.join("link")).expect("linked");
        (scratch, root)
    }

    fn search(root: &Path, bounds: SearchBounds) -> Result<Vec<String>, String> {
        let hides = |path: &Path| {
            path.file_name().is_some_and(|name| name == ".env") || path == root.join("secret")
        };
        let dir = GrantedDir { access: Access::ReadWrite, path: root.to_owned() };
        let (hidden, _) = find(&OpenGrant::open_all(&[dir])?, &hides, bounds)?;
        let name = |it: &HiddenPath| {
            let path = it.path.to_str().expect("UTF-8").to_owned();
            path.trim_start_matches(root.to_str().expect("UTF-8")).to_owned()
        };
        Ok(hidden.iter().map(name).collect())
    }

    #[test]
    fn every_name_of_a_hidden_file_is_found() {
        let (_scratch, root) = tree();
        let found = search(&root, SearchBounds::default()).expect("ends");
        // The other names of a file in a hidden directory, too, and nothing by way of a link.
        assert_eq!(found, ["/.env", "/a/b/.env", "/a/other", "/out/key", "/secret"]);
    }

    #[test]
    fn places_of_the_machine_are_found_where_they_are() {
        let (_scratch, root) = tree();
        let places = ["out", "a/b", "a/b/.env", "a/plain/x", "gone"].map(|name| root.join(name));
        let found = present(&places, &[]).expect("found");
        let paths: Vec<_> = found.iter().map(|it| it.path.to_str().expect("UTF-8")).collect();
        assert_eq!(paths, [&places[1], &places[0]].map(|path| path.to_str().expect("UTF-8")));
    }

    #[test]
    fn a_directory_with_too_much_in_it_is_hidden_as_a_whole_and_nothing_else() {
        let bounds = SearchBounds::default();
        let found = |make: &dyn Fn(&Path), bounds: SearchBounds| {
            let (_scratch, root) = tree();
            make(&root);
            search(&root, bounds).expect("ends")
        };
        let rest = ["/.env", "/a/b/.env", "/a/other", "/out/key", "/secret"];
        let with = |whole: &'static str| {
            let mut all: Vec<&str> = rest.iter().copied().chain([whole]).collect();
            all.sort_unstable();
            all
        };
        let names = |root: &Path| {
            for number in 0..40 {
                let dir = root.join(format!("many/{number}"));
                fs::create_dir_all(&dir).expect("made");
                fs::write(dir.join(".env"), "").expect("written");
            }
        };
        assert_eq!(found(&names, SearchBounds { hidden: 16, ..bounds }), with("/many"));
        let entries = |root: &Path| {
            fs::create_dir(root.join("many")).expect("made");
            (0..200)
                .for_each(|it| fs::write(root.join(format!("many/{it}")), "").expect("written"));
        };
        assert_eq!(found(&entries, SearchBounds { entries: 100, ..bounds }), with("/many"));
        let depth = |root: &Path| fs::create_dir_all(root.join("x/2/3/4/5")).expect("made");
        assert_eq!(found(&depth, SearchBounds { depth: 4, ..bounds }), with("/x/2/3/4/5"));
        // Directories on the way to hidden names are mounts too.
        let chains = |root: &Path| {
            for number in 0..4 {
                let dir = root.join(format!("deep/{number}/1/2/3/4/5/6"));
                fs::create_dir_all(&dir).expect("made");
                fs::write(dir.join(".env"), "").expect("written");
            }
        };
        let paths = found(&chains, SearchBounds { hidden: 16, ..bounds });
        let above: BTreeSet<&Path> =
            paths.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
        assert!(above.len() <= 17 && rest.iter().all(|it| paths.iter().any(|path| path == it)));
        for number in 0..4 {
            let name = format!("/deep/{number}/1/2/3/4/5/6/.env");
            assert!(paths.iter().any(|path| Path::new(&name).starts_with(path)), "{paths:?}");
        }
        // All of what was granted, if no directory in it has most of that.
        let (_scratch, root) = tree();
        assert_eq!(search(&root, SearchBounds { hidden: 1, ..bounds }).expect("ends"), [""]);
        let late = search(&root, SearchBounds { time: Duration::ZERO, entries: 0, ..bounds });
        assert_eq!(late.expect("ends"), [""]);
    }

    #[test]
    fn a_path_that_is_too_long_for_the_kernel_is_hidden_from_where_it_is_not() {
        let (_scratch, root) = tree();
        let mut dir = open(CWD, root.as_os_str()).expect("opened");
        let name = "n".repeat(200);
        for _ in 0..25 {
            rustix::fs::mkdirat(&dir, &*name, Mode::RWXU).expect("made");
            dir = open(&dir, OsStr::new(&name)).expect("opened");
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        drop(openat(&dir, ".env", flags, Mode::RUSR).expect("made"));
        let found = search(&root, SearchBounds::default()).expect("ends");
        assert!(found.iter().all(|path| path.len() < 4_096), "{found:?}");
        assert_eq!(found.iter().filter(|path| path.contains(&name)).count(), 1);
    }

    #[test]
    fn second_names_of_what_was_not_searched_are_hidden() {
        let (_scratch, root) = tree();
        fs::create_dir_all(root.join("x/2/3")).expect("made");
        fs::write(root.join("x/2/3/.env"), "").expect("written");
        fs::hard_link(root.join("x/2/3/.env"), root.join("seen")).expect("linked");
        let found =
            search(&root, SearchBounds { depth: 2, ..SearchBounds::default() }).expect("ends");
        assert!(found.contains(&"/seen".to_owned()), "{found:?}");
    }

    #[test]
    fn a_file_that_is_granted_by_itself_is_hidden_by_its_name() {
        let (_scratch, root) = tree();
        let granted = ["a/b/.env", "a/plain"]
            .map(|name| GrantedDir { access: Access::ReadOnly, path: root.join(name) });
        let hides = |path: &Path| path.file_name().is_some_and(|name| name == ".env");
        let granted = OpenGrant::open_all(&granted).expect("opened");
        let (hidden, _) = find(&granted, &hides, SearchBounds::default()).expect("ends");
        let paths: Vec<_> = hidden.iter().map(|it| it.path.to_bytes().to_vec()).collect();
        assert_eq!(paths, [root.join("a/b/.env").into_os_string().into_encoded_bytes()]);
    }

    /// Searches a tree in which a directory moves to where the search has been, at most `times` times.
    fn search_with_moves(times: u32) -> (Vec<PathBuf>, bool) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(scratch.path()).expect("a path");
        for dir in ["a", "b"] {
            fs::create_dir(root.join(dir)).expect("made");
        }
        fs::create_dir(root.join("b/moved")).expect("made");
        fs::write(root.join("b/moved/.env"), "x").expect("written");
        let (seen, moves) = (Cell::new(0), Cell::new(0));
        let hides = |path: &Path| {
            if path.parent() == Some(&root) {
                seen.set(seen.get() + 1);
                let now = ["a", "b"].map(|dir| root.join(dir).join("moved"));
                let from = now.iter().find(|it| it.exists()).expect("a directory");
                // The second directory of each search is looked at when the first was searched.
                if seen.get() % 2 == 0 && from.starts_with(path) && moves.get() < times {
                    let to = now.iter().find(|it| *it != from).expect("another");
                    fs::rename(from, to).expect("renamed");
                    moves.set(moves.get() + 1);
                }
            }
            path.file_name().is_some_and(|name| name == ".env")
        };
        let dir = GrantedDir { access: Access::ReadWrite, path: root.clone() };
        let dirs = OpenGrant::open_all(&[dir]).expect("opened");
        let (hidden, may_be_incomplete) =
            find(&dirs, &hides, SearchBounds::default()).expect("ends");
        let path = |it: &HiddenPath| {
            let path = Path::new(OsStr::from_bytes(it.path.to_bytes()));
            path.strip_prefix(&root).expect("in the tree").to_owned()
        };
        let found = hidden.iter().map(path).collect();
        (found, may_be_incomplete)
    }

    #[test]
    fn a_directory_that_moves_past_the_search_is_found_by_the_next_one() {
        let (found, may_be_incomplete) = search_with_moves(1);
        assert!(found.len() == 1 && found[0].ends_with("moved/.env"), "{found:?}");
        assert!(!may_be_incomplete);
    }

    #[test]
    fn a_search_reports_that_directories_changed_each_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(dir.path()).expect("a path");
        let hides = |path: &Path| {
            fs::write(root.join("new"), "").expect("written");
            fs::remove_file(root.join("new")).expect("removed");
            path.ends_with(".env")
        };
        fs::write(root.join(".env"), "").expect("written");
        let granted = GrantedDir { access: Access::ReadOnly, path: root.clone() };
        let granted = OpenGrant::open_all(&[granted]).expect("opened");
        let (found, may_be_incomplete) =
            find(&granted, &hides, SearchBounds::default()).expect("ends");
        assert_eq!((found.len(), may_be_incomplete), (1, true));
    }

    #[test]
    fn what_was_granted_is_searched_even_if_something_else_has_its_path() {
        let (_scratch, root) = tree();
        let dir = |name: &str| GrantedDir { access: Access::ReadOnly, path: root.join(name) };
        let granted = OpenGrant::open_all(&[dir("a")]).expect("opened");
        fs::rename(root.join("a"), root.join("away")).expect("renamed");
        fs::create_dir(root.join("a")).expect("made");
        let hides = |path: &Path| path.ends_with(".env");
        let (found, may_be_incomplete) =
            find(&granted, &hides, SearchBounds::default()).expect("ends");
        let paths: Vec<_> = found.iter().map(|it| it.path.to_bytes()).collect();
        assert_eq!(paths, [root.join("a/b/.env").as_os_str().as_bytes()]);
        assert!(may_be_incomplete);
        let secret = [root.join("a/b")];
        assert_eq!(present(&secret, &granted).expect("found").len(), 1);
        assert_eq!(present(&secret, &[]).expect("found").len(), 0);
        let missing = OpenGrant::open_all(&[dir("none")]).err().expect("missing");
        assert!(missing.ends_with("does not exist; make it, or take it out of the grant"));
    }
}
