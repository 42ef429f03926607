//! One login: the address that the user opens, and the check of the browser's answer.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;
use url::{Url, form_urlencoded};

use super::discovery::{Issuer, Protection};
use super::fetch::OAuthHttp;
use super::refusal::described;
use super::registration::OAuthClient;
use super::session::OAuthSession;
use super::{OAuthError, untrusted};

/// The number of random bytes in a secret value: RFC 7636, section 4.1.
const RANDOM: usize = 32;

/// The longest code in bytes.
const LONGEST: usize = 8 << 10;

/// The scope for which issuers also send a token for renewal: OpenID Connect.
const OFFLINE: &str = "offline_access";

/// A login that waits for its answer.
pub struct Authorization {
    issuer: Issuer,
    resource: String,
    client: OAuthClient,
    redirect: String,
    scope: Option<String>,
    /// The PKCE verifier. It proves that the program that exchanges the code is the one that asked
    /// for it.
    verifier: String,
    /// The `state` parameter, which identifies an answer to this login.
    state: String,
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("issuer", &self.issuer.issuer).finish_non_exhaustive()
    }
}

impl Authorization {
    /// Begins a login at an issuer, whose answer goes to `redirect`. Without a `scope`, the login
    /// uses the scope that the server asks for.
    ///
    /// # Errors
    ///
    /// Fails if the system has no source of randomness.
    pub fn new(
        issuer: Issuer,
        protection: &Protection,
        client: OAuthClient,
        redirect: String,
        scope: Option<String>,
    ) -> Result<Self, OAuthError> {
        let scope = scope.or_else(|| protection.scope.clone());
        let scope = scope.map(|scope| with_renewal(scope, &issuer));
        let resource = protection.resource.clone();
        Ok(Self {
            issuer,
            resource,
            client,
            redirect,
            scope,
            verifier: random()?,
            state: random()?,
        })
    }

    /// Returns the address that the user opens.
    ///
    /// # Errors
    ///
    /// Fails if the issuer's authorization endpoint is not a valid URL.
    pub fn url(&self) -> Result<Url, OAuthError> {
        let address = &self.issuer.authorization_endpoint;
        let mut url = Url::parse(address)
            .map_err(|_| untrusted(format!("`{address}` of the issuer is not a URL")))?;
        let challenge = digest(&SHA256, self.verifier.as_bytes());
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client.id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(challenge))
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &self.state)
            .append_pair("resource", &self.resource)
            .extend_pairs(self.scope.iter().map(|scope| ("scope", scope)));
        Ok(url)
    }

    /// Reads the query with which a browser came back, and returns the code. Returns `None` if the
    /// query does not belong to this login.
    ///
    /// # Errors
    ///
    /// Fails if the issuer or the user refused, or if the answer came from another issuer or has no
    /// code.
    pub fn answered(&self, query: &str) -> Option<Result<String, OAuthError>> {
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let find = |name: &str| {
            let mut values = pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value);
            // A name that occurs twice would be ambiguous.
            values.next().filter(|_| values.next().is_none()).map(|value| value.as_ref())
        };
        let state = find("state")?;
        if !bool::from(state.as_bytes().ct_eq(self.state.as_bytes())) {
            return None;
        }
        Some(self.code(find("iss"), find("error"), find("error_description"), find("code")))
    }

    fn code(
        &self,
        issuer: Option<&str>,
        error: Option<&str>,
        description: Option<&str>,
        code: Option<&str>,
    ) -> Result<String, OAuthError> {
        // RFC 9207: the code of another issuer must not be sent to this one.
        let is_named =
            issuer.is_some() || self.issuer.authorization_response_iss_parameter_supported;
        if is_named && issuer != Some(&self.issuer.issuer) {
            return Err(untrusted(format!(
                "the answer did not come from the issuer `{}`",
                self.issuer.issuer
            )));
        }
        if let Some(error) = error {
            return Err(described(error, description, &[]));
        }
        let code = code.filter(|code| !code.is_empty() && code.len() <= LONGEST);
        code.map(ToOwned::to_owned).ok_or_else(|| untrusted("the answer of the issuer has no code"))
    }

    /// Exchanges a code for tokens.
    ///
    /// # Errors
    ///
    /// Fails if the issuer refuses, or if its answer is not valid.
    pub async fn exchange(&self, http: &OAuthHttp, code: &str) -> Result<OAuthSession, OAuthError> {
        let session = OAuthSession::new(&self.issuer, &self.resource, &self.client);
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &self.verifier),
        ];
        session.granted(http, &form, self.scope.as_deref()).await
    }
}

