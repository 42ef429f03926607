//! A turn for programs: the whole exchange as one object. The lines of [`super::stream`] use its
//! parts too.

use ikigai_assets::SessionId;
use ikigai_provider::TokenUsage;
use ikigai_terminal::one_line;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::prompt::UserPrompt;
use super::schema::AnswerSchema;
use crate::remedy;
use ikigai_agent::{FinishedCall, Session, Turn, TurnEnd};

/// The end of a turn, after the check of its answer.
pub(super) enum CheckedEnd<'a> {
    /// The model answered. With a schema, this is the JSON of the answer.
    Answered(Option<&'a str>),
    /// The answer does not match the schema, for this reason.
    Mismatched(String),
    /// The turn ended without a complete answer.
    Other(&'a TurnEnd),
}

impl<'a> CheckedEnd<'a> {
    pub(super) fn from_end(
        end: &'a TurnEnd,
        answer: Option<&'a str>,
        schema: Option<&AnswerSchema>,
    ) -> Self {
        match (end, schema) {
            (TurnEnd::Answered, None) => Self::Answered(None),
            (TurnEnd::Answered, Some(schema)) => match schema.check(answer.unwrap_or_default()) {
                Ok(json) => Self::Answered(Some(json)),
                Err(reason) => Self::Mismatched(reason),
            },
            (end, _) => Self::Other(end),
        }
    }

    /// Returns the word for the ending.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Mismatched(_) => "mismatched",
            Self::Other(end) => end.word(),
        }
    }

    /// Returns the reason why the turn has no complete answer that matches the schema.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Answered(_) => None,
            Self::Mismatched(reason) => Some(one_line(reason)),
            Self::Other(end) => reason(end),
        }
    }
}

/// Returns the reason why a turn has no complete answer.
pub(super) fn reason(end: &TurnEnd) -> Option<String> {
    Some(match end {
        TurnEnd::Answered => return None,
        TurnEnd::Silent => "the model's answer is empty".to_owned(),
        TurnEnd::Cut => "the answer reached the limit on its length".to_owned(),
        TurnEnd::Refused(why) if why.is_empty() => "the model refused".to_owned(),
        TurnEnd::Refused(why) => format!("the model refused: {}", one_line(why)),
        TurnEnd::Exhausted { rounds } => {
            format!(
                "the model was still calling tools after {rounds} requests, the limit for a turn"
            )
        }
        TurnEnd::Interrupted => "interrupted".to_owned(),
        TurnEnd::Spent { per, spent, limit } => remedy::spend::reason(*per, *spent, *limit),
        TurnEnd::Unkept(reason) => reason.clone(),
        TurnEnd::Failed(failure) => failure.to_string(),
    })
}

/// The saved part of a conversation.
pub(super) struct SaveOutcome {
    /// The session that it is saved in.
    pub(super) session: Option<SessionId>,
    /// The reason why the rest is not saved.
    pub(super) unkept: Option<String>,
}

impl SaveOutcome {
    /// Returns the line for the user, if the conversation was meant to be saved.
    pub(super) fn line(&self) -> Option<String> {
        match (self.session, &self.unkept) {
            (Some(session), None) => Some(format!("kept as {session}\n")),
            (Some(session), Some(_)) => Some(format!("saved in part as {session}\n")),
            (None, Some(_)) => Some("nothing is kept\n".to_owned()),
            (None, None) => None,
        }
    }
}

/// A whole exchange for programs. [`super::NOTES`] describes it.
#[derive(Serialize)]
pub(super) struct ExchangeReport<'a> {
    prompt: String,
    session: Option<String>,
    unkept: Option<&'a str>,
    provider: Option<&'static str>,
    model: Option<&'a str>,
    stop: &'static str,
    reason: Option<String>,
    answer: Option<String>,
    rounds: u32,
    messages: Value,
    calls: Vec<EndedCall<'a>>,
    usage: TokenCounts,
}

/// A call that has ended.
#[derive(Serialize)]
pub(super) struct EndedCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
    envelope: EmbeddedEnvelope<'a>,
    duration_ms: u64,
}

