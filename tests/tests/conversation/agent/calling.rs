//! Calls that fail, many calls at once, and the order of calls that conflict.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_tests::host::{Host, Ran};
use ikigai_tests::paths;
use serde_json::{Value, json};

use crate::agent::rig::{Rig, envelopes};

#[test]
fn a_model_is_told_what_is_wrong_with_a_call() {
    for vendor in Vendor::ALL {
        let mut answer = Reply::answer()
            .call("file_raed", &json!({ "file_path": "a" }))
            .call("file_read", &json!({ "file_path": "missing" }));
        if vendor != Vendor::Google {
            // Google's format can only express arguments that are an object.
            answer = answer.call_raw("file_read", "{\"file_path\":").call_raw("glob", "[1]");
        }
        let rig = Rig::new(vendor, [answer, Reply::answer().text("I see.")]);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let envelopes = envelopes(&ran.json());
        assert_eq!(envelopes[0]["error_code"], "TOOL_NOT_FOUND", "{ran}");
        assert_eq!(envelopes[1]["result"]["error_code"], "FILE_NOT_FOUND", "{ran}");
        for envelope in &envelopes[2..] {
            assert_eq!(envelope["error_code"], "INVALID_PARAMS", "{ran}");
            assert_eq!(envelope["tool_success"], false, "{ran}");
        }
        for line in ["✗ file_raed (", "Tool 'file_raed' not found", "File not found: missing"] {
            assert!(ran.stderr().contains(line), "{line}: {ran}");
        }
        if vendor == Vendor::Anthropic {
            let flagged = rig.request(1).matches("\"is_error\":true").count();
            assert_eq!(flagged, 3, "the one that ran is none: {}", rig.request(1));
        }
        rig.assert_valid();
    }
}

#[test]
fn a_tool_that_policy_denies_is_not_offered_and_a_call_of_it_is_refused() {
    let answer = Reply::answer().call("grep", &json!({ "pattern": "x" }));
    let rig = Rig::new(Vendor::Anthropic, [answer, Reply::answer().text("I see.")]);
    rig.host.write_policy("[tools.grep]\ndeny = true\n");
    let ran = rig.ask(&["--json", "--denied-ok", "go"]).expect_code(0);
    let request: Value = serde_json::from_str(&rig.request(0)).expect("JSON");
    let offered = request["tools"].as_array().expect("a list");
    let is_offered = |name: &str| offered.iter().any(|tool| tool["name"] == name);
    assert!(is_offered("glob") && !is_offered("grep"), "{request:#}");
    let envelope = &envelopes(&ran.json())[0];
    assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{ran}");
    assert!(envelope["error"].to_string().contains("denies this tool"), "{ran}");
    rig.assert_valid();
}

#[test]
fn one_id_for_two_calls_is_two_calls() {
    for vendor in Vendor::ALL {
        let read = |name| json!({ "file_path": name });
        let rig = Rig::new(
            vendor,
            [
                Reply::answer().call_as("same", "file_read", &read("a")).call_as(
                    "same",
                    "file_read",
                    &read("b"),
                ),
                Reply::answer().call_as("same", "file_read", &read("c")),
                Reply::answer().text("Done."),
            ],
        );
        for name in ["a", "b", "c"] {
            rig.file(name, name);
        }
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let read = envelopes(&ran.json());
        let read: Vec<_> = read.iter().map(|envelope| &envelope["result"]["output"]).collect();
        assert_eq!(read, ["a", "b", "c"], "{ran}");
        rig.assert_valid();
    }
}

#[test]
fn two_hundred_calls_of_one_answer() {
    const MANY: usize = 200;
    let name = |number: usize| format!("file-{number}");
    let calls = (0..MANY).fold(Reply::answer(), |answer, number| {
        answer.call("file_read", &json!({ "file_path": name(number) }))
    });
    let rig = Rig::new(Vendor::OpenAi, [calls, Reply::answer().text("All read.")]);
    (0..MANY).for_each(|number| rig.file(&name(number), format!("content {number}")));
    let ran = rig.ask(&["--json", "read all"]).expect_code(0);
    let envelopes = envelopes(&ran.json());
    assert_eq!(envelopes.len(), MANY);
    for (number, envelope) in envelopes.iter().enumerate() {
        assert_eq!(envelope["result"]["output"], format!("content {number}"), "{envelope}");
    }
    rig.assert_valid();
}

