//! `ikigai doctor`: its checks of this machine, its advice, and its exit code.

mod download;

use std::fs;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use serde_json::Value;

/// Returns the check of this name.
#[track_caller]
fn check(ran: &Ran, what: &str) -> Value {
    let report = ran.json();
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().find(|check| check["what"] == what);
    found.unwrap_or_else(|| panic!("nothing of `{what}`\n{ran}")).clone()
}

fn doctor(host: &Host) -> Ran {
    host.run(["doctor", "--json"])
}

#[test]
fn a_machine_that_lacks_nothing_is_reported_as_good() {
    let host = Host::new();
    host.script("tool", "echo 1");
    let ran = doctor(&host).expect_code(0);
    assert_eq!(ran.json()["good"], true);
    for check in ran.json()["checks"].as_array().expect("checks") {
        for member in ["section", "what", "detail"] {
            assert!(check[member].as_str().is_some_and(|text| !text.is_empty()), "{check}");
        }
        let status = check["status"].as_str().expect("text");
        // Each check that is not ok has advice, unless the checks that it summarises have it.
        let sandbox = check["section"].as_str().is_some_and(|it| it.contains("native sandbox"));
        assert!(check.get("advice").is_some() == (status != "ok") || sandbox, "{check}");
    }
    assert_eq!(check(&ran, "runtime")["status"], "ok");
    // The output uses a user's words, and not the runtime's internal ones.
    let text = host.run(["doctor"]).stdout();
    for word in ["Winch", "Cranelift", "pagemap scan", "  there\n", " 1 files"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let tools = |what| check(&ran, what)["detail"].as_str().expect("text").to_owned();
    assert!(tools("built-in tools").starts_with("6 in `"), "{ran}");
    assert!(tools("user tools").starts_with("1 in `"), "{ran}");
    assert!(tools("user tools").ends_with("0 components, 1 native"), "{ran}");
    assert!(!host.state().exists(), "it only looks\n{ran}");
    let told = host.run(["doctor"]).expect_code(0).stdout();
    assert!(told.contains("machine\n  ok    ikigai") && !told.contains('\x1b'), "{told}");
}

#[test]
fn a_policy_that_cannot_be_used_is_one_of_its_checks() {
    let host = Host::new();
    host.write_policy("profile = 1\n");
    let ran = doctor(&host).expect_code(1);
    assert_eq!(ran.json()["good"], false);
    let policy = check(&ran, "policy");
    assert_eq!(policy["status"], "fail", "{ran}");
    let detail = policy["detail"].as_str().expect("text");
    assert!(detail.contains("policy.toml:1:") && !detail.contains('\n'), "{ran}");
    assert_eq!(check(&ran, "runtime")["status"], "ok", "the others are made");
}

#[test]
fn keys_are_shown_by_their_names_alone() {
    let host = Host::new().env("OPENAI_API_KEY", "sk-of-the-test").env("GEMINI_API_KEY", "");
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        let ran = host.run(args).expect_code(0);
        assert!(!ran.stdout().contains("sk-of-the-test"), "{ran}");
        assert!(!ran.stderr().contains("sk-of-the-test"), "{ran}");
    }
    let ran = doctor(&host);
    assert!(check(&ran, "OPENAI_API_KEY")["detail"].as_str().expect("text").starts_with("set"));
    for name in ["GEMINI_API_KEY", "ANTHROPIC_API_KEY"] {
        assert_eq!(check(&ran, name)["detail"], "not set");
    }
}

#[test]
fn what_is_wrong_with_a_place_comes_with_the_way_out() {
    let host = Host::new();
    permit(host.user_tools(), 0o777);
    host.write("state/ikigai/audit.jsonl", "", 0o666);
    fs::create_dir_all(host.cache()).expect("made");
    permit(host.cache(), 0o777);
    host.script("broken", "exit 1").metadata().expect("there");
    host.program("broken", "#!/bin/sh\nexit 1\n");
    let ran = doctor(&host).expect_code(0);
    for (what, detail, advice) in [
        ("user tools", "0 in `", "chmod go-w "),
        ("audit log", "calls are not recorded", "other users cannot write to"),
        (
            "cache",
            "every run recompiles components and asks tools again",
            "other users cannot write to",
        ),
        ("skipped", "1", "ikigai tool list --all"),
    ] {
        let check = check(&ran, what);
        assert_eq!(check["status"], "warn", "{check}");
        assert!(check["detail"].as_str().expect("text").contains(detail), "{check}");
        assert!(check["advice"].as_str().expect("text").contains(advice), "{check}");
    }
    let host = Host::new().env("IKIGAI_SYSTEM_TOOLS", "/nowhere");
    let system = check(&doctor(&host).expect_code(0), "built-in tools");
    assert_eq!(system["status"], "warn");
    let advice = system["advice"].as_str().expect("text");
    assert!(advice.starts_with("reinstall ikigai the way you installed it; "), "{advice}");
    assert!(advice.ends_with("specify the directory of the tools with --system-tools"), "{advice}");
    let host = Host::new().as_nobody();
    host.write("state", "no directory", 0o644);
    assert_eq!(check(&doctor(&host), "audit log")["status"], "warn");
    let host = Host::without_system_tools();
    fs::create_dir(host.scratch().join("state")).expect("made");
    permit(host.scratch().join("state"), 0o555);
    let ran = doctor(&host.as_nobody());
    assert!(
        check(&ran, "audit log")["detail"].as_str().expect("text").contains("cannot be created")
    );
}

#[test]
fn it_fails_where_policy_requires_what_the_machine_does_not_give() {
    let host = Host::new();
    for (sandbox, code) in [("require", 1), ("prefer", 0)] {
        let text = format!("[tools.bash]\nbackend = \"native\"\nsandbox = \"{sandbox}\"\n");
        let policy = host.write("policy/policy.toml", text, 0o600);
        let flags = ["--policy", policy.to_str().expect("UTF-8")];
        let args = [&flags[..], &["doctor", "--json"]].concat();
        let Some(ran) = host.run_without_namespaces(&args) else {
            return ikigai_tests::impossible_here("no user namespace to forbid namespaces in");
        };
        let ran = ran.expect_code(code);
        assert_eq!(ran.json()["good"], code == 0, "{ran}");
        assert_eq!(check(&ran, "fs")["status"], "warn", "{ran}");
        assert!(check(&ran, "mount namespace")["advice"].is_string(), "{ran}");
        let detail = check(&ran, "user")["detail"].as_str().expect("text").to_owned();
        assert!(detail.contains("policy.toml"), "{ran}");
        if code == 1 {
            let bash = check(&ran, "bash");
            assert_eq!(bash["status"], "fail", "{bash}");
            assert!(bash["detail"].as_str().expect("text").contains("fs is partial"), "{bash}");
            // The call really does not run.
            let call = [&flags[..], &["tool", "call", "bash", r#"{"command":"true"}"#]].concat();
            let ran = host.run_without_namespaces(&call).expect("as before").expect_code(1);
            assert_eq!(ran.json()["tool_success"], false, "{ran}");
        }
    }
}

#[test]
fn recorded_calls_are_seen() {
    let host = Host::without_system_tools();
    let before = doctor(&host);
    assert!(
        check(&before, "audit log")["detail"]
            .as_str()
            .expect("text")
            .ends_with("nothing recorded yet")
    );
    host.run(["tool", "call", "absent"]).expect_code(1);
    let after = doctor(&host);
    assert!(
        check(&after, "audit log")["detail"].as_str().expect("text").contains(" B "),
        "{after}"
    );
}
