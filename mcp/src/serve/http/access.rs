//! The clients that may use a server, and the check of the token in a request.

use std::fmt;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, StatusCode};
use subtle::ConstantTimeEq as _;

use super::oauth::{OAuth, Rejected};
use super::principal::{AccessScope, Principal};
use super::reply::{self, HttpRefusal, unread};

/// The minimum length of a token in characters. A shorter token could be guessed.
const TOKEN: usize = 32;

/// The maximum length of a token in characters, far beyond that of any issuer.
const MOST: usize = 8 << 10;

/// The clients that may use the server.
#[derive(Debug)]
pub enum ClientAccess {
    /// Every client that reaches the server.
    Anyone,
    /// The clients that have a token.
    Token(SharedToken),
    /// The clients that have an issuer's access token.
    OAuth(Box<OAuth>),
}

/// A token that the server and its clients share.
#[derive(Clone)]
pub struct SharedToken(Box<str>);

/// The reason why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// It could be guessed.
    #[error("the token has fewer than {TOKEN} characters")]
    Short,
    /// A header cannot contain it.
    #[error(
        "the token has more than {MOST} characters, or others than letters, digits and `-._~+/=`"
    )]
    Malformed,
}

impl SharedToken {
    /// Checks a token.
    ///
    /// # Errors
    ///
    /// Fails if the token is too short, or cannot be sent in a header.
    pub fn new(text: &str) -> Result<Self, InvalidToken> {
        if text.len() < TOKEN {
            return Err(InvalidToken::Short);
        }
        // RFC 6750, section 2.1.
        let is_sent = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if text.len() > MOST || !text.bytes().all(is_sent) {
            return Err(InvalidToken::Malformed);
        }
        Ok(Self(text.into()))
    }

    fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl fmt::Debug for SharedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl ClientAccess {
    /// Returns the principal of a request.
    ///
    /// # Errors
    ///
    /// Returns the answer to send if the request is not authenticated.
    pub(super) async fn principal(&self, headers: &HeaderMap) -> Result<Principal, HttpRefusal> {
        let token = match (self, bearer(headers)) {
            (Self::Anyone, _) => return Ok(Principal::with_all("anyone")),
            (_, Bearer::None) => return Err(self.unauthorized(None, "a bearer token is required")),
            (_, Bearer::Malformed) => return Err(self.foreign()),
            (_, Bearer::One(token)) => token,
        };
        match self {
            Self::Token(own) if own.is(token) => Ok(Principal::with_all("token")),
            Self::Anyone | Self::Token(_) => Err(self.foreign()),
            Self::OAuth(oauth) => oauth.principal(token).await.map_err(|rejected| match rejected {
                Rejected::Invalid(reason) => {
                    tracing::debug!("a token was refused: {reason}");
                    self.foreign()
                }
                Rejected::Unreachable(_) => {
                    let reason = "the keys of the issuer are not known; try again later";
                    unread(StatusCode::SERVICE_UNAVAILABLE, reason)
                }
            }),
        }
    }

    /// Returns this server's description for clients without a token, if the request asks for it.
    pub(super) fn metadata(&self, head: &Parts) -> Option<String> {
        match self {
            Self::OAuth(oauth) if head.method == Method::GET => oauth.metadata(head.uri.path()),
            _ => None,
        }
    }

    /// Returns the answer to a request for a part of the server that its principal may not use.
    pub(super) fn insufficient(&self, scope: AccessScope) -> HttpRefusal {
        let refusal = unread(StatusCode::FORBIDDEN, "the token is not for this method");
        self.challenged(refusal, Some("insufficient_scope"), scope.as_str())
    }

    /// Returns the answer to a request whose token is rejected.
    fn foreign(&self) -> HttpRefusal {
        self.unauthorized(Some("invalid_token"), "the token is not for this server, or has expired")
    }

    fn unauthorized(&self, error: Option<&str>, reason: &'static str) -> HttpRefusal {
        let refusal = unread(StatusCode::UNAUTHORIZED, reason);
        self.challenged(refusal, error, "tools documents")
    }

    /// Adds the challenge of RFC 6750, section 3, to an answer. It leads to the issuer, if the
    /// server has one.
    fn challenged(&self, refusal: HttpRefusal, error: Option<&str>, scope: &str) -> HttpRefusal {
        let mut challenge = r#"Bearer realm="ikigai""#.to_owned();
        if let Some(error) = error {
            challenge.push_str(&format!(r#", error="{error}""#));
        }
        if let Self::OAuth(oauth) = self {
            challenge.push_str(&format!(r#", scope="{scope}", {}"#, oauth.challenge()));
        }
        match HeaderValue::try_from(challenge) {
            Ok(challenge) => reply::with(refusal, WWW_AUTHENTICATE, challenge),
            // A parsed URL contains only characters that a header allows.
            Err(_) => refusal,
        }
    }
}

/// The token of a request.
enum Bearer<'a> {
    None,
    One(&'a str),
    /// Several tokens, or something that is not a token.
    Malformed,
}

fn bearer(headers: &HeaderMap) -> Bearer<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(first) = values.next() else { return Bearer::None };
    let token = first.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        let token = token.trim_matches(' ');
        (scheme.eq_ignore_ascii_case("bearer") && token.len() <= MOST).then_some(token)
    });
    match (token, values.next()) {
        (Some(token), None) => Bearer::One(token),
        _ => Bearer::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    async fn answer(values: &[&str]) -> Result<String, (StatusCode, String)> {
        let access = ClientAccess::Token(SharedToken::new(SECRET).expect("a token"));
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().expect("a header"));
        }
        access.principal(&headers).await.map(|principal| principal.name().to_owned()).map_err(
            |reply| {
                let challenge = reply.headers()[WWW_AUTHENTICATE].to_str().expect("a text");
                (reply.status(), challenge.to_owned())
            },
        )
    }

    #[tokio::test]
    async fn the_token_alone_is_let_in() {
        for value in [format!("Bearer {SECRET}"), format!("bearer  {SECRET}")] {
            assert_eq!(answer(&[&value]).await.as_deref(), Ok("token"), "{value}");
        }
        let (status, challenge) = answer(&[]).await.expect_err("refused");
        assert_eq!((status, &*challenge), (StatusCode::UNAUTHORIZED, r#"Bearer realm="ikigai""#));
        let right = format!("Bearer {SECRET}");
        for wrong in [
            &[&*format!("Bearer {}", &SECRET[1..])][..],
            &[&*format!("Bearer {SECRET}0")],
            &[&*format!("Bearer {}", SECRET.to_uppercase())],
            &[&*format!("Basic {SECRET}")],
            &["Bearer"],
            &["Bearer "],
            &[SECRET],
            &[&*right, &*right],
        ] {
            let (status, challenge) = answer(wrong).await.expect_err("refused");
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{wrong:?}");
            assert!(challenge.contains("invalid_token"), "{wrong:?}: {challenge}");
        }
    }

    #[test]
    fn a_token_that_could_be_guessed_or_not_be_sent_is_refused() {
        assert_eq!(SharedToken::new("secret").err(), Some(InvalidToken::Short));
        for text in [
            format!("{SECRET}\n"),
            format!("{SECRET} x"),
            format!("{SECRET}é"),
            "x".repeat(MOST + 1),
        ] {
            assert_eq!(SharedToken::new(&text).err(), Some(InvalidToken::Malformed), "{text:?}");
        }
        assert_eq!(format!("{:?}", SharedToken::new(SECRET)), "Ok(Token(..))");
    }
}
