//! The files `config.json` of docker and `auth.json` of podman.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::{Credential, CredentialError};

/// The largest file in bytes.
const LARGEST: u64 = 1 << 20;

/// The names of Docker Hub in references and in the files. The last is the key that `docker login`
/// writes.
const DOCKER_HUB: [&str; 3] = ["docker.io", "registry-1.docker.io", "index.docker.io"];

/// A file of credentials.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AuthFile {
    auths: BTreeMap<String, AuthEntry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

/// The result of a search in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CredentialLookup {
    Credential(Credential),
    /// A helper has the credential.
    Helper {
        name: String,
        server: String,
    },
    /// The entry does not have the format of docker or podman.
    Unreadable,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl AuthFile {
    /// Reads a file. Returns `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, CredentialError> {
        let failed = |reason: String| CredentialError::File { path: path.to_owned(), reason };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        };
        let mut text = Vec::new();
        let read = file.take(LARGEST + 1).read_to_end(&mut text);
        if read.map_err(|error| failed(error.to_string()))? as u64 > LARGEST {
            return Err(failed(format!("it has more than {LARGEST} bytes")));
        }
        // The parser's message could quote a secret.
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            failed(format!(
                "line {}: it is not the JSON that docker and podman write",
                error.line()
            ))
        })
    }

    /// Returns the entry for a repository. The key with the whole path is tried first, the host
    /// last.
    pub(super) fn find(&self, host: &str, repository: &str) -> Option<CredentialLookup> {
        let host = if DOCKER_HUB.contains(&host) { DOCKER_HUB[0] } else { host };
        let whole = format!("{host}/{repository}");
        let mut key = whole.as_str();
        loop {
            if let Some(found) = self.find_key(key) {
                return Some(found);
            }
            match key.rsplit_once('/') {
                Some((shorter, _)) => key = shorter,
                None => break,
            }
        }
        let name = self.creds_store.clone().filter(|name| !name.is_empty())?;
        // The store uses the key of `docker login`, which is a longer one for Docker Hub.
        let is_hub = host == DOCKER_HUB[0];
        let server = if is_hub { "https://index.docker.io/v1/" } else { host };
        Some(CredentialLookup::Helper { name, server: server.to_owned() })
    }

    fn find_key(&self, key: &str) -> Option<CredentialLookup> {
        let is_key = |known: &str| normal(known) == key;
        if let Some((server, name)) = self.cred_helpers.iter().find(|(known, _)| is_key(known)) {
            return Some(CredentialLookup::Helper { name: name.clone(), server: server.clone() });
        }
        let (server, entry) = self.auths.iter().find(|(known, _)| is_key(known))?;
        match (entry.credential(), &self.creds_store) {
            (Some(found), _) => Some(found),
            // `docker login` leaves an empty entry if a store has the secret.
            (None, Some(name)) if !name.is_empty() => {
                Some(CredentialLookup::Helper { name: name.clone(), server: server.clone() })
            }
            (None, _) => None,
        }
    }
}

impl AuthEntry {
    fn credential(&self) -> Option<CredentialLookup> {
        let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        if let Some(token) = given(&self.identitytoken) {
            return Some(CredentialLookup::Credential(Credential::IdentityToken(token)));
        }
        if let Some(auth) = given(&self.auth) {
            let decoded = BASE64_STANDARD.decode(auth.trim()).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            return Some(match decoded.as_deref().and_then(|text| text.split_once(':')) {
                Some((user, password)) => CredentialLookup::Credential(Credential::Password {
                    user: user.to_owned(),
                    password: password.trim_end_matches('\0').to_owned(),
                }),
                None => CredentialLookup::Unreadable,
            });
        }
        let (user, password) = (given(&self.username)?, given(&self.password)?);
        Some(CredentialLookup::Credential(Credential::Password { user, password }))
    }
}

impl std::fmt::Debug for AuthEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entry(…)")
    }
}

/// Returns a key without the parts that only docker writes: the scheme and the version of the API.
fn normal(key: &str) -> String {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    let key = key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key);
    let (host, path) = key.split_once('/').map_or((key, None), |(host, path)| (host, Some(path)));
    let host = if DOCKER_HUB.contains(&host) { DOCKER_HUB[0] } else { host };
    let host = host.to_ascii_lowercase();
    path.map_or_else(|| host.clone(), |path| format!("{host}/{path}"))
}
