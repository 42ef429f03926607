//! `ikigai ask` as a command: the sources of the prompt, and the errors before a request.

use ikigai_provider_testing::{Reply, Trouble, Vendor};
use ikigai_tests::host::{Host, Ran};
use serde_json::json;

use crate::agent::rig::{Rig, envelopes};

fn answering() -> Rig {
    Rig::new(Vendor::OpenAi, [Reply::answer().text("I see.\n")])
}

#[test]
fn a_prompt_comes_from_arguments_from_stdin_or_from_both() {
    let rig = answering();
    rig.file("a.txt", "not to be shown");
    let ran = rig.ask_with(&["--json"], b"from stdin @a.txt").expect_code(0);
    assert_eq!(ran.json()["prompt"], "from stdin @a.txt", "{ran}");
    assert!(!rig.request(0).contains("not to be shown"), "nobody looked at what it mentions");

    let ran = answering().ask_with(&["--json", "-"], b"from stdin").expect_code(0);
    assert_eq!(ran.json()["prompt"], "from stdin", "{ran}");

    let rig = answering();
    let ran = rig.ask_with(&["review", "this"], b"a change").expect_code(0);
    assert_eq!(ran.stdout(), "I see.\n", "{ran}");
    let request = rig.request(0);
    assert!(request.find("review this") < request.find("a change"), "{request}");
    rig.assert_valid();
}

#[test]
fn the_stdin_of_a_loop_is_left_to_the_loop() {
    let ask = |rig: &Rig, script: &str| {
        Ran::from_command(&mut rig.host.shell(script), b"first\nsecond\n")
    };
    let rig = || {
        let rig = Rig::new(Vendor::OpenAi, [1, 2].map(|_| Reply::answer().text("I see.")));
        let host = rig.host.env("IKIGAI_PROVIDER", "openai").env("IKIGAI_MODEL", "m");
        Rig { host, server: rig.server }
    };
    for list in ["cat | while", "while"] {
        let rig = rig();
        ask(&rig, &format!("{list} read -r line; do \"$0\" ask \"about $line\"; done"))
            .expect_code(0);
        assert_eq!(rig.server.requests().len(), 2, "{list}");
        assert!(rig.request(1).contains("about second"), "{list}: {}", rig.request(1));
    }
    // With `-`, or without a prompt, the first `ask` reads the rest of the list.
    for arguments in ["ask \"about $line\" -", "ask"] {
        let rig = rig();
        ask(&rig, &format!("while read -r line; do \"$0\" {arguments}; done")).expect_code(0);
        assert_eq!(rig.server.requests().len(), 1, "{arguments}");
        assert!(rig.request(0).contains("second"), "{arguments}: {}", rig.request(0));
    }
    // A pipe or a file that is meant for this command is read without `-`.
    for script in ["cat | \"$0\" ask review", "cat > list; \"$0\" ask review < list"] {
        let rig = rig();
        ask(&rig, script).expect_code(0);
        let request = rig.request(0);
        let place =
            |text: &str| request.find(text).unwrap_or_else(|| panic!("{script}: {request}"));
        assert!(place("review") < place("first\\nsecond"), "{script}: {request}");
    }
}

#[test]
fn the_tools_that_are_named_are_offered_alone() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(
            vendor,
            [
                Reply::answer().call("bash", &json!({ "command": "echo it-ran" })),
                Reply::answer().text("So."),
            ],
        );
        let ran = rig.ask(&["--json", "--tools", "grep,file_read", "go"]).expect_code(0);
        let request = rig.request(0);
        for (name, is_offered) in
            [("grep", true), ("file_read", true), ("bash", false), ("slash_command", false)]
        {
            let entry = format!("\"name\":\"{name}\"");
            assert_eq!(request.contains(&entry), is_offered, "{vendor} {name}: {request}");
        }
        // If a model calls a different tool anyway, it gets an error.
        assert_eq!(envelopes(&ran.json())[0]["error_code"], "TOOL_NOT_FOUND", "{ran}");
    }
    let rig = answering();
    rig.ask(&["--tools", "", "go"]).expect_code(0);
    assert!(!rig.request(0).contains("\"name\":"), "{}", rig.request(0));
    let rig = answering();
    let ran = rig.ask(&["--tools", "grep,file_raed", "go"]).expect_code(2);
    assert!(ran.stderr().contains("tool `file_raed` not found"), "{ran}");
    assert!(ran.stderr().contains("did you mean `file_read`?"), "{ran}");
    assert_eq!(rig.server.requests().len(), 0);
}

