//! The keys of an issuer. They are fetched from the address in its metadata, cached, and fetched
//! again when a token names an unknown key.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::redirect::Policy;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, RwLock};
use tokio::time::Instant;
use url::Url;

use super::{InvalidOAuth, is_trusted};

/// The time after which keys are fetched again, so that a withdrawn key is not accepted for longer.
const FRESH: Duration = Duration::from_secs(60 * 60);

/// The time for which keys are accepted if they cannot be fetched again. An issuer may be
/// unreachable for a while. But an attacker with a stolen, withdrawn key may also block the issuer.
const OLDEST: Duration = Duration::from_secs(6 * 60 * 60);

/// The time between two attempts. Otherwise a client that sends tokens with unknown keys would
/// cause a request to the issuer for each token.
const BETWEEN: Duration = Duration::from_secs(30);

/// The time limit for fetching one document.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest document in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// The most keys that are cached.
const MAX_KEYS: usize = 100;

/// The keys of an issuer, fetched when needed.
pub(super) struct IssuerKeys {
    issuer: String,
    /// The addresses of the metadata: that of RFC 8414, and that of `OpenID` Connect.
    metadata: [Url; 2],
    client: reqwest::Client,
    known: RwLock<FetchedKeys>,
    /// Locked while the keys are fetched. Holds the time of the last attempt.
    attempt: Mutex<Option<Instant>>,
}

#[derive(Default)]
pub(super) struct FetchedKeys {
    keys: Vec<Arc<IssuerKey>>,
    fetched: Option<Instant>,
}

/// A key, and the only algorithm that it may be used with.
pub(super) struct IssuerKey {
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
}

/// The reason why the keys are not known.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the keys of the issuer cannot be fetched: {0}")]
pub(in super::super) struct Unreachable(String);

impl IssuerKeys {
    /// Creates the keys of an issuer. Nothing is fetched yet.
    pub(super) fn for_issuer(issuer: &str, address: &Url) -> Result<Self, InvalidOAuth> {
        let path = address.path().trim_end_matches('/');
        let at = |path: String| {
            let mut url = address.clone();
            url.set_path(&path);
            url
        };
        let metadata = [
            at(format!("/.well-known/oauth-authorization-server{path}")),
            at(format!("{path}/.well-known/openid-configuration")),
        ];
        let client = client(address)?;
        let (known, attempt) = (RwLock::default(), Mutex::default());
        Ok(Self { issuer: issuer.to_owned(), metadata, client, known, attempt })
    }

    /// Returns the key of a token, or `None` if the issuer has no such key.
    pub(super) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<Arc<IssuerKey>>, Unreachable> {
        let (found, age) = self.known.read().await.find(id, algorithm);
        if found.is_some() && age < FRESH {
            return Ok(found);
        }
        if found.is_some() && age < OLDEST {
            // Requests that have a usable key do not wait for one another.
            let Ok(mut attempt) = self.attempt.try_lock() else { return Ok(found) };
            if let Err(error) = self.refresh(&mut attempt).await {
                tracing::warn!("{error}; those that are known are used on");
                return Ok(found);
            }
        } else {
            self.refresh(&mut *self.attempt.lock().await).await?;
        }
        Ok(self.known.read().await.find(id, algorithm).0)
    }

    /// Fetches the keys, unless the last attempt was a moment ago.
    async fn refresh(&self, attempt: &mut Option<Instant>) -> Result<(), Unreachable> {
        if attempt.is_some_and(|last| last.elapsed() < BETWEEN) {
            let has_keys = self.known.read().await.age() < OLDEST;
            let why = || Unreachable("the last attempt was a moment ago".to_owned());
            return if has_keys { Ok(()) } else { Err(why()) };
        }
        *attempt = Some(Instant::now());
        let keys = self.fetch().await.inspect_err(|error| tracing::warn!("{error}"))?;
        *self.known.write().await = FetchedKeys { keys, fetched: Some(Instant::now()) };
        Ok(())
    }

    async fn fetch(&self) -> Result<Vec<Arc<IssuerKey>>, Unreachable> {
        let place = self.keys_address().await?;
        Ok(taken(self.document(&place).await?))
    }

