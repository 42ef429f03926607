//! Why there is no answer, in words that a person can act on.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// A request without an answer. Shown as one line; [`Failure::hint`] says what to do.
///
/// Neither a key nor a password of a proxy is ever in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{kind}{}", Said(.said))]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What the server said, short, without control characters; empty where it said nothing.
    pub said: String,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
}

/// What the server said, after a colon.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// The kinds of failures.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FailureKind {
    /// No key was set, and the provider's own address wants one.
    #[error("no API key for {provider}")]
    NoKey {
        /// Which provider.
        provider: crate::Provider,
    },
    /// 401.
    #[error("the provider does not know the API key")]
    Key,
    /// 403.
    #[error("the provider does not allow this")]
    Forbidden,
    /// 402, or a 429 that says that the quota is used up, which waiting does not help.
    #[error("the account has no quota left")]
    Quota,
    /// 404.
    #[error("the provider has no model `{model}`, or no such address")]
    UnknownModel {
        /// What was asked for.
        model: String,
    },
    /// The conversation does not fit into the model's context.
    #[error("the conversation is too long for the model")]
    TooLong,
    /// 400 and other codes that say that the request is at fault.
    #[error("the provider refused the request ({status})")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// 429.
    #[error("the provider asks for fewer requests")]
    RateLimited,
    /// 503, 529, and errors in the stream that say the same.
    #[error("the provider is overloaded")]
    Overloaded,
    /// Other 5xx, 408, and errors in the stream.
    #[error("the provider failed ({status})")]
    Server {
        /// The HTTP status; 200 where the error came in the stream.
        status: u16,
    },
    /// No connection: the name, the route or the port.
    #[error("no connection to {host}")]
    Network {
        /// Whom it was to.
        host: String,
    },
    /// The certificate or the handshake.
    #[error("no secure connection to {host}")]
    Tls {
        /// Whom it was to.
        host: String,
    },
    /// The proxy of the environment.
    #[error("no connection through the proxy {proxy}")]
    Proxy {
        /// Its address, without user and password.
        proxy: String,
    },
    /// The connection was not made in time.
    #[error("no connection within {} s", .0.as_secs())]
    ConnectTimeout(Duration),
    /// Nothing came for too long.
    #[error("nothing came for {} s", .0.as_secs())]
    Silence(Duration),
    /// The stream ended without its terminal event.
    #[error("the answer was cut off")]
    Cut,
    /// What came is not what the provider's documentation promises.
    #[error("the answer cannot be read")]
    Malformed,
    /// The answer is larger than any that this host reads.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// How much is read.
        limit: usize,
    },
    /// The address of the provider is none.
    #[error("the address of the provider is none")]
    Address,
}