/// An envelope inside other JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum EmbeddedEnvelope<'a> {
    /// The JSON as it is.
    Json(&'a RawValue),
    /// The JSON as text. It nests deeper, or has larger numbers, than JSON parsers accept, so they
    /// would reject the whole object.
    Text(&'a str),
}

/// The tokens that requests cost, if the provider reports them.
#[derive(Serialize)]
pub(super) struct TokenCounts {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    cache_written: Option<u64>,
    reasoning: Option<u64>,
}

impl<'a> ExchangeReport<'a> {
    /// Describes the turn of a session that has just ended, and the part of it that is saved.
    pub(super) fn new(
        prompt: &UserPrompt,
        session: &'a Session,
        kept: &'a SaveOutcome,
        turn: &'a Turn,
        ending: &CheckedEnd<'_>,
    ) -> Self {
        let model = session.model();
        Self {
            prompt: prompt.text(),
            session: kept.session.map(|id| id.to_string()),
            unkept: kept.unkept.as_deref(),
            provider: model.map(|model| model.client.provider().as_str()),
            model: model.map(|model| model.name.as_str()),
            stop: ending.word(),
            reason: ending.reason(),
            answer: turn.answer.clone(),
            rounds: turn.rounds,
            messages: session.transcript(),
            calls: turn.calls.iter().map(EndedCall::from).collect(),
            usage: turn.usage.into(),
        }
    }
}

impl From<TokenUsage> for TokenCounts {
    fn from(usage: TokenUsage) -> Self {
        let TokenUsage { input, output, cached, cache_written, reasoning } = usage;
        Self { input, output, cached, cache_written, reasoning }
    }
}

impl<'a> From<&'a FinishedCall> for EndedCall<'a> {
    fn from(called: &'a FinishedCall) -> Self {
        Self {
            id: &called.id,
            name: &called.name,
            arguments: &called.arguments,
            envelope: EmbeddedEnvelope::from_json(&called.content),
            duration_ms: u64::try_from(called.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

impl<'a> EmbeddedEnvelope<'a> {
    fn from_json(json: &'a str) -> Self {
        // Build a tree to find out whether a reader could build it.
        match (serde_json::from_str::<Value>(json), serde_json::from_str(json)) {
            (Ok(_), Ok(json)) => Self::Json(json),
            _ => Self::Text(json),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn called(content: &str) -> FinishedCall {
        FinishedCall {
            id: "call-1".to_owned(),
            name: "grep".to_owned(),
            arguments: "{\"pattern\": \"ä\"}".to_owned(),
            content: content.to_owned(),
            is_error: false,
            error: None,
            allow_with: None,
            is_refused: false,
            images: Vec::new(),
            is_cancelled: false,
            duration: Duration::from_millis(7),
            characters: content.len(),
        }
    }

    fn reported(content: &str) -> String {
        serde_json::to_string(&EndedCall::from(&called(content))).expect("JSON")
    }

    #[test]
    fn an_envelope_is_embedded_as_a_tree_of_it_would_be() {
        for content in [
            r#"{"tool_success":true,"result":{"z":1,"a":[null,true,-2.5,"\"ä\""],"m":{}}}"#,
            r#"{"tool_success":false,"error":"a \"b\"","error_code":"TOOL_CRASHED"}"#,
        ] {
            let tree: Value = serde_json::from_str(content).expect("JSON");
            let expected = json!({
                "id": "call-1",
                "name": "grep",
                "arguments": "{\"pattern\": \"ä\"}",
                "envelope": tree,
                "duration_ms": 7,
            });
            assert_eq!(reported(content), expected.to_string());
        }
    }

    #[test]
    fn an_envelope_that_few_can_read_is_text() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for result in ["1e999", &deep] {
            let content = format!("{{\"tool_success\":true,\"result\":{result}}}");
            let read: Value = serde_json::from_str(&reported(&content)).expect("JSON");
            assert_eq!(read["envelope"], json!(content));
        }
    }
}
