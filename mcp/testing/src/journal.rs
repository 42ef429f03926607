//! The journal of a peer: a file with a line for each message and event. A test can wait for them,
//! and read afterwards which errors the client made.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

/// A journal. Without a file it discards its lines.
pub(crate) struct Journal {
    file: Option<PathBuf>,
}

impl Journal {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file }
    }

    /// Adds a line. If that fails, the peer exits, because the test would otherwise wait for ever.
    pub(crate) fn note(&self, line: &str) {
        let Some(file) = &self.file else { return };
        let opened = OpenOptions::new().append(true).create(true).open(file);
        // One write, so that a reader never sees half a line.
        let written = opened.and_then(|mut open| open.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            crate::fail(&format!("cannot write the journal `{}`: {error}", file.display()));
        }
    }
}
