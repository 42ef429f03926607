//! `/undo` and `/diff`: copies of the files that a turn changes, and the way to restore them.
//!
//! Owns the copies that are made in memory before each call of `file_write` and `file_edit`: up to
//! [`MOST_BYTES`] for the last turn, and as much for the conversation. Changes by `bash` or a user
//! tool are not seen here. When ikigai copies or restores a file, its path may not lead out of the
//! workspace or through a link. The kernel refuses both in one step, even if a tool swaps parts of
//! the path at the same time. If a file is not as the turn left it, another program or the user has
//! changed it, and it stays.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ikigai_assets::SCHEME;
use ikigai_host::Digest;
use ikigai_host::policy::ToolOrigin;
use ikigai_host::registry::Snapshot;
use ikigai_provider::ModelCall;
use ikigai_supervisor::filesystems;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fchmod, openat2, renameat, unlinkat};
use rustix::io::Errno;
use serde_json::Value;

/// The most bytes of all copies of one turn, and of all copies of a conversation: 64 MiB.
const MOST_BYTES: u64 = 64 << 20;

/// The files that the last turn and the conversation changed. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo(Arc<Mutex<Copies>>);

#[derive(Debug, Default)]
struct Copies {
    /// The files that the last turn changed.
    turn: BTreeMap<PathBuf, FileChange>,
    /// The files that the conversation changed, as they were before it.
    conversation: BTreeMap<PathBuf, Result<OriginalFile, UndoObstacle>>,
}

/// A file that a turn changed, by its path in the workspace.
#[derive(Debug)]
struct FileChange {
    before: Result<OriginalFile, UndoObstacle>,
    /// The digest of the file as the last call left it, or nothing if the file did not exist.
    after: Option<Digest>,
}

/// A file before the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OriginalFile {
    Absent,
    Held { content: Arc<[u8]>, mode: Mode },
}

/// The reason why a file is not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UndoObstacle {
    Link,
    Special,
    TooLarge,
    ChangedSince,
    Failed(Errno),
}

