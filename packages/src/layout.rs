//! OCI image layouts: directories with artifacts and their attachments, for machines without a
//! network. The specification is image-layout.md of opencontainers/image-spec.
//!
//! A layout may come from an untrusted source. So each file is read within its bounds, and only if
//! its digest is the one in its name.

mod error;

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde_json::json;
use tempfile::NamedTempFile;

pub use error::LayoutError;

use crate::draft::draft_in;
use crate::harmless;
use crate::oci::{
    Attached, ContentSource, Descriptor, Index, LARGEST_MANIFEST, ManifestOrIndex, OciError,
    Packed, Referrer, ToolArtifact,
};
use crate::open_regular;
use crate::reference::Pointer;

/// The file that marks a directory as a layout, and its contents.
const MARK: &str = "oci-layout";
const VERSION: &str = "1.0.0";
const INDEX: &str = "index.json";

/// The annotation that contains the name of an entry.
const NAME: &str = "org.opencontainers.image.ref.name";

/// The longest wait for another process that adds to a layout, which takes only milliseconds.
const WAIT: Duration = Duration::from_secs(10);

/// The pause between two attempts to lock a layout.
const PAUSE: Duration = Duration::from_millis(20);

/// A layout.
#[derive(Clone, Debug)]
pub struct OciLayout {
    directory: PathBuf,
}

impl OciLayout {
    /// Opens a layout.
    ///
    /// # Errors
    ///
    /// Fails if the directory is not a layout, or if its version is not supported.
    pub fn open(directory: &Path) -> Result<Self, LayoutError> {
        let layout = Self { directory: directory.to_owned() };
        let path = directory.join(MARK);
        let text =
            read(&path, LARGEST_MANIFEST).map_err(|error| LayoutError::file(&path, error))?;
        let mark: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        match mark["imageLayoutVersion"].as_str() {
            Some(VERSION) => Ok(layout),
            version => Err(LayoutError::Version {
                path,
                version: harmless::line(version.unwrap_or("none")),
            }),
        }
    }

    /// Turns an empty directory into a layout, or opens an existing layout.
    ///
    /// # Errors
    ///
    /// Fails if the directory has other files, or cannot be written to.
    pub fn create(directory: &Path) -> Result<Self, LayoutError> {
        let failed = |error| LayoutError::file(directory, error);
        if directory.join(MARK).exists() {
            return Self::open(directory);
        }
        fs::create_dir_all(directory).map_err(failed)?;
        if fs::read_dir(directory).map_err(failed)?.next().is_some() {
            return Err(LayoutError::NotEmpty(directory.to_owned()));
        }
        let layout = Self { directory: directory.to_owned() };
        fs::create_dir_all(layout.blobs()).map_err(failed)?;
        layout.write_index(&Index::new(Vec::new()))?;
        // Written last, so that an incomplete directory does not count as a layout.
        let mark = json!({ "imageLayoutVersion": VERSION }).to_string();
        place(&directory.join(MARK), mark.as_bytes())?;
        Ok(layout)
    }

    /// Returns the names of the artifacts and the descriptors of their manifests. Attachments to
    /// other manifests are left out.
    ///
    /// # Errors
    ///
    /// Fails if the index cannot be read.
    pub fn entries(&self) -> Result<Vec<(Option<String>, Descriptor)>, LayoutError> {
        let index = self.index()?;
        let named = index.manifests.into_iter().filter_map(|entry| {
            let name = entry.annotations.get(NAME).map(|name| harmless::line(name));
            // An attachment has an artifact type and no name.
            (name.is_some() || entry.artifact_type.is_none()).then_some((name, entry))
        });
        Ok(named.collect())
    }

    /// Returns the path of the file with a digest. The caller must hash it.
    #[must_use]
    pub fn blob(&self, digest: Digest) -> PathBuf {
        self.blobs().join(digest.to_string())
    }

    /// Adds a tool that was packed here.
    ///
    /// # Errors
    ///
    /// Fails if the layout cannot be written.
    pub fn add(&self, packed: &Packed, name: &str) -> Result<(), LayoutError> {
        self.add_blob(&packed.config)?;
        self.add_blob(&packed.file)?;
        self.add_blob(&packed.manifest)?;
        self.list(packed.descriptor(), Some(name))
    }

