//! Access tokens of an issuer: who they say the client is, and what it may use.
//!
//! A token is a JWT that is signed by a key which the issuer publishes (`keys`), is from that issuer,
//! was made for this server and for no other, and has not expired. The format is read by the crate
//! `jsonwebtoken`, the signature is checked by ring (`signatures`).

mod keys;
mod signatures;

use std::time::Duration;

use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use serde::Deserialize;
use url::Url;

pub(super) use keys::Unreachable;
use keys::{Key, Keys};

use super::access::{Principal, Scope};

/// The algorithms of signatures. Those with a shared secret are none of them: the key that everybody
/// can read would be the secret.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::ES256, Algorithm::RS256, Algorithm::EdDSA];

/// The difference between the clocks of the issuer and of this machine.
const LEEWAY: Duration = Duration::from_secs(30);

/// The longest name of a principal in bytes.
const MAX_NAME: usize = 128;

/// The path at which a server says who issues its tokens: RFC 9728, section 3.
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// An issuer of access tokens, and the server that they are for.
#[derive(Debug)]
pub struct OAuth {
    issuer: String,
    resource: Url,
    validation: Validation,
    keys: Keys,
}

/// The reason for which an issuer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOAuth {
    /// The address is malformed.
    #[error("`{0}` is not an `https` URL, without a user, a query and a fragment")]
    Url(String),
    /// Nothing can be fetched.
    #[error("the keys of an issuer cannot be fetched: {0}")]
    Client(String),
}

/// The reason for which a token is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejected {
    /// It is no token of the issuer for this server.
    #[error("{0}")]
    Invalid(String),
    /// The keys of the issuer are not known.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// The claims of a token, besides those that the validation looks at.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    // As texts: lists of issuers are none.
    #[serde(rename = "iss")]
    _iss: String,
    #[serde(default)]
    scope: String,
}

impl OAuth {
    /// Returns the tokens of `issuer` for the server that clients know as `resource`. Nothing is
    /// fetched yet.
    ///
    /// # Errors
    ///
    /// One of the addresses is malformed, or is neither `https` nor on this machine.
    pub fn new(issuer: &str, resource: &str) -> Result<Self, InvalidOAuth> {
        let (address, resource_address) = (address(issuer)?, address(resource)?);
        let validation = validation(issuer, resource);
        let keys = Keys::for_issuer(issuer, &address)?;
        Ok(Self { issuer: issuer.to_owned(), resource: resource_address, validation, keys })
    }

    /// Returns the host that clients know this server by.
    pub(super) fn host(&self) -> &str {
        // One without a host was refused.
        self.resource.host_str().unwrap_or_default()
    }

    /// Returns the principal of a token.
    ///
    /// # Errors
    ///
    /// It is not taken.
    pub(super) async fn principal(&self, token: &str) -> Result<Principal, Rejected> {
        let Header { alg, kid, .. } = header(token).map_err(Rejected::Invalid)?;
        let key = self.keys.find(kid.as_deref(), alg).await?;
        let key = key.ok_or_else(|| Rejected::Invalid("the key is not the issuer's".to_owned()))?;
        claimed(token, &key, &self.validation).map_err(Rejected::Invalid)
    }

    /// Returns the description of this server, if `path` is one where clients look for it.
    pub(super) fn metadata(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(METADATA)?;
        if !rest.is_empty() && rest != self.resource.path() {
            return None;
        }
        let scopes = [Scope::Tools.as_str(), Scope::Documents.as_str()];
        let description = serde_json::json!({
            "resource": self.validation.aud.iter().flatten().next(),
            "authorization_servers": [self.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "ikigai",
        });
        Some(description.to_string())
    }

    /// Returns the parameters of a challenge that lead a client to the issuer.
    pub(super) fn challenge(&self) -> String {
        let origin = self.resource.origin().ascii_serialization();
        let path = self.resource.path().trim_end_matches('/');
        format!(r#"resource_metadata="{origin}{METADATA}{path}""#)
    }
}

/// Returns what a token must say besides its signature.
fn validation(issuer: &str, resource: &str) -> Validation {
    let mut validation = Validation::default();
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.set_issuer(&[issuer]);
    validation.set_audience(&[resource]);
    validation.validate_nbf = true;
    validation.leeway = LEEWAY.as_secs();
    signatures::install();
    validation
}

/// Returns the header of a token, which names its key.
fn header(token: &str) -> Result<Header, String> {
    let header = decode_header(token).map_err(|error| error.to_string())?;
    if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
        return Err("the algorithm is not supported".to_owned());
    }
    Ok(header)
}

/// Returns the principal of a token that is signed by a key of the issuer.
fn claimed(token: &str, key: &Key, validation: &Validation) -> Result<Principal, String> {
    let mut validation = validation.clone();
    // That of the key, whatever the token says.
    validation.algorithms = vec![key.algorithm];
    let token = decode::<Claims>(token, &key.decoding, &validation);
    let claims = token.map_err(|error| error.to_string())?.claims;
    if !is_name(&claims.sub) {
        return Err(format!(
            "the name of the principal must have 1 to {MAX_NAME} printable characters of ASCII, with \
             single spaces only between others"
        ));
    }
    let has = |scope: Scope| claims.scope.split(' ').any(|it| it == scope.as_str());
    Ok(Principal::new(&claims.sub, has(Scope::Tools), has(Scope::Documents)))
}

/// Returns whether a text can be the name of a principal: one that looks like no other. It is written
/// into logs and beside assets. OpenID Connect, section 2, allows only ASCII.
fn is_name(text: &str) -> bool {
    let words = || text.split(' ');
    text.len() <= MAX_NAME
        && words().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Returns an address that can be trusted to be whose it says: by TLS, or on this machine.
fn address(text: &str) -> Result<Url, InvalidOAuth> {
    let invalid = || InvalidOAuth::Url(text.to_owned());
    let url = Url::parse(text).map_err(|_| invalid())?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain && is_trusted(&url) { Ok(url) } else { Err(invalid()) }
}

/// Returns whether nobody between here and a server can change what it says.
fn is_trusted(url: &Url) -> bool {
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(url::Host::Ipv4(address))) => address.is_loopback(),
        ("http", Some(url::Host::Ipv6(address))) => address.is_loopback(),
        _ => false,
    }
}

