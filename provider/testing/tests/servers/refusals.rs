//! Requests that a vendor refuses. Each is an accepted request with one change.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use serde_json::{Value, json};

use crate::exchange::{ask, question, send};

/// Returns a conversation in which two calls were made and answered.
fn with_calls(vendor: Vendor) -> Value {
    let mut body = question(vendor);
    let messages = match vendor {
        Vendor::OpenAi => json!([
            { "role": "user", "content": "how?" },
            { "type": "function_call", "call_id": "a", "name": "t", "arguments": "{}" },
            { "type": "function_call", "call_id": "b", "name": "t", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "a", "output": "1" },
            { "type": "function_call_output", "call_id": "b", "output": "2" },
        ]),
        Vendor::OpenAiChat => json!([
            { "role": "user", "content": "how?" },
            { "role": "assistant", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "t", "arguments": "{}" } },
                { "id": "b", "type": "function", "function": { "name": "t", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "a", "content": "1" },
            { "role": "tool", "tool_call_id": "b", "content": "2" },
        ]),
        Vendor::Anthropic => json!([
            { "role": "user", "content": "how?" },
            { "role": "assistant", "content": [
                { "type": "tool_use", "id": "a", "name": "t", "input": {} },
                { "type": "tool_use", "id": "b", "name": "t", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "1" },
                { "type": "tool_result", "tool_use_id": "b", "content": "2" },
            ] },
        ]),
        Vendor::Google => json!([
            { "role": "user", "parts": [{ "text": "how?" }] },
            { "role": "model", "parts": [
                { "functionCall": { "id": "a", "name": "t", "args": {} },
                  "thoughtSignature": "skip_thought_signature_validator" },
                { "functionCall": { "id": "b", "name": "t" } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "id": "a", "name": "t", "response": {} } },
                { "functionResponse": { "id": "b", "name": "t", "response": {} } },
            ] },
        ]),
    };
    let place = match vendor {
        Vendor::OpenAi => "input",
        Vendor::OpenAiChat | Vendor::Anthropic => "messages",
        Vendor::Google => "contents",
    };
    body[place] = messages;
    body
}

/// Sends the conversation after a change and returns the error.
fn refused(vendor: Vendor, change: impl FnOnce(&mut Value)) -> String {
    let server = FakeServer::with(vendor, |_| Reply::answer().text("ok"));
    let mut body = with_calls(vendor);
    change(&mut body);
    let response = send(&server, &body);
    assert!((400..500).contains(&response.status), "{vendor} accepted {body:#}");
    let said = response.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert_eq!(server.violations(), [format!("request 1: {said}")]);
    said
}

/// Removes an item of an array.
fn remove(body: &mut Value, place: &str, index: usize) {
    let array = body.pointer_mut(place).and_then(Value::as_array_mut);
    array.unwrap_or_else(|| panic!("no array at {place}")).remove(index);
}

/// Sets a value.
fn set(body: &mut Value, place: &str, value: Value) {
    let (parent, name) = place.rsplit_once('/').expect("a place");
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}"));
    match name.parse::<usize>() {
        Ok(index) => parent[index] = value,
        Err(_) => parent[name] = value,
    }
}

/// Returns tools that every vendor accepts, with deep schemas.
fn tools(vendor: Vendor) -> Value {
    let is_google = vendor == Vendor::Google;
    let closed = |mut schema: Value| {
        if !is_google {
            schema["additionalProperties"] = json!(false);
        }
        schema
    };
    let inner = closed(json!({
        "type": "object",
        "properties": { "b": { "type": "string" } },
        "required": ["b"],
    }));
    let schema = closed(json!({
        "type": "object",
        "properties": {
            "a": { "type": "array", "items": inner },
            "c": { "anyOf": [inner, { "type": "string" }] },
        },
        "required": ["a", "c"],
    }));
    match vendor {
        Vendor::OpenAi => json!([{ "type": "function", "name": "t", "parameters": schema }]),
        Vendor::OpenAiChat => json!([{ "type": "function", "function": {
            "name": "t", "strict": true, "parameters": schema,
        } }]),
        Vendor::Anthropic => json!([{ "name": "t", "input_schema": schema }]),
        Vendor::Google => json!([{ "functionDeclarations": [
            { "name": "t", "parameters": schema },
            { "name": "u" },
        ] }]),
    }
}

#[test]
fn what_is_changed_below_is_accepted_as_it_is() {
    for vendor in Vendor::ALL {
        let server = FakeServer::with(vendor, |_| Reply::answer().text("ok"));
        let mut body = with_calls(vendor);
        body["tools"] = tools(vendor);
        let response = send(&server, &body);
        assert_eq!((response.status, server.violations()), (200, vec![]), "{response:?}");
    }
}

