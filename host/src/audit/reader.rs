//! The reader of the log. It may read while hosts append to the log and rotate it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::log::{NAME, ROTATED_KEPT, rotated};
use super::record::Record;
use crate::paths;

/// The longest line that is read, in bytes. Hosts never write longer lines.
const LONGEST: usize = 1 << 20;

/// The number of times that an unfinished last line is read, because a host may be writing it.
const UNFINISHED_TRIES: usize = 5;

/// The pause between two such reads.
const UNFINISHED_PAUSE: Duration = Duration::from_millis(10);

/// A record, and its line without the newline.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// The record.
    pub record: Record,
    /// The line as it was written.
    pub text: Vec<u8>,
}

/// The lines from one read, oldest first.
#[derive(Debug, Default)]
pub struct Batch {
    /// The lines that are valid records.
    pub lines: Vec<LogLine>,
    /// The number of lines that are not valid records.
    pub damaged: u64,
}

impl Batch {
    fn take(&mut self, text: Vec<u8>) {
        match serde_json::from_slice(&text) {
            Ok(record) => self.lines.push(LogLine { record, text }),
            Err(_) if text.is_empty() => {}
            Err(_) => self.damaged += 1,
        }
    }
}

/// Reads the log: backwards from its newest file, or forwards as it grows. See the [module](super)
/// for an example.
pub struct LogReader {
    dir: PathBuf,
    /// The file that is appended to.
    current: Option<LogCursor>,
    current_is_unread: bool,
    /// The files before it, oldest first.
    older: Vec<LogCursor>,
}

impl LogReader {
    /// Opens the log in the directory `dir`, as it is now. A missing log counts as empty. If a file
    /// is rotated in the meantime, it is neither lost nor read twice.
    ///
    /// # Errors
    ///
    /// Fails if a file does not belong to the user or cannot be read.
    pub fn open(dir: &Path) -> io::Result<Self> {
        // A file only moves to a higher number, and the numbers are tried upwards. So at worst a
        // file is found twice.
        let mut files: Vec<LogCursor> = Vec::new();
        let current = LogCursor::open(&path(dir, 0))?;
        let known = current.as_ref().map(|tail| tail.id);
        for number in 1..=ROTATED_KEPT {
            let Some(tail) = LogCursor::open(&path(dir, number))? else { continue };
            if known != Some(tail.id) && files.iter().all(|other| other.id != tail.id) {
                files.push(tail);
            }
        }
        files.reverse();
        Ok(Self { dir: dir.to_owned(), current, current_is_unread: true, older: files })
    }

    /// Reads the next file, going backwards from the newest. Returns `None` after all files were
    /// read.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn read_back(&mut self) -> Option<io::Result<Batch>> {
        if std::mem::take(&mut self.current_is_unread)
            && let Some(tail) = &mut self.current
        {
            return Some(tail.read_to_end());
        }
        let mut tail = self.older.pop()?;
        Some(tail.read_to_end().map(|mut batch| {
            batch.damaged += u64::from(tail.abandon());
            batch
        }))
    }

    /// Returns whether the last line that was read is unfinished.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.current.as_ref().is_some_and(|tail| !tail.unfinished.is_empty())
    }

    /// Reads the lines that were appended since the last read.
    ///
    /// # Errors
    ///
    /// Fails if a file does not belong to the user or cannot be read.
    pub fn read_new(&mut self) -> io::Result<Batch> {
        let mut batch = Batch::default();
        // Look for newer files first, so that a rotated file is complete when it is read.
        let newer = self.newer()?;
        if let Some(tail) = &mut self.current {
            tail.read_into(&mut batch)?;
        }
        for mut tail in newer {
            if let Some(mut old) = self.current.take() {
                batch.damaged += u64::from(old.abandon());
            }
            tail.read_into(&mut batch)?;
            self.current = Some(tail);
        }
        Ok(batch)
    }

    /// Returns the files that came after the current one, oldest first.
    fn newer(&self) -> io::Result<VecDeque<LogCursor>> {
        let mut newer: VecDeque<LogCursor> = VecDeque::new();
        let known = self.current.as_ref().map(|current| current.id);
        // Without a current file, older files did not exist.
        let last = if known.is_some() { ROTATED_KEPT } else { 0 };
        for number in 0..=last {
            let Some(tail) = LogCursor::open(&path(&self.dir, number))? else { continue };
            if known == Some(tail.id) {
                break;
            }
            if newer.iter().all(|other| other.id != tail.id) {
                newer.push_front(tail);
            }
        }
        Ok(newer)
    }
}

fn path(dir: &Path, number: u32) -> PathBuf {
    match number {
        0 => dir.join(NAME),
        number => dir.join(rotated(number)),
    }
}

/// One file, and the position up to which it was read.
struct LogCursor {
    reader: BufReader<File>,
    id: (u64, u64),
    unfinished: Vec<u8>,
}

