//! OAuth 2.1 as a client: the user's login to a server over HTTP, and the renewal and revocation of
//! the tokens of that login.
//!
//! Owns the steps of the protocol. `discovery` finds the issuer of a server's tokens.
//! `registration` makes this program a client of that issuer. `authorization` and `callback` get a
//! code through a browser. `session` has the tokens. All requests go through `fetch`, which bounds
//! the answers. The caller stores the session, asks the user and opens a browser.
//!
//! The library's own OAuth client is not used. It decides on its own when to send something to an
//! issuer, although the user must agree to that first. It would also add second versions of several
//! crates.

mod authorization;
mod callback;
mod challenge;
mod discovery;
mod fetch;
mod proof;
mod refusal;
mod registration;
mod session;

pub use authorization::Authorization;
pub use callback::Callback;
pub use challenge::insufficient_scope;
pub use discovery::{Issuer, Protection};
pub use fetch::OAuthHttp;
pub use registration::OAuthClient;
pub use session::OAuthSession;

pub(super) use challenge::parameter;

/// The reason why a step of a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// A connection to an address is not allowed. Nothing was sent to it.
    #[error("no connection can be made: {0}")]
    Address(String),
    /// No answer came.
    #[error("{0} did not answer")]
    Unreachable(String),
    /// An answer is malformed, or was meant for another client or server.
    #[error("{0}")]
    Untrusted(String),
    /// The issuer refused.
    #[error("the issuer refused: {error}{description}")]
    Refused {
        /// The code of the error.
        error: String,
        /// The issuer's description, after a colon. Empty if the issuer sent none.
        description: String,
    },
    /// The issuer does not let clients register themselves.
    #[error("the issuer does not let programs register themselves")]
    NoRegistration,
}

impl OAuthError {
    /// Returns true if only a new login can help, because the issuer no longer accepts the session.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        // RFC 6749, section 5.2.
        let ends = ["invalid_grant", "invalid_client", "unauthorized_client"];
        matches!(self, Self::Refused { error, .. } if ends.contains(&error.as_str()))
    }
}

/// Returns an error for an answer that breaks the protocol.
fn untrusted(what: impl Into<String>) -> OAuthError {
    OAuthError::Untrusted(what.into())
}
