//! The search for the files of a grant that a native tool does not see.
//!
//! The supervisor hides what exists when a call begins: this finds it. Owns the bounds of the
//! search. What cannot be searched is hidden as a whole, and a call whose search does not end in
//! time is refused. Follows no link, and leaves out the file systems that the supervisor covers.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ikigai_protocol::GrantedDir;
use ikigai_supervisor::filesystems::is_ordinary;
use ikigai_supervisor::plan::{Found, Hidden};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use crate::exec::Call;
use crate::policy::Sandbox;

/// The files that a tool does not see, each with its identity.
#[derive(Default)]
pub(super) struct Unseen {
    /// Those that are hidden in what was granted.
    pub(super) hidden: Vec<Hidden>,
    /// Set for a permissive recording, which shows the machine: those that it does not show.
    pub(super) machine: Option<Vec<Hidden>>,
}

/// Finds the files that the tool of a call does not see. An unconfined tool has all rights of its
/// user, and nothing is hidden from it.
pub(super) async fn of(call: &Call) -> Result<Unseen, String> {
    let recorded = call.widening.clone().filter(|widening| widening.is_permissive());
    let hides = !call.grant.hide.is_empty();
    if !hides && recorded.is_none() || call.grant.sandbox == Sandbox::Off {
        return Ok(Unseen::default());
    }
    let grant = call.grant.clone();
    let search = tokio::task::spawn_blocking(move || {
        let hidden = match hides {
            true => find(&grant.dirs, &|path| grant.hides(path), Bounds::default())?,
            false => Vec::new(),
        };
        let machine = recorded.map(|it| present(&it.kept_from_recordings())).transpose()?;
        Ok(Unseen { hidden, machine })
    });
    let found = search.await.unwrap_or_else(|error| Err(error.to_string()));
    found.map_err(|reason| format!("the files that are hidden from the tool are unknown: {reason}"))
}

/// The bounds of a search.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The number of files and directories that are looked at.
    pub(super) entries: usize,
    /// The number of those that are hidden: each is a mount.
    pub(super) hidden: usize,
    /// The depth of a directory. One descriptor is open for each.
    pub(super) depth: usize,
    /// The time that it takes.
    pub(super) time: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { entries: 1_000_000, hidden: 4096, depth: 128, time: Duration::from_secs(10) }
    }
}

/// Finds what `hides` names in the granted directories, by its absolute path, with every other name of
/// such a file.
///
/// # Errors
///
/// The reason why the search did not end, for a person.
pub(super) fn find(
    dirs: &[GrantedDir],
    hides: &dyn Fn(&Path) -> bool,
    bounds: Bounds,
) -> Result<Vec<Hidden>, String> {
    let until = Instant::now() + bounds.time;
    let mut search = Search { bounds, until, ..Search::new(Wanted::Names(hides)) };
    search.all(dirs)?;
    if !search.linked.is_empty() {
        let Search { linked, found, looked, .. } = search;
        search = Search { bounds, until, looked, found, ..Search::new(Wanted::Files(linked)) };
        search.all(dirs)?;
    }
    outermost(&search.found)
}

/// Returns those of `places` that are there. They have no links in them.
fn present(places: &[PathBuf]) -> Result<Vec<Hidden>, String> {
    let mut found = BTreeMap::new();
    for path in places {
        match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => drop(found.insert(path.clone(), identity(&stat))),
            // What this user cannot find, the tool cannot.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(errno) => return Err(format!("`{}`: {errno}", path.display())),
        }
    }
    outermost(&found)
}

/// Returns what lies in nothing else that was found.
fn outermost(found: &BTreeMap<PathBuf, Found>) -> Result<Vec<Hidden>, String> {
    let is_outermost =
        |path: &PathBuf| !path.ancestors().skip(1).any(|above| found.contains_key(above));
    let outer = found.iter().filter(|(path, _)| is_outermost(path));
    let hidden = outer.map(|(path, found)| {
        let path = CString::new(path.as_os_str().as_bytes());
        path.map(|path| Hidden { path, found: *found })
            .map_err(|_| "a hidden path contains a NUL".to_owned())
    });
    hidden.collect()
}

fn identity(stat: &Stat) -> Found {
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Found { directory, device: stat.st_dev, inode: stat.st_ino }
}

/// The files that a search looks for.
enum Wanted<'a> {
    /// Those with a hidden name.
    Names(&'a dyn Fn(&Path) -> bool),
    /// These files, by device and number, whatever their names.
    Files(HashSet<(u64, u64)>),
}

struct Search<'a> {
    wanted: Wanted<'a>,
    bounds: Bounds,
    until: Instant,
    looked: usize,
    found: BTreeMap<PathBuf, Found>,
    /// The hidden files with more than one name, by device and number.
    linked: HashSet<(u64, u64)>,
}

impl<'a> Search<'a> {
    fn new(wanted: Wanted<'a>) -> Self {
        Self {
            wanted,
            bounds: Bounds::default(),
            until: Instant::now(),
            looked: 0,
            found: BTreeMap::new(),
            linked: HashSet::new(),
        }
    }

    fn all(&mut self, dirs: &[GrantedDir]) -> Result<(), String> {
        dirs.iter().try_for_each(|dir| self.granted(&dir.path))
    }

