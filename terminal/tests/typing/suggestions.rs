//! Menus: the suggestions, and the keys that take them.

use crate::rig::{Typing, is_asking, start};

#[test]
fn files_assets_and_commands_are_offered() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("see @");
    let screen = terminal.wait_for("src/main.rs");
    assert!(screen.contains("a b.txt") && !screen.contains(".hidden"), "{screen}");
    terminal.send("smain");
    terminal.wait_until("only one is left", |screen| !screen.contains("a b.txt"));
    terminal.send("\r");
    terminal.wait_for("> see @src/main.rs");
    terminal.send("@");
    terminal.wait_for("a b.txt");
    terminal.send("b.t");
    terminal.wait_until("one is left", |screen| screen.matches("src/main.rs").count() == 1);
    terminal.send("\r@@");
    terminal.wait_for("blocks/decisions.md");
    terminal.send("\r");
    terminal.wait_for(r#"> see @src/main.rs @"a b.txt" @@blocks/decisions.md"#);
    terminal.send("\r");
    terminal.wait_for(r#"got "see @src/main.rs @\"a b.txt\" @@blocks/decisions.md "#);
    terminal.send("/t");
    terminal.wait_for("a tool");
    terminal.send("\r");
    terminal.wait_for("> /tool");
    terminal.send("\t");
    terminal.wait_for("file_read");
    terminal.send("\r");
    terminal.wait_for("> /tool file_read");
    terminal.send("\r");
    terminal.wait_for(r#"got "/tool file_read ""#);
}

#[test]
fn tab_takes_what_is_chosen_and_ends_no_line() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("see @smain");
    terminal.wait_for("  src/main.rs");
    terminal.send("\t");
    terminal.wait_for("> see @src/main.rs");
    terminal.send("@");
    terminal.wait_for("a b.txt");
    terminal.send("\t\t\t");
    terminal.wait_for(r#"> see @src/main.rs @"a b.txt""#);
    terminal.send("\r");
    terminal.wait_for(r#"got "see @src/main.rs @\"a b.txt\" "#);
}

#[test]
fn nothing_is_offered_where_nothing_begins() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("me@");
    terminal.send("example.org a/b");
    let screen = terminal.wait_for("> me@example.org a/b");
    assert!(!screen.contains("main.rs") && !screen.contains("NO RECORDS"), "{screen}");
    terminal.send("\r");
    terminal.wait_for(r#"got "me@example.org a/b""#);
}

#[test]
fn a_space_behind_a_command_offers_what_may_follow() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("/pin");
    terminal.wait_until("nothing more is offered", |screen| is_asking(screen, "> /pin"));
    terminal.send(" ");
    terminal.wait_for("blocks/decisions.md");
    terminal.send("decisions");
    terminal.wait_until("it is named", |screen| is_asking(screen, "> /pin decisions"));
    terminal.send("\r");
    terminal.wait_for(r#"got "/pin decisions""#);
    terminal.send("/pin ");
    terminal.wait_until("there is a menu", |screen| screen.ends_with("blocks/decisions.md"));
    terminal.send("\x1b[B\r");
    terminal.wait_for("> /pin blocks/decisions.md");
}

#[test]
fn enter_takes_nothing_that_nobody_has_asked_for() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("/");
    terminal.wait_for("what can be typed");
    terminal.send("\r");
    terminal.wait_for(r#"got "/""#);
    terminal.send("/");
    terminal.wait_until("there is a menu", |screen| screen.matches("what can be").count() == 1);
    terminal.send("\t");
    terminal.wait_until("Tab takes the first", |screen| is_asking(screen, "> /help"));
    terminal.send("\r");
    terminal.wait_for(r#"got "/help ""#);
}

#[test]
fn a_file_is_offered_behind_a_bracket() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("(@mai");
    terminal.wait_for("  src/main.rs");
}