#[test]
fn an_answer_has_the_shape_that_is_demanded_or_is_none() {
    const SCHEMA: &str = r#"{
        "type": "object", "properties": { "port": { "type": "integer" } }, "required": ["port"]
    }"#;
    for vendor in Vendor::ALL {
        let asked = |answer: &str, arguments: &[&str], code: i32| {
            let rig = Rig::new(vendor, [Reply::answer().text(answer)]);
            rig.file("port.json", SCHEMA);
            let ran = rig.ask(&[arguments, &["--schema", "port.json", "which port?"]].concat());
            let ran = ran.expect_code(code);
            assert!(rig.request(0).contains("integer"), "{vendor}: {}", rig.request(0));
            rig.assert_valid();
            ran
        };
        let ran = asked("```json\n{\"port\": 8080}\n```", &[], 0);
        assert_eq!(ran.stdout(), "{\"port\": 8080}\n", "{vendor}: {ran}");
        let ran = asked("{\"port\": \"8080\"}", &[], 1);
        assert_eq!(ran.stdout(), "", "{vendor}: {ran}");
        assert!(ran.stderr().contains("does not match the schema: at `/port`: "), "{ran}");
        let ran = asked("It is 8080.", &["--json"], 1);
        let told = ran.json();
        assert_eq!((&told["stop"], &told["answer"]), (&json!("mismatched"), &json!("It is 8080.")));
        assert!(told["reason"].as_str().expect("a text").contains("not one JSON value"), "{ran}");
        let rig = Rig::new(vendor, [Reply::answer().text("{\"po").cut_by_length()]);
        rig.file("port.json", SCHEMA);
        let ran = rig.ask(&["--schema", "port.json", "which port?"]).expect_code(1);
        assert!(ran.stdout().is_empty() && ran.stderr().contains("{\"po"), "{vendor}: {ran}");
    }
    for (schema, why) in [
        ("{", "EOF"),
        (r#"{"properties": {"port": {"type": "int"}}}"#, "at `/properties/port/type`: "),
    ] {
        let rig = answering();
        rig.file("port.json", schema);
        let ran = rig.ask(&["--schema", "port.json", "go"]).expect_code(2);
        assert!(ran.stderr().contains("`port.json` is not used as a schema"), "{ran}");
        assert!(ran.stderr().contains(why), "{why}: {ran}");
        assert_eq!(rig.server.requests().len(), 0);
    }
}

/// Returns the JSON pointer to the answer's schema in a request.
fn schema_in_request(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::OpenAi => "/text/format/schema",
        Vendor::OpenAiChat => "/response_format/json_schema/schema",
        Vendor::Anthropic => "/output_config/format/schema",
        Vendor::Google => "/generationConfig/responseJsonSchema",
    }
}

#[test]
fn the_provider_holds_the_model_to_the_schema_where_it_can() {
    const SCHEMA: &str = r#"{
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": { "port": { "type": "integer" }, "host": { "type": "string" } },
        "required": ["port"]
    }"#;
    for vendor in Vendor::ALL {
        let is_strict = matches!(vendor, Vendor::OpenAi | Vendor::OpenAiChat);
        // In strict mode, each missing property is null.
        let answer = if is_strict { r#"{"port":8080,"host":null}"# } else { r#"{"port":8080}"# };
        let replies = [
            Reply::answer().call("glob", &json!({ "pattern": "*" })),
            Reply::answer().text(answer),
        ];
        let rig = Rig::new(vendor, replies);
        rig.file("port.json", SCHEMA);
        let ran = rig.ask(&["--schema", "port.json", "which port?"]).expect_code(0);
        assert_eq!(ran.stdout(), "{\"port\":8080}\n", "{vendor}: {ran}");
        assert!(!ran.stderr().contains("the schema"), "{vendor}: {ran}");
        let requests = rig.server.requests();
        assert_eq!(requests.len(), 2, "{vendor}");
        for request in &requests {
            let sent = request.body.pointer(schema_in_request(vendor)).expect("a schema");
            assert_eq!(
                sent["properties"]["port"],
                json!({ "type": "integer" }),
                "{vendor}: {sent}"
            );
            assert_eq!(sent.get("$schema"), None, "{vendor}: {sent}");
        }
        rig.assert_valid();
    }
}

