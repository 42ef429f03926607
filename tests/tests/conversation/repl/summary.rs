//! The summary of a conversation that ends at the terminal.

use ikigai_provider_testing::{Gate, Reply};
use ikigai_terminal_testing::Terminal;

use crate::repl::rig::{Rig, enter};

const ANSWERS: [&str; 3] = ["The first answer.", "The second answer.", "The third answer."];

/// A model that answers three times, and then gives these replies.
fn rig(then: impl IntoIterator<Item = Reply>) -> Rig {
    let answers = ANSWERS.map(|text| Reply::answer().text(text));
    Rig::new(answers.into_iter().chain(then)).env("IKIGAI_AUTO_SUMMARY", "on")
}

fn noting() -> Reply {
    Reply::answer().text("Decided: the colour is blue.")
}

/// Has a conversation of three turns.
fn talk(terminal: &Terminal) {
    for answer in ANSWERS {
        terminal.send("go on\r");
        terminal.wait_for(answer);
    }
}

/// Returns the summary of the workspace.
fn summary(rig: &Rig) -> Option<String> {
    let listed = rig.host.run(["asset", "list", "recent/", "--json"]).expect_code(0).stdout();
    let start = listed.find("recent/")?;
    let end = start + listed[start..].find('"').expect("an end");
    Some(rig.host.run(["asset", "get", &listed[start..end]]).expect_code(0).stdout())
}

#[test]
fn a_conversation_that_is_left_is_remembered_in_the_next() {
    let rig = rig([noting()]);
    let mut terminal = rig.ready();
    talk(&terminal);
    terminal.send("/exit\r");
    assert!(terminal.wait().success());
    assert_eq!(rig.server.requests().len(), 4);
    let summary = summary(&rig).expect("a summary");
    assert!(summary.contains("Decided: the colour is blue."), "{summary}");

    let mut next = rig.ready();
    let pinned = enter(&next, "/pinned");
    // The line is longer than the screen is wide.
    assert!(pinned.contains("  recent/workspace-"), "{pinned}");
    next.send("/system\r");
    next.wait_for("── ikigai:///recent/");
    // The conversation is empty, so no entry is added.
    next.send("/exit\r");
    assert!(next.wait().success());
    assert_eq!(rig.server.requests().len(), 4);
    assert_eq!(rig.server.violations(), Vec::<String>::new());
}

#[test]
fn a_conversation_that_is_cleared_is_remembered() {
    let rig = rig([noting()]);
    let terminal = rig.ready();
    talk(&terminal);
    assert!(enter(&terminal, "/clear").contains("is cleared"));
    let summary = summary(&rig).expect("a summary");
    assert!(summary.contains("earlier turns\nDecided: the colour is blue."), "{summary}");
}

#[test]
fn a_conversation_that_another_takes_the_place_of_is_remembered() {
    let rig = rig([Reply::answer().text("The fourth answer."), noting()]);
    let mut terminal = rig.ready();
    terminal.send("the other one\r");
    terminal.wait_for(ANSWERS[0]);
    terminal.send("/exit\r");
    assert!(terminal.wait().success());
    let terminal = rig.ready();
    for answer in [ANSWERS[1], ANSWERS[2], "The fourth answer."] {
        terminal.send("go on\r");
        terminal.wait_for(answer);
    }
    let screen = enter(&terminal, "/resume the other one");
    assert!(screen.contains("Continuing `the other one` (1 turn)."), "{screen}");
    let summary = summary(&rig).expect("a summary");
    assert!(summary.contains("\nDecided: the colour is blue."), "{summary}");
    assert!(!summary.contains("earlier turns"), "{summary}");
}

#[test]
fn a_person_who_does_not_want_to_wait_leaves_at_once() {
    let gate = Gate::closed();
    let rig = rig([Reply::silence(&gate)]);
    let mut terminal = rig.ready();
    talk(&terminal);
    terminal.send("/exit\r");
    terminal.wait_for("summarizing the conversation for later ones");
    terminal.send("\x03");
    assert!(terminal.wait().success());
    assert!(terminal.shows_typing());
    gate.open();
    assert_eq!(summary(&rig), None);
    rig.host.assert_nothing_left();
}
