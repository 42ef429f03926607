//! Answers to questions, and secrets.

use crate::rig::{Typing, is_asking, start};

#[test]
fn keys_typed_before_a_question_are_no_answer_to_it() {
    for term in ["xterm-256color", "dumb"] {
        let Typing { terminal, .. } = &mut start(80, &[("TERM", term)]);
        terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
        terminal.send("ask\ry\r");
        terminal.wait_until("the question is there", |screen| is_asking(screen, "sure?"));
        terminal.send("no\r");
        terminal.wait_for(r#"answered Line("no")"#);
        terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
        terminal.send("ask\ry\r");
        terminal.wait_until("the question is there", |screen| is_asking(screen, "sure?"));
        terminal.send("\r");
        terminal.wait_for(r#"answered Line("")"#);
    }
}

#[test]
fn an_answer_is_not_remembered_and_nothing_is_offered_for_it() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("ask\ry\r");
    terminal.wait_until("the question is there", |screen| is_asking(screen, "sure?"));
    terminal.send("see @");
    let screen = terminal.wait_for("sure? see @");
    assert!(!screen.contains("main.rs"), "{screen}");
    terminal.send("\r");
    terminal.wait_for(r#"answered Line("see @")"#);
    terminal.send("\x1b[A");
    terminal
        .wait_until("the line before the question is back", |screen| is_asking(screen, "> ask"));
}

#[test]
fn a_secret_is_neither_shown_nor_remembered() {
    for term in ["xterm-256color", "dumb"] {
        let Typing { terminal, .. } = &mut start(80, &[("TERM", term)]);
        terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
        terminal.send("hide\r");
        terminal.wait_until("the question is there", |screen| is_asking(screen, "secret?"));
        terminal.send("s3cret\r");
        terminal.wait_for("told 6 bytes");
        terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
        terminal.send("hide\r");
        terminal.wait_until("the question is there", |screen| is_asking(screen, "secret?"));
        // A terminal that can move its cursor would recall the answer from the history.
        terminal.send("\x1b[A\r");
        terminal.wait_for(if term == "dumb" { "told 3 bytes" } else { "told 0 bytes" });
        terminal.send("shown\r");
        terminal.wait_for(r#"got "shown""#);
        let written = terminal.written();
        assert!(!written.contains("s3") && !written.contains("cret\r"), "{term}: {written:?}");
    }
}

#[test]
fn keys_for_a_line_are_no_answer_to_a_question() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("ask\ry\r");
    terminal.wait_until("the question is there", |screen| is_asking(screen, "sure?"));
    terminal.send("\x0f\x18\x05no\r");
    terminal.wait_for(r#"answered Line("no")"#);
}
