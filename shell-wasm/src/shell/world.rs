//! The file tree that the shell sees. It consists of the granted directories under their absolute
//! names, a `/tmp` in memory that ends with the call, the devices a script expects, and a name for
//! each command in `/usr/bin`.
//!
//! No other path can be reached. Reading one reports that it does not exist, and writing one that
//! it is denied, whether there is a file or not.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use bashkit::{
    DirEntry, FileSystem, FileSystemExt, FileType, FsLimits, InMemoryFs, Metadata, Result,
    async_trait, normalize_path,
};
use wasip2::filesystem::types::{Descriptor, ErrorCode};

use super::errno::{missing, outside, strerror};
use super::granted::PreopenedDir;

/// The name under which the host preopens the workspace a second time.
const WORKSPACE: &str = ".";

/// The variable with the workspace's name.
const CURRENT_DIR: &str = "PWD";

/// The workspace's name if the host provides no other.
const NAMELESS_WORKSPACE: &str = "/workspace";

const TMP: &str = "/tmp";

/// The directories with a file for each command, so that `#!/usr/bin/env` and `which` find it.
const COMMAND_DIRS: [&str; 2] = ["/bin", "/usr/bin"];

/// The beginning of the file that stands for a command which the interpreter implements itself. The
/// text is the interpreter's convention.
const STUB_MARKER: &str = "#!/bin/sh\n# bashkit builtin: ";

const DEVICES: [(&str, Device); 5] = [
    ("/dev/null", Device::Null),
    ("/dev/zero", Device::Endless),
    ("/dev/full", Device::Full),
    ("/dev/random", Device::Endless),
    ("/dev/urandom", Device::Endless),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    Null,
    /// A device without an end, which cannot be read as a whole.
    Endless,
    Full,
}

