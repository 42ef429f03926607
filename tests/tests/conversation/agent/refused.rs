//! Calls that are refused because no person can be asked: the hint, and the exit code.

use std::fs;

use ikigai_provider_testing::{Reply, Vendor};
use ikigai_tests::host::Host;
use serde_json::json;
use tempfile::TempDir;

use crate::agent::rig::{Rig, envelopes};

/// Returns a model that reads a file outside of the workspace, and the directory of that file.
fn reading() -> (Rig, TempDir) {
    let outside = tempfile::tempdir().expect("a temporary directory");
    fs::write(outside.path().join("outside.txt"), "not for it\n").expect("written");
    let read = json!({ "file_path": outside.path().join("outside.txt") });
    let answer = || Reply::answer().call("file_read", &read).call("file_read", &read);
    let rig = Rig::new(
        Vendor::OpenAi,
        [answer(), Reply::answer().text("I may not."), answer(), Reply::answer().text("I may.")],
    );
    (rig, outside)
}

#[test]
fn a_refusal_is_exit_code_3_unless_that_is_fine() {
    for (flags, code) in [(&["--json", "go"][..], 3), (&["--json", "--denied-ok", "go"], 0)] {
        let (rig, _outside) = reading();
        let ran = rig.ask(flags).expect_code(code);
        assert_eq!(ran.json()["stop"], "answered", "{ran}");
        let told = envelopes(&ran.json())[0]["allow_with"].as_str().map(str::to_owned);
        let command = told.unwrap_or_else(|| panic!("a command: {ran}"));
        assert!(command.starts_with("ikigai policy grant file_read --read /"), "{command}");
        let hint = format!("hint: to allow it: {command}\n");
        assert_eq!(ran.stderr().matches(&hint).count(), 1, "said once: {ran}");
        assert!(rig.request(1).contains("allow_with"), "the model is told: {}", rig.request(1));
        rig.assert_valid();
    }
}

#[test]
fn a_call_that_nobody_agreed_to_or_a_rule_denies_is_exit_code_3_without_a_command() {
    let approve = "[tools.glob]\napprove = \"always\"\n";
    let deny = "[tools.bash]\ncommands = { deny = [\"git *\"] }\n";
    for (policy, tool, arguments) in [
        (approve, "glob", json!({ "pattern": "*" })),
        (deny, "bash", json!({ "command": "git status" })),
    ] {
        for (flags, code) in [(&["--json", "go"][..], 3), (&["--json", "--denied-ok", "go"], 0)] {
            let call = Reply::answer().call(tool, &arguments);
            let rig = Rig::new(Vendor::OpenAi, [call, Reply::answer().text("I may not.")]);
            rig.host.write_policy(policy);
            let ran = rig.ask(flags).expect_code(code);
            let envelope = &envelopes(&ran.json())[0];
            assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{ran}");
            assert!(envelope.get("allow_with").is_none(), "{ran}");
            assert!(!ran.stderr().contains("hint: to allow it"), "{ran}");
            rig.assert_valid();
        }
    }
}

#[test]
fn the_command_of_the_hint_allows_it() {
    let (rig, _outside) = reading();
    let ran = rig.ask(&["--json", "go"]).expect_code(3);
    let envelope = &envelopes(&ran.json())[0];
    let command = envelope["allow_with"].as_str().expect("a command");
    let words = command.strip_prefix("ikigai ").expect("a command of the program").split(' ');
    rig.host.run(words.chain(["--yes"])).expect_code(0);
    let ran = rig.ask(&["--json", "go"]).expect_code(0);
    assert!(ran.stdout().contains("not for it"), "{ran}");
}

#[test]
fn a_call_of_a_script_prints_the_hint_beside_its_envelope() {
    let (rig, outside) = reading();
    let arguments = json!({ "file_path": outside.path().join("outside.txt") }).to_string();
    let call = ["tool", "call", "file_read", &arguments];
    let ran = rig.host.run(call);
    let command = ran.json()["allow_with"].as_str().map(str::to_owned);
    let command = command.unwrap_or_else(|| panic!("a command: {ran}"));
    assert!(ran.stderr().contains(&format!("hint: to allow it: {command}\n")), "{ran}");
}

#[test]
fn a_name_that_a_program_without_a_network_looked_up_has_a_hint() {
    let host = Host::new().with_shared_cache();
    let looking = json!({ "command": "git ls-remote https://first.test/x.git" }).to_string();
    let ran = host.run(["--backend", "native", "tool", "call", "bash", &looking]);
    let envelope = ran.json();
    let command = envelope["allow_with"].as_str().unwrap_or_else(|| panic!("a command: {ran}"));
    assert!(command.starts_with("ikigai policy grant bash "), "{command}");
    assert!(command.contains("--net first.test:443"), "{command}");
    assert!(ran.stderr().contains(&format!("hint: to allow it: {command}\n")), "{ran}");
}

#[test]
fn a_program_that_finds_nobody_on_the_loopback_of_the_sandbox_has_a_hint() {
    let host = Host::new().with_shared_cache();
    let message = "curl: (7) Failed to connect to 127.0.0.1 port 3000 after 0 ms";
    let call = |code: u8| {
        let command = json!({ "command": format!("echo '{message}'; exit {code}") }).to_string();
        host.run(["--backend", "native", "tool", "call", "bash", &command]).expect_code(0)
    };
    let ran = call(7);
    let envelope = ran.json();
    let hint = envelope["loopback"].as_str().unwrap_or_else(|| panic!("a hint: {ran}"));
    let said = "127.0.0.1 in the sandbox is the tool's own, and nothing answered there on port 3000; \
                to reach a server of this machine: ikigai policy grant bash ";
    assert!(hint.starts_with(said) && hint.contains("--net 127.0.0.1:3000"), "{ran}");
    assert!(ran.stderr().contains(&format!("hint: {hint}\n")), "{ran}");
    // A successful program may print anything.
    assert!(call(0).json().get("loopback").is_none());
    // With the grant, the tool uses the machine's loopback.
    let granted = ["policy", "grant", "bash", "--write", ".", "--net", "127.0.0.1:3000", "--yes"];
    host.run(granted).expect_code(0);
    assert!(call(7).json().get("loopback").is_none());
}
