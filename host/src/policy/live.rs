//! The policy files of one host: their paths, the users who may write them, and their present
//! contents.
//!
//! The host checks the metadata of each file before every call, and reads a file whose metadata
//! changed. So an edit applies to the next call. If an edit cannot be used, the earlier contents
//! stay in force, and the problem is logged once. If a ceiling cannot be used, no tool may run.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use ikigai_protocol::Digest;
use parking_lot::Mutex;

use super::parse::{self, Base};
use super::provenance::LayerKind;
use super::rule::{PolicyLayer, PolicyLayers};
use super::signers::Signatures;
use crate::paths::{self, OtherWriter};
use crate::toml_file::{self, ClosedDir, ReadError, ReadRules, TomlError};

/// The largest policy file, in bytes. No real policy is that large.
const LARGEST: u64 = 1 << 20;

/// The largest policy file of a workspace, in bytes. The file may come from an untrusted author,
/// and reading it must take only a fraction of a second.
const LARGEST_OF_WORKSPACE: u64 = 64 << 10;

/// The paths of the files of all layers.
#[derive(Clone, Debug)]
pub(crate) struct PolicyFiles {
    /// The administrator's file, which need not exist.
    pub(crate) ceiling: Option<PathBuf>,
    /// Further ceilings, each of which must exist. Every user may add one, because it can only
    /// narrow.
    pub(crate) further_ceilings: Vec<PathBuf>,
    /// The user's file.
    pub(crate) user: Option<PathBuf>,
    /// True if the user's file was named explicitly. Then it must exist.
    pub(crate) user_is_named: bool,
    /// The workspace, absolute and canonical; its file is `.ikigai/policy.toml`.
    pub(crate) workspace: PathBuf,
    /// The directory that `~` stands for in a policy file.
    pub(crate) home: Option<PathBuf>,
    /// The directory with the record of directories in which tools could write; `None` if no record
    /// is kept.
    pub(crate) state: Option<PathBuf>,
}

/// The path of a workspace's file, relative to the workspace.
pub(super) const IN_WORKSPACE: &str = ".ikigai/policy.toml";

/// The status of a policy file.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// The author of the file.
    pub kind: LayerKind,
    /// The path of the file.
    pub path: PathBuf,
    /// True if the file exists.
    pub exists: bool,
    /// The reason why its earlier contents are in force instead of the present ones.
    pub problem: Option<TomlError>,
}

/// The files, with the contents at the last read.
pub(super) struct LivePolicy {
    base: Base,
    ceilings: Vec<OneFile>,
    user: Option<OneFile>,
    /// The layer of a user who has no file.
    no_user: Arc<PolicyLayer>,
    workspace: OneFile,
}

#[derive(Debug)]
struct OneFile {
    kind: LayerKind,
    path: PathBuf,
    must_exist: bool,
    rules: ReadRules,
    seen: Mutex<LoadedFile>,
}

#[derive(Debug)]
struct LoadedFile {
    /// The metadata; `None` if the file must be read again in any case.
    identity: Option<FileStamp>,
    layer: Arc<PolicyLayer>,
    /// The digest of the layer's text; `None` if the file does not exist.
    text: Option<Digest>,
    exists: bool,
    problem: Option<TomlError>,
}

/// The result of reading a file.
enum ReadContents {
    /// The file does not exist.
    None,
    /// The text is the one in force.
    Unchanged,
    /// The text has changed. This is the new layer, with the digest of its text.
    New(Box<PolicyLayer>, Digest),
}

/// The metadata that change with the contents of a file, or with the users who may write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FileStamp {
    Missing,
    There([i64; 9]),
}

impl LivePolicy {
    /// Reads all files.
    pub(super) fn open(
        files: &PolicyFiles,
        signatures: Option<Arc<dyn Signatures>>,
    ) -> Result<Self, TomlError> {
        let (workspace, home) = (files.workspace.clone(), files.home.clone());
        let base = Base { workspace, home, signatures };
        let ceiling = |path, must_exist, owner| {
            OneFile::new(LayerKind::Ceiling, path, must_exist, rules(owner))
        };
        let first = files.ceiling.iter().map(|path| ceiling(path, false, is_admin));
        let further = files.further_ceilings.iter();
        let further = further.map(|path| ceiling(path, true, is_admin_or_own));
        let user = files
            .user
            .as_ref()
            .map(|path| OneFile::new(LayerKind::User, path, files.user_is_named, rules(is_user)));
        let workspace = files.workspace.join(IN_WORKSPACE);
        let of_workspace =
            ReadRules { largest: LARGEST_OF_WORKSPACE, follows_links: false, owner: None };
        let live = Self {
            base,
            ceilings: first.chain(further).collect(),
            user,
            no_user: Arc::new(PolicyLayer::empty(LayerKind::User, Path::new(""))),
            workspace: OneFile::new(LayerKind::Workspace, &workspace, false, of_workspace),
        };
        for file in live.files() {
            file.refresh(&live.base);
            if let Some(problem) = file.seen.lock().problem.take() {
                return Err(problem);
            }
        }
        Ok(live)
    }