/// The kind of place that a path leads to.
enum ResolvedPath<'w> {
    Granted(&'w PreopenedDir, String),
    Memory(PathBuf),
    Device(Device),
    Command(&'w str),
    /// A directory that exists only because something lies beneath it.
    Above(PathBuf),
    Outside,
}

/// The directories whose files are always the shell's own. The user is not asked about the
/// machine's files there, because the shell constantly looks for commands in them.
const OWN_DIRS: [&str; 7] = ["/bin", "/dev", "/lib", "/proc", "/sbin", "/sys", "/usr"];

/// The file tree of the shell.
pub(super) struct World {
    granted: Vec<PreopenedDir>,
    /// The descriptor for paths that no grant covers, if the host has one. The host asks the user,
    /// who may allow access to them.
    beyond: Option<PreopenedDir>,
    workspace: Option<String>,
    tmp: InMemoryFs,
    commands: BTreeSet<String>,
}

impl World {
    /// Takes the preopened directories.
    pub(super) fn new(preopens: Vec<(Descriptor, String)>, commands: BTreeSet<String>) -> Self {
        let given = std::env::var(CURRENT_DIR).ok().filter(|path| path.starts_with('/'));
        let mut workspace = given.map(|path| clean(&path));
        // A root directory that cannot be read stands for paths that no grant covers.
        let (beyond, preopens): (Vec<_>, Vec<_>) = preopens
            .into_iter()
            .partition(|(dir, name)| name == "/" && !PreopenedDir::is_readable(dir));
        let beyond = beyond.into_iter().next().map(|(dir, name)| PreopenedDir::beyond(name, dir));
        let (named, relative): (Vec<_>, Vec<_>) =
            preopens.into_iter().partition(|(_, name)| name.starts_with('/'));
        let dot = relative.into_iter().find(|(_, name)| name == WORKSPACE).map(|(dir, _)| dir);
        let mut granted: Vec<PreopenedDir> =
            named.into_iter().map(|(dir, name)| PreopenedDir::new(clean(&name), dir)).collect();
        // A host that passes its own environment through has not set the variable for these
        // directories.
        let holds =
            |path: &String| granted.iter().any(|dir| Path::new(path).starts_with(&dir.name));
        if !workspace.as_ref().is_some_and(holds)
            && let Some(dot) = dot
        {
            granted.push(PreopenedDir::new(NAMELESS_WORKSPACE.to_owned(), dot));
            workspace = Some(NAMELESS_WORKSPACE.to_owned());
        }
        let tmp = InMemoryFs::with_limits(FsLimits::unlimited());
        for parent in granted.iter().filter_map(|dir| Path::new(&dir.name).parent()) {
            if parent.starts_with(TMP) {
                tmp.add_dir(parent, 0o755);
            }
        }
        Self { granted, beyond, workspace, tmp, commands }
    }

    /// Returns the directory in which the shell starts.
    pub(super) fn workspace(&self) -> &str {
        let is_there = |path: &&str| !matches!(self.place(Path::new(path)), ResolvedPath::Outside);
        self.workspace.as_deref().filter(is_there).unwrap_or("/")
    }

    fn place(&self, path: &Path) -> ResolvedPath<'_> {
        let path = normalize_path(path);
        let Some(text) = path.to_str() else { return ResolvedPath::Outside };
        let within =
            self.granted.iter().filter_map(|dir| Some((dir, path.strip_prefix(&dir.name).ok()?)));
        if let Some((dir, rest)) = within.max_by_key(|(dir, _)| dir.name.len()) {
            let rest = rest.to_str().unwrap_or_default();
            return ResolvedPath::Granted(
                dir,
                if rest.is_empty() { ".".into() } else { rest.into() },
            );
        }
        if path.starts_with(TMP) {
            return ResolvedPath::Memory(path);
        }
        if let Some((_, device)) = DEVICES.iter().find(|(name, _)| *name == text) {
            return ResolvedPath::Device(*device);
        }
        let dir_and_name = COMMAND_DIRS.iter().find_map(|dir| path.strip_prefix(dir).ok());
        let command = dir_and_name.and_then(|name| self.commands.get(name.to_str()?));
        match command {
            Some(name) => ResolvedPath::Command(name),
            None if self.known().any(|known| Path::new(known).starts_with(&path)) => {
                ResolvedPath::Above(path)
            }
            None => self.beyond(text),
        }
    }

    /// Returns the place of a path that nothing else covers.
    fn beyond(&self, path: &str) -> ResolvedPath<'_> {
        let is_own = OWN_DIRS.iter().any(|dir| Path::new(path).starts_with(dir));
        match (&self.beyond, path.strip_prefix('/')) {
            (Some(beyond), Some(rest)) if !is_own => ResolvedPath::Granted(beyond, rest.to_owned()),
            _ => ResolvedPath::Outside,
        }
    }

    /// Returns the names of the granted directories, the devices and the shell's own directories.
    fn known(&self) -> impl Iterator<Item = &str> {
        let granted = self.granted.iter().map(|dir| dir.name.as_str());
        let devices = DEVICES.iter().map(|(name, _)| *name);
        granted.chain(devices).chain(COMMAND_DIRS).chain([TMP])
    }

    /// Returns the names in `dir` that lead to a known path.
    fn names_above(&self, dir: &Path) -> BTreeSet<String> {
        let beneath = self.known().filter_map(|known| Path::new(known).strip_prefix(dir).ok());
        let first = |rest: &Path| Some(rest.iter().next()?.to_str()?.to_owned());
        beneath.filter_map(first).collect()
    }

    /// Returns the error for a change that no place of this kind allows.
    fn refusal(place: &ResolvedPath<'_>) -> io::Error {
        match place {
            ResolvedPath::Above(_) => strerror(ErrorCode::IsDirectory),
            _ => outside(),
        }
    }

    /// Creates a second name for a file.
    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.place(from), self.place(to)) {
            (ResolvedPath::Granted(dir, from), ResolvedPath::Granted(other, to)) => {
                dir.link(&from, other, &to)
            }
            (ResolvedPath::Memory(_), ResolvedPath::Memory(_)) => {
                Err(strerror(ErrorCode::Unsupported))
            }
            (ResolvedPath::Outside, _) | (_, ResolvedPath::Outside) => Err(outside()),
            _ => Err(strerror(ErrorCode::CrossDevice)),
        }
    }

    /// Moves a file between two places that no single system call reaches.
    async fn carry(&self, from: &Path, to: &Path) -> Result<()> {
        let metadata = self.stat(from).await?;
        match metadata.file_type {
            FileType::Directory => {
                self.mkdir(to, false).await?;
                for entry in self.read_dir(from).await? {
                    Box::pin(self.carry(&from.join(&entry.name), &to.join(&entry.name))).await?;
                }
            }
            FileType::Symlink => self.symlink(&self.read_link(from).await?, to).await?,
            FileType::File | FileType::Fifo => self.copy(from, to).await?,
        }
        self.remove(from, false).await
    }
}

