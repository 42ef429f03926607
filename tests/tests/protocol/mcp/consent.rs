//! Calls that need consent: the question in both eras of the protocol, and clients that try to
//! bypass it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ikigai_tests::host::Host;
use ikigai_tests::mcp::{Client, LEGACY};
use serde_json::{Value, json};

use crate::mcp::{server, text};

const ALWAYS: &str = "[tools.\"*\"]\napprove = \"always\"\n";

/// A tool that leaves a mark when it runs.
struct Marking {
    host: Host,
    mark: PathBuf,
}

impl Marking {
    /// Returns a host with the tools `mark` and `other` under this policy.
    fn new(policy: &str) -> Self {
        let host = Host::without_system_tools();
        let mark = host.workspace().join("mark");
        for name in ["mark", "other"] {
            host.script(name, &format!("echo {name} >> '{}'; echo 1", mark.display()));
        }
        let marking = Self { host, mark };
        marking.policy(policy);
        marking
    }

    fn policy(&self, policy: &str) {
        self.host.write_policy(policy);
    }

    /// Returns how often a tool has run.
    fn runs(&self) -> usize {
        fs::read_to_string(&self.mark).map_or(0, |text| text.lines().count())
    }

    fn modern(&self) -> Client {
        Client::start(&mut server(&self.host)).asking()
    }

    fn legacy(&self) -> Client {
        Client::legacy_asking(&mut server(&self.host), LEGACY[3])
    }