    /// Returns the present contents of each file, or the earlier contents if the present ones
    /// cannot be used.
    ///
    /// # Errors
    ///
    /// Fails if a ceiling cannot be used.
    pub(super) fn current(&self) -> Result<PolicyLayers, TomlError> {
        self.refresh();
        let mut ceilings = Vec::with_capacity(self.ceilings.len());
        for ceiling in &self.ceilings {
            let seen = ceiling.seen.lock();
            if let Some(problem) = &seen.problem {
                return Err(problem.clone());
            }
            ceilings.push(Arc::clone(&seen.layer));
        }
        let workspace = Arc::clone(&self.workspace.seen.lock().layer);
        Ok(PolicyLayers { ceilings, user: self.user(), workspace })
    }

    /// Returns the contents of the user's file at the last check.
    pub(super) fn user(&self) -> Arc<PolicyLayer> {
        match &self.user {
            Some(user) => Arc::clone(&user.seen.lock().layer),
            None => Arc::clone(&self.no_user),
        }
    }

    /// Returns the directories that paths in the files are relative to, with the check of signers.
    pub(super) fn base(&self) -> &Base {
        &self.base
    }

    /// Returns the path of the user's file, which need not exist, or `None` for a user without a
    /// home who did not name a file.
    pub(super) fn user_file(&self) -> Option<&Path> {
        Some(&self.user.as_ref()?.path)
    }

    /// Returns the errors of the files whose present contents are not in force.
    pub(super) fn problems(&self) -> Vec<(LayerKind, TomlError)> {
        let problem = |file: &OneFile| Some((file.kind, file.seen.lock().problem.clone()?));
        self.files().filter_map(problem).collect()
    }

    /// Returns the status of each file at the last check.
    pub(super) fn statuses(&self) -> Vec<FileStatus> {
        let file = |file: &OneFile| {
            let seen = file.seen.lock();
            FileStatus {
                kind: file.kind,
                path: file.path.clone(),
                exists: seen.exists,
                problem: seen.problem.clone(),
            }
        };
        self.files().map(file).collect()
    }

    /// Returns the digest of each file's text in force, with the author of the file.
    pub(super) fn digests(&self) -> Vec<(LayerKind, Option<Digest>)> {
        self.refresh();
        self.files().map(|file| (file.kind, file.seen.lock().text)).collect()
    }

    fn files(&self) -> impl Iterator<Item = &OneFile> + Clone {
        self.ceilings.iter().chain(&self.user).chain([&self.workspace])
    }

    /// Reads changed files again.
    fn refresh(&self) {
        self.files().for_each(|file| file.refresh(&self.base));
    }
}

impl OneFile {
    fn new(kind: LayerKind, path: &Path, must_exist: bool, rules: ReadRules) -> Self {
        let seen = LoadedFile {
            identity: None,
            layer: Arc::new(PolicyLayer::empty(kind, path)),
            text: None,
            exists: false,
            problem: None,
        };
        Self { kind, path: path.to_owned(), must_exist, rules, seen: Mutex::new(seen) }
    }

    /// Reads the file again if its metadata changed, or cannot show yet whether the file changed.
    fn refresh(&self, base: &Base) {
        let mut seen = self.seen.lock();
        let before = identity(&self.path);
        let is_as_read = before.is_some() && seen.identity == before;
        // The problem may be the mode of a directory on the way, if the owner is checked. A
        // workspace's file has no owner check, and its author must not be able to force a parse in
        // each call.
        let is_wrong_elsewhere = seen.problem.is_some() && self.rules.owner.is_some();
        if is_as_read && !is_wrong_elsewhere {
            return;
        }
        let read = self.read(base, seen.text);
        // Drop the metadata if they may belong to another file that was there for a moment.
        seen.identity = before.filter(|before| identity(&self.path).as_ref() == Some(before));
        match read {
            Ok(read) => {
                if seen.problem.take().is_some() {
                    tracing::info!("`{}` is in force again", self.path.display());
                }
                seen.exists = !matches!(read, ReadContents::None);
                match read {
                    ReadContents::Unchanged => {}
                    ReadContents::None if seen.text.is_none() => {}
                    ReadContents::None => {
                        seen.layer = Arc::new(PolicyLayer::empty(self.kind, &self.path));
                        seen.text = None;
                    }
                    ReadContents::New(layer, text) => {
                        seen.layer = Arc::new(*layer);
                        seen.text = Some(text);
                    }
                }
            }
            Err(problem) if seen.problem.as_ref() == Some(&problem) => {}
            Err(problem) => {
                seen.exists = true;
                seen.problem = Some(problem);
            }
        }
    }

