//! `file_read`: a whole file or asset, or a window of its lines.
//!
//! A file is streamed into the answer until the answer is full; a window at the start of a file of
//! any size costs no more than its lines.

use std::io::{Read, Seek, SeekFrom};

use ikigai_protocol::ToolCode;

use crate::answer::{CallOutcome, JsonAnswer, OUTPUT_CAP, ToolFailure};
use crate::args::Args;
use crate::json::Escaper;
use crate::ports::{Assets, FileKind, Files, FsError, LineWindow, OpenedFile, Storage};
use crate::target::FileTarget;

/// The number of bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

const TOO_LARGE: &str = " (too large for one answer; use offset and limit to read a part of it)";

/// Answers one call.
pub(crate) fn call<F: Files, A: Assets>(storage: &Storage<F, A>, args: &Args<'_>) -> CallOutcome {
    let target = FileTarget::named("file_path", args.string("file_path")?)?;
    let window = window(args)?;
    match target {
        FileTarget::File(path) => read_file(&storage.files, path, window),
        FileTarget::Asset(uri) => {
            let text = storage.assets.read(uri, window).map_err(ToolFailure::asset)?;
            let mut answer = JsonAnswer::begin();
            answer.text().reserve(text.len());
            Copy::new(uri.as_bytes(), LineWindow::ALL).run(&mut text.as_bytes(), answer.text())?;
            Ok(answer.end())
        }
    }
}

fn read_file<F: Files>(files: &F, path: &[u8], window: LineWindow) -> CallOutcome {
    if path.is_empty() {
        return Err(ToolFailure::open(FsError::NotFound, path));
    }
    let mut opened = files.open(path).map_err(|error| ToolFailure::open(error, path))?;
    check_readable(&mut opened, path)?;
    // Every byte of a file takes at least one in the answer.
    let whole = window.limit.is_none() && window.skip == 0;
    if whole && opened.size > OUTPUT_CAP as u64 {
        return Err(ToolFailure::read(path).because(TOO_LARGE));
    }
    let mut answer = JsonAnswer::begin();
    let read = Copy::new(path, window);
    // A file of /proc reports no size.
    answer.text().reserve(usize::try_from(opened.size).unwrap_or(0).min(OUTPUT_CAP / 16));
    read.run(&mut opened.file, answer.text())?;
    Ok(answer.end())
}

/// Returns the requested lines.
fn window(args: &Args<'_>) -> Result<LineWindow, ToolFailure> {
    let natural = |name| match args.integer(name)? {
        None => Ok(None),
        Some(number) => u64::try_from(number).map(Some).map_err(|_| {
            ToolFailure::new(ToolCode::InvalidArg, format!("`{name}` must not be negative"))
        }),
    };
    // An offset of 0 is common for "from the start".
    let skip = natural("offset")?.unwrap_or(0).saturating_sub(1);
    Ok(LineWindow { skip, limit: natural("limit")? })
}

/// Refuses a file without an end or a size before anything is read from it.
fn check_readable<F: Read + Seek>(
    opened: &mut OpenedFile<F>,
    path: &[u8],
) -> Result<(), ToolFailure> {
    match opened.kind {
        FileKind::Regular | FileKind::Other => Ok(()),
        FileKind::Directory | FileKind::Symlink => Err(ToolFailure::read(path)),
        FileKind::Pipe => Err(ToolFailure::about(ToolCode::SeekFailed, "Cannot seek file", path)),
        FileKind::Device => {
            if opened.file.seek(SeekFrom::End(0)).is_err() {
                return Err(ToolFailure::about(ToolCode::SeekFailed, "Cannot seek file", path));
            }
            // A device reports no size. Only one that is at its end already, as /dev/null is, can
            // be read whole.
            match opened.file.read(&mut [0]) {
                Ok(0) => Ok(()),
                _ => Err(ToolFailure::about(ToolCode::SizeFailed, "Cannot get file size", path)),
            }
        }
    }
}

/// A copy of the window's lines into the answer.
struct Copy<'p> {
    path: &'p [u8],
    remaining: LineWindow,
    escaper: Escaper,
}

impl<'p> Copy<'p> {
    fn new(path: &'p [u8], lines: LineWindow) -> Self {
        Self { path, remaining: lines, escaper: Escaper::default() }
    }

    fn run(mut self, file: &mut impl Read, out: &mut Vec<u8>) -> Result<(), ToolFailure> {
        let mut buffer = vec![0; BUFFER_BYTES];
        while self.remaining.limit != Some(0) {
            let count = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(ToolFailure::read(self.path)),
            };
            let piece = self.within_window(&buffer[..count]);
            self.escaper.push(piece, out);
            if out.len() > OUTPUT_CAP {
                return Err(ToolFailure::read(self.path).because(TOO_LARGE));
            }
        }
        self.escaper.finish(out);
        Ok(())
    }

    /// Drops the lines before the window and those after it.
    fn within_window<'b>(&mut self, mut piece: &'b [u8]) -> &'b [u8] {
        if self.remaining.skip > 0 {
            let start = after_lines(piece, &mut self.remaining.skip);
            piece = &piece[start..];
        }
        match &mut self.remaining.limit {
            Some(limit) => {
                let end = after_lines(piece, limit);
                &piece[..end]
            }
            None => piece,
        }
    }
}

/// Returns the position after the next `lines` newlines; decrements `lines` by the number found.
fn after_lines(piece: &[u8], lines: &mut u64) -> usize {
    for newline in memchr::memchr_iter(b'\n', piece) {
        if *lines == 0 {
            return newline;
        }
        *lines -= 1;
        if *lines == 0 {
            return newline + 1;
        }
    }
    if *lines == 0 { 0 } else { piece.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str, skip: u64, limit: Option<u64>, step: usize) -> String {
        struct StepReader<'a>(&'a [u8], usize);
        impl Read for StepReader<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let count = self.1.min(self.0.len()).min(buffer.len());
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let mut out = Vec::new();
        let copy = Copy::new(b"f", LineWindow { skip, limit });
        copy.run(&mut StepReader(text.as_bytes(), step), &mut out).expect("reads");
        String::from_utf8(out).expect("UTF-8").replace("\\n", "\n")
    }

    #[test]
    fn windows_are_the_lines_asked_for() {
        let text = "one\ntwo\n\nfür\nend";
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for skip in 0..7 {
            for limit in [None, Some(0), Some(1), Some(2), Some(9)] {
                let shown = lines.iter().skip(skip).take(limit.unwrap_or(99));
                let expected: String = shown.copied().collect();
                for step in [1, 2, 3, 100] {
                    let limit = limit.map(|limit| limit as u64);
                    assert_eq!(
                        window(text, skip as u64, limit, step),
                        expected,
                        "{skip} {limit:?} {step}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_endless_line_stops_at_the_cap() {
        let copy = Copy::new(b"f", LineWindow { skip: 0, limit: Some(1) });
        let failure = copy.run(&mut std::io::repeat(b'x'), &mut Vec::new()).expect_err("too large");
        assert!(String::from_utf8_lossy(&failure.to_json()).contains("use offset and limit"));
    }
}
