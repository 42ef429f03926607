//! The texts of OAuth: clients' access tokens, issuers' keys, servers' challenges.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use ikigai_mcp::fuzzing::{FuzzIssuer, ISSUER, RESOURCE, challenge_parameter, keys};
use ikigai_mcp::insufficient_scope;
use ikigai_protocol::is_deceptive;
use serde_json::Value;

/// The most keys that are read of an issuer.
const KEYS: usize = 100;

/// The longest name that an issuer may give a principal, in bytes.
const NAME: usize = 128;

/// The longest list of scopes that is shown to a person, in bytes.
const SCOPES: usize = 256;

/// The seconds by which two clocks may differ, and one second more for the time of this check.
const LEEWAY: f64 = 31.0;

/// Reads the same bytes as each of these texts. In a token, the first line is the header and the
/// rest is the claims, and this target signs them as they are. Without a valid signature the code
/// behind it would never run.
pub(crate) fn run(data: &[u8]) {
    assert!(keys(data) <= KEYS);
    if let Ok(text) = std::str::from_utf8(data) {
        challenge(text);
        assert!(signer().read(text).is_err(), "nobody signed it: {text}");
    }
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (header, claims) = (&data[..end], &data[end + 1..]);
    if let Ok(principal) = signer().principal(header, claims) {
        token(header, claims, principal.name());
    }
}

fn signer() -> &'static FuzzIssuer {
    static SIGNER: OnceLock<FuzzIssuer> = OnceLock::new();
    SIGNER.get_or_init(|| FuzzIssuer::new().expect("a key"))
}

/// Checks that an accepted token is from the issuer, for this server and valid now, and that its
/// principal has a name that can be written into a log.
fn token(header: &[u8], claims: &[u8], name: &str) {
    let (header, claims) = (serde_json::from_slice(header), serde_json::from_slice(claims));
    // A member that the parser skips may contain bytes that a tree of values cannot, such as
    // invalid UTF-8.
    let (Ok::<Value, _>(header), Ok::<Value, _>(claims)) = (header, claims) else { return };
    assert_eq!(header["alg"], "EdDSA");
    assert!(matches!(header["kid"].as_str(), None | Some("k")), "{header}");
    let (sub, issuer) = name.rsplit_once('@').expect("an issuer");
    assert_eq!(claims["sub"], sub);
    assert!(issuer.len() == 16 && issuer.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    assert_eq!(claims["iss"], ISSUER);
    let audience = &claims["aud"];
    let several = || audience.as_array().is_some_and(|all| all.iter().any(|it| it == RESOURCE));
    assert!(audience == RESOURCE || several(), "{audience}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64();
    assert!(claims["exp"].as_f64().expect("a time") >= now - LEEWAY, "{claims}");
    assert!(claims["nbf"].as_f64().is_none_or(|time| time <= now + LEEWAY), "{claims}");
    assert!((1..=NAME).contains(&sub.len()) && !name.contains(is_deceptive), "{name:?}");
}

/// Checks that a value is a part of its challenge, and that repeated scopes are short and have no
/// deceptive character.
fn challenge(text: &str) {
    for name in ["resource_metadata", "scope", "error"] {
        let Some(value) = challenge_parameter(text, name) else { continue };
        assert!(value.len() <= text.len());
        assert!(value.chars().all(|c| text.contains(c)), "{value:?} of {text:?}");
    }
    if let Some(scopes) = insufficient_scope(text) {
        assert!(scopes.len() <= SCOPES && !scopes.contains(is_deceptive), "{scopes:?}");
        assert!(scopes.is_ascii(), "{scopes:?}");
    }
}
