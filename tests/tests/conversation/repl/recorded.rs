//! The session that docs/guides/terminal-agent.md refers to. This test replays it, so that the page
//! shows the real output. `IKIGAI_RECORD=1 cargo test --test conversation recorded` writes it.

use std::env;
use std::fs;
use std::path::Path;

use ikigai_provider_testing::{Received, Reply};
use regex::Regex;
use serde_json::json;

use crate::repl::rig::{Rig, enter, wait_for_answer};

/// Returns the model's reply in a round of the session.
fn model(round: usize) -> Reply {
    match round {
        1 => {
            Reply::answer().text("I look for them.").call("glob", &json!({ "pattern": "**/*.md" }))
        }
        2 => Reply::answer().call("grep", &json!({ "pattern": "TODO", "path": "notes" })),
        3 => Reply::answer().text(
            "There are **two** notes, and one thing is left to do:\n\n\
             - `notes/plan.md`: water the plants\n",
        ),
        4 => Reply::answer().call("weather", &json!({})),
        5 => Reply::answer().text("It is raining: the plants can wait."),
        6 => Reply::answer().call(
            "file_write",
            &json!({ "file_path": "ikigai:///blocks/plants.md",
                     "content": "No water in rain.\n" }),
        ),
        7 => Reply::answer().text("Saved as `ikigai:///blocks/plants.md`."),
        8 => Reply::answer().call(
            "file_edit",
            &json!({ "file_path": "notes/plan.md", "old_string": "TODO", "new_string": "DONE" }),
        ),
        _ => {
            Reply::answer().text("It is crossed off:\n\n```sh\ngrep TODO notes/*  # nothing\n```\n")
        }
    }
}

/// Sends a prompt, and waits for the last words of the answer.
fn ask(rig: &Rig, terminal: &ikigai_terminal_testing::Terminal, prompt: &str, last: &str) {
    terminal.send(&format!("{prompt}\r"));
    wait_for_answer(terminal, last);
    assert_eq!(rig.server.violations(), [] as [String; 0]);
}

fn played() -> String {
    let mut round = 0;
    let mut rig = Rig::staged(move |_: &Received| {
        round += 1;
        model(round)
    });
    // The terminal is wide enough that no line is cut, because the place of a cut depends on the
    // duration of a call.
    rig.columns = 120;
    rig.host.write("workspace/notes/plan.md", "TODO: water the plants\n", 0o644);
    rig.host.write("workspace/notes/done.md", "Bought plants.\n", 0o644);
    let mut terminal = rig.ready();
    ask(&rig, &terminal, "What do my notes say is left to do?", "water the plants");
    rig.host.script("weather", "echo '{\"output\":\"rain\"}'");
    rig.host.program("clock", "#!/bin/sh\necho half past\n");
    enter(&terminal, "/refresh");
    ask(&rig, &terminal, "And the weather?", "the plants can wait.");
    ask(&rig, &terminal, "Keep that in mind for later.", "blocks/plants.md.");
    enter(&terminal, "/pin plants");
    enter(&terminal, "/pinned");
    terminal.send("/exit\r");
    assert!(terminal.wait().success());
    // The session is continued later, perhaps after the machine was restarted.
    let mut later = rig.ready_with(&["--continue"]);
    // The message appears once the tools are known and the store was read, even if the user is
    // typing.
    later.wait_for("The pins since the last turn: added");
    ask(&rig, &later, "Then cross it off.", "# nothing");
    enter(&later, "!cat notes/plan.md");
    enter(&later, "/undo");
    later.send("/quit\r");
    assert!(later.wait().success());
    let text = format!("{}\n\n$ ikigai --continue\n{}", terminal.everything(), later.everything());
    // These parts differ from run to run.
    let text = text.replace(&rig.host.scratch().display().to_string(), "/home/me");
    let duration = Regex::new(r"· [0-9.]+ m?s ·").expect("an expression");
    let text = duration.replace_all(&text, "· 9 ms ·");
    // The counted text includes the test's paths.
    let tokens = Regex::new(r"· ~[0-9.k]+ tokens ·").expect("an expression");
    let text = tokens.replace_all(&text, "· ~100 tokens ·");
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    // On a slow machine the prompt is there before the tools are known.
    let message = lines.iter().position(|line| line.starts_with("The pins since the last turn:"));
    let message = message.expect("the message");
    if lines[message - 1].ends_with("tokens · standard") {
        lines.swap(message - 1, message);
    }
    format!("{}\n", lines.join("\n").trim())
}

#[test]
fn the_session_in_the_documentation_is_what_is_seen() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/session.txt");
    let played = played();
    if env::var_os("IKIGAI_RECORD").is_some() {
        fs::write(&file, &played).expect("the recording");
    }
    let recorded = fs::read_to_string(&file).expect("the recording");
    assert_eq!(recorded, played, "record it anew with IKIGAI_RECORD=1");
}
