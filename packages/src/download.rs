//! Downloads of files into the cache. A file is hashed while it streams and resumed after an
//! interruption, and it gets its final name only if its digest is right.
//!
//! A file in the cache is hashed again before it is used, because it may have been changed.

mod error;
mod partial;
mod record;
mod response;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use ikigai_protocol::Digest;
use reqwest::Response;
use tokio::time::sleep;

use crate::oci::{OciError, Repository, ToolArtifact};
use crate::reference::FileUrl;
use crate::transport::{HttpRequest, Transport, TransportError, quoted};
pub use error::DownloadError;
use partial::Partial;
pub use record::SourceRecord;
use response::ResponseHead;

/// The largest file of a tool in bytes.
pub const LARGEST_FILE: u64 = 256 << 20;

/// The attempts at one download. Each continues after the last byte of the previous one.
const ATTEMPTS: usize = 5;

/// The first pause between two attempts. It doubles each time.
const PAUSE: Duration = Duration::from_millis(250);

/// The downloaded files, by digest.
#[derive(Clone, Debug)]
pub struct DownloadCache {
    /// The files, each named by its digest.
    directory: PathBuf,
    /// The records of the files' sources.
    sources: PathBuf,
    pause: Duration,
    largest: u64,
    tell_wait: TellWait,
}

/// Reports that a download waits for another process that downloads the same file. The path is the
/// file that the other process has locked.
pub type TellWait = fn(&Path);

/// A file in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedFile {
    /// The file.
    pub path: PathBuf,
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file in bytes.
    pub size: u64,
}

/// The source of a file.
pub enum DownloadSource<'a> {
    /// The layer of an artifact.
    Blob(&'a Repository, &'a ToolArtifact),
    /// A file on a web server.
    Url(&'a Transport, &'a FileUrl),
}

/// Receives progress reports of a download: the bytes so far, and the total if it is known.
pub type DownloadProgress<'a> = &'a (dyn Fn(u64, Option<u64>) + Send + Sync);

/// The result of a download whose bytes have the wrong digest.
struct Wrong {
    expected: Digest,
    found: Digest,
}

impl DownloadCache {
    /// Returns the cache in a directory, which only ikigai uses. The directory need not exist yet.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.join("blobs/sha256"),
            sources: directory.join("sources"),
            pause: PAUSE,
            largest: LARGEST_FILE,
            tell_wait: |_| (),
        }
    }

    /// Returns the same cache with this report for downloads that wait for another process.
    #[must_use]
    pub fn with_wait(self, tell_wait: TellWait) -> Self {
        Self { tell_wait, ..self }
    }

    /// Returns the same cache with another first pause between two attempts.
    #[must_use]
    pub fn with_pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Returns the same cache with `largest` as the maximum file size, instead of [`LARGEST_FILE`].
    #[must_use]
    pub fn with_largest(self, largest: u64) -> Self {
        Self { largest, ..self }
    }

    /// Returns the file with this digest, if it is in the cache. If its bytes have changed, the
    /// file is removed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or removed.
    pub async fn find(&self, digest: Digest) -> Result<Option<CachedFile>, DownloadError> {
        let path = self.directory.join(digest.to_string());
        let looked_at = path.clone();
        let failed = |error| DownloadError::file(&path, error);
        let found = tokio::task::spawn_blocking(move || partial::hash(&looked_at)).await;
        let found = found.map_err(|error| DownloadError::file(&path, error.into()))?;
        let Some((found, size)) = found.map_err(failed)? else { return Ok(None) };
        if found == digest {
            return Ok(Some(CachedFile { path, digest, size }));
        }
        fs::remove_file(&path).map_err(failed)?;
        Ok(None)
    }

    /// Returns a file, and downloads it if it is not in the cache. If another process downloads the
    /// same file, this function waits as long as that download makes progress. Dropping the future
    /// ends the download, and the next download continues from there.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be obtained, or is not the requested one. In that case it is not in
    /// the cache.
    pub async fn download(
        &self,
        origin: DownloadSource<'_>,
        progress: DownloadProgress<'_>,
    ) -> Result<CachedFile, DownloadError> {
        let (digest, size) = (origin.digest(), origin.size());
        if let Some(size) = size.filter(|size| *size > self.largest) {
            return Err(DownloadError::TooLarge {
                what: origin.what(),
                size: Some(size),
                most: self.largest,
            });
        }
        if let Some(digest) = digest
            && let Some(found) = self.find(digest).await?
        {
            return Ok(found);
        }
        fs::create_dir_all(&self.directory)
            .map_err(|error| DownloadError::file(&self.directory, error))?;
        let name = match digest {
            Some(digest) => digest.to_string(),
            // Only the address is known.
            None => format!("address-{}", Digest::from_bytes(origin.what().as_bytes())),
        };
        let part = self.directory.join(format!("{name}.part"));
        let mut partial = Partial::lock(part, self.tell_wait).await?;
        if let Some(digest) = digest {
            // The other process may have downloaded the file.
            if let Some(found) = self.find(digest).await? {
                partial.remove()?;
                return Ok(found);
            }
            partial.hash_again().await?;
        } else {
            // Without a digest, it is impossible to tell if the rest belongs to the same file.
            partial.restart()?;
        }
        for is_second in [false, true] {
            let wrong = match self.complete(&origin, &mut partial, progress).await {
                Ok(None) => break,
                Ok(Some(wrong)) => wrong,
                Err(error) => {
                    if error.spoils_the_part() {
                        partial.remove()?;
                    }
                    return Err(error);
                }
            };
            if is_second {
                partial.remove()?;
                let Wrong { expected, found } = wrong;
                return Err(DownloadError::Digest { what: origin.what(), expected, found });
            }
            partial.restart()?;
        }
        partial.place(&self.directory).await
    }

    /// Makes attempts until the file is complete. Returns both digests if it has the wrong one.
    async fn complete(
        &self,
        origin: &DownloadSource<'_>,
        partial: &mut Partial,
        progress: DownloadProgress<'_>,
    ) -> Result<Option<Wrong>, DownloadError> {
        let pauses = ExponentialBuilder::new()
            .with_min_delay(self.pause)
            .with_max_times(ATTEMPTS - 1)
            .with_jitter();
        let mut pauses = pauses.build();
        loop {
            let error = match attempt(origin, partial, self.largest, progress).await {
                Ok(()) => break,
                Err(error) => error,
            };
            // If nothing has arrived yet and the server is unreachable, report that at once.
            let is_down = matches!(
                error,
                DownloadError::Oci(OciError::Transport(TransportError::Unreachable { .. }))
            ) && partial.is_fresh();
            match pauses.next() {
                Some(pause) if error.is_passing() && !is_down => sleep(pause).await,
                _ => return Err(error),
            }
        }
        let found = partial.digest();
        let expected = origin.digest().unwrap_or(found);
        Ok((expected != found).then_some(Wrong { expected, found }))
    }
}

