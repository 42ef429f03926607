//! The errors of servers, and the kinds of failures that they mean.
//!
//! The statuses and codes are those of <https://platform.openai.com/docs/guides/error-codes>,
//! <https://docs.anthropic.com/en/api/errors> and
//! <https://ai.google.dev/gemini-api/docs/troubleshooting>; the messages are those of the providers
//! and the common local servers where there is no code.

use std::time::Duration;

use serde_json::Value;

use crate::{Failure, FailureKind, Provider};

/// An error that a server reported, in any of the usual forms.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServerError {
    /// The message for people.
    message: String,
    /// The values of `type`, `code`, `status` and `reason`.
    codes: Vec<String>,
    /// The status in the error's own text; within a stream there is no other.
    status: Option<u16>,
    /// The wait that the body asks for.
    retry_after: Option<Duration>,
}

impl ServerError {
    /// Reads JSON that is an error or has one as its member `error`. An answer may have a `type` or
    /// `status` as well; an error without that member is recognised by its type or its message.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        // Google wraps the error of a stream in an array.
        let value = if let Value::Array(values) = value { values.first()? } else { value };
        let object = value.as_object()?;
        let error = object.get("error").filter(|error| !error.is_null());
        let inner = match error {
            Some(Value::String(message)) => {
                return Some(Self { message: message.clone(), ..Self::default() });
            }
            Some(Value::Object(inner)) => inner,
            _ => object,
        };
        let text = |name: &str| inner.get(name).and_then(Value::as_str).map(str::to_owned);
        let message = ["message", "detail", "msg", "error_description"]
            .into_iter()
            .find_map(text)
            .or_else(|| inner.get("detail").map(Value::to_string));
        let is_marked = ["type", "object"].into_iter().filter_map(text).any(|kind| kind == ERROR);
        if error.is_none() && message.is_none() && !is_marked {
            return None;
        }
        let codes = ["type", "code", "status", "reason"].into_iter().filter_map(text);
        let mut found = Self {
            codes: codes.filter(|code| code != ERROR).collect(),
            status: inner.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok()),
            ..Self::default()
        };
        for detail in inner.get("details").and_then(Value::as_array).into_iter().flatten() {
            found.read_detail(detail);
        }
        found.message = message.unwrap_or_default();
        Some(found)
    }

    /// Creates an error from a code and a message.
    pub(crate) fn new(code: Option<String>, message: Option<String>) -> Self {
        Self {
            message: message.unwrap_or_default(),
            codes: code.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Reads one of Google's details: the reason, the wait or the quota.
    fn read_detail(&mut self, detail: &Value) {
        let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
        self.codes.extend(text(detail, "reason"));
        if let Some(delay) = text(detail, "retryDelay")
            && let Some(seconds) = delay.strip_suffix('s').and_then(|text| text.parse().ok())
        {
            self.retry_after = Duration::try_from_secs_f64(seconds).ok();
        }
        for violation in detail.get("violations").and_then(Value::as_array).into_iter().flatten() {
            self.codes.extend(text(violation, "quotaId"));
        }
    }

    /// Returns the failure for an error with this status; 200 is that of a stream that had begun.
    pub(crate) fn failure(self, provider: Provider, model: &str, status: u16) -> Failure {
        let kind = self.kind(model, status);
        let detail = if self.message.is_empty() { self.codes.join(" ") } else { self.message };
        Failure {
            retry_after: self.retry_after,
            ..Failure::new(provider, kind).with_detail(detail)
        }
    }

    fn kind(&self, model: &str, http: u16) -> FailureKind {
        let has = |known: &[&str]| self.codes.iter().any(|code| known.contains(&code.as_str()));
        let message = self.message.to_ascii_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let status = if http == 200 { self.status_within() } else { http };
        // Some of these come with 400 or 429, so they are checked before the status.
        if has(TOO_LONG) || mentions(TOO_LONG_MESSAGES) {
            return FailureKind::TooLong;
        }
        let is_daily = self.codes.iter().any(|code| code.contains("PerDay"));
        if has(NO_QUOTA) || mentions(NO_QUOTA_MESSAGES) || is_daily {
            return FailureKind::Quota;
        }
        if has(&["invalid_api_key", "API_KEY_INVALID"]) || mentions(&["unregistered callers"]) {
            return FailureKind::Key;
        }
        match status {
            401 => FailureKind::Key,
            402 => FailureKind::Quota,
            403 => FailureKind::Forbidden,
            404 => FailureKind::UnknownModel { model: model.to_owned() },
            413 => FailureKind::TooLong,
            429 => FailureKind::RateLimited,
            503 | 529 => FailureKind::Overloaded,
            // An error in the stream without a known code is the server's.
            200 | 408 | 500.. => FailureKind::Server { status: http },
            _ if has(&["model_not_found"]) => FailureKind::UnknownModel { model: model.to_owned() },
            _ => FailureKind::Refused { status },
        }
    }

    /// Returns the status that an error within a stream would have had.
    fn status_within(&self) -> u16 {
        let of_code = |code: &String| {
            STATUSES.iter().find(|(known, _)| known == code).map(|(_, status)| *status)
        };
        self.codes.iter().find_map(of_code).or(self.status).unwrap_or(200)
    }
}

/// The type of an object that is an error, which does not say which one.
const ERROR: &str = "error";

/// Codes for a conversation that is too long: OpenAI, llama.cpp, Anthropic.
const TOO_LONG: &[&str] =
    &["context_length_exceeded", "exceed_context_size_error", "request_too_large"];

/// Messages for a conversation that is too long: Anthropic (twice), OpenAI and vLLM, Google,
/// Ollama; and OpenAI for a request that is larger than the account may send in a minute, which no
/// wait helps.
const TOO_LONG_MESSAGES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the maximum number of tokens",
    "exceeds the context window",
    "exceeds the available context size",
    "exceeds maximum context",
    "tokens must be reduced in order to run",
];

