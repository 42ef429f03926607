//! Failures of a request: their kinds, and messages that tell the user what to do.

mod remedy;

use std::fmt;
use std::time::Duration;

use ikigai_protocol::is_invisible;
use thiserror::Error;

use crate::{Image, Provider};

pub use remedy::FailureRemedy;

/// The maximum length of [`RequestFailure::detail`], in characters.
const MAX_DETAIL: usize = 300;

/// A request that got no answer. It is displayed as one line; [`RequestFailure::remedy`] returns what to
/// do about it.
///
/// It never contains the key or the password of a proxy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{kind}{}", Detail(.detail))]
pub struct RequestFailure {
    /// The provider whose interface was used.
    pub provider: Provider,
    /// The kind of failure.
    pub kind: FailureKind,
    /// The server's own message: short, on one line and without control characters. Empty if the
    /// server sent no message.
    pub detail: String,
    /// The time that the server asked to wait.
    pub retry_after: Option<Duration>,
}

impl RequestFailure {
    /// Creates a failure without any detail.
    #[must_use]
    pub fn new(provider: Provider, kind: FailureKind) -> Self {
        Self { provider, kind, detail: String::new(), retry_after: None }
    }

    /// Adds a detail as it was received; [`RequestFailure::sanitized`] shortens it.
    #[must_use]
    pub(crate) fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Makes the detail fit for a terminal and a log: removes these secrets and invisible
    /// characters, joins its lines and shortens it.
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

    /// Returns the failure of a request with these images. If its message mentions images, they are
    /// the reason. Servers have no error code for this, and use different statuses:
    ///
    /// - OpenAI, Ollama and DeepSeek: 400 ("image_url is only supported by certain models", "this
    ///   model does not support image input", "unknown variant `image_url`")
    /// - OpenRouter: 404 ("No endpoints found that support image input")
    /// - llama.cpp: 500 ("image input is not supported",
    ///   <https://github.com/ggml-org/llama.cpp/issues/15377>)
    /// - vLLM: 400 ("is not a multimodal model")
    pub(crate) fn of_images<'a>(mut self, images: impl Iterator<Item = &'a Image>) -> Self {
        let may_be = matches!(
            self.kind,
            FailureKind::Refused { status: 400.. }
                | FailureKind::UnknownModel { .. }
                | FailureKind::Server { status: 500 }
        );
        let detail = self.detail.to_ascii_lowercase();
        if !may_be || !["image", "multimodal"].iter().any(|word| detail.contains(word)) {
            return self;
        }
        let mut names: Vec<String> =
            images.map(|image| format!("`{}`", plain(image.name()))).collect();
        names.dedup();
        let images = match names.as_slice() {
            [] => return self,
            [one] => format!("the image {one}"),
            several => format!("the images {}", several.join(", ")),
        };
        self.kind = FailureKind::Images { images };
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
            // A server that is being restarted is back in a moment, or not at all.
            FailureKind::NoServer { .. } => 1,
            // Each of these attempts has already taken long.
            FailureKind::ConnectTimeout(_)
            | FailureKind::SilenceTimeout(_)
            | FailureKind::Proxy { .. } => 1,
            _ => 0,
        }
    }
}

/// Returns a name without the characters that would break a line or deceive its reader.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !is_invisible(*c)).collect()
}

/// The minimum length of a secret that is removed from messages, in bytes. Users give local servers
/// keys such as `x`, which must not be removed from every word.
const MIN_SECRET: usize = 4;

/// The detail, after a colon.
struct Detail<'a>(&'a str);

impl fmt::Display for Detail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": {}", self.0) }
    }
}

/// The status of a server that failed. An error within a stream comes after the status 200.
struct Server(u16);

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            200 => f.write_str("in the middle of its answer"),
            status => write!(f, "({status})"),
        }
    }
}