    /// Adds a file that is attached to a manifest.
    ///
    /// # Errors
    ///
    /// Fails if the layout cannot be written.
    pub fn attach(&self, attached: &Attached) -> Result<(), LayoutError> {
        self.add_blob(b"{}")?;
        self.add_blob(&attached.file)?;
        self.add_blob(&attached.manifest)?;
        self.list(attached.descriptor.clone(), None)
    }

    /// Adds an artifact of a registry together with its attachments. `file` is the artifact's
    /// downloaded file.
    ///
    /// # Errors
    ///
    /// Fails if the registry cannot be read, or the layout cannot be written. In that case the
    /// artifact is not listed.
    pub async fn copy(
        &self,
        from: &impl ContentSource,
        artifact: &ToolArtifact,
        file: &Path,
        attached: &[Referrer],
        most: usize,
        name: &str,
    ) -> Result<(), LayoutError> {
        let own = self.copy_manifest(from, artifact.manifest, Some(artifact.digest), most).await?;
        self.copy_blob(file, artifact.digest)?;
        for referrer in attached {
            let mut entry = self.copy_manifest(from, referrer.digest, None, most).await?;
            entry.artifact_type = Some(referrer.artifact_type.clone());
            entry.annotations = referrer.manifest.annotations.clone();
            self.list(entry, None)?;
        }
        self.list(own, Some(name))
    }

    /// Copies a manifest and its blobs of at most `most` bytes, except for the blob `there`, which
    /// is present.
    async fn copy_manifest(
        &self,
        from: &impl ContentSource,
        digest: Digest,
        there: Option<Digest>,
        most: usize,
    ) -> Result<Descriptor, LayoutError> {
        let pointer = Pointer::Digest(digest);
        let what = from.what(&pointer);
        let (_, text) = from.manifest(&pointer).await?;
        let ManifestOrIndex::Manifest(manifest) = ManifestOrIndex::read(&text, &what)? else {
            let detail = "it is an index, and should be a manifest".to_owned();
            return Err(OciError::Malformed { what, detail }.into());
        };
        for blob in manifest.layers.iter().chain([&manifest.config]) {
            if Some(blob.sha256(&what)?) != there {
                self.add_blob(&from.small_blob(blob, most, &what).await?)?;
            }
        }
        self.add_blob(&text)?;
        let unknown = || crate::oci::MANIFEST_MEDIA_TYPE.to_owned();
        let mut own = Descriptor::from_bytes(&manifest.media_type.unwrap_or_else(unknown), &text);
        own.artifact_type = manifest.artifact_type;
        Ok(own)
    }

    fn blobs(&self) -> PathBuf {
        self.directory.join("blobs/sha256")
    }

    fn index(&self) -> Result<Index, LayoutError> {
        let path = self.directory.join(INDEX);
        let text =
            read(&path, LARGEST_MANIFEST).map_err(|error| LayoutError::file(&path, error))?;
        let what = format!("`{}`", path.display());
        match ManifestOrIndex::read(&text, &what)? {
            ManifestOrIndex::Index(index) => Ok(index),
            ManifestOrIndex::Manifest(_) => {
                let detail = "it is a manifest, and should be an index".to_owned();
                Err(OciError::Malformed { what, detail }.into())
            }
        }
    }

    /// Lists a manifest. It replaces another with the same name.
    fn list(&self, mut entry: Descriptor, name: Option<&str>) -> Result<(), LayoutError> {
        // Without the lock, two processes that add at the same time could each lose the other's
        // entry.
        let _locked = lock(&self.directory, WAIT)?;
        let mut index = self.index()?;
        if let Some(name) = name {
            index.manifests.retain(|known| known.annotations.get(NAME).is_none_or(|it| it != name));
            entry.annotations.insert(NAME.to_owned(), name.to_owned());
        } else {
            index.manifests.retain(|known| known.digest != entry.digest);
        }
        index.manifests.push(entry);
        self.write_index(&index)
    }

    fn write_index(&self, index: &Index) -> Result<(), LayoutError> {
        let path = self.directory.join(INDEX);
        let text = serde_json::to_vec_pretty(index)
            .map_err(|error| LayoutError::file(&path, error.into()))?;
        place(&path, &text)
    }

    fn add_blob(&self, bytes: &[u8]) -> Result<(), LayoutError> {
        place(&self.blob(Digest::from_bytes(bytes)), bytes)
    }

