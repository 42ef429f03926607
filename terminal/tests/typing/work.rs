//! Typing while the program works.

use std::fs;

use tempfile::TempDir;

use crate::rig::{Typing, is_asking, start};

/// Starts the program, and work in it that ends with the file `done`.
pub(crate) fn working(columns: u16) -> Typing {
    let typing = start(columns, &[]);
    typing.terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    typing.terminal.send("work\r");
    typing.terminal.wait_for("working");
    typing
}

#[test]
fn lines_that_are_typed_during_work_are_seen_and_read_after_it() {
    let typing = working(80);
    let terminal = &typing.terminal;
    terminal.send("first\rsecond, w\u{1b}[200~ith\rtwo lines\u{1b}[201~\rthe thi");
    let screen = terminal.wait_for("> the thi");
    assert!(
        screen.contains("queued: first\nqueued: second, with two lines\n> the thi"),
        "{screen}"
    );
    typing.touch("done");
    let screen = terminal.wait_until("the rest is before the cursor", |screen| {
        screen.contains("lines\"\n") && is_asking(screen, "> the thi")
    });
    assert!(screen.contains("It begins\nworked\n\n> first\ngot \"first\"\n"), "{screen}");
    assert!(screen.contains(r#"got "second, with\ntwo lines""#), "{screen}");
    assert!(!screen.contains("queued") && !screen.contains("working"), "{screen}");
    terminal.send("rd\r");
    terminal.wait_for(r#"got "the third""#);
}

#[test]
fn ctrl_t_gives_the_work_more_time_and_changes_no_line() {
    let typing = working(80);
    let terminal = &typing.terminal;
    terminal.send("dra\x14ft");
    terminal.wait_until("both are there", |screen| {
        screen.contains("given more time") && screen.ends_with("> draft")
    });
    typing.touch("done");
    terminal.wait_until("it is over", |screen| {
        screen.contains("worked") && is_asking(screen, "> draft")
    });
}

#[test]
fn what_was_typed_comes_back_after_an_interruption() {
    let typing = working(80);
    let terminal = &typing.terminal;
    terminal.send("first\rsecond");
    terminal.wait_for("> second");
    terminal.send("\x1b");
    terminal.wait_for("escaped");
    typing.touch("interrupted");
    typing.touch("done");
    terminal.wait_until("both lines are before the cursor", |screen| {
        screen.ends_with("> first\n… second")
    });
    terminal.send("\r");
    terminal.wait_for(r#"got "first\nsecond""#);
}

#[test]
fn a_queued_line_is_in_the_history_and_a_secret_is_not() {
    let folder = TempDir::new().expect("a temporary directory");
    let path = folder.path().join("history");
    let typing = start(80, &[("HISTORY", path.to_str().expect("UTF-8"))]);
    let terminal = &typing.terminal;
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("work\r");
    terminal.wait_for("working");
    terminal.send("/env KEY=secret\rremember me\r");
    terminal.wait_for("queued: remember me");
    typing.touch("done");
    terminal.wait_for(r#"got "remember me""#);
    assert_eq!(fs::read_to_string(&path).expect("a history"), "work\nremember me\n");
}

#[test]
fn the_window_may_become_narrower_while_a_draft_is_shown() {
    let typing = working(80);
    let terminal = &typing.terminal;
    terminal.send("a draft of some words");
    terminal.wait_for("> a draft of some words");
    terminal.resize(20, 24);
    terminal.wait_for("> …t of some words");
    typing.touch("done");
    terminal
        .wait_until("all of it is there", |screen| screen.ends_with("> a draft of some wo\nrds"));
    assert!(!terminal.screen().contains('…'), "{}", terminal.screen());
}
