use bytes::Bytes;
use serde_json::Value;

use super::*;
use crate::exec::output::Captured;

fn words(words: &[&str]) -> Vec<TemplateWord> {
    words.iter().map(|text| TemplateWord::parse(text).expect(text)).collect()
}

fn plain(text: &str) -> WordGroup {
    WordGroup { words: words(&[text]), ..WordGroup::default() }
}

fn optional(texts: &[&str]) -> WordGroup {
    WordGroup { words: words(texts), is_optional: true, ..WordGroup::default() }
}

fn on(condition: &str, texts: &[&str]) -> WordGroup {
    WordGroup { condition: Some(condition.to_owned()), ..optional(texts) }
}

fn wrapper(parameters: Value, groups: Vec<WordGroup>) -> Wrapper {
    let schema = json!({ "name": "tool", "description": "A tool", "parameters": parameters });
    let schema = ToolSchema::parse(schema.to_string().as_bytes()).expect("a schema");
    Wrapper {
        program: "prog".to_owned(),
        schema,
        template: ArgumentTemplate { groups, ..ArgumentTemplate::default() },
        success: vec![0],
        check: ArgumentCheck::default(),
    }
}

/// Returns a wrapper whose parameters may have any value.
fn lenient(groups: Vec<WordGroup>) -> Wrapper {
    wrapper(json!({ "type": "object", "properties": {} }), groups)
}

