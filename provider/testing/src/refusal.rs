//! The errors of a vendor, in its own JSON.
//!
//! Sources: <https://platform.openai.com/docs/guides/error-codes>,
//! <https://docs.anthropic.com/en/api/errors>,
//! <https://ai.google.dev/gemini-api/docs/troubleshooting>.

use serde_json::{Value, json};

use crate::Vendor;

/// An error instead of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The message for users.
    pub(crate) message: String,
    /// The member at fault; OpenAI only.
    pub(crate) param: Option<String>,
    /// The code for programs; OpenAI only.
    pub(crate) code: Option<&'static str>,
    /// The kind, if the status does not determine it.
    pub(crate) kind: Option<&'static str>,
    /// The details; Google only.
    pub(crate) details: Option<Box<Value>>,
}

impl Refusal {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message, param: None, code: None, kind: None, details: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub(crate) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    pub(crate) fn details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Returns the body of the response.
    pub(crate) fn body(&self, vendor: Vendor) -> Value {
        match vendor {
            Vendor::OpenAi | Vendor::OpenAiChat => json!({ "error": self.openai() }),
            Vendor::Anthropic => json!({
                "type": "error",
                "error": { "type": self.anthropic_kind(), "message": self.message },
                "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
            }),
            Vendor::Google => {
                let mut error = json!({
                    "code": self.status,
                    "message": self.message,
                    "status": self.google_status(),
                });
                if let Some(details) = &self.details {
                    error["details"] = details.as_ref().clone();
                }
                json!({ "error": error })
            }
        }
    }

    /// Returns OpenAI's error object.
    pub(crate) fn openai(&self) -> Value {
        let kind = self.kind.unwrap_or(match self.status {
            500.. => "server_error",
            429 => "requests",
            _ => "invalid_request_error",
        });
        json!({ "message": self.message, "type": kind, "param": self.param, "code": self.code })
    }

    /// Returns Anthropic's name of the kind.
    pub(crate) fn anthropic_kind(&self) -> &'static str {
        self.kind.unwrap_or(match self.status {
            401 => "authentication_error",
            402 => "billing_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            504 => "timeout_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        })
    }

    fn google_status(&self) -> &'static str {
        self.kind.unwrap_or(match self.status {
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            503 => "UNAVAILABLE",
            504 => "DEADLINE_EXCEEDED",
            500.. => "INTERNAL",
            _ => "INVALID_ARGUMENT",
        })
    }
}
