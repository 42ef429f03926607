//! A repository of a registry, read over the OCI distribution API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use ikigai_protocol::Digest;
use parking_lot::Mutex;
use reqwest::Response;
use serde::Deserialize;
use tokio::sync::OnceCell;
use url::Url;

use super::artifact::ContentSource;
use super::challenge::Challenge;
use super::manifest::{ACCEPTED, INDEX_MEDIA_TYPE};
use super::{
    Descriptor, LARGEST_MANIFEST, MOST_REFERRERS, ManifestOrIndex, OciError, fallback, login,
};
use crate::credentials::Credentials;
use crate::harmless;
use crate::reference::{Pointer, RegistryReference, is_loopback};
use crate::transport::{HttpRequest, Transport, TransportError, is_same_origin};

/// The most tags of a repository, and the most requests for them.
const MOST_TAGS: usize = 20_000;
const MOST_PAGES: usize = 100;

/// The header with a manifest's digest according to the registry.
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A repository of a registry.
pub struct Repository {
    transport: Arc<Transport>,
    credentials: Arc<Credentials>,
    reference: RegistryReference,
    base: OnceCell<Url>,
    /// The accepted values of `Authorization`, by the access that they give.
    allowed: Mutex<BTreeMap<RepositoryAccess, HeaderValue>>,
    /// True once a credential was found. Used in the message of a refusal.
    has_credential: AtomicBool,
}

/// A kind of access to a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RepositoryAccess {
    Pull,
    Push,
}

#[derive(Deserialize)]
struct Tags {
    tags: Option<Vec<String>>,
}

impl Repository {
    /// Creates the client of a repository. Nothing is sent yet.
    #[must_use]
    pub fn new(
        transport: Arc<Transport>,
        credentials: Arc<Credentials>,
        reference: &RegistryReference,
    ) -> Self {
        let reference = reference.without_pointer();
        let (base, allowed) = (OnceCell::new(), Mutex::default());
        let has_credential = AtomicBool::new(false);
        Self { transport, credentials, reference, base, allowed, has_credential }
    }

    /// Returns the reference of the repository, without a tag.
    #[must_use]
    pub fn reference(&self) -> &RegistryReference {
        &self.reference
    }

    /// Returns the transport.
    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Requests a blob from an offset on. The answer may still be the whole blob.
    pub(crate) async fn open_blob(
        &self,
        digest: Digest,
        from: Option<u64>,
    ) -> Result<Response, OciError> {
        let url = self.url(&format!("blobs/sha256:{digest}")).await?;
        let mut request = HttpRequest::new(Method::GET, url);
        if let Some(from) = from {
            let range = HeaderValue::from_str(&format!("bytes={from}-"));
            request.headers.extend(range.ok().map(|range| (header::RANGE, range)));
        }
        self.send(RepositoryAccess::Pull, request).await
    }

    /// Returns the address of a path in the repository.
    pub(super) async fn url(&self, path: &str) -> Result<Url, OciError> {
        let base = self.base.get_or_try_init(|| self.find_base()).await?;
        self.join(base, &format!("/v2/{}/{path}", self.reference.repository()))
    }

    fn join(&self, base: &Url, path: &str) -> Result<Url, OciError> {
        base.join(path).map_err(|error| OciError::Malformed {
            what: format!("`{}`", self.reference),
            detail: error.to_string(),
        })
    }

