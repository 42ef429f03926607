//! The user's logins at servers over HTTP: for each server a file that only the user can read.
//!
//! Owns their storage. Also makes sure that two processes do not renew a login at the same time,
//! since the second one would use a token that is used up. Commands do the logging in.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use ikigai_host::Paths;
use ikigai_host::paths::{lock_of_user, read_secret, replace_secret};
use ikigai_host::policy::Remedy;
use ikigai_mcp::{OAuthHttp, OAuthSession};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::remedy::policy::sentence;
use crate::variables;

/// The directory below the state directory with a file for each server.
const DIRECTORY: &str = "logins";

/// The time in which another process must finish a renewal: longer than an issuer may take.
const PATIENCE: Duration = Duration::from_secs(45);

/// The number of renewals in progress in this process.
static RENEWALS: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// A renewal in progress, until it is dropped.
struct RenewalGuard;

impl RenewalGuard {
    fn begin() -> Self {
        RENEWALS.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        RENEWALS.send_modify(|count| *count -= 1);
    }
}

/// Waits for the renewals in progress, before the process ends. The issuer may have used up the old
/// token, so the new one has to be stored.
pub(crate) async fn finish_renewals() {
    let mut renewals = RENEWALS.subscribe();
    let over = renewals.wait_for(|count| *count == 0);
    if tokio::time::timeout(PATIENCE, over).await.is_err() {
        tracing::warn!("you may have to log in again: a token renewal was interrupted");
    }
}

/// A login at a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Login {
    /// The address of the server, from its definition. The tokens are only for this address.
    pub(crate) url: String,
    /// The variable with the secret of a client that was registered by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret_env: Option<String>,
    /// The tokens.
    pub(crate) session: OAuthSession,
}

/// The state of the login at a server.
#[derive(Debug)]
pub(crate) enum LoginState {
    /// There is no login for the server's present address.
    None,
    /// There is a login. It is renewed automatically if it is renewable.
    Active(Box<Login>),
    /// There was a login, but its token has expired.
    Ended(Box<Login>),
    /// The login cannot be read, for this reason.
    Unusable(String),
}

/// The logins of the user.
#[derive(Clone, Debug)]
pub(crate) struct Logins {
    dir: Option<PathBuf>,
}

impl Logins {
    /// Returns the logins in the state directory of a user.
    pub(crate) fn from_paths(paths: &Paths) -> Self {
        Self { dir: paths.state.as_ref().map(|state| state.join(DIRECTORY)) }
    }

    /// Returns the login at a server, for its present address.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be used. The text has the reason and the remedy.
    pub(crate) fn find(&self, server: &str, url: &str) -> Result<Option<Login>, String> {
        Ok(self.read(server)?.filter(|login| login.url == url))
    }

    /// Returns the login at a server, for any address.
    pub(crate) fn read(&self, server: &str) -> Result<Option<Login>, String> {
        let Some(path) = self.path(server) else { return Ok(None) };
        let unusable = |reason: String| {
            let (place, hint) = (path.display(), log_in(server));
            format!("the login in `{place}` cannot be used: {reason}; {hint}")
        };
        let text = match read_secret(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        // The parser's error could repeat the secret, so it is not shown.
        let login = serde_json::from_str(&text);
        login.map(Some).map_err(|_| unusable("it is not a login".to_owned()))
    }

    /// Returns the state of the login at a server.
    pub(crate) fn state(&self, server: &str, url: &str) -> LoginState {
        match self.find(server, url) {
            Err(reason) => LoginState::Unusable(reason),
            Ok(None) => LoginState::None,
            Ok(Some(login)) => {
                let login = Box::new(login);
                let is_over = login.session.has_ended() && !login.session.is_renewable();
                if is_over { LoginState::Ended(login) } else { LoginState::Active(login) }
            }
        }
    }

    /// Stores a login, replacing an earlier one.
    pub(crate) fn keep(&self, server: &str, login: &Login) -> anyhow::Result<PathBuf> {
        let _lock = self.lock(server).map_err(anyhow::Error::msg)?;
        self.write(server, login).map_err(anyhow::Error::msg)
    }

    /// Removes the login at a server. Returns whether there was one.
    pub(crate) fn remove(&self, server: &str) -> anyhow::Result<bool> {
        let Some(path) = self.path(server).filter(|path| path.symlink_metadata().is_ok()) else {
            return Ok(false);
        };
        let _lock = self.lock(server).map_err(anyhow::Error::msg)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => {
                let what = format!("cannot remove `{}`", path.display());
                Err(anyhow::Error::new(error).context(what))
            }
        }
    }

    /// Returns a token for a server other than `refused`.
    ///
    /// # Errors
    ///
    /// Fails if there is no login, or if it has expired. The text has the remedy.
    pub(super) async fn token(
        self,
        server: String,
        url: String,
        http: OAuthHttp,
        refused: Option<String>,
    ) -> Result<String, String> {
        let login = self.clone().login(server.clone(), url.clone()).await?;
        if let Some(token) = usable(&login, refused.as_deref()) {
            return Ok(token);
        }
        // Use a separate task: if the caller stops waiting, the issuer may already have used up the
        // old token.
        let renewing = tokio::spawn(self.renewed(server, url, http, refused));
        renewing.await.map_err(|error| error.to_string())?
    }