impl fmt::Display for UndoObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("a link leads to it"),
            Self::Special => f.write_str("it is not a regular file"),
            Self::TooLarge => write!(f, "the copies hold {} MiB", MOST_BYTES >> 20),
            Self::ChangedSince => f.write_str("it was changed since"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl From<Errno> for UndoObstacle {
    fn from(error: Errno) -> Self {
        // The errors of `openat2` for a link, and for a path that leads out.
        match error {
            Errno::LOOP | Errno::XDEV => Self::Link,
            error => Self::Failed(error),
        }
    }
}

impl From<io::Error> for UndoObstacle {
    fn from(error: io::Error) -> Self {
        Self::Failed(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// The outcome of undoing a turn, by paths in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The files that were restored.
    pub restored: Vec<PathBuf>,
    /// The files that were new, and were removed.
    pub removed: Vec<PathBuf>,
    /// The files that stay as they are now, each with the reason.
    pub kept: Vec<(PathBuf, String)>,
}

/// A file of the workspace that a conversation changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path in the workspace.
    pub path: PathBuf,
    /// Its contents, or the reason why they are not known.
    pub contents: Result<FileContents, String>,
}

/// The contents of a file before a conversation and now. `None` means that the file does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContents {
    /// The content before the first change.
    pub before: Option<Arc<[u8]>>,
    /// The present content.
    pub now: Option<Arc<[u8]>>,
}

impl Undo {
    /// Forgets the turn before.
    pub(super) fn begin(&self) {
        self.0.lock().turn.clear();
    }

    /// Forgets the conversation before, with its last turn.
    pub(super) fn begin_conversation(&self) {
        *self.0.lock() = Copies::default();
    }

    /// Returns the files that the conversation changed and that differ from their state before it.
    pub(super) fn changed(&self, workspace: &Path) -> Vec<ChangedFile> {
        let before = self.0.lock().conversation.clone();
        let changed = before.into_iter().filter_map(|(path, before)| {
            let contents = before.and_then(|before| {
                let now = read(workspace, &path, MOST_BYTES)?.into_content();
                Ok(FileContents { before: before.into_content(), now })
            });
            let is_same = contents.as_ref().is_ok_and(|it| it.before == it.now);
            let contents = contents.map_err(|reason| reason.to_string());
            (!is_same).then_some(ChangedFile { path, contents })
        });
        changed.collect()
    }

    /// Copies the file that a call is about to change, if it is the first such call of the turn,
    /// and returns its path in the workspace.
    pub(super) async fn before(
        &self,
        workspace: &Path,
        snapshot: &Snapshot,
        call: &ModelCall,
    ) -> Option<PathBuf> {
        let is_system = |name| snapshot.get(name).is_some_and(|it| it.origin == ToolOrigin::System);
        if !matches!(&*call.name, "file_write" | "file_edit") || !is_system(&call.name) {
            return None;
        }
        let path = changed_path(workspace, &call.arguments)?;
        let (undo, workspace, changed) = (self.clone(), workspace.to_owned(), path.clone());
        // Reading may be slow, and must not block a terminal.
        let copied = tokio::task::spawn_blocking(move || undo.copy(&workspace, changed)).await;
        copied.is_ok().then_some(path)
    }

    fn copy(&self, workspace: &Path, path: PathBuf) {
        let held: u64 = {
            let copies = self.0.lock();
            if copies.turn.contains_key(&path) {
                return;
            }
            bytes(copies.turn.values().map(|change| &change.before))
        };
        let before = read(workspace, &path, MOST_BYTES.saturating_sub(held));
        let after = before.as_ref().ok().and_then(OriginalFile::digest);
        let mut copies = self.0.lock();
        let room = MOST_BYTES.saturating_sub(bytes(copies.conversation.values()));
        copies.conversation.entry(path.clone()).or_insert_with(|| {
            before.clone().and_then(|before| match before.bytes() <= room {
                true => Ok(before),
                false => Err(UndoObstacle::TooLarge),
            })
        });
        copies.turn.entry(path).or_insert(FileChange { before, after });
    }

    /// Records the state in which a call left the file that it changed.
    pub(super) async fn after(&self, workspace: &Path, path: PathBuf) {
        let (undo, workspace) = (self.clone(), workspace.to_owned());
        let noted = tokio::task::spawn_blocking(move || {
            let found = digest(&workspace, &path);
            // These tools remove no file, so another program removed one that is gone.
            if let (Ok(Some(found)), Some(change)) = (found, undo.0.lock().turn.get_mut(&path)) {
                change.after = Some(found);
            }
        });
        if let Err(error) = noted.await {
            tracing::warn!("a file that a call changed cannot be taken back: {error}");
        }
    }

    /// Forgets the file of a call that did not change it, unless an earlier call of the turn did. If
    /// something else changed the file meanwhile, undoing the turn does not take that back.
    pub(super) fn unchanged(&self, path: &Path) {
        let mut copies = self.0.lock();
        let is_first = |change: &FileChange| {
            change.before.as_ref().is_ok_and(|before| before.digest() == change.after)
        };
        if copies.turn.get(path).is_some_and(is_first) {
            copies.turn.remove(path);
        }
    }

    /// Restores the files that the last turn changed, and forgets them.
    pub(super) fn take_back(&self, workspace: &Path) -> Undone {
        let mut undone = Undone::default();
        for (path, FileChange { before, after }) in std::mem::take(&mut self.0.lock().turn) {
            let before = match before {
                Ok(before) if before.digest() == after => continue,
                Ok(before) => before,
                Err(reason) => {
                    undone.kept.push((path, reason.to_string()));
                    continue;
                }
            };
            match restore(workspace, &path, &before, after) {
                Ok(()) if before == OriginalFile::Absent => undone.removed.push(path),
                Ok(()) => undone.restored.push(path),
                Err(reason) => undone.kept.push((path, reason.to_string())),
            }
        }
        undone
    }
}

fn bytes<'a>(copies: impl Iterator<Item = &'a Result<OriginalFile, UndoObstacle>>) -> u64 {
    copies.filter_map(|copy| copy.as_ref().ok()).map(OriginalFile::bytes).sum()
}