    /// Finds out the scheme of the registry: `https`, except for a registry on this machine that
    /// answers without TLS. Sends no secret for that.
    async fn find_base(&self) -> Result<Url, OciError> {
        let server = self.reference.server();
        let parse = |scheme: &str| {
            Url::parse(&format!("{scheme}://{server}/")).map_err(|error| OciError::Malformed {
                what: format!("`{server}`"),
                detail: error.to_string(),
            })
        };
        let secure = parse("https")?;
        if !is_loopback(&secure) {
            return Ok(secure);
        }
        let plain = parse("http")?;
        let asked = HttpRequest::new(Method::GET, self.join(&plain, "/v2/")?);
        match self.transport.send(asked).await {
            // TLS servers give this answer, or end the connection.
            Ok(response) if response.status() == StatusCode::BAD_REQUEST => Ok(secure),
            Err(TransportError::Cut { .. }) => Ok(secure),
            Ok(_) => Ok(plain),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a request with the credential that the registry asks for. Returns any answer that is
    /// not a refusal.
    pub(super) async fn send(
        &self,
        access: RepositoryAccess,
        mut request: HttpRequest,
    ) -> Result<Response, OciError> {
        let base = self.base.get_or_try_init(|| self.find_base()).await?;
        let is_registry = is_same_origin(base, &request.url);
        let again = |request: &HttpRequest| HttpRequest {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            authorization: None,
            body: request.body.clone(),
        };
        let second = again(&request);
        if is_registry {
            request.authorization = self.allowed.lock().get(&access).cloned();
        }
        let response = self.transport.send(request).await?;
        let is_asked = is_registry && is_same_origin(base, response.url());
        if response.status() != StatusCode::UNAUTHORIZED || !is_asked {
            return self.unless_denied(base, response);
        }
        let challenge = Challenge::from_headers(response.headers());
        let (host, repository) = (self.reference.host(), self.reference.repository());
        let credential = self.credentials.find(host, &repository).await?;
        self.has_credential.store(credential.is_some(), Ordering::Relaxed);
        let actions = if access == RepositoryAccess::Push { "pull,push" } else { "pull" };
        let scope = format!("repository:{repository}:{actions}");
        let answer = match &challenge {
            Some(challenge) => {
                let credential = credential.as_ref();
                login::answer(&self.transport, base, challenge, credential, &scope).await?
            }
            None => None,
        };
        let Some(answer) = answer else { return Err(self.denied()) };
        let mut second = second;
        second.authorization = Some(answer.clone());
        let response = self.transport.send(second).await?;
        let response = self.unless_denied(base, response)?;
        self.allowed.lock().insert(access, answer);
        Ok(response)
    }

    fn unless_denied(&self, base: &Url, response: Response) -> Result<Response, OciError> {
        let is_denial = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN];
        // A credential for the registry would not help at another host.
        let is_registry = is_same_origin(base, response.url());
        if is_registry && is_denial.contains(&response.status()) {
            return Err(self.denied());
        }
        Ok(response)
    }

    fn denied(&self) -> OciError {
        let had_credential = self.has_credential.load(Ordering::Relaxed);
        let host = self.reference.host().to_owned();
        let what = format!("`{}`", self.reference.repository());
        OciError::Denied { host, what, had_credential }
    }

    /// Returns the body of a successful answer that is a document.
    async fn document(&self, response: Response, what: &str) -> Result<Bytes, OciError> {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_html = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        let response = match self.transport.successful(response, what).await {
            Err(_) if is_html => return Err(self.web_page()),
            response => response?,
        };
        if is_html {
            return Err(self.web_page());
        }
        let text = self.transport.whole(response, LARGEST_MANIFEST, what).await?;
        if text.trim_ascii_start().starts_with(b"<") {
            return Err(self.web_page());
        }
        Ok(text)
    }

    fn web_page(&self) -> OciError {
        OciError::WebPage { host: self.reference.host().to_owned() }
    }

    /// Returns a manifest, or `None` if it does not exist.
    pub(super) async fn manifest_if_any(
        &self,
        pointer: &Pointer,
    ) -> Result<Option<(Digest, Bytes)>, OciError> {
        let what = self.what(pointer);
        let url = self.url(&format!("manifests/{pointer}")).await?;
        let accepted = HeaderValue::from_static(ACCEPTED);
        let request = HttpRequest::new(Method::GET, url).with(header::ACCEPT, accepted);
        let response = self.send(RepositoryAccess::Pull, request).await?;
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_html = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
        if response.status() == StatusCode::NOT_FOUND && !is_html {
            return Ok(None);
        }
        let claimed = response.headers().get(CONTENT_DIGEST);
        let claimed =
            claimed.and_then(|it| it.to_str().ok()?.strip_prefix("sha256:")?.parse().ok());
        let text = self.document(response, &format!("the manifest of {what}")).await?;
        let found = Digest::from_bytes(&text);
        let expected = match pointer {
            Pointer::Digest(digest) => Some(*digest),
            Pointer::Tag(_) => claimed,
        };
        match expected {
            Some(expected) if expected != found => {
                let what = format!("the manifest of {what}");
                Err(OciError::Digest { what, expected, found })
            }
            _ => Ok(Some((found, text))),
        }
    }
}

impl ContentSource for Repository {
    fn what(&self, pointer: &Pointer) -> String {
        let reference = match pointer {
            Pointer::Tag(tag) => format!("{}:{tag}", self.reference),
            Pointer::Digest(digest) => self.reference.with_digest(*digest).to_string(),
        };
        format!("`{reference}`")
    }

