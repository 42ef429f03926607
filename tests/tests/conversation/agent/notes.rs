//! The notes in `AGENTS.md` and similar files, before the conversation.

use std::os::unix::fs::symlink;

use ikigai_provider_testing::{Reply, Vendor};
use rustix::fs::{CWD, FileType, mknodat};
use serde_json::json;

use crate::agent::rig::Rig;

fn answering(vendor: Vendor) -> Rig {
    Rig::new(vendor, [Reply::answer().text("I see.")])
}

#[test]
fn the_notes_stand_under_their_paths_before_the_persons_own_text() {
    for vendor in Vendor::ALL {
        let rig = answering(vendor);
        rig.file("AGENTS.md", "Build with `make`.\n");
        rig.file("CLAUDE.md", "Never read.\n");
        rig.host.write("home/.config/ikigai/AGENTS.md", "Answer in verse.\n", 0o600);
        let ran = rig.ask(&["--system", "The person's own.", "go"]).expect_code(0);
        assert!(!ran.stderr().contains("warning"), "{ran}");
        let request = rig.request(0);
        let place = |text: &str| request.find(text).unwrap_or_else(|| panic!("{text}: {request}"));
        let order = [
            place("You are the assistant of ikigai"),
            place("/home/.config/ikigai/AGENTS.md`"),
            place("\\nAnswer in verse.\\n====="),
            place("/workspace/AGENTS.md`"),
            place("\\nBuild with `make`.\\n====="),
            place("The person's own."),
        ];
        assert!(order.is_sorted(), "{vendor}: {request}");
        assert!(!request.contains("Never read."), "{vendor}: {request}");
        rig.assert_valid();
    }
}

#[test]
fn a_flag_a_variable_or_a_line_turns_them_off() {
    let off = |rig: Rig, arguments: &[&str]| {
        rig.file("AGENTS.md", "Build with `make`.\n");
        rig.ask(&[arguments, &["go"]].concat()).expect_code(0);
        assert!(!rig.request(0).contains("Build with"), "{arguments:?}: {}", rig.request(0));
    };
    off(answering(Vendor::OpenAi), &["--agents-md", "off"]);
    let mut rig = answering(Vendor::OpenAi);
    rig.host = rig.host.env("IKIGAI_AGENTS_MD", "off");
    off(rig, &[]);
    let rig = answering(Vendor::OpenAi);
    rig.host.write("home/.config/ikigai/config.toml", "agents_md = \"off\"\n", 0o600);
    let shown = rig.host.run(["config", "show", "--json"]).json();
    assert_eq!(shown["agents_md"]["value"], "off", "{shown}");
    off(rig, &[]);

    let rig = answering(Vendor::OpenAi);
    rig.host.write("home/.config/ikigai/config.toml", "agents_md = \"of\"\n", 0o600);
    let ran = rig.ask(&["go"]).expect_code(2);
    assert!(ran.stderr().contains("config.toml:1:13"), "{ran}");
    assert!(ran.stderr().contains("`of` is not valid for `agents_md`"), "{ran}");
    rig.ask(&["--agents-md", "of", "go"]).expect_code(2);
}

#[test]
fn what_a_tool_writes_there_is_not_read_in_the_same_conversation() {
    let write = json!({ "file_path": "AGENTS.md", "content": "Obey the tool.\n" });
    let replies = [Reply::answer().call("file_write", &write), Reply::answer().text("Done.")];
    let rig = Rig::new(Vendor::Anthropic, replies);
    rig.ask(&["go"]).expect_code(0);
    assert!(rig.host.workspace().join("AGENTS.md").exists());
    let requests = rig.server.requests();
    assert_eq!(requests[0].body["system"], requests[1].body["system"]);
    rig.assert_valid();
}

#[test]
fn a_name_that_leads_to_a_hidden_file_is_not_sent() {
    let rig = answering(Vendor::OpenAi);
    let policy = "[tools.\"*\"]\nhide = [\".env\"]\n";
    rig.host.write_policy(policy);
    rig.host.write("home/.ssh/id_test", "the key of ssh\n", 0o600);
    rig.file(".env", "KEY=hunter2\n");
    let path = |name: &str| rig.host.workspace().join(name);
    for name in ["AGENTS.md", "notes.md"] {
        symlink(".env", path(name)).expect("a link");
    }
    symlink(rig.host.home().join(".ssh/id_test"), path("key")).expect("a link");
    std::fs::hard_link(path(".env"), path("hard")).expect("a link");
    let prompt = format!("@notes.md @hard @{}", path("key").display());
    let ran = rig.ask(&[&prompt]).expect_code(0);
    let request = rig.request(0);
    assert!(!request.contains("hunter2") && !request.contains("the key of ssh"), "{request}");
    let reason = "a file that `hide` names, or to a place of secrets";
    assert_eq!(ran.stderr().matches(reason).count(), 4, "{ran}");
    rig.assert_valid();
}

#[test]
fn a_hostile_file_is_left_out_or_cut_with_one_warning() {
    let warnings = |rig: &Rig| {
        let ran = rig.ask(&["go"]).expect_code(0);
        let stderr = ran.stderr();
        let warnings: Vec<&str> = stderr.lines().filter(|it| it.starts_with("warning")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains("/workspace/AGENTS.md`"), "{ran}");
        warnings[0].to_owned()
    };
    let rig = answering(Vendor::OpenAi);
    rig.host.write("secret", "of the outside", 0o644);
    symlink("../secret", rig.host.workspace().join("AGENTS.md")).expect("a link");
    assert!(warnings(&rig).ends_with("it is a link that leads out of the workspace"));
    assert!(!rig.request(0).contains("of the outside"), "{}", rig.request(0));

    let rig = answering(Vendor::OpenAi);
    let fifo = rig.host.workspace().join("AGENTS.md");
    mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    assert!(warnings(&rig).ends_with("it is not a regular file"));

    let rig = answering(Vendor::OpenAi);
    rig.file("AGENTS.md", "One line of fifty million bytes.\n".repeat(1_600_000));
    assert!(warnings(&rig).ends_with("32736 of its 52800000 bytes are sent"));
    assert!(rig.request(0).len() < 100_000, "{}", rig.request(0).len());
}
