//! The places of calls that overlap. If one call did not find a name when it began, the name is new
//! for all of them. If one call guards a file, the calls that begin later guard the file too.
//!
//! The calls of this process know each other through memory. For the user's other processes, each
//! call writes its places to a [file](super::call_files). Owns the format of these files.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

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
    /// The files and directories that are read-only.
    guarded: HashSet<PathBuf>,
}

/// The calls of this process that run now.
static RUNNING: Mutex<Vec<Weak<CallPlaces>>> = Mutex::new(Vec::new());

/// A call that runs. Others see its places until this is dropped.
#[derive(Debug)]
pub(super) struct RunningCall {
    _places: Arc<CallPlaces>,
    _file: Option<CallFile>,
}

/// The overlapping calls, seen from a call that begins.
pub(super) struct OverlappingCalls<'a> {
    /// The directory of the calls' files.
    files: Option<&'a Path>,
    opened: Option<CallFiles>,
    of_other_processes: HashMap<OsString, Arc<CallPlaces>>,
    /// The reason why this process and others do not know of each other's calls.
    failed: Option<String>,
}

impl<'a> OverlappingCalls<'a> {
    /// Returns the calls of this process, and those with files in this directory.
    pub(super) fn new(files: Option<&'a Path>) -> Self {
        Self { files, opened: None, of_other_processes: HashMap::new(), failed: None }
    }

    /// Returns the calls that run now, and those that have ended since the first look.
    ///
    /// A caller looks at a place first, and then asks: if a tool made what is there, the tool's call
    /// was among these before the tool started.
    fn look(&mut self) -> Vec<Arc<CallPlaces>> {
        if self.failed.is_none()
            && let Err(error) = self.read_files()
        {
            self.fail(&error);
        }
        let mut running = RUNNING.lock();
        running.retain(|call| call.strong_count() > 0);
        let here = running.iter().filter_map(Weak::upgrade);
        here.chain(self.of_other_processes.values().cloned()).collect()
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
        let calls = self.look();
        if calls.is_empty() {
            return Ok(false);
        }
        let place = (key(dir)?, name.to_owned());
        Ok(calls.iter().any(|call| call.absent.contains(&place)))
    }

    /// Returns those of the names in a directory that were there when each overlapping call began.
    pub(super) fn found_listed(
        &mut self,
        dir: &OwnedFd,
        mut names: HashSet<OsString>,
    ) -> Result<HashSet<OsString>, Errno> {
        let key = key(dir)?;
        for call in self.look() {
            if let Some(listed) = call.listed.get(&key) {
                names.retain(|name| listed.contains(name));
            }
        }
        Ok(names)
    }

    /// Returns what the overlapping calls guard.
    pub(super) fn guarded(&mut self) -> HashSet<PathBuf> {
        self.look().iter().flat_map(|call| call.guarded.iter().cloned()).collect()
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
        RUNNING.lock().push(Arc::downgrade(&places));
        (RunningCall { _places: places, _file: file }, self.failed)
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

    pub(super) fn note_guarded<'a>(&mut self, paths: impl Iterator<Item = &'a Path>) {
        self.guarded.extend(paths.map(Path::to_owned));
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
        for path in &self.guarded {
            line(GUARDED, (0, 0), path.as_os_str());
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
                GUARDED => drop(places.guarded.insert(name.into())),
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
const GUARDED: u8 = b'g';

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
            guarded: [PathBuf::from(odd), "/w/.git/hooks".into()].into(),
        };
        assert_eq!(CallPlaces::decode(&places.encode()), Some(places));
        let none = CallPlaces::default();
        assert_eq!(CallPlaces::decode(&none.encode()), Some(none));
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
