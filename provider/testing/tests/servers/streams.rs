//! An answer with every kind of piece, as each vendor streams it.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::{Value, json};

use crate::exchange::{Response, ask};

fn answered(vendor: Vendor) -> Response {
    let reply = Reply::answer()
        .thinking("let me ")
        .thinking("see")
        .text("I ")
        .ping()
        .text("look")
        .call("file_read", &json!({ "path": "a b.txt" }))
        .call("bash", &json!({}))
        .usage(12, 4)
        .cached(5);
    let server = FakeServer::start(vendor, [reply]);
    let response = ask(&server);
    assert_eq!(server.violations(), [""; 0]);
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.is_whole, "{response:?}");
    assert!(response.head.contains("content-type: text/event-stream"), "{response:?}");
    assert_eq!(server.requests().len(), 1);
    response
}

/// Joins the texts at a position of each value.
fn joined<'a>(values: impl IntoIterator<Item = &'a Value>, place: &str) -> String {
    values.into_iter().filter_map(|value| value.pointer(place)?.as_str()).collect()
}

#[test]
fn anthropic_streams_blocks() {
    let response = answered(Vendor::Anthropic);
    let order: Vec<String> = response.events().into_iter().map(|(name, _)| name).collect();
    assert_eq!(order.first().map(String::as_str), Some("message_start"));
    assert_eq!(order.last().map(String::as_str), Some("message_stop"));
    assert_eq!(order.iter().filter(|name| *name == "ping").count(), 2, "{order:?}");
    let starts = response.named("content_block_start");
    let kinds: Vec<&Value> = starts.iter().map(|start| &start["content_block"]["type"]).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(response.named("content_block_stop").len(), 4);
    let deltas = response.named("content_block_delta");
    let of = |index: u64| deltas.iter().filter(move |delta| delta["index"] == index);
    assert_eq!(joined(of(0), "/delta/thinking"), "let me see");
    assert!(!joined(of(0), "/delta/signature").is_empty());
    assert_eq!(joined(of(1), "/delta/text"), "I look");
    assert_eq!(joined(of(2), "/delta/partial_json"), r#"{"path":"a b.txt"}"#);
    assert!(of(2).count() > 3, "the arguments come in fragments");
    assert_eq!(joined(of(3), "/delta/partial_json"), "{}");
    let end = &response.named("message_delta")[0];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    let usage = &end["usage"];
    let counts = (&usage["input_tokens"], &usage["cache_read_input_tokens"]);
    assert_eq!(counts, (&json!(7), &json!(5)));
    assert_eq!(usage["output_tokens"], 4);
}

#[test]
fn openai_streams_items() {
    let response = answered(Vendor::OpenAi);
    let events = response.events();
    for (number, (name, event)) in events.iter().enumerate() {
        assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(number)));
    }
    let done = response.named("response.output_item.done");
    let kinds: Vec<&Value> = done.iter().map(|done| &done["item"]["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    let fragments = response.named("response.function_call_arguments.delta");
    let first = fragments.iter().filter(|fragment| fragment["output_index"] == 2);
    assert_eq!(joined(first, "/delta"), r#"{"path":"a b.txt"}"#);
    let text = response.named("response.output_text.delta");
    assert_eq!(joined(&text, "/delta"), "I look");
    let (added, done) = (&response.named("response.output_item.added")[0], &done[0]);
    assert_eq!(added["item"]["id"], done["item"]["id"]);
    assert_ne!(added["item"]["encrypted_content"], done["item"]["encrypted_content"]);
    let end = response.named("response.completed").remove(0);
    assert_eq!(events.last().map(|(_, event)| event), Some(&end));
    assert_eq!(end["response"]["output"].as_array().map(Vec::len), Some(4));
    assert_eq!(end["response"]["usage"]["input_tokens"], 12);
    assert_eq!(end["response"]["usage"]["input_tokens_details"]["cached_tokens"], 5);
}

#[test]
fn chat_streams_chunks() {
    let response = answered(Vendor::OpenAiChat);
    assert!(response.text().ends_with("data: [DONE]\n\n"));
    assert!(response.text().contains(": keep-alive\n\n"));
    let chunks: Vec<Value> = response.events().into_iter().map(|(_, data)| data).collect();
    assert_eq!(joined(&chunks, "/choices/0/delta/content"), "I look");
    assert_eq!(joined(&chunks, "/choices/0/delta/reasoning_content"), "let me see");
    let place = "/choices/0/delta/tool_calls/0";
    let calls = || chunks.iter().filter_map(|chunk| chunk.pointer(place));
    let names: Vec<&Value> = calls().filter_map(|call| call["function"].get("name")).collect();
    assert_eq!(names, ["file_read", "bash"]);
    let of = |index: u64| calls().filter(move |call| call["index"] == index);
    assert_eq!(joined(of(0), "/function/arguments"), r#"{"path":"a b.txt"}"#);
    assert_eq!(joined(of(1), "/function/arguments"), "{}");
    let [.., finish, usage, _] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!((&finish["usage"], &usage["choices"]), (&Value::Null, &json!([])));
    assert_eq!(usage["usage"]["completion_tokens"], 4);
}

#[test]
fn google_streams_parts() {
    let response = answered(Vendor::Google);
    assert!(response.text().contains("\r\n\r\n"), "lines end as Google's do");
    let chunks: Vec<Value> = response.events().into_iter().map(|(_, data)| data).collect();
    let parts: Vec<&Value> =
        chunks.iter().map(|chunk| &chunk["candidates"][0]["content"]["parts"][0]).collect();
    let thoughts = parts.iter().copied().filter(|part| part["thought"] == true);
    assert_eq!(joined(thoughts, "/text"), "let me see");
    let said = parts.iter().copied().filter(|part| part["thought"].is_null());
    assert_eq!(joined(said, "/text"), "I look");
    let calls: Vec<&&Value> =
        parts.iter().filter(|part| part["functionCall"].is_object()).collect();
    assert_eq!(calls[0]["functionCall"]["args"], json!({ "path": "a b.txt" }));
    assert!(calls[0]["thoughtSignature"].is_string());
    assert!(calls[1]["thoughtSignature"].is_null(), "the first of parallel calls has it alone");
    let end = chunks.last().expect("a chunk");
    assert_eq!(end["candidates"][0]["finishReason"], "STOP");
    let usage = &end["usageMetadata"];
    assert_eq!(usage["promptTokenCount"], 12);
    let output = [&usage["candidatesTokenCount"], &usage["thoughtsTokenCount"]];
    assert_eq!(output.iter().filter_map(|count| count.as_u64()).sum::<u64>(), 4);
}

#[test]
fn every_answer_is_cut_by_length_in_the_vendors_word() {
    let words = |vendor| match vendor {
        Vendor::OpenAi => r#""incomplete_details":{"reason":"max_output_tokens"}"#,
        Vendor::OpenAiChat => r#""finish_reason":"length""#,
        Vendor::Anthropic => r#""stop_reason":"max_tokens""#,
        Vendor::Google => r#""finishReason":"MAX_TOKENS""#,
    };
    for vendor in Vendor::ALL {
        let server = FakeServer::start(vendor, [Reply::answer().text("a").cut_by_length()]);
        let response = ask(&server);
        assert!(response.text().contains(words(vendor)), "{vendor}: {}", response.text());
    }
}
