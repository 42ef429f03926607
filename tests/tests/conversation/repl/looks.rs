//! Terminals of every kind.

use ikigai_provider_testing::Reply;

use crate::repl::rig::{Rig, enter, is_asking};

const ANSWER: &str = "Some **bold** words and 世界 in a line that is longer than forty columns.";

#[test]
fn a_wide_terminal_has_wide_lines() {
    let mut rig = Rig::new([Reply::answer().text(ANSWER)]);
    rig.columns = 200;
    let terminal = rig.ready();
    terminal.send("wide 世界 please\r");
    terminal.wait_for("Some bold words and 世界 in a line that is longer than forty columns.");
    assert!(terminal.screen().contains("> wide 世界 please"));
}

#[test]
fn a_narrow_terminal_breaks_between_words() {
    let mut rig = Rig::new([Reply::answer().text(ANSWER)]);
    rig.columns = 40;
    let terminal = rig.ready();
    terminal.send("go on\r");
    terminal.wait_for("Some bold words and 世界 in a line that\nis longer than forty columns.");
}

#[test]
fn without_colours_text_has_styles_still() {
    let rig = Rig::new([Reply::answer().text(ANSWER)]).env("NO_COLOR", "1");
    let terminal = rig.ready();
    terminal.send("go on\r");
    terminal.wait_for("Some bold words");
    let written = terminal.written();
    assert!(written.contains("\x1b[1mbold") && !written.contains("\x1b[36m"), "{written:?}");
}

#[test]
fn a_dumb_terminal_is_enough() {
    let rig = Rig::new([Reply::answer().text(ANSWER)]).env("TERM", "dumb");
    let terminal = rig.start();
    terminal.wait_for("0 tools available.");
    terminal.send("go on\r");
    terminal.wait_for("Some **bold** words");
    terminal.send("/help\r");
    terminal.wait_for("/rename TITLE");
    assert!(!terminal.written().contains('\x1b'), "{:?}", terminal.written());
    terminal.send("\x04");
    let mut terminal = terminal;
    assert!(terminal.wait().success());
}

#[test]
fn what_was_typed_before_is_there_the_next_time() {
    let rig = Rig::new([]);
    let mut terminal = rig.ready();
    enter(&terminal, "/system one two");
    terminal.send("\x04");
    assert!(terminal.wait().success());
    let terminal = rig.ready();
    terminal.send("\x1b[A");
    terminal.wait_for("> /system one two");
    assert!(!is_asking(&terminal.screen()));
}
