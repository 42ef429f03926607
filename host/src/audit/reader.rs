//! Reading the log back, also while hosts append to it and rotate it.

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

/// Longer lines were not written by a host, and are passed over. In bytes.
const LONGEST: usize = 1 << 20;

/// How often, and how long in all, an unfinished last line is waited for: another
/// host may just be writing it.
const UNFINISHED_TRIES: usize = 5;
const UNFINISHED_PAUSE: Duration = Duration::from_millis(10);

/// A record, and the line that it stands on, without its newline.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it says.
    pub record: Record,
    /// As it was written.
    pub text: Vec<u8>,
}

/// What was read at once, oldest first.
#[derive(Debug, Default)]
pub struct Batch {
    /// Every line that is a record.
    pub lines: Vec<Line>,
    /// How many lines are none.
    pub damaged: u64,
}

impl Batch {
    fn take(&mut self, text: Vec<u8>) {
        match serde_json::from_slice(&text) {
            Ok(record) => self.lines.push(Line { record, text }),
            Err(_) if text.is_empty() => {}
            Err(_) => self.damaged += 1,
        }
    }
}

/// The log as somebody reads it: back from its newest file, or on as it grows.
pub struct Reader {
    dir: PathBuf,
    /// The file that is appended to, and whether what was in it is still to be read.
    current: Option<Tail>,
    current_is_unread: bool,
    /// Those before it, oldest first.
    older: Vec<Tail>,
}

impl Reader {
    /// The log in `dir`, as it is now. What is rotated meanwhile is neither lost nor
    /// read twice.
    ///
    /// # Errors
    ///
    /// A file is not the user's own, or cannot be read.
    pub fn open(dir: &Path) -> io::Result<Self> {
        // A file moves to a higher number only, and numbers are gone through upwards:
        // one that moves is met again at worst.
        let mut files: Vec<Tail> = Vec::new();
        let current = Tail::open(&path(dir, 0))?;
        let known = current.as_ref().map(|tail| tail.id);
        for number in 1..=ROTATED_KEPT {
            let Some(tail) = Tail::open(&path(dir, number))? else { continue };
            if known != Some(tail.id) && files.iter().all(|other| other.id != tail.id) {
                files.push(tail);
            }
        }
        files.reverse();
        Ok(Self { dir: dir.to_owned(), current, current_is_unread: true, older: files })
    }

    /// The next file back, from the newest on; nothing when all were read.
    ///
    /// # Errors
    ///
    /// Within: it cannot be read.
    pub fn back(&mut self) -> Option<io::Result<Batch>> {
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

    /// Whether the last line that was read is without an end, although nobody writes
    /// to it any more.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.current.as_ref().is_some_and(|tail| !tail.unfinished.is_empty())
    }

    /// What came since the last time.
    ///
    /// # Errors
    ///
    /// A file is not the user's own, or cannot be read.
    pub fn on(&mut self) -> io::Result<Batch> {
        let mut batch = Batch::default();
        // Looked for first: what was rotated away is finished by then.
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

    /// The files that came after the current one, oldest first.
    fn newer(&self) -> io::Result<VecDeque<Tail>> {
        let mut newer: VecDeque<Tail> = VecDeque::new();
        let known = self.current.as_ref().map(|current| current.id);
        // Without a current one there was none before the first either.
        let last = if known.is_some() { ROTATED_KEPT } else { 0 };
        for number in 0..=last {
            let Some(tail) = Tail::open(&path(&self.dir, number))? else { continue };
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

/// One file, as far as it was read.
struct Tail {
    reader: BufReader<File>,
    id: (u64, u64),
    unfinished: Vec<u8>,
}

impl Tail {
    /// Nothing where there is no file.
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

    /// Every line that is whole by now.
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
                // Only that it is too long is remembered of it.
                self.unfinished.truncate(LONGEST + 1);
                self.skip_line()?;
            }
        }
    }

    /// Passes over the rest of a line that is too long, as far as it is there.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let piece = self.reader.fill_buf()?;
            let end = newline(piece);
            let length = piece.len();
            if length == 0 || end.is_some() {
                // The newline itself is left to be read as the line's end.
                self.reader.consume(end.unwrap_or_default());
                return Ok(());
            }
            self.reader.consume(length);
        }
    }

    /// All that is there. An unfinished last line is waited for, and then left.
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

    /// Whether a line was left unfinished for good.
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

    struct Dir(tempfile::TempDir);

    impl Dir {
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

        fn reader(&self) -> Reader {
            Reader::open(self.0.path()).expect("opened")
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
        let dir = Dir::new();
        dir.append(NAME, &line("new"));
        dir.append("audit.jsonl.1", &(line("a") + "not JSON\n" + &line("b") + "{\"time\":\n"));
        // A gap, an empty line, a line that is far too long, one without its end.
        dir.append("audit.jsonl.3", &(line("old") + "\n" + &"x".repeat(3 << 20) + "\n"));
        dir.append("audit.jsonl.3", &(line("older") + "torn"));
        dir.append("audit.jsonl.99", &line("foreign"));
        let mut reader = dir.reader();
        let batches: Vec<Batch> =
            std::iter::from_fn(|| reader.back()).map(|batch| batch.expect("read")).collect();
        let found: Vec<_> = batches.iter().map(|batch| (tools(batch), batch.damaged)).collect();
        let expected = [(vec!["new"], 0), (vec!["a", "b"], 2), (vec!["old", "older"], 2)];
        assert_eq!(found, expected);
        assert!(!reader.is_torn());
    }

    #[test]
    fn a_rotation_between_two_looks_loses_nothing_and_doubles_nothing() {
        let dir = Dir::new();
        dir.append(NAME, &line("one"));
        let mut reader = dir.reader();
        assert_eq!(tools(&reader.back().expect("a file").expect("read")), ["one"]);
        assert!(reader.on().expect("read").lines.is_empty());
        dir.append(NAME, &line("two")[..10]);
        assert_eq!(reader.on().expect("read").lines.len(), 0);
        assert!(reader.is_torn());
        dir.append(NAME, &line("two")[10..]);
        dir.rotate();
        dir.append(NAME, &line("three"));
        dir.rotate();
        assert_eq!(tools(&reader.on().expect("read")), ["two", "three"]);
        // Nothing under the log's own name for a while.
        assert_eq!(tools(&reader.on().expect("read")), [""; 0]);
        dir.append(NAME, &line("four"));
        assert_eq!(tools(&reader.on().expect("read")), ["four"]);
        assert!(reader.back().is_none());
    }

    #[test]
    fn a_log_that_is_not_there_yet_is_waited_for() {
        let dir = Dir::new();
        let mut reader = dir.reader();
        assert!(reader.back().is_none() && reader.on().expect("read").lines.is_empty());
        dir.append(NAME, &line("one"));
        assert_eq!(tools(&reader.on().expect("read")), ["one"]);
    }

    #[test]
    fn a_file_that_is_not_our_own_is_not_read() {
        let dir = Dir::new();
        std::os::unix::fs::symlink("/etc/passwd", path(dir.0.path(), 1)).expect("linked");
        let error = Reader::open(dir.0.path()).err().expect("refused").to_string();
        assert!(error.contains("audit.jsonl.1"), "{error}");
    }
}
