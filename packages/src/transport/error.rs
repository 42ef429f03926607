//! The errors of requests, and what the user can do about them.

use std::time::Duration;

use http::StatusCode;

/// The reason why a request got no usable answer. Server texts in it are safe to show.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransportError {
    /// TLS or HTTP cannot be set up on this machine.
    #[error("HTTP cannot be set up: {0}")]
    Setup(String),
    /// The answer could be forged in transit.
    #[error("`{url}` is refused: `http` is only for this machine")]
    PlainHttp {
        /// The address.
        url: String,
    },
    /// A server redirects to a forbidden address.
    #[error("`{from}` leads to `{to}`, which is refused: {reason}")]
    Redirect {
        /// The requested address.
        from: String,
        /// The address that the server redirects to.
        to: String,
        /// The reason.
        reason: String,
    },
    /// No connection was made.
    #[error("`{host}` cannot be reached: {detail}")]
    Unreachable {
        /// The host.
        host: String,
        /// The system's message.
        detail: String,
    },
    /// The host does not prove its identity.
    #[error("no trusted connection to `{host}`: {detail}")]
    Tls {
        /// The host.
        host: String,
        /// The fault.
        detail: String,
    },
    /// No data arrived for too long.
    #[error("`{host}` was silent for {after:?}")]
    Silence {
        /// The host.
        host: String,
        /// The time that ikigai waited.
        after: Duration,
    },
    /// The connection ended before the answer was complete.
    #[error("the connection to `{host}` was cut: {detail}")]
    Cut {
        /// The host.
        host: String,
        /// The fault.
        detail: String,
    },
    /// The server refuses.
    #[error("`{host}` answers {} for {what}{}", status.as_u16(), detail.as_ref().map_or(String::new(), |it| format!(": {it}")))]
    Status {
        /// The host.
        host: String,
        /// The thing that was requested.
        what: String,
        /// The HTTP status.
        status: StatusCode,
        /// The server's message.
        detail: Option<String>,
    },
    /// The answer is too large.
    #[error("{what} has more than {most} bytes")]
    TooLarge {
        /// The thing that was read.
        what: String,
        /// The maximum size in bytes.
        most: u64,
    },
    /// The answer does not match the request.
    #[error("{what} is not usable: {detail}")]
    Malformed {
        /// The thing that was read.
        what: String,
        /// The fault.
        detail: String,
    },
}

impl TransportError {
    /// Returns whether another attempt may succeed.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Silence { .. } | Self::Cut { .. } => true,
            Self::Status { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            Self::Setup(_)
            | Self::PlainHttp { .. }
            | Self::Redirect { .. }
            | Self::Tls { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. } => false,
        }
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unreachable { .. } | Self::Silence { .. } | Self::Cut { .. } => {
                Some("try again later; installed tools run on, and what is in the cache installs")
            }
            Self::PlainHttp { .. } => Some("use `https`"),
            Self::Tls { .. } => {
                Some("if the host is your own, add its authority to those that this machine trusts")
            }
            Self::Status { status, .. } => match status.as_u16() {
                404 => Some("check the name and the tag"),
                429 => Some("wait, or log in with `docker login` or `podman login`"),
                500.. => Some("try again later"),
                _ => None,
            },
            Self::Redirect { .. } => Some("tell the server's operator"),
            Self::Setup(_) | Self::TooLarge { .. } | Self::Malformed { .. } => None,
        }
    }
}