    async fn manifest(&self, pointer: &Pointer) -> Result<(Digest, Bytes), OciError> {
        let found = self.manifest_if_any(pointer).await?;
        found.ok_or_else(|| OciError::NoManifest { what: self.what(pointer), tags: Vec::new() })
    }

    async fn small_blob(
        &self,
        descriptor: &Descriptor,
        most: usize,
        what: &str,
    ) -> Result<Bytes, OciError> {
        let expected = descriptor.sha256(what)?;
        if descriptor.size > most as u64 {
            let (what, most) = (what.to_owned(), most as u64);
            return Err(TransportError::TooLarge { what, most }.into());
        }
        let response = self.open_blob(expected, None).await?;
        let response = self.transport.successful(response, what).await?;
        let bytes = self.transport.whole(response, most, what).await?;
        let found = Digest::from_bytes(&bytes);
        if found != expected {
            return Err(OciError::Digest { what: what.to_owned(), expected, found });
        }
        Ok(bytes)
    }

    async fn tags(&self) -> Result<Vec<String>, OciError> {
        let what = format!("the tags of `{}`", self.reference);
        let first = self.url("tags/list").await?;
        let (mut next, mut found) = (Some(first), Vec::new());
        for _ in 0..MOST_PAGES {
            let Some(url) = next else { return Ok(found) };
            let response = self
                .send(RepositoryAccess::Pull, HttpRequest::new(Method::GET, url.clone()))
                .await?;
            next = next_page(&url, &response);
            let text = self.document(response, &what).await?;
            let page: Tags = serde_json::from_slice(&text).map_err(|error| {
                let (what, detail) = (what.clone(), harmless::line(&error.to_string()));
                OciError::Malformed { what, detail }
            })?;
            let tags = page.tags.unwrap_or_default();
            found.extend(tags.iter().map(|tag| harmless::line(tag)));
            if found.len() > MOST_TAGS {
                break;
            }
        }
        if next.is_none() && found.len() <= MOST_TAGS {
            return Ok(found);
        }
        let what = format!("`{}`", self.reference);
        Err(OciError::TooMany { what, things: "tags", most: MOST_TAGS })
    }

    async fn listed_referrers(&self, subject: Digest) -> Result<Vec<Descriptor>, OciError> {
        let what = format!("the referrers of {}", self.what(&Pointer::Digest(subject)));
        let (mut found, mut next) =
            (Vec::new(), Some(self.url(&format!("referrers/sha256:{subject}")).await?));
        while let Some(url) = next.take() {
            let accepted = HeaderValue::from_static(INDEX_MEDIA_TYPE);
            let request = HttpRequest::new(Method::GET, url.clone()).with(header::ACCEPT, accepted);
            let response = self.send(RepositoryAccess::Pull, request).await?;
            let status = response.status();
            if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
                // The registry does not have this API.
                let tag = fallback::tag(subject);
                let Some((_, text)) = self.manifest_if_any(&tag).await? else {
                    return Ok(found);
                };
                return listed(&text, &what);
            }
            next = next_page(&url, &response);
            let text = self.document(response, &what).await?;
            let page = listed(&text, &what)?;
            let is_end = page.is_empty();
            found.extend(page);
            if found.len() > MOST_REFERRERS || is_end {
                break;
            }
        }
        Ok(found)
    }
}

fn listed(text: &[u8], what: &str) -> Result<Vec<Descriptor>, OciError> {
    match ManifestOrIndex::read(text, what)? {
        ManifestOrIndex::Index(index) => Ok(index.manifests),
        ManifestOrIndex::Manifest(_) => {
            let detail = "it is a manifest, and should be an index".to_owned();
            Err(OciError::Malformed { what: what.to_owned(), detail })
        }
    }
}

/// Returns the address of the next page of a list, if it is on the same registry.
fn next_page(from: &Url, response: &Response) -> Option<Url> {
    let value = response.headers().get(header::LINK)?.to_str().ok()?;
    let (address, rest) = value.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = rest.split(';').any(|it| it.trim().replace('"', "") == "rel=next");
    from.join(address).ok().filter(|next| is_next && is_same_origin(from, next))
}