/// The readers of this module for the fuzz targets.
pub(super) mod fuzzing {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{Ed25519KeyPair, KeyPair as _};
    use serde_json::json;

    use super::keys::Known;
    use super::*;

    /// The issuer of the tokens.
    pub const ISSUER: &str = "https://issuer.example";

    /// The server that the tokens are for.
    pub const RESOURCE: &str = "https://tools.example/mcp";

    /// An issuer that signs whatever it is given.
    pub struct Signer {
        key: Ed25519KeyPair,
        known: Known,
        validation: Validation,
    }

    impl Signer {
        /// Returns the signer, whose one key is called `k`; nothing where ring has no such keys.
        #[must_use]
        pub fn new() -> Option<Self> {
            let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).ok()?;
            let public = URL_SAFE_NO_PAD.encode(key.public_key());
            let published = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": public });
            let known = Known::from_keys(vec![published]);
            Some(Self { key, known, validation: validation(ISSUER, RESOURCE) })
        }

        /// Signs a token with this header and these claims, and returns its principal.
        ///
        /// # Errors
        ///
        /// The token is not taken; the text says why.
        pub fn principal(&self, header: &[u8], claims: &[u8]) -> Result<Principal, String> {
            let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
            let message = format!("{header}.{claims}");
            let signature = URL_SAFE_NO_PAD.encode(self.key.sign(message.as_bytes()));
            self.read(&format!("{message}.{signature}"))
        }

        /// Returns the principal of a token.
        ///
        /// # Errors
        ///
        /// The token is not taken; the text says why.
        pub fn read(&self, token: &str) -> Result<Principal, String> {
            let Header { alg, kid, .. } = header(token)?;
            let key = self.known.find(kid.as_deref(), alg).0.ok_or("there is no such key")?;
            claimed(token, &key, &self.validation)
        }
    }

    /// Returns the number of keys that are taken from the document of an issuer.
    #[must_use]
    pub fn keys(document: &[u8]) -> usize {
        serde_json::from_slice(document).map_or(0, |set| keys::taken(set).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_others_could_answer_for_are_refused() {
        for good in ["https://issuer.example", "https://h:8443/t/1", "http://127.0.0.1:1/mcp"] {
            assert!(address(good).is_ok(), "{good}");
        }
        for bad in [
            "http://issuer.example",
            "http://localhost.example",
            "https://user@issuer.example",
            "https://issuer.example/?x",
            "https://issuer.example/#x",
            "file:///etc/passwd",
            "issuer.example",
            "",
        ] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_two_principals_look_alike() {
        for good in ["a", "auth0|64f", "CN=Ann Bee,OU=x", "ann@example.org", &"x".repeat(MAX_NAME)]
        {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            "ann\u{200b}",
            "ann\u{ad}",
            "\u{430}nn",
            "ann ",
            " ann",
            "ann  bee",
            "ann\u{a0}bee",
            "ann\n",
            &"x".repeat(MAX_NAME + 1),
        ] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_server_is_described_where_clients_look() {
        let oauth = OAuth::new("https://issuer.example", "https://tools.example/mcp");
        let oauth = oauth.expect("addresses");
        for path in [METADATA.to_owned(), format!("{METADATA}/mcp")] {
            let found = oauth.metadata(&path).expect("a description");
            assert!(found.contains(r#""resource":"https://tools.example/mcp""#), "{found}");
            assert!(found.contains(r#""authorization_servers":["https://issuer.example"]"#));
        }
        assert_eq!(oauth.metadata(&format!("{METADATA}/other")), None);
        assert_eq!(oauth.metadata("/mcp"), None);
        let challenge = oauth.challenge();
        let expected = "https://tools.example/.well-known/oauth-protected-resource/mcp";
        assert_eq!(challenge, format!(r#"resource_metadata="{expected}""#));
    }
}
