//! The dialogue of the specification with the model's own commands, and the commands that a model
//! may not use.

use ikigai_provider_testing::{Reply, Vendor};
use serde_json::{Value, json};

use crate::agent::rig::{Rig, envelopes};

fn text(tokens: usize) -> String {
    "a b\n".repeat(tokens)
}

fn command(line: &str) -> Reply {
    Reply::answer().call("slash_command", &json!({ "command": line }))
}

fn put(rig: &Rig, path: &str, content: &str) {
    rig.host.run_with(["asset", "put", path], content.as_bytes()).expect_code(0);
}

fn get(rig: &Rig, path: &str) -> String {
    rig.host.run(["asset", "get", path]).expect_code(0).stdout()
}

#[test]
fn a_model_makes_room_for_what_it_writes() {
    for vendor in Vendor::ALL {
        let large = "ikigai:///blocks/large-doc.md";
        let write = || {
            let arguments = json!({ "file_path": large, "content": text(80_000) });
            Reply::answer().call("file_write", &arguments).fragments_of(100_000)
        };
        let read = json!({ "file_path": "ikigai:///blocks/old-block.md" });
        let rig = Rig::new(
            vendor,
            [
                write(),
                Reply::answer().call("file_read", &read),
                command("/compact blocks/old-block"),
                Reply::answer().text(&text(2_500)),
                write(),
                Reply::answer().text("Written."),
            ],
        );
        put(&rig, "blocks/large-doc.md", &text(70_000));
        put(&rig, "blocks/old-block.md", &text(25_000));
        for path in ["large-doc", "old-block"] {
            rig.host.run(["asset", "pin", path]).expect_code(0);
        }
        let ran = rig.ask(&["--json", "write it"]).expect_code(0);
        rig.assert_valid();
        let envelopes = envelopes(&ran.json());
        assert_eq!(
            envelopes[0]["result"],
            json!({
                "error": "Block budget exceeded: 95k/100k tokens. This write would use 80k \
                          tokens. Use /compact or /unpin to free space.",
                "error_code": "BUDGET_EXCEEDED",
            })
        );
        assert_eq!(
            envelopes[2],
            json!({
                "tool_success": true,
                "result": {
                    "output": "Compacted blocks/old-block.md: 25.0k → 2.5k tokens. Block budget: \
                               72k/100k.",
                },
            })
        );
        assert_eq!(envelopes[3]["result"]["bytes"], 320_000, "{}", envelopes[3]);
        assert_eq!(get(&rig, "large-doc"), text(80_000));
        assert_eq!(get(&rig, "old-block"), text(2_500));
        let log = rig.host.run(["asset", "log", "old-block", "--json"]).expect_code(0).json();
        assert_eq!(log["versions"][1]["replaced"]["cause"], "compact", "{log}");
        let compaction = rig.request(3);
        assert!(!compaction.contains("file_write"), "it has no tools");
    }
}

#[test]
fn a_proposal_that_loses_something_is_refused() {
    let old = "Long, and long, and long.\nSee ikigai:///blocks/other.md and more, and more.\n";
    let proposals = [
        (Reply::answer().text("Short."), "drops ikigai:///blocks/other.md"),
        (Reply::answer().text(old), "is not shorter"),
        (Reply::answer().text("ikigai:///blocks/other.md").cut_by_length(), "was cut off"),
        (Reply::answer().refused("policy"), "the model refused"),
    ];
    for (proposal, why) in proposals {
        let rig = Rig::new(
            Vendor::Anthropic,
            [command("/compact x"), proposal, Reply::answer().text("I see.")],
        );
        put(&rig, "blocks/x.md", old);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let result = envelopes(&ran.json())[0]["result"].clone();
        let error = result["error"].as_str().unwrap_or_else(|| panic!("{ran}"));
        assert!(error.starts_with("`blocks/x.md` was not compacted: "), "{error}");
        assert!(error.contains(why), "{why}: {error}");
        assert_eq!(result["error_code"], "INVALID_ARG");
        assert_eq!(get(&rig, "x"), old);
    }
}

#[test]
fn an_asset_that_is_read_only_stays_as_it_is() {
    let rig = Rig::new(Vendor::OpenAi, [command("/compact x"), Reply::answer().text("I see.")]);
    put(&rig, "x", "text");
    rig.host.run_with(["asset", "put", "--read-only", "x"], b"text").expect_code(0);
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    let result = &envelopes(&ran.json())[0]["result"];
    assert_eq!(
        *result,
        json!({ "error": "asset `x` is read-only", "error_code": "READ_ONLY" }),
        "{ran}"
    );
}

