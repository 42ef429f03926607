//! Tools: found beside the prompt, found again, and called.

use ikigai_provider_testing::Reply;
use ikigai_tests::host::schema;
use serde_json::json;

use crate::rig::{Rig, is_asking, say};

/// A tool that answers when a file is there, and says that it was asked with another.
fn waiting(rig: &Rig, name: &str, asked: &str, go: &str) {
    let workspace = rig.host.workspace();
    let (asked, go) = (workspace.join(asked), workspace.join(go));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --schema ] && [ -e '{0}' ] && printf %s '{1}' && exit\n\
         : > '{2}'\nwhile ! [ -e '{0}' ]; do sleep 0.01; done\nprintf %s '{{}}'\n",
        go.display(),
        schema(name),
        asked.display()
    );
    rig.host.program(name, text);
}

#[test]
fn a_tool_that_came_meanwhile_is_there_after_refresh() {
    let rig = Rig::new([]);
    rig.host.script("first", "printf '{}'");
    let terminal = rig.ready();
    assert!(terminal.screen().contains("1 tool available."));
    rig.host.script("second", "printf '{}'");
    assert!(say(&terminal, "/refresh").contains("Tools refreshed. 2 tools available."));
    assert!(say(&terminal, "/tool second").contains("The tool second"));
}

#[test]
fn a_broken_tool_is_named_and_skipped() {
    let rig = Rig::new([]);
    rig.host.script("good", "printf '{}'");
    rig.host.program("broken", "#!/bin/sh\necho no schema\n");
    let terminal = rig.ready();
    let screen = terminal.screen();
    assert!(screen.contains("Debug: tool 'broken' schema failed"), "{screen}");
    assert!(screen.contains("1 tool available."), "{screen}");
}

#[test]
fn it_appears_before_its_tools_are_known_and_a_prompt_waits_for_them() {
    let rig = Rig::new([Reply::answer().text("With a tool.")]);
    // Asked for its schema it waits, less than a second: then it would be skipped.
    rig.host.script("greet", "printf '{}'");
    let terminal = rig.start();
    terminal.wait_until("it asks", |screen| screen.lines().any(|line| line.starts_with('>')));
    terminal.send("hello\r");
    terminal.wait_for("With a tool.");
    let tools = rig.server.requests()[0].body["tools"].to_string();
    assert!(tools.contains("\"greet\""), "{tools}");
    assert!(terminal.everything().contains("1 tool available."));
}

#[test]
fn a_question_is_answered_with_a_sandboxed_tool() {
    let mut rounds = 0;
    let rig = Rig::staged(move |_| {
        rounds += 1;
        match rounds {
            1 => Reply::answer()
                .text("I will **look**.")
                .call("file_read", &json!({ "file_path": "notes.txt" })),
            _ => Reply::answer().text("# Found\n\nIt says `42`."),
        }
    });
    rig.host.write("workspace/notes.txt", "the answer is 42\n", 0o644);
    let terminal = rig.ready();
    terminal.send("what is the answer?\r");
    let screen =
        terminal.wait_until("it asks again", |s| s.contains("It says 42.") && is_asking(s));
    assert!(screen.contains("I will look."), "{screen}");
    let call = screen.lines().find(|line| line.starts_with("✓ file_read"));
    let call = call.unwrap_or_else(|| panic!("the line of the call:\n{screen}"));
    assert!(call.contains(r#"{"file_path":"notes.txt"}"#) && call.contains("chars"), "{call}");
    assert!(screen.contains("\nFound\n\nIt says 42."), "{screen}");
    let told = rig.server.requests()[1].body.to_string();
    assert!(told.contains("the answer is 42"), "{told}");
    assert_eq!(rig.server.violations(), Vec::<String>::new());
}

#[test]
fn a_resize_during_a_call_leaves_the_screen_in_order() {
    let rig = Rig::new([
        Reply::answer().call("slow", &json!({ "argument": "with a text that is rather long" })),
        Reply::answer().text("It has ended."),
    ]);
    let go = rig.host.workspace().join("go");
    std::fs::write(&go, "").expect("a file");
    waiting(&rig, "slow", "asked", "go");
    let terminal = rig.ready();
    std::fs::remove_file(&go).expect("removed");
    terminal.send("call it\r");
    terminal.wait_for("slow {\"argument\"");
    terminal.resize(40, 20);
    std::fs::write(&go, "").expect("a file");
    let screen = terminal.wait_until("it asks", |s| s.contains("It has ended.") && is_asking(s));
    let call = screen.lines().find(|line| line.starts_with("✓ slow"));
    assert!(call.is_some_and(|line| line.chars().count() < 40), "{screen}");
}
