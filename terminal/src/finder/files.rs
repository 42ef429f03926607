//! The files of the workspace, which a separate thread walks.
//!
//! Hidden files and files that `.gitignore` and similar files name are left out, as far as
//! [`rules`](super::rules) can read those. Symbolic links are not followed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ignore::WalkState;
use parking_lot::Mutex;

use super::ranking::MatchableName;
use super::rules;

/// A part of the list. Parts never change, so that matching needs no lock.
type NameChunk = Arc<[MatchableName]>;

/// The most files and directories of a walk. Further ones are left out, so that a walk of a whole
/// disk ends. Each takes about 200 bytes.
pub(super) const MOST: usize = 500_000;

/// The number of new files after which a walk updates the list.
const CHUNK: usize = 2_000;

/// The age up to which a list is used again.
const FRESH: Duration = Duration::from_secs(2);

/// The list, and the walk that makes it.
pub(super) struct FileIndex {
    shared: Arc<SharedIndex>,
}

struct SharedIndex {
    root: PathBuf,
    most: usize,
    list: Mutex<IndexState>,
    /// Set to end a walk that is not needed any more.
    stop: AtomicBool,
}

#[derive(Default)]
struct IndexState {
    chunks: Vec<NameChunk>,
    /// A number that grows with every change.
    generation: u64,
    is_walking: bool,
    walked: Option<Instant>,
}

impl FileIndex {
    /// Creates the list of the files below `root`; a walk looks at `most` entries.
    pub(super) fn new(root: PathBuf, most: usize) -> Self {
        let list = Mutex::new(IndexState::default());
        Self { shared: Arc::new(SharedIndex { root, most, list, stop: AtomicBool::new(false) }) }
    }

    /// Begins a walk, unless one is running or the list is fresh. An earlier list is used until the
    /// walk has ended. Without an earlier list, files are listed as they are found.
    pub(super) fn refresh(&self) {
        let mut list = self.shared.list.lock();
        if list.is_walking || list.walked.is_some_and(|walked| walked.elapsed() < FRESH) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let walk = move || shared.walk();
        // If the thread cannot start, the next `@` tries again.
        list.is_walking = thread::Builder::new().name("files".to_owned()).spawn(walk).is_ok();
    }

    /// Returns the list, and a number that changes with it.
    pub(super) fn found(&self) -> (u64, Vec<NameChunk>) {
        let list = self.shared.list.lock();
        (list.generation, list.chunks.clone())
    }

    pub(super) fn is_walking(&self) -> bool {
        self.shared.list.lock().is_walking
    }

    /// Keeps the list fresh, however long a test takes.
    #[cfg(test)]
    pub(super) fn stay_fresh(&self) {
        self.shared.list.lock().walked = Some(Instant::now() + Duration::from_secs(3_600));
    }

    /// Makes the list stale.
    #[cfg(test)]
    pub(super) fn grow_old(&self) {
        self.shared.list.lock().walked = None;
    }
}

impl Drop for FileIndex {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl SharedIndex {
    fn walk(&self) {
        let shows_at_once = self.list.lock().chunks.is_empty();
        let found = Mutex::new(Vec::new());
        let seen = AtomicUsize::new(0);
        rules::walk(&self.root).build_parallel().run(|| {
            Box::new(|entry| {
                let is_enough = seen.fetch_add(1, Ordering::Relaxed) >= self.most;
                if is_enough || self.stop.load(Ordering::Relaxed) {
                    return WalkState::Quit;
                }
                // An entry that cannot be read is not listed.
                let Ok(entry) = entry else { return WalkState::Continue };
                let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
                let Some(name) = is_file.then(|| self.name(entry.path())).flatten() else {
                    return WalkState::Continue;
                };
                let mut found = found.lock();
                found.push(name);
                if shows_at_once && found.len().is_multiple_of(CHUNK) {
                    let news = NameChunk::from(&found[found.len() - CHUNK..]);
                    self.show(|list| list.chunks.push(news));
                }
                WalkState::Continue
            })
        });
        let mut found = found.into_inner();
        // The suggestions for an empty word are the first files, so the files at the top come
        // first.
        found.sort_by_cached_key(|name| (name.text().matches('/').count(), name.text().to_owned()));
        self.show(|list| {
            list.chunks = vec![found.into()];
            list.is_walking = false;
            list.walked = Some(Instant::now());
        });
    }

    fn show(&self, change: impl FnOnce(&mut IndexState)) {
        let mut list = self.list.lock();
        change(&mut list);
        list.generation += 1;
    }

    fn name(&self, path: &Path) -> Option<MatchableName> {
        let relative = path.strip_prefix(&self.root).ok()?;
        MatchableName::new(relative.to_str()?.to_owned())
    }
}