    fn records(&self) -> Vec<Value> {
        let log = self.host.run(["audit", "--json"]).expect_code(0).stdout();
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Calls a tool that needs consent, and returns the result with the question.
#[track_caller]
pub(crate) fn question(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let result = client.call(tool, arguments);
    assert_eq!(result["resultType"], "input_required", "{result}");
    let form = &result["inputRequests"]["approve"];
    assert_eq!(form["method"], "elicitation/create", "{result}");
    assert_eq!(form["params"]["requestedSchema"], json!({ "type": "object", "properties": {} }));
    result
}

pub(crate) fn message(question: &Value) -> &str {
    let message = &question["inputRequests"]["approve"]["params"]["message"];
    message.as_str().unwrap_or_else(|| panic!("{question}"))
}

/// Repeats a call with an answer, and returns the response.
pub(crate) fn repeat(
    client: &mut Client,
    (tool, arguments): (&str, &Value),
    question: &Value,
    action: &str,
) -> Value {
    client.request(
        "tools/call",
        json!({
            "name": tool,
            "arguments": arguments,
            "requestState": question["requestState"],
            "inputResponses": { "approve": { "action": action } },
        }),
    )
}

#[track_caller]
fn assert_refused(response: &Value, reason: &str) {
    assert_eq!(response["error"]["code"], -32602, "{response}");
    let message = response["error"]["message"].as_str().expect("a text");
    assert!(message.contains(reason), "{response}");
}

#[track_caller]
pub(crate) fn assert_denied(result: &Value, reason: &str) {
    assert_eq!(result["_meta"]["ikigai/error_code"], "PERMISSION_DENIED", "{result}");
    assert!(text(result).contains(reason), "{result}");
}

#[test]
fn a_call_of_the_newest_revision_is_repeated_with_the_answer() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.modern();
    let arguments = json!({ "a": "ho\u{202e}w" });
    let asked = question(&mut client, "mark", &arguments);
    let shown = message(&asked);
    for part in ["`mark`", r#"{"a":"ho\u{202e}w"}"#, "read and write", "policy.toml:2"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(marking.runs(), 0);
    let response = repeat(&mut client, ("mark", &arguments), &asked, "accept");
    assert_eq!(text(&response["result"]), "1", "{response}");
    assert_eq!(marking.runs(), 1);
    for action in ["decline", "cancel"] {
        let asked = question(&mut client, "mark", &arguments);
        let response = repeat(&mut client, ("mark", &arguments), &asked, action);
        assert_denied(&response["result"], "the user denied it");
    }
    client.wait().0.expect_code(0);
    assert_eq!(marking.runs(), 1);
    let records = marking.records();
    let seen = records.iter().map(|it| (&it["consent"]["answer"], &it["outcome"]));
    let expected = [
        ("pending", "PERMISSION_DENIED"),
        ("yes", "ok"),
        ("pending", "PERMISSION_DENIED"),
        ("no", "PERMISSION_DENIED"),
        ("pending", "PERMISSION_DENIED"),
        ("no", "PERMISSION_DENIED"),
    ];
    let expected = expected.map(|(answer, outcome)| (json!(answer), json!(outcome)));
    assert!(seen.eq(expected.iter().map(|(answer, outcome)| (answer, outcome))), "{records:?}");
    assert!(records.iter().all(|it| it["consent"]["by"] == "client"), "{records:?}");
    assert!(records.iter().all(|it| it["consent"]["waited_ms"].is_u64()), "{records:?}");
}

#[test]
fn an_answer_is_good_for_one_call_of_one_tool_with_its_arguments() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.modern();
    let (arguments, others) = (json!({ "a": 1 }), json!({ "a": 2 }));
    let asked = question(&mut client, "mark", &arguments);
    for (call, reason) in [(("mark", &others), "made up"), (("other", &arguments), "made up")] {
        assert_refused(&repeat(&mut client, call, &asked, "accept"), reason);
    }
    let mut forged = asked.clone();
    let state = asked["requestState"].as_str().expect("a state");
    forged["requestState"] = format!("{state}A").into();
    assert_refused(&repeat(&mut client, ("mark", &arguments), &forged, "accept"), "made up");
    assert_eq!(marking.runs(), 0);
    let unanswered = json!({
        "name": "mark", "arguments": arguments, "requestState": asked["requestState"],
    });
    assert_refused(&client.request("tools/call", unanswered), "no answer");
    // The answer is still valid for its own call, but only once.
    let response = repeat(&mut client, ("mark", &arguments), &asked, "accept");
    assert_eq!(text(&response["result"]), "1", "{response}");
    assert_refused(&repeat(&mut client, ("mark", &arguments), &asked, "accept"), "used before");
    assert_eq!(marking.runs(), 1);
    // An answer without a question has no effect.
    let uncalled = json!({
        "name": "mark", "arguments": arguments, "inputResponses": { "approve": { "action": "accept" } },
    });
    assert_eq!(client.result("tools/call", uncalled)["resultType"], "input_required");
    assert_eq!(marking.runs(), 1);
    client.wait().0.expect_code(0);
    // The refused calls are recorded as well.
    let refused = marking.records().iter().filter(|it| it.get("consent").is_none()).count();
    assert_eq!(refused, 5);
}

#[test]
fn an_answer_is_for_the_file_and_the_grant_that_were_asked_about() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.modern();
    let asked = question(&mut client, "mark", &json!({}));
    let mark = marking.mark.display();
    marking.host.script("mark", &format!("echo changed >> '{mark}'; echo 2"));
    assert_refused(&repeat(&mut client, ("mark", &json!({})), &asked, "accept"), "changed since");
    // The new policy grants more than the person agreed to.
    let asked = question(&mut client, "other", &json!({}));
    let digest = message(&asked).split("sha256 ").nth(1).expect("a digest");
    let digest = &digest[..64];
    marking.policy(&format!(
        "{ALWAYS}\n[tools.other]\nsha256 = [\"{digest}\"]\nfs = [\"rw:.\"]\nassets = \"read\"\n"
    ));
    assert_refused(&repeat(&mut client, ("other", &json!({})), &asked, "accept"), "changed since");
    client.wait().0.expect_code(0);
    // The file changes while the client's question is open.
    let mut client = marking.legacy();
    let id = client.ask_call("mark", &json!({}));
    let asked = client.wait_for(|it| it["method"] == "elicitation/create");
    marking.host.script("mark", &format!("echo once more >> '{mark}'; echo 3"));
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } }));
    assert_denied(&client.answer(id)["result"], "changed while the question was open");
    client.wait().0.expect_code(0);
    assert_eq!(marking.runs(), 0);
}

#[test]
fn a_yes_grants_nothing_that_policy_denies() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.modern();
    let asked = question(&mut client, "mark", &json!({}));
    marking.policy(&format!("profile = \"strict\"\n{ALWAYS}"));
    let response = repeat(&mut client, ("mark", &json!({})), &asked, "accept");
    assert_denied(&response["result"], "ikigai policy grant mark");
    // The denied call causes no question either.
    assert_denied(&client.call("mark", &json!({})), "ikigai policy grant mark");
    client.wait().0.expect_code(0);
    let mut client = marking.legacy();
    assert_denied(&client.call("mark", &json!({})), "ikigai policy grant mark");
    client.wait().0.expect_code(0);
    assert_eq!(marking.runs(), 0);
}