/// The kind of a failure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FailureKind {
    /// No key is set, and the provider's own address requires one.
    #[error("no API key for {provider}")]
    NoKey {
        /// The provider.
        provider: crate::Provider,
    },
    /// The key was rejected (401).
    #[error("the provider rejected the API key")]
    Key,
    /// The key is valid and does not permit the request (403).
    #[error("the provider does not allow this")]
    Forbidden,
    /// The quota is used up (402, or a 429 that says so). Waiting does not help.
    #[error("the account has no quota left")]
    Quota,
    /// The provider does not know the model, or the address is wrong (404).
    #[error("the provider has no model `{model}`, or no such address")]
    UnknownModel {
        /// The model that was requested.
        model: String,
    },
    /// The conversation is longer than the model's window, or a request than the provider takes.
    #[error("the conversation is too long for the model")]
    TooLong {
        /// The tokens that the window holds, if the provider's message names them.
        window: Option<u64>,
    },
    /// The request is at fault (400 and similar).
    #[error("the provider refused the request ({status})")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The model or the server takes no images, or not these (400 and similar).
    #[error("the provider did not take {images}")]
    Images {
        /// The images of the request: "the image `a.png`".
        images: String,
    },
    /// There were too many requests (429).
    #[error("the provider asks for fewer requests")]
    RateLimited,
    /// The provider is overloaded (503, 529, or an error in the stream that says the same).
    #[error("the provider is overloaded")]
    Overloaded,
    /// The provider failed otherwise (other 5xx, 408, or an error in the stream).
    #[error("the provider failed {}", Server(*status))]
    Server {
        /// The HTTP status; 200 if the error came in the stream.
        status: u16,
    },
    /// The connection failed: the name, the route or the port.
    #[error("no connection to {host}")]
    Network {
        /// The host of the connection.
        host: String,
    },
    /// The connection was refused: nothing listens on the port.
    #[error("nothing listens at {host}")]
    NoServer {
        /// The host of the connection.
        host: String,
    },
    /// The TLS certificate or handshake failed.
    #[error("no secure connection to {host}")]
    Tls {
        /// The host of the connection.
        host: String,
    },
    /// The proxy that the environment names failed.
    #[error("no connection through the proxy {proxy}")]
    Proxy {
        /// The address of the proxy, without user and password.
        proxy: String,
    },
    /// The connection took too long.
    #[error("no connection within {} s", .0.as_secs())]
    ConnectTimeout(Duration),
    /// The server sent nothing for too long.
    #[error("the provider sent nothing for {} s", .0.as_secs())]
    SilenceTimeout(Duration),
    /// The stream ended without its terminal event.
    #[error("the answer was cut off")]
    Cut,
    /// The response does not follow the provider's documentation.
    #[error("the answer cannot be read")]
    Malformed,
    /// The answer is larger than the client reads.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The maximum number of bytes that are read.
        limit: usize,
    },
    /// The provider's address is not valid.
    #[error("the provider's address is not valid")]
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
            FailureKind::TooLong { window: Some(200_000) },
            FailureKind::Refused { status: 400 },
            FailureKind::Refused { status: 308 },
            FailureKind::Images { images: "the image `a.png`".to_owned() },
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
                let failure = RequestFailure::new(provider, kind).with_detail("said");
                let remedy = failure.remedy().map(|remedy| format!("{remedy:?}"));
                format!("{failure}\n  {}", remedy.unwrap_or_default()).trim_end().to_owned()
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn a_refusal_that_speaks_of_images_names_those_of_the_request() {
        let image = |name: &str| Image::new(name, b"GIF89a\x01\0\x01\0\0\0\0").expect("an image");
        let images = [image("a.gif"), image("a.gif"), image("b\n.gif")];
        let kind = |kind: FailureKind, detail: &str, images: &[Image]| {
            let failure = RequestFailure::new(Provider::OpenAiChat, kind).with_detail(detail);
            failure.of_images(images.iter()).kind
        };
        let refused = || FailureKind::Refused { status: 400 };
        let named = |images: &str| FailureKind::Images { images: images.to_owned() };
        for (was, detail) in [
            (refused(), "Invalid content type. image_url is only supported by certain models."),
            (refused(), "messages[1]: unknown variant `image_url`, expected `text`"),
            (refused(), "the-model is not a multimodal model"),
            (
                FailureKind::UnknownModel { model: String::new() },
                "No endpoints found that support image input",
            ),
            (FailureKind::Server { status: 500 }, "image input is not supported - hint: mmproj"),
        ] {
            assert_eq!(kind(was, detail, &images[..1]), named("the image `a.gif`"), "{detail}");
        }
        let several = kind(refused(), "Could not process image", &images);
        assert_eq!(several, named("the images `a.gif`, `b.gif`"));
        assert_eq!(kind(refused(), "bad temperature", &images), refused());
        assert_eq!(kind(refused(), "Could not process image", &[]), refused());
        let overloaded = kind(FailureKind::Overloaded, "too many images at once", &images);
        assert_eq!(overloaded, FailureKind::Overloaded, "waiting may help");
    }

    #[test]
    fn what_was_said_is_short_plain_and_without_secrets() {
        let detail = |text: &str| {
            let failure = RequestFailure::new(Provider::Google, FailureKind::Cut).with_detail(text);
            failure.sanitized(&["", "x", "k-12", "pass word"]).detail
        };
        assert_eq!(detail("a k-12k-12 x, pass word\t\u{1b}[2J\r\n c"), "a …… x, … [2J c");
        assert_eq!(detail("\u{202e}evil\u{200b}"), "evil");
        assert_eq!(detail(&"é".repeat(300)), "é".repeat(300));
        assert_eq!(detail(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
        // A secret at the cut is removed before the text is shortened.
        assert!(!detail(&format!("{}k-12", "x".repeat(298))).contains('k'));
        assert_eq!(detail(""), "");
    }
}
