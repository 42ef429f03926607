//! The errors of servers, and the kinds of failures that they mean.
//!
//! The statuses and codes come from <https://platform.openai.com/docs/guides/error-codes>,
//! <https://docs.anthropic.com/en/api/errors> and
//! <https://ai.google.dev/gemini-api/docs/troubleshooting>. For errors without a code, the messages
//! of the providers and of the common local servers decide.

use std::time::Duration;

use serde_json::Value;

use crate::{FailureKind, Provider, RequestFailure};

/// An error that a server reported, in any of the usual forms.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServerError {
    /// The message for users.
    message: String,
    /// The values of `type`, `code`, `status` and `reason`.
    codes: Vec<String>,
    /// The status in the error's own text. Within a stream there is no other status.
    status: Option<u16>,
    /// The wait that the body asks for.
    retry_after: Option<Duration>,
    /// The size of the model's window, which llama.cpp sends as a member.
    window: Option<u64>,
}

impl ServerError {
    /// Reads JSON that is an error, or that has an error as its member `error`. An answer may have
    /// a `type` or `status` as well, so an error without that member is recognised by its type or
    /// its message.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
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
            window: inner.get("n_ctx").and_then(Value::as_u64),
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

    /// Returns the failure for an error with this status. Status 200 means that the stream had
    /// begun.
    pub(crate) fn failure(self, provider: Provider, model: &str, status: u16) -> RequestFailure {
        let kind = self.kind(model, status);
        let detail = if self.message.is_empty() { self.codes.join(" ") } else { self.message };
        RequestFailure {
            retry_after: self.retry_after,
            ..RequestFailure::new(provider, kind).with_detail(detail)
        }
    }

    fn kind(&self, model: &str, http: u16) -> FailureKind {
        let has = |known: &[&str]| self.codes.iter().any(|code| known.contains(&code.as_str()));
        let message = self.message.to_ascii_lowercase();
        let mentions = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let status = if http == 200 { self.status_within() } else { http };
        // Some of these come with 400 or 429, so they are checked before the status.
        if has(TOO_LONG) || TOO_LONG_MESSAGES.iter().any(|(words, _)| message.contains(words)) {
            return FailureKind::TooLong { window: self.window.or_else(|| window(&message)) };
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
            413 => FailureKind::TooLong { window: None },
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

/// The type of an error object that does not specify which error it is.
const ERROR: &str = "error";

/// Codes for a conversation that is too long: OpenAI, llama.cpp, Anthropic.
const TOO_LONG: &[&str] =
    &["context_length_exceeded", "exceed_context_size_error", "request_too_large"];

/// Parts of messages about a conversation that is too long, each with the words directly before the
/// size of the window, if the message has it.
const TOO_LONG_MESSAGES: &[(&str, Option<&str>)] = &[
    // Anthropic, for the conversation and with room for the answer:
    // <https://github.com/docker/docker-agent/issues/569>.
    ("prompt is too long", Some(" > ")),
    ("exceed context limit", Some(" > ")),
    // OpenAI: <https://github.com/dyad-sh/dyad/issues/1672>.
    ("exceeds the context window", None),
    ("exceed the configured limit of", Some("configured limit of ")),
    // OpenAI's older models, vLLM, DeepSeek, OpenRouter:
    // <https://github.com/refly-ai/refly/issues/1177>.
    ("maximum context length", Some("maximum context length is ")),
    ("exceeds maximum context", None),
    // OpenAI, for a request that is larger than the account may send in a minute. Waiting does not
    // help.
    ("tokens must be reduced in order to run", None),
    // Google: <https://github.com/google-gemini/gemini-cli/issues/6678>.
    ("exceeds the maximum number of tokens", Some("maximum number of tokens allowed (")),
    // vLLM, in `vllm/renderers/params.py` and `vllm/v1/engine/processor.py`.
    ("model's context length is only", Some("context length is only ")),
    ("longer than the maximum model length", Some("maximum model length of ")),
    // llama.cpp, Ollama: <https://github.com/ggml-org/llama.cpp/pull/15780>,
    // <https://github.com/ollama/ollama/pull/18399>.
    ("exceeds the available context size", Some("available context size (")),
    ("longer than the context length", None),
    // LM Studio.
    ("loaded with context length", Some("context length of only ")),
    ("greater than the context length", None),
    // SGLang.
    ("longer than the model's context length", Some("model's context length (")),
    // Mistral, xAI.
    ("too large for model with", Some("too large for model with ")),
    ("maximum prompt length is", Some("maximum prompt length is ")),
];

/// Returns the size of the window in a message, which is in lower case.
fn window(message: &str) -> Option<u64> {
    let named = TOO_LONG_MESSAGES.iter().filter(|(words, _)| message.contains(words));
    named.filter_map(|(_, before)| number(message.split_once((*before)?)?.1)).find(|it| *it > 0)
}

/// Returns the number at the beginning of a text, which may have commas between its digits.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    text[..end].replace(',', "").parse().ok()
}

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
        ServerError::from_value(body).expect("an error").failure(Provider::OpenAi, "m", status).kind
    }

