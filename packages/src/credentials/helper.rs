//! Credential helpers: programs `docker-credential-NAME` that a file of the user names.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{Credential, CredentialError, HelperCheck};
use crate::harmless;

/// The largest answer in bytes.
const LARGEST: u64 = 64 << 10;

/// The user name that marks a token.
const TOKEN: &str = "<token>";

/// The answer of a helper without the credential. All of docker's helpers use it.
const NOT_FOUND: &str = "credentials not found";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// Asks a helper for the credential of a server. Kills the helper if it takes too long, or if the
/// future is dropped.
pub(super) async fn get(
    name: &str,
    server: &str,
    check: Option<&HelperCheck>,
    longest: Duration,
) -> Result<Option<Credential>, CredentialError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // With a path, a credentials file could choose any program.
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(CredentialError::HelperName(harmless::line(name)));
    }
    let program = format!("docker-credential-{name}");
    let mut child = spawn(&program, check)?;
    let answer = timeout(longest, talk(&mut child, server)).await;
    let late = || CredentialError::HelperTime { program: program.clone(), after: longest };
    let failed = |reason: String| CredentialError::Helper {
        program: program.clone(),
        server: harmless::line(server),
        reason,
    };
    let (succeeded, output, said) =
        answer.map_err(|_| late())?.map_err(|error| failed(error.to_string()))?;
    if !succeeded {
        let of_output = String::from_utf8_lossy(&output);
        if of_output.contains(NOT_FOUND) {
            return Ok(None);
        }
        let of_errors = String::from_utf8_lossy(&said);
        let said = [of_errors.trim(), of_output.trim()].into_iter().find(|it| !it.is_empty());
        return Err(failed(harmless::line(said.unwrap_or("it says nothing"))));
    }
    // The parser's message could quote the secret.
    let answer: HelperAnswer = serde_json::from_slice(&output)
        .map_err(|_| failed("its answer is not a credential".to_owned()))?;
    Ok(match answer {
        HelperAnswer { secret, .. } if secret.is_empty() => None,
        HelperAnswer { username, secret } if username == TOKEN => {
            Some(Credential::IdentityToken(secret))
        }
        HelperAnswer { username, secret } => {
            Some(Credential::Password { user: username, password: secret })
        }
    })
}

#[allow(clippy::disallowed_methods, reason = "a helper that the user configured")]
fn spawn(program: &str, check: Option<&HelperCheck>) -> Result<Child, CredentialError> {
    let mut command = Command::new(program);
    if let Some(check) = check {
        let env = check(&[program.into(), "get".into()]);
        let env = env.map_err(|reason| CredentialError::HelperRefused {
            program: program.to_owned(),
            reason,
        })?;
        // The helper is searched for in the `PATH` of this environment.
        command.env_clear().envs(env).current_dir("/");
    }
    let spawned = command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    spawned.map_err(|error| CredentialError::NoHelper {
        program: program.to_owned(),
        reason: error.to_string(),
    })
}

/// Sends the name of the server. Returns whether the helper succeeded, its stdout and its stderr.
async fn talk(child: &mut Child, server: &str) -> std::io::Result<(bool, Vec<u8>, Vec<u8>)> {
    if let Some(mut input) = child.stdin.take() {
        // A helper that does not read its input has failed, and its exit status says so.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (output, errors) = tokio::join!(bounded(output), bounded(errors));
    Ok((child.wait().await?.success(), output?, errors?))
}

async fn bounded(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(LARGEST).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
