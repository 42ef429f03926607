//! The journal of a peer, and the wait for its lines.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The time limit of a wait: far beyond what anything takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the journal of the peer that works in `dir`.
pub(crate) fn read(dir: &Path) -> String {
    fs::read_to_string(dir.join("journal")).unwrap_or_default()
}

/// Waits until the journal of the peer that works in `dir` has `line` this many times.
#[track_caller]
pub(crate) fn wait_for(dir: &Path, line: &str, times: usize) {
    let begun = Instant::now();
    loop {
        let journal = read(dir);
        if journal.lines().filter(|it| *it == line).count() >= times {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "waited in vain for {times} x `{line}` in:\n{journal}");
        thread::sleep(Duration::from_millis(5));
    }
}
