//! Conversations that another process continues, on the command line.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_tests::host::{Host, Ran};
use rustix::process::Signal;
use serde_json::json;

use crate::agent::rig::Rig;

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
    assert!(ran.stderr().contains("this workspace has no saved conversation"), "{ran}");
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

        // This works at once: the lease of a dead process causes no waiting.
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
fn calls_that_were_killed_are_named_with_their_ids_in_the_audit_log() {
    let command = json!({ "command": "touch begun; sleep 600" });
    let calls = Reply::answer()
        .call("glob", &json!({ "pattern": "*" }))
        .call("bash", &command)
        .call("bash", &command);
    let rig = Rig::new(Vendor::Anthropic, [calls, Reply::answer().text("I look first.")]);
    let mut running = rig.start(&["--keep", "run it"]);
    running.wait_for(&rig.host.workspace().join("begun"));
    let log = rig.host.audit_log();
    running.wait_until("the first call is recorded", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("\"tool\":\"glob\""))
    });
    running.signal(Signal::KILL);
    running.wait();

    let ran = rig.ask(&["--continue", "go on"]).expect_code(0);
    let stderr = ran.stderr();
    let ids = stderr.split('(').skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let ids: Vec<&str> = ids.filter(|id| id.len() == 36).collect();
    let [ended, begun, never] = ids[..] else { panic!("{ran}") };
    let told = rig.request(1);
    for id in [ended, begun, never] {
        assert!(told.contains(&format!("Its id in the audit log is {id}")), "{told}");
    }
    let shown = rig.host.run(["audit", "--id", ended, "--json"]).expect_code(0).json();
    assert_eq!((&shown["id"], &shown["tool"]), (&json!(ended), &json!("glob")), "{shown}");
    let shown = rig.host.run(["audit", "--id", &ended[..30]]).expect_code(0).stdout();
    assert!(shown.contains(ended) && !shown.contains("TOOL "), "told in full: {shown}");
    // Calls that did not end have no record.
    for id in [begun, never] {
        let ran = rig.host.run(["audit", "--id", id]).expect_code(0);
        assert!(ran.stdout().is_empty() && ran.stderr().contains("no such calls"), "{ran}");
    }
}

/// Makes the host's store refuse to write a kind of event.
fn refuse(store: &rusqlite::Connection, kind: &str) {
    let refuse = format!(
        "CREATE TRIGGER refuses BEFORE INSERT ON session_events WHEN NEW.kind = '{kind}' \
         BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END"
    );
    store.execute_batch(&refuse).expect("made");
}

#[test]
fn no_call_runs_that_the_store_did_not_take() {
    let run = json!({ "command": "touch ran" });
    for (fails, has_run) in [("prompt", false), ("calls", false), ("results", true), ("end", true)]
    {
        let replies = [
            Reply::answer().text("Hello."),
            Reply::answer().call("bash", &run),
            Reply::answer().text("It ran."),
        ];
        let rig = Rig::new(Vendor::Anthropic, replies);
        let ran = rig.ask(&["--keep", "hello"]).expect_code(0);
        let id = ran.stderr().lines().find_map(|it| it.strip_prefix("kept as ").map(str::to_owned));
        let id = id.unwrap_or_else(|| panic!("{ran}"));
        let store = rig.host.home().join(".local/share/ikigai/store.db");
        let store = rusqlite::Connection::open(store).expect("it opens");
        refuse(&store, fails);
        let told = rig.ask(&["--continue", "--json", "run it"]).expect_code(1).json();
        assert_eq!(told["session"], json!(id), "{fails}: {told}");
        assert!(told["unkept"].to_string().contains("the disk is gone"), "{fails}: {told}");
        let stop = if fails == "end" { "answered" } else { "unkept" };
        assert_eq!(told["stop"], json!(stop), "{fails}: {told}");
        assert_eq!(rig.host.workspace().join("ran").exists(), has_run, "{fails}: {told}");
        if fails == "results" {
            store.execute_batch("DROP TRIGGER refuses").expect("dropped");
            let ran = rig.ask(&["--continue", "go on"]).expect_code(0);
            assert!(ran.stderr().contains("may have run before ikigai ended"), "{ran}");
            assert!(rig.request(2).contains("It may have run, wholly or in part"), "the model too");
        }
        rig.assert_valid();
    }
}