#[test]
fn a_model_arranges_its_context() {
    let lines = ["/pin x", "/pin blocks/x.md", "/pinned", "/unpin x", "/pin \"y\"", "/tool glop"];
    let answer = lines.into_iter().fold(Reply::answer(), |answer, line| {
        answer.call("slash_command", &json!({ "command": line }))
    });
    let rig = Rig::new(Vendor::Google, [answer, Reply::answer().text("Done.")]);
    put(&rig, "blocks/x.md", &text(2_000));
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    let said: Vec<Value> = envelopes(&ran.json())
        .iter()
        .map(|envelope| match &envelope["result"]["output"] {
            Value::Null => envelope["result"]["error"].clone(),
            output => output.clone(),
        })
        .collect();
    assert_eq!(
        said,
        [
            "Pinned: blocks/x.md",
            "Already pinned: blocks/x.md",
            "Pinned Blocks (2k/100k tokens):\n  blocks/x.md (2k tokens)",
            "Unpinned: blocks/x.md",
            "no asset `y`",
            "tool `glop` not found; did you mean `glob`?",
        ],
        "{ran}"
    );
    let audit = rig.host.run(["audit", "--json"]).expect_code(0).stdout();
    assert_eq!(audit.matches("\"slash_command\"").count(), lines.len(), "{audit}");
}

#[test]
fn a_model_may_command_nothing_else() {
    for line in ["/refresh", "/env A=B", "/system x", "/blocks", "/clear", "/exit", "ls", ""] {
        let rig = Rig::new(Vendor::OpenAiChat, [command(line), Reply::answer().text("I see.")]);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        let envelope = &envelopes(&ran.json())[0];
        assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{line}: {ran}");
        let error = envelope["error"].as_str().expect("a text");
        assert!(error.contains("is not for models; slash_command takes /compact, "), "{error}");
        rig.assert_valid();
    }
    let arguments = json!({ "line": "/pinned" });
    let rig = Rig::new(
        Vendor::Anthropic,
        [Reply::answer().call("slash_command", &arguments), Reply::answer().text("I see.")],
    );
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    assert_eq!(envelopes(&ran.json())[0]["error_code"], "INVALID_PARAMS", "{ran}");
}

#[test]
fn no_tool_takes_the_name_of_the_hosts_own() {
    let rig = Rig::new(Vendor::OpenAi, [command("/pinned"), Reply::answer().text("I see.")]);
    rig.host.script("slash_command", "touch ran; echo '{}'");
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    assert_eq!(envelopes(&ran.json())[0]["result"]["output"], "No pinned assets.", "{ran}");
    assert!(!rig.host.workspace().join("ran").exists());
}

#[test]
fn what_policy_forbids_a_model_cannot_command() {
    let asked = || {
        let lines = ["/pin secret", "/unpin pinned", "/compact secret", "/pinned", "/tool glob"];
        let answer = lines.into_iter().fold(Reply::answer(), |answer, line| {
            answer.call("slash_command", &json!({ "command": line }))
        });
        let rig = Rig::new(Vendor::Anthropic, [answer, Reply::answer().text("I see.")]);
        for path in ["secret", "pinned"] {
            put(&rig, path, "a text that is nobody's business, and long enough\n");
        }
        rig.host.run(["asset", "pin", "pinned"]).expect_code(0);
        rig
    };
    for (granted, refused) in [("none", &[0, 1, 2, 3][..]), ("read", &[1, 2])] {
        let rig = asked();
        let policy = format!("[tools.slash_command]\nassets = \"{granted}\"\n");
        rig.file(".ikigai/policy.toml", policy);
        let ran = rig.ask(&["--json", "go"]).expect_code(0);
        for (number, envelope) in envelopes(&ran.json()).iter().enumerate() {
            let is_refused = envelope["result"]["error_code"] == "PERMISSION_DENIED";
            assert_eq!(is_refused, refused.contains(&number), "{granted} {number}: {envelope}");
        }
        let pins = rig.host.run(["asset", "pin", "--json"]).expect_code(0).stdout();
        assert_eq!(pins.contains("secret"), granted == "read", "{pins}");
        assert!(pins.contains("pinned"), "{pins}");
        let audit = rig.host.run(["audit", "--json"]).expect_code(0).stdout();
        assert!(audit.contains("policy.toml:2"), "who decided is recorded: {audit}");
    }
}

#[test]
fn an_asset_that_is_short_enough_is_not_rewritten() {
    let rig = Rig::new(Vendor::OpenAi, [command("/compact x 4k"), Reply::answer().text("I see.")]);
    put(&rig, "x", "a few words\n");
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    assert_eq!(rig.server.requests().len(), 2, "nobody was asked to rewrite it");
    assert_eq!(
        envelopes(&ran.json())[0]["result"]["error"],
        "`x` was not compacted: it has 3 tokens, and should have at most 4k"
    );
}