    /// Returns the address of the keys from the issuer's metadata.
    async fn keys_address(&self) -> Result<Url, Unreachable> {
        let [first, second] = &self.metadata;
        let metadata: IssuerMetadata = match self.document(first).await {
            Ok(metadata) => metadata,
            Err(_) => self.document(second).await?,
        };
        // RFC 8414, section 3.3: otherwise one issuer could impersonate another.
        if metadata.issuer != self.issuer {
            return Err(Unreachable("the metadata names another issuer".to_owned()));
        }
        let place = Url::parse(&metadata.jwks_uri).ok().filter(is_trusted);
        place.ok_or_else(|| Unreachable("`jwks_uri` is not an `https` URL".to_owned()))
    }

    async fn document<T: for<'de> Deserialize<'de>>(&self, url: &Url) -> Result<T, Unreachable> {
        let failed = |error: reqwest::Error| Unreachable(error.to_string());
        let answer = self.client.get(url.clone()).send().await.map_err(failed)?;
        let mut answer = answer.error_for_status().map_err(failed)?;
        let mut text = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            if text.len() + piece.len() > MAX_DOCUMENT {
                let why = format!("`{url}` has more than {MAX_DOCUMENT} bytes");
                return Err(Unreachable(why));
            }
            text.extend_from_slice(&piece);
        }
        serde_json::from_slice(&text).map_err(|error| Unreachable(format!("`{url}`: {error}")))
    }
}

impl std::fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl FetchedKeys {
    /// Returns the state after these keys were fetched just now.
    pub(super) fn from_keys(keys: Vec<Value>) -> Self {
        Self { keys: taken(KeySet { keys }), fetched: Some(Instant::now()) }
    }

    /// Returns the time since the keys were fetched.
    fn age(&self) -> Duration {
        self.fetched.map_or(Duration::MAX, |fetched| fetched.elapsed())
    }

    /// Returns the key, and the age of the keys. If a token names no key, the only key for its
    /// algorithm is used.
    pub(super) fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> (Option<Arc<IssuerKey>>, Duration) {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| key.algorithm == algorithm && (id.is_none() || key.id.as_deref() == id));
        let found = match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(Arc::clone(key)),
            (Some(key), Some(_)) if id.is_some() => Some(Arc::clone(key)),
            _ => None,
        };
        (found, self.age())
    }
}

/// The members of an issuer's metadata that are needed.
#[derive(Deserialize)]
struct IssuerMetadata {
    issuer: String,
    jwks_uri: String,
}

/// A set of keys. Some may have an unsupported type.
#[derive(Deserialize)]
pub(super) struct KeySet {
    keys: Vec<Value>,
}

/// Returns the accepted keys of a set.
pub(super) fn taken(set: KeySet) -> Vec<Arc<IssuerKey>> {
    set.keys.into_iter().filter_map(IssuerKey::from_value).take(MAX_KEYS).map(Arc::new).collect()
}

impl IssuerKey {
    /// Reads a key, if it is for signatures of an accepted type.
    fn from_value(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let (algorithm, declared) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            _ => return None,
        };
        if jwk.common.key_algorithm.is_some_and(|it| it != declared) {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Self { id: jwk.common.key_id, algorithm, decoding })
    }
}

/// Returns the HTTP client that fetches an issuer's documents. It follows no redirects, and trusts
/// the certificates that this machine trusts.
fn client(address: &Url) -> Result<reqwest::Client, InvalidOAuth> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| InvalidOAuth::Client(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .timeout(TIMEOUT);
    // A proxy cannot reach this machine.
    let client = if address.scheme() == "http" { client.no_proxy() } else { client };
    client.build().map_err(|error| InvalidOAuth::Client(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn keys_that_cannot_be_fetched_again_are_taken_for_some_hours() {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let issuer =
            format!("http://{}", address.expect("an address where nobody listens any more"));
        let keys = IssuerKeys::for_issuer(&issuer, &Url::parse(&issuer).expect("an address"))
            .expect("keys");
        let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": "A".repeat(43) });
        for (age, is_taken) in [(FRESH, true), (OLDEST, false)] {
            *keys.attempt.lock().await = None;
            let fetched = Instant::now().checked_sub(age);
            assert!(fetched.is_some());
            *keys.known.write().await =
                FetchedKeys { fetched, ..FetchedKeys::from_keys(vec![key.clone()]) };
            for _ in 0..2 {
                let found = keys.find(Some("k"), Algorithm::EdDSA).await;
                assert_eq!(found.is_ok_and(|it| it.is_some()), is_taken, "{age:?}");
            }
        }
    }
}
