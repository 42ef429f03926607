//! The program itself: a question, a tool that runs sandboxed, the answer.

use ikigai_provider::Provider;
use ikigai_tests::host::Host;
use serde_json::{Value, json};

use crate::llmock::server::Llmock;

#[test]
fn a_question_is_answered_with_the_result_of_a_tool() {
    let Some(llmock) = Llmock::start() else { return };
    for provider in Provider::ALL {
        let call = json!({ "name": "file_read", "arguments": { "file_path": "notes.txt" } });
        llmock.script(&json!([{ "type": "reply", "text": "So:", "tool_calls": [call] }]));
        let host = Host::new()
            .with_shared_cache()
            .env(provider.key_variable().as_str(), "test")
            .env(provider.base_url_variable(), llmock.base_url(provider));
        host.write("workspace/notes.txt", "the answer is 42\n", 0o644);
        let line = ["ask", "--json", "--provider", provider.as_str(), "--model", "a-model"];
        let ran = host.run(line.iter().chain(&["What is in my notes?"])).expect_code(0);
        let told: Value = serde_json::from_str(&ran.stdout()).expect("JSON");
        assert_eq!(told["stop"], "answered", "{provider}: {told:#}");
        assert_eq!(told["rounds"], 2, "{provider}: {told:#}");
        let calls = told["calls"].as_array().expect("the calls");
        assert_eq!(calls.len(), 1, "{provider}: {told:#}");
        assert!(calls[0]["envelope"].to_string().contains("the answer is 42"), "{told:#}");
        assert!(told["answer"].as_str().is_some_and(|text| !text.is_empty()), "{told:#}");
        llmock.verdict().expect_flawless(2, 2);
    }
}
