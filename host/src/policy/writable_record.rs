//! The record of the directories in which tools were allowed to write, in any workspace. Files in
//! them are not trusted as part of an unconfined tool.
//!
//! The record is a file with one path per line, because another host may later find such a
//! directory on a `PATH`. A host reads the file on first use, and again after another host has
//! added to it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use ikigai_protocol::{Access, GrantedDir};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::paths;

/// The name of the file in the state directory.
const NAME: &str = "writable";

/// The name of the shorter file while it is being written. The file that it will replace is locked.
const SHORTENED: &str = "writable.new";

/// The number of lines beyond which adding a directory also removes the directories that no longer
/// exist.
const MANY: usize = 1000;

/// The longest wait for the lock. A process holds it for microseconds, unless the process is stuck.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// The number of attempts to open the file, which another host may replace in the meantime.
const ATTEMPTS: usize = 16;

/// A set of canonical directories.
pub(super) type Dirs = HashSet<PathBuf>;

/// The record, as known to one host.
#[derive(Debug)]
pub(super) struct WritableRecord {
    /// The directory of the file; `None` if no record is kept.
    dir: Option<PathBuf>,
    known: Mutex<RecordCache>,
}

#[derive(Debug, Default)]
struct RecordCache {
    dirs: Arc<Dirs>,
    /// The identity of the file at the last read.
    read: Option<RecordStamp>,
}

/// The metadata that change with the file. The file is only appended to or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordStamp {
    file: Option<(u64, u64)>,
    size: u64,
}

impl WritableRecord {
    /// Returns the record in `dir`, which the first entry creates.
    pub(super) fn new(dir: Option<PathBuf>) -> Self {
        Self { dir, known: Mutex::default() }
    }

    /// Returns every directory in which this host and others let tools write.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be read. The text is the reason.
    pub(super) fn dirs(&self) -> Result<Arc<Dirs>, String> {
        let mut known = self.known.lock();
        self.refresh(&mut known).map_err(|error| self.format_error(&error))?;
        Ok(Arc::clone(&known.dirs))
    }

    /// Records the writable directories among these.
    ///
    /// # Errors
    ///
    /// Fails if the disk is full: then a tool must not write in a new directory, because it could
    /// have filled the disk to prevent the record. If the record cannot be written for another
    /// reason, that is logged once.
    pub(super) fn record(&self, dirs: &[GrantedDir]) -> Result<(), String> {
        let mut known = self.known.lock();
        let fresh = |known: &RecordCache| -> Vec<PathBuf> {
            let written = dirs.iter().filter(|dir| dir.access == Access::ReadWrite);
            let fresh = written.filter(|dir| !known.dirs.contains(&dir.path));
            fresh.map(|dir| dir.path.clone()).collect()
        };
        if fresh(&known).is_empty() {
            return Ok(());
        }
        let looked = self.refresh(&mut known);
        let fresh = fresh(&known);
        if fresh.is_empty() {
            return Ok(());
        }
        let kept = looked.and_then(|()| self.append(&fresh));
        if let Err(error) = &kept
            && matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            return Err(self.format_error(error));
        }
        Arc::make_mut(&mut known.dirs).extend(fresh);
        kept.unwrap_or_else(|error| self.log_unkept(&error));
        Ok(())
    }

    /// Reads the file if it changed.
    fn refresh(&self, known: &mut RecordCache) -> io::Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let path = dir.join(NAME);
        let identity = match fs::symlink_metadata(&path) {
            Ok(found) => RecordStamp { file: Some((found.dev(), found.ino())), size: found.size() },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                RecordStamp { file: None, size: 0 }
            }
            Err(error) => return Err(error),
        };
        if known.read == Some(identity) {
            return Ok(());
        }
        if identity.file.is_some() {
            // A user who may write to it could remove a directory from the record.
            paths::open_trusted_dir(dir, paths::is_own)?;
            let mut text = Vec::new();
            paths::open_trusted(&path, paths::is_own)?.read_to_end(&mut text)?;
            Arc::make_mut(&mut known.dirs).extend(lines(&text).map(decoded));
        }
        known.read = Some(identity);
        Ok(())
    }

    fn append(&self, dirs: &[PathBuf]) -> io::Result<()> {
        let no_directory =
            || io::Error::new(io::ErrorKind::NotFound, "there is no directory for it");
        let path = self.dir.as_ref().ok_or_else(no_directory)?;
        let added: Vec<u8> = dirs.iter().flat_map(|dir| encoded(dir)).collect();
        for _ in 0..ATTEMPTS {
            let (dir, mut file) = paths::open_private(path, NAME)?;
            if !paths::lock(&file, LOCK_TIMEOUT)? {
                return Err(io::Error::other("it is locked by another process"));
            }
            let (found, opened) =
                (rustix::fs::statat(&dir, NAME, AtFlags::SYMLINK_NOFOLLOW)?, file.metadata()?);
            if (found.st_dev, found.st_ino) != (opened.dev(), opened.ino()) {
                continue;
            }
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            if lines(&text).count() >= MANY {
                return shorten(&dir, &text, &added);
            }
            // A host that was killed in the middle of a line did not let a tool write there.
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            return extend(&file, whole as u64, &added);
        }
        Err(io::Error::other("it is replaced again and again"))
    }

    fn format_error(&self, error: &io::Error) -> String {
        let path = self.dir.as_ref().map(|dir| dir.join(NAME)).unwrap_or_default();
        format!(
            "the record `{}` of directories that tools could write to cannot be kept: {error}",
            path.display()
        )
    }

    fn log_unkept(&self, error: &io::Error) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::warn!(
                "{}; a later run will not know where tools could write in this one",
                self.format_error(error)
            );
        });
    }
}

