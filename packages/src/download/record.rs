//! The records of downloads: the file that a reference led to, its manifest and its signatures.
//! With them, a machine without a network can install the file again.
//!
//! A record proves nothing. The file, the manifest and the signatures that it names are read by
//! their digests, and every installation verifies the signatures again.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use ikigai_protocol::Digest;
use serde::{Deserialize, Serialize};

use super::{DownloadCache, DownloadError};
use crate::draft::draft_in;

/// The largest record in bytes. 64 signatures with long addresses fit.
const LARGEST_RECORD: u64 = 1 << 20;

/// The file that a reference led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The reference, without tag, version and digest.
    pub from: String,
    /// The tag that led to the file.
    pub tag: Option<String>,
    /// The digest of the artifact's manifest.
    pub manifest: Option<Digest>,
    /// The digest of the file.
    pub sha256: Digest,
    /// The digests of the signatures, each with the address that it came from.
    pub signatures: Vec<(String, Digest)>,
}

impl SourceRecord {
    /// Returns the digest that names the record: the manifest's, or the file's if the manifest is
    /// missing.
    pub(super) fn name(&self) -> Digest {
        self.manifest.unwrap_or(self.sha256)
    }
}

impl DownloadCache {
    /// Stores a small file under its digest.
    ///
    /// # Errors
    ///
    /// Fails if the cache cannot be written.
    pub fn keep(&self, bytes: &[u8]) -> Result<Digest, DownloadError> {
        let digest = Digest::from_bytes(bytes);
        place(&self.directory.join(digest.to_string()), bytes)?;
        Ok(digest)
    }

    /// Returns a small file from the cache, if it still has its digest and at most `most` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the file exists and cannot be read.
    pub fn kept(&self, digest: Digest, most: usize) -> Result<Option<Bytes>, DownloadError> {
        let path = self.directory.join(digest.to_string());
        let bytes = read(&path, most as u64).map_err(|error| DownloadError::file(&path, error))?;
        Ok(bytes.filter(|bytes| Digest::from_bytes(bytes) == digest).map(Bytes::from))
    }

    /// Stores a record, and replaces an earlier record of the same manifest or file. A record
    /// without a tag inherits the earlier tag.
    ///
    /// # Errors
    ///
    /// Fails if the cache cannot be written.
    pub fn remember(&self, mut record: SourceRecord) -> Result<(), DownloadError> {
        let path = self.records(&record.from).join(format!("{}.json", record.name()));
        let failed = |error: io::Error| DownloadError::file(&path, error);
        if record.tag.is_none() {
            let before = parsed(&path).map_err(failed)?;
            record.tag = before.as_ref().and_then(|before| before.tag.clone());
            // A newer file would mean that the tag was seen here last, but the tag may have moved.
            if before.as_ref() == Some(&record) {
                return Ok(());
            }
        }
        place(&path, &serde_json::to_vec(&record).map_err(|error| failed(error.into()))?)
    }

    /// Returns the records of a reference, the latest first. Skips damaged records.
    ///
    /// # Errors
    ///
    /// Fails if the records exist and cannot be read.
    pub fn recall(&self, from: &str) -> Result<Vec<SourceRecord>, DownloadError> {
        let directory = self.records(from);
        let listed = || -> io::Result<Vec<(SystemTime, SourceRecord)>> {
            let mut found = Vec::new();
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                if let Some(record) = parsed(&entry.path())? {
                    found.push((entry.metadata()?.modified()?, record));
                }
            }
            Ok(found)
        };
        let mut found = match listed() {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(DownloadError::file(&directory, error)),
        };
        found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let found = found.into_iter().map(|(_, record)| record);
        Ok(found.filter(|record| record.from == from).collect())
    }

    pub(super) fn records(&self, from: &str) -> PathBuf {
        self.sources.join(Digest::from_bytes(from.as_bytes()).to_string())
    }
}

/// Returns the record in a file, unless the file is missing or damaged.
fn parsed(path: &Path) -> io::Result<Option<SourceRecord>> {
    let text = read(path, LARGEST_RECORD)?;
    Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
}

/// Returns the contents of a file, unless it is missing or has more than `most` bytes.
fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Writes a file completely, or not at all.
fn place(path: &Path, bytes: &[u8]) -> Result<(), DownloadError> {
    let placed = || -> io::Result<()> {
        let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(directory)?;
        let mut draft = draft_in(directory)?;
        draft.write_all(bytes)?;
        draft.persist(path)?;
        Ok(())
    };
    placed().map_err(|error| DownloadError::file(path, error))
}
