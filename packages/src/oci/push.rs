//! Pushing: blobs first and the manifest last, so that a tag never names missing content.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use ikigai_protocol::Digest;

use super::manifest::EMPTY;
use super::repository::RepositoryAccess;
use super::{
    Attached, ContentSource as _, Descriptor, Index, LARGEST_MANIFEST, MANIFEST_MEDIA_TYPE,
    MOST_REFERRERS, ManifestOrIndex, OciError, Packed, Repository, fallback,
};
use crate::reference::Pointer;
use crate::transport::{HttpRequest, check_next, location, shown};

/// The header in which a registry confirms that it lists a manifest as a referrer.
const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");

impl Repository {
    /// Pushes a tool, and returns the digest of its manifest.
    ///
    /// # Errors
    ///
    /// Fails if the registry refuses, or cannot be reached. Anything already sent has no tag.
    pub async fn push(&self, packed: &Packed, pointer: &Pointer) -> Result<Digest, OciError> {
        self.push_blob(&packed.config).await?;
        self.push_blob(&packed.file).await?;
        self.push_manifest(&packed.manifest, MANIFEST_MEDIA_TYPE, pointer).await?;
        Ok(packed.digest())
    }

    /// Pushes a file that is attached to a manifest, and returns the digest of the attachment's
    /// manifest. If a registry does not support the referrers API, the file is listed under a tag.
    /// Another program that changes this list at the same time may drop the entry.
    ///
    /// # Errors
    ///
    /// Fails if the registry refuses, or cannot be reached.
    pub async fn attach(&self, attached: &Attached) -> Result<Digest, OciError> {
        self.push_blob(&Bytes::from_static(EMPTY.1)).await?;
        self.push_blob(&attached.file).await?;
        let pointer = Pointer::Digest(attached.digest());
        let is_listed =
            self.push_manifest(&attached.manifest, MANIFEST_MEDIA_TYPE, &pointer).await?;
        if !is_listed {
            self.list(attached).await?;
        }
        Ok(attached.digest())
    }

    /// Adds a manifest to the list of referrers under the tag.
    async fn list(&self, attached: &Attached) -> Result<(), OciError> {
        let subject = attached.subject.sha256("the subject of a signature")?;
        let tag = fallback::tag(subject);
        let what = self.what(&tag);
        let mut manifests = match self.manifest_if_any(&tag).await? {
            None => Vec::new(),
            Some((_, text)) => match ManifestOrIndex::read(&text, &what)? {
                ManifestOrIndex::Index(index) => index.manifests,
                ManifestOrIndex::Manifest(_) => {
                    let detail = "it is a manifest, and should be an index".to_owned();
                    return Err(OciError::Malformed { what, detail });
                }
            },
        };
        let is_same = |entry: &Descriptor| entry.digest == attached.descriptor.digest;
        if manifests.iter().any(is_same) {
            return Ok(());
        }
        if manifests.len() >= MOST_REFERRERS {
            return Err(OciError::TooMany { what, things: "referrers", most: MOST_REFERRERS });
        }
        manifests.push(attached.descriptor.clone());
        let index = Index::new(manifests);
        let media_type = index.media_type.clone().unwrap_or_default();
        let text = serde_json::to_vec(&index).map_err(|error| {
            let (what, detail) = (what.clone(), error.to_string());
            OciError::Malformed { what, detail }
        })?;
        self.push_manifest(&text.into(), &media_type, &tag).await.map(|_| ())
    }

    /// Pushes a blob, unless the registry has it.
    async fn push_blob(&self, bytes: &Bytes) -> Result<(), OciError> {
        let digest = Digest::from_bytes(bytes);
        let what = format!("the blob sha256:{digest}");
        let url = self.url(&format!("blobs/sha256:{digest}")).await?;
        let asked = self.send(RepositoryAccess::Push, HttpRequest::new(Method::HEAD, url)).await?;
        if asked.status().is_success() {
            return Ok(());
        }
        let url = self.url("blobs/uploads/").await?;
        let begun =
            self.send(RepositoryAccess::Push, HttpRequest::new(Method::POST, url.clone())).await?;
        let begun = self.transport().successful(begun, &what).await?;
        let mut to = location(&begun)?;
        check_next(&url, &to)?;
        to.query_pairs_mut().append_pair("digest", &format!("sha256:{digest}"));
        let binary = HeaderValue::from_static("application/octet-stream");
        let mut request = HttpRequest::new(Method::PUT, to).with(header::CONTENT_TYPE, binary);
        // Without a body, the request would have no length, and some registries refuse that.
        request.body = bytes.clone();
        let sent = self.send(RepositoryAccess::Push, request).await?;
        self.created(sent, &what).await.map(|_| ())
    }

    /// Pushes a manifest, and returns whether the registry lists it as a referrer.
    async fn push_manifest(
        &self,
        text: &Bytes,
        media_type: &str,
        pointer: &Pointer,
    ) -> Result<bool, OciError> {
        let what = self.what(pointer);
        if text.len() > LARGEST_MANIFEST {
            return Err(OciError::Malformed {
                what,
                detail: format!("its manifest has more than {LARGEST_MANIFEST} bytes"),
            });
        }
        let url = self.url(&format!("manifests/{pointer}")).await?;
        let mut request = HttpRequest::new(Method::PUT, url);
        let kind = HeaderValue::from_str(media_type);
        request.headers.extend(kind.ok().map(|kind| (header::CONTENT_TYPE, kind)));
        request.body = text.clone();
        let sent = self.send(RepositoryAccess::Push, request).await?;
        let answer = self.created(sent, &what).await?;
        Ok(answer.headers().contains_key(SUBJECT))
    }

    async fn created(
        &self,
        response: reqwest::Response,
        what: &str,
    ) -> Result<reqwest::Response, OciError> {
        let response = self.transport().successful(response, what).await?;
        if [StatusCode::CREATED, StatusCode::OK, StatusCode::NO_CONTENT]
            .contains(&response.status())
        {
            return Ok(response);
        }
        Err(OciError::Malformed {
            what: format!("`{}`", shown(response.url())),
            detail: format!("it answers {} to {what}", response.status().as_u16()),
        })
    }
}
