//! What an endpoint takes of tools: how many, and how long their descriptions may be.
//!
//! A request that is over one of these is refused with all the tools in it, so that every prompt
//! fails. What a schema may be is not decided here.

use crate::Provider;

/// The most tools of a request to OpenAI: "A max of 128 functions are supported", in the
/// description of `tools` in <https://github.com/openai/openai-openapi>. The servers say so for
/// both interfaces: "Invalid 'tools': array too long. Expected an array with maximum length 128",
/// <https://github.com/zed-industries/zed/issues/32946>.
const OPENAI_TOOLS: usize = 128;

/// The most tools of a request to Google: "Maximum 512 function declarations can be provided", of
/// `Tool.function_declarations` in
/// <https://github.com/googleapis/python-genai/blob/main/google/genai/types.py>.
const GOOGLE_TOOLS: usize = 512;

/// The longest description of a function that OpenAI's models take, in characters: "Expected a
/// string with maximum length 1048576",
/// <https://github.com/MicrosoftDocs/azure-ai-docs/commit/2cee073678faf5f36c9aebbbe100d0d4093dc7de>.
const OPENAI_DESCRIPTION: usize = 1_048_576;

/// The longest description that every server takes which speaks as OpenAI does, in characters. It
/// was OpenAI's own limit until 2025 (<https://github.com/run-llama/llama_index/pull/18784>), and
/// older deployments and gateways still have it:
/// <https://portkey.ai/error-library/input-validation-error-10475>.
pub const SAFE_DESCRIPTION: usize = 1_024;

/// How much of the tools one endpoint takes. Nothing stands for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most tools of a request.
    pub tools: Option<usize>,
    /// The most characters of a tool's description.
    pub description: Option<usize>,
}

impl Bounds {
    /// Those that the provider documents, or answers with. Anthropic names none.
    #[must_use]
    pub const fn of(provider: Provider) -> Self {
        match provider {
            Provider::OpenAi | Provider::OpenAiChat => {
                Self { tools: Some(OPENAI_TOOLS), description: Some(OPENAI_DESCRIPTION) }
            }
            Provider::Anthropic => Self { tools: None, description: None },
            Provider::Google => Self { tools: Some(GOOGLE_TOOLS), description: None },
        }
    }
}
