//! References to tools: the text that the user types after `tool install`, `tool push` or `tool
//! fetch`, and that a lock stores.
//!
//! Parsing looks only at the text. [`Reference::typed`] and [`LocalTool::from_path`] also look at the
//! disk. Nothing is fetched.

mod error;
mod registry;

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ikigai_protocol::Digest;
use url::{Host, Url};

pub use error::ReferenceError;
pub use registry::{Pointer, RegistryReference};

/// The prefix of a reference to a registry. It may be omitted if the text cannot be a path.
const OCI: &str = "oci://";

/// The key in a fragment that pins a file.
const SHA256: &str = "sha256=";

/// Parts of the names of parameters that carry credentials, in lower case and without `-`, `_`, `.`.
const CREDENTIAL_WORDS: [&str; 12] = [
    "token",
    "secret",
    "signature",
    "password",
    "passwd",
    "credential",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "session",
    "jwt",
];

/// Whole names of such parameters.
const CREDENTIAL_NAMES: [&str; 8] = ["auth", "sig", "key", "pass", "pwd", "pw", "sas", "ticket"];

/// The names of parameters whose value may be the digest of a revision.
const REVISION_NAMES: [&str; 4] = ["ref", "rev", "commit", "sha"];

/// The length in bytes from which a value may be a random token.
const SHORTEST_TOKEN: usize = 20;

/// A reference to a tool. Parsing its text gives the same reference again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A file, an OCI layout or a project. [`LocalTool::from_path`] finds out which.
    Path(PathBuf),
    /// A file on a web server.
    Url(FileUrl),
    /// An artifact in a registry.
    Registry(RegistryReference),
}

/// The address of a file, with its required digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileUrl {
    url: Url,
    sha256: Option<Digest>,
}

/// A tool on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalTool {
    /// A file.
    File(PathBuf),
    /// A directory with a file `oci-layout`.
    Layout(PathBuf),
    /// A directory with a file `tool.toml`.
    Project(PathBuf),
}

impl Reference {
    /// Returns the reference that the user typed in `directory`.
    ///
    /// # Errors
    ///
    /// Fails if the text is not a reference, or if it names both a file and a repository.
    pub fn typed(text: &str, directory: &Path) -> Result<Self, ReferenceError> {
        let reference: Self = text.parse()?;
        let is_guessed = matches!(reference, Self::Registry(_)) && !text.starts_with(OCI);
        if is_guessed && directory.join(text).exists() {
            return Err(ReferenceError::Ambiguous(shown(text)));
        }
        Ok(reference)
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if text.chars().any(char::is_control) {
            return Err(ReferenceError::ControlCharacter(shown(text)));
        }
        if is_marked_path(text) {
            return Ok(Self::Path(PathBuf::from(text)));
        }
        if let Some(rest) = text.strip_prefix(OCI) {
            return RegistryReference::parse(rest, text).map(Self::Registry);
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" | "http" => FileUrl::parse(text).map(Self::Url),
                "docker" | "oras" | "containers-storage" => Err(ReferenceError::Scheme {
                    text: shown(text),
                    instead: format!("{OCI}{rest}"),
                }),
                _ => Err(ReferenceError::UnknownScheme(shown(text))),
            };
        }
        if is_path(text) {
            return Ok(Self::Path(PathBuf::from(text)));
        }
        RegistryReference::parse(text, text).map(Self::Registry)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => {
                let text = path.to_string_lossy();
                // Otherwise the text would be parsed as a registry or as an address.
                let is_plain = matches!(text.parse(), Ok(Self::Path(_)));
                write!(f, "{}{text}", if is_plain { "" } else { "./" })
            }
            Self::Url(file) => file.fmt(f),
            Self::Registry(registry) => registry.fmt(f),
        }
    }
}

