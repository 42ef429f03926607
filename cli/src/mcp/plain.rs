//! The result of a tool as the text that a client's model reads.
//!
//! Models read text with `\n` and `\"` escapes badly, and clients shorten long results by lines. So
//! the text of a result is sent unescaped, and its other members follow on separate lines.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The member that has the text of an answer.
const OUTPUT: &str = "output";

/// The member that has the text of a tool's own error, and the member that marks the answer as an
/// error.
const ERROR: &str = "error";
const ERROR_CODE: &str = "error_code";

/// Returns the text of a result, with each of its other members as a line `NAME: VALUE` after it.
/// Returns `None` for a result of another shape: without such a text, or with members that do not
/// fit on a line.
pub(super) fn plain(result: &str) -> Option<String> {
    let mut members: Map<String, Value> = serde_json::from_str(result).ok()?;
    let name = if members.contains_key(ERROR_CODE) { ERROR } else { OUTPUT };
    let Some(Value::String(mut text)) = members.remove(name) else { return None };
    for (name, value) in members {
        let value = match value {
            Value::String(value) if !value.contains(['\n', '\r']) => value,
            Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::String(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{name}: {value}");
    }
    Some(text)
}

/// Returns the text in the beginning of a result whose tool was ended while it wrote. If the result
/// has another shape, returns the beginning itself.
pub(super) fn begun(beginning: &str) -> Cow<'_, str> {
    let text = beginning.strip_prefix(r#"{"output":""#);
    // The beginning may end inside an escape. The longest escape has twelve characters.
    let ends =
        |text: &str| text.char_indices().rev().map(|(at, _)| at).take(12).collect::<Vec<_>>();
    let decoded = text.and_then(|text| {
        let ends = [text.len()].into_iter().chain(ends(text));
        ends.into_iter().find_map(|end| serde_json::from_str(&format!("\"{}\"", &text[..end])).ok())
    });
    decoded.map_or(Cow::Borrowed(beginning), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_with_one_text_is_that_text_and_a_line_for_each_other_member() {
        for (result, text) in [
            (r#"{"output":"a\n\"b\"\n"}"#, "a\n\"b\"\n"),
            (r#"{"output":"a","exit_code":3}"#, "a\nexit_code: 3"),
            (r#"{"output":"a\n","exit_code":0,"cut":true}"#, "a\ncut: true\nexit_code: 0"),
            (r#"{"output":"","count":0}"#, "count: 0"),
            (
                r#"{"error":"no such file","error_code":"FILE_NOT_FOUND"}"#,
                "no such file\nerror_code: FILE_NOT_FOUND",
            ),
        ] {
            assert_eq!(plain(result).as_deref(), Some(text), "{result}");
        }
    }

    #[test]
    fn the_text_of_a_result_that_was_begun_is_decoded() {
        for (beginning, text) in [
            (r#"{"output":"before\n"#, "before\n"),
            (r#"{"output":"before\"#, "before"),
            (r#"{"output":"a\ud83d\ude0"#, "a"),
            (r#"{"output":""#, ""),
            ("plain\n", "plain\n"),
            (r#"{"rows":[1"#, r#"{"rows":[1"#),
        ] {
            assert_eq!(begun(beginning), text, "{beginning}");
        }
    }

    #[test]
    fn a_result_of_another_shape_stays_json() {
        for result in [
            r#""a text""#,
            "[1]",
            r#"{"rows":[1,2]}"#,
            r#"{"output":1}"#,
            r#"{"output":"a","rows":[1]}"#,
            r#"{"output":"a","more":"two\nlines"}"#,
            r#"{"output":"a","error_code":"X"}"#,
            r#"{"output":"a","n":1e400}"#,
        ] {
            assert_eq!(plain(result), None, "{result}");
        }
    }
}
