//! The readable result of a call: its text, or the change that it made.

use ikigai_agent::FinishedCall;
use serde::Deserialize;
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

/// The number of lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResultView {
    /// The name of the tool and its arguments.
    pub title: String,
    /// The part that is shown below the line of the call.
    pub shown: ResultExcerpt,
    /// The rest of the result.
    pub rest: String,
    /// The output so far, if the tool was ended before its answer.
    pub printed: String,
}

/// The part of a result that the user wants to see first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResultExcerpt {
    /// Text from the tool.
    Text(String),
    /// Lines that begin with `+`, `-` or a space.
    Diff(String),
}

impl ResultView {
    pub(super) fn from_called(called: &FinishedCall) -> Self {
        let (text, rest) = text(&called.content);
        let printed = printed(&called.content);
        let change = match called.error {
            None => change(&called.name, &called.arguments),
            Some(_) => None,
        };
        let Some(FileDiff { file_path, diff }) = change else {
            let title = format!("{} {}", called.name, called.arguments);
            return Self { title, shown: ResultExcerpt::Text(text), rest, printed };
        };
        let title = format!("{} {file_path}", called.name);
        let rest = [text, rest].into_iter().filter(|part| !part.is_empty());
        let rest = rest.collect::<Vec<_>>().join("\n");
        Self { title, shown: ResultExcerpt::Diff(diff), rest, printed }
    }
}

/// Returns the text in an envelope, and the other members. Leaves out the host's members around an
/// answer.
fn text(envelope: &str) -> (String, String) {
    let Ok(Value::Object(mut envelope)) = serde_json::from_str(envelope) else {
        // The envelope nests too deep to be parsed.
        return (envelope.to_owned(), String::new());
    };
    envelope.shift_remove("tool_success");
    if let Some(Value::String(stdout)) = envelope.get_mut("stdout") {
        *stdout = unfinished(stdout);
    }
    let (text, mut rest) = match envelope.shift_remove("result") {
        Some(result) => parts(result),
        None => (String::new(), Vec::new()),
    };
    let (further, others) = parts(Value::Object(envelope));
    rest.extend(others);
    let text = if text.is_empty() { further } else { join(&[text, further]) };
    (text, rest.join("\n"))
}

/// Returns the output that a tool wrote to stdout and stderr before it was ended.
fn printed(envelope: &str) -> String {
    let Ok(Value::Object(envelope)) = serde_json::from_str(envelope) else { return String::new() };
    let stream = |name| envelope.get(name).and_then(Value::as_str).unwrap_or_default();
    join(&[unfinished(stream("stdout")), stream("stderr").to_owned()])
}

/// Returns the text in the beginning of a tool's answer, or the beginning itself if it is not JSON.
/// `bash` writes the output of a command while the command runs.
fn unfinished(stdout: &str) -> String {
    /// The longest part of an escaped character: all but its last digit.
    const CUT: usize = r"\ud83d\ude0".len();
    let ends = (0..=CUT).filter_map(|cut| stdout.get(..stdout.len().checked_sub(cut)?));
    let answers = ends.flat_map(|end| [end.to_owned(), format!("{end}\"}}")]);
    let mut objects = answers.filter_map(|answer| serde_json::from_str(&answer).ok());
    objects.next().map_or_else(|| stdout.to_owned(), |object| members_parts(object).0)
}

/// Returns the texts in a value, and a line for each further member.
fn parts(value: Value) -> (String, Vec<String>) {
    match value {
        Value::String(text) => (text, Vec::new()),
        Value::Object(members) => members_parts(members),
        Value::Array(items) => {
            let items: Vec<String> = items.into_iter().map(item).collect();
            (items.join("\n"), Vec::new())
        }
        Value::Null => (String::new(), Vec::new()),
        value => (value.to_string(), Vec::new()),
    }
}

fn members_parts(members: Map<String, Value>) -> (String, Vec<String>) {
    let mut texts = Vec::new();
    let mut rest = Vec::new();
    for (name, value) in members {
        match value {
            // Only this number shows that a command failed.
            Value::Number(code) if name == "exit_code" && code.as_i64() != Some(0) => {
                texts.insert(0, format!("exit code {code}"));
            }
            Value::String(text) => texts.push(text),
            Value::Array(items) if !items.is_empty() => texts.push(parts(Value::Array(items)).0),
            value => rest.push(format!("{name}: {value}")),
        }
    }
    if texts.is_empty() {
        return (rest.join("\n"), Vec::new());
    }
    (join(&texts), rest)
}

/// Returns an item of a list in one line, or the text of a content block.
fn item(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Object(block) => match block.get("text") {
            Some(Value::String(text)) => text.clone(),
            _ => Value::Object(block).to_string(),
        },
        value => value.to_string(),
    }
}

