//! Requests in each provider's form, as reviewed snapshots.

use ikigai_protocol::{ResultKind, ToolSchema};
use serde_json::{Value, json};

use super::outgoing;
use crate::{
    AnswerSettings, AnswerShape, Blob, CallResult, Effort, Image, Message, ModelCall, ModelRequest,
    Part, Provider, Role, ToolBounds, translate_all,
};

/// The model of the requests and of the conversations.
const MODEL: &str = "the-model";

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { role, parts }
}

fn call(id: &str, name: &str, arguments: &str, blob: Option<Blob>) -> Part {
    Part::Call(ModelCall { id: id.into(), name: name.into(), arguments: arguments.into(), blob })
}

fn result(id: &str, name: &str, content: &str, is_error: bool) -> Part {
    let images = Vec::new();
    let (id, name, content) = (id.into(), name.into(), content.into());
    Part::Result(CallResult { id, name, content, is_error, images })
}

fn tools(provider: Provider) -> Value {
    let schema = |name: &str| ToolSchema {
        name: name.into(),
        description: format!("Does {name}."),
        parameters: json!({ "type": "object", "properties": { "path": { "type": "string" } },
            "required": ["path"] }),
        returns: None,
        result: ResultKind::Json,
    };
    translate_all(provider, ToolBounds::for_provider(provider), &[schema("read"), schema("list")])
        .value
}

/// Returns the path, the query and the body of a request.
fn shown(provider: Provider, request: &ModelRequest<'_>) -> String {
    let outgoing = outgoing(provider, request, true);
    let body: Value = serde_json::from_slice(&outgoing.body).expect("JSON");
    let query = outgoing.query.map_or_else(String::new, |query| format!("?{query}"));
    let body = serde_json::to_string_pretty(&body).expect("JSON");
    format!("/{}{query}\n{body}", outgoing.path.join("/"))
}

fn snapshot(name: &str, system: &[&str], messages: &[Message], has_tools: bool) {
    let system: Vec<String> = system.iter().map(|&text| text.to_owned()).collect();
    for provider in Provider::ALL {
        let tools = if has_tools { tools(provider) } else { json!([]) };
        let max_output = has_tools.then_some(1000);
        let request = ModelRequest {
            model: MODEL,
            system: &system,
            messages,
            tools: &tools,
            max_output,
            ..ModelRequest::default()
        };
        insta::assert_snapshot!(format!("{name}_{provider}"), shown(provider, &request));
    }
}

#[test]
fn text_only() {
    let messages = [
        message(Role::User, vec![Part::text("hello"), Part::text("\u{1F44D} you")]),
        message(Role::Model, vec![Part::text("hi")]),
        message(Role::User, vec![Part::text("bye")]),
    ];
    snapshot("text", &["You are ikigai.", "Pinned: a.txt"], &messages, false);
}

#[test]
fn with_tools() {
    snapshot("tools", &[], &[message(Role::User, vec![Part::text("read a.txt")])], true);
}

/// Returns the blobs that each provider would have left in a conversation with it.
fn own_blobs(provider: Provider) -> (Vec<Part>, Option<Blob>, Option<Blob>) {
    let blob = |value| Blob { provider, model: MODEL.into(), value };
    let alone = |value| vec![Part::Blob(blob(value))];
    match provider {
        Provider::OpenAi => (
            alone(json!({ "type": "reasoning", "id": "rs_1", "summary": [],
                "encrypted_content": "gAAA" })),
            Some(blob(json!({ "phase": "commentary" }))),
            None,
        ),
        Provider::OpenAiChat => (alone(json!({ "reasoning_content": "hm" })), None, None),
        Provider::Anthropic => (
            alone(json!({ "type": "thinking", "thinking": "hm", "signature": "Eq==" })),
            None,
            None,
        ),
        Provider::Google => {
            (Vec::new(), None, Some(blob(json!({ "id": "google-1", "thoughtSignature": "EjQ=" }))))
        }
    }
}

