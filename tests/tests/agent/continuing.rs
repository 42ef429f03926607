//! Conversations that go on in another process, by the command line.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_tests::host::Host;
use rustix::process::Signal;
use serde_json::json;

use crate::rig::Rig;

#[test]
fn a_conversation_that_is_kept_goes_on() {
    for vendor in Vendor::ALL {
        let answers = ["It is blue.", "As I said: blue.", "Blue."];
        let rig = Rig::new(vendor, answers.map(|text| Reply::answer().text(text)));
        let ran = rig.ask(&["--keep", "what colour is it?"]).expect_code(0);
        assert_eq!(ran.stdout(), "It is blue.\n", "{vendor}: {ran}");
        let id = ran.stderr().lines().find_map(|it| it.strip_prefix("kept as ").map(str::to_owned));
        let id = id.unwrap_or_else(|| panic!("{vendor}: {ran}"));

        let ran = rig.ask(&["--continue", "--json", "are you sure?"]).expect_code(0).json();
        assert_eq!((&ran["session"], &ran["answer"]), (&json!(id), &json!("As I said: blue.")));
        assert_eq!(ran["messages"].as_array().map(Vec::len), Some(4), "{vendor}: {ran}");
        rig.ask(&["--resume", "what colour", "really?"]).expect_code(0);
        let third = rig.request(2);
        for said in ["what colour is it?", "It is blue.", "are you sure?", "As I said: blue."] {
            assert!(third.contains(said), "{vendor}: {said}: {third}");
        }
        rig.assert_valid();
    }
}

#[test]
fn without_the_flag_nothing_is_kept() {
    let rig = Rig::new(Vendor::Anthropic, [Reply::answer().text("Hello.")]);
    let told = rig.ask(&["--json", "hello"]).expect_code(0).json();
    assert_eq!(told["session"], json!(null), "{told}");
    let ran = rig.ask(&["--continue", "and now?"]).expect_code(1);
    assert!(ran.stderr().contains("no conversation of this workspace is kept"), "{ran}");
    let ran = rig.ask(&["--resume", "nothing like it", "and now?"]).expect_code(1);
    assert!(ran.stderr().contains("nothing like it"), "{ran}");
    assert_eq!(rig.server.requests().len(), 1, "no model is asked");
}

#[test]
fn an_answer_that_did_not_come_is_none_of_an_earlier_turn() {
    let replies = [Reply::answer().text("Hello."), Reply::status(403, "no")];
    let rig = Rig::new(Vendor::OpenAi, replies);
    rig.ask(&["--keep", "hello"]).expect_code(0);
    let told = rig.ask(&["--continue", "--json", "and now?"]).expect_code(1).json();
    assert_eq!((&told["stop"], &told["answer"]), (&json!("failed"), &json!(null)), "{told}");
}

#[test]
fn the_next_process_is_told_of_a_call_that_was_killed() {
    for vendor in Vendor::ALL {
        let command = json!({ "command": "touch begun; sleep 600" });
        let replies = [
            Reply::answer().text("I run it.").call("bash", &command),
            Reply::answer().text("I look first."),
        ];
        let rig = Rig::new(vendor, replies);
        let mut running = rig.start(&["--keep", "run it"]);
        running.wait_for(&rig.host.workspace().join("begun"));
        running.signal(Signal::KILL);
        running.wait();

        // At once: nobody waits for the lease of a process that is dead.
        let ran = rig.ask(&["--continue", "go on"]).expect_code(0);
        assert_eq!(ran.stdout(), "I look first.\n", "{vendor}: {ran}");
        assert!(ran.stderr().contains("`run it` was not answered"), "{vendor}: {ran}");
        assert!(ran.stderr().contains("may have run before ikigai ended"), "{vendor}: {ran}");
        let told = rig.request(1);
        assert!(told.contains("It may have run, wholly or in part"), "{vendor}: {told}");
        rig.assert_valid();
    }
}

#[test]
fn flags_that_would_be_ignored_are_refused() {
    let server = FakeServer::start(Vendor::Anthropic, []);
    let rig = Rig::of(Host::new(), server);
    let ran = rig.host.run(["--continue", "tool", "list"]).expect_code(2);
    assert!(ran.stderr().contains("`--continue` has no effect before `tool`"), "{ran}");
    let ran = rig.host.run(["--continue", "--resume", "x"]).expect_code(2);
    assert!(ran.stderr().contains("cannot be used with"), "{ran}");
    let ran = rig.host.run_with(["--resume"], b"hello").expect_code(2);
    assert!(ran.stderr().contains("`--resume` needs a conversation"), "{ran}");
}