    /// Reads the file. The text in force has the digest `known`.
    fn read(&self, base: &Base, known: Option<Digest>) -> Result<ReadContents, TomlError> {
        match toml_file::read(&self.path, self.rules) {
            Ok(text) => {
                let digest = Digest::from_bytes(&text);
                if known == Some(digest) {
                    return Ok(ReadContents::Unchanged);
                }
                let layer = parse::parse(self.kind, &self.path, &text, base)?;
                Ok(ReadContents::New(Box::new(layer), digest))
            }
            Err(ReadError::Missing(_)) if !self.must_exist => Ok(ReadContents::None),
            Err(ReadError::Foreign(dir)) if self.kind == LayerKind::User && !self.must_exist => {
                self.warn_of_foreign(&dir);
                Ok(ReadContents::None)
            }
            Err(error) => Err(self.refusal(error)),
        }
    }

    /// Warns once about a policy that is not read because its directory belongs to another user.
    fn warn_of_foreign(&self, dir: &ClosedDir) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::warn!(
                "`{}` is not in force: {dir}, which belongs to another user; set HOME to your own home",
                self.path.display()
            );
        });
    }

    /// Returns the error for a policy file that was not read.
    fn refusal(&self, error: ReadError) -> TomlError {
        let whole = |what: String| TomlError::whole(&self.path, what);
        let not_theirs = "the owner of a policy file, or of a directory above it, decides what \
            tools may do";
        let closing = |path: &Path| format!("chmod go-w {}", shell_quoted(&path.to_string_lossy()));
        match error {
            ReadError::Missing(error) | ReadError::Unreadable(error) => {
                whole(format!("cannot be read: {error}"))
            }
            ReadError::Hidden(dir) => whole(format!("cannot be read: {dir}")).hint(dir.hint()),
            ReadError::Foreign(dir) => {
                let path = shell_quoted(&dir.path.to_string_lossy());
                whole(format!("cannot be read: {}", ReadError::Foreign(dir)))
                    .hint(format!("its owner can let you enter it: chmod a+x {path}"))
            }
            ReadError::Link => whole("is a symbolic link, which a policy must not be".to_owned())
                .hint("put the file itself there"),
            ReadError::OtherWriter(OtherWriter::Owner(uid)) => {
                whole(format!("is refused: it belongs to another user (id {uid})")).hint(not_theirs)
            }
            ReadError::OtherWriter(OtherWriter::Mode(mode)) => {
                whole(format!("is refused: others may write to it (mode {mode:04o})"))
                    .hint(closing(&self.path))
            }
            ReadError::Ancestor(dir) => {
                let hint = if dir.is_writable { closing(&dir.dir) } else { not_theirs.to_owned() };
                whole(format!("is refused: {dir}")).hint(hint)
            }
            ReadError::TooLarge(most) => whole(format!("is larger than {most} bytes")),
        }
    }
}

/// Quotes a word for a shell command.
#[doc(hidden)]
#[must_use]
pub fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns whether this is root, or the user that the host runs as.
pub(super) fn is_user(uid: u32) -> bool {
    uid == 0 || paths::is_own(uid)
}

/// Returns the rules for reading a policy with this owner.
pub(super) fn rules(owner: fn(u32) -> bool) -> ReadRules {
    ReadRules { largest: LARGEST, follows_links: false, owner: Some(owner) }
}

/// Returns whether this is root, or the user who installed the host.
fn is_admin(uid: u32) -> bool {
    uid == 0 || paths::program_owner() == Some(uid)
}

/// Returns whether this is root, the user who installed the host, or the user that it runs as.
fn is_admin_or_own(uid: u32) -> bool {
    is_admin(uid) || paths::is_own(uid)
}

/// Returns whether the error means that the file does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the metadata of a file, or `None` if it changed so recently that its times prove
/// nothing.
fn identity(path: &Path) -> Option<FileStamp> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_missing(&error) => return Some(FileStamp::Missing),
        Err(_) => return None,
    };
    if !paths::has_settled(&metadata) {
        return None;
    }
    let number = |value: u64| value.cast_signed();
    Some(FileStamp::There([
        number(metadata.dev()),
        number(metadata.ino()),
        number(metadata.size()),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
        i64::from(metadata.mode()),
        i64::from(metadata.uid()),
    ]))
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
