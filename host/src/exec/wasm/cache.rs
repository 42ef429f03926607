//! The cache of compiled components on disk.
//!
//! An entry is `components/FINGERPRINT/DIGEST.CHECKSUM.cwasm`. The fingerprint identifies the
//! engine, the digest the component, and the checksum (BLAKE3) the compiled file. So one rename
//! publishes file and checksum, and a changed file is never loaded. An entry that fails a check is
//! ignored, and removed if the host may. Each tier of code has a fingerprint for each engine, so
//! they never meet. `DIGEST.lock` exists while a host compiles the component. In the optimised tier,
//! `DIGEST.unoptimised` exists if an attempt to make its code failed, and has the reason. A process
//! that compiles behind the calls of a host has a lock on `components/behind.lock`.
//!
//! Compiled code is machine code: loading it is trusting it. So the cache reads only files and
//! directories that no other user can write to. The caller names no directory in which a tool could
//! write in an earlier run.

#[cfg(feature = "compiler")]
mod behind;
mod lock;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ikigai_protocol::Digest;
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use wasmtime::Engine;

use super::instance_memory::InstanceMemory;
use super::program::LoadedCode;
use crate::paths;

use self::lock::try_lock;
pub(super) use self::lock::{CompileLock, LockTimeouts};

/// A component or core module whose compiled code is loaded.
pub(super) struct CompiledProgram {
    pub(super) code: LoadedCode,
    pub(super) instances: InstanceMemory,
}

/// A cache of compiled components.
#[derive(Clone, Debug, Default)]
pub struct ComponentCache {
    /// The directory that the installation has filled; only read.
    system: Option<PathBuf>,
    /// The directory that is read and written.
    own: Option<PathBuf>,
    /// True if others may read the files that are written to `own`.
    shared: bool,
}

impl ComponentCache {
    /// Opens a cache over these directories. `system` is used if it belongs to root or to the owner
    /// of the running program, `user` if it belongs to the user. Either is used only if no other
    /// user may write there. A missing `user` is made.
    #[must_use]
    pub fn open(system: Option<&Path>, user: Option<&Path>) -> Self {
        let system = system.filter(|dir| dir.is_dir()).and_then(|dir| trusted(dir, installer()));
        let user = user.and_then(|dir| {
            if let Err(error) = paths::make_private(dir) {
                paths::log_uncached(dir, &error);
                return None;
            }
            trusted(dir, paths::is_own)
        });
        Self { system, own: user, shared: false }
    }

    /// Opens the cache of an installation, which its installer fills and every user reads. A
    /// missing directory is made.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be made, or if others may write to it.
    pub fn to_install(dir: &Path) -> io::Result<Self> {
        paths::make_shared(dir)?;
        let own = trusted(dir, paths::is_own).ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(Self { system: None, own: Some(own), shared: true })
    }

    /// Returns the directory for code of the baseline, which belongs to a user. An installation has
    /// only optimised code, because its users could not replace it.
    pub(super) fn for_baseline(&self) -> Option<&Path> {
        self.own.as_deref().filter(|_| !self.shared)
    }

    /// Loads the entry, if there is one and it is intact.
    pub(super) fn load(
        &self,
        engine: &Engine,
        fingerprint: u64,
        digest: &Digest,
    ) -> Option<CompiledProgram> {
        let load = |dir: &Option<PathBuf>, owner: &dyn Fn(u32) -> bool, damaged: Damaged| {
            load_from(dir.as_deref()?, owner, engine, fingerprint, digest, damaged)
        };
        load(&self.system, &installer(), Damaged::Stays)
            .or_else(|| load(&self.own, &paths::is_own, Damaged::Goes))
    }

    /// Returns whether there is an entry, which may be damaged.
    pub(super) fn holds(&self, fingerprint: u64, digest: &Digest) -> bool {
        let dirs = [&self.system, &self.own];
        let mut dirs = dirs.into_iter().flatten().map(|dir| entries(dir, fingerprint));
        dirs.any(|dir| named(&dir, digest).next().is_some())
    }

    /// Returns the reason that the last attempt to make the optimised code of a component failed,
    /// until it is time for another one.
    pub(super) fn why_unoptimised(&self, fingerprint: u64, digest: &Digest) -> Option<String> {
        let path = entries(self.own.as_deref()?, fingerprint).join(unoptimised(digest));
        is_younger(&path, NEXT_ATTEMPT).then(|| fs::read_to_string(path).ok()).flatten()
    }

