//! Tools: discovery in the background, `/refresh`, and calls.

use std::fs::{self, File};

use ikigai_host::Digest;
use ikigai_provider_testing::Reply;
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::schema;
use ikigai_tests::paths;
use serde_json::json;

use crate::repl::rig::{Rig, enter, wait_for_answer};

#[test]
fn a_tool_that_came_meanwhile_is_there_after_refresh() {
    let rig = Rig::new([]);
    rig.host.script("first", "printf '{}'");
    let terminal = rig.ready();
    assert!(terminal.screen().contains("1 tool available."));
    rig.host.script("second", "printf '{}'");
    assert!(enter(&terminal, "/refresh").contains("Tools refreshed. 2 tools available."));
    assert!(enter(&terminal, "/tool second").contains("The tool second"));
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
fn a_prompt_that_is_sent_at_once_has_the_tools() {
    let rig = Rig::new([Reply::answer().text("With a tool.")]);
    rig.host.script("greet", "printf '{}'");
    let terminal = rig.start();
    terminal.wait_until("it asks", |screen| screen.lines().any(|line| line.starts_with('>')));
    terminal.send("hello\r");
    terminal.wait_for("With a tool.");
    let tools = rig.server.requests()[0].body["tools"].to_string();
    assert!(tools.contains("\"greet\""), "{tools}");
    terminal.wait_for("1 tool available.");
}

#[test]
fn a_prompt_does_not_wait_for_a_component_that_is_being_compiled() {
    let rig = Rig::new([Reply::answer().text("Without it."), Reply::answer().text("With it.")]);
    rig.host.script("greet", "printf '{}'");
    let component = |name: &str| {
        rig.host.program(&format!("{name}.wasm"), printing(schema(name), Ending::Well))
    };
    component("known");
    rig.host.run(["tool", "list"]).expect_code(0);
    let later = File::open(component("later")).expect("opened");
    let turn = rig.host.take_turn(Digest::of_reader(later).expect("read"));
    let terminal = rig.start();
    terminal.wait_for("compiling later.wasm");
    terminal.send("hello\r");
    wait_for_answer(&terminal, "Without it.");
    drop(turn);
    terminal.wait_for("3 tools available.");
    terminal.send("again\r");
    wait_for_answer(&terminal, "With it.");
    let tools =
        rig.server.requests().iter().map(|it| it.body["tools"].to_string()).collect::<Vec<_>>();
    assert!(tools[0].contains("\"greet\"") && !tools[0].contains("\"later\""), "{tools:?}");
    assert!(tools[1].contains("\"greet\"") && tools[1].contains("\"later\""), "{tools:?}");
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
    let screen = wait_for_answer(&terminal, "It says 42.");
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
    let body = format!("while ! [ -e '{}' ]; do sleep 0.01; done; printf '{{}}'", go.display());
    rig.host.script("slow", &body);
    let terminal = rig.ready();
    terminal.send("call it\r");
    terminal.wait_for("slow {\"argument\"");
    terminal.resize(40, 20);
    std::fs::write(&go, "").expect("a file");
    let screen = wait_for_answer(&terminal, "It has ended.");
    let call = screen.lines().find(|line| line.starts_with("✓ slow"));
    assert!(call.is_some_and(|line| line.chars().count() < 40), "{screen}");
}

/// A tool that prints, and ends once the workspace contains the file `go`.
fn slow(rig: &Rig) -> std::path::PathBuf {
    let go = rig.host.workspace().join("go");
    let body = format!(
        "printf '{{\"output\":\"so far'; until [ -e '{}' ]; do sleep 0.01; done; printf '\"}}'",
        go.display()
    );
    rig.host.script("slow", &body);
    go
}

/// Returns the whole seconds on the line of the running call.
fn seconds_of_slow(screen: &str) -> Option<u64> {
    let line = screen.lines().find(|line| line.contains(" slow {}"))?;
    line.rsplit("· ").next()?.strip_suffix(" s")?.parse().ok()
}

#[test]
fn a_call_that_takes_long_is_given_more_time_on_a_key() {
    let rig =
        Rig::new([Reply::answer().call("slow", &json!({})), Reply::answer().text("It has ended.")]);
    let go = slow(&rig);
    let terminal = rig.ready_with(&["--timeout", "6s"]);
    terminal.send("call it\r");
    terminal.wait_for("s of 6 s · Ctrl-T adds 2 min");
    terminal.send("a draft\x14");
    let screen = terminal.wait_for("slow may now run for 2 min 6 s.");
    assert!(screen.contains("> a draft"), "{screen}");
    terminal.wait_until("its first time is over", |screen| {
        seconds_of_slow(screen).is_some_and(|seconds| seconds > 6)
    });
    fs::write(go, "").expect("a file");
    let screen = terminal.wait_until("it asks", |screen| {
        screen.contains("It has ended.") && screen.ends_with("> a draft")
    });
    assert!(screen.lines().any(|line| line.starts_with("✓ slow")), "{screen}");
}

#[test]
fn a_call_gets_no_more_time_than_policy_allows_and_what_it_printed_is_shown() {
    let rig =
        Rig::new([Reply::answer().call("slow", &json!({})), Reply::answer().text("It took long.")]);
    slow(&rig);
    let policy = "[tools.\"*\"]\nlimits = { wall_clock = \"6s\" }\n";
    rig.host.write_policy(policy);
    let terminal = rig.ready();
    terminal.send("call it\r");
    let screen = terminal.wait_for("s of 6 s");
    assert!(!screen.contains("Ctrl-T"), "{screen}");
    terminal.send("\x14");
    terminal.wait_for("slow may run for 6 s: policy allows no more.");
    let screen = wait_for_answer(&terminal, "It took long.");
    assert!(screen.contains("Tool 'slow' timed out after 6s\n  so far\n"), "{screen}");
}

#[test]
fn the_tools_of_servers_are_there_and_those_of_unknown_ones_come_behind() {
    let rig = Rig::new([
        Reply::answer().call("peer__echo", &json!({ "word": "roof" })),
        Reply::answer().text("It said so."),
    ]);
    let definition = json!({ "tools": [{ "name": "echo", "does": "echo" }] });
    let file = rig.host.write("peer/peer.json", definition.to_string(), 0o644);
    let dir = file.parent().expect("a directory").display().to_string();
    let (program, file) = (paths::programs().join("mcp-peer"), file.display().to_string());
    let program = program.display().to_string();
    let add = ["mcp", "add", "peer", "--read", &dir, "--yes", "--", &program, &file];
    rig.host.run(add).expect_code(0);
    let mut terminal = rig.ready();
    assert!(terminal.screen().contains("1 tool available."), "{}", terminal.screen());
    assert!(enter(&terminal, "/tool peer__echo").contains("Runs as: mcp"));
    let servers = enter(&terminal, "/mcp");
    assert!(
        servers.contains("peer: 1 tools\n") && servers.contains("  echo (approved)"),
        "{servers}"
    );
    terminal.send("go\r");
    let screen = wait_for_answer(&terminal, "It said so.");
    assert!(screen.lines().any(|line| line.starts_with("✓ peer__echo")), "{screen}");
    let told = rig.server.requests()[1].body.to_string();
    assert!(told.contains("roof"), "{told}");
    terminal.send("/exit\r");
    terminal.wait();
    // The list of the server's tools is forgotten, and the REPL does not wait until the server has
    // answered.
    fs::remove_file(rig.host.cache().join("index.json")).expect("removed");
    let terminal = rig.ready();
    assert!(terminal.screen().contains("0 tools available."), "{}", terminal.screen());
    let is_known = |attempt: usize| {
        let screen = enter(&terminal, &format!("/tool peer__ech{attempt}"));
        screen.contains("did you mean `peer__echo`?")
    };
    assert!((0..1_000).any(is_known), "{}", terminal.screen());
    assert!(enter(&terminal, "/tool peer__echo").contains("Runs as: mcp"));
}

#[test]
fn the_first_lines_of_a_result_are_shown_and_all_of_it_on_a_key() {
    let rig = Rig::new([
        Reply::answer().call("count", &json!({})),
        Reply::answer().call("say", &json!({})),
        Reply::answer().text("Done."),
    ]);
    let lines = r#"printf '{"output":"1\\n2\\n3\\n4\\n5\\n6\\u001b[2J","lines":6}'"#;
    rig.host.script("count", lines);
    rig.host.script("say", r#"printf '"hi"'"#);
    let terminal = rig.ready();
    terminal.send("count\r");
    let screen = wait_for_answer(&terminal, "Done.");
    assert!(
        screen.contains("\n  1\n  2\n  3\n  4\n  … 2 more lines (Ctrl-O shows all)\n"),
        "{screen}"
    );
    assert!(screen.contains("\n  hi\nDone."), "{screen}");
    terminal.send("a draft\x0f");
    terminal.wait_until("the last result is above the line", |screen| {
        screen.ends_with("say {}\nhi\n> a draft")
    });
    terminal.send("\x0f");
    terminal.wait_until("all of the result before is there", |screen| {
        screen.ends_with("count {}\n1\n2\n3\n4\n5\n6␛[2J\nlines: 6\n> a draft")
    });
    terminal.send("\x15");
    assert!(enter(&terminal, "/last 2").ends_with("6␛[2J\nlines: 6\n>"));
    assert!(enter(&terminal, "/last 3").contains("There are 2 results"));
}

#[test]
fn an_edit_is_shown_with_its_difference() {
    let edit = json!({ "file_path": "a.rs", "old_string": "one\ntwo\n", "new_string": "one\n2\n" });
    let rig = Rig::new([
        Reply::answer().call("file_edit", &edit),
        Reply::answer().call("file_write", &json!({ "file_path": "b.rs", "content": "new\n" })),
        Reply::answer().text("Done."),
    ]);
    for name in ["file_edit", "file_write"] {
        rig.host.script(name, r#"printf '{"output":"It is written."}'"#);
    }
    let terminal = rig.ready();
    terminal.send("edit it\r");
    let screen = wait_for_answer(&terminal, "Done.");
    assert!(screen.contains("\n   one\n  -two\n  +2\n"), "{screen}");
    assert!(screen.contains("\n  +new\n"), "{screen}");
    assert!(!screen.contains("It is written."), "{screen}");
    assert!(enter(&terminal, "/last").contains("file_write b.rs\n  +new\nIt is written.\n"));
}

#[test]
fn a_call_that_fails_shows_its_message_and_no_result() {
    let rig =
        Rig::new([Reply::answer().call("fails", &json!({})), Reply::answer().text("It failed.")]);
    rig.host.script(
        "fails",
        r#"printf '{"error":"no such thing","error_code":"NOT_FOUND","more":"text"}'"#,
    );
    let terminal = rig.ready();
    terminal.send("call it\r");
    let screen = wait_for_answer(&terminal, "It failed.");
    assert!(screen.contains("NOT_FOUND\n  no such thing\nIt failed."), "{screen}");
}
