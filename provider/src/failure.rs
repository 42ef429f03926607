//! Why there is no answer, in words that a person can act on.

mod remedy;

use std::fmt;
use std::time::Duration;

use ikigai_protocol::is_invisible;
use thiserror::Error;

use crate::Provider;

pub use remedy::Remedy;

/// The most of a server's words that is kept, in characters.
const MAX_DETAIL: usize = 300;

/// A request without an answer. Shown as one line; [`Failure::remedy`] says what to do.
///
/// Neither a key nor a password of a proxy is ever in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{kind}{}", Detail(.detail))]
pub struct Failure {
    /// Whose interface was spoken.
    pub provider: Provider,
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What the server said, short, without control characters; empty where it said nothing.
    pub detail: String,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of which nothing else is known.
    #[must_use]
    pub fn new(provider: Provider, kind: FailureKind) -> Self {
        Self { provider, kind, detail: String::new(), retry_after: None }
    }

    /// With what was said about it, as it came; [`Failure::presentable`] makes it short.
    #[must_use]
    pub(crate) fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// With what was said made fit for a terminal and a log: without these secrets, without
    /// characters that no one sees, on one line, and short.
    pub(crate) fn sanitized(mut self, secrets: &[&str]) -> Self {
        for secret in secrets.iter().filter(|secret| secret.len() >= MIN_SECRET) {
            self.detail = self.detail.replace(secret, "…");
        }
        let mut detail = String::new();
        for word in self.detail.split(|c: char| c.is_whitespace() || is_invisible(c)) {
            if !detail.is_empty() && !word.is_empty() {
                detail.push(' ');
            }
            detail.push_str(word);
        }
        if let Some((end, _)) = detail.char_indices().nth(MAX_DETAIL) {
            detail.truncate(end);
            detail.push('…');
        }
        self.detail = detail;
        self
    }

    /// Returns how many more attempts may help.
    pub(crate) fn retries(&self) -> usize {
        match self.kind {
            FailureKind::RateLimited
            | FailureKind::Overloaded
            | FailureKind::Server { .. }
            | FailureKind::Network { .. }
            | FailureKind::Cut => 4,
            // A server that is being restarted is back in a moment, or is not.
            FailureKind::NoServer { .. } => 1,
            // Each of these has already taken long.
            FailureKind::ConnectTimeout(_)
            | FailureKind::SilenceTimeout(_)
            | FailureKind::Proxy { .. } => 1,
            _ => 0,
        }
    }
}

/// The shortest text that is taken for a secret, in bytes. Local servers are given keys such as
/// `x`, which no message is to be without.
const MIN_SECRET: usize = 4;

/// What the server said, after a colon.
struct Detail<'a>(&'a str);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// The status of a server that failed; within a stream it was the one of success.
struct Server(u16);

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            200 => f.write_str("in the middle of its answer"),
            status => write!(f, "({status})"),
        }
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
    #[error("the provider rejected the API key")]
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
    #[error("the provider failed {}", Server(*status))]
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
    /// The machine refuses connections to the port: nothing listens there.
    #[error("nothing listens at {host}")]
    NoServer {
        /// Whom the connection was to.
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
    SilenceTimeout(Duration),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_as_it_is_shown() {
        let host = || "api.test:8443".to_owned();
        let ten = Duration::from_secs(10);
        let provider = Provider::Anthropic;
        let kinds = [
            FailureKind::NoKey { provider },
            FailureKind::Key,
            FailureKind::Forbidden,
            FailureKind::Quota,
            FailureKind::UnknownModel { model: "the-model".to_owned() },
            FailureKind::TooLong,
            FailureKind::Refused { status: 400 },
            FailureKind::Refused { status: 308 },
            FailureKind::RateLimited,
            FailureKind::Overloaded,
            FailureKind::Server { status: 500 },
            FailureKind::Server { status: 200 },
            FailureKind::NoServer { host: host() },
            FailureKind::Network { host: host() },
            FailureKind::Tls { host: host() },
            FailureKind::Proxy { proxy: "http://proxy.test:3128/".to_owned() },
            FailureKind::ConnectTimeout(ten),
            FailureKind::SilenceTimeout(ten),
            FailureKind::Cut,
            FailureKind::Malformed,
            FailureKind::TooLarge { limit: 64 << 20 },
            FailureKind::Address,
        ];
        let shown: Vec<String> = kinds
            .into_iter()
            .map(|kind| {
                let failure = Failure::new(provider, kind).with_detail("said");
                let remedy = failure.remedy().map(|remedy| format!("{remedy:?}"));
                format!("{failure}\n  {}", remedy.unwrap_or_default()).trim_end().to_owned()
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn what_was_said_is_short_plain_and_without_secrets() {
        let detail = |text: &str| {
            let failure = Failure::new(Provider::Google, FailureKind::Cut).with_detail(text);
            failure.sanitized(&["", "x", "k-12", "pass word"]).detail
        };
        assert_eq!(detail("a k-12k-12 x, pass word\t\u{1b}[2J\r\n c"), "a …… x, … [2J c");
        assert_eq!(detail("\u{202e}evil\u{200b}"), "evil");
        assert_eq!(detail(&"é".repeat(300)), "é".repeat(300));
        assert_eq!(detail(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
        // A secret that the end would have cut is gone before.
        assert!(!detail(&format!("{}k-12", "x".repeat(298))).contains('k'));
        assert_eq!(detail(""), "");
    }
}