    /// Takes the right to compile for this cache in the background of a host's calls. It lasts
    /// until the file is closed. Returns nothing while another process has it.
    ///
    /// # Errors
    ///
    /// Fails if this host has no cache, or the cache cannot be written.
    pub(super) fn lock_behind(&self) -> io::Result<Option<File>> {
        let dir = self.own.as_deref().ok_or(io::ErrorKind::NotFound)?.join("components");
        paths::make_private(&dir)?;
        try_lock(&dir.join("behind.lock"))
    }

    /// Stores compiled code, and returns its file. A failure is logged once and stops nothing.
    pub(super) fn store(&self, code: &File, fingerprint: u64, digest: &Digest) -> Option<File> {
        let dir = self.own.as_deref()?;
        let keep = || -> io::Result<File> {
            let dir = self.make_entries(dir, fingerprint)?;
            let mode = if self.shared { 0o644 } else { 0o600 };
            let mut file = unfinished(&dir)?;
            let mut copied =
                ChecksumWriter { file: file.as_file_mut(), hasher: blake3::Hasher::new() };
            io::copy(&mut FileReader::from_file(code), &mut copied)?;
            let checksum = copied.hasher.finalize();
            // The umask does not decide it: an installer may have set the umask to anything.
            file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
            Ok(file.persist(dir.join(entry_name(digest, &checksum)))?)
        };
        keep().map_err(|error| paths::log_uncached(dir, &error)).ok()
    }

    fn make_entries(&self, dir: &Path, fingerprint: u64) -> io::Result<PathBuf> {
        let dir = entries(dir, fingerprint);
        if self.shared {
            paths::make_shared(&dir)?;
        } else {
            paths::make_private(&dir)?;
        }
        Ok(dir)
    }

    /// Waits until no other host compiles this component into this cache, and keeps others from
    /// beginning while the lock lives. If a process takes longer than `patience`, the wait ends,
    /// and two may compile the same. Returns nothing without a cache to find its code in, or once
    /// `goes_on` returns false.
    pub(super) fn lock_compilation(
        &self,
        fingerprint: u64,
        digest: &Digest,
        patience: LockTimeouts,
        goes_on: impl Fn() -> bool,
    ) -> Option<CompileLock> {
        let dir = self.own.as_deref()?;
        let take = || -> io::Result<Option<CompileLock>> {
            let path = self.make_entries(dir, fingerprint)?.join(format!("{digest}.lock"));
            CompileLock::wait_for(path, digest, patience, goes_on)
        };
        take().map_err(|error| paths::log_uncached(dir, &error)).ok().flatten()
    }
}

/// A reader of a file from its beginning. The position of the descriptor does not matter.
struct FileReader<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> FileReader<'a> {
    fn from_file(file: &'a File) -> Self {
        Self { file, at: 0 }
    }
}

impl io::Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A writer of a file that computes the file's checksum.
struct ChecksumWriter<'a> {
    file: &'a mut File,
    hasher: blake3::Hasher,
}

impl io::Write for ChecksumWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn entries(dir: &Path, fingerprint: u64) -> PathBuf {
    dir.join("components").join(format!("{fingerprint:016x}"))
}

fn entry_name(digest: &Digest, checksum: &blake3::Hash) -> String {
    format!("{digest}.{checksum}.cwasm")
}

fn unoptimised(digest: &Digest) -> String {
    format!("{digest}.unoptimised")
}

/// The beginning of the names of files that are not complete.
const UNFINISHED: &str = ".unfinished";

/// The time from a failed attempt to make optimised code to the next attempt. The process may have
/// had its parent's limits, or the machine may have been short of memory.
const NEXT_ATTEMPT: Duration = Duration::from_secs(60 * 60);

/// Returns a new file in a directory of entries. The file is deleted unless it gets a name.
fn unfinished(dir: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)
}

fn is_younger(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|elapsed| elapsed < age))
}

fn listed(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().map_or(Cow::Borrowed(""), |name| name.to_string_lossy())
}