#[test]
fn a_flood_of_calls_does_not_turn_the_audit_log_over() {
    const MANY: usize = 2_000;
    let first = Reply::answer().call("glob", &json!({ "pattern": "*" }));
    let flood = (0..MANY).fold(Reply::answer(), |answer, _| answer.call("nothing", &json!({})));
    let rig = Rig::new(Vendor::Anthropic, [first, flood, Reply::answer().text("Done.")]);
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    let envelopes = envelopes(&ran.json());
    assert_eq!(envelopes.len(), 1 + MANY, "every call has its result");
    let is_run = |envelope: &&Value| envelope["error_code"] == "TOOL_NOT_FOUND";
    assert_eq!(envelopes.iter().filter(is_run).count(), 256);
    let last = envelopes[MANY]["error"].as_str().expect("an error");
    assert!(last.contains("the first 256 calls"), "{last}");
    assert!(ran.stderr().contains("asked for 2000 calls at once"), "{ran}");
    let audit = rig.host.run(["audit", "--json", "--tail", "10000"]).expect_code(0).stdout();
    assert_eq!(audit.lines().count(), 1 + 256);
    rig.assert_valid();
}

#[test]
fn changes_of_one_file_are_made_in_their_order() {
    const EDITS: usize = 20;
    let edit = |number: usize| {
        let path = if number.is_multiple_of(2) { "a.txt" } else { "./missing/../a.txt" };
        json!({
            "file_path": path,
            "old_string": format!("v{number}."),
            "new_string": format!("v{}.", number + 1),
        })
    };
    let write = json!({ "file_path": "a.txt", "content": "v0." });
    let answer = Reply::answer().call("file_write", &write);
    let answer = (0..EDITS).fold(answer, |answer, it| answer.call("file_edit", &edit(it)));
    let answer = answer.call("file_read", &json!({ "file_path": "a.txt" }));
    let rig = Rig::new(Vendor::Anthropic, [answer, Reply::answer().text("Done.")]);
    std::fs::create_dir(rig.host.workspace().join("missing")).expect("a directory of the test");
    let ran = rig.ask(&["--json", "edit"]).expect_code(0);
    let envelopes = envelopes(&ran.json());
    assert_eq!(envelopes[EDITS + 1]["result"]["output"], format!("v{EDITS}."), "{ran}");
    rig.assert_valid();
}

#[test]
fn commands_of_the_shell_run_in_their_order() {
    let append = |number: usize| json!({ "command": format!("printf {number}, >> log") });
    let answer = (0..10).fold(Reply::answer(), |answer, it| answer.call("bash", &append(it)));
    let rig = Rig::new(Vendor::OpenAiChat, [answer, Reply::answer().text("Done.")]);
    let ran = rig.ask(&["go"]).expect_code(0);
    let log = std::fs::read_to_string(rig.host.workspace().join("log")).expect("a log");
    assert_eq!(log, "0,1,2,3,4,5,6,7,8,9,", "{ran}");
}

#[test]
fn a_model_that_goes_in_circles_is_stopped() {
    let again = |_: &_| Reply::answer().call("glob", &json!({ "pattern": "*" }));
    let rig = Rig::with(Vendor::OpenAi, again);
    let ran = rig.ask(&["--json", "go"]).expect_code(1);
    assert_eq!(rig.server.requests().len(), 50);
    let told = ran.json();
    assert_eq!((&told["stop"], &told["rounds"]), (&json!("exhausted"), &json!(50)), "{ran}");
    assert_eq!(envelopes(&told).len(), 50, "what was called has run");
    let last = told["messages"].as_array().and_then(|all| all.last()).expect("a message");
    assert!(last["parts"][0]["result"].is_object(), "every call has its result: {last}");
    assert!(ran.stderr().contains("after 50 requests"), "{ran}");
    rig.assert_valid();

    let rig = Rig::with(Vendor::Google, again);
    rig.ask(&["--max-rounds", "2", "go"]).expect_code(1);
    assert_eq!(rig.server.requests().len(), 2);
}

#[test]
fn calls_of_an_answer_that_was_cut_off_do_not_run_and_are_asked_for_once_more() {
    let write = json!({ "file_path": "a.txt", "content": "half" });
    let cut = || Reply::answer().text("I shall").call("file_write", &write).cut_by_length();
    for vendor in Vendor::ALL {
        let rig = Rig::new(vendor, [cut(), cut()]);
        let ran = rig.ask(&["--json", "go"]).expect_code(1);
        assert!(!rig.host.workspace().join("a.txt").exists(), "{vendor}: {ran}");
        assert_eq!(ran.json()["stop"], "cut", "{vendor}: {ran}");
        assert_eq!(ran.json()["calls"], Value::Array(Vec::new()), "{vendor}: {ran}");
        rig.assert_valid();

        let whole = Reply::answer().call("file_write", &write);
        let rig = Rig::new(vendor, [cut(), whole, Reply::answer().text("Done.")]);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        assert!(rig.host.workspace().join("a.txt").exists(), "{vendor}: {ran}");
        assert!(rig.request(1).contains("smaller calls"), "{vendor}: {}", rig.request(1));
        assert!(!rig.request(2).contains("smaller calls"), "it is no part of the conversation");
        assert_eq!(ran.json()["usage"]["output"], 21, "each of the three is counted: {ran}");
        rig.assert_valid();
    }
}

