//! A model, and the tools that it is offered first.

use ikigai_provider::{AnswerSettings, ModelClient, Provider, ToolBounds};

/// A model, and how to reach it.
#[derive(Debug)]
pub struct Model {
    /// The client that sends its requests.
    pub client: ModelClient,
    /// The provider's name for the model.
    pub name: String,
    /// The most tokens of an answer, if the user sets a limit. Otherwise the model's own limit
    /// applies, or 32,000 for Anthropic, which requires a limit.
    pub max_tokens: Option<u32>,
    /// The tokens that the model takes in together with its answer, if the user sets them.
    /// Otherwise the number is read from a refusal that names it.
    pub context: Option<u64>,
    /// The settings of its answers.
    pub settings: AnswerSettings,
    /// The tools that it is offered.
    pub offer: ToolOffer,
}

/// The choice of tools for a provider that takes fewer than there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOffer {
    /// The most tools, and the longest description of a tool.
    pub bounds: ToolBounds,
    /// The names of the tools that come before all others.
    pub first: Vec<String>,
}

impl ToolOffer {
    /// Returns the provider's own bounds, without a preference among the tools.
    #[must_use]
    pub fn for_provider(provider: Provider) -> Self {
        Self { bounds: ToolBounds::for_provider(provider), first: Vec::new() }
    }
}