impl DownloadSource<'_> {
    fn digest(&self) -> Option<Digest> {
        match self {
            Self::Blob(_, artifact) => Some(artifact.digest),
            Self::Url(_, file) => file.sha256(),
        }
    }

    fn size(&self) -> Option<u64> {
        match self {
            Self::Blob(_, artifact) => Some(artifact.size),
            Self::Url(..) => None,
        }
    }

    /// Returns the name of the file, for messages.
    fn what(&self) -> String {
        match self {
            Self::Blob(repository, artifact) => {
                format!("the file of `{}`", repository.reference().with_digest(artifact.manifest))
            }
            Self::Url(_, file) => quoted(file.url()),
        }
    }

    /// Requests the file from an offset on. With a validator, the server sends the whole file if it
    /// has changed.
    async fn open(
        &self,
        from: Option<u64>,
        validator: Option<&HeaderValue>,
    ) -> Result<Response, OciError> {
        match self {
            Self::Blob(repository, artifact) => repository.open_blob(artifact.digest, from).await,
            Self::Url(transport, file) => {
                let mut request = HttpRequest::new(Method::GET, file.url().clone());
                if let Some(from) = from {
                    let range = HeaderValue::from_str(&format!("bytes={from}-"));
                    request.headers.extend(range.ok().map(|range| (header::RANGE, range)));
                    request.headers.extend(validator.map(|it| (header::IF_RANGE, it.clone())));
                }
                Ok(transport.send(request).await?)
            }
        }
    }

    fn transport(&self) -> &Transport {
        match self {
            Self::Blob(repository, _) => repository.transport(),
            Self::Url(transport, _) => transport,
        }
    }
}

/// Makes one attempt, which continues after the last byte of the previous one.
async fn attempt(
    origin: &DownloadSource<'_>,
    partial: &mut Partial,
    largest: u64,
    progress: DownloadProgress<'_>,
) -> Result<(), DownloadError> {
    let mut total = origin.size();
    if total.is_some_and(|total| partial.length() >= total) && partial.length() > 0 {
        // The file is complete, but its digest has not been compared yet.
        return Ok(());
    }
    let can_resume = origin.digest().is_some() || partial.validator().is_some();
    if !can_resume && partial.length() > 0 {
        partial.restart()?;
    }
    let from = Some(partial.length()).filter(|length| *length > 0);
    let response = origin.open(from, partial.validator()).await?;
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE && from.is_some() {
        partial.restart()?;
        return Err(DownloadError::Range { what: origin.what() });
    }
    let transport = origin.transport();
    let mut response =
        transport.successful(response, &origin.what()).await.map_err(OciError::from)?;
    let answer = ResponseHead::from_response(&response, from).map_err(|()| {
        // It is unknown which part of the file these bytes are.
        DownloadError::Range { what: origin.what() }
    });
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            partial.restart()?;
            return Err(error);
        }
    };
    if answer.starts_over {
        partial.restart()?;
    }
    if answer.is_html {
        return Err(DownloadError::WebPage { what: origin.what() });
    }
    partial.set_validator(answer.validator);
    if total.is_none() {
        total = answer.total;
    }
    let limit = origin.size().unwrap_or(largest);
    let too_large = |size| DownloadError::TooLarge { what: origin.what(), size, most: largest };
    if let Some(size) = total.filter(|total| *total > largest) {
        return Err(too_large(Some(size)));
    }
    progress(partial.length(), total);
    while let Some(bytes) = transport.next(&mut response).await.map_err(OciError::from)? {
        if partial.length() + bytes.len() as u64 > limit {
            return match origin.size() {
                // Such a file is never the right one; comparing the digests will show that.
                Some(_) => partial.append(&bytes),
                None => Err(too_large(None)),
            };
        }
        partial.append(&bytes)?;
        progress(partial.length(), total);
    }
    if let Some(total) = total.filter(|total| partial.length() < *total) {
        return Err(DownloadError::Short { what: origin.what(), total, length: partial.length() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