/// Codes for a quota that is used up: OpenAI, Anthropic.
const NO_QUOTA: &[&str] =
    &["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"];

/// Messages for a quota that is used up: Anthropic, which sends it with 400.
const NO_QUOTA_MESSAGES: &[&str] = &["credit balance is too low"];

/// The statuses of the codes: Anthropic, OpenAI, Google.
const STATUSES: &[(&str, u16)] = &[
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
    ("invalid_prompt", 400),
    ("rate_limit_exceeded", 429),
    ("server_error", 500),
    ("INVALID_ARGUMENT", 400),
    ("FAILED_PRECONDITION", 400),
    ("UNAUTHENTICATED", 401),
    ("PERMISSION_DENIED", 403),
    ("NOT_FOUND", 404),
    ("RESOURCE_EXHAUSTED", 429),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DEADLINE_EXCEEDED", 504),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(status: u16, body: &Value) -> FailureKind {
        ServerError::of(body).expect("an error").failure(Provider::OpenAi, "m", status).kind
    }

    #[test]
    fn each_provider_says_it_in_its_own_way() {
        let openai = |code: &str| json!({ "error": { "message": "m", "type": "t", "code": code } });
        let anthropic = |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let google = |code: u16, status: &str, message: &str| json!([{ "error": { "code": code, "status": status, "message": message } }]);
        let model = || FailureKind::UnknownModel { model: "m".into() };
        for (status, body, expected) in [
            (401, openai("invalid_api_key"), FailureKind::Key),
            (429, openai("insufficient_quota"), FailureKind::Quota),
            (429, openai("rate_limit_exceeded"), FailureKind::RateLimited),
            (400, openai("context_length_exceeded"), FailureKind::TooLong),
            (400, openai("model_not_found"), model()),
            (404, openai("model_not_found"), model()),
            (200, openai("server_error"), FailureKind::Server { status: 200 }),
            (
                400,
                anthropic("invalid_request_error", "prompt is too long: 9"),
                FailureKind::TooLong,
            ),
            (
                400,
                anthropic("invalid_request_error", "Your credit balance is too low"),
                FailureKind::Quota,
            ),
            (
                429,
                json!({ "error": { "type": "tokens", "code": "rate_limit_exceeded", "message":
                    "Request too large for m on tokens per min (TPM): Limit 30000, Requested \
                     36278. The input or output tokens must be reduced in order to run \
                     successfully." } }),
                FailureKind::TooLong,
            ),
            (402, anthropic("billing_error", "pay"), FailureKind::Quota),
            (403, anthropic("permission_error", "no"), FailureKind::Forbidden),
            (413, anthropic("request_too_large", "big"), FailureKind::TooLong),
            (529, anthropic("overloaded_error", "busy"), FailureKind::Overloaded),
            (200, anthropic("overloaded_error", "busy"), FailureKind::Overloaded),
            (200, anthropic("rate_limit_error", "slow"), FailureKind::RateLimited),
            (200, anthropic("authentication_error", "who"), FailureKind::Key),
            (200, anthropic("invalid_request_error", "bad"), FailureKind::Refused { status: 400 }),
            (200, anthropic("new_error", "?"), FailureKind::Server { status: 200 }),
            (400, google(400, "INVALID_ARGUMENT", "bad"), FailureKind::Refused { status: 400 }),
            (403, google(403, "PERMISSION_DENIED", "no"), FailureKind::Forbidden),
            (403, google(403, "PERMISSION_DENIED", "unregistered callers"), FailureKind::Key),
            (200, google(503, "UNAVAILABLE", "busy"), FailureKind::Overloaded),
            (200, google(418, "NEW", "tea"), FailureKind::Refused { status: 418 }),
            (
                400,
                google(
                    400,
                    "INVALID_ARGUMENT",
                    "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                ),
                FailureKind::TooLong,
            ),
            (404, json!({ "error": "model 'm' not found" }), model()),
            (
                500,
                json!({ "object": "error", "message": "oops", "type": "x" }),
                FailureKind::Server { status: 500 },
            ),
            (422, json!({ "detail": [{ "loc": ["body"] }] }), FailureKind::Refused { status: 422 }),
        ] {
            assert_eq!(kind(status, &body), expected, "{status} {body}");
        }
    }

    #[test]
    fn google_details_say_how_long_and_which_quota() {
        let body = |quota: &str| {
            json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m", "details": [
                { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                  "violations": [{ "quotaId": quota }] },
                { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s" },
            ] } })
        };
        let error =
            ServerError::of(&body("GenerateRequestsPerMinutePerProject")).expect("an error");
        let failure = error.failure(Provider::Google, "m", 429);
        assert_eq!(failure.kind, FailureKind::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(kind(429, &body("GenerateRequestsPerDayPerProject")), FailureKind::Quota);
        let bad_key = json!({ "error": { "code": 400, "message": "API key not valid.",
            "details": [{ "reason": "API_KEY_INVALID" }] } });
        assert_eq!(kind(400, &bad_key), FailureKind::Key);
    }

    #[test]
    fn what_is_no_error_is_none() {
        for value in [
            json!({}),
            json!([]),
            json!("no"),
            json!({ "choices": [] }),
            json!({ "error": null }),
            json!({ "type": "message", "role": "assistant", "content": [], "stop_reason": "x" }),
            json!({ "object": "response", "status": "completed", "error": null, "output": [] }),
            json!({ "object": "chat.completion", "choices": [], "code": "c", "reason": "r" }),
            json!({ "model": "m", "message": { "content": "hello" }, "done": true }),
        ] {
            assert_eq!(ServerError::of(&value), None, "{value}");
        }
    }
}
