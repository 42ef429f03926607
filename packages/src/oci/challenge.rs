//! The header `WWW-Authenticate`: RFC 9110, section 11.6.1.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

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
        let found: Vec<Self> = values.flat_map(challenges).collect();
        let is_bearer = |it: &Self| matches!(it, Self::Bearer { .. });
        let place = found.iter().position(is_bearer).unwrap_or(0);
        found.into_iter().nth(place)
    }
}

fn challenges(value: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    for part in split(value) {
        // A scheme precedes its first parameter, separated by a space.
        let (before, text) = part.split_once('=').unwrap_or((&part, ""));
        let mut words = before.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next());
        let name = match second {
            Some(name) => {
                found.extend(scheme(first));
                name
            }
            None if part.contains('=') => first,
            None => {
                found.extend(scheme(first));
                continue;
            }
        };
        if let Some(Challenge::Bearer { realm, service }) = found.last_mut() {
            match name.to_ascii_lowercase().as_str() {
                "realm" => *realm = unquoted(text),
                "service" => *service = Some(unquoted(text)),
                _ => {}
            }
        }
    }
    found
}

fn scheme(name: &str) -> Option<Challenge> {
    match name.to_ascii_lowercase().as_str() {
        "bearer" => Some(Challenge::Bearer { realm: String::new(), service: None }),
        "basic" => Some(Challenge::Basic),
        _ => None,
    }
}

/// Splits at commas that are not quoted.
fn split(value: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in value.chars() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(character);
    }
    parts.push(part);
    parts
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
        return text.to_owned();
    };
    let (mut plain, mut characters) = (String::new(), inner.chars());
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        plain.push(escaped.unwrap_or(character));
    }
    plain
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
