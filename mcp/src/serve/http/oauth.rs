//! An issuer's access tokens: who they say the client is, and what it may use.
//!
//! A token is a JWT that is signed by a key which the issuer publishes (`keys`). It must come from
//! that issuer, must be made for this server only, and must not have expired. The crate
//! `jsonwebtoken` reads the format, and ring checks the signature (`signatures`).

mod keys;
mod signatures;

use std::time::{Duration, UNIX_EPOCH};

use ikigai_protocol::Digest;
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use serde::Deserialize;
use url::Url;

pub(super) use keys::Unreachable;
use keys::{IssuerKey, IssuerKeys};

use super::principal::{AccessScope, Principal};

/// The accepted signature algorithms. Algorithms with a shared secret are excluded, because the
/// issuer's public key would be the secret.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::ES256, Algorithm::RS256, Algorithm::EdDSA];

/// The accepted difference between the clocks of the issuer and of this machine.
const LEEWAY: Duration = Duration::from_secs(30);

/// The longest name that an issuer may give a principal, in bytes.
const MAX_NAME: usize = 128;

/// The number of hexadecimal digits that stand for the issuer in the name of a principal.
const ISSUER_DIGITS: usize = 16;

/// The path at which a server publishes who issues its tokens: RFC 9728, section 3.
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// An issuer of access tokens, and the server that they are for.
#[derive(Debug)]
pub struct OAuth {
    issuer: String,
    resource: Url,
    validation: Validation,
    keys: IssuerKeys,
}

/// The reason why an issuer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOAuth {
    /// The address is malformed.
    #[error("`{0}` is not an `https` URL, without a user, a query and a fragment")]
    Url(String),
    /// The HTTP client could not be created.
    #[error("the keys of an issuer cannot be fetched: {0}")]
    Client(String),
}

/// The reason why a token is rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejected {
    /// It is not a token of the issuer for this server.
    #[error("{0}")]
    Invalid(String),
    /// The keys of the issuer are not known.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
}

/// The claims of a token, in addition to those that the validation checks.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    // A string, so that a list of issuers is rejected.
    iss: String,
    /// The end in seconds since 1970.
    exp: f64,
    #[serde(default)]
    scope: String,
}

impl OAuth {
    /// Creates the validation of `issuer`'s tokens for the server that clients know as `resource`.
    /// Nothing is fetched yet.
    ///
    /// # Errors
    ///
    /// Fails if an address is malformed, or is neither `https` nor on this machine.
    pub fn new(issuer: &str, resource: &str) -> Result<Self, InvalidOAuth> {
        let (address, resource_address) = (address(issuer)?, address(resource)?);
        let validation = validation(issuer, resource);
        let keys = IssuerKeys::for_issuer(issuer, &address)?;
        Ok(Self { issuer: issuer.to_owned(), resource: resource_address, validation, keys })
    }

    /// Returns the host by which clients know this server.
    pub(super) fn host(&self) -> &str {
        // An address without a host was refused.
        self.resource.host_str().unwrap_or_default()
    }

    /// Returns the principal of a token.
    ///
    /// # Errors
    ///
    /// Fails if the token is rejected.
    pub(super) async fn principal(&self, token: &str) -> Result<Principal, Rejected> {
        let Header { alg, kid, .. } = header(token).map_err(Rejected::Invalid)?;
        let key = self.keys.find(kid.as_deref(), alg).await?;
        let key = key.ok_or_else(|| Rejected::Invalid("the key is not the issuer's".to_owned()))?;
        claimed(token, &key, &self.validation).map_err(Rejected::Invalid)
    }

