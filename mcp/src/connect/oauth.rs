//! OAuth 2.1 as a client: how a person logs in to a server over HTTP, and how the tokens of that
//! login are renewed and revoked.
//!
//! Owns the steps of the protocol: who issues the tokens of a server (`discovery`), this program as
//! a client of that issuer (`registration`), the code that a browser brings back (`authorization`,
//! `callback`), and tokens (`session`). What is sent goes through `fetch`, which bounds it. Keeping a
//! session, asking a person and opening a browser is the caller's business.
//!
//! The library has a client of its own for this. It decides by itself when something is sent to an
//! issuer, which a person must agree to first, and brings second versions of several crates along.

mod authorization;
mod callback;
mod challenge;
mod discovery;
mod fetch;
mod registration;
mod session;

pub use authorization::Authorization;
pub use callback::Callback;
pub use challenge::insufficient_scope;
pub use discovery::{Issuer, Protection};
pub use fetch::OAuthHttp;
pub use registration::OAuthClient;
pub use session::Session;

pub(super) use challenge::parameter;

/// The reason for which a step of a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OAuthError {
    /// An address may not be connected to. Nothing was sent to it.
    #[error("no connection can be made: {0}")]
    Address(String),
    /// There is no answer.
    #[error("there is no answer from {0}")]
    Unreachable(String),
    /// An answer is malformed, or is for somebody else.
    #[error("{0}")]
    Untrusted(String),
    /// The issuer said no.
    #[error("the issuer refused: {error}{description}")]
    Refused {
        /// The code of the error.
        error: String,
        /// The issuer's words, behind a colon; nothing if it said none.
        description: String,
    },
    /// The issuer registers no clients.
    #[error("the issuer does not let programs register themselves")]
    NoRegistration,
}

impl OAuthError {
    /// Returns whether only a new login can help: what the session was made of is not taken any
    /// more.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        // RFC 6749, section 5.2.
        let ends = ["invalid_grant", "invalid_client", "unauthorized_client"];
        matches!(self, Self::Refused { error, .. } if ends.contains(&error.as_str()))
    }
}

/// Returns an error for an answer that is not what it has to be.
fn untrusted(what: impl Into<String>) -> OAuthError {
    OAuthError::Untrusted(what.into())
}
