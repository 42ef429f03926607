//! The sources of the tokens that are sent to servers over HTTP.

use ikigai_host::exec::mcp::{Auth, Remote};
use ikigai_host::policy::Remedy;
use ikigai_mcp::{BoxFuture, OAuthHttp, TokenSource, insufficient_scope};

use super::command::TokenCommand;
use super::logins::Logins;
use super::oauth::issuer_http;
use crate::remedy::policy::sentence;
use crate::user_command::CommandGate;
use crate::variables;

/// The tokens of one server.
pub(super) struct ServerTokens {
    server: String,
    source: TokenOrigin,
}

enum TokenOrigin {
    None,
    Variable(String),
    Command(TokenCommand),
    Login { logins: Logins, url: String, http: Box<OAuthHttp> },
}

impl ServerTokens {
    /// Returns the tokens of a server. `gate` checks the command that prints them.
    ///
    /// # Errors
    ///
    /// Fails if this machine trusts no certificate.
    pub(super) fn for_remote(
        remote: &Remote,
        logins: &Logins,
        gate: CommandGate,
    ) -> Result<Self, String> {
        let source = match &remote.auth {
            Auth::None => TokenOrigin::None,
            Auth::Variable(name) => TokenOrigin::Variable(name.clone()),
            Auth::Command { program, args } => {
                TokenOrigin::Command(TokenCommand::new(program.clone(), args.clone(), gate))
            }
            Auth::OAuth => TokenOrigin::Login {
                logins: logins.clone(),
                url: remote.url.clone(),
                http: Box::new(issuer_http(remote)?),
            },
        };
        Ok(Self { server: remote.name.clone(), source })
    }

    async fn other_than(&self, refused: Option<&str>) -> Result<Option<String>, String> {
        let server = &self.server;
        match &self.source {
            TokenOrigin::None => Ok(None),
            TokenOrigin::Variable(_) if refused.is_some() => Ok(None),
            TokenOrigin::Variable(name) => match variables::text(name) {
                Some(token) if !token.is_empty() => Ok(Some(token)),
                _ => Err(format!("the variable `{name}` with the token for `{server}` is not set")),
            },
            TokenOrigin::Command(command) => {
                let token = command.token(refused).await;
                token.map_err(|reason| format!("there is no token for `{server}`: {reason}"))
            }
            TokenOrigin::Login { logins, url, http } => {
                let (server, url, refused) =
                    (server.clone(), url.clone(), refused.map(ToOwned::to_owned));
                logins.clone().token(server, url, (**http).clone(), refused).await.map(Some)
            }
        }
    }
}

impl TokenSource for ServerTokens {
    fn token(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(self.other_than(None))
    }

    fn refresh<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        // Another token would have the same scopes.
        let is_hopeless = refused.is_none() || insufficient_scope(challenge).is_some();
        Box::pin(async move { if is_hopeless { Ok(None) } else { self.other_than(refused).await } })
    }
}

/// Returns the reason and the remedy for a server that did not accept a token. `challenge` is the
/// server's explanation.
pub(super) fn unauthorized(server: &str, auth: &Auth, challenge: &str) -> String {
    let missing = insufficient_scope(challenge);
    let reason = match &missing {
        Some(scope) if !scope.is_empty() => {
            format!("the server `{server}` requires a token with the scope `{scope}`")
        }
        Some(_) => format!("the token for the server `{server}` does not allow this"),
        None if *auth == Auth::None => format!("the server `{server}` requires a token"),
        None => format!("the server `{server}` rejects the token"),
    };
    let hint = match auth {
        Auth::OAuth => {
            let scope = missing.filter(|scope| !scope.is_empty());
            sentence(&Remedy::LogIn { server: server.to_owned(), scope })
        }
        Auth::Variable(name) => format!("set the variable `{name}` to a valid token"),
        Auth::Command { program, .. } => {
            format!("have `{}` print a valid token", program.display())
        }
        Auth::None => format!(
            "`ikigai mcp remove {server}`, and add it with --oauth, --token-env or --token-command"
        ),
    };
    format!("{reason}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let scope = "Bearer error=\"insufficient_scope\", scope=\"read write\"";
        let command = Auth::Command { program: "/bin/pass".into(), args: Vec::new() };
        for (auth, challenge, expected) in [
            (Auth::OAuth, "Bearer", "`ikigai mcp login docs` logs in"),
            (Auth::OAuth, scope, "`ikigai mcp login docs --scope 'read write'`"),
            (Auth::Variable("T".to_owned()), "Bearer", "the variable `T`"),
            (command, "Bearer", "have `/bin/pass` print"),
            (Auth::None, "Bearer", "--oauth"),
        ] {
            let text = unauthorized("docs", &auth, challenge);
            assert!(text.contains(expected), "{text}");
        }
    }
}