#[test]
fn a_schema_that_a_provider_does_not_keep_to_is_still_checked() {
    for vendor in Vendor::ALL {
        let ask = |answer: &str, code: i32| {
            let rig = Rig::new(vendor, [Reply::answer().text(answer)]);
            rig.file("ports.json", r#"{ "type": "array", "items": { "type": "integer" } }"#);
            let ran = rig.ask(&["--schema", "ports.json", "which ports?"]).expect_code(code);
            let request = &rig.server.requests()[0].body;
            let is_sent = request.pointer(schema_in_request(vendor)).is_some();
            // Google accepts answers of any type.
            assert_eq!(is_sent, vendor == Vendor::Google, "{vendor}: {request}");
            let warned = ran.stderr().contains("the provider does not enforce it: `");
            assert_eq!(warned, !is_sent, "{vendor}: {ran}");
            assert!(request.to_string().contains("integer"), "the model is told: {request}");
            rig.assert_valid();
            ran.stdout()
        };
        assert_eq!(ask("[80, 443]", 0), "[80, 443]\n", "{vendor}");
        assert_eq!(ask("[\"http\"]", 1), "", "{vendor}");
    }
}

#[test]
fn a_model_that_takes_no_schema_is_asked_without_it() {
    for vendor in Vendor::ALL {
        let replies = [
            Reply::status(400, "this model has no structured outputs"),
            Reply::answer().call("glob", &json!({ "pattern": "*" })),
            Reply::answer().text("{\"port\": 1}"),
        ];
        let rig = Rig::new(vendor, replies);
        rig.file(
            "port.json",
            r#"{ "type": "object", "properties": { "port": { "type": "integer" } },
            "required": ["port"] }"#,
        );
        let ran = rig.ask(&["--schema", "port.json", "which port?"]).expect_code(0);
        assert_eq!(ran.stdout(), "{\"port\": 1}\n", "{vendor}: {ran}");
        let warned = "warning: asking again without the schema: ";
        assert_eq!(ran.stderr().matches(warned).count(), 1, "{vendor}: {ran}");
        let has_schema = |request: &ikigai_provider_testing::Received| {
            request.body.pointer(schema_in_request(vendor)).is_some()
        };
        let sent: Vec<bool> = rig.server.requests().iter().map(has_schema).collect();
        assert_eq!(sent, [true, false, false], "{vendor}");
    }
    // If the request was refused for another reason, it is refused again.
    let replies = [Reply::status(400, "no"), Reply::status(400, "no")];
    let rig = Rig::new(Vendor::Anthropic, replies);
    rig.file("any.json", r#"{ "type": "object", "properties": {} }"#);
    let ran = rig.ask(&["--schema", "any.json", "go"]).expect_code(1);
    assert!(ran.stderr().contains("error: the provider refused the request (400)"), "{ran}");
    assert_eq!(rig.server.requests().len(), 2);
}

#[test]
fn what_cannot_be_asked_is_a_matter_of_usage() {
    for (arguments, stdin, why) in [
        (&[][..], &b" \n"[..], "the prompt is missing"),
        (&["-"], b"", "the prompt is missing"),
        (&["/pin", "x"], b"", "`/pin` is a command of the REPL"),
        (&["go"], b"\xff", "stdin is not valid UTF-8"),
        (&["--max-rounds", "0", "go"], b"", "--max-rounds"),
        (&["--max-rounds", "51", "go"], b"", "--max-rounds"),
    ] {
        let rig = answering();
        let ran = rig.ask_with(arguments, stdin).expect_code(2);
        assert!(ran.stderr().contains(why), "{why}: {ran}");
        assert_eq!((ran.stdout().as_str(), rig.server.requests().len()), ("", 0), "{ran}");
    }
}

#[test]
fn without_a_key_or_a_model_it_says_what_to_set() {
    for vendor in Vendor::ALL {
        let ran = Host::new()
            .run(["ask", "--provider", vendor.as_str(), "--model", "m", "go"])
            .expect_code(2);
        assert!(ran.stderr().contains("no API key") && ran.stderr().contains("_API_KEY"), "{ran}");
    }
    let ran = Host::new().run(["ask", "--provider", "openai", "go"]).expect_code(2);
    assert!(ran.stderr().contains("--model"), "{ran}");
    Host::new().run(["ask", "--provider", "nobody", "--model", "m", "go"]).expect_code(2);
}

#[test]
fn a_transient_failure_is_reported_and_tried_again() {
    let replies = [
        Reply::trouble(Trouble::Overloaded).header("retry-after", "0"),
        Reply::answer().text("I see."),
    ];
    let rig = Rig::new(Vendor::Anthropic, replies);
    let ran = rig.ask(&["go"]).expect_code(0);
    assert_eq!(ran.stdout(), "I see.\n", "{ran}");
    assert!(ran.stderr().contains("trying again in"), "{ran}");
}

#[test]
fn a_refusal_is_no_answer() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(vendor, [Reply::answer().refused("not allowed")]);
        let ran = rig.ask(&["--json", "go"]).expect_code(1);
        assert_eq!(ran.json()["stop"], "refused", "{vendor}: {ran}");
    }
}