    /// Renews a login, unless another process just did.
    async fn renewed(
        self,
        server: String,
        url: String,
        http: OAuthHttp,
        refused: Option<String>,
    ) -> Result<String, String> {
        let (logins, name) = (self.clone(), server.clone());
        let locked = tokio::task::spawn_blocking(move || logins.lock(&name)).await;
        let _lock = locked.map_err(|error| error.to_string())??;
        let mut login = self.clone().login(server.clone(), url).await?;
        if let Some(token) = usable(&login, refused.as_deref()) {
            return Ok(token);
        }
        let ended =
            |why: String| format!("the login to `{server}` has expired{why}; {}", log_in(&server));
        if !login.session.is_renewable() {
            return Err(ended(String::new()));
        }
        let kept_secret = login.session.client.secret.clone();
        if let Some(name) = &login.client_secret_env {
            let secret = variables::text(name).filter(|secret| !secret.is_empty());
            let secret = secret.ok_or_else(|| {
                format!("the variable `{name}` with the secret for `{server}` is not set")
            })?;
            login.session.client.secret = Some(secret);
        }
        let _renewal = RenewalGuard::begin();
        login.session = match login.session.renewed(&http).await {
            Ok(session) => session,
            Err(error) if error.ends_session() => return Err(ended(format!(": {error}"))),
            // The old token may be valid for some more seconds.
            Err(error) if refused.is_none() && !login.session.has_ended() => {
                tracing::warn!("the login to `{server}` could not be renewed: {error}");
                return Ok(login.session.token().to_owned());
            }
            Err(error) => {
                return Err(format!("the login to `{server}` cannot be renewed: {error}"));
            }
        };
        login.session.client.secret = kept_secret;
        let token = login.session.token().to_owned();
        let written = tokio::task::spawn_blocking(move || self.write(&server, &login)).await;
        written.map_err(|error| error.to_string())??;
        Ok(token)
    }

    /// Returns the login at a server.
    async fn login(self, server: String, url: String) -> Result<Login, String> {
        let read = tokio::task::spawn_blocking(move || {
            let found = self.find(&server, &url)?;
            found.ok_or_else(|| format!("you are not logged in to `{server}`; {}", log_in(&server)))
        });
        read.await.map_err(|error| error.to_string())?
    }

    fn write(&self, server: &str, login: &Login) -> Result<PathBuf, String> {
        let dir = self.dir.as_ref().ok_or(NO_PLACE)?;
        let name = file_name(server);
        let unwritten = |error: &dyn std::fmt::Display| {
            format!("the login to `{server}` cannot be stored in `{}`: {error}", dir.display())
        };
        let text = serde_json::to_string(login).map_err(|error| unwritten(&error))?;
        replace_secret(dir, &name, &text).map_err(|error| unwritten(&error))?;
        Ok(dir.join(name))
    }

    /// Waits for the lock of a server.
    fn lock(&self, server: &str) -> Result<fs::File, String> {
        let dir = self.dir.as_ref().ok_or(NO_PLACE)?;
        let locked = lock_of_user(dir, &format!("{server}.lock"), PATIENCE);
        let place = dir.display();
        locked.map_err(|error| format!("the logins in `{place}`: {error}"))
    }

    fn path(&self, server: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(file_name(server)))
    }
}

/// The reason if a user has no state directory.
const NO_PLACE: &str =
    "there is no directory to store a login in: neither HOME nor XDG_STATE_HOME is set";

/// Returns the name of the file of a server, whose name has no separators.
fn file_name(server: &str) -> String {
    format!("{server}.json")
}

/// Returns the token of a login, if it is worth sending.
fn usable(login: &Login, refused: Option<&str>) -> Option<String> {
    let session = &login.session;
    // A token that cannot be renewed is used until it expires.
    let is_good = session.is_fresh() || !session.is_renewable() && !session.has_ended();
    (is_good && Some(session.token()) != refused).then(|| session.token().to_owned())
}

/// Returns the hint for a missing token.
fn log_in(server: &str) -> String {
    sentence(&Remedy::LogIn { server: server.to_owned(), scope: None })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn login(url: &str) -> Login {
        let login = serde_json::from_value(json!({ "url": url, "session": {
            "issuer": "https://issuer.example",
            "resource": url,
            "client": { "id": "c", "proof": "none" },
            "token_endpoint": "https://issuer.example/token",
            "access_token": "acc3ss",
            "obtained": 1,
        } }));
        login.expect("a login")
    }

    #[test]
    fn a_login_is_for_one_address_and_for_the_user_alone() {
        let scratch = tempfile::tempdir().expect("a directory");
        let logins = Logins { dir: Some(scratch.path().join("logins")) };
        let url = "https://a.example/mcp";
        assert!(matches!(logins.state("docs", url), LoginState::None));
        assert!(!logins.remove("docs").expect("nothing to remove"));
        let path = logins.keep("docs", &login(url)).expect("kept");
        assert!(matches!(logins.state("docs", url), LoginState::Active(_)));
        for other in ["https://b.example/mcp", "https://a.example/mcp/"] {
            assert!(matches!(logins.state("docs", other), LoginState::None), "{other}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        let error = logins.find("docs", url).expect_err("others can read it");
        assert!(error.contains("others") && error.contains("mcp login docs"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::write(&path, "{\"url\":\"acc3ss").expect("written");
        let error = logins.find("docs", url).expect_err("no login");
        assert!(!error.contains("acc3ss"), "{error}");
        assert!(logins.remove("docs").expect("removed"));
        assert!(!path.exists());
    }
}
