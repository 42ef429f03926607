//! The `WWW-Authenticate` with which a server asks for a token: RFC 9110, section 11.6.1.

use ikigai_protocol::AuthChallenge;

/// The longest list of scopes that is shown to the user.
const LONGEST: usize = 256;

/// Returns a parameter of the challenge with the scheme `Bearer`.
pub(in crate::connect) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let challenges = AuthChallenge::parse_all(challenge);
    let mut bearers = challenges.iter().filter(|challenge| challenge.scheme == "bearer");
    bearers.find_map(|bearer| bearer.parameter(name)).map(ToOwned::to_owned)
}

/// Returns the scopes that a token lacks, if the server's challenge says so. They are safe to show.
#[must_use]
pub fn insufficient_scope(challenge: &str) -> Option<String> {
    if parameter(challenge, "error")? != "insufficient_scope" {
        return None;
    }
    let scope = parameter(challenge, "scope").filter(|scope| is_scope(scope));
    Some(scope.unwrap_or_default())
}

/// Returns whether a text is a list of scopes: RFC 6749, section 3.3.
pub(super) fn is_scope(text: &str) -> bool {
    let is_part = |byte: u8| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~');
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_the_bearer_are_found_among_others() {
        let metadata = "https://a.example/.well-known/oauth-protected-resource";
        for challenge in [
            format!(r#"Bearer resource_metadata="{metadata}""#),
            format!(r#"bearer realm="a, b", resource_metadata="{metadata}" ,scope="x y""#),
            format!(r#"Basic realm="x", Bearer realm="\"", resource_metadata={metadata}"#),
            format!(r#"Negotiate, Bearer resource_metadata = "{metadata}", Digest nonce="1""#),
        ] {
            let found = parameter(&challenge, "resource_metadata");
            assert_eq!(found.as_deref(), Some(metadata), "{challenge}");
        }
        for challenge in [
            "Bearer",
            "",
            r#"Basic resource_metadata="https://b.example""#,
            r#"Bearer resource_metadata="https://b.example"#,
            "Bearer =, resource_metadata",
        ] {
            assert_eq!(parameter(challenge, "resource_metadata"), None, "{challenge}");
        }
    }

    #[test]
    fn missing_scopes_are_repeated_unless_they_deceive() {
        let challenge = |scope| format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
        assert_eq!(insufficient_scope(&challenge("a b:c")).as_deref(), Some("a b:c"));
        for deceiving in ["a\u{202e}b", "a\tb", &"x".repeat(LONGEST + 1), ""] {
            assert_eq!(insufficient_scope(&challenge(deceiving)).as_deref(), Some(""));
        }
        assert_eq!(insufficient_scope(r#"Bearer error="invalid_token", scope="a""#), None);
        assert_eq!(insufficient_scope("Bearer"), None);
    }
}
