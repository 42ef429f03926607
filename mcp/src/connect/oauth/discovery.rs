//! The issuer of a server's tokens: RFC 9728, RFC 8414 and OpenID Connect Discovery.

use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde::Deserialize;
use url::Url;

use super::challenge::is_scope;
use super::fetch::{OAuthHttp, accepting_json};
use super::{OAuthError, parameter, untrusted};
use crate::connect::http::challenge;

/// A request that every server knows and that changes nothing.
const PING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

/// The most issuers of one server that are considered.
const MOST: usize = 16;

/// The protection of a server, according to its own description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The server's name at its issuer: RFC 8707.
    pub resource: String,
    /// The issuers of its tokens. Never empty.
    pub issuers: Vec<String>,
    /// The scopes that the server asks for.
    pub scope: Option<String>,
}

/// The metadata of a protected resource.
#[derive(Deserialize)]
struct Described {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// An issuer of tokens, as its metadata describes it.
#[derive(Clone, Debug, Deserialize)]
pub struct Issuer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
}

impl Issuer {
    /// Returns the name of the issuer, which is its address.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.issuer
    }

    /// Returns whether a program can register itself.
    #[must_use]
    pub fn registers(&self) -> bool {
        self.registration_endpoint.is_some()
    }
}

impl OAuthHttp {
    /// Asks a server who issues its tokens. Sends nothing to any other server.
    ///
    /// # Errors
    ///
    /// Fails if the server does not say so, or describes another server.
    pub async fn protection(&self, server: &str) -> Result<Protection, OAuthError> {
        let url = self.judged(server).await?;
        let mut headers = accepting_json();
        headers.append(header::ACCEPT, header::HeaderValue::from_static("text/event-stream"));
        let json = header::HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let asked = self.head(server, Method::POST, headers, Bytes::from_static(PING.as_bytes()));
        let answer = asked.await?;
        let is_refused = answer.status() == StatusCode::UNAUTHORIZED;
        let challenge = if is_refused { challenge(answer.headers()) } else { String::new() };
        // The body is useless, and may be endless.
        drop(answer);
        let places = match parameter(&challenge, "resource_metadata") {
            Some(named) => vec![own_place(&url, &named)?],
            None => described_at(&url),
        };
        for place in places {
            if let Some(described) = self.document::<Described>(place.as_str()).await? {
                return protection(&url, described, parameter(&challenge, "scope"));
            }
        }
        Err(untrusted("the server does not say who issues its tokens (RFC 9728)"))
    }

    /// Returns the metadata of an issuer.
    ///
    /// # Errors
    ///
    /// Fails if the metadata is missing, belongs to another issuer, or lacks what makes a login
    /// safe.
    pub async fn issuer(&self, issuer: &str) -> Result<Issuer, OAuthError> {
        let url = self.judged(issuer).await?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(untrusted(format!("`{issuer}` is not the URL of an issuer")));
        }
        for place in issuer_places(&url) {
            let Some(found) = self.document::<Issuer>(place.as_str()).await? else { continue };
            return self.checked(found, issuer);
        }
        Err(untrusted(format!("the issuer `{issuer}` does not describe itself (RFC 8414)")))
    }

    /// Refuses the metadata of another issuer, or of an issuer whose codes could be stolen.
    fn checked(&self, found: Issuer, issuer: &str) -> Result<Issuer, OAuthError> {
        // RFC 8414, section 3.3. Issuers are inconsistent about the trailing slash.
        if found.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
            let what = format!("the metadata of the issuer `{issuer}` names another issuer");
            return Err(untrusted(what));
        }
        if !found.code_challenge_methods_supported.iter().any(|it| it == "S256") {
            let what = format!("the issuer `{issuer}` does not protect its codes (PKCE by S256)");
            return Err(untrusted(what));
        }
        let others = [&found.registration_endpoint, &found.revocation_endpoint];
        let own = [&found.authorization_endpoint, &found.token_endpoint];
        for endpoint in own.into_iter().chain(others.into_iter().flatten()) {
            self.trusted(endpoint)?;
        }
        Ok(found)
    }
}