/// Returns `true` for the interpreter's temporary name for a file that is about to replace another.
/// Without that name, the interpreter writes to the file itself, which keeps its mode. WASI could
/// not restore the mode.
fn is_replacement(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(".bashkit-") && name.ends_with(".tmp")
}

fn clean(name: &str) -> String {
    normalize_path(Path::new(name)).to_string_lossy().into_owned()
}

fn plain(file_type: FileType, size: usize, mode: u32) -> Metadata {
    Metadata { file_type, size: size as u64, mode, modified: UNIX_EPOCH, created: UNIX_EPOCH }
}

fn directory() -> Metadata {
    plain(FileType::Directory, 0, 0o555)
}

fn stub(command: &str) -> Vec<u8> {
    format!("{STUB_MARKER}{command}\nexec {command} \"$@\"\n").into_bytes()
}

#[async_trait]
impl FileSystem for World {
    async fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.read(&rest)?),
            ResolvedPath::Memory(path) => self.tmp.read_file(&path).await,
            ResolvedPath::Device(Device::Null) => Ok(Vec::new()),
            ResolvedPath::Device(_) => {
                let text = "has no end; this shell reads it with `head -c` only";
                Err(io::Error::new(io::ErrorKind::Unsupported, text).into())
            }
            ResolvedPath::Command(name) => Ok(stub(name)),
            ResolvedPath::Outside => Err(missing().into()),
            place => Err(Self::refusal(&place).into()),
        }
    }

    async fn write_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.write(&rest, content)?),
            ResolvedPath::Memory(path) => self.tmp.write_file(&path, content).await,
            ResolvedPath::Device(Device::Full) if !content.is_empty() => {
                Err(strerror(ErrorCode::InsufficientSpace).into())
            }
            ResolvedPath::Device(_) => Ok(()),
            place => Err(Self::refusal(&place).into()),
        }
    }

    async fn append_file(&self, path: &Path, content: &[u8]) -> Result<()> {
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.append(&rest, content)?),
            ResolvedPath::Memory(path) => self.tmp.append_file(&path, content).await,
            _ => self.write_file(path, content).await,
        }
    }

    async fn mkdir(&self, path: &Path, recursive: bool) -> Result<()> {
        if recursive {
            if let Ok(metadata) = self.stat(path).await {
                let exists = strerror(ErrorCode::Exist);
                return if metadata.file_type.is_dir() { Ok(()) } else { Err(exists.into()) };
            }
            if let Some(parent) = path.parent() {
                Box::pin(self.mkdir(parent, true)).await?;
            }
        }
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.make_dir(&rest)?),
            ResolvedPath::Memory(path) => self.tmp.mkdir(&path, false).await,
            ResolvedPath::Outside => Err(outside().into()),
            _ => Err(strerror(ErrorCode::Exist).into()),
        }
    }

    async fn remove(&self, path: &Path, recursive: bool) -> Result<()> {
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.remove(&rest, recursive)?),
            ResolvedPath::Memory(path) => self.tmp.remove(&path, recursive).await,
            _ => Err(outside().into()),
        }
    }

    async fn stat(&self, path: &Path) -> Result<Metadata> {
        match self.place(path) {
            ResolvedPath::Granted(..) if is_replacement(path) => {
                Err(strerror(ErrorCode::Unsupported).into())
            }
            ResolvedPath::Granted(dir, rest) => Ok(dir.stat(&rest)?),
            ResolvedPath::Memory(path) => self.tmp.stat(&path).await,
            ResolvedPath::Device(_) => Ok(plain(FileType::File, 0, 0o666)),
            ResolvedPath::Command(name) => Ok(plain(FileType::File, stub(name).len(), 0o555)),
            ResolvedPath::Above(_) => Ok(directory()),
            ResolvedPath::Outside => Err(missing().into()),
        }
    }

    async fn read_dir(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let mut entries = match self.place(path) {
            ResolvedPath::Granted(dir, rest) => dir.entries(&rest)?,
            ResolvedPath::Memory(path) => self.tmp.read_dir(&path).await?,
            ResolvedPath::Device(_) | ResolvedPath::Command(_) => {
                return Err(strerror(ErrorCode::NotDirectory).into());
            }
            ResolvedPath::Above(dir)
                if COMMAND_DIRS.iter().any(|known| dir == Path::new(known)) =>
            {
                let entry = |name: &String| DirEntry {
                    name: name.clone(),
                    metadata: plain(FileType::File, stub(name).len(), 0o555),
                };
                self.commands.iter().map(entry).collect()
            }
            ResolvedPath::Above(_) => Vec::new(),
            ResolvedPath::Outside => return Err(missing().into()),
        };
        let path = normalize_path(path);
        for name in self.names_above(&path) {
            if !entries.iter().any(|entry| entry.name == name) {
                let metadata = self.stat(&path.join(&name)).await?;
                entries.push(DirEntry { name, metadata });
            }
        }
        Ok(entries)
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        match self.stat(path).await {
            Ok(_) => Ok(true),
            Err(bashkit::Error::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match (self.place(from), self.place(to)) {
            (ResolvedPath::Granted(dir, old), ResolvedPath::Granted(other, new)) => {
                match dir.rename(&old, other, &new) {
                    Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                        self.carry(from, to).await
                    }
                    done => Ok(done?),
                }
            }
            (ResolvedPath::Memory(old), ResolvedPath::Memory(new)) => {
                self.tmp.rename(&old, &new).await
            }
            (
                ResolvedPath::Granted(..) | ResolvedPath::Memory(_),
                ResolvedPath::Granted(..) | ResolvedPath::Memory(_),
            ) => self.carry(from, to).await,
            _ => Err(outside().into()),
        }
    }

    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.write_file(to, &self.read_file(from).await?).await
    }

    async fn symlink(&self, target: &Path, link: &Path) -> Result<()> {
        match self.place(link) {
            ResolvedPath::Granted(dir, rest) => {
                let target = target.to_str().ok_or_else(|| strerror(ErrorCode::Invalid))?;
                Ok(dir.symlink(target, &rest)?)
            }
            ResolvedPath::Memory(path) => self.tmp.symlink(target, &path).await,
            ResolvedPath::Outside => Err(outside().into()),
            _ => Err(strerror(ErrorCode::Exist).into()),
        }
    }

    async fn read_link(&self, path: &Path) -> Result<PathBuf> {
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.read_link(&rest)?),
            ResolvedPath::Memory(path) => self.tmp.read_link(&path).await,
            ResolvedPath::Outside => Err(missing().into()),
            _ => Err(strerror(ErrorCode::Invalid).into()),
        }
    }

    async fn chmod(&self, path: &Path, mode: u32) -> Result<()> {
        match self.place(path) {
            // WASI has no modes: reporting success would be wrong.
            ResolvedPath::Granted(..) => Err(strerror(ErrorCode::Unsupported).into()),
            ResolvedPath::Memory(path) => self.tmp.chmod(&path, mode).await,
            _ => Err(outside().into()),
        }
    }

    async fn set_modified_time(&self, path: &Path, time: SystemTime) -> Result<()> {
        match self.place(path) {
            ResolvedPath::Granted(dir, rest) => Ok(dir.set_modified(&rest, time)?),
            ResolvedPath::Memory(path) => self.tmp.set_modified_time(&path, time).await,
            _ => Err(outside().into()),
        }
    }
}

#[async_trait]
impl FileSystemExt for World {
    fn backend_kind(&self) -> &'static str {
        "granted directories"
    }
}