/// Appends all of `added` after the first `size` bytes, or nothing.
fn extend(file: &File, size: u64, added: &[u8]) -> io::Result<()> {
    file.set_len(size)?;
    let mut rest = added;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                file.set_len(size)?;
                return Err(error.into());
            }
        }
    }
    Ok(())
}

/// Replaces the locked file with a file without the directories that no longer exist.
fn shorten(dir: impl AsFd, text: &[u8], added: &[u8]) -> io::Result<()> {
    let there = |line: &&[u8]| decoded(line).symlink_metadata().is_ok();
    let mut kept: Vec<u8> =
        lines(text).filter(there).flat_map(|line| [line, b"\n"].concat()).collect();
    kept.extend(added);
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(&dir, SHORTENED, flags, Mode::RUSR | Mode::WUSR)?;
    extend(&File::from(new), 0, &kept)?;
    Ok(rustix::fs::renameat(&dir, SHORTENED, &dir, NAME)?)
}

/// Returns every whole line.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

/// Encodes a path as a line, with `\n` for a line break and `\\` for a backslash.
fn encoded(path: &Path) -> Vec<u8> {
    let mut line = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\n' => line.extend(b"\\n"),
            b'\\' => line.extend(b"\\\\"),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line
}

/// Returns the path of a line.
fn decoded(line: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' if bytes.as_slice().first() == Some(&b'n') => b'\n',
            other => *other,
        });
        if *byte == b'\\' {
            bytes.next();
        }
    }
    PathBuf::from(OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn written(path: &str) -> [GrantedDir; 1] {
        [GrantedDir { access: Access::ReadWrite, path: path.into() }]
    }

    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let scratch = tempfile::tempdir().expect("a directory");
        let state = scratch.path().join("state");
        (scratch, state)
    }

    #[test]
    fn every_host_knows_the_directories_of_the_others() {
        let (_scratch, state) = scratch();
        let [one, two] = [(); 2].map(|()| WritableRecord::new(Some(state.clone())));
        assert!(two.dirs().expect("nothing yet").is_empty());
        let odd = "/a line\nbreak\n\\n and \\";
        for path in ["/a", "/a", odd] {
            one.record(&written(path)).expect("kept");
        }
        one.record(&[GrantedDir { access: Access::ReadOnly, path: "/read".into() }])
            .expect("nothing to keep");
        let expected = Dirs::from([PathBuf::from("/a"), odd.into()]);
        for host in [&one, &two, &WritableRecord::new(Some(state.clone()))] {
            assert_eq!(*host.dirs().expect("readable"), expected);
        }
        let file = state.join(NAME);
        assert_eq!(fs::read_to_string(&file).expect("read").lines().count(), 2);
        assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn half_a_line_is_no_directory_and_is_taken_away() {
        let (_scratch, state) = scratch();
        let host = WritableRecord::new(Some(state.clone()));
        host.record(&written("/a")).expect("kept");
        fs::write(state.join(NAME), "/a\n/").expect("written");
        assert_eq!(*host.dirs().expect("readable"), Dirs::from(["/a".into()]));
        host.record(&written("/b")).expect("kept");
        assert_eq!(fs::read_to_string(state.join(NAME)).expect("read"), "/a\n/b\n");
    }

    #[test]
    fn a_long_record_loses_what_is_gone() {
        let (scratch, state) = scratch();
        let there = scratch.path().to_str().expect("UTF-8");
        let host = WritableRecord::new(Some(state.clone()));
        host.record(&written(there)).expect("kept");
        let gone: String = (1..MANY).map(|number| format!("{there}/gone/{number}\n")).collect();
        fs::write(state.join(NAME), format!("{there}\n{gone}")).expect("written");
        host.record(&written("/new")).expect("kept");
        assert_eq!(fs::read_to_string(state.join(NAME)).expect("read"), format!("{there}\n/new\n"));
        let other = WritableRecord::new(Some(state));
        assert_eq!(other.dirs().expect("readable").len(), 2);
    }

    #[test]
    fn a_record_that_others_could_have_written_is_not_believed() {
        let (_scratch, state) = scratch();
        WritableRecord::new(Some(state.clone())).record(&written("/a")).expect("kept");
        fs::set_permissions(state.join(NAME), fs::Permissions::from_mode(0o666))
            .expect("permitted");
        let host = WritableRecord::new(Some(state));
        let error = host.dirs().expect_err("refused");
        assert!(error.contains("another user"), "{error}");
        // The host still remembers the directories of its own calls.
        host.record(&written("/b")).expect("logged once");
    }
}
