//! The places of calls that overlap. If one call did not find a name when it began, the name is new
//! for all of them, and so is the target of a link that led nowhere then.
//!
//! The calls of this process know each other through memory. For the user's other processes, each
//! call writes its places to a [file](super::call_files). Owns the format of these files.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::call_files::{CallFile, CallFiles};

/// The device and the inode of a directory.
type DirKey = (u64, u64);

/// The places of a call when it began.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CallPlaces {
    /// The names that did not exist, by their directory.
    absent: HashSet<(DirKey, OsString)>,
    /// The names in directories to which new names may not be added.
    listed: HashMap<DirKey, Arc<HashSet<OsString>>>,
    /// The links that led nowhere.
    dangling: HashSet<PathBuf>,
}

/// The calls of this process that run now.
static RUNNING: Mutex<Vec<Arc<CallPlaces>>> = Mutex::new(Vec::new());

/// A call that runs. Others see its places until this is dropped.
#[derive(Debug)]
pub(super) struct RunningCall {
    places: Arc<CallPlaces>,
    _file: Option<CallFile>,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        RUNNING.lock().retain(|call| !Arc::ptr_eq(call, &self.places));
    }
}

/// The overlapping calls, seen from a call that begins.
pub(super) struct OverlappingCalls<'a> {
    /// The directory of the calls' files.
    files: Option<&'a Path>,
    opened: Option<CallFiles>,
    of_this_process: Vec<Arc<CallPlaces>>,
    of_other_processes: HashMap<OsString, Arc<CallPlaces>>,
    /// The reason why this process and others do not know of each other's calls.
    failed: Option<String>,
}

impl<'a> OverlappingCalls<'a> {
    /// Returns the calls of this process, and those with files in this directory.
    pub(super) fn new(files: Option<&'a Path>) -> Self {
        let mut overlapping = Self {
            files,
            opened: None,
            of_this_process: Vec::new(),
            of_other_processes: HashMap::new(),
            failed: None,
        };
        overlapping.look();
        overlapping
    }

    /// Looks for calls that run now. Those that end later stay known.
    ///
    /// A caller looks at a place first, and then calls this: if a tool made what is there, the tool's
    /// call was among these before the tool started.
    fn look(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.read_files()
        {
            self.fail(&error);
        }
        for call in &*RUNNING.lock() {
            if !self.of_this_process.iter().any(|known| Arc::ptr_eq(known, call)) {
                self.of_this_process.push(Arc::clone(call));
            }
        }
    }

    fn known(&self) -> impl Iterator<Item = &Arc<CallPlaces>> {
        self.of_this_process.iter().chain(self.of_other_processes.values())
    }

