//! The end of the REPL: by the user, by a signal or with the terminal. No process may be left.

use ikigai_provider_testing::Reply;
use rustix::process::Signal;

use crate::repl::rig::{Rig, wait_for_answer};

#[test]
fn a_terminal_that_is_closed_during_a_call_takes_everything_with_it() {
    let (rig, mut terminal) = Rig::in_endless_call();
    terminal.close();
    terminal.wait();
    rig.host.assert_nothing_left();
}

#[test]
fn sigterm_ends_a_call_and_the_program() {
    let (rig, mut terminal) = Rig::in_endless_call();
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.wait().code(), Some(128 + 15));
    assert!(terminal.shows_typing());
    rig.host.assert_nothing_left();
}

#[test]
fn sigterm_at_the_prompt_puts_the_terminal_back() {
    let rig = Rig::new([]);
    let mut terminal = rig.ready();
    assert!(!terminal.shows_typing());
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.wait().code(), Some(128 + 15));
    assert!(terminal.shows_typing());
    // Without this sequence, the terminal would stay in bracketed paste mode.
    let written = terminal.written();
    assert!(written.rfind("\x1b[?2004l") > written.rfind("\x1b[?2004h"), "{written:?}");
}

#[test]
fn sigterm_puts_a_terminal_back_that_does_not_answer() {
    let rig = Rig::new([]);
    let mut terminal = rig.ready();
    terminal.fall_silent();
    let asked = |written: &str| written.matches("\x1b[6n").count();
    let before = asked(&terminal.written());
    // The editor asks the terminal for the position of the next prompt, and waits for the answer.
    terminal.send("/help\r");
    terminal.wait_until_written("it asks once more", |written| asked(written) > before);
    terminal.signal(Signal::TERM);
    terminal.wait();
    assert!(terminal.shows_typing());
    let written = terminal.written();
    assert!(written.rfind("\x1b[?2004l") > written.rfind("\x1b[?2004h"), "{written:?}");
}

#[test]
fn sigterm_ends_a_prompt_of_plain_lines() {
    let rig = Rig::new([]).env("TERM", "dumb");
    let mut terminal = rig.start();
    terminal.wait_for(" available.");
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.wait().code(), Some(128 + 15));
    assert!(terminal.shows_typing());
}

#[test]
fn ctrl_c_at_the_prompt_says_how_to_leave_and_ctrl_d_leaves() {
    let rig = Rig::new([]);
    let mut terminal = rig.ready();
    terminal.send("\x03");
    wait_for_answer(&terminal, "Ctrl-D or /exit leaves.");
    terminal.send("\x04");
    assert!(terminal.wait().success());
    assert!(terminal.shows_typing());
    rig.host.assert_nothing_left();
}

#[test]
fn what_is_typed_during_a_turn_is_read_after_it() {
    let (gate, rig, mut terminal) = Rig::in_answer([]);
    terminal.send("/model\r\x04");
    gate.open();
    terminal.wait_for("model-of-the-test of anthropic\n");
    assert!(terminal.wait().success());
    rig.host.assert_nothing_left();
}

#[test]
fn without_a_terminal_it_is_ask() {
    let rig = Rig::new([Reply::answer().text("**Plain** text.")]);
    let ran = rig.host.run_with([""; 0], b"a question").expect_code(0);
    assert_eq!(ran.stdout(), "**Plain** text.\n");
    let told = rig.server.requests()[0].body.to_string();
    assert!(told.contains("a question"), "{told}");
}
