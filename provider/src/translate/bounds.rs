//! The limits of an endpoint on tools: their number, and the length of their descriptions.
//!
//! If a request exceeds one of them, the provider refuses it with all its tools, so that every
//! prompt fails. The limits on schemas are in another module.

use crate::Provider;

/// OpenAI's limit on the tools of a request: "A max of 128 functions are supported", in the
/// description of `tools` in <https://github.com/openai/openai-openapi>. The servers enforce it for
/// both interfaces: "Invalid 'tools': array too long. Expected an array with maximum length 128",
/// <https://github.com/zed-industries/zed/issues/32946>.
const OPENAI_TOOLS: usize = 128;

/// Google's limit on the tools of a request: "Maximum 512 function declarations can be provided",
/// for `Tool.function_declarations` in
/// <https://github.com/googleapis/python-genai/blob/main/google/genai/types.py>.
const GOOGLE_TOOLS: usize = 512;

/// OpenAI's limit on the description of a function, in characters: "Expected a string with maximum
/// length 1048576",
/// <https://github.com/MicrosoftDocs/azure-ai-docs/commit/2cee073678faf5f36c9aebbbe100d0d4093dc7de>
const OPENAI_DESCRIPTION: usize = 1_048_576;

/// The longest description that every server with OpenAI's interface accepts, in characters. It was
/// OpenAI's own limit until 2025 (<https://github.com/run-llama/llama_index/pull/18784>), and older
/// deployments and gateways still have it:
/// <https://portkey.ai/error-library/input-validation-error-10475>.
pub const SAFE_DESCRIPTION: usize = 1_024;

/// The limits of one endpoint on tools; `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolBounds {
    /// The maximum number of tools of a request.
    pub tools: Option<usize>,
    /// The maximum length of a tool's description, in characters.
    pub description: Option<usize>,
}

impl ToolBounds {
    /// Returns the limits that the provider documents or enforces. Anthropic has none.
    #[must_use]
    pub const fn for_provider(provider: Provider) -> Self {
        match provider {
            Provider::OpenAi | Provider::OpenAiChat => {
                Self { tools: Some(OPENAI_TOOLS), description: Some(OPENAI_DESCRIPTION) }
            }
            Provider::Anthropic => Self { tools: None, description: None },
            Provider::Google => Self { tools: Some(GOOGLE_TOOLS), description: None },
        }
    }
}
