//! The wire formats of model vendors, and a client for them. The crate knows how to offer a tool to
//! each vendor, how to send a conversation, and how to read an answer and the arguments of its
//! calls.
//!
//! This crate knows only the schemas of tools and does not run them. It does not decide where a key
//! comes from, what is sent to a model, or how its answer is used.

#![warn(missing_docs)]

mod arguments;
mod client;
mod conversation;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod header;
mod image;
mod key;
mod loss;
mod settings;
mod shape;
mod sse;
mod translate;
mod wire;

use std::fmt;
use std::str::FromStr;

use ikigai_protocol::ProviderKey;
use thiserror::Error;

pub use arguments::strip_nulls;
pub use client::{Endpoint, ModelClient};
pub use conversation::{
    AnswerEvent, Blob, CallResult, Message, ModelAnswer, ModelCall, ModelRequest, Part, Role,
    StopReason, TokenUsage,
};
pub use failure::{FailureKind, FailureRemedy, RequestFailure};
pub use header::{HeaderError, RequestHeader};
pub use image::{Image, ImageError, ImageType};
pub use key::ApiKey;
pub use loss::{Inexpressible, Loss, LossEffect, LossReason};
pub use settings::{AnswerSettings, Effort, UnknownEffort, Unsupported};
pub use shape::{AnswerShape, ShapeError};
pub use translate::{
    OmittedTool, SAFE_DESCRIPTION, ToolBounds, TranslatedTools, Translation, limits, translate,
    translate_all,
};

/// An interface of a vendor. The configuration uses the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    /// `openai`: the Responses API.
    OpenAi,
    /// `openai-chat`: Chat Completions, which local servers support too.
    OpenAiChat,
    /// `anthropic`: the Messages API.
    Anthropic,
    /// `google`: the Gemini API, `v1beta`.
    Google,
}

/// The error for a name that is not a provider.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown provider `{name}`; expected `openai`, `openai-chat`, `anthropic` or `google`")]
pub struct UnknownProvider {
    /// The name as it was given.
    pub name: String,
}

impl Provider {
    /// Every provider, in the order in which users see them.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::OpenAiChat, Self::Anthropic, Self::Google];

    /// Returns the name that the command line and the configuration use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
        }
    }

    /// Returns the environment variable that holds the key of an account.
    #[must_use]
    pub const fn key_variable(self) -> ProviderKey {
        match self {
            Self::OpenAi | Self::OpenAiChat => ProviderKey::OpenAi,
            Self::Anthropic => ProviderKey::Anthropic,
            Self::Google => ProviderKey::Gemini,
        }
    }

    /// Returns the environment variable that replaces the provider's own address.
    #[must_use]
    pub const fn base_url_variable(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiChat => "OPENAI_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Google => "GEMINI_BASE_URL",
        }
    }

    /// Returns the provider's own address: with the version for OpenAI, as in its libraries, and
    /// without for the others.
    #[must_use]
    pub const fn own_base_url(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiChat => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Google => "https://generativelanguage.googleapis.com",
        }
    }

    /// Returns whether tools are sent in strict mode if their schemas allow it.
    #[must_use]
    pub const fn is_strict(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiChat)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|provider| provider.as_str() == name)
            .ok_or_else(|| UnknownProvider { name: name.to_owned() })
    }
}
