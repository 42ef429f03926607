//! The policy files of one host: where they are, who may have written them, and
//! what they say now.
//!
//! Each is looked at again before every call, by its identity alone, and read again
//! where that changed. An edit that cannot be used leaves what was in force, and is
//! said once; but a ceiling that cannot be used lets nothing through.

use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

use super::parse::{self, BaseDirs};
use super::rule::{Layer, LayerKind};
use crate::paths;
use crate::toml_file::FileError;

/// More than any policy needs, in bytes.
const MOST: u64 = 1 << 20;

/// The same of a file that anybody may have written: the most that it can cost the
/// user is a fraction of a second, once.
const MOST_OF_WORKSPACE: u64 = 64 << 10;

/// A file that changed this lately could change again without its times moving, and
/// so is read again.
const SETTLED: Duration = Duration::from_millis(100);

/// Bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Where the files of the three layers are.
#[derive(Clone, Debug)]
pub struct PolicyFiles {
    /// The administrator's; need not exist.
    pub ceiling: Option<PathBuf>,
    /// Further ceilings; each must exist. Adding one can only narrow, so anybody may.
    pub further_ceilings: Vec<PathBuf>,
    /// The user's.
    pub user: Option<PathBuf>,
    /// Whether the user's was named, and so must exist.
    pub user_is_named: bool,
    /// The workspace, absolute and canonical; its file is `.ikigai/policy.toml`.
    pub workspace: PathBuf,
    /// What `~` stands for in a policy file.
    pub home: Option<PathBuf>,
    /// Where it is kept which directories tools could write in; nothing where nothing is.
    pub state: Option<PathBuf>,
}

/// Where the file of a workspace is, in it.
pub(super) const IN_WORKSPACE: &str = ".ikigai/policy.toml";

/// A file of the policy, and how it stands.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// Whose words it holds.
    pub kind: LayerKind,
    /// Where it is.
    pub path: PathBuf,
    /// Whether there is one.
    pub exists: bool,
    /// Why it is not in force as it stands; what it said before is.
    pub problem: Option<FileError>,
}

/// All layers as they are at one moment.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    pub(super) ceilings: Vec<Arc<Layer>>,
    pub(super) user: Arc<Layer>,
    pub(super) workspace: Arc<Layer>,
}

/// The files, and what was read of them last.
#[derive(Debug)]
pub(super) struct Live {
    base: BaseDirs,
    ceilings: Vec<Watched>,
    user: Option<Watched>,
    workspace: Watched,
}

#[derive(Debug)]
struct Watched {
    kind: LayerKind,
    path: PathBuf,
    must_exist: bool,
    owner: fn(u32) -> bool,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    /// None where the file must be read again in any case.
    identity: Option<Identity>,
    layer: Arc<Layer>,
    exists: bool,
    problem: Option<FileError>,
}

/// What changes when a file does, or who may write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Missing,
    There([i64; 9]),
}

impl Live {
    /// Reads all files.
    pub(super) fn open(files: &PolicyFiles) -> Result<Self, FileError> {
        let base = BaseDirs { workspace: files.workspace.clone(), home: files.home.clone() };
        let standing = files
            .ceiling
            .iter()
            .map(|path| Watched::new(LayerKind::Ceiling, path, false, is_admin));
        let further = files.further_ceilings.iter().map(|path| {
            Watched::new(LayerKind::Ceiling, path, true, |uid| is_admin(uid) || paths::is_own(uid))
        });
        let user = files.user.as_ref().map(|path| {
            Watched::new(LayerKind::User, path, files.user_is_named, |uid| {
                uid == 0 || paths::is_own(uid)
            })
        });
        let workspace = files.workspace.join(IN_WORKSPACE);
        let live = Self {
            base,
            ceilings: standing.chain(further).collect(),
            user,
            // Anybody's: it can only narrow.
            workspace: Watched::new(LayerKind::Workspace, &workspace, false, |_| true),
        };
        for file in live.files() {
            file.look(&live.base);
            if let Some(problem) = file.seen().problem.take() {
                return Err(problem);
            }
        }
        Ok(live)
    }

    /// What the files say now, or what they last said that can be used.
    ///
    /// # Errors
    ///
    /// A ceiling cannot be used.
    pub(super) fn current(&self) -> Result<Layers, FileError> {
        for file in self.files() {
            file.look(&self.base);
        }
        let mut ceilings = Vec::with_capacity(self.ceilings.len());
        for ceiling in &self.ceilings {
            let seen = ceiling.seen();
            if let Some(problem) = &seen.problem {
                return Err(problem.clone());
            }
            ceilings.push(Arc::clone(&seen.layer));
        }
        let workspace = Arc::clone(&self.workspace.seen().layer);
        Ok(Layers { ceilings, user: self.user(), workspace })
    }

    /// What the user's file said when it was last looked at.
    pub(super) fn user(&self) -> Arc<Layer> {
        match &self.user {
            Some(user) => Arc::clone(&user.seen().layer),
            None => Arc::new(Layer::empty(LayerKind::User, Path::new(""))),
        }
    }

    /// What paths in the files are relative to.
    pub(super) fn base(&self) -> &BaseDirs {
        &self.base
    }

    /// Where the user's file is, or would be.
    pub(super) fn user_file(&self) -> Result<&Path, FileError> {
        let missing = || {
            FileError::whole(Path::new(paths::POLICY), "there is no home to keep a policy in")
                .hint("name a file with --policy")
        };
        Ok(&self.user.as_ref().ok_or_else(missing)?.path)
    }