    #[test]
    fn each_provider_says_it_in_its_own_way() {
        let openai = |code: &str| json!({ "error": { "message": "m", "type": "t", "code": code } });
        let anthropic = |kind: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "message": message } });
        let google = |code: u16, status: &str, message: &str| json!([{ "error": { "code": code, "status": status, "message": message } }]);
        let model = || FailureKind::UnknownModel { model: "m".into() };
        let too_long = || FailureKind::TooLong { window: None };
        for (status, body, expected) in [
            (401, openai("invalid_api_key"), FailureKind::Key),
            (429, openai("insufficient_quota"), FailureKind::Quota),
            (429, openai("rate_limit_exceeded"), FailureKind::RateLimited),
            (400, openai("context_length_exceeded"), too_long()),
            (400, openai("model_not_found"), model()),
            (404, openai("model_not_found"), model()),
            (200, openai("server_error"), FailureKind::Server { status: 200 }),
            (400, anthropic("invalid_request_error", "prompt is too long: 9"), too_long()),
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
                too_long(),
            ),
            (402, anthropic("billing_error", "pay"), FailureKind::Quota),
            (403, anthropic("permission_error", "no"), FailureKind::Forbidden),
            (413, anthropic("request_too_large", "big"), too_long()),
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
                FailureKind::TooLong { window: Some(8) },
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
    fn the_window_is_read_where_it_is_named() {
        for (message, window) in [
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
            (
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, \
                 decrease input length or `max_tokens` and try again",
                Some(200_000),
            ),
            ("Your input exceeds the context window of this model.", None),
            (
                "Input tokens exceed the configured limit of 272,000 tokens. Your messages \
                 resulted in 300,000 tokens.",
                Some(272_000),
            ),
            (
                "This model's maximum context length is 128000 tokens. However, your messages \
                 resulted in 130000 tokens.",
                Some(128_000),
            ),
            (
                "You passed 33537 input tokens and requested 32000 output tokens. However, the \
                 model's context length is only 65536 tokens",
                Some(65_536),
            ),
            (
                "The decoder prompt (length 5951) is longer than the maximum model length of 4096. \
                 Make sure that `max_model_len` is no smaller than the number of text tokens.",
                Some(4096),
            ),
            (
                "request (14429 tokens) exceeds the available context size (8192 tokens), try \
                 increasing it",
                Some(8192),
            ),
            (
                "the request exceeds the available context size. try increasing the context size \
                 or enable context shift",
                None,
            ),
            ("the prompt is longer than the context length currently available to the model", None),
            (
                "Trying to keep the first 9000 tokens when context the overflows. However, the \
                 model is loaded with context length of only 4096 tokens, which is not enough.",
                Some(4096),
            ),
            (
                "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
                Some(8192),
            ),
            (
                "Prompt contains 40016 tokens and 0 draft tokens, too large for model with 32768 \
                 maximum context length",
                Some(32_768),
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 537812 \
                 tokens.",
                Some(131_072),
            ),
            ("prompt is too long: 9 > 0 maximum", None),
            ("prompt is too long: 9 > 99999999999999999999999 maximum", None),
        ] {
            let body = json!({ "error": { "message": message } });
            assert_eq!(kind(400, &body), FailureKind::TooLong { window }, "{message}");
        }
        let llama = json!({ "error": { "code": 400, "message": "m", "n_ctx": 256,
            "type": "exceed_context_size_error", "n_prompt_tokens": 1407 } });
        assert_eq!(kind(400, &llama), FailureKind::TooLong { window: Some(256) });
        let asks_too_much = json!({ "error": { "message":
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens." } });
        assert_eq!(kind(400, &asks_too_much), FailureKind::Refused { status: 400 });
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
        let error = ServerError::from_value(&body("GenerateRequestsPerMinutePerProject"))
            .expect("an error");
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
            assert_eq!(ServerError::from_value(&value), None, "{value}");
        }
    }
}