fn join(texts: &[String]) -> String {
    let texts = texts.iter().map(|text| text.trim_end_matches('\n')).filter(|it| !it.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

struct FileDiff {
    file_path: String,
    diff: String,
}

/// Returns the change that a call of `file_edit` or `file_write` requested. The earlier text of a
/// file that was written anew is not known.
fn change(name: &str, arguments: &str) -> Option<FileDiff> {
    #[derive(Deserialize)]
    struct Arguments {
        file_path: String,
        old_string: Option<String>,
        new_string: Option<String>,
        content: Option<String>,
    }
    let Arguments { file_path, old_string, new_string, content } =
        serde_json::from_str(arguments).ok()?;
    let diff = match name {
        "file_edit" => difference(&old_string?, &new_string?),
        "file_write" => difference("", &content?),
        _ => return None,
    };
    Some(FileDiff { file_path, diff })
}

pub(super) fn difference(old: &str, new: &str) -> String {
    let (old, new) = (lines(old), lines(new));
    let diff = TextDiff::configure().newline_terminated(true).diff_slices(&old, &new);
    let mut text = String::new();
    for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if at > 0 {
            text.push_str(" …\n");
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            text.push(match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            });
            text.push_str(change.value().trim_end_matches('\n'));
            text.push('\n');
        }
    }
    text
}

/// Returns the lines as they are shown. Only a line feed ends a line.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(envelope: &str) -> String {
        text(envelope).0
    }

    #[test]
    fn the_text_of_an_answer_is_shown_without_the_words_around_it() {
        let grep = r#"{"tool_success":true,"result":{"output":"a.md:1:TODO\n","count":1}}"#;
        assert_eq!(text(grep), ("a.md:1:TODO".to_owned(), "count: 1".to_owned()));
        let numbers = r#"{"tool_success":true,"result":{"degrees":7,"rain":false}}"#;
        assert_eq!(shown(numbers), "degrees: 7\nrain: false");
        assert_eq!(shown(r#"{"tool_success":true,"result":"a\nb"}"#), "a\nb");
        assert_eq!(shown(r#"{"tool_success":true,"result":{}}"#), "");
        assert_eq!(shown(r#"{"tool_success":true,"result":[1,"b",{"c":2}]}"#), "1\nb\n{\"c\":2}");
        let content = r#"{"tool_success":true,"result":{"content":[{"type":"text","text":"hi"}]}}"#;
        assert_eq!(shown(content), "hi");
    }

    #[test]
    fn a_command_that_failed_says_so_first() {
        let failed = r#"{"tool_success":true,"result":{"output":"no such file","exit_code":2}}"#;
        assert_eq!(shown(failed), "exit code 2\nno such file");
        let well = r#"{"tool_success":true,"result":{"output":"fine","exit_code":0}}"#;
        assert_eq!(text(well), ("fine".to_owned(), "exit_code: 0".to_owned()));
    }

    #[test]
    fn what_is_left_out_of_a_result_is_said_at_its_end() {
        let cut = r#"{"tool_success":true,"truncated":"kept as ikigai:///outputs/1.txt","result":{"output":"a"}}"#;
        assert_eq!(shown(cut), "a\nkept as ikigai:///outputs/1.txt");
    }

    #[test]
    fn the_output_of_a_command_that_was_ended_is_shown() {
        let envelope = |stdout: &str| {
            let envelope = serde_json::json!({
                "tool_success": false, "error": "Tool 'bash' timed out after 2s",
                "error_code": "TOOL_TIMEOUT", "limit": "wall_clock", "exit_code": 137,
                "stdout": stdout, "stderr": "",
            });
            envelope.to_string()
        };
        assert_eq!(printed(&envelope(r#"{"output":"one\ntw\u00f6"#)), "one\ntwö");
        for cut in [r"\", r"\u", r"\ud83", r"\ud83d", r"\ud83d\ude0"] {
            let stdout = format!(r#"{{"output":"one {cut}"#);
            assert_eq!(printed(&envelope(&stdout)), "one ", "{cut}");
        }
        assert_eq!(printed(&envelope(r#"{"output":"all","exit_code":0}"#)), "all");
        assert_eq!(printed(&envelope("no JSON")), "no JSON");
        assert_eq!(printed(&envelope("")), "");
        assert!(shown(&envelope(r#"{"output":"one\ntwo"#)).contains("\none\ntwo"));
        assert_eq!(printed(r#"{"tool_success":true,"result":{"output":"well"}}"#), "");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_shown_as_it_is() {
        assert_eq!(shown("no JSON"), "no JSON");
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(shown(&deep), deep);
    }

    fn diff_of(name: &str, arguments: &Value) -> Option<String> {
        change(name, &arguments.to_string()).map(|change| change.diff)
    }

    #[test]
    fn an_edit_is_its_difference() {
        let edit = serde_json::json!({
            "file_path": "a.rs", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree",
        });
        assert_eq!(diff_of("file_edit", &edit).as_deref(), Some(" one\n-two\n+2\n three\n"));
        let far: String = (0..20).map(|line| format!("{line}\n")).collect();
        let changed = far.replace("1\n2\n", "1\nII\n").replace("17\n", "XVII\n");
        let edit = serde_json::json!({
            "file_path": "a.rs", "old_string": far, "new_string": changed,
        });
        let expected = " 0\n 1\n-2\n+II\n 3\n 4\n …\n 15\n 16\n-17\n+XVII\n 18\n 19\n";
        assert_eq!(diff_of("file_edit", &edit).as_deref(), Some(expected));
    }

    #[test]
    fn a_written_file_is_all_new() {
        let write = serde_json::json!({ "file_path": "a.md", "content": "one\ntwo" });
        assert_eq!(diff_of("file_write", &write).as_deref(), Some("+one\n+two\n"));
        assert_eq!(diff_of("bash", &write), None);
        assert_eq!(diff_of("file_edit", &write), None);
        assert!(change("file_write", "no JSON").is_none());
    }
}