#[test]
fn an_answer_that_was_cut_in_its_text_is_not_asked_for_again() {
    let rig = Rig::new(Vendor::Anthropic, [Reply::answer().text("I sh").cut_by_length()]);
    let ran = rig.ask(&["--json", "go"]).expect_code(1);
    assert_eq!(ran.json()["stop"], "cut", "{ran}");
    assert_eq!(rig.server.requests().len(), 1);
}

#[test]
fn of_content_blocks_a_model_reads_the_texts() {
    let answer = r#"{"content":[{"type":"text","text":"as it looks:"},{"type":"image","data":"AAEC","mimeType":"image/png"}],"isError":%s}"#;
    let schema = r#"{"name":"shot","description":"","parameters":{},"result":"content"}"#;
    for (is_error, expected) in [
        ("false", json!("as it looks:\n[image of type image/png, 3 bytes]")),
        (
            "true",
            json!({
                "error": "as it looks:\n[image of type image/png, 3 bytes]",
                "error_code": "TOOL_ERROR",
            }),
        ),
    ] {
        let call = Reply::answer().call("shot", &json!({}));
        let rig = Rig::new(Vendor::Anthropic, [call, Reply::answer().text("I see.")]);
        let answer = answer.replace("%s", is_error);
        rig.host.program(
            "shot",
            format!(
                "#!/bin/sh\nif [ \"$1\" = --schema ]; then echo '{schema}'; else echo '{answer}'; fi\n"
            ),
        );
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        assert_eq!(envelopes(&ran.json())[0]["result"], expected, "{ran}");
        assert!(!rig.request(1).contains("AAEC"), "the image was sent: {}", rig.request(1));
        rig.assert_valid();
    }
}

#[test]
fn a_model_calls_the_tools_of_a_server_that_somebody_approved() {
    for vendor in Vendor::ALL {
        let arguments = json!({ "word": "roof" });
        let calls = Reply::answer().call("peer__echo", &arguments).call("peer__error", &json!({}));
        let replies = [calls, Reply::answer().text("I see.")];
        let rig = Rig::with_host(Host::without_system_tools(), FakeServer::start(vendor, replies));
        let definition = json!({ "tools": [
            { "name": "echo", "description": "Says it again.", "does": "echo" },
            { "name": "error", "does": "error" },
            { "name": "env", "does": "env" },
        ] });
        let file = rig.host.write("peer/peer.json", definition.to_string(), 0o644);
        let dir = file.parent().expect("a directory").display().to_string();
        let (program, file) = (paths::programs().join("mcp-peer"), file.display().to_string());
        let program = program.display().to_string();
        let add = ["mcp", "add", "peer", "--read", &dir, "--", &program, &file];
        // The test has no person who could approve the tools.
        rig.host.run(add).expect_code(1);
        rig.host.run(["mcp", "approve", "peer", "echo", "error", "--yes"]).expect_code(0);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let envelopes = envelopes(&ran.json());
        assert_eq!(envelopes[0]["result"], r#"{"word":"roof"}"#, "{ran}");
        let failure = json!({ "error": "the tool failed", "error_code": "TOOL_ERROR" });
        assert_eq!(envelopes[1]["result"], failure, "{ran}");
        let offered = rig.request(0);
        for part in ["peer__echo", "Says it again.", "peer__error"] {
            assert!(offered.contains(part), "{vendor}: {part}: {offered}");
        }
        assert!(!offered.contains("peer__env"), "{vendor}: it was not approved: {offered}");
        rig.assert_valid();
        rig.host.assert_nothing_left();
    }
}

#[test]
fn the_shell_has_two_minutes_in_a_conversation_and_what_it_printed_stays() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("Hello.")]);
    rig.ask(&["hello"]).expect_code(0);
    assert!(rig.request(0).contains("A command is ended after 2m;"), "{}", rig.request(0));

    let slow = || {
        let command = json!({ "command": "echo first; sleep 1000; echo never" });
        Rig::new(
            Vendor::OpenAi,
            [Reply::answer().call("bash", &command), Reply::answer().text("Done.")],
        )
    };
    let assert_ended = |ran: &Ran| {
        let envelope = envelopes(&ran.json())[0].clone();
        assert_eq!(envelope["limit"], "wall_clock", "{ran}");
        let stdout = envelope["stdout"].as_str().expect("a text");
        assert!(stdout.contains("first") && !stdout.contains("never"), "{ran}");
    };
    let rig = slow();
    assert_ended(&rig.ask(&["--json", "--timeout", "500ms", "go"]).expect_code(0));
    let rig = slow();
    let policy = "[tools.bash]\nlimits = { wall_clock = \"500ms\" }\n";
    rig.host.write_policy(policy);
    assert_ended(&rig.ask(&["--json", "go"]).expect_code(0));
}