impl OriginalFile {
    fn into_content(self) -> Option<Arc<[u8]>> {
        match self {
            Self::Absent => None,
            Self::Held { content, .. } => Some(content),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Absent => 0,
            Self::Held { content, .. } => content.len() as u64,
        }
    }

    fn digest(&self) -> Option<Digest> {
        match self {
            Self::Absent => None,
            Self::Held { content, .. } => Some(Digest::from_bytes(content)),
        }
    }
}

/// Returns the path in the workspace of the file that a call names. Returns nothing for an asset,
/// or for a path that leads out of the workspace without a link: with its standard grant, the tool
/// may not write there.
fn changed_path(workspace: &Path, arguments: &str) -> Option<PathBuf> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let named = arguments.get("file_path")?.as_str().filter(|path| !path.starts_with(SCHEME))?;
    let mut path = PathBuf::new();
    for component in workspace.join(named).strip_prefix(workspace).ok()?.components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            // After a link, `..` leads somewhere else than the text suggests.
            _ => return None,
        }
    }
    (path != Path::new("")).then_some(path)
}

fn open(dir: &File, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(dir, path, flags, mode, inside)
}

/// Opens a regular file in the workspace. Returns nothing if the file does not exist.
fn open_file(workspace: &Path, path: &Path) -> Result<Option<File>, UndoObstacle> {
    let file = match open(&File::open(workspace)?, path, OFlags::RDONLY, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        opened => File::from(opened?),
    };
    if !file.metadata()?.is_file() || !filesystems::is_ordinary(&file)? {
        return Err(UndoObstacle::Special);
    }
    Ok(Some(file))
}

/// Reads a file of at most `most` bytes.
fn read(workspace: &Path, path: &Path, most: u64) -> Result<OriginalFile, UndoObstacle> {
    let Some(file) = open_file(workspace, path)? else { return Ok(OriginalFile::Absent) };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(UndoObstacle::TooLarge);
    }
    Ok(OriginalFile::Held { content: content.into(), mode })
}

fn digest(workspace: &Path, path: &Path) -> Result<Option<Digest>, UndoObstacle> {
    Ok(open_file(workspace, path)?.map(Digest::of_reader).transpose()?)
}

/// Restores a file, if it is as the turn left it.
fn restore(
    workspace: &Path,
    path: &Path,
    before: &OriginalFile,
    after: Option<Digest>,
) -> Result<(), UndoObstacle> {
    if digest(workspace, path)? != after {
        return Err(UndoObstacle::ChangedSince);
    }
    let root = File::open(workspace)?;
    let dir = match path.parent().filter(|dir| *dir != Path::new("")) {
        Some(dir) => open(&root, dir, OFlags::DIRECTORY, Mode::empty())?,
        None => root.into(),
    };
    let name = path.file_name().unwrap_or_default();
    let OriginalFile::Held { content, mode } = before else {
        return Ok(unlinkat(&dir, name, AtFlags::empty())?);
    };
    // The file must appear complete or not at all: a disk may be full.
    let dir = File::from(dir);
    let fresh = PathBuf::from(format!(".{}.undo", uuid::Uuid::now_v7().simple()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let mut file = File::from(open(&dir, &fresh, flags, Mode::RUSR | Mode::WUSR)?);
    let written = file.write_all(content).and_then(|()| Ok(fchmod(&file, *mode)?));
    let placed = written.and_then(|()| Ok(renameat(&dir, &fresh, &dir, name)?));
    placed.map_err(|error| {
        // A leftover file has a name that no file of the user has.
        let _ = unlinkat(&dir, &fresh, AtFlags::empty());
        error.into()
    })
}

#[cfg(test)]
mod tests;
