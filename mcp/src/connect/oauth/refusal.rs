//! The errors that an issuer answers with. Repeats no secret of the request.

use serde::Deserialize;

use super::OAuthError;
use super::fetch::FetchResponse;
use crate::wire::plain;

/// The longest issuer message that is repeated, in characters.
const WORDS: usize = 300;

/// A response without tokens: RFC 6749, section 5.2.
#[derive(Deserialize)]
struct TokenErrorResponse {
    error: String,
    error_description: Option<String>,
}

/// Returns the error in a response that refuses.
pub(super) fn refusal(reply: &FetchResponse, secrets: &[&str]) -> OAuthError {
    match serde_json::from_slice::<TokenErrorResponse>(&reply.body) {
        Ok(TokenErrorResponse { error, error_description }) => {
            described(&error, error_description.as_deref(), secrets)
        }
        Err(_) => OAuthError::Refused {
            error: format!("HTTP {}", reply.status.as_u16()),
            description: String::new(),
        },
    }
}

/// Returns an error in the issuer's words, with the secrets removed.
pub(super) fn described(error: &str, description: Option<&str>, secrets: &[&str]) -> OAuthError {
    let shown = |text: &str| {
        let mut text = text.to_owned();
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret, "…");
        }
        plain(&text).chars().take(WORDS).collect::<String>()
    };
    let description = description.map(|text| format!(": {}", shown(text))).unwrap_or_default();
    OAuthError::Refused { error: shown(error), description }
}
