//! Credentials for registries, from the places where docker and podman store them: their files, and
//! the helpers that the files name.
//!
//! This module stores no credentials, and takes none from a command line. `transport` and `oci`
//! decide which servers get a credential.

mod error;
mod file;
mod helper;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::CredentialError;
use file::{AuthFile, CredentialLookup};

/// The time limit for a helper. Some helpers ask the user to unlock their keys.
const HELPER: Duration = Duration::from_secs(60);

/// The variables of a helper.
pub type HelperEnv = Vec<(OsString, OsString)>;

/// The check of a helper, which gets its name and its argument.
type HelperCheck = dyn Fn(&[OsString]) -> Result<HelperEnv, String> + Send + Sync;

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A user and a password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that the registry's issuer exchanges for other tokens.
    IdentityToken(String),
}

/// The places of credentials. The first one with a match wins.
#[derive(Clone, Default)]
pub struct Credentials {
    files: Vec<PathBuf>,
    /// The check of helpers. Without one, helpers start as this process did.
    check: Option<Arc<HelperCheck>>,
    helper: Option<Duration>,
}

impl Credentials {
    /// Returns the places in which podman and docker look, according to an environment's variables.
    #[must_use]
    pub fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let at = |name: &str, rest: &str| {
            variable(name).filter(|it| !it.is_empty()).map(|it| PathBuf::from(it).join(rest))
        };
        let named = variable("REGISTRY_AUTH_FILE").filter(|it| !it.is_empty()).map(PathBuf::from);
        let podman = at("XDG_CONFIG_HOME", "containers/auth.json")
            .or_else(|| at("HOME", ".config/containers/auth.json"));
        let docker =
            at("DOCKER_CONFIG", "config.json").or_else(|| at("HOME", ".docker/config.json"));
        let runtime = at("XDG_RUNTIME_DIR", "containers/auth.json");
        Self::of_files([named, runtime, podman, docker].into_iter().flatten().collect())
    }

    /// Returns the credentials in these files. The first file with a match wins.
    #[must_use]
    pub fn of_files(files: Vec<PathBuf>) -> Self {
        Self { files, check: None, helper: None }
    }

    /// Returns the same places with a check of helpers before each start. The check gets the name
    /// of the helper and its argument. It returns the variables with which the helper starts, in
    /// `/`, or the reason why it may not start. The helper is searched for in the `PATH` of these
    /// variables.
    #[must_use]
    pub fn with_helper_check(
        self,
        check: impl Fn(&[OsString]) -> Result<HelperEnv, String> + Send + Sync + 'static,
    ) -> Self {
        Self { check: Some(Arc::new(check)), ..self }
    }

    /// Returns the same places with another time limit for helpers.
    #[must_use]
    pub fn with_helper_time(self, longest: Duration) -> Self {
        Self { helper: Some(longest), ..self }
    }

    /// Returns the credential for a repository of a host, if one is stored. A missing file counts
    /// as empty.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, or if a helper fails.
    pub async fn find(
        &self,
        host: &str,
        repository: &str,
    ) -> Result<Option<Credential>, CredentialError> {
        for path in &self.files {
            let Some(file) = AuthFile::read(path)? else { continue };
            let found = match file.find(host, repository) {
                None => None,
                Some(CredentialLookup::Credential(credential)) => Some(credential),
                Some(CredentialLookup::Helper { name, server }) => {
                    let longest = self.helper.unwrap_or(HELPER);
                    helper::get(&name, &server, self.check.as_deref(), longest).await?
                }
                Some(CredentialLookup::Unreadable) => {
                    let (path, reason) =
                        (path.clone(), format!("the entry of `{host}` is not a credential"));
                    return Err(CredentialError::File { path, reason });
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("files", &self.files).finish_non_exhaustive()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password { .. } => "Password(…)",
            Self::IdentityToken(_) => "IdentityToken(…)",
        })
    }
}

#[cfg(test)]
mod tests;
