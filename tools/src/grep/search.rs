//! The search of files for lines: in parallel if the platform has threads, with the same result if
//! it has none.
//!
//! Files are handed out in their order, a batch at a time. A batch keeps the text of its matches up
//! to the answer's limit; once earlier batches fill the answer, later ones only count.

use std::io::{Read, Write as _};
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::answer::OUTPUT_CAP;
use crate::glob::PathMatch;
use crate::json;
use crate::ports::{Directory, Files};

/// The end of each match in a batch's text: a newline inside a JSON string.
pub(super) const LINE_END: &[u8] = b"\\n";

/// The number of files in a batch: enough that fetching the next costs nothing, few enough that no
/// thread is left with the last large one.
const BATCH_FILES: usize = 32;

/// The longest line that is searched, in bytes.
const MAX_LINE_BYTES: usize = 256 << 20;

/// The matches of one batch of files.
#[derive(Debug, Default)]
pub(super) struct BatchMatches {
    /// The matches, as the inside of a JSON string.
    pub(super) text: Vec<u8>,
    /// The number of matching lines.
    pub(super) count: u64,
    /// `true` if `text` does not contain all of them.
    pub(super) cut: bool,
}

/// Searches `found`, which is sorted; the parts are in the same order.
pub(super) fn search<F: Files>(
    files: &F,
    matcher: &RegexMatcher,
    found: &[PathMatch],
) -> Vec<BatchMatches> {
    let batches: Vec<&[PathMatch]> = found.chunks(BATCH_FILES).collect();
    let job = SearchJob {
        files,
        matcher,
        batches,
        next: AtomicUsize::new(0),
        kept: AtomicUsize::new(0),
        parts: Mutex::default(),
    };
    let threads =
        std::thread::available_parallelism().map_or(1, NonZero::get).min(job.batches.len());
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without a second thread the first one does the work.
            if std::thread::Builder::new().spawn_scoped(scope, || job.work()).is_err() {
                break;
            }
        }
        job.work();
    });
    let mut parts = job.parts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    parts.sort_unstable_by_key(|(index, _)| *index);
    parts.into_iter().map(|(_, part)| part).collect()
}

struct SearchJob<'j, F> {
    files: &'j F,
    matcher: &'j RegexMatcher,
    batches: Vec<&'j [PathMatch]>,
    next: AtomicUsize,
    /// The number of bytes of text in the parts so far.
    kept: AtomicUsize,
    parts: Mutex<Vec<(usize, BatchMatches)>>,
}

impl<F: Files> SearchJob<'_, F> {
    fn work(&self) {
        // Each thread has its own matcher, so that threads do not share scratch space.
        let matcher = self.matcher.clone();
        let mut searcher = SearcherBuilder::new()
            .line_number(true)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .heap_limit(Some(MAX_LINE_BYTES))
            .build();
        let mut ahead = vec![0; AHEAD];
        // The directory of the last file, which usually contains the next file as well.
        let mut current: Option<(&[u8], F::Dir)> = None;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = self.batches.get(index) else { return };
            // Batches are handed out in order, so the kept text comes before this batch.
            let room = OUTPUT_CAP.saturating_sub(self.kept.load(Ordering::Relaxed));
            let mut sink = MatchSink { part: BatchMatches::default(), room, label: Vec::new() };
            for one in *batch {
                let (prefix, name) = one.path.split_at(one.name_at);
                if current.as_ref().is_none_or(|(known, _)| *known != prefix) {
                    let path = if prefix.is_empty() { b"." } else { prefix };
                    current = self.files.open_dir(path).ok().map(|dir| (prefix, dir));
                }
                let Some((_, dir)) = &current else { continue };
                let Ok(file) = dir.open_file(name) else { continue };
                sink.start(&one.path);
                self.search_one(&mut searcher, &matcher, file, &one.path, &mut ahead, &mut sink);
            }
            self.kept.fetch_add(sink.part.text.len(), Ordering::Relaxed);
            if sink.part.count > 0 {
                let mut parts =
                    self.parts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                parts.push((index, sink.part));
            }
        }
    }

    fn search_one(
        &self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        file: <F::Dir as Directory>::File,
        path: &[u8],
        ahead: &mut [u8],
        sink: &mut MatchSink,
    ) {
        let file = ReadAheadFile { file, ahead, unread: 0..0, ended: false };
        if let Err(error) = searcher.search_reader(matcher, file, sink) {
            // The specification skips files that fail; the log names them.
            let path = String::from_utf8_lossy(path);
            let _ = writeln!(std::io::stderr(), "{path}: not searched to its end: {error}");
        }
    }
}

/// A file that is read with few calls. The searcher reads the first three bytes separately, and
/// once more after the end. For a small file those are two of four system calls, and in a component
/// each is a call into the host.
struct ReadAheadFile<'b, R> {
    file: R,
    /// The buffer for a read that is larger than the caller's.
    ahead: &'b mut [u8],
    unread: Range<usize>,
    ended: bool,
}

/// The smallest read that is passed on to the file.
const WORTH_A_READ: usize = 4 << 10;

/// The size of the larger read, in bytes.
const AHEAD: usize = 64 << 10;

impl<R: Read> Read for ReadAheadFile<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.unread.is_empty() {
            if self.ended || buffer.is_empty() {
                return Ok(0);
            }
            if buffer.len() >= WORTH_A_READ {
                let count = self.file.read(buffer)?;
                self.ended = count == 0;
                return Ok(count);
            }
            self.unread = 0..self.file.read(self.ahead)?;
            self.ended = self.unread.is_empty();
        }
        let rest = &self.ahead[self.unread.clone()];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.unread.start += count;
        Ok(count)
    }
}

/// A sink that collects matches as text.
struct MatchSink {
    part: BatchMatches,
    room: usize,
    /// The escaped path of the current file.
    label: Vec<u8>,
}

impl MatchSink {
    fn start(&mut self, path: &[u8]) {
        self.label.clear();
        json::escape(path, &mut self.label);
    }
}

impl Sink for MatchSink {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.part.count += 1;
        if self.part.cut {
            return Ok(true);
        }
        let line = found.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let before = self.part.text.len();
        // Every byte takes at least one in the answer, so a line that cannot fit is not copied.
        if before + line.len() <= self.room {
            self.part.text.extend_from_slice(&self.label);
            write!(self.part.text, ":{}: ", found.line_number().unwrap_or(0))?;
            json::escape(line, &mut self.part.text);
            self.part.text.extend_from_slice(LINE_END);
        }
        if before + line.len() > self.room || self.part.text.len() > self.room {
            self.part.text.truncate(before);
            self.part.cut = true;
        }
        Ok(true)
    }
}