#[track_caller]
fn expanded(wrapper: &Wrapper, arguments: Value) -> Vec<String> {
    let expanded = wrapper.expand(arguments.to_string().as_bytes()).expect("words");
    expanded.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

#[track_caller]
fn refused(wrapper: &Wrapper, arguments: &str) -> String {
    wrapper.expand(arguments.as_bytes()).expect_err(arguments)
}

#[test]
fn a_value_is_one_word_whatever_is_in_it() {
    let wrapper = lenient(vec![plain("-x"), plain("{a}"), plain("--b={b}:{a}"), plain("{{a}}")]);
    let value = "$(id) ; rm -rf * 'x' \"y\" \n\t é{b}";
    assert_eq!(
        expanded(&wrapper, json!({ "a": value, "b": "" })),
        ["-x", value, &format!("--b=:{value}"), "{a}"]
    );
    // A number keeps its digits.
    let text = r#"{"a": 12345678901234567890123, "b": true}"#;
    let words = wrapper.expand(text.as_bytes()).expect("words").words;
    assert_eq!(words[2], "--b=true:12345678901234567890123");
}

#[test]
fn groups_are_left_out_and_repeated() {
    let wrapper = lenient(vec![
        optional(&["--max", "{n}"]),
        on("i", &["-i", "{n}"]),
        optional(&["-e", "{list}", "{n}"]),
        plain("end"),
    ]);
    for absent in [json!({}), json!({ "n": null, "i": true }), json!({ "i": false, "list": ["x"] })]
    {
        assert_eq!(expanded(&wrapper, absent.clone()), ["end"], "{absent}");
    }
    assert_eq!(
        expanded(&wrapper, json!({ "n": 3, "i": true, "list": ["a b", 1, "a b"] })),
        ["--max", "3", "-i", "3", "-e", "a b", "3", "-e", "1", "3", "-e", "a b", "3", "end"]
    );
    assert_eq!(expanded(&wrapper, json!({ "n": 3, "list": [] })), ["--max", "3", "end"]);
    // Only the boolean is true.
    assert_eq!(expanded(&wrapper, json!({ "n": 3, "i": "true" })), ["--max", "3", "end"]);
}

#[test]
fn no_value_becomes_an_option() {
    let arguments = r#"{"a": "--exec=id", "b": "-5", "n": -5, "empty": "", "list": ["x", "-y"]}"#;
    for (groups, name) in [
        (vec![plain("{a}")], "a"),
        (vec![plain("{n}")], "n"),
        (vec![plain("-v"), plain("{a}")], "a"),
        (vec![optional(&["{list}"])], "list"),
        (vec![on("missing", &["--"]), plain("{a}")], "a"),
        // A value after an empty value can be an option, too.
        (vec![plain("{empty}{a}")], "empty"),
        (vec![plain("{empty}-literal")], "empty"),
        // Neither a value nor a word with a parameter ends the options.
        (vec![plain("--{empty}"), plain("{a}")], "a"),
    ] {
        let error = refused(&lenient(groups), arguments);
        assert!(error.starts_with(&format!("`{name}` must not begin with `-`")), "{name}: {error}");
    }
    let wrapper = lenient(vec![plain("--a={a}"), plain("--"), plain("{a}"), optional(&["{list}"])]);
    let values: Value = serde_json::from_str(arguments).expect("JSON");
    assert_eq!(expanded(&wrapper, values.clone()), ["--a=--exec=id", "--", "--exec=id", "x", "-y"]);
    let mut allowed = lenient(vec![plain("-n"), plain("{n}"), plain("{a}")]);
    allowed.template.leading_dash = ["n".to_owned()].into();
    assert!(refused(&allowed, arguments).starts_with("`a` must not"));
    let mut after_empty = lenient(vec![plain("{empty}{a}")]);
    after_empty.template.leading_dash = ["empty".to_owned()].into();
    assert!(refused(&after_empty, arguments).starts_with("`a` must not"));
    allowed.template.leading_dash.insert("a".to_owned());
    assert_eq!(expanded(&allowed, values), ["-n", "-5", "--exec=id"]);
}

#[test]
fn the_schema_is_enforced() {
    let parameters = json!({
        "type": "object",
        "properties": { "mode": { "enum": ["a", "b"] }, "deep": {} },
        "required": ["mode"],
    });
    let wrapper = wrapper(parameters, vec![plain("{mode}")]);
    assert_eq!(expanded(&wrapper, json!({ "mode": "a" })), ["a"]);
    let deep = format!(r#"{{"mode": "c", "deep": {}{}}}"#, "[".repeat(500), "]".repeat(500));
    let many = format!(r#"{{"mode": "c", "deep": [{}1]}}"#, "1,".repeat(100_001));
    for (arguments, expected) in [
        (r#"{"mode": "c"}"#, "do not match the schema: `/mode`:"),
        ("{}", "\"mode\" is a required property"),
        ("[]", "is not of type \"object\""),
        ("{", "not valid JSON"),
        // A call does not run if its arguments cannot be checked.
        (&deep, "recursion limit"),
        (&many, "more than 100000 values"),
    ] {
        let error = refused(&wrapper, arguments);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn what_is_no_word_is_refused() {
    let plain = lenient(vec![plain("{a}")]);
    for (arguments, expected) in [
        (r#"{"a": "x\u0000y"}"#, "`a` has a NUL character"),
        (r#"{"a": {}}"#, "`a` has an object"),
        (r#"{"a": []}"#, "`a` must not be a list"),
        (r#"{"a": null}"#, "`a` is missing"),
    ] {
        assert!(refused(&plain, arguments).starts_with(expected), "{arguments}");
    }
    let two = lenient(vec![optional(&["{a}", "{b}"])]);
    for (arguments, expected) in [
        (r#"{"a": [[1]], "b": 1}"#, "`a` has a list"),
        (r#"{"a": [null], "b": 1}"#, "`a` has null"),
        (r#"{"a": [1], "b": [2]}"#, "`b` must not be a list"),
    ] {
        assert!(refused(&two, arguments).starts_with(expected), "{arguments}");
    }
    for text in ["{", "}", "{}", "a{b", "a}b", "{{}", "\0"] {
        assert!(TemplateWord::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_long_literal_does_not_multiply_without_a_bound() {
    let literal = "x".repeat(60 << 10);
    let wrapper = lenient(vec![optional(&[&literal, "{list}"])]);
    let list = json!({ "list": vec![1; 100] });
    assert!(refused(&wrapper, &list.to_string()).contains("more than 1048576 bytes"));
    let none = lenient(vec![optional(&["{list}"])]);
    let list = json!({ "list": vec![""; 99_000] });
    assert_eq!(expanded(&none, list).len(), 99_000);
}

#[test]
fn one_parameter_goes_to_stdin() {
    let mut wrapper = lenient(Vec::new());
    wrapper.template.stdin = Some("text".to_owned());
    let stdin = |arguments: &str| wrapper.expand(arguments.as_bytes()).map(|it| it.stdin);
    assert_eq!(stdin(r#"{"text": "-a\u0000é"}"#), Ok("-a\0é".into()));
    assert_eq!(stdin("{}"), Ok(Bytes::new()));
    assert_eq!(stdin(r#"{"text": 1}"#), Err("`text` must be a string".to_owned()));
}

/// Returns the outcome of a call whose program ended like this.
fn finished(exit: Exit, stdout: &[u8], limit: u64) -> Outcome {
    let captured = |bytes: &[u8]| Captured { bytes: bytes.to_vec(), total: bytes.len() as u64 };
    let outcome = Outcome {
        exit,
        stdout: captured(stdout),
        stderr: captured(b"oh \xff"),
        ..Outcome::not_started("")
    };
    lenient(Vec::new()).finish(outcome, &Pipe::new(Sink::Head, limit))
}

#[test]
fn the_answer_has_the_output_and_the_exit_code() {
    let answer = |code, stdout: &[u8]| -> Value {
        let outcome = finished(Exit::Code(code), stdout, 1000);
        assert_eq!((outcome.exit, outcome.limit), (Exit::Code(0), None));
        serde_json::from_slice(&outcome.stdout.bytes).expect("JSON")
    };
    assert_eq!(
        answer(0, "hé\n".as_bytes()),
        json!({ "output": "hé\n", "stderr": "oh \u{fffd}", "exit_code": 0 })
    );
    for data in [&b"\xff\xfe"[..], b"a\0b"] {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(data);
        assert_eq!(answer(0, data)["output_base64"], text);
    }
    let failed = answer(2, b"");
    assert_eq!(failed["error"], "`prog` ended with exit code 2");
    assert_eq!(
        (&failed["error_code"], &failed["exit_code"]),
        (&json!("PROGRAM_FAILED"), &json!(2))
    );
}

#[test]
fn an_answer_is_no_longer_than_the_limit_on_output() {
    // Each of these characters has six as JSON.
    let outcome = finished(Exit::Code(0), &[1; 900], 1000);
    assert_eq!((outcome.exit, outcome.limit), (Exit::Ended, Some(Limit::Output)));
    assert!(outcome.stdout.bytes.len() <= 1000);
    // A crash has no answer.
    let outcome = finished(Exit::Signal(11), b"partial", 1000);
    assert_eq!((outcome.exit, &*outcome.stdout.bytes), (Exit::Signal(11), &b"partial"[..]));
}
