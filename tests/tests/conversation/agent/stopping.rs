//! Interruptions and failures, which leave no process and a valid conversation.

use ikigai_provider_testing::{Gate, Reply, Trouble, Vendor};
use ikigai_tests::host::Host;
use rustix::process::Signal;
use serde_json::json;

use crate::agent::rig::{Rig, envelopes};

#[test]
fn an_interrupted_answer_ends_at_once() {
    for vendor in Vendor::ALL {
        let gate = Gate::closed();
        let rig = Rig::new(vendor, [Reply::answer().text("It begins").stall(&gate)]);
        let running = rig.start(&["--json", "go"]);
        rig.server.block_on(gate.reached());
        running.signal(Signal::INT);
        let ran = running.wait().expect_code(130);
        rig.server.block_on(rig.server.hang_ups_reach(1));
        assert_eq!(ran.json()["stop"], "interrupted", "{ran}");
        rig.host.assert_nothing_left();
    }
}

#[test]
fn interrupted_tools_die_and_every_call_has_a_result() {
    for vendor in Vendor::ALL {
        let answer = Reply::answer()
            .call("endless", &json!({}))
            .call("bash", &json!({ "command": "touch began-too; sleep 1000" }))
            .call("bash", &json!({ "command": "touch never" }));
        let rig = Rig::new(vendor, [answer]);
        let began = rig.host.workspace().join("began");
        let body = format!(
            "(setsid sh -c 'trap \"\" HUP INT TERM; sleep 1000' &)\n\
             sleep 1000 & touch '{}'; wait",
            began.display()
        );
        rig.host.script("endless", &body);
        let mut running = rig.start(&["--json", "go"]);
        running.wait_for(&began);
        running.wait_for(&rig.host.workspace().join("began-too"));
        running.signal(Signal::INT);
        let ran = running.wait().expect_code(130);
        rig.host.assert_nothing_left();
        let told = ran.json();
        assert_eq!(told["stop"], "interrupted", "{ran}");
        let errors: Vec<_> =
            envelopes(&told).into_iter().map(|envelope| envelope["error"].clone()).collect();
        let cancelled = |tool| format!("Tool '{tool}' was cancelled");
        assert_eq!(errors, ["endless", "bash", "bash"].map(cancelled), "{ran}");
        assert!(!rig.host.workspace().join("never").exists());
        let last = told["messages"].as_array().and_then(|all| all.last()).expect("a message");
        assert_eq!(last["parts"].as_array().map(Vec::len), Some(3), "a result for each: {last}");
    }
}

#[test]
fn a_failure_between_two_answers_keeps_what_tools_did() {
    let write = json!({ "file_path": "a.txt", "content": "written" });
    let rig = Rig::new(
        Vendor::Anthropic,
        [Reply::answer().call("file_write", &write), Reply::trouble(Trouble::Key)],
    );
    let ran = rig.ask(&["--json", "go"]).expect_code(1);
    let told = ran.json();
    assert_eq!((&told["stop"], &told["rounds"]), (&json!("failed"), &json!(1)), "{ran}");
    assert_eq!(envelopes(&told)[0]["tool_success"], true, "{ran}");
    assert_eq!(told["messages"].as_array().map(Vec::len), Some(3), "{ran}");
    assert!(ran.stderr().contains("error: "), "{ran}");
    assert!(
        !ran.stderr().contains(crate::agent::rig::KEY)
            && !ran.stdout().contains(crate::agent::rig::KEY)
    );
}

#[test]
fn a_prompt_that_nobody_answered_is_taken_back() {
    let rig = Rig::new(Vendor::OpenAi, [Reply::trouble(Trouble::Key)]);
    let ran = rig.ask(&["--json", "go"]).expect_code(1);
    assert_eq!(ran.json()["messages"], json!([]), "{ran}");
    assert!(ran.stderr().contains("hint: "), "{ran}");
}

#[test]
fn a_reader_that_goes_away_ends_the_turn() {
    let gate = Gate::closed();
    let rig = Rig::new(Vendor::OpenAi, [Reply::answer().text("a\n").text("b\n").stall(&gate)]);
    let host: &Host = &rig.host;
    let mut program = host.command();
    program.args(["ask", "--provider", "openai", "--model", "m", "go"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut child = program
        .stdin(std::process::Stdio::null())
        .stdout(writer)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("runs");
    let status = child.wait().expect("waited for");
    assert_eq!(status.code(), Some(1));
    rig.server.block_on(rig.server.hang_ups_reach(1));
}
