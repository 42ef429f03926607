//! Compiled components on disk.
//!
//! `components/FINGERPRINT/DIGEST.CHECKSUM.cwasm`: the fingerprint is the
//! engine's, the digest the component's, and the checksum (BLAKE3) that of the
//! compiled file itself, so that one rename publishes both and a file that is
//! not what was written is never loaded. An entry that fails any check is as
//! good as none.
//!
//! Compiled code is machine code: loading it is trusting it. Only files and
//! directories that nobody else can write to are read at all.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::Digest;
use crate::places;

/// Where compiled components are kept.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// Filled by the installation; only read.
    system: Option<PathBuf>,
    /// Read and written.
    own: Option<PathBuf>,
    /// Whether others may read what is written to `own`.
    shared: bool,
}

impl Cache {
    /// A cache over these directories. `system` is used if it belongs to root or
    /// to the owner of the running program, `user` if it belongs to the user;
    /// either only if nobody else may write there. A missing `user` is made.
    #[must_use]
    pub fn open(system: Option<&Path>, user: Option<&Path>) -> Self {
        let system = system.filter(|dir| dir.is_dir()).and_then(|dir| trusted(dir, installer()));
        let user = user.and_then(|dir| {
            if let Err(error) = places::make_private(dir) {
                places::say_uncached(dir, &error);
                return None;
            }
            trusted(dir, places::is_own)
        });
        Self { system, own: user, shared: false }
    }

    /// The cache of an installation, to be filled by whoever installs and read by
    /// every user. A missing directory is made.
    ///
    /// # Errors
    ///
    /// The directory cannot be made, or others may write to it.
    pub fn to_install(dir: &Path) -> io::Result<Self> {
        places::make_shared(dir)?;
        let own = trusted(dir, places::is_own).ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(Self { system: None, own: Some(own), shared: true })
    }

    /// The entry, if there is one and it is intact.
    pub(super) fn load(
        &self,
        engine: &Engine,
        fingerprint: u64,
        digest: &Digest,
    ) -> Option<Component> {
        let load = |dir: &Option<PathBuf>, owner: &dyn Fn(u32) -> bool| {
            load_from(dir.as_deref()?, owner, engine, fingerprint, digest)
        };
        load(&self.system, &installer()).or_else(|| load(&self.own, &places::is_own))
    }

    /// Keeps a compiled component. That it could not be kept is said once and
    /// stops nothing.
    pub(super) fn store(&self, component: &Component, fingerprint: u64, digest: &Digest) {
        let Some(dir) = &self.own else { return };
        let keep = || -> io::Result<()> {
            let code = component.serialize().map_err(io::Error::other)?;
            let dir = entries(dir, fingerprint);
            let mode = if self.shared { 0o644 } else { 0o600 };
            if self.shared {
                places::make_shared(&dir)?
            } else {
                places::make_private(&dir)?
            }
            let mut file = tempfile::NamedTempFile::new_in(&dir)?;
            file.write_all(&code)?;
            // Not left to the umask, which an installer may have set to anything.
            file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
            file.persist(dir.join(entry_name(digest, &blake3::hash(&code))))?;
            Ok(())
        };
        if let Err(error) = keep() {
            places::say_uncached(dir, &error);
        }
    }
}

fn entries(dir: &Path, fingerprint: u64) -> PathBuf {
    dir.join("components").join(format!("{fingerprint:016x}"))
}

fn entry_name(digest: &Digest, checksum: &blake3::Hash) -> String {
    format!("{digest}.{checksum}.cwasm")
}

/// Who may have filled the cache of an installation: root, or the owner of the
/// running program.
fn installer() -> impl Fn(u32) -> bool {
    let owner = places::program_owner();
    move |uid| uid == 0 || Some(uid) == owner
}

fn load_from(
    dir: &Path,
    owner: &dyn Fn(u32) -> bool,
    engine: &Engine,
    fingerprint: u64,
    digest: &Digest,
) -> Option<Component> {
    let prefix = format!("{digest}.");
    let dir = entries(dir, fingerprint);
    let listing = fs::read_dir(&dir).ok()?;
    for level in [dir.parent()?, &dir] {
        trusted(level, owner)?;
    }
    for entry in listing.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(&prefix)) else {
            continue;
        };
        let Some(checksum) = rest.strip_suffix(".cwasm") else {
            continue;
        };
        match load_entry(&entry.path(), owner, engine, checksum) {
            Ok(component) => return Some(component),
            Err(error) => {
                tracing::warn!("compiling anew: the cached `{}` {error}", entry.path().display());
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
) -> Result<Component, String> {
    // By pieces: a short process would spend more on pages for the whole file than
    // on reading and hashing it, and one with Python in it a hundred megabytes.
    let mut hasher = blake3::Hasher::new();
    places::open_trusted(path, owner)
        .and_then(|file| hasher.update_reader(file).map(drop))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if hasher.finalize().to_hex().as_str() != checksum {
        return Err("is not what was written there".to_owned());
    }
    // SAFETY: this is the unsafe deserializer of wasmtime, which trusts its input.
    // The file carries the checksum that this host gave it when it compiled it,
    // and lies, as it was just opened, in a directory where only its user, root or
    // the program's owner could have put it. It is mapped rather than copied: only the pages that run
    // are ever brought in.
    unsafe { Component::deserialize_file(engine, path) }
        .map_err(|error| format!("does not load: {error:#}"))
}

/// The directory, if it is safe to load code from; said if it is not.
fn trusted(dir: &Path, owner: impl Fn(u32) -> bool) -> Option<PathBuf> {
    let safe = places::is_trusted(dir, owner);
    if !safe {
        tracing::warn!(
            "not using the cache `{}`: it must be a directory of yours that nobody else can \
             write to (chmod go-w)",
            dir.display()
        );
    }
    safe.then(|| dir.to_owned())
}