    /// Searches a granted directory, or looks at a granted file.
    fn granted(&mut self, path: &Path) -> Result<(), String> {
        let failed = |errno: Errno| format!("`{}` cannot be searched: {errno}", path.display());
        let stat = match statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
            // The supervisor refuses the grant, and says why.
            Err(Errno::NOENT) => return Ok(()),
            stat => stat.map_err(failed)?,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return self.entry(path.to_owned(), false, Ok(stat)).map(drop);
        }
        match open(CWD, path.as_os_str()) {
            Ok(directory) => self.directory(&directory, path, false, 0),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Searches an open directory at `path`.
    fn directory(
        &mut self,
        directory: &OwnedFd,
        path: &Path,
        hidden: bool,
        depth: usize,
    ) -> Result<(), String> {
        // The supervisor covers it, or refuses it as a grant.
        if !is_ordinary(directory).unwrap_or(false) {
            return Ok(());
        }
        let failed = |errno: Errno| format!("`{}` cannot be searched: {errno}", path.display());
        for entry in Dir::read_from(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
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
                (Wanted::Names(hides), _) => (hidden || hides(&path)).then(stat),
                (Wanted::Files(_), FileType::RegularFile) => Some(stat()),
                (Wanted::Files(_), _) => None,
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
            if kind == FileType::Directory {
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
    ) -> Result<(), String> {
        if depth > self.bounds.depth {
            return Err(format!("`{}` lies too deep", path.display()));
        }
        match open(parent, name) {
            Ok(directory) => self.directory(&directory, path, hidden, depth),
            // Renamed or replaced meanwhile: the supervisor checks what it hides.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
            // Its files can be opened by their names, if somebody knows these.
            Err(Errno::ACCESS | Errno::PERM) => {
                let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.map_err(|errno| format!("`{}`: {errno}", path.display()))?;
                self.hide(path.to_owned(), &stat)
            }
            Err(errno) => Err(format!("`{}` cannot be searched: {errno}", path.display())),
        }
    }

    /// Hides an entry if it is looked for, or is `within` a hidden directory. Returns whether it is
    /// hidden.
    fn entry(
        &mut self,
        path: PathBuf,
        within: bool,
        stat: Result<Stat, Errno>,
    ) -> Result<bool, String> {
        let stat = stat.map_err(|errno| format!("`{}`: {errno}", path.display()))?;
        let file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let identity = (stat.st_dev, stat.st_ino);
        let hidden = match &self.wanted {
            Wanted::Names(hides) => within || hides(&path),
            Wanted::Files(files) => file && files.contains(&identity),
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

    fn hide(&mut self, path: PathBuf, stat: &Stat) -> Result<(), String> {
        self.found.insert(path, identity(stat));
        if self.found.len() > self.bounds.hidden {
            return Err(format!(
                "more than {} files are hidden; hide their directories instead",
                self.bounds.hidden
            ));
        }
        Ok(())
    }

    fn count(&mut self, path: &Path) -> Result<(), String> {
        self.looked += 1;
        if self.looked > self.bounds.entries {
            return Err(format!(
                "the granted directories have more than {} files, the last one looked at in `{}`",
                self.bounds.entries,
                path.display()
            ));
        }
        if self.looked.is_multiple_of(1024) && Instant::now() > self.until {
            return Err(format!(
                "the search of the granted directories took more than {} seconds, up to `{}`",
                self.bounds.time.as_secs(),
                path.display()
            ));
        }
        Ok(())
    }
}

/// Opens a directory to list it, and follows no link at the end.
fn open(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
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

    fn search(root: &Path, bounds: Bounds) -> Result<Vec<String>, String> {
        let hides = |path: &Path| {
            path.file_name().is_some_and(|name| name == ".env") || path == root.join("secret")
        };
        let dir = GrantedDir { access: Access::ReadWrite, path: root.to_owned() };
        let hidden = find(&[dir], &hides, bounds)?;
        let name = |it: &Hidden| {
            let path = it.path.to_str().expect("UTF-8").to_owned();
            path.trim_start_matches(root.to_str().expect("UTF-8")).to_owned()
        };
        Ok(hidden.iter().map(name).collect())
    }

    #[test]
    fn every_name_of_a_hidden_file_is_found() {
        let (_scratch, root) = tree();
        let found = search(&root, Bounds::default()).expect("ends");
        // The other names of a file in a hidden directory, too, and nothing by way of a link.
        assert_eq!(found, ["/.env", "/a/b/.env", "/a/other", "/out/key", "/secret"]);
    }

    #[test]
    fn places_of_the_machine_are_found_where_they_are() {
        let (_scratch, root) = tree();
        let places = ["out", "a/b", "a/b/.env", "a/plain/x", "gone"].map(|name| root.join(name));
        let found = present(&places).expect("found");
        let paths: Vec<_> = found.iter().map(|it| it.path.to_str().expect("UTF-8")).collect();
        assert_eq!(paths, [&places[1], &places[0]].map(|path| path.to_str().expect("UTF-8")));
    }

    #[test]
    fn a_search_that_does_not_end_is_refused() {
        let (_scratch, root) = tree();
        let bounds = Bounds::default();
        for (bounds, expected) in [
            (Bounds { entries: 5, ..bounds }, "more than 5 files,"),
            (Bounds { hidden: 2, ..bounds }, "more than 2 files are hidden"),
            (Bounds { depth: 1, ..bounds }, "too deep"),
        ] {
            let reason = search(&root, bounds).expect_err("refused");
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn a_file_that_is_granted_by_itself_is_hidden_by_its_name() {
        let (_scratch, root) = tree();
        let granted = ["a/b/.env", "a/plain"]
            .map(|name| GrantedDir { access: Access::ReadOnly, path: root.join(name) });
        let hides = |path: &Path| path.file_name().is_some_and(|name| name == ".env");
        let hidden = find(&granted, &hides, Bounds::default()).expect("ends");
        let paths: Vec<_> = hidden.iter().map(|it| it.path.to_bytes().to_vec()).collect();
        assert_eq!(paths, [root.join("a/b/.env").into_os_string().into_encoded_bytes()]);
    }
}