#[test]
fn a_call_without_its_result() {
    let said = refused(Vendor::OpenAi, |body| remove(body, "/input", 4));
    assert_eq!(said, "No tool output found for function call b.");
    let said = refused(Vendor::OpenAiChat, |body| remove(body, "/messages", 3));
    assert!(said.ends_with("did not have response messages: b"), "{said}");
    let said = refused(Vendor::Anthropic, |body| remove(body, "/messages/2/content", 1));
    assert!(said.contains("without `tool_result` blocks immediately after: b."), "{said}");
    let said = refused(Vendor::Google, |body| remove(body, "/contents/2/parts", 1));
    assert!(said.contains("number of function response parts"), "{said}");
}

#[test]
fn a_result_without_its_call() {
    let said = refused(Vendor::OpenAi, |body| remove(body, "/input", 1));
    assert_eq!(said, "No tool call found for function call output with call_id a.");
    let said = refused(Vendor::OpenAiChat, |body| remove(body, "/messages/1/tool_calls", 0));
    assert!(said.contains("must be a response to a preceeding message"), "{said}");
    let said = refused(Vendor::Anthropic, |body| remove(body, "/messages/1/content", 0));
    assert!(said.contains("unexpected `tool_use_id` found in `tool_result` blocks: a"), "{said}");
    let said = refused(Vendor::Google, |body| remove(body, "/contents/1/parts", 0));
    assert!(said.contains("number of function response parts"), "{said}");
}

#[test]
fn ids_that_do_not_meet() {
    refused(Vendor::OpenAi, |body| set(body, "/input/4/call_id", json!("a")));
    refused(Vendor::OpenAiChat, |body| set(body, "/messages/3/tool_call_id", json!("a")));
    refused(Vendor::Anthropic, |body| set(body, "/messages/2/content/1/tool_use_id", json!("a")));
    refused(Vendor::Google, |body| {
        set(body, "/contents/2/parts/1/functionResponse/id", json!("a"));
    });
}

#[test]
fn sides_that_do_not_alternate() {
    let said = refused(Vendor::Anthropic, |body| set(body, "/messages/1/role", json!("user")));
    assert!(said.contains("roles must alternate"), "{said}");
    let said = refused(Vendor::Google, |body| set(body, "/contents/1/role", json!("user")));
    assert!(said.contains("alternate between user and model"), "{said}");
}

#[test]
fn members_that_nobody_knows() {
    for vendor in Vendor::ALL {
        refused(vendor, |body| set(body, "/weather", json!("fair")));
    }
    refused(Vendor::OpenAi, |body| set(body, "/input/1/weather", json!("fair")));
    refused(Vendor::OpenAiChat, |body| set(body, "/messages/0/weather", json!("fair")));
    refused(Vendor::Anthropic, |body| set(body, "/messages/1/content/0/weather", json!("fair")));
    refused(Vendor::Google, |body| set(body, "/contents/1/parts/0/weather", json!("fair")));
}

#[test]
fn empty_things() {
    refused(Vendor::OpenAi, |body| set(body, "/input", json!([])));
    refused(Vendor::OpenAiChat, |body| set(body, "/tools", json!([])));
    refused(Vendor::Anthropic, |body| set(body, "/messages/0/content", json!("")));
    let text = json!([{ "type": "text", "text": "" }]);
    refused(Vendor::Anthropic, |body| set(body, "/messages/0/content", text));
    let blank = json!([{ "type": "text", "text": " \n" }]);
    refused(Vendor::Anthropic, |body| set(body, "/messages/0/content", blank));
    refused(Vendor::Anthropic, |body| set(body, "/max_tokens", Value::Null));
    refused(Vendor::Google, |body| set(body, "/contents/0/parts", json!([])));
    refused(Vendor::Google, |body| set(body, "/contents/0/parts/0/text", json!("")));
}

#[test]
fn arguments_of_the_wrong_kind() {
    refused(Vendor::OpenAi, |body| set(body, "/input/1/arguments", json!({})));
    let place = "/messages/1/tool_calls/0/function/arguments";
    refused(Vendor::OpenAiChat, |body| set(body, place, json!({})));
    refused(Vendor::Anthropic, |body| set(body, "/messages/1/content/0/input", json!("{}")));
    let place = "/contents/1/parts/0/functionCall/args";
    refused(Vendor::Google, |body| set(body, place, json!("{}")));
}