#[test]
fn a_program_that_the_sandbox_hides_is_said_to_be_hidden_and_the_grant_shows_it() {
    let call = || Reply::answer().call("bash", &json!({ "command": "mine; nobodys; mine" }));
    let done = || Reply::answer().text("Done.");
    let rig = Rig::new(Vendor::Anthropic, [call(), call(), done(), call(), done()]);
    let bin = rig.host.home().join(".mine/bin");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let rig = Rig { host: rig.host.env("PATH", path), server: rig.server };
    rig.host.write("home/.mine/bin/mine", "#!/bin/sh\necho found-it\n", 0o755);
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    let told = format!(
        "warning: bash runs in a sandbox without your home directory, and does not see `{}`; \
         `ikigai policy grant bash --read {}` lets it look there",
        bin.join("mine").display(),
        rig.host.home().join(".mine").display()
    );
    let said = ran.stderr();
    assert_eq!(said.lines().filter(|line| **line == told).count(), 1, "once: {told}\n{ran}");
    assert!(!said.contains("nobodys`"), "{ran}");

    let dir = rig.host.home().join(".mine");
    let grant = ["policy", "grant", "bash", "--read", dir.to_str().expect("UTF-8")];
    rig.host.run([&grant[..], &["--yes"]].concat()).expect_code(0);
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    assert!(envelopes(&ran.json())[0].to_string().contains("found-it"), "{ran}");
    assert!(!ran.stderr().contains("sandbox"), "{ran}");
    rig.assert_valid();
}

#[test]
fn a_program_of_a_toolchain_is_said_to_be_hidden_with_the_grant_of_the_toolchain() {
    let call = Reply::answer().call("bash", &json!({ "command": "cargo test" }));
    let rig = Rig::new(Vendor::Anthropic, [call, Reply::answer().text("Done.")]);
    let bin = rig.host.home().join(".cargo/bin");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let rig = Rig { host: rig.host.env("PATH", path), server: rig.server };
    rig.host.write("home/.cargo/bin/cargo", "#!/bin/sh\n", 0o755);
    // A call that a grant would have allowed counts as refused.
    let ran = rig.ask(&["--json", "go"]).expect_code(3);
    let told = format!(
        "warning: bash runs in a sandbox without your home directory, and does not see `{}`; \
         `ikigai policy grant bash --toolchain rust` lets it use the whole toolchain",
        bin.join("cargo").display()
    );
    assert!(ran.stderr().lines().any(|line| line == told), "{told}\n{ran}");
}

#[test]
fn a_network_that_the_sandbox_lacks_is_said_to_be_missing() {
    let command = json!({ "command": "echo 'curl: (6) Could not resolve host: example.org'" });
    let rig = Rig::new(
        Vendor::OpenAi,
        [Reply::answer().call("bash", &command), Reply::answer().text("Done.")],
    );
    let ran = rig.ask(&["go"]).expect_code(0);
    let told = "warning: bash runs in a sandbox without a network, and the output of a command has \
                \"could not resolve host\"; `ikigai policy grant bash --net HOST:PORT` \
                lets it connect to a host";
    assert!(ran.stderr().contains(told), "{told}\n{ran}");

    // A grant that the policy forbids is not recommended.
    let rig = Rig::new(
        Vendor::OpenAi,
        [Reply::answer().call("bash", &command), Reply::answer().text("Done.")],
    );
    rig.host.write("workspace/.ikigai/policy.toml", "[tools.bash]\nnet = []\n", 0o600);
    let ran = rig.ask(&["go"]).expect_code(0);
    assert!(ran.stderr().contains("\"could not resolve host\"\n"), "{ran}");
}
