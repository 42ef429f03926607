//! Ctrl-Z, and the modes of the terminal afterwards.

use std::process::Command;

use rustix::process::Signal;

use crate::rig::{Typing, is_asking, start, start_as};

/// Returns a shell with job control that runs the program, and continues it with the next line.
pub(crate) fn shell(program: Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"set -m; "$@"; echo stopped; read line; fg; echo over"#, "sh"]);
    shell.arg(program.get_program()).args(program.get_args());
    shell
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_keeps_what_was_typed() {
    let Typing { terminal, .. } = &mut start_as(80, &[], shell);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("a draft");
    terminal.wait_for("> a draft");
    terminal.send("\x1a");
    let screen = terminal.wait_for("stopped");
    assert!(screen.contains("> a draft\n"), "{screen}");
    assert!(terminal.shows_typing());
    terminal.send("\r");
    terminal.wait_until("the draft is back", |screen| is_asking(screen, "> a draft"));
    terminal.send(" and more\r");
    terminal.wait_for(r#"got "a draft and more""#);
    terminal.send("\x04");
    terminal.wait_for("over");
    assert!(terminal.shows_typing());
}

#[test]
fn ctrl_z_without_a_shell_stops_nothing() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("a draft\x1a");
    // The editor requests bracketed paste each time that it begins to read.
    terminal.wait_until_written("the editor reads again", |written| {
        written.matches("\x1b[?2004h").count() >= 2
    });
    terminal.send(" and more\r");
    terminal.wait_for(r#"got "a draft and more""#);
}

#[test]
fn the_modes_of_the_terminal_are_set_again_after_a_stop() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("doze\r");
    terminal.wait_for("dozing");
    terminal.show_typing();
    terminal.signal(Signal::CONT);
    terminal.wait_for("awake");
    assert!(!terminal.shows_typing(), "nobody reads");
    terminal.signal(Signal::CONT);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.show_typing();
    terminal.signal(Signal::CONT);
    terminal.wait_until_typing_is_hidden();
    terminal.send("ab\x1b[Dc\r");
    terminal.wait_for(r#"got "acb""#);
}

#[test]
fn ctrl_z_during_work_gives_the_terminal_to_the_shell() {
    let typing = start_as(80, &[], shell);
    let terminal = &typing.terminal;
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("work\r");
    terminal.wait_for("working");
    terminal.send("a dra");
    terminal.wait_for("> a dra");
    terminal.send("\x1a");
    terminal.wait_for("stopped");
    // The shell of this test leaves the modes of the terminal as they are.
    terminal.send("\nft");
    terminal.wait_for("> a draft");
    typing.touch("done");
    terminal.wait_until("the draft is there", |screen| {
        screen.contains("worked") && is_asking(screen, "> a draft")
    });
    terminal.send("\r");
    terminal.wait_for(r#"got "a draft""#);
    terminal.send("\x04");
    terminal.wait_for("over");
    assert!(terminal.shows_typing());
}
