//! The four interfaces, with their paths and headers.

use std::fmt;

use serde_json::Value;

use crate::Received;

/// An interface of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// OpenAI's Responses API.
    OpenAi,
    /// Chat Completions, of OpenAI and of many local servers.
    OpenAiChat,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API, `v1beta`.
    Google,
}

impl Vendor {
    /// Every interface.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::OpenAiChat, Self::Anthropic, Self::Google];

    /// Returns the name in ikigai's configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
        }
    }

    /// Returns the part of a base URL after the host.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiChat => "/v1",
            Self::Anthropic | Self::Google => "",
        }
    }

    /// Returns the model of a request, if its path is the path of a streamed answer.
    pub(crate) fn model(self, request: &Received) -> Option<String> {
        let named = || Some(request.body["model"].as_str().unwrap_or_default().to_owned());
        match self {
            Self::OpenAi => (request.path == "/v1/responses").then(named)?,
            Self::OpenAiChat => (request.path == "/v1/chat/completions").then(named)?,
            // Claude Code names the parts of the interface that are not final in the query.
            Self::Anthropic => match request.path.as_str() {
                "/v1/messages" | "/v1/messages?beta=true" => named(),
                _ => None,
            },
            Self::Google => {
                let rest = request.path.strip_prefix("/v1beta/models/")?;
                let model = rest.strip_suffix(":streamGenerateContent?alt=sse")?;
                Some(model.to_owned())
            }
        }
    }

    /// Returns the key of a request.
    pub(crate) fn key(self, request: &Received) -> Option<&str> {
        match self {
            Self::OpenAi | Self::OpenAiChat => {
                request.header("authorization")?.strip_prefix("Bearer ")
            }
            Self::Anthropic => request.header("x-api-key"),
            Self::Google => request.header("x-goog-api-key"),
        }
    }

    /// Returns whether the request asks for a stream.
    pub(crate) fn is_streamed(self, request: &Received) -> bool {
        // Google's path determines it.
        self == Self::Google || request.body["stream"] == Value::Bool(true)
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
