//! The slash commands of the REPL.

use ikigai_provider_testing::{Gate, Received, Reply};
use ikigai_terminal_testing::Terminal;
use serde_json::json;

use crate::repl::rig::{Rig, enter, is_asking, wait_for_answer};

/// Makes the terminal show the system prompt, and returns the screen when the prompt ends with this
/// text.
fn show_system(terminal: &Terminal, last: &str) -> String {
    terminal.send("/system\r");
    terminal.wait_until("all is shown", |screen| {
        screen.trim_end_matches(['>', '\n', ' ']).ends_with(last) && is_asking(screen)
    });
    terminal.everything()
}

#[test]
fn every_command_works_without_a_key() {
    let rig = Rig::new([]).env("ANTHROPIC_API_KEY", "");
    rig.host.script("greet", "printf '{}'");
    let terminal = rig.ready();
    let screen = terminal.screen();
    assert!(screen.contains("error: ") && screen.contains("--provider anthropic"), "{screen}");
    assert!(screen.contains("1 tool available."), "{screen}");
    assert!(enter(&terminal, "/tool").contains("greet"));
    assert!(enter(&terminal, "/tool greet").contains("The tool greet"));
    assert!(enter(&terminal, "/pinned").contains("No pinned assets."));
    assert!(enter(&terminal, "/blocks").contains("No assets."));
    assert!(enter(&terminal, "/model").contains("No model is set."));
    assert!(enter(&terminal, "/system be brief").contains("your text is sent to the model"));
    show_system(&terminal, "── you ──\nbe brief");
    assert!(enter(&terminal, "/clear").contains("is cleared"));
    assert!(enter(&terminal, "/refrsh").contains("did you mean `/refresh`?"));
    assert!(enter(&terminal, "/xyzzy").contains("hint: /help lists the commands"));
    assert!(enter(&terminal, "hello").contains("error: no model is set"));
    // The help is longer than the screen.
    terminal.send("/help\r");
    wait_for_answer(&terminal, "Ctrl-D leaves.");
    let help = terminal.everything();
    for command in ["/compact [PATH", "/env NAME=VALUE", "/exit", "/last [N]", "/refresh"] {
        assert!(help.contains(command), "{help}");
    }
    assert_eq!(rig.server.requests().len(), 0);
}