#[test]
fn a_client_that_shook_hands_is_sent_the_question() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.legacy();
    let answers = [
        (json!({ "result": { "action": "accept", "content": {} } }), None),
        (json!({ "result": { "action": "decline" } }), Some("the user denied it")),
        (json!({ "result": { "action": "cancel" } }), Some("the user denied it")),
        (json!({ "result": { "roots": [] } }), Some("not one to the question")),
        (json!({ "error": { "code": -32601, "message": "unknown" } }), Some("unknown")),
    ];
    for (mut answer, denied) in answers {
        let id = client.ask_call("mark", &json!({}));
        let asked = client.wait_for(|it| it["method"] == "elicitation/create");
        assert!(asked["params"]["message"].as_str().expect("a text").contains("`mark`"), "{asked}");
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = asked["id"].clone();
        client.send(&answer);
        let response = client.answer(id);
        match denied {
            None => assert_eq!(text(&response["result"]), "1"),
            Some(reason) => assert_denied(&response["result"], reason),
        }
    }
    client.wait().0.expect_code(0);
    assert_eq!(marking.runs(), 1);
    let answers: Vec<Value> =
        marking.records().iter().map(|it| it["consent"]["answer"].clone()).collect();
    assert_eq!(answers, ["yes", "no", "no", "unavailable", "unavailable"]);
}

#[test]
fn the_time_that_a_person_takes_for_the_answer_is_not_that_of_the_call() {
    let marking = Marking::new("[tools.mark]\napprove = \"always\"\n");
    marking.host.script("endless", "sleep 1000");
    let mut command = marking.host.command();
    command.args(["--timeout", "3s", "mcp", "serve"]);
    let mut client = Client::legacy_asking(&mut command, LEGACY[3]);
    let id = client.ask_call("mark", &json!({}));
    let asked = client.wait_for(|it| it["method"] == "elicitation/create");
    // A call that begins later with the same time limit ends before the answer.
    let result = client.call("endless", &json!({}));
    assert_eq!(result["_meta"]["ikigai/limit"], "wall_clock", "{result}");
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } }));
    assert_eq!(text(&client.answer(id)["result"]), "1");
    client.wait().0.expect_code(0);
    assert_eq!(marking.runs(), 1);
    let records = marking.records();
    let mark = records.iter().find(|it| it["tool"] == "mark").expect("recorded");
    assert!(mark["consent"]["waited_ms"].as_u64().expect("a time") >= 3_000, "{mark}");
}

#[test]
fn a_call_that_is_cancelled_takes_its_question_back() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.legacy();
    let id = client.ask_call("mark", &json!({}));
    let asked = client.wait_for(|it| it["method"] == "elicitation/create");
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    let taken_back = client.notification("notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], asked["id"], "{taken_back}");
    // A late answer has no effect.
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "accept" } }));
    assert_eq!(client.result("ping", json!({})), json!({}));
    // When a client ends, its questions end as well.
    client.ask_call("mark", &json!({}));
    client.wait_for(|it| it["method"] == "elicitation/create");
    client.close();
    let (ran, _) = client.wait();
    ran.expect_code(0);
    assert_eq!(marking.runs(), 0);
    let records = marking.records();
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(
        (&records[0]["cancelled"], &records[0]["consent"]["answer"]),
        (&json!(true), &json!("cancelled")),
        "{records:?}"
    );
}

#[test]
fn a_client_that_cannot_ask_is_told_so() {
    let marking = Marking::new(ALWAYS);
    let mut client = Client::start(&mut server(&marking.host));
    let error = client.request("tools/call", json!({ "name": "mark", "arguments": {} }));
    assert_eq!(error["error"]["code"], -32021, "{error}");
    assert!(error["error"]["data"]["requiredCapabilities"]["elicitation"].is_object(), "{error}");
    client.wait().0.expect_code(0);
    for revision in LEGACY {
        let mut client = Client::legacy(&mut server(&marking.host), revision).0;
        assert_denied(&client.call("mark", &json!({})), "lacks the capability `elicitation`");
        client.wait().0.expect_code(0);
    }
    assert_eq!(marking.runs(), 0);
    let records = marking.records();
    assert_eq!(records.len(), 1 + LEGACY.len());
    assert!(records.iter().all(|it| it["consent"]["answer"] == "unavailable"), "{records:?}");
}

#[test]
fn open_questions_are_bounded() {
    const OPEN: usize = 32;
    let marking = Marking::new(ALWAYS);
    let mut client = marking.legacy();
    let ids: Vec<u64> = (0..OPEN).map(|_| client.ask_call("mark", &json!({}))).collect();
    let asked: Vec<Value> =
        ids.iter().map(|_| client.wait_for(|it| it["method"] == "elicitation/create")).collect();
    assert_denied(&client.call("mark", &json!({})), "questions are open");
    // Other requests are served in the meantime, and an answer makes room.
    assert_eq!(client.result("ping", json!({})), json!({}));
    let no = |asked: &Value| json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
    client.send(&no(&asked[0]));
    let first = client.wait_for(|it| it.get("result").is_some());
    assert_denied(&first["result"], "the user denied it");
    client.ask_call("mark", &json!({}));
    client.wait_for(|it| it["method"] == "elicitation/create");
    client.close();
    client.wait().0.expect_code(0);
    // The oldest of the questions that are kept in states is dropped.
    let mut client = marking.modern();
    let asked: Vec<Value> = (0..=OPEN).map(|_| question(&mut client, "mark", &json!({}))).collect();
    let mut yes = |asked| repeat(&mut client, ("mark", &json!({})), asked, "accept");
    assert_refused(&yes(&asked[0]), "other questions");
    assert_eq!(text(&yes(&asked[OPEN])["result"]), "1");
    client.wait().0.expect_code(0);
    assert_eq!(marking.runs(), 1);
    marking.host.assert_nothing_left();
}

