//! References to artifacts of registries, by the grammar of the OCI distribution specification.

use std::fmt;

use ikigai_protocol::Digest;

use super::{OCI, ReferenceError, shown};

/// The tag of a reference that has neither tag nor digest.
const LATEST: &str = "latest";

/// The longest host with a repository in characters, as the specification recommends.
const LONGEST: usize = 255;

/// The longest tag in characters.
const LONGEST_TAG: usize = 128;

/// The name of Docker Hub in references, and its actual host.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A reference to an artifact in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RegistryReference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// The tag or the digest of a manifest in a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// A tag, which may move.
    Tag(String),
    /// A digest.
    Digest(Digest),
}

impl RegistryReference {
    /// Parses the part after the scheme. `text` is the whole reference, for messages.
    pub(super) fn parse(rest: &str, text: &str) -> Result<Self, ReferenceError> {
        let refused = |reason: String, instead: Option<String>| ReferenceError::Registry {
            text: shown(text),
            reason,
            instead,
        };
        let (name, digest) = match rest.split_once('@') {
            Some((before, _)) if before.contains(':') && !before.contains('/') => {
                return Err(ReferenceError::Credential);
            }
            Some((name, digest)) => {
                let hex = digest.strip_prefix("sha256:").ok_or_else(|| {
                    refused("a digest is `@sha256:` with 64 hexadecimal digits".to_owned(), None)
                })?;
                let digest = hex.parse().map_err(|error| refused(format!("{error}"), None))?;
                (name, Some(digest))
            }
            None => (rest, None),
        };
        let (host, path) = name
            .split_once('/')
            .ok_or_else(|| refused("the repository is missing behind the host".to_owned(), None))?;
        let host = host.to_ascii_lowercase();
        check_host(&host).map_err(|reason| refused(reason, None))?;
        let (repository, tag) = match path.rsplit_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (path, None),
        };
        if let Some(tag) = tag {
            check_tag(tag).map_err(|reason| refused(reason, None))?;
        }
        if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let meant = text.replacen(repository, &repository.to_ascii_lowercase(), 1);
            let reason = "names of repositories are in lower case".to_owned();
            return Err(refused(reason, Some(shown(&meant))));
        }
        check_repository(repository).map_err(|reason| refused(reason, None))?;
        if host.len() + repository.len() + 1 > LONGEST {
            let reason = format!("host and repository have more than {LONGEST} characters");
            return Err(refused(reason, None));
        }
        let (repository, tag) = (repository.to_owned(), tag.map(str::to_owned));
        Ok(Self { host, repository, tag, digest })
    }

    /// Returns the host as it was written, with its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the host that requests go to, with its port.
    #[must_use]
    pub fn server(&self) -> &str {
        if self.host == DOCKER_HUB.0 { DOCKER_HUB.1 } else { &self.host }
    }

    /// Returns the repository as the server knows it.
    #[must_use]
    pub fn repository(&self) -> String {
        // Docker Hub keeps repositories without an owner under `library`.
        if self.host == DOCKER_HUB.0 && !self.repository.contains('/') {
            return format!("library/{}", self.repository);
        }
        self.repository.clone()
    }

    /// Returns the tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Returns the digest of the manifest, or its tag, or `latest`.
    #[must_use]
    pub fn pointer(&self) -> Pointer {
        match (&self.tag, self.digest) {
            (_, Some(digest)) => Pointer::Digest(digest),
            (Some(tag), None) => Pointer::Tag(tag.clone()),
            (None, None) => Pointer::Tag(LATEST.to_owned()),
        }
    }

    /// Returns the reference without tag and digest, as in a lock.
    #[must_use]
    pub fn without_pointer(&self) -> Self {
        Self { tag: None, digest: None, ..self.clone() }
    }

    /// Returns the reference with another tag, and without a digest.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a tag.
    pub fn with_tag(&self, tag: &str) -> Result<Self, ReferenceError> {
        check_tag(tag).map_err(|reason| ReferenceError::Registry {
            text: shown(&format!("{self}:{tag}")),
            reason,
            instead: None,
        })?;
        Ok(Self { tag: Some(tag.to_owned()), digest: None, ..self.clone() })
    }

    /// Returns the reference with the digest of its manifest.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OCI}{}/{}", self.host, self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
        self.digest.map_or(Ok(()), |digest| write!(f, "@sha256:{digest}"))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => write!(f, "sha256:{digest}"),
        }
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let bad = || format!("`{}` is no host", shown(host));
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    if let Some(port) = port {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let number = port.parse::<u16>().ok().filter(|number| is_number && *number > 0);
        number.ok_or_else(|| format!("`{}` is no port", shown(port)))?;
    }
    if let Some(address) = name.strip_prefix('[') {
        let address = address.strip_suffix(']').ok_or_else(bad)?;
        return address.parse::<std::net::Ipv6Addr>().map(|_| ()).map_err(|_| bad());
    }
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_framed = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && label.len() < 64 && is_framed && label.bytes().all(is_inner)
    };
    if name.split('.').all(is_label) { Ok(()) } else { Err(bad()) }
}

fn check_tag(tag: &str) -> Result<(), String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_tag = !tag.is_empty()
        && tag.len() <= LONGEST_TAG
        && !tag.starts_with(['.', '-'])
        && tag.bytes().all(is_inner);
    if is_tag {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a tag, which has 1 to {LONGEST_TAG} letters, digits, `_`, `.` and `-`, and \
         begins with neither `.` nor `-`",
        shown(tag)
    ))
}

/// Checks a path of words of lower-case letters and digits. The separator between two words in a
/// component may be one dot, one or two underscores, or hyphens.
fn check_repository(repository: &str) -> Result<(), String> {
    let is_component = |component: &str| {
        let is_word = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
        let is_separator =
            |it: &str| [".", "_", "__"].contains(&it) || it.bytes().all(|byte| byte == b'-');
        component.starts_with(is_word)
            && component.ends_with(is_word)
            && component.split(is_word).all(is_separator)
    };
    if repository.split('/').all(is_component) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a repository, which is words of small letters and digits, joined by `/`, `.`, \
         `_` or `-`",
        shown(repository)
    ))
}