    /// What is wrong with files that are not in force as they stand.
    pub(super) fn problems(&self) -> Vec<(LayerKind, FileError)> {
        let problem = |file: &Watched| Some((file.kind, file.seen().problem.clone()?));
        self.files().filter_map(problem).collect()
    }

    /// Each file, and how it stood when it was last looked at.
    pub(super) fn statuses(&self) -> Vec<FileStatus> {
        let file = |file: &Watched| {
            let seen = file.seen();
            FileStatus {
                kind: file.kind,
                path: file.path.clone(),
                exists: seen.exists,
                problem: seen.problem.clone(),
            }
        };
        self.files().map(file).collect()
    }

    fn files(&self) -> impl Iterator<Item = &Watched> {
        self.ceilings.iter().chain(&self.user).chain([&self.workspace])
    }
}

impl Watched {
    fn new(kind: LayerKind, path: &Path, must_exist: bool, owner: fn(u32) -> bool) -> Self {
        let seen = Seen {
            identity: None,
            layer: Arc::new(Layer::empty(kind, path)),
            exists: false,
            problem: None,
        };
        Self { kind, path: path.to_owned(), must_exist, owner, seen: Mutex::new(seen) }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again if it is not the one that was read.
    fn look(&self, base: &BaseDirs) {
        let identity = identity(&self.path);
        let mut seen = self.seen();
        if identity.is_some() && seen.identity == identity {
            return;
        }
        seen.identity = identity;
        match self.read(base) {
            Ok(layer) => {
                if seen.problem.take().is_some() {
                    tracing::info!("`{}` is in force again", self.path.display());
                }
                seen.exists = layer.is_some();
                seen.layer = Arc::new(layer.unwrap_or_else(|| Layer::empty(self.kind, &self.path)));
            }
            Err(problem) if seen.problem.as_ref() == Some(&problem) => {}
            Err(problem) => {
                seen.exists = true;
                seen.problem = Some(problem);
            }
        }
    }

    fn read(&self, base: &BaseDirs) -> Result<Option<Layer>, FileError> {
        let refused = |what: String| FileError::whole(&self.path, what);
        let (file, metadata) = match paths::open_regular(&self.path) {
            Ok(opened) => opened,
            Err(error) if is_missing(&error) && !self.must_exist => return Ok(None),
            Err(_) if self.is_elsewhere() => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(refused("is a symbolic link, which a policy must not be".to_owned())
                    .hint("put the file itself there, or name it with --policy"));
            }
            Err(error) => return Err(refused(format!("cannot be read: {error}"))),
        };
        if self.kind != LayerKind::Workspace {
            self.check_writers(&metadata)?;
        }
        let most = if self.kind == LayerKind::Workspace { MOST_OF_WORKSPACE } else { MOST };
        let mut text = Vec::new();
        file.take(most + 1)
            .read_to_end(&mut text)
            .map_err(|error| refused(format!("cannot be read: {error}")))?;
        if text.len() as u64 > most {
            return Err(refused(format!("is larger than {most} bytes")));
        }
        parse::parse(self.kind, &self.path, &text, base).map(Some)
    }

    /// Whether the user may not even look where its policy would be: that home is
    /// another's, as under `sudo -u`.
    fn is_elsewhere(&self) -> bool {
        static ONCE: Once = Once::new();
        let denied = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        let is_elsewhere = self.kind == LayerKind::User
            && !self.must_exist
            && fs::symlink_metadata(&self.path).is_err_and(denied);
        if is_elsewhere {
            ONCE.call_once(|| {
                tracing::warn!(
                    "no policy of yours: `{}` is in a directory that you may not enter",
                    self.path.display()
                );
            });
        }
        is_elsewhere
    }

    /// Whoever may write a policy decides what tools may do.
    fn check_writers(&self, file: &Metadata) -> Result<(), FileError> {
        let refused = |what: &str| FileError::whole(&self.path, format!("is refused: {what}"));
        let not_theirs = "whoever owns a policy, or a directory on the way to it, decides what \
                          tools may do";
        let closing = |path: &Path| format!("chmod go-w {}", quoted(&path.to_string_lossy()));
        if !(self.owner)(file.uid()) {
            let what = format!("it belongs to another user (id {})", file.uid());
            return Err(refused(&what).hint(not_theirs));
        }
        if file.mode() & OTHERS_WRITE != 0 {
            let what = format!("others may write to it (mode {:04o})", file.mode() & 0o7777);
            return Err(refused(&what).hint(closing(&self.path)));
        }
        paths::check_way(&self.path, self.owner).map_err(|way| {
            let hint = if way.is_writable { closing(&way.dir) } else { not_theirs.to_owned() };
            refused(&way.reason).hint(hint)
        })
    }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Root, and whoever installed the host.
fn is_admin(uid: u32) -> bool {
    uid == 0 || paths::program_owner() == Some(uid)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// None where the file has changed so lately that its times say nothing.
fn identity(path: &Path) -> Option<Identity> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_missing(&error) => return Some(Identity::Missing),
        Err(_) => return None,
    };
    let changed = SystemTime::UNIX_EPOCH.checked_add(Duration::new(
        u64::try_from(metadata.ctime()).unwrap_or(0),
        u32::try_from(metadata.ctime_nsec()).unwrap_or(0),
    ))?;
    if SystemTime::now().duration_since(changed).is_ok_and(|age| age <= SETTLED) {
        return None;
    }
    let number = |value: u64| value.cast_signed();
    Some(Identity::There([
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