fn parallel_calls(provider: Provider) -> Vec<Message> {
    let (mut parts, text_blob, signed) = own_blobs(provider);
    parts.push(Part::Text { text: "reading".into(), blob: text_blob });
    parts.push(call("call_1", "read", r#"{"path":"a","big":12345678901234567890123}"#, signed));
    parts.push(call("functions.read:1", "read", r#"{"path":"#, None));
    vec![
        message(Role::User, vec![Part::text("read both")]),
        message(Role::Model, parts),
        message(
            Role::User,
            vec![
                Part::text("and hurry"),
                result("call_1", "read", r#"{"tool_success":true,"result":{"text":"A"}}"#, false),
                result("functions.read:1", "read", "not JSON", true),
            ],
        ),
    ]
}

#[test]
fn parallel_calls_with_blobs() {
    for provider in Provider::ALL {
        let (messages, tools) = (parallel_calls(provider), tools(provider));
        let request = ModelRequest {
            model: MODEL,
            system: &["You are ikigai.".to_owned()],
            messages: &messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        insta::assert_snapshot!(format!("calls_{provider}"), shown(provider, &request));
    }
}

/// Returns an image that has only its beginning.
fn image(name: &str, head: &[u8]) -> Image {
    Image::new(name, head).expect("an image")
}

fn png() -> Image {
    image("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0")
}

fn gif() -> Image {
    image("moving.gif", b"GIF89a\x80\x02\xe0\x01\0\0\0")
}

/// Returns a conversation with images of the user, and of two results.
fn with_images() -> Vec<Message> {
    let of_results = [("call_1", "a text", vec![png()]), ("call_2", "", vec![gif(), png()])];
    let results = of_results.map(|(id, content, images)| {
        let (id, name) = (id.to_owned(), "shot".to_owned());
        let (content, is_error) = (content.to_owned(), false);
        Part::Result(CallResult { id, name, content, is_error, images })
    });
    let calls = ["call_1", "call_2"].map(|id| call(id, "shot", "{}", None));
    let label = |name: &str| Part::text(format!("Image {name}:"));
    let prompt = vec![
        label("picture.png"),
        Part::Image(png()),
        label("moving.gif"),
        Part::Image(gif()),
        Part::text("what are they?"),
    ];
    vec![
        message(Role::User, prompt),
        message(Role::Model, calls.to_vec()),
        message(Role::User, results.to_vec()),
    ]
}

#[test]
fn images_of_the_person_and_of_results() {
    snapshot("images", &[], &with_images(), false);
}

#[test]
fn an_older_model_of_google_has_images_beside_its_results() {
    let messages = with_images();
    let request =
        ModelRequest { model: "gemini-2.5-pro", messages: &messages, ..ModelRequest::default() };
    insta::assert_snapshot!("images_of_an_older_model", shown(Provider::Google, &request));
}

#[test]
fn numbers_keep_their_digits() {
    for provider in Provider::ALL {
        let messages = parallel_calls(provider);
        let request = ModelRequest {
            model: MODEL,
            system: &[],
            messages: &messages,
            tools: &Value::Null,
            ..ModelRequest::default()
        };
        let body = String::from_utf8(outgoing(provider, &request, true).body).expect("text");
        assert!(body.contains("12345678901234567890123"), "{provider}: {body}");
    }
}

#[test]
fn what_another_provider_left_is_left_out() {
    for provider in Provider::ALL {
        for other in Provider::ALL.into_iter().filter(|other| *other != provider) {
            let messages = parallel_calls(other);
            let request = ModelRequest {
                model: MODEL,
                system: &[],
                messages: &messages,
                tools: &Value::Null,
                ..ModelRequest::default()
            };
            let body = String::from_utf8(outgoing(provider, &request, true).body).expect("text");
            for left in ["gAAA", "commentary", "hm", "Eq==", "google-1", "EjQ="] {
                assert!(!body.contains(left), "{provider} after {other}: {body}");
            }
            let bypass = body.matches("skip_thought_signature_validator").count();
            assert_eq!(bypass, usize::from(provider == Provider::Google), "{body}");
        }
    }
}

#[test]
fn what_another_model_left_is_left_out() {
    for provider in Provider::ALL {
        let messages = parallel_calls(provider);
        let shown = |model| {
            let tools = Value::Null;
            let request = ModelRequest {
                model,
                system: &[],
                messages: &messages,
                tools: &tools,
                ..ModelRequest::default()
            };
            String::from_utf8(outgoing(provider, &request, true).body).expect("text")
        };
        let (own, other) = (shown(MODEL), shown("another-model"));
        let found = |body: &str| {
            let left = ["gAAA", "commentary", "\"hm\"", "Eq==", "google-1", "EjQ="];
            left.into_iter().filter(|left| body.contains(left)).count()
        };
        // A text of the user next to the results begins a turn, for which a chat sends no thoughts.
        assert_eq!(found(&own) > 0, provider != Provider::OpenAiChat, "{provider}: {own}");
        assert_eq!(found(&other), 0, "{provider}: {other}");
        let bypass = other.matches("skip_thought_signature_validator").count();
        assert_eq!(bypass, usize::from(provider == Provider::Google), "{other}");
        assert!(other.contains("reading") && other.contains("12345678901234567890123"), "{other}");
    }
}

#[test]
fn a_name_that_the_provider_would_refuse_is_not_sent() {
    let named = |blob| {
        vec![
            message(Role::User, vec![Part::text("one")]),
            message(Role::Model, vec![call("a", "no tool", "{}", blob)]),
            message(Role::User, vec![result("a", "no tool", "{}", true)]),
        ]
    };
    let count = |provider, messages: &[Message]| {
        let tools = Value::Null;
        let request = ModelRequest {
            model: MODEL,
            system: &[],
            messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        let body = String::from_utf8(outgoing(provider, &request, true).body).expect("text");
        (body.matches("no tool").count(), body.matches("no_tool").count())
    };
    for provider in Provider::ALL {
        let is_google = provider == Provider::Google;
        assert_eq!(count(provider, &named(None)), (0, if is_google { 2 } else { 1 }), "{provider}");
    }
    let (_, _, signed) = own_blobs(Provider::Google);
    assert_eq!(count(Provider::Google, &named(signed)), (2, 0), "what is signed stays");
}

#[test]
fn a_message_that_has_nothing_to_say_is_no_message() {
    for provider in Provider::ALL {
        let (mut parts, ..) = own_blobs(provider);
        parts.push(Part::text(""));
        let messages = [
            message(Role::User, vec![Part::text("one")]),
            message(Role::Model, parts),
            message(Role::User, vec![Part::text("two")]),
        ];
        let request = ModelRequest {
            model: MODEL,
            system: &[],
            messages: &messages,
            tools: &Value::Null,
            ..ModelRequest::default()
        };
        let body: Value =
            serde_json::from_slice(&outgoing(provider, &request, true).body).expect("JSON");
        let turns = ["messages", "input", "contents"].iter().find_map(|name| body.get(name));
        let turns = turns.and_then(Value::as_array).expect("turns");
        assert!(turns.iter().all(|turn| turn["role"] == "user"), "{provider}: {body}");
    }
}

#[test]
fn an_anthropic_conversation_is_cached_up_to_its_end() {
    let round = |number: usize| {
        let id = format!("call_{number}");
        [
            message(Role::Model, vec![Part::text("so"), call(&id, "read", "{}", None)]),
            message(Role::User, vec![result(&id, "read", "{}", false), Part::text(" \n")]),
        ]
    };
    let mut messages = vec![message(Role::User, vec![Part::text("one"), Part::text("two")])];
    let tools = tools(Provider::Anthropic);
    let system = ["a".to_owned(), "b".to_owned()];
    for marked in [&[0][..], &[0, 2], &[2, 4], &[4, 6]] {
        let request = ModelRequest {
            model: MODEL,
            system: &system,
            messages: &messages,
            tools: &tools,
            ..ModelRequest::default()
        };
        let body = outgoing(Provider::Anthropic, &request, true).body;
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        let found: Vec<(usize, usize)> = body["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .enumerate()
            .flat_map(|(at, turn)| {
                let blocks = turn["content"].as_array().expect("blocks").iter().enumerate();
                let marked = blocks.filter(|(_, block)| block.get("cache_control").is_some());
                marked.map(move |(block, _)| (at, block)).collect::<Vec<_>>()
            })
            .collect();
        let last = |at: usize| (at, usize::from(at == 0));
        assert_eq!(found, marked.iter().map(|&at| last(at)).collect::<Vec<_>>(), "{body}");
        assert!(body.to_string().matches("cache_control").count() <= 4, "{body}");
        messages.extend(round(messages.len()));
    }
}

#[test]
fn the_member_for_the_length_is_the_one_that_the_server_knows() {
    let messages = [message(Role::User, vec![Part::text("x")])];
    let request = ModelRequest {
        model: MODEL,
        system: &[],
        messages: &messages,
        tools: &Value::Null,
        max_output: Some(5),
        ..ModelRequest::default()
    };
    for (is_own, name) in [(true, "max_completion_tokens"), (false, "max_tokens")] {
        let body: Value =
            serde_json::from_slice(&outgoing(Provider::OpenAiChat, &request, is_own).body)
                .expect("JSON");
        assert_eq!(body[name], 5);
    }
}

#[test]
fn a_model_that_does_not_reason_is_not_asked_for_its_reasons() {
    let has_include = |model: &str| {
        let request = ModelRequest {
            model,
            system: &[],
            messages: &[],
            tools: &Value::Null,
            ..ModelRequest::default()
        };
        let body: Value =
            serde_json::from_slice(&outgoing(Provider::OpenAi, &request, true).body).expect("JSON");
        body.get("include").is_some()
    };
    assert!(
        ["gpt-5", "o3", "gpt-5.1-codex", "gpt-5.3-chat-latest", "openai/gpt-5"]
            .into_iter()
            .all(has_include)
    );
    assert!(
        ![
            "gpt-4o",
            "gpt-4.1-mini",
            "ft:gpt-4o:x",
            "gpt-5-chat-latest",
            "openai/gpt-5-chat-latest",
        ]
        .into_iter()
        .any(has_include)
    );
}

#[test]
fn a_tuned_model_of_google_has_its_own_collection() {
    for (model, path) in [
        ("gemini-3-pro", "v1beta/models/gemini-3-pro:streamGenerateContent"),
        ("models/gemini-3-pro", "v1beta/models/gemini-3-pro:streamGenerateContent"),
        ("tunedModels/mine", "v1beta/tunedModels/mine:streamGenerateContent"),
    ] {
        let request = ModelRequest {
            model,
            system: &[],
            messages: &[],
            tools: &Value::Null,
            ..ModelRequest::default()
        };
        assert_eq!(outgoing(Provider::Google, &request, true).path.join("/"), path);
    }
}

#[test]
fn settings_and_the_shape_of_the_answer() {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" },
        "age": { "type": "integer" } }, "required": ["name"] });
    let messages = [message(Role::User, vec![Part::text("who?")])];
    for provider in Provider::ALL {
        let shape = AnswerShape::new(provider, &schema).expect("a shape");
        let temperature = (provider != Provider::Anthropic).then_some(0.2);
        let settings = AnswerSettings { effort: Some(Effort::High), temperature };
        assert_eq!(settings.check(provider), Ok(()), "{provider}");
        let shape = Some(&shape);
        let request = ModelRequest {
            model: MODEL,
            messages: &messages,
            settings,
            shape,
            ..ModelRequest::default()
        };
        insta::assert_snapshot!(format!("settings_{provider}"), shown(provider, &request));
    }
}

#[test]
fn an_effort_has_the_form_that_its_model_takes() {
    let body = |provider, model: &str, effort| {
        let settings = AnswerSettings { effort: Some(effort), temperature: None };
        let request = ModelRequest { model, settings, ..ModelRequest::default() };
        let body = outgoing(provider, &request, true).body;
        serde_json::from_slice::<Value>(&body).expect("JSON")
    };
    for (model, budget) in [("gemini-2.5-pro", true), ("gemini-3-pro", false)] {
        let sent = body(Provider::Google, model, Effort::Medium);
        let expected = match budget {
            true => json!({ "thinkingBudget": 8192, "includeThoughts": true }),
            false => json!({ "thinkingLevel": "medium", "includeThoughts": true }),
        };
        assert_eq!(sent["generationConfig"]["thinkingConfig"], expected, "{model}");
    }
    for (model, thinks) in [
        ("claude-opus-4-7", true),
        ("claude-sonnet-5", true),
        ("anthropic/claude-sonnet-4.6", true),
        ("claude-opus-4-5-20251101", false),
        ("claude-sonnet-4-20250514", false),
        ("anthropic/claude-opus-4.5", false),
        ("claude-3-7-sonnet-latest", false),
    ] {
        let sent = body(Provider::Anthropic, model, Effort::Low);
        assert_eq!(sent["output_config"], json!({ "effort": "low" }), "{model}");
        assert_eq!(sent.get("thinking").is_some(), thinks, "{model}");
    }
    let sent = body(Provider::OpenAi, "gpt-5.1", Effort::None);
    assert_eq!(sent["reasoning"], json!({ "effort": "none" }));
}
