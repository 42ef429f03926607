//! Compares an answer with the answer that its case expects.

use ikigai_host::exec::envelope::{Envelope, JsonLayout};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use similar::TextDiff;

use super::cases::{Case, ERROR_CODE};
use super::trials::Trial;
use crate::error::CliError;

/// The most lines of a difference that are shown.
const SHOWN: usize = 60;

/// The verdict on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// Another answer came, and becomes the expected one.
    Rewritten,
}

/// The verdict on a case, with the tool's answer.
#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// The answer of the tool, or the reason why it did not answer.
    pub(super) actual: Value,
    /// The text of the new expected answer, if it changes.
    pub(super) rewritten: Option<String>,
    /// The requests that the case's server has no answer for, as `METHOD PATH`. They fail the case.
    pub(super) unexpected: Vec<String>,
    /// The two texts that are compared, each as lines.
    compared: [String; 2],
}

/// Compares the result of a call with the expected answer of its case. With `bless`, a different
/// answer becomes the expected one, unless the call failed. In the answer, the names of the case
/// replace values that differ in each run.
///
/// # Errors
///
/// Fails if the answer cannot be parsed as a value.
pub(super) fn judge(case: &Case, trial: &Trial, bless: bool) -> Result<Judgement, CliError> {
    let Trial { envelope, names, unexpected } = trial;
    let actual: Value = match envelope {
        Envelope::Success(success) => {
            serde_json::from_str(&names.insert_json(success.result.get()))?
        }
        Envelope::Failure(failure) => {
            let text = names.insert_json(&serde_json::to_string(failure)?);
            without_flag(serde_json::from_str(&text)?)
        }
    };
    let is_error = actual.as_object().is_some_and(|members| members.contains_key(ERROR_CODE));
    let (passed, seen) = match &case.expected {
        None => (false, actual.clone()),
        Some(expected) => match expected.error() {
            // If an error is expected and came, only the expected members are compared.
            Some(members) if is_error => {
                let seen = only(&actual, members.keys());
                (seen == expected.value, seen)
            }
            Some(_) => (false, actual.clone()),
            None => (envelope.is_success() && actual == expected.value, actual.clone()),
        },
    };
    let rewritten = match (passed, bless && envelope.is_success()) {
        (false, true) => Some(to_expect(case, trial, &actual, is_error)?),
        _ => None,
    };
    let verdict = match (passed, &rewritten) {
        _ if !unexpected.is_empty() => Verdict::Failed,
        (true, _) => Verdict::Passed,
        (false, None) => Verdict::Failed,
        (false, Some(_)) => Verdict::Rewritten,
    };
    let expected = case.expected.as_ref().map_or_else(String::new, |it| lines(&it.value));
    let rewritten = rewritten.filter(|_| verdict == Verdict::Rewritten);
    let unexpected = unexpected.clone();
    Ok(Judgement { verdict, compared: [expected, lines(&seen)], actual, rewritten, unexpected })
}

impl Judgement {
    /// Returns the lines that differ, with some lines around them: `-` marks expected lines, and
    /// `+` marks lines of the answer.
    pub(super) fn difference(&self) -> Vec<String> {
        if self.verdict == Verdict::Passed {
            return Vec::new();
        }
        let [expected, seen] = &self.compared;
        let difference = TextDiff::from_lines(expected, seen);
        let groups = difference.grouped_ops(3);
        let changes = groups.iter().flatten().flat_map(|op| difference.iter_changes(op));
        let mut all: Vec<String> = changes
            .map(|it| format!("{}{}", it.tag(), it.value().trim_end_matches('\n')))
            .collect();
        let left_out = all.len().saturating_sub(SHOWN);
        if left_out > 0 {
            all.truncate(SHOWN);
            all.push(format!("… and {left_out} more lines"));
        }
        let answerless = |asked| format!("the case's server has no answer for {asked}");
        all.extend(self.unexpected.iter().map(answerless));
        all
    }
}

/// Returns the text of the new expected answer: the whole answer on one line, with its numbers as
/// written. For an error, only the members that were expected before.
fn to_expect(
    case: &Case,
    trial: &Trial,
    actual: &Value,
    is_error: bool,
) -> Result<String, CliError> {
    if is_error {
        let before = case.expected.as_ref().and_then(|expected| expected.error());
        let kept = match before {
            Some(members) => only(actual, members.keys()),
            None => only(actual, ["error", ERROR_CODE]),
        };
        return Ok(serde_json::to_string(&kept)?);
    }
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    let text = trial.names.insert_json(&trial.envelope.to_json(JsonLayout::Compact)?);
    let answer: Answer<'_> = serde_json::from_str(&text)?;
    Ok(answer.result.get().to_owned())
}

/// Returns a failure without the member that marks it as a failure.
fn without_flag(mut failure: Value) -> Value {
    if let Some(members) = failure.as_object_mut() {
        members.shift_remove("tool_success");
    }
    failure
}

/// Returns the members of an object with these keys, in the order of the keys.
fn only<'a>(object: &Value, keys: impl IntoIterator<Item = impl AsRef<str> + 'a>) -> Value {
    let member = |key: &str| Some((key.to_owned(), object.get(key)?.clone()));
    let members: Map<String, Value> =
        keys.into_iter().filter_map(|key| member(key.as_ref())).collect();
    Value::Object(members)
}

