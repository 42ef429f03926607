//! The credential that a request to a registry carries: a token for one repository, or user and
//! password.
//!
//! A credential is sent only to the registry that it is stored for, and to the issuer that this
//! registry names on the same host or in the same domain.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, StatusCode};
use serde::Deserialize;
use url::{Host, Url};

use super::OciError;
use super::challenge::Challenge;
use crate::credentials::Credential;
use crate::transport::{HttpRequest, Transport, check_next, host, is_same_origin, quoted, shown};

/// The largest answer of an issuer in bytes.
const LARGEST_TOKEN: usize = 64 << 10;

/// The name of this program at token issuers.
const CLIENT: &str = "ikigai";

#[derive(Deserialize)]
struct Issued {
    token: Option<String>,
    access_token: Option<String>,
}

/// Returns the value of `Authorization` that a challenge asks for. Returns `None` if the challenge
/// needs a credential and none is stored.
pub(super) async fn answer(
    transport: &Transport,
    registry: &Url,
    challenge: &Challenge,
    credential: Option<&Credential>,
    scope: &str,
) -> Result<Option<HeaderValue>, OciError> {
    match (challenge, credential) {
        (Challenge::Basic, Some(Credential::Password { user, password })) => {
            Ok(Some(basic(user, password)?))
        }
        (Challenge::Basic, _) => Ok(None),
        (Challenge::Bearer { realm, service }, credential) => {
            let realm = judged(registry, realm, credential.is_some())?;
            let request = token_request(realm, service.as_deref(), credential, scope)?;
            token(transport, request).await
        }
    }
}

/// Returns the address of an issuer, if ikigai may send it a request.
fn judged(registry: &Url, realm: &str, has_credential: bool) -> Result<Url, OciError> {
    let refused = |realm: &str, reason: &str| OciError::Realm {
        host: host(registry),
        realm: crate::harmless::line(realm),
        reason: reason.to_owned(),
    };
    let url = registry.join(realm).map_err(|_| refused(realm, "it is not an address"))?;
    let shown = shown(&url);
    if check_next(registry, &url).is_err() {
        return Err(refused(&shown, "`http` and this machine are for registries of this machine"));
    }
    if has_credential && !is_same_party(registry, &url) {
        return Err(refused(&shown, "the credential would go to another host"));
    }
    Ok(url)
}

/// Returns whether an issuer belongs to a registry, judging by its name: it has the same origin, or
/// the same domain. Docker Hub and GitLab run their issuers on sibling hosts.
fn is_same_party(registry: &Url, issuer: &Url) -> bool {
    if is_same_origin(registry, issuer) {
        return true;
    }
    let (Some(Host::Domain(registry)), Some(Host::Domain(issuer))) =
        (registry.host(), issuer.host())
    else {
        return false;
    };
    let Some((_, domain)) = registry.split_once('.') else { return false };
    let is_below = issuer.strip_suffix(domain).is_some_and(|it| it.is_empty() || it.ends_with('.'));
    domain.contains('.') && is_below || registry == issuer
}

fn token_request(
    mut realm: Url,
    service: Option<&str>,
    credential: Option<&Credential>,
    scope: &str,
) -> Result<HttpRequest, OciError> {
    let service = service.unwrap_or_default();
    if let Some(Credential::IdentityToken(token)) = credential {
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("grant_type", "refresh_token"), ("client_id", CLIENT)])
            .extend_pairs([("service", service), ("scope", scope), ("refresh_token", token)])
            .finish();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let mut request = HttpRequest::new(Method::POST, realm).with(header::CONTENT_TYPE, form);
        request.body = Bytes::from(body);
        return Ok(request);
    }
    realm.query_pairs_mut().append_pair("service", service).append_pair("scope", scope);
    let mut request = HttpRequest::new(Method::GET, realm);
    if let Some(Credential::Password { user, password }) = credential {
        request.url.query_pairs_mut().append_pair("account", user);
        request.authorization = Some(basic(user, password)?);
    }
    Ok(request)
}

async fn token(
    transport: &Transport,
    request: HttpRequest,
) -> Result<Option<HeaderValue>, OciError> {
    let what = quoted(&request.url);
    let response = transport.send(request).await?;
    if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&response.status()) {
        return Ok(None);
    }
    let response = transport.successful(response, &what).await?;
    let body = transport.whole(response, LARGEST_TOKEN, &what).await?;
    let malformed =
        |detail: &str| OciError::Malformed { what: what.clone(), detail: detail.to_owned() };
    // The parser's message could quote the token.
    let issued: Issued =
        serde_json::from_slice(&body).map_err(|_| malformed("it gives no token"))?;
    let token = issued.token.or(issued.access_token).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| malformed("it gives no token"))?;
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    value.map(Some).map_err(|_| malformed("its token cannot be sent in a header"))
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, OciError> {
    let value = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
    HeaderValue::from_str(&value).map_err(|_| OciError::Malformed {
        what: "the credential".to_owned(),
        detail: "it cannot be sent in a header".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sent(registry: &str, realm: &str) -> Result<(), OciError> {
        judged(&Url::parse(registry).expect("an address"), realm, true).map(|_| ())
    }

    #[test]
    fn a_credential_stays_in_the_domain_of_its_registry() {
        for (registry, realm) in [
            ("https://ghcr.io", "https://ghcr.io/token"),
            ("https://registry-1.docker.io", "https://auth.docker.io/token"),
            ("https://registry.gitlab.com", "https://gitlab.com/jwt/auth"),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5000/token"),
        ] {
            is_sent(registry, realm).expect(realm);
        }
        for (registry, realm) in [
            ("https://ghcr.io", "https://evil.io/token"),
            ("https://ghcr.io", "http://ghcr.io/token"),
            ("https://registry.gitlab.com", "https://evilgitlab.com/token"),
            ("https://registry.gitlab.com", "https://gitlab.com.evil.org/token"),
            ("https://ghcr.io", "https://127.0.0.1/token"),
            ("http://127.0.0.1:5000", "http://127.0.0.1:5001/token"),
            ("http://127.0.0.1:5000", "https://example.org/token"),
            ("https://ghcr.io", "ftp://ghcr.io/token"),
            ("https://10.0.0.1", "https://0.0.1/token"),
        ] {
            assert!(matches!(is_sent(registry, realm), Err(OciError::Realm { .. })), "{realm}");
        }
    }

    #[test]
    fn anybody_may_issue_tokens_that_take_no_credential() {
        let registry = Url::parse("https://ghcr.io").expect("an address");
        judged(&registry, "https://example.org/token", false).expect("no secret is sent");
        assert!(judged(&registry, "http://example.org/token", false).is_err());
    }
}
