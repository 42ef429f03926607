//! Compiled components on disk.
//!
//! `components/FINGERPRINT/DIGEST.CHECKSUM.cwasm`: the fingerprint is the
//! engine's, the digest the component's, and the checksum (BLAKE3) that of the
//! compiled file itself, so that one rename publishes both and a file that is
//! not what was written is never loaded. An entry that fails any check is as
//! good as none.
//!
//! Compiled code is machine code: loading it is trusting it. Only directories
//! that nobody else can write to are read at all.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

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
        let system = system.filter(|dir| dir.is_dir()).and_then(|dir| {
            let owner = places::program_owner();
            trusted(dir, |uid| uid == 0 || Some(uid) == owner)
        });
        let user = user.and_then(|dir| {
            if let Err(error) = places::make_private(dir) {
                say_uncached(dir, &error);
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
        let dirs = [&self.system, &self.own];
        dirs.into_iter().flatten().find_map(|dir| load_from(dir, engine, fingerprint, digest))
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
            say_uncached(dir, &error);
        }
    }
}

fn entries(dir: &Path, fingerprint: u64) -> PathBuf {
    dir.join("components").join(format!("{fingerprint:016x}"))
}

fn entry_name(digest: &Digest, checksum: &blake3::Hash) -> String {
    format!("{digest}.{checksum}.cwasm")
}

fn load_from(dir: &Path, engine: &Engine, fingerprint: u64, digest: &Digest) -> Option<Component> {
    let prefix = format!("{digest}.");
    for entry in fs::read_dir(entries(dir, fingerprint)).ok()?.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(&prefix)) else {
            continue;
        };
        let Some(checksum) = rest.strip_suffix(".cwasm") else {
            continue;
        };
        match load_entry(&entry.path(), engine, checksum) {
            Ok(component) => return Some(component),
            Err(error) => {
                tracing::warn!("compiling anew: the cached `{}` {error}", entry.path().display());
                // It may be in a directory that is not ours to clean; then it stays.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    None
}

fn load_entry(path: &Path, engine: &Engine, checksum: &str) -> Result<Component, String> {
    let code = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    if blake3::hash(&code).to_hex().as_str() != checksum {
        return Err("is not what was written there".to_owned());
    }
    drop(code);
    // SAFETY: this is the unsafe deserializer of wasmtime, which trusts its input.
    // The file carries the checksum that this host gave it when it compiled it,
    // and lies in a directory where only its user, root or the program's owner
    // could have put it. It is mapped rather than copied: only the pages that run
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

fn say_uncached(dir: &Path, error: &io::Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::warn!(
            "compiled components are not kept, each run compiles anew: `{}`: {error}",
            dir.display()
        );
    });
}
