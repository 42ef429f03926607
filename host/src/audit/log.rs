//! The log file, to which many hosts may append records at once.
//!
//! Every append locks the file that it found under the log's name. So a rotation happens between
//! two lines, and a host can end a line that a killed host left unfinished. File systems don't
//! append whole lines atomically: a write ends early when its process is killed. Appends don't
//! sync: a line survives the host, but perhaps not a power failure.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, FlockOperation};
use rustix::io::Errno;

use crate::paths;

/// The log's name in its directory. Older records are in `audit.jsonl.1`, and the oldest ones in
/// the files with higher numbers.
pub const NAME: &str = "audit.jsonl";

/// The size at which the log is rotated, in bytes: some ten thousand calls.
pub const ROTATED_AT: u64 = 8 << 20;

/// The number of rotated files that are kept.
pub(super) const ROTATED_KEPT: u32 = 4;

/// The longest wait for the lock. An append takes microseconds, so a process that holds the lock
/// longer is stuck.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// The number of attempts to lock the file under the log's name, which may be replaced before it
/// is locked.
const ATTEMPTS: usize = 16;

/// Returns the name of a file that was rotated `number` times.
pub(super) fn rotated(number: u32) -> String {
    format!("{NAME}.{number}")
}

/// The log that one host writes.
pub(super) struct Log {
    dir: PathBuf,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    open: Option<LogFile>,
    /// True after waiting for the lock timed out, until the lock is free again. In that time no
    /// append waits for it.
    stuck: bool,
}

/// The file that was under the log's name when it was opened.
struct LogFile {
    dir: OwnedFd,
    file: File,
    id: (u64, u64),
    /// The size after the last write of this host. If the size differs, another process has
    /// written, and may have been killed in the middle of a line.
    ended_at: Option<u64>,
}

impl Log {
    /// Returns the log in `dir`, which the first append creates.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, state: Mutex::default() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// Appends one line, which ends in its newline. The line is in the file when this returns.
    pub(super) fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        for _ in 0..ATTEMPTS {
            let mut open = match state.open.take() {
                Some(open) => open,
                None => LogFile::in_dir(&self.dir)?,
            };
            let timeout = if state.stuck { Duration::ZERO } else { LOCK_TIMEOUT };
            let locked = paths::lock(&open.file, timeout)?;
            state.stuck = !locked;
            if !locked {
                self.warn_stuck();
            }
            let done = self.append_to(&mut open, line, locked);
            if locked {
                // Closing the file would not release the lock: a process that is being spawned may
                // hold a copy of the descriptor.
                rustix::fs::flock(&open.file, FlockOperation::Unlock)?;
            }
            if let Some(written) = done {
                state.open = Some(open);
                return written;
            }
        }
        Err(io::Error::other("it is replaced again and again"))
    }

    /// Appends a line to a file. Returns `None` if the log's name now belongs to another file.
    fn append_to(&self, open: &mut LogFile, line: &[u8], locked: bool) -> Option<io::Result<()>> {
        let size = open.current_size()?;
        if locked && size > 0 && size + line.len() as u64 > ROTATED_AT {
            match rotate(&open.dir) {
                Ok(()) => return None,
                // A log that keeps growing is better than a missing log.
                Err(error) => self.warn_unrotated(&error),
            }
        }
        let is_torn = open.ended_at != Some(size) && !ends_a_line(&open.file, size);
        let line = if is_torn { Cow::Owned([b"\n", line].concat()) } else { line.into() };
        let written = write(&open.file, &line, size, locked);
        open.ended_at = written.is_ok().then_some(size + line.len() as u64);
        Some(written)
    }

    fn warn_stuck(&self) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::warn!(
                "the audit log `{}` is locked by another process; it is written to without the \
                 lock, and not rotated",
                self.path().display()
            );
        });
    }

    fn warn_unrotated(&self, error: &io::Error) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let path = self.path();
            tracing::warn!(
                "the audit log `{}` cannot be rotated, and grows: {error}",
                path.display()
            );
        });
    }
}

impl LogFile {
    fn in_dir(path: &Path) -> io::Result<Self> {
        let (dir, file) = paths::open_private(path, NAME)?;
        let metadata = file.metadata()?;
        Ok(Self { dir, file, id: (metadata.dev(), metadata.ino()), ended_at: None })
    }