#[test]
fn tools_that_break_the_rules() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let chat = json!([{ "type": "function", "function": {
        "name": "t", "strict": true, "parameters": schema,
    } }]);
    let said = refused(Vendor::OpenAiChat, |body| set(body, "/tools", chat));
    assert!(said.contains("'additionalProperties' is required"), "{said}");
    let flat = json!([{ "type": "function", "name": "t", "parameters": schema }]);
    let said = refused(Vendor::OpenAi, |body| set(body, "/tools", flat));
    assert!(said.contains("'additionalProperties' is required"), "strict is the rule: {said}");
    let named = json!([{ "name": "a b", "input_schema": schema }]);
    refused(Vendor::Anthropic, |body| set(body, "/tools", named));
    let closed = json!([{ "functionDeclarations": [{ "name": "t", "parameters": {
        "type": "object", "additionalProperties": false,
    } }] }]);
    let said = refused(Vendor::Google, |body| set(body, "/tools", closed));
    assert!(said.contains("Unknown name \"additionalProperties\""), "{said}");
}

#[test]
fn what_was_signed_comes_back_as_it_was() {
    // A thought that was changed.
    let replies = || [Reply::answer().thinking("hm").text("a"), Reply::answer().text("b")];
    let server = FakeServer::start(Vendor::Anthropic, replies());
    let events = ask(&server).events();
    let signature = events.iter().find_map(|event| event["delta"]["signature"].as_str());
    let mut body = question(Vendor::Anthropic);
    let thought = |thinking: &str| json!({ "type": "thinking", "thinking": thinking, "signature": signature });
    let say = |text: &str| json!({ "role": "user", "content": text });
    let answer = |thinking| json!({ "role": "assistant", "content": [thought(thinking)] });
    body["messages"] = json!([say("how?"), answer("hm"), say("more")]);
    assert_eq!(send(&server, &body).status, 200);
    body["messages"] = json!([say("how?"), answer("hmm"), say("more")]);
    assert!(send(&server, &body).text.contains("Invalid `signature` in `thinking` block"));
}

#[test]
fn a_call_of_geminis_comes_back_with_its_signature() {
    let call = Reply::answer().call_as("", "t", &json!({ "a": 1 }));
    let server = FakeServer::start(Vendor::Google, [call, Reply::answer().text("b")]);
    let events = ask(&server).events();
    let part = &events[0]["candidates"][0]["content"]["parts"][0];
    let mut body = question(Vendor::Google);
    let result = json!({ "functionResponse": { "name": "t", "response": { "b": 2 } } });
    body["contents"] = json!([
        { "role": "user", "parts": [{ "text": "how?" }] },
        { "role": "model", "parts": [{ "functionCall": part["functionCall"] }] },
        { "role": "user", "parts": [result] },
    ]);
    let said = send(&server, &body);
    assert!(said.text.contains("is missing a thought_signature"), "{said:?}");
    set(&mut body, "/contents/1/parts/0", part.clone());
    assert_eq!(send(&server, &body).status, 200);
}

#[test]
fn an_item_of_openais_comes_back_with_its_reasoning() {
    let call = Reply::answer().hidden_thinking().call_as("c", "t", &json!({}));
    let server = FakeServer::start(Vendor::OpenAi, [call, Reply::answer().text("b")]);
    let mut events = ask(&server).events();
    events.retain(|event| event["type"] == "response.output_item.done");
    let [reasoning, call] = [0, 1].map(|index| events[index]["item"].clone());
    let output = json!({ "type": "function_call_output", "call_id": "c", "output": "1" });
    let mut body = question(Vendor::OpenAi);
    let user = body["input"][0].clone();
    body["input"] = json!([user, call, output]);
    let said = send(&server, &body);
    assert!(said.text.contains("without its required 'reasoning' item"), "{said:?}");
    body["input"] = json!([user, reasoning, output]);
    let said = send(&server, &body);
    assert!(said.text.contains("without its required following item"), "{said:?}");
    body["input"] = json!([user, reasoning, call, output]);
    assert_eq!(send(&server, &body).status, 200);
}

#[test]
fn a_request_for_which_no_reply_is_left() {
    let server = FakeServer::start(Vendor::Anthropic, []);
    assert_eq!((ask(&server).status, server.violations().len()), (500, 1));
}

#[test]
fn a_request_without_a_key() {
    for vendor in Vendor::ALL {
        let server = FakeServer::with(vendor, |_| Reply::answer());
        let keyless = FakeServer::for_vendor(vendor).without_key().start([Reply::answer()]);
        for (server, status) in [(&server, 401), (&keyless, 200)] {
            let response = crate::exchange::send_with(server, &question(vendor), "X-Nothing: 1");
            assert_eq!(response.status, status, "{vendor}: {response:?}");
        }
        assert_eq!(server.violations().len(), 1);
    }
}