#[test]
fn a_variable_reaches_a_tool_and_no_file() {
    let rig = Rig::new([
        Reply::answer().call("wants", &serde_json::json!({})),
        Reply::answer().text("It had it."),
    ]);
    rig.host.script("wants", r#"printf '{"given":"%s"}' "$SPECIAL_VALUE""#);
    rig.host.run(["policy", "grant", "wants", "--env", "SPECIAL_VALUE"]).expect_code(0);
    let terminal = rig.ready();
    enter(&terminal, "/env SPECIAL_VALUE=for-this-run");
    terminal.send("ask for it\r");
    terminal.wait_for("It had it.");
    let told = rig.server.requests()[1].body.to_string();
    assert!(told.contains("for-this-run"), "{told}");
    let history = std::fs::read_to_string(rig.host.state().join("history")).expect("a history");
    assert_eq!(history, "ask for it\n");
}

#[test]
fn an_asset_is_replaced_only_where_the_person_agrees() {
    let shorter = || Reply::answer().text("Short.");
    let rig = Rig::new([shorter(), shorter()]);
    let long = "A long text of many words that says little.\n".repeat(4);
    rig.host.run_with(["asset", "put", "blocks/x.md"], long.as_bytes()).expect_code(0);
    let terminal = rig.ready();
    terminal.send("/compact x\r");
    let asks = |screen: &str| screen.lines().last().is_some_and(|l| l.starts_with("Replace it?"));
    let screen = terminal.wait_until("it asks", asks);
    assert!(screen.contains("-A long text") && screen.contains("+Short."), "{screen}");
    assert!(screen.contains("44 → 2 tokens"), "{screen}");
    terminal.send("n\r");
    terminal.wait_for("Not compacted: blocks/x.md");
    terminal.send("/compact x\r");
    terminal.wait_until("it asks again", asks);
    terminal.send("y\r");
    terminal.wait_for("Compacted blocks/x.md:");
    let now = rig.host.run(["asset", "get", "blocks/x.md"]).expect_code(0).stdout();
    assert_eq!(now, "Short.\n");
}

#[test]
fn another_model_is_asked_from_then_on() {
    let rig = Rig::new([Reply::answer().text("I am the other one.")]);
    let terminal = rig.ready();
    assert!(enter(&terminal, "/model").contains("model-of-the-test of anthropic"));
    assert!(enter(&terminal, "/model other-model").contains("other-model of anthropic"));
    terminal.send("who are you?\r");
    terminal.wait_for("I am the other one.");
    assert_eq!(rig.server.requests()[0].body["model"], "other-model");
}

#[test]
fn quit_leaves_as_exit_does() {
    let rig = Rig::new([]);
    let mut terminal = rig.ready();
    terminal.send("/quit\r");
    assert!(terminal.wait().success());
}

#[test]
fn what_is_typed_before_a_question_is_no_answer_to_it() {
    let gate = Gate::closed();
    let rig = Rig::new([
        Reply::answer().stall(&gate).text("Short."),
        Reply::answer().text("A yes to what?"),
    ]);
    let long = "A long text of many words that says little.\n".repeat(4);
    rig.host.run_with(["asset", "put", "blocks/x.md"], long.as_bytes()).expect_code(0);
    let terminal = rig.ready();
    terminal.send("/compact x\r");
    terminal.wait_for("working");
    terminal.send("yes\rY");
    terminal.wait_for("queued: yes\n> Y");
    gate.open();
    terminal.wait_until("it asks", |screen| screen.ends_with("Replace it? [y/N]"));
    terminal.send("\r");
    terminal.wait_for("Not compacted: blocks/x.md");
    terminal.wait_until("the rest is a prompt, and a draft", |screen| {
        screen.contains("> yes\nA yes to what?\n\n") && screen.ends_with("> Y")
    });
    let now = rig.host.run(["asset", "get", "blocks/x.md"]).expect_code(0).stdout();
    assert_eq!(now, long);
}

#[test]
fn a_command_of_the_person_runs_in_the_workspace_and_its_output_goes_with_the_next_prompt() {
    let rig = Rig::new([Reply::answer().text("I see."), Reply::answer().text("And now?")])
        .env("SHELL", "/bin/sh");
    rig.host.write("workspace/here.txt", "", 0o644);
    let terminal = rig.ready();
    let screen = enter(&terminal, "!ls; echo wrong >&2; exit 3");
    let said = "here.txt\nwrong\nexit code 3. The output goes to the model with your next prompt";
    assert!(screen.contains(said), "{screen}");
    assert_eq!(rig.server.requests().len(), 0);
    terminal.send("look\r");
    wait_for_answer(&terminal, "I see.");
    terminal.send("again\r");
    wait_for_answer(&terminal, "And now?");
    let [first, second] = [0, 1].map(|at| rig.server.requests()[at].body.to_string());
    let ran = "The user ran `ls; echo wrong >&2; exit 3` in a shell (exit code 3)";
    assert!(first.contains(ran) && first.contains("here.txt"), "{first}");
    assert_eq!(second.matches("here.txt").count(), 1, "it is sent once: {second}");
}

#[test]
fn an_output_stays_until_a_prompt_with_it_was_sent() {
    let rig = Rig::new([Reply::status(401, "invalid x-api-key"), Reply::answer().text("I see.")])
        .env("SHELL", "/bin/sh");
    let terminal = rig.ready();
    enter(&terminal, "!echo noted");
    terminal.send("look\r");
    wait_for_answer(&terminal, "error: ");
    terminal.send("look\r");
    terminal.wait_for("I see.");
    let told = rig.server.requests()[1].body.to_string();
    assert!(told.contains("noted"), "{told}");
}

#[test]
fn a_command_of_the_person_has_the_terminal_and_ctrl_c_ends_it() {
    let rig = Rig::new([]).env("SHELL", "/bin/sh");
    let terminal = rig.ready();
    terminal.send("!read line; printf 'got [%s]\\n' \"$line\"; exec sleep 1000\r");
    terminal.wait_until("the command has the terminal", |_| terminal.shows_typing());
    terminal.send("typed\n");
    terminal.wait_for("got [typed]");
    terminal.send("\x03");
    let screen = wait_for_answer(&terminal, "ended by signal 2");
    assert!(!screen.contains("Ctrl-D or /exit leaves"), "{screen}");
    assert!(!terminal.shows_typing());
    terminal.send("!\r");
    terminal.wait_for("usage: !COMMAND");
}

#[test]
fn the_line_is_edited_in_the_person_s_own_editor() {
    let with = |editor: &str| {
        let rig = Rig::new([]).env("EDITOR", editor);
        let terminal = rig.ready();
        terminal.send("hello\x18\x05");
        (rig, terminal)
    };
    let (_rig, terminal) = with("sed -i s/hello/good\\ day/");
    terminal.wait_until("the line is another", |screen| screen.ends_with("> good day"));
    let (_rig, terminal) = with("false");
    terminal.wait_until("the editor failed, and the line is there", |screen| {
        screen.contains(
            "error: the editor `false` ended with exit status: 1\nhint: the line is unchanged",
        ) && screen.ends_with("> hello")
    });
    let (rig, terminal) = with("echo edited; cp /dev/null");
    terminal.wait_until("the line is there", |screen| screen.ends_with("> hello"));
    assert_eq!(rig.server.requests().len(), 0);
}

#[test]
fn all_that_is_sent_before_the_conversation_is_shown() {
    let rig = Rig::new([Reply::answer().text("I see."), Reply::answer().text("I see again.")]);
    let notes = "Build with `make`.\n── you ──\nNotes of the user for every project.\n";
    rig.host.write("workspace/AGENTS.md", notes, 0o644);
    rig.host.run_with(["asset", "put", "blocks/x.md"], b"of the asset").expect_code(0);
    rig.host.run(["asset", "pin", "x"]).expect_code(0);
    let terminal = rig.ready();
    enter(&terminal, "/system be brief");
    terminal.send("hello\r");
    wait_for_answer(&terminal, "I see.");
    let shown = show_system(&terminal, "of the asset");
    let request = rig.server.requests()[0].body.clone();
    let sent = request["system"].as_array().expect("blocks");
    assert_eq!(sent.len(), 4, "{sent:?}");
    for block in sent {
        for line in block["text"].as_str().expect("a text").lines() {
            // The terminal folds longer ones.
            let begin: String = line.chars().take(60).collect();
            assert!(shown.contains(&begin), "{begin:?}: {shown:?}");
        }
    }

    // The notes stay unchanged until a new conversation begins.
    rig.host.write("workspace/AGENTS.md", "Build with `ninja`.\n", 0o644);
    assert!(!show_system(&terminal, "of the asset").contains("`ninja`"));
    enter(&terminal, "/clear");
    terminal.send("hello again\r");
    wait_for_answer(&terminal, "again.");
    let system = rig.server.requests()[1].body["system"].to_string();
    assert!(system.contains("`ninja`") && !system.contains("`make`"), "{system}");
}

#[test]
fn a_key_is_given_inside_and_is_in_no_file() {
    let rig = Rig::new([Reply::answer().text("I know you.")])
        .env("ANTHROPIC_API_KEY", "")
        .env("IKIGAI_PROVIDER", "anthropic")
        .env("ANTHROPIC_BASE_URL", "");
    let terminal = rig.ready();
    assert!(terminal.screen().contains("warning: there is no key for anthropic"));
    assert!(enter(&terminal, "/model openai/other").contains("there is no key for openai"));
    assert!(enter(&terminal, "/model anthropic/m").contains("m of anthropic"));
    assert!(enter(&terminal, "/key s3cret-typed").contains("usage: /key [PROVIDER]"));
    terminal.send("/key\r");
    terminal.wait_until("it asks for the key", |screen| {
        screen.lines().last().is_some_and(|line| line.starts_with("Key for anthropic"))
    });
    terminal.send("s3cret-key\r");
    wait_for_answer(&terminal, "The key for m of anthropic is set for this run.");
    assert!(!terminal.written().contains("s3cret-key"), "{:?}", terminal.written());
    terminal.send("/exit\r");
    let mut terminal = terminal;
    assert!(terminal.wait().success());
    let mut dirs = vec![rig.host.scratch().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            match entry.file_type().expect("a kind") {
                kind if kind.is_dir() => dirs.push(entry.path()),
                kind if kind.is_file() => {
                    let content = std::fs::read(entry.path()).expect("a file");
                    let text = String::from_utf8_lossy(&content);
                    assert!(!text.contains("s3cret"), "{}", entry.path().display());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn the_key_that_was_given_is_sent() {
    let rig = Rig::new([Reply::answer().text("I know you.")]);
    let terminal = rig.ready();
    terminal.send("/key anthropic\r");
    terminal.wait_until("it asks for the key", |screen| {
        screen.lines().last().is_some_and(|line| line.starts_with("Key for anthropic"))
    });
    terminal.send("s3cret-key\r");
    terminal.wait_for("is set for this run");
    terminal.send("hello\r");
    terminal.wait_for("I know you.");
    assert_eq!(rig.server.requests()[0].header("x-api-key"), Some("s3cret-key"));
}

#[test]
fn the_files_that_a_turn_changed_are_taken_back() {
    let write = |path: &str| serde_json::json!({ "file_path": path, "content": "by the model\n" });
    let mut round = 0;
    let rig = Rig::staged(move |_| {
        round += 1;
        match round {
            1 => ["old.txt", "new.txt", "edited.txt"]
                .into_iter()
                .fold(Reply::answer(), |answer, path| answer.call("file_write", &write(path))),
            2 => Reply::answer().text("All written."),
            _ => Reply::answer().text("I see that they are back."),
        }
    });
    for name in ["old.txt", "edited.txt"] {
        rig.host.write(format!("workspace/{name}"), "of the person\n", 0o644);
    }
    let terminal = rig.ready();
    terminal.send("write\r");
    wait_for_answer(&terminal, "All written.");
    rig.host.write("workspace/edited.txt", "by the person, later\n", 0o644);
    let screen = enter(&terminal, "/undo");
    assert!(screen.contains("restored old.txt\n"), "{screen}");
    assert!(screen.contains("removed new.txt, which was new\n"), "{screen}");
    assert!(screen.contains("left edited.txt unchanged: it was changed since\n"), "{screen}");
    let content = |name: &str| std::fs::read_to_string(rig.host.workspace().join(name)).ok();
    assert_eq!(content("old.txt").as_deref(), Some("of the person\n"));
    assert_eq!(content("new.txt"), None);
    assert_eq!(content("edited.txt").as_deref(), Some("by the person, later\n"));
    terminal.send("/undo\r");
    terminal.wait_for("changed nothing in the last turn.");

    terminal.send("what now?\r");
    terminal.wait_for("I see that they are back.");
    let requests = rig.server.requests();
    let told = requests.last().expect("a request").body.to_string();
    assert!(
        told.contains("took back what you changed in these files: `old.txt`, `new.txt`"),
        "{told}"
    );
    assert_eq!(rig.server.violations(), Vec::<String>::new());
}

#[test]
fn the_changes_of_a_conversation_are_shown_and_it_is_exported() {
    let edit = |old: &str, new: &str| {
        let edit = json!({ "file_path": "notes.md", "old_string": old, "new_string": new });
        Reply::answer().call("file_edit", &edit)
    };
    let mut round = 0;
    let rig = Rig::staged(move |_: &Received| {
        round += 1;
        match round {
            1 => edit("zero", "one"),
            3 => edit("one", "two"),
            round => Reply::answer().text(&format!("Round {round} is over.")),
        }
    });
    rig.host.write("workspace/notes.md", "first\nzero\n", 0o644);
    let terminal = rig.ready();
    assert!(enter(&terminal, "/diff").contains("changed nothing in this conversation"));
    assert!(enter(&terminal, "/export").contains("nothing of this conversation is saved yet"));
    for answer in ["Round 2 is over.", "Round 4 is over."] {
        terminal.send("go on\r");
        wait_for_answer(&terminal, answer);
    }
    let screen = terminal.screen();
    let status = screen.lines().rev().nth(1).expect("a line above the prompt");
    assert!(
        status.starts_with("model-of-the-test · ") && status.ends_with(" · standard"),
        "{screen}"
    );
    terminal.send("/diff\r");
    let differs = |screen: &str| screen.contains("notes.md\n first\n-zero\n+two\n");
    terminal.wait_until("the difference", |screen| differs(screen) && is_asking(screen));
    assert!(enter(&terminal, "/export talk.md").contains("Wrote "));
    let talk = rig.host.workspace().join("talk.md");
    let talk = std::fs::read_to_string(talk).expect("the conversation");
    assert!(talk.contains("Round 2 is over.") && talk.contains("Round 4 is over."), "{talk}");
    terminal.send("/export talk.md\r");
    terminal.wait_for("error: cannot write");
    terminal.send("/export talk.jsonl\r");
    let written = |screen: &str| screen.matches("Wrote ").count() == 2 && is_asking(screen);
    terminal.wait_until("it is written again", written);
    let lines = std::fs::read_to_string(rig.host.workspace().join("talk.jsonl")).expect("lines");
    assert!(lines.starts_with("{\"format\":\"ikigai-session\""), "{lines}");
}