    /// Returns the size of the log, or `None` if the log's name now belongs to another file.
    fn current_size(&self) -> Option<u64> {
        let found = rustix::fs::statat(&self.dir, NAME, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        // The type is unsigned, except on some 32-bit platforms.
        let size = u64::try_from(found.st_size).ok()?;
        ((found.st_dev, found.st_ino) == self.id).then_some(size)
    }
}

/// Appends a line in one write, so that no reader and no other writer sees a part of it. If only a
/// part was written, removes that part.
fn write(file: &File, line: &[u8], size: u64, locked: bool) -> io::Result<()> {
    let written = loop {
        match rustix::io::write(file, line) {
            Err(Errno::INTR) => {}
            written => break written?,
        }
    };
    if written == line.len() {
        return Ok(());
    }
    // Without the lock another host may have appended more.
    if locked && file.metadata()?.len() == size + written as u64 {
        file.set_len(size)?;
    }
    Err(Errno::NOSPC.into())
}

fn ends_a_line(file: &File, size: u64) -> bool {
    let Some(last) = size.checked_sub(1) else { return true };
    let mut byte = [0];
    // A file that cannot be read gets an empty line, which readers ignore.
    file.read_exact_at(&mut byte, last).is_ok() && byte == *b"\n"
}

/// Renames the log and the older files, and replaces the oldest. The caller holds the lock of the
/// log, whose name is free afterwards.
fn rotate(dir: &OwnedFd) -> io::Result<()> {
    let exists =
        |number| rustix::fs::statat(dir, rotated(number), AtFlags::SYMLINK_NOFOLLOW).is_ok();
    // A host that was killed during a rotation left a gap. Files behind the gap need not move.
    let free = (1..=ROTATED_KEPT).find(|number| !exists(*number)).unwrap_or(ROTATED_KEPT);
    for number in (1..free).rev() {
        rustix::fs::renameat(dir, rotated(number), dir, rotated(number + 1))?;
    }
    rustix::fs::renameat(dir, NAME, dir, rotated(1))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::thread;
    use std::time::Instant;

    use rustix::fs::Mode;

    use super::*;

    fn log() -> (tempfile::TempDir, Log) {
        let scratch = tempfile::tempdir().expect("a directory");
        let log = Log::new(scratch.path().join("state/ikigai"));
        (scratch, log)
    }

    fn names(log: &Log) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&log.dir)
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn lines_are_appended_to_a_file_that_is_private() {
        let (_scratch, log) = log();
        for line in ["one\n", "two\n"] {
            log.append(line.as_bytes()).expect("appended");
        }
        assert_eq!(fs::read_to_string(log.path()).expect("read"), "one\ntwo\n");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&log.path()), mode(&log.dir)), (0o600, 0o700));
    }

    #[test]
    fn a_line_that_another_host_left_unfinished_is_ended_first() {
        let (_scratch, log) = log();
        fs::create_dir_all(&log.dir).expect("made");
        fs::write(log.path(), "torn").expect("written");
        log.append(b"one\n").expect("appended");
        log.append(b"two\n").expect("appended");
        assert_eq!(fs::read_to_string(log.path()).expect("read"), "torn\none\ntwo\n");
        // Even if this host wrote the previous line.
        let mut other = File::options().append(true).open(log.path()).expect("opened");
        other.write_all(b"whole\n").expect("written");
        log.append(b"three\n").expect("appended");
        other.write_all(b"torn").expect("written");
        log.append(b"four\n").expect("appended");
        let text = fs::read_to_string(log.path()).expect("read");
        assert_eq!(text, "torn\none\ntwo\nwhole\nthree\ntorn\nfour\n");
    }

    #[test]
    fn lines_of_several_threads_are_all_there_and_whole() {
        let (_scratch, log) = log();
        thread::scope(|scope| {
            for number in 0..8 {
                let log = &log;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let line = format!("{number}{number}{number}\n");
                        log.append(line.as_bytes()).expect("appended");
                    }
                });
            }
        });
        let text = fs::read_to_string(log.path()).expect("read");
        for number in 0..8 {
            let line = format!("{number}{number}{number}");
            assert_eq!(text.lines().filter(|it| *it == line).count(), 50);
        }
        assert_eq!(text.lines().count(), 400);
    }

    #[test]
    fn a_line_that_cannot_be_appended_is_an_error_and_a_later_one_is_appended() {
        let (_scratch, log) = log();
        fs::create_dir_all(log.path()).expect("something else in its place");
        log.append(b"line\n").expect_err("a directory");
        fs::remove_dir(log.path()).expect("removed");
        log.append(b"later\n").expect("appended");
        assert_eq!(fs::read_to_string(log.path()).expect("read"), "later\n");
    }

    #[test]
    fn a_full_log_is_rotated_and_the_oldest_file_goes() {
        let (_scratch, log) = log();
        let full = |number: u32| {
            let mut text = format!("{number}\n");
            text.push_str(&"x".repeat(ROTATED_AT as usize - text.len() - 1));
            text + "\n"
        };
        for number in 0..=ROTATED_KEPT + 1 {
            log.append(full(number).as_bytes()).expect("appended");
        }
        let first = |name: String| {
            let text = fs::read_to_string(log.dir.join(name)).expect("read");
            text.lines().next().map(str::to_owned)
        };
        let names_now = names(&log);
        assert_eq!(names_now.len() as u32, ROTATED_KEPT + 1, "{names_now:?}");
        assert_eq!(first(NAME.to_owned()), Some((ROTATED_KEPT + 1).to_string()));
        for number in 1..=ROTATED_KEPT {
            assert_eq!(first(rotated(number)), Some((ROTATED_KEPT + 1 - number).to_string()));
        }
        // Half-way: `.1` has become `.2`, and `.1` is missing.
        fs::remove_file(log.dir.join(rotated(1))).expect("removed");
        let kept = first(rotated(ROTATED_KEPT));
        log.append(b"next\n").expect("appended");
        assert_eq!(first(rotated(ROTATED_KEPT)), kept, "what is behind the gap stays");
        assert_eq!(first(NAME.to_owned()).as_deref(), Some("next"));
    }

    #[test]
    fn a_log_that_was_moved_or_taken_away_begins_anew() {
        let (_scratch, log) = log();
        log.append(b"one\n").expect("appended");
        fs::rename(log.path(), log.dir.join("elsewhere")).expect("moved");
        log.append(b"two\n").expect("appended");
        assert_eq!(fs::read_to_string(log.path()).expect("read"), "two\n");
        fs::remove_dir_all(&log.dir).expect("removed");
        log.append(b"three\n").expect("appended");
        assert_eq!(fs::read_to_string(log.path()).expect("read"), "three\n");
    }

    #[test]
    fn a_lock_that_is_never_given_back_holds_nobody() {
        let (_scratch, log) = log();
        log.append(b"one\n").expect("appended");
        let holder = File::open(log.path()).expect("opened");
        rustix::fs::flock(&holder, FlockOperation::LockExclusive).expect("locked");
        let begun = Instant::now();
        for _ in 0..200 {
            log.append(b"two\n").expect("appended");
        }
        // If each append waited, this would take 50 s.
        assert!(begun.elapsed() < LOCK_TIMEOUT * 100, "{:?}", begun.elapsed());
        assert!(log.state.lock().stuck);
        drop(holder);
        log.append(b"three\n").expect("appended");
        assert!(!log.state.lock().stuck);
        assert_eq!(fs::read_to_string(log.path()).expect("read").lines().count(), 202);
    }

    #[test]
    fn what_is_no_file_of_our_own_is_refused() {
        for (make, expected) in [
            (
                &(|path: &Path| std::os::unix::fs::symlink("/dev/null", path))
                    as &dyn Fn(&Path) -> _,
                "a link",
            ),
            (
                &|path: &Path| {
                    let mode = Mode::RUSR | Mode::WUSR;
                    Ok(rustix::fs::mknodat(
                        rustix::fs::CWD,
                        path,
                        rustix::fs::FileType::Fifo,
                        mode,
                        0,
                    )?)
                },
                "not a regular file",
            ),
            (&|path: &Path| fs::create_dir(path), "directory"),
            (
                &|path: &Path| {
                    fs::write(path, "")?;
                    fs::set_permissions(path, fs::Permissions::from_mode(0o622))
                },
                "another user",
            ),
        ] {
            let (_scratch, log) = log();
            fs::create_dir_all(&log.dir).expect("made");
            make(&log.path()).expect("made");
            let error = log.append(b"line\n").expect_err("refused").to_string();
            assert!(error.to_lowercase().contains(expected), "{error}");
        }
        let (scratch, log) = log();
        fs::create_dir_all(&log.dir).expect("made");
        fs::set_permissions(&log.dir, fs::Permissions::from_mode(0o777)).expect("permitted");
        let error = log.append(b"line\n").expect_err("refused").to_string();
        assert!(error.contains("another user"), "{error}");
        drop(scratch);
    }

    #[test]
    fn a_device_that_is_full_is_an_error_and_a_part_of_a_line_is_taken_back() {
        let full = File::options().write(true).open("/dev/full").expect("opened");
        let error = write(&full, b"line\n", 0, true).expect_err("full");
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    }
}