    /// Adds the blob in a file, if it has this digest. The file may be larger than memory.
    fn copy_blob(&self, from: &Path, expected: Digest) -> Result<(), LayoutError> {
        let to = self.blob(expected);
        let mut source = open_regular(from).map_err(|error| LayoutError::file(from, error))?;
        let failed = |error| LayoutError::file(&to, error);
        let mut draft = draft(&to).map_err(failed)?;
        io::copy(&mut source, draft.as_file_mut()).map_err(failed)?;
        // The written bytes are hashed, not the bytes that were read.
        draft.as_file_mut().rewind().map_err(failed)?;
        let found = Digest::of_reader(draft.as_file()).map_err(failed)?;
        if found != expected {
            let what = format!("`{}`", from.display());
            return Err(OciError::Digest { what, expected, found }.into());
        }
        keep(draft, &to).map_err(failed)
    }

    /// Returns a blob after checking its digest.
    fn read_blob(&self, digest: Digest, most: usize, what: &str) -> Result<Bytes, OciError> {
        let path = self.blob(digest);
        let bytes = read(&path, most).map_err(|error| OciError::Unreadable {
            path: harmless::line(&path.to_string_lossy()),
            reason: error.to_string(),
        })?;
        let found = Digest::from_bytes(&bytes);
        if found != digest {
            return Err(OciError::Digest { what: what.to_owned(), expected: digest, found });
        }
        Ok(bytes.into())
    }
}

impl ContentSource for OciLayout {
    fn what(&self, pointer: &Pointer) -> String {
        let directory = self.directory.to_string_lossy();
        format!("`{}` in `{}`", pointer, harmless::line(&directory))
    }

    async fn manifest(&self, pointer: &Pointer) -> Result<(Digest, Bytes), OciError> {
        let what = self.what(pointer);
        let digest = match pointer {
            Pointer::Digest(digest) => *digest,
            Pointer::Tag(tag) => {
                let entries = self.entries().map_err(LayoutError::into_oci)?;
                let found = entries.iter().find(|(name, _)| name.as_ref() == Some(tag));
                let missing = || OciError::NoManifest { what: what.clone(), tags: Vec::new() };
                found.ok_or_else(missing)?.1.sha256(&what)?
            }
        };
        Ok((digest, self.read_blob(digest, LARGEST_MANIFEST, &what)?))
    }

    async fn small_blob(
        &self,
        descriptor: &Descriptor,
        most: usize,
        what: &str,
    ) -> Result<Bytes, OciError> {
        self.read_blob(descriptor.sha256(what)?, most, what)
    }

    async fn tags(&self) -> Result<Vec<String>, OciError> {
        let entries = self.entries().map_err(LayoutError::into_oci)?;
        Ok(entries.into_iter().filter_map(|(name, _)| name).collect())
    }

    async fn listed_referrers(&self, _: Digest) -> Result<Vec<Descriptor>, OciError> {
        // A layout has no list of referrers. The caller checks their subjects.
        let index = self.index().map_err(LayoutError::into_oci)?;
        Ok(index.manifests.into_iter().filter(|it| it.artifact_type.is_some()).collect())
    }
}

/// Reads a file of at most `most` bytes.
fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

/// Writes a file completely, or not at all.
fn place(path: &Path, bytes: &[u8]) -> Result<(), LayoutError> {
    let placed = || {
        let mut file = draft(path)?;
        file.write_all(bytes)?;
        keep(file, path)
    };
    placed().map_err(|error| LayoutError::file(path, error))
}

/// Returns a new file that is removed unless it is kept.
fn draft(path: &Path) -> io::Result<NamedTempFile> {
    draft_in(path.parent().unwrap_or(path))
}

/// Syncs a draft to the disk, and gives it its final path.
fn keep(draft: NamedTempFile, path: &Path) -> io::Result<()> {
    draft.as_file().sync_all()?;
    // Other users may read a layout, for example on a USB stick.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    draft.as_file().set_permissions(readable)?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Locks a layout for this process, until the returned file is closed.
fn lock(directory: &Path, wait: Duration) -> Result<File, LayoutError> {
    let failed = |error| LayoutError::file(directory, error);
    let file = File::open(directory).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < wait => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                return Err(LayoutError::Held { directory: directory.to_owned(), waited: wait });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests;