/// Returns a value as lines that can be compared, with sorted keys.
fn lines(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(values) => values.iter().map(sorted).collect(),
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by_key(|(key, _)| *key);
                members.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
            }
            other => other.clone(),
        }
    }
    // An indented value has no final line end, which would count as a difference.
    format!("{:#}\n", sorted(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cases::Cases;
    use super::super::names::Names;
    use super::*;

    /// Returns the judgement on an answer of a tool.
    fn judged(expect: &str, answer: &str, bless: bool) -> Judgement {
        let line = format!("{{\"name\": \"a\", \"arguments\": {{}}{expect}}}");
        let cases = Cases::parse("cases.jsonl".into(), line.into_bytes()).expect(expect);
        let case = cases.iter().next().expect("a case");
        let result = RawValue::from_string(answer.to_owned()).expect(answer);
        judge(case, &trial(Envelope::answered(result)), bless).expect("judged")
    }

    fn trial(envelope: Envelope) -> Trial {
        let names = Names::new("/w", Some("127.0.0.1:1".to_owned()));
        Trial { envelope, names, unexpected: Vec::new() }
    }

    fn passes(expect: &str, answer: &str) -> bool {
        let expect = format!(", \"expect\": {expect}");
        judged(&expect, answer, false).verdict == Verdict::Passed
    }

    #[test]
    fn an_answer_is_compared_as_a_whole_and_an_error_by_what_is_expected() {
        assert!(passes(r#"{"a": 1, "b": [2]}"#, r#"{"b":[2],"a":1}"#));
        assert!(passes("null", "null"));
        for (expect, answer) in [
            (r#"{"a": 1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"a": 1}"#, r#"{"a":1.5}"#),
            ("[1, 2]", "[2, 1]"),
            ("null", "{}"),
        ] {
            assert!(!passes(expect, answer), "{expect} {answer}");
        }
        let error = r#"{"error": "`a` is wrong", "error_code": "INVALID_PARAMS", "more": 1}"#;
        assert!(passes(r#"{"error_code": "INVALID_PARAMS"}"#, error));
        assert!(passes(r#"{"error_code": "INVALID_PARAMS", "more": 1}"#, error));
        assert!(!passes(r#"{"error_code": "INVALID_PARAMS", "less": 1}"#, error));
        assert!(!passes(r#"{"error_code": "FILE_NOT_FOUND"}"#, error));
        assert!(!passes(r#"{"error_code": "INVALID_PARAMS"}"#, "{}"));
    }

    #[test]
    fn a_difference_shows_what_was_expected_and_what_came() {
        let judgement = judged(r#", "expect": {"b": 1, "a": 2}"#, r#"{"a":2,"b":3}"#, false);
        assert_eq!(
            judgement.difference(),
            [" {", "   \"a\": 2,", "-  \"b\": 1", "+  \"b\": 3", " }"]
        );
        let error = r#"{"error": "no", "error_code": "X"}"#;
        let judgement = judged(r#", "expect": {"error_code": "Y"}"#, error, false);
        let difference = judgement.difference();
        assert_eq!(
            difference,
            [" {", "-  \"error_code\": \"Y\"", "+  \"error_code\": \"X\"", " }"]
        );
        let long = format!("[{}]", ["1"; 100].join(","));
        let difference = judged("", &long, false).difference();
        assert_eq!(difference.len(), SHOWN + 1);
        assert_eq!(difference[SHOWN], "… and 42 more lines");
    }

    #[test]
    fn another_answer_is_expected_from_then_on() {
        let text = |expect: &str, answer: &str| judged(expect, answer, true).rewritten;
        let answer = "{ \"b\": 1.50,\n\"a\": [1, 12345678901234567890123] }";
        let expected = r#"{"b":1.50,"a":[1,12345678901234567890123]}"#;
        assert_eq!(text("", answer).as_deref(), Some(expected));
        let error = r#"{"error_code": "X", "error": "no", "more": 1}"#;
        assert_eq!(text("", error).as_deref(), Some(r#"{"error":"no","error_code":"X"}"#));
        let before = r#", "expect": {"error_code": "Y"}"#;
        assert_eq!(text(before, error).as_deref(), Some(r#"{"error_code":"X"}"#));
        assert_eq!(text(r#", "expect": {"a": 1}"#, r#"{"a":1}"#), None);
        let line = "{\"name\": \"a\", \"arguments\": {}}".to_owned();
        let cases = Cases::parse("cases.jsonl".into(), line.into_bytes()).expect("cases");
        let crashed = trial(Envelope::not_found("a"));
        let judgement = judge(cases.iter().next().expect("a case"), &crashed, true);
        let judgement = judgement.expect("judged");
        assert_eq!((judgement.verdict, judgement.rewritten), (Verdict::Failed, None));
        assert_eq!(judgement.actual["error_code"], json!("TOOL_NOT_FOUND"));
    }

    #[test]
    fn what_is_another_thing_in_each_run_has_a_name_in_the_answer() {
        let answer = r#"{"file":"/w/a.txt","from":"http://127.0.0.1:1/a"}"#;
        let named = r#"{"file":"${IKIGAI_WORKSPACE}/a.txt","from":"http://${IKIGAI_SERVER}/a"}"#;
        assert!(passes(named, answer));
        assert_eq!(judged("", answer, true).rewritten.as_deref(), Some(named));
    }

    #[test]
    fn a_request_without_an_answer_fails_the_case() {
        let line = br#"{"name": "a", "arguments": {}, "expect": {}}"#;
        let cases = Cases::parse("cases.jsonl".into(), line.to_vec()).expect("cases");
        let result = RawValue::from_string("{}".to_owned()).expect("JSON");
        let mut trial = trial(Envelope::answered(result));
        trial.unexpected.push("GET /b".to_owned());
        for bless in [false, true] {
            let judgement = judge(cases.iter().next().expect("a case"), &trial, bless);
            let judgement = judgement.expect("judged");
            assert_eq!((judgement.verdict, &judgement.rewritten), (Verdict::Failed, &None));
            let last = judgement.difference().pop();
            assert_eq!(last.as_deref(), Some("the case's server has no answer for GET /b"));
        }
    }
}