#[test]
fn an_answer_has_the_bound_that_the_configuration_sets() {
    for vendor in Vendor::ALL {
        let rig = Rig::new(vendor, [Reply::answer().text("Short.")]);
        let text = format!("[providers.{}]\nmax_tokens = 1234\n", vendor.as_str());
        rig.host.write("home/.config/ikigai/config.toml", text, 0o600);
        rig.ask(&["go"]).expect_code(0);
        assert!(rig.request(0).contains(":1234"), "{vendor}: {}", rig.request(0));
        rig.assert_valid();
    }
}

#[test]
fn a_model_is_asked_as_it_is_configured_and_its_thoughts_are_not_printed() {
    for vendor in Vendor::ALL {
        let provider = vendor.as_str();
        let rig = Rig::new(vendor, [Reply::answer().thinking("Hm.").text("Short.")]);
        let text = format!(
            "[providers.{provider}]\neffort = \"medium\"\nheaders = {{ X-Team = \"hush\" }}\n"
        );
        rig.host.write("home/.config/ikigai/config.toml", text, 0o600);
        let ran = rig.ask(&["--effort", "low", "go"]).expect_code(0);
        assert_eq!(ran.stdout(), "Short.\n", "{ran}");
        assert!(!ran.stderr().contains("Hm."), "{ran}");
        assert!(rig.request(0).contains("\"low\""), "{vendor}: {}", rig.request(0));
        assert_eq!(rig.server.requests()[0].header("x-team"), Some("hush"), "{vendor}");
        rig.assert_valid();
    }
}

#[test]
fn what_a_provider_has_no_word_for_is_a_matter_of_usage() {
    let rig = Rig::new(Vendor::Google, []);
    let ran = rig.ask(&["--effort", "max", "go"]).expect_code(2);
    assert!(ran.stderr().contains("--effort: `google` has no effort `max`"), "{ran}");
    let ran = rig.ask(&["--effort", "hard", "go"]).expect_code(2);
    assert!(ran.stderr().contains("unknown effort `hard`"), "{ran}");
    assert_eq!(rig.server.requests().len(), 0);
}

/// Checks the order: the host's own tool, then the tools that the configuration names, then the
/// system's.
#[test]
fn what_a_provider_has_no_room_for_is_chosen_and_named() {
    for vendor in Vendor::ALL {
        let provider = vendor.as_str();
        let rig = Rig::new(vendor, [Reply::answer().text("So."), Reply::answer().text("So.")]);
        let text = format!("[providers.{provider}]\nmax_tools = 3\nfirst_tools = [\"grep\"]\n");
        rig.host.write("home/.config/ikigai/config.toml", text, 0o600);
        let ran = rig.ask(&["go"]).expect_code(0);
        let request = rig.request(0);
        for (name, is_offered) in
            [("slash_command", true), ("grep", true), ("bash", true), ("file_read", false)]
        {
            let entry = format!("\"name\":\"{name}\"");
            assert_eq!(request.contains(&entry), is_offered, "{vendor} {name}: {request}");
        }
        let expected = format!(
            "4 tools are not offered to {provider}, which takes 3 (`max_tools`): file_edit, \
             file_read, file_write, glob."
        );
        assert!(ran.stderr().contains(&expected), "{vendor}: {ran}");
        rig.assert_valid();

        let ran = rig.host.run(["tool", "schema", "--provider", provider]).expect_code(0);
        assert!(ran.stderr().contains(&format!("warning: {expected}")), "{vendor}: {ran}");
        let sent = ran.stdout();
        for (name, is_sent) in [("grep", true), ("bash", true), ("glob", false)] {
            let entry = format!("\"name\": \"{name}\"");
            assert_eq!(sent.contains(&entry), is_sent, "{vendor} {name}: {ran}");
        }
        let report = rig.host.run(["doctor", "--json"]).json();
        let checks = report["checks"].as_array().expect("checks");
        let what = format!("tools for {provider}");
        let check = checks.iter().find(|check| check["what"] == what).expect("a check");
        let detail = check["detail"].as_str().expect("a text");
        assert!(
            detail.starts_with("3 of 7 are offered, ")
                && detail.contains("; a request has room for 3;"),
            "{check}"
        );
        assert!(detail.ends_with("; left out: file_edit, file_read, file_write, glob"), "{check}");
        assert_eq!(check["status"], "warn");
    }
}