impl FileUrl {
    /// Parses an address. Locks, the cache and the audit log store it, so it must not contain a
    /// credential.
    fn parse(text: &str) -> Result<Self, ReferenceError> {
        let refused =
            |reason: &str| ReferenceError::Url { text: shown(text), reason: reason.to_owned() };
        let mut url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ReferenceError::Credential);
        }
        if has_credential(&url) {
            return Err(ReferenceError::CredentialInQuery);
        }
        if url.scheme() == "http" && !is_loopback(&url) {
            return Err(ReferenceError::PlainHttp(shown(text)));
        }
        let sha256 = match url.fragment() {
            None => None,
            Some(fragment) => {
                let hex = fragment.strip_prefix(SHA256);
                let hex =
                    hex.ok_or_else(|| refused("only `#sha256=HEX` may follow the address"))?;
                Some(hex.parse().map_err(|error| refused(&format!("{error}")))?)
            }
        };
        url.set_fragment(None);
        Ok(Self { url, sha256 })
    }

    /// Returns the address, without the digest.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the file's required digest.
    #[must_use]
    pub fn sha256(&self) -> Option<Digest> {
        self.sha256
    }

    /// Returns the same address with a required digest.
    #[must_use]
    pub fn pinned(self, sha256: Digest) -> Self {
        Self { sha256: Some(sha256), ..self }
    }

    /// Returns the address of the file next to it whose name has `suffix` appended.
    #[must_use]
    pub fn beside(&self, suffix: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{suffix}", self.url.path()));
        url
    }
}

impl fmt::Display for FileUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.url)?;
        self.sha256.map_or(Ok(()), |digest| write!(f, "#{SHA256}{digest}"))
    }
}

impl LocalTool {
    /// Finds out which kind of tool a path leads to.
    ///
    /// # Errors
    ///
    /// Fails if the path does not exist, or is a directory that is neither a layout nor a project.
    pub fn from_path(path: &Path) -> Result<Self, ReferenceError> {
        let metadata = path.metadata().map_err(|error| ReferenceError::Path {
            path: path.to_owned(),
            looks_like_repository: is_short_repository(path),
            error,
        })?;
        if metadata.is_file() {
            return Ok(Self::File(path.to_owned()));
        }
        let has = |name: &str| path.join(name).is_file();
        match (has("oci-layout"), has("tool.toml")) {
            (true, false) => Ok(Self::Layout(path.to_owned())),
            (false, true) => Ok(Self::Project(path.to_owned())),
            (true, true) => Err(ReferenceError::TwoInOne(path.to_owned())),
            (false, false) => Err(ReferenceError::NoTool(path.to_owned())),
        }
    }
}

/// Returns whether a parameter in the query of an address looks like a credential: by its name, or
/// because its value is a long row of letters and digits.
fn has_credential(url: &Url) -> bool {
    url.query_pairs().any(|(name, value)| {
        let name = name.to_ascii_lowercase().replace(['-', '_', '.'], "");
        // A parameter without a value may be the credential itself.
        let long = if value.is_empty() { &*name } else { &*value };
        CREDENTIAL_NAMES.contains(&&*name)
            || CREDENTIAL_WORDS.iter().any(|word| name.contains(*word))
            || (looks_random(long) && !REVISION_NAMES.contains(&&*name))
    })
}

/// Returns whether a value looks like a random token or a JWT, and not like a path, a file or a
/// version.
fn looks_random(value: &str) -> bool {
    let is_of_token = |c: char| c.is_ascii_alphanumeric() || "-_~+=".contains(c);
    let is_row = value.len() >= SHORTEST_TOKEN
        && value.chars().all(is_of_token)
        && value.contains(|c: char| c.is_ascii_digit())
        && value.contains(|c: char| c.is_ascii_alphabetic());
    is_row || (value.starts_with("eyJ") && value.contains('.'))
}

/// Returns whether an address belongs to this machine, judging only by its host.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// Returns whether a text without a scheme is a path: it does not begin with a host that is
/// followed by a repository.
fn is_path(text: &str) -> bool {
    let Some((first, _)) = text.split_once('/') else { return !text.contains('@') };
    let is_host = first.contains(['.', ':', '@', '[']) || first == "localhost";
    is_marked_path(text) || !is_host
}

/// Returns whether the beginning of a text can only be a path's.
fn is_marked_path(text: &str) -> bool {
    ["/", "./", "../", "~/"].iter().any(|beginning| text.starts_with(beginning))
}

/// Returns whether a path looks like `NAME/NAME` or `NAME:TAG`, which can be references to Docker
/// Hub.
fn is_short_repository(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_relative = !text.starts_with(['/', '.', '~']);
    is_relative && text.contains([':', '/']) && path.extension().is_none_or(|it| it != "wasm")
}

/// Makes a text safe for a message: without characters that control a terminal or reverse text.
fn shown(text: &str) -> String {
    crate::harmless::line(text)
}

#[cfg(test)]
mod tests;