#[test]
fn a_long_question_shows_the_beginning_and_the_end_of_the_arguments() {
    let marking = Marking::new(ALWAYS);
    let mut client = marking.modern();
    let arguments = json!({ "first": "b".repeat(100_000), "last": "the end" });
    let asked = question(&mut client, "mark", &arguments);
    let shown = message(&asked);
    assert!(shown.chars().count() < 2_500, "{}", shown.len());
    assert!(shown.contains(r#"{"first":"bbb"#) && shown.contains("the end"), "{shown}");
    client.wait().0.expect_code(0);
}

fn serving(host: &Host, flag: &str) -> Command {
    let mut command = server(host);
    command.args(["--approve", flag]);
    command
}

#[test]
fn the_flag_tightens_what_policy_says_and_never_loosens_it() {
    let host = Host::new();
    host.write("workspace/a", "a\n", 0o644);
    let read = json!({ "file_path": "a" });
    let write = json!({ "file_path": "b", "content": "b" });
    let mut client = Client::start(&mut serving(&host, "changes")).asking();
    assert_eq!(text(&client.call("file_read", &read)), "a\n");
    let asked = question(&mut client, "file_write", &write);
    assert!(message(&asked).contains("--approve"), "{asked}");
    assert!(message(&asked).contains("read and write"), "{asked}");
    let response = repeat(&mut client, ("file_write", &write), &asked, "accept");
    assert_eq!(response["result"]["isError"], false, "{response}");
    let written = fs::read_to_string(host.scratch().join("workspace/b")).expect("written");
    assert_eq!(written, "b");
    client.wait().0.expect_code(0);
    host.write("workspace/.ikigai/policy.toml", "[tools.grep]\napprove = \"always\"\n", 0o644);
    let mut client = Client::start(&mut serving(&host, "none")).asking();
    let asked = question(&mut client, "grep", &json!({ "pattern": "a" }));
    assert!(message(&asked).contains(".ikigai/policy.toml:2"), "{asked}");
    client.wait().0.expect_code(0);
}

#[test]
fn where_nobody_can_be_asked_the_call_is_refused() {
    let marking = Marking::new("[tools.mark]\napprove = \"changes\"\n");
    let host = &marking.host;
    let envelope = host.run(["tool", "call", "mark", "{}"]).expect_code(1).json();
    assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{envelope}");
    let error = envelope["error"].as_str().expect("a text");
    for part in ["approve = \"changes\"", "policy.toml:2", "at a terminal", "ikigai mcp serve"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let ran = host.run(["tool", "run", "mark"]).expect_code(126);
    assert!(ran.stderr().contains("policy.toml:2"), "{ran}");
    assert_eq!(host.run(["tool", "call", "other", "{}"]).expect_code(0).json()["result"], 1);
    assert_eq!(marking.runs(), 1);
    assert_eq!(marking.records()[0]["consent"], json!({ "answer": "unavailable", "waited_ms": 0 }));
    // `policy show` announces this in advance.
    let shown = host.run(["policy", "show", "mark", "--json"]).expect_code(0).json();
    assert_eq!(shown["tools"][0]["approve"], "changes", "{shown}");
    let by = shown["tools"][0]["decided_by"]["approve"][0].as_str().expect("a source");
    assert!(by.ends_with("policy.toml:2"), "{shown}");
    let shown = host.run(["policy", "show", "mark"]).expect_code(0).stdout();
    assert!(shown.contains("approve"), "{shown}");
    let tested = host.run(["policy", "test", "mark"]).expect_code(0).stdout();
    assert!(tested.contains("once somebody agrees"), "{tested}");
    // A new grant keeps it.
    host.run(["policy", "grant", "mark", "--replace", "--read", ".", "--yes"]).expect_code(0);
    let shown = host.run(["policy", "show", "mark", "--json"]).expect_code(0).json();
    assert_eq!(shown["tools"][0]["approve"], "changes", "{shown}");
    assert_eq!(shown["tools"][0]["needs_consent"], false, "it may only read: {shown}");
}