/// Adds the scope for token renewal, if the issuer supports one.
fn with_renewal(scope: String, issuer: &Issuer) -> String {
    let is_offered = issuer.scopes_supported.iter().any(|it| it == OFFLINE);
    if !is_offered || scope.split(' ').any(|it| it == OFFLINE) {
        return scope;
    }
    format!("{scope} {OFFLINE}")
}

/// Returns an unguessable text.
fn random() -> Result<String, OAuthError> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(|error| {
        OAuthError::Unreachable(format!("the system's random numbers: {error}"))
    })?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(Bytes::copy_from_slice(&bytes)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn authorization(announces: bool) -> Authorization {
        let issuer = serde_json::from_value(json!({
            "issuer": "https://issuer.example",
            "authorization_endpoint": "https://issuer.example/authorize?tenant=1",
            "token_endpoint": "https://issuer.example/token",
            "authorization_response_iss_parameter_supported": announces,
            "scopes_supported": ["tools", OFFLINE],
        }));
        let issuer: Issuer = issuer.expect("an issuer");
        let protection = Protection {
            resource: "https://a.example/mcp".to_owned(),
            issuers: vec![issuer.issuer.clone()],
            scope: Some("tools".to_owned()),
        };
        let client = OAuthClient::known(&issuer, "c 1".to_owned(), None);
        let redirect = "http://127.0.0.1:1/callback".to_owned();
        Authorization::new(issuer, &protection, client, redirect, None).expect("begun")
    }

    #[test]
    fn the_address_has_a_challenge_and_not_its_verifier() {
        let login = authorization(true);
        let url = login.url().expect("an address");
        let query: Vec<_> = url.query_pairs().into_owned().collect();
        let find = |name: &str| {
            let found = query.iter().find(|(key, _)| key == name);
            found.unwrap_or_else(|| panic!("no {name}: {url}")).1.clone()
        };
        assert_eq!([find("tenant"), find("client_id")], ["1", "c 1"]);
        assert_eq!(find("scope"), "tools offline_access");
        assert_eq!(find("resource"), "https://a.example/mcp");
        assert_eq!((find("state"), find("code_challenge").len()), (login.state.clone(), 43));
        assert!(!url.as_str().contains(&login.verifier), "{url}");
        assert_ne!(authorization(true).state, login.state);
    }

    #[test]
    fn an_answer_counts_if_it_is_for_this_login_and_from_its_issuer() {
        for (announces, rest, expected) in [
            (true, "&code=x&iss=https%3A%2F%2Fissuer.example", Ok("x")),
            (false, "&code=x", Ok("x")),
            (false, "&code=x&iss=https%3A%2F%2Fother.example", Err("did not come from")),
            (true, "&code=x", Err("did not come from")),
            (true, "&code=x&iss=https%3A%2F%2Fissuer.example&iss=y", Err("did not come from")),
            (false, "", Err("has no code")),
            (false, "&code=x&code=y", Err("has no code")),
            (false, "&error=access_denied&error_description=no%1b%5b2J", Err("access_denied: no")),
        ] {
            let login = authorization(announces);
            let answer = login.answered(&format!("state={}{rest}", login.state));
            match (answer.expect("an answer to this login"), expected) {
                (Ok(code), Ok(expected)) => assert_eq!(code, expected),
                (Err(error), Err(expected)) => {
                    let error = error.to_string();
                    assert!(error.contains(expected) && !error.contains('\u{1b}'), "{error}");
                }
                (answer, _) => panic!("{rest}: {answer:?}"),
            }
        }
        let login = authorization(false);
        for foreign in ["code=x", "state=&code=x", &format!("state={0}&state={0}", login.state)] {
            assert!(login.answered(foreign).is_none(), "{foreign}");
        }
    }
}
