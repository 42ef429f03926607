//! Whole conversations, checked against the vendors' published descriptions of their requests:
//! OpenAI's description of its API, and the types of the SDKs of Anthropic and Google, as JSON
//! Schema (`tests/data/README.md` tells how they were made).

use ikigai_provider::{FailureKind, Message, Role, StopReason};
use ikigai_provider_testing::{FakeServer, Received, Reply, Vendor};
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::asking::{answered, ask, client, question, says, send};

const OPENAI: &str = include_str!("../data/vendors/openai.json");
const ANTHROPIC: &str = include_str!("../data/vendors/anthropic.json");
const GOOGLE: &str = include_str!("../data/vendors/google.json");

/// Returns a validator of one definition in a published file.
fn definition(text: &str, name: &str) -> Validator {
    let mut schema: Value = serde_json::from_str(text).expect("a published file is JSON");
    assert!(schema["$defs"][name].is_object(), "`{name}` is defined");
    schema["$ref"] = json!(format!("#/$defs/{name}"));
    jsonschema::validator_for(&schema).expect("a schema")
}

/// Returns the members of a request that are lists, each with the definition of its elements.
fn lists(vendor: Vendor) -> Vec<(&'static str, Validator)> {
    let of = |text, all: [(&'static str, &str); 2]| {
        all.map(|(member, name)| (member, definition(text, name))).into()
    };
    match vendor {
        Vendor::OpenAi => of(OPENAI, [("input", "InputItem"), ("tools", "FunctionTool")]),
        Vendor::OpenAiChat => of(
            OPENAI,
            [("messages", "ChatCompletionRequestMessage"), ("tools", "ChatCompletionTool")],
        ),
        Vendor::Anthropic => of(ANTHROPIC, [("messages", "MessageParam"), ("tools", "ToolParam")]),
        Vendor::Google => of(GOOGLE, [("contents", "Content"), ("tools", "Tool")]),
    }
}

/// Returns the faults of a request according to the vendor's description.
fn problems(vendor: Vendor, request: &Received) -> Vec<String> {
    let mut found = Vec::new();
    for (member, validator) in lists(vendor) {
        let elements = request.body[member].as_array().expect("a list");
        assert!(!elements.is_empty(), "{vendor}: `{member}` is empty");
        for element in elements {
            let errors = validator.iter_errors(element);
            found.extend(errors.map(|error| format!("{member}: {error}: {element:#}")));
        }
    }
    found
}

#[tokio::test]
async fn every_request_is_what_its_vendor_publishes() {
    for vendor in Vendor::ALL {
        let replies = [
            Reply::answer()
                .thinking("let me see")
                .text("I look.")
                .call("file_read", &json!({ "path": "a" }))
                .call("bash", &json!({ "path": "b" })),
            Reply::answer().hidden_thinking().text("It is empty."),
            Reply::answer().text("Yes."),
        ];
        let server = FakeServer::start(vendor, replies);
        let client = client(&server);
        let asked = send(&client, &question()).await;
        let mut conversation = answered(question(), asked.answer());
        let asked = send(&client, &conversation).await;
        conversation.push(Message { role: Role::Model, parts: asked.answer().parts.clone() });
        conversation.push(says("really?"));
        assert_eq!(send(&client, &conversation).await.text(), "Yes.", "{vendor}");
        assert_eq!((server.requests().len(), server.violations()), (3, vec![]), "{vendor}");
        for request in server.requests() {
            assert_eq!(problems(vendor, &request), [""; 0], "{vendor}");
        }
    }
}

/// The files refuse what the vendors refuse: for example, a bare list of `output_text` is not an
/// item.
#[test]
fn what_the_vendor_does_not_publish_is_found() {
    let item = definition(OPENAI, "InputItem");
    let with_content =
        |content: Value| json!({ "type": "message", "role": "assistant", "content": content });
    assert!(item.is_valid(&with_content(json!("so"))));
    assert!(!item.is_valid(&with_content(json!([{ "type": "output_text", "text": "so" }]))));
    let tool = definition(ANTHROPIC, "ToolParam");
    assert!(!tool.is_valid(&json!({ "name": "t", "parameters": {} })));
    let tool = definition(GOOGLE, "Tool");
    assert!(!tool.is_valid(&json!({ "functionDeclarations": [{ "schema": {} }] })));
}

/// Reasons that mean that the model failed to give an answer.
const SERVER_FAILURES: [&str; 3] =
    ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"];

/// Each reason that the SDK knows has an end, and an unknown reason drops no call.
#[tokio::test]
async fn every_reason_of_google_to_end_is_known() {
    let google: Value = serde_json::from_str(GOOGLE).expect("a published file is JSON");
    let reasons = google["$defs"]["FinishReason"]["enum"].as_array().expect("a list");
    for reason in reasons.iter().filter_map(Value::as_str).chain(["A_REASON_OF_TOMORROW"]) {
        let reply = Reply::answer().call("bash", &json!({ "path": "a" })).ending_with(reason);
        // The client asks once more, since the call did not run.
        let is_failure = SERVER_FAILURES.contains(&reason);
        let replies = vec![reply; if is_failure { 2 } else { 1 }];
        let asked = ask(Vendor::Google, replies).await;
        match reason {
            "STOP" | "FINISH_REASON_UNSPECIFIED" | "A_REASON_OF_TOMORROW" => {
                assert_eq!(asked.calls().len(), 1, "{reason}");
                assert_eq!(asked.answer().stop, StopReason::Finished, "{reason}");
            }
            _ if is_failure => {
                assert!(matches!(asked.kind(), FailureKind::Server { .. }), "{reason}");
            }
            _ => {
                assert_eq!(asked.calls().len(), 0, "{reason}");
                let stop = &asked.answer().stop;
                let is_known = match reason {
                    "MAX_TOKENS" | "CONTINUATION" => *stop == StopReason::Length,
                    _ => *stop == StopReason::Refused(reason.to_owned()),
                };
                assert!(is_known, "{reason}: {stop:?}");
            }
        }
    }
}