impl LogCursor {
    /// Opens a file. Returns `None` if it does not exist.
    fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match paths::open_trusted(path, paths::is_own) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let why = format!("`{}` cannot be read: {error}", path.display());
                return Err(io::Error::new(error.kind(), why));
            }
        };
        let metadata = file.metadata()?;
        let id = (metadata.dev(), metadata.ino());
        Ok(Some(Self { reader: BufReader::new(file), id, unfinished: Vec::new() }))
    }

    /// Reads all finished lines.
    fn read_into(&mut self, batch: &mut Batch) -> io::Result<()> {
        loop {
            let room = (LONGEST + 1 - self.unfinished.len().min(LONGEST)) as u64;
            let read = (&mut self.reader).take(room).read_until(b'\n', &mut self.unfinished)?;
            if read == 0 {
                return Ok(());
            }
            if self.unfinished.pop_if(|last| *last == b'\n').is_some() {
                let line = std::mem::take(&mut self.unfinished);
                if line.len() <= LONGEST { batch.take(line) } else { batch.damaged += 1 }
            } else if self.unfinished.len() > LONGEST {
                // It is enough to know that the line is too long.
                self.unfinished.truncate(LONGEST + 1);
                self.skip_line()?;
            }
        }
    }

    /// Skips the rest of a line that is too long, as far as it has been written.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let piece = self.reader.fill_buf()?;
            let end = newline(piece);
            let length = piece.len();
            if length == 0 || end.is_some() {
                // Leave the newline unread. It is read later as the end of the line.
                self.reader.consume(end.unwrap_or_default());
                return Ok(());
            }
            self.reader.consume(length);
        }
    }

    /// Reads all lines. Waits a little for an unfinished last line.
    fn read_to_end(&mut self) -> io::Result<Batch> {
        let mut batch = Batch::default();
        for attempt in 0..UNFINISHED_TRIES {
            if attempt > 0 {
                thread::sleep(UNFINISHED_PAUSE);
            }
            self.read_into(&mut batch)?;
            if self.unfinished.is_empty() {
                break;
            }
        }
        Ok(batch)
    }

    /// Drops an unfinished line. Returns whether there was one.
    fn abandon(&mut self) -> bool {
        !std::mem::take(&mut self.unfinished).is_empty()
    }
}

fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    struct LogDir(tempfile::TempDir);

    impl LogDir {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn append(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            let mut file = OpenOptions::new().create(true).append(true).open(path).expect("opened");
            file.write_all(text.as_bytes()).expect("written");
        }

        fn rotate(&self) {
            for number in (0..ROTATED_KEPT).rev() {
                let from = path(self.0.path(), number);
                if from.exists() {
                    fs::rename(from, path(self.0.path(), number + 1)).expect("renamed");
                }
            }
        }

        fn reader(&self) -> LogReader {
            LogReader::open(self.0.path()).expect("opened")
        }
    }

    fn line(tool: &str) -> String {
        let record = Record { tool: tool.to_owned(), ..Record::default() };
        serde_json::to_string(&record).expect("JSON") + "\n"
    }

    fn tools(batch: &Batch) -> Vec<&str> {
        batch.lines.iter().map(|line| line.record.tool.as_str()).collect()
    }

    #[test]
    fn files_are_read_back_from_the_newest_and_damage_is_counted() {
        let dir = LogDir::new();
        dir.append(NAME, &line("new"));
        dir.append("audit.jsonl.1", &(line("a") + "not JSON\n" + &line("b") + "{\"time\":\n"));
        // A gap, an empty line, a line that is far too long, and an unfinished line.
        dir.append("audit.jsonl.3", &(line("old") + "\n" + &"x".repeat(3 << 20) + "\n"));
        dir.append("audit.jsonl.3", &(line("older") + "torn"));
        dir.append("audit.jsonl.99", &line("foreign"));
        let mut reader = dir.reader();
        let batches: Vec<Batch> =
            std::iter::from_fn(|| reader.read_back()).map(|batch| batch.expect("read")).collect();
        let found: Vec<_> = batches.iter().map(|batch| (tools(batch), batch.damaged)).collect();
        let expected = [(vec!["new"], 0), (vec!["a", "b"], 2), (vec!["old", "older"], 2)];
        assert_eq!(found, expected);
        assert!(!reader.is_torn());
    }

    #[test]
    fn a_rotation_between_two_looks_loses_nothing_and_doubles_nothing() {
        let dir = LogDir::new();
        dir.append(NAME, &line("one"));
        let mut reader = dir.reader();
        assert_eq!(tools(&reader.read_back().expect("a file").expect("read")), ["one"]);
        assert!(reader.read_new().expect("read").lines.is_empty());
        dir.append(NAME, &line("two")[..10]);
        assert_eq!(reader.read_new().expect("read").lines.len(), 0);
        assert!(reader.is_torn());
        dir.append(NAME, &line("two")[10..]);
        dir.rotate();
        dir.append(NAME, &line("three"));
        dir.rotate();
        assert_eq!(tools(&reader.read_new().expect("read")), ["two", "three"]);
        // For a while, no file has the log's own name.
        assert_eq!(tools(&reader.read_new().expect("read")), [""; 0]);
        dir.append(NAME, &line("four"));
        assert_eq!(tools(&reader.read_new().expect("read")), ["four"]);
        assert!(reader.read_back().is_none());
    }

    #[test]
    fn a_log_that_is_not_there_yet_is_waited_for() {
        let dir = LogDir::new();
        let mut reader = dir.reader();
        assert!(reader.read_back().is_none() && reader.read_new().expect("read").lines.is_empty());
        dir.append(NAME, &line("one"));
        assert_eq!(tools(&reader.read_new().expect("read")), ["one"]);
    }

    #[test]
    fn a_file_that_is_not_our_own_is_not_read() {
        let dir = LogDir::new();
        std::os::unix::fs::symlink("/etc/passwd", path(dir.0.path(), 1)).expect("linked");
        let error = LogReader::open(dir.0.path()).err().expect("refused").to_string();
        assert!(error.contains("audit.jsonl.1"), "{error}");
    }
}