/// Returns the address of the metadata that a challenge names.
fn own_place(server: &Url, named: &str) -> Result<Url, OAuthError> {
    // Otherwise a server could point this program at addresses of its choice.
    let place = Url::parse(named).ok().filter(|place| place.origin() == server.origin());
    place.ok_or_else(|| untrusted("the server keeps its metadata at another address than its own"))
}

/// Returns the addresses at which a server may describe itself: RFC 9728, section 3.1.
fn described_at(server: &Url) -> Vec<Url> {
    let with_path = well_known(server, "oauth-protected-resource");
    let mut root = with_path.clone();
    root.set_path("/.well-known/oauth-protected-resource");
    if root == with_path { vec![root] } else { vec![with_path, root] }
}

/// Returns the addresses at which an issuer may describe itself: RFC 8414, section 3, and the two
/// of OpenID Connect.
fn issuer_places(issuer: &Url) -> Vec<Url> {
    let mut places = vec![
        well_known(issuer, "oauth-authorization-server"),
        well_known(issuer, "openid-configuration"),
    ];
    let path = issuer.path().trim_end_matches('/');
    if !path.is_empty() {
        let mut appended = issuer.clone();
        appended.set_path(&format!("{path}/.well-known/openid-configuration"));
        places.push(appended);
    }
    places
}

/// Inserts a well-known name before the path of an address.
fn well_known(url: &Url, name: &str) -> Url {
    let mut place = url.clone();
    place.set_path(&format!("/.well-known/{name}{}", url.path().trim_end_matches('/')));
    place.set_query(None);
    place.set_fragment(None);
    place
}

fn protection(
    server: &Url,
    described: Described,
    asked: Option<String>,
) -> Result<Protection, OAuthError> {
    let Described { resource, authorization_servers: mut issuers, scopes_supported } = described;
    if !Url::parse(&resource).is_ok_and(|resource| covers(&resource, server)) {
        // Otherwise this server could use the tokens that the issuer gives out for the other one.
        return Err(untrusted("the server describes another server than itself"));
    }
    issuers.truncate(MOST);
    if issuers.is_empty() {
        return Err(untrusted("the server names no issuer of its tokens"));
    }
    let all = scopes_supported.map(|scopes| scopes.join(" "));
    let scope = asked.or(all).filter(|scope| is_scope(scope));
    Ok(Protection { resource, issuers, scope })
}

/// Returns whether a resource is a server or contains it. Many servers name only their origin.
fn covers(resource: &Url, server: &Url) -> bool {
    if resource.origin() != server.origin() || resource.fragment().is_some() {
        return false;
    }
    if resource.query().is_some() {
        return resource == server;
    }
    let path = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn metadata_is_looked_for_where_the_standards_say() {
        let places = |places: Vec<Url>| places.iter().map(Url::to_string).collect::<Vec<_>>();
        assert_eq!(
            places(described_at(&url("https://a.example/x/mcp?y=1"))),
            [
                "https://a.example/.well-known/oauth-protected-resource/x/mcp",
                "https://a.example/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(places(described_at(&url("https://a.example"))).len(), 1);
        assert_eq!(
            places(issuer_places(&url("https://a.example/t/"))),
            [
                "https://a.example/.well-known/oauth-authorization-server/t",
                "https://a.example/.well-known/openid-configuration/t",
                "https://a.example/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(places(issuer_places(&url("https://a.example/"))).len(), 2);
    }

    #[test]
    fn a_server_speaks_for_itself_alone() {
        let server = url("https://a.example/x/mcp");
        for own in ["https://a.example/x/mcp", "https://a.example", "https://a.example:443/x/"] {
            assert!(covers(&url(own), &server), "{own}");
        }
        for other in [
            "https://b.example/x/mcp",
            "http://a.example/x/mcp",
            "https://a.example:8443/x/mcp",
            "https://a.example/x/mc",
            "https://a.example/x/mcp/y",
            "https://a.example/x/mcp?tenant=2",
            "https://a.example/x/mcp#y",
        ] {
            assert!(!covers(&url(other), &server), "{other}");
        }
        assert!(own_place(&server, "https://a.example/meta").is_ok());
        for other in ["https://b.example/meta", "http://169.254.169.254/latest", "/meta", ""] {
            assert!(own_place(&server, other).is_err(), "{other}");
        }
    }
}
