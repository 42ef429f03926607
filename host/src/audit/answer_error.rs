//! The error that a tool reports in its own answer: the call succeeded, but the tool's work failed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::exec::envelope::{CONTENT_ERROR, Success};

/// The error in a tool's answer: its code, or the exit code of the program that the tool ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerError {
    /// The `error_code` of the answer, or `TOOL_ERROR` for content that its tool calls a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The `exit_code` of the answer, unless it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

impl AnswerError {
    /// Returns the error that an answer reports, if it reports one.
    pub(super) fn in_answer(answer: &Success) -> Option<Self> {
        if answer.content().is_some_and(|content| content.is_error) {
            return Some(Self { error_code: Some(CONTENT_ERROR.to_owned()), exit_code: None });
        }
        let members = ErrorMembers::in_object(answer.result.get())?;
        let error = Self {
            error_code: members
                .error_code
                .and_then(parsed)
                .filter(|code: &String| !code.is_empty()),
            exit_code: members.exit_code.and_then(parsed).filter(|code: &i64| *code != 0),
        };
        (error != Self::default()).then_some(error)
    }
}

/// Writes the code, or `exit 1`.
impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.error_code, self.exit_code) {
            (Some(code), _) => f.write_str(code),
            (None, Some(code)) => write!(f, "exit {code}"),
            (None, None) => Ok(()),
        }
    }
}

/// The members of an answer that report an error. They may have any JSON type.
#[derive(Deserialize)]
struct ErrorMembers<'a> {
    #[serde(borrow, default)]
    error_code: Option<&'a RawValue>,
    #[serde(borrow, default)]
    exit_code: Option<&'a RawValue>,
}

impl<'a> ErrorMembers<'a> {
    fn in_object(json: &'a str) -> Option<Self> {
        // Serde would also accept a list, and read its elements as the members in their order.
        json.starts_with('{').then(|| serde_json::from_str(json).ok()).flatten()
    }
}

fn parsed<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::exec::envelope::Envelope;

    fn error(answer: &Value) -> Option<AnswerError> {
        let result = RawValue::from_string(answer.to_string()).expect("JSON");
        let Envelope::Success(success) = Envelope::answered(result) else { panic!("a failure") };
        AnswerError::in_answer(&success)
    }

    #[test]
    fn an_answer_reports_a_code_or_an_exit_code() {
        for (answer, word) in [
            (json!({ "error": "no", "error_code": "PERMISSION_DENIED" }), "PERMISSION_DENIED"),
            (json!({ "output": "", "exit_code": 1 }), "exit 1"),
            (json!({ "error_code": "FAILED", "exit_code": 2 }), "FAILED"),
            (json!({ "error_code": 7, "exit_code": 127 }), "exit 127"),
        ] {
            assert_eq!(error(&answer).expect("an error").to_string(), word, "{answer}");
        }
    }

    #[test]
    fn other_answers_report_no_error() {
        for answer in [
            json!({ "output": "a", "exit_code": 0 }),
            json!({ "error_code": "", "exit_code": "1" }),
            json!({ "error_code": null }),
            json!(["PERMISSION_DENIED", 1]),
            json!("error_code"),
        ] {
            assert_eq!(error(&answer), None, "{answer}");
        }
    }
}
