//! The header `WWW-Authenticate`: RFC 9110, section 11.6.1.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use ikigai_protocol::AuthChallenge;

/// The way in which a registry wants a client to authenticate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a token from the issuer at the realm.
    Bearer { realm: String, service: Option<String> },
    /// With user and password.
    Basic,
}

impl Challenge {
    /// Returns the challenge in a response. A token is preferred to a password.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok());
        let found: Vec<AuthChallenge> = values.flat_map(AuthChallenge::parse_all).collect();
        if let Some(bearer) = found.iter().find(|it| it.scheme == "bearer") {
            let text = |name: &str| bearer.parameter(name).map(str::to_owned);
            let realm = text("realm").unwrap_or_default();
            return Some(Self::Bearer { realm, service: text("service") });
        }
        found.iter().any(|it| it.scheme == "basic").then_some(Self::Basic)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn challenge(values: &[&'static str]) -> Option<Challenge> {
        let named = values.iter().map(|it| (WWW_AUTHENTICATE, HeaderValue::from_static(it)));
        Challenge::from_headers(&named.collect())
    }

    #[test]
    fn a_challenge_is_read_with_commas_in_its_quotes() {
        let bearer = Challenge::Bearer {
            realm: "https://a/token".to_owned(),
            service: Some("the \"service\"".to_owned()),
        };
        let text =
            r#"Bearer realm="https://a/token",service="the \"service\"",scope="a:b:pull,push""#;
        assert_eq!(challenge(&[text]).as_ref(), Some(&bearer));
        assert_eq!(challenge(&[r#"Basic realm="x""#, text]).as_ref(), Some(&bearer));
        let both = r#"Basic realm="x", bearer service="the \"service\"", realm="https://a/token""#;
        assert_eq!(challenge(&[both]).as_ref(), Some(&bearer));
        assert_eq!(challenge(&["Basic"]), Some(Challenge::Basic));
        assert_eq!(challenge(&["Negotiate", "Digest realm=\"x\", nonce=\"y\""]), None);
        assert_eq!(challenge(&[]), None);
    }
}