    fn read_files(&mut self) -> io::Result<()> {
        let Some(dir) = self.files else { return Ok(()) };
        let files = match &mut self.opened {
            Some(files) => files,
            none => none.insert(CallFiles::open(dir)?),
        };
        for (name, content) in
            files.read_others(|name| self.of_other_processes.contains_key(name))?
        {
            if content.first() != Some(&VERSION) {
                return Err(io::Error::other("another version of ikigai runs a tool"));
            }
            // If the rest is not written yet, the tool has not started.
            if let Some(places) = CallPlaces::decode(&content) {
                self.of_other_processes.insert(name, Arc::new(places));
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        let dir = self.files.unwrap_or(Path::new("")).display();
        self.failed = Some(format!("`{dir}`, in which running calls are noted: {error}"));
    }

    /// Returns whether a name was absent when an overlapping call began.
    pub(super) fn found_absent(&mut self, dir: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
        self.look();
        if self.known().next().is_none() {
            return Ok(false);
        }
        let place = (key(dir)?, name.to_owned());
        Ok(self.known().any(|call| call.absent.contains(&place)))
    }

    /// Returns whether a link led nowhere when an overlapping call began.
    pub(super) fn found_dangling(&mut self, link: &Path) -> bool {
        self.look();
        self.known().any(|call| call.dangling.contains(link))
    }

    /// Returns those of the names in a directory that were there when each overlapping call began.
    pub(super) fn found_listed(
        &mut self,
        dir: &OwnedFd,
        mut names: HashSet<OsString>,
    ) -> Result<HashSet<OsString>, Errno> {
        let key = key(dir)?;
        self.look();
        for call in self.known() {
            if let Some(listed) = call.listed.get(&key) {
                names.retain(|name| listed.contains(name));
            }
        }
        Ok(names)
    }

    /// Shows the places of this call to the calls that begin from now on. Also returns the reason if
    /// other processes cannot see them, or this process cannot see theirs.
    pub(super) fn begin(mut self, places: CallPlaces) -> (RunningCall, Option<String>) {
        let file = match &self.opened {
            Some(files) => files.write(&places.encode()).map(Some),
            None => Ok(None),
        };
        let file = file.unwrap_or_else(|error| {
            self.fail(&error);
            None
        });
        let places = Arc::new(places);
        RUNNING.lock().push(Arc::clone(&places));
        (RunningCall { places, _file: file }, self.failed)
    }
}

impl CallPlaces {
    pub(super) fn note_absent(&mut self, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        self.absent.insert((key(dir)?, name.to_owned()));
        Ok(())
    }

    pub(super) fn note_listed(
        &mut self,
        dir: &OwnedFd,
        names: &Arc<HashSet<OsString>>,
    ) -> Result<(), Errno> {
        self.listed.insert(key(dir)?, Arc::clone(names));
        Ok(())
    }

    pub(super) fn note_dangling(&mut self, link: &Path) {
        self.dangling.insert(link.to_owned());
    }

    /// Returns the content of a file. Each line ends with a NUL, since no name has one, and so does
    /// the whole.
    fn encode(&self) -> Vec<u8> {
        let mut text = vec![VERSION];
        let mut line = |kind: u8, (device, inode): DirKey, name: &OsStr| {
            text.extend_from_slice(format!("{}{device} {inode} ", char::from(kind)).as_bytes());
            text.extend_from_slice(name.as_bytes());
            text.push(0);
        };
        for (dir, name) in &self.absent {
            line(ABSENT, *dir, name);
        }
        for (dir, names) in &self.listed {
            line(LISTED, *dir, OsStr::new(""));
            names.iter().for_each(|name| line(LISTED, *dir, name));
        }
        for link in &self.dangling {
            line(DANGLING, (0, 0), link.as_os_str());
        }
        text.push(0);
        text
    }

    /// Returns the places in the content of a file, or nothing if the content is not complete.
    fn decode(text: &[u8]) -> Option<Self> {
        let lines = text.strip_prefix(&[VERSION])?.strip_suffix(&[0])?;
        let mut listed: HashMap<DirKey, HashSet<OsString>> = HashMap::new();
        let mut places = Self::default();
        for line in lines.split_inclusive(|byte| *byte == 0) {
            let (kind, line) = line.strip_suffix(&[0])?.split_first()?;
            let mut parts = line.splitn(3, |byte| *byte == b' ');
            let mut number = || str::from_utf8(parts.next()?).ok()?.parse().ok();
            let dir = (number()?, number()?);
            let name = OsStr::from_bytes(parts.next()?).to_owned();
            match *kind {
                ABSENT => drop(places.absent.insert((dir, name))),
                LISTED => {
                    let names = listed.entry(dir).or_default();
                    if !name.is_empty() {
                        names.insert(name);
                    }
                }
                DANGLING => drop(places.dangling.insert(name.into())),
                _ => return None,
            }
        }
        places.listed = listed.into_iter().map(|(dir, names)| (dir, Arc::new(names))).collect();
        Some(places)
    }
}

/// The first byte of a file.
const VERSION: u8 = b'1';

// The first byte of a line: what it names.
const ABSENT: u8 = b'a';
const LISTED: u8 = b'l';
const DANGLING: u8 = b'd';

fn key(dir: &OwnedFd) -> Result<DirKey, Errno> {
    let stat = fstat(dir)?;
    Ok((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_read_the_places_that_a_call_wrote() {
        let odd = OsStr::from_bytes(b"a b\xff\n");
        let names: HashSet<OsString> = [odd.to_owned(), "x".into()].into();
        let places = CallPlaces {
            absent: [((1, u64::MAX), odd.to_owned()), ((0, 0), ".envrc".into())].into(),
            listed: [((1, 2), Arc::new(names)), ((3, 4), Arc::default())].into(),
            dangling: [PathBuf::from(odd), "/w/.vscode".into()].into(),
        };
        assert_eq!(CallPlaces::decode(&places.encode()), Some(places));
        let none = CallPlaces::default();
        assert_eq!(CallPlaces::decode(&none.encode()), Some(none));
    }

    #[test]
    fn a_call_that_ends_during_a_search_stays_known_to_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = OwnedFd::from(std::fs::File::open(dir.path()).expect("opened"));
        let mut places = CallPlaces::default();
        places.note_absent(&dir, OsStr::new(".envrc")).expect("noted");
        let (running, _) = OverlappingCalls::new(None).begin(places);
        let mut search = OverlappingCalls::new(None);
        drop(running);
        assert_eq!(search.found_absent(&dir, OsStr::new(".envrc")), Ok(true));
        let mut later = OverlappingCalls::new(None);
        assert_eq!(later.found_absent(&dir, OsStr::new(".envrc")), Ok(false));
    }

    #[test]
    fn a_file_that_is_not_written_to_its_end_has_no_places() {
        let mut places = CallPlaces::default();
        places.absent.insert(((1, 2), ".envrc".into()));
        let text = places.encode();
        for length in 0..text.len() {
            assert_eq!(CallPlaces::decode(&text[..length]), None, "{length}");
        }
    }
}
