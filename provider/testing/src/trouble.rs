//! The errors that every vendor has, with each vendor's own message and status.

use serde_json::json;

use crate::Vendor;
use crate::refusal::Refusal;

/// An error that a vendor can return instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The key is unknown.
    Key,
    /// The key does not permit the request.
    Forbidden,
    /// The quota is used up; waiting does not help.
    Quota,
    /// The model does not exist.
    UnknownModel,
    /// The conversation is too long for the model.
    TooLong,
    /// The account sent too many requests.
    RateLimited,
    /// The vendor is overloaded.
    Overloaded,
    /// The vendor failed.
    Server,
}

impl Trouble {
    /// Every error.
    pub const ALL: [Self; 8] = [
        Self::Key,
        Self::Forbidden,
        Self::Quota,
        Self::UnknownModel,
        Self::TooLong,
        Self::RateLimited,
        Self::Overloaded,
        Self::Server,
    ];

    pub(crate) fn refusal(self, vendor: Vendor) -> Refusal {
        match vendor {
            Vendor::OpenAi | Vendor::OpenAiChat => self.openai(vendor),
            Vendor::Anthropic => self.anthropic(),
            Vendor::Google => self.google(),
        }
    }

    fn openai(self, vendor: Vendor) -> Refusal {
        match self {
            Self::Key => {
                Refusal::new(401, "Incorrect API key provided: sk-wrong.").code("invalid_api_key")
            }
            Self::Forbidden => Refusal::new(403, "Country, region, or territory not supported")
                .code("unsupported_country_region_territory")
                .kind("request_forbidden"),
            Self::Quota => Refusal::new(
                429,
                "You exceeded your current quota, please check your plan and billing details.",
            )
            .code("insufficient_quota")
            .kind("insufficient_quota"),
            Self::UnknownModel => Refusal::new(
                404,
                "The model `gone` does not exist or you do not have access to it.",
            )
            .code("model_not_found"),
            Self::TooLong if vendor == Vendor::OpenAi => Refusal::invalid(
                "Your input exceeds the context window of this model. Please adjust your input \
                 and try again.",
            )
            .param("input")
            .code("context_length_exceeded"),
            Self::TooLong => Refusal::invalid(
                "This model's maximum context length is 128000 tokens. However, your messages \
                 resulted in 130000 tokens. Please reduce the length of the messages.",
            )
            .param("messages")
            .code("context_length_exceeded"),
            Self::RateLimited => {
                Refusal::new(429, "Rate limit reached for requests").code("rate_limit_exceeded")
            }
            Self::Overloaded => {
                Refusal::new(503, "The engine is currently overloaded, please try again later")
                    .kind("service_unavailable_error")
            }
            Self::Server => Refusal::new(
                500,
                "The server had an error while processing your request. Sorry about that!",
            ),
        }
    }

    fn anthropic(self) -> Refusal {
        match self {
            Self::Key => Refusal::new(401, "invalid x-api-key"),
            Self::Forbidden => {
                Refusal::new(403, "Your API key does not have permission to use the resource.")
            }
            // Anthropic returns 400 for this.
            Self::Quota => Refusal::invalid(
                "Your credit balance is too low to access the Anthropic API. Please go to Plans \
                 & Billing to upgrade or purchase credits.",
            ),
            Self::UnknownModel => Refusal::new(404, "model: gone"),
            Self::TooLong => Refusal::invalid("prompt is too long: 210000 tokens > 200000 maximum"),
            Self::RateLimited => Refusal::new(
                429,
                "This request would exceed your organization's rate limit of 50 requests per \
                 minute.",
            ),
            Self::Overloaded => Refusal::new(529, "Overloaded"),
            Self::Server => Refusal::new(500, "Internal server error"),
        }
    }

    fn google(self) -> Refusal {
        match self {
            // Google returns 400 for this; only the details distinguish it from an invalid request.
            Self::Key => Refusal::invalid("API key not valid. Please pass a valid API key.")
                .details(json!([{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                    "domain": "googleapis.com",
                    "metadata": { "service": "generativelanguage.googleapis.com" },
                }])),
            Self::Forbidden => Refusal::new(403, "The caller does not have permission"),
            Self::Quota => Refusal::new(
                429,
                "You exceeded your current quota, please check your plan and billing details.",
            )
            .details(json!([{
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{
                    "quotaMetric": "generativelanguage.googleapis.com/generate_requests",
                    "quotaId": "GenerateRequestsPerDayPerProjectPerModel",
                    "quotaValue": "250",
                }],
            }])),
            Self::UnknownModel => {
                Refusal::new(404, "models/gone is not found for API version v1beta.")
            }
            Self::TooLong => Refusal::invalid(
                "The input token count (1200000) exceeds the maximum number of tokens allowed \
                 (1048576).",
            ),
            Self::RateLimited => {
                Refusal::new(429, "Resource has been exhausted (e.g. check quota).").details(
                    json!([
                        { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0s" },
                    ]),
                )
            }
            Self::Overloaded => {
                Refusal::new(503, "The model is overloaded. Please try again later.")
            }
            Self::Server => Refusal::new(500, "An internal error has occurred. Please retry."),
        }
    }
}