    /// Returns this server's description, if `path` is one at which clients look for it.
    pub(super) fn metadata(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(METADATA)?;
        if !rest.is_empty() && rest != self.resource.path() {
            return None;
        }
        let scopes = [AccessScope::Tools.as_str(), AccessScope::Documents.as_str()];
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

/// Returns the requirements that a token must meet, apart from its signature.
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

/// Returns the header of a token, which names the key.
fn header(token: &str) -> Result<Header, String> {
    let header = decode_header(token).map_err(|error| error.to_string())?;
    if !ALGORITHMS.contains(&header.alg) || header.crit.is_some() {
        return Err("the algorithm is not supported".to_owned());
    }
    Ok(header)
}

/// Returns the principal of a token that this key of the issuer signed.
fn claimed(token: &str, key: &IssuerKey, validation: &Validation) -> Result<Principal, String> {
    let mut validation = validation.clone();
    // Only the key's algorithm counts, no matter what the token says.
    validation.algorithms = vec![key.algorithm];
    let token = decode::<Claims>(token, &key.decoding, &validation);
    let claims = token.map_err(|error| error.to_string())?.claims;
    if !is_name(&claims.sub) {
        return Err(format!(
            "the name of the principal must have 1 to {MAX_NAME} printable characters of ASCII, with \
             single spaces only between others"
        ));
    }
    let has = |scope: AccessScope| claims.scope.split(' ').any(|it| it == scope.as_str());
    let name = name_with_issuer(&claims.sub, &claims.iss);
    // The time that the library allows for the difference of the clocks. A time that the system
    // cannot express never comes.
    let ends = Duration::try_from_secs_f64(claims.exp).ok();
    let ends = ends.and_then(|end| UNIX_EPOCH.checked_add(end.saturating_add(LEEWAY)));
    Ok(Principal::new(&name, has(AccessScope::Tools), has(AccessScope::Documents)).until(ends))
}

/// Returns the name of a principal: the issuer's name for it, `@`, and the beginning of the SHA-256
/// digest of the issuer. Principals of different issuers differ, and differ from `token` and
/// `anyone`.
fn name_with_issuer(name: &str, issuer: &str) -> String {
    let digest = Digest::from_bytes(issuer.as_bytes()).to_string();
    format!("{name}@{}", &digest[..ISSUER_DIGITS])
}

/// Returns whether a text can be the name of a principal. Two such names never look alike. The name
/// is written into logs and next to assets. OpenID Connect, section 2, allows only ASCII.
fn is_name(text: &str) -> bool {
    let words = || text.split(' ');
    text.len() <= MAX_NAME
        && words().all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Returns an address whose server is authentic: through TLS, or because it is on this machine.
fn address(text: &str) -> Result<Url, InvalidOAuth> {
    let invalid = || InvalidOAuth::Url(text.to_owned());
    let url = Url::parse(text).map_err(|_| invalid())?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain && is_trusted(&url) { Ok(url) } else { Err(invalid()) }
}

/// Returns whether answers from an address cannot be changed in transit.
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

    use super::keys::FetchedKeys;
    use super::*;

    /// The issuer of the tokens.
    pub const ISSUER: &str = "https://issuer.example";

    /// The server that the tokens are for.
    pub const RESOURCE: &str = "https://tools.example/mcp";

    /// An issuer that signs everything it is given.
    pub struct FuzzIssuer {
        key: Ed25519KeyPair,
        known: FetchedKeys,
        validation: Validation,
    }

    impl FuzzIssuer {
        /// Returns the signer, whose only key is called `k`. Returns `None` if ring does not
        /// support such keys.
        #[must_use]
        pub fn new() -> Option<Self> {
            let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).ok()?;
            let public = URL_SAFE_NO_PAD.encode(key.public_key());
            let published = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": public });
            let known = FetchedKeys::from_keys(vec![published]);
            Some(Self { key, known, validation: validation(ISSUER, RESOURCE) })
        }

        /// Signs a token with this header and these claims, and returns its principal.
        ///
        /// # Errors
        ///
        /// Returns the reason if the token is rejected.
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
        /// Returns the reason if the token is rejected.
        pub fn read(&self, token: &str) -> Result<Principal, String> {
            let Header { alg, kid, .. } = header(token)?;
            let key = self.known.find(kid.as_deref(), alg).0.ok_or("there is no such key")?;
            claimed(token, &key, &self.validation)
        }
    }

    /// Returns the number of accepted keys in an issuer's document.
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
    fn a_principal_is_of_one_issuer_and_never_the_one_of_a_server_without_issuers() {
        let one = name_with_issuer("alice", "https://a.example");
        assert_eq!(one, "alice@38612c965a9c4c35");
        let other = name_with_issuer("alice", "https://b.example");
        let nested = name_with_issuer(&one, "https://a.example");
        let token = name_with_issuer("token", "https://a.example");
        let names = [&*one, &*other, &*nested, &*token, "token", "anyone", "alice"];
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{names:?}");
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