/// Returns the entries of a component, with the checksums in their names.
fn named(dir: &Path, digest: &Digest) -> impl Iterator<Item = (PathBuf, String)> + use<> {
    let prefix = format!("{digest}.");
    listed(dir).filter_map(move |path| {
        let name = file_name(&path);
        let checksum = name.strip_prefix(&prefix)?.strip_suffix(".cwasm")?.to_owned();
        Some((path, checksum))
    })
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!("cannot remove `{}`: {error}", path.display());
    }
}

/// Returns a check of the user who filled the cache of an installation: it must be root, or the
/// owner of the running program.
fn installer() -> impl Fn(u32) -> bool {
    let owner = paths::program_owner();
    move |uid| uid == 0 || Some(uid) == owner
}

/// The fate of an entry that fails a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damaged {
    Stays,
    Goes,
}

fn load_from(
    dir: &Path,
    owner: &dyn Fn(u32) -> bool,
    engine: &Engine,
    fingerprint: u64,
    digest: &Digest,
    damaged: Damaged,
) -> Option<CompiledProgram> {
    let dir = entries(dir, fingerprint);
    if !dir.is_dir() {
        return None;
    }
    for dir in [dir.parent()?, &dir] {
        trusted(dir, owner)?;
    }
    for (path, checksum) in named(&dir, digest) {
        match load_entry(&path, owner, engine, &checksum) {
            Ok(component) => return Some(component),
            // Better code has replaced it since it was listed.
            Err(_) if !path.exists() => {}
            Err(error) => {
                tracing::warn!("compiling anew: the cached `{}` {error}", path.display());
                if damaged == Damaged::Goes {
                    remove(&path);
                }
            }
        }
    }
    None
}

fn load_entry(
    path: &Path,
    owner: &dyn Fn(u32) -> bool,
    engine: &Engine,
    checksum: &str,
) -> Result<CompiledProgram, String> {
    let file = paths::open_trusted(path, owner);
    let file = file.map_err(|error| format!("cannot be read: {error}"))?;
    // In pieces: a short process would spend more on pages for the whole file than on reading and
    // hashing it. A component with Python in it has a hundred megabytes.
    let mut hasher = blake3::Hasher::new();
    hasher
        .update_reader(FileReader::from_file(&file))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if hasher.finalize().to_hex().as_str() != checksum {
        return Err("is not what was written there".to_owned());
    }
    // SAFETY: the file has the checksum that this host gave it when it compiled it. It lies in a
    // directory where only its user, root or the program's owner could have put it.
    unsafe { load_open(engine, &file) }
}

/// Loads compiled code from an open file. It is mapped rather than copied: only the pages that
/// run are ever read.
///
/// # Safety
///
/// An engine with this one's fingerprint compiled the file, and only trusted users can write to it:
/// the code is not verified.
pub(super) unsafe fn load_open(engine: &Engine, file: &File) -> Result<CompiledProgram, String> {
    let instances = InstanceMemory::after_code_in(file);
    let instances = instances.map_err(|error| format!("cannot be read: {error}"))?;
    // wasmtime maps components by a path only. This path leads to the file that is open, even if
    // its name has been given to another.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: this function has the same conditions as wasmtime's.
    let loaded = unsafe { LoadedCode::from_file(engine, path.as_ref(), instances) };
    let loaded = match loaded {
        // No page of a file on `noexec` may run, but a copy of it may. Without `/proc`, the file has
        // no such path.
        Err(_) if is_noexec(file) || !Path::new(&path).exists() => {
            let mut code = Vec::new();
            let read = FileReader::from_file(file).read_to_end(&mut code);
            read.map_err(|error| format!("cannot be read: {error}"))?;
            // SAFETY: as above.
            unsafe { LoadedCode::from_bytes(engine, &code, instances) }
        }
        loaded => loaded,
    };
    let code = loaded.map_err(|error| format!("does not load: {error:#}"))?;
    Ok(CompiledProgram { code, instances })
}

/// Returns whether a file is on a file system that is mounted with `noexec`.
fn is_noexec(file: &File) -> bool {
    fstatvfs(file).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Returns the directory if it is safe to load code from, and logs a warning if it is not.
fn trusted(dir: &Path, owner: impl Fn(u32) -> bool) -> Option<PathBuf> {
    let safe = paths::is_trusted(dir, owner);
    if !safe {
        tracing::warn!(
            "not using the cache `{}`: it must be a directory that you own and that other users \
             cannot write to (chmod go-w)",
            dir.display()
        );
    }
    safe.then(|| dir.to_owned())
}