#[test]
fn ask_says_how_much_of_a_conversation_is_kept() {
    let rig = Rig::with(Vendor::OpenAi, |_| Reply::answer().text("Hello."));
    rig.host.run(["session", "list"]).expect_code(0);
    let store = rig.host.home().join(".local/share/ikigai/store.db");
    let store = rusqlite::Connection::open(store).expect("it opens");
    refuse(&store, "prompt");
    let ran = rig.ask(&["--keep", "hello"]).expect_code(1);
    assert!(ran.stderr().contains("nothing is kept\n") && ran.stdout().is_empty(), "{ran}");
    let told = rig.ask(&["--keep", "--json", "hello"]).expect_code(1).json();
    assert_eq!((&told["session"], &told["stop"]), (&json!(null), &json!("unkept")), "{told}");
    assert_eq!(rig.server.requests().len(), 0, "the model is not asked");
    store.execute_batch("DROP TRIGGER refuses").expect("dropped");
    refuse(&store, "end");
    let ran = rig.ask(&["--keep", "hello"]).expect_code(1);
    assert_eq!(ran.stdout(), "Hello.\n", "{ran}");
    for said in ["the disk is gone", "saved in part as ", "error: the answer could not be saved"] {
        assert!(ran.stderr().contains(said), "{said}: {ran}");
    }
    let ran = rig.ask(&["--continue", "--stream-json", "hello"]).expect_code(1);
    let stdout = ran.stdout();
    let end: serde_json::Value =
        serde_json::from_str(stdout.lines().last().expect("a line")).expect("JSON");
    assert!(end["unkept"].to_string().contains("the disk is gone"), "{end}");
}

#[test]
fn what_changed_since_the_last_turn_is_said_once() {
    let rig = Rig::new(Vendor::OpenAi, [(); 5].map(|()| Reply::answer().text("I see.")));
    rig.host.script("of_the_test", "cat >/dev/null; echo 1");
    rig.host.script("to_change", "cat >/dev/null; echo 1");
    rig.ask(&["--keep", "hello"]).expect_code(0);
    let since = |ran: &Ran| -> Vec<String> {
        let stderr = ran.stderr();
        let lines = stderr.lines().filter(|line| line.contains("the last turn"));
        lines.map(str::to_owned).collect()
    };
    let ran = rig.ask(&["--continue", "and now?"]).expect_code(0);
    assert_eq!(since(&ran), Vec::<String>::new(), "nothing has changed: {ran}");

    rig.host.write_policy("[tools.bash]\nnet = []\n");
    std::fs::remove_file(rig.host.user_tools().join("of_the_test")).expect("removed");
    rig.host.script("to_change", "cat >/dev/null; echo 2");
    rig.host.script("new_one", "cat >/dev/null; echo 1");
    rig.host.run_with(["asset", "put", "blocks/x.md"], b"text").expect_code(0);
    rig.host.run(["asset", "pin", "blocks/x.md"]).expect_code(0);
    // A copy contains everything that its original contained.
    let listed = rig.host.run(["session", "list", "--json"]).expect_code(0).json();
    let id = listed["sessions"][0]["id"].as_str().expect("an id").to_owned();
    let lines = rig.host.run(["session", "export", "--jsonl", &id]).expect_code(0).stdout();
    let copy = rig.host.run_with(["session", "import", "--json"], lines.as_bytes());
    let copy = copy.expect_code(0).json()["id"].as_str().expect("an id").to_owned();
    let expected = [
        "The policy is another one than in the last turn.",
        "The tools since the last turn: added new_one; removed of_the_test; changed to_change.",
        "The pins since the last turn: added ikigai:///blocks/x.md.",
    ];
    for id in [id, copy] {
        let ran = rig.ask(&["--resume", &id, "and now?"]).expect_code(0);
        assert_eq!(since(&ran), expected, "{ran}");
    }
    let ran = rig.ask(&["--continue", "and now?"]).expect_code(0);
    assert_eq!(since(&ran), Vec::<String>::new(), "only once: {ran}");
}

#[test]
fn what_is_not_kept_counts_for_the_day_as_well() {
    // Each answer costs 18 tokens.
    let rig = Rig::with(Vendor::Anthropic, |_| Reply::answer().text("I see."));
    let limit = |day: u32| {
        let text = format!("[spend]\nday = {day}\n");
        rig.host.write("home/.config/ikigai/config.toml", text, 0o600);
    };
    limit(1000);
    let running = [(); 4].map(|()| rig.start(&["go"]));
    for running in running {
        running.wait().expect_code(0);
    }
    limit(4 * 18);
    let told = rig.ask(&["--json", "go"]).expect_code(1).json();
    assert_eq!(told["stop"], "spent", "none of those at once is lost: {told}");
    limit(4 * 18 + 1);
    rig.ask(&["go"]).expect_code(0);
    limit(5 * 18 + 1);
    rig.ask(&["--keep", "go"]).expect_code(0);
    limit(6 * 18);
    rig.ask(&["--continue", "go"]).expect_code(1);
    limit(6 * 18 + 1);
    rig.ask(&["--continue", "go"]).expect_code(0);
    assert_eq!(rig.server.requests().len(), 7, "nothing is counted twice");
}

#[test]
fn flags_that_would_be_ignored_are_refused() {
    let server = FakeServer::start(Vendor::Anthropic, []);
    let rig = Rig::with_host(Host::new(), server);
    let ran = rig.host.run(["--continue", "tool", "list"]).expect_code(2);
    assert!(ran.stderr().contains("`--continue` has no effect before `tool`"), "{ran}");
    let ran = rig.host.run(["--continue", "--resume", "x"]).expect_code(2);
    assert!(ran.stderr().contains("cannot be used with"), "{ran}");
    let ran = rig.host.run_with(["--resume"], b"hello").expect_code(2);
    assert!(ran.stderr().contains("`--resume` needs a conversation"), "{ran}");
}
