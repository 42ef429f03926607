//! Questions that one key answers, while the program works and without an editor.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use ikigai_terminal::question::{self, Facts, KeyQuestion, QuestionHandle};
use ikigai_terminal::{Editor, Screen};
use ikigai_terminal_testing::{Terminal, wait_until_some};

use crate::rig::{Typing, is_asking, start, start_as};
use crate::stopping::shell;

/// A deceptive file name.
const DECEIVING: &str = "/tmp/\u{1b}]0;owned\u{7}a\u{202e}b\n┗ o once";

fn question(number: usize) -> KeyQuestion {
    let choices = [('o', "once"), ('s', "this session"), ('d', "deny")];
    KeyQuestion {
        text: format!("May `tool` read number {number}?"),
        facts: Facts::new(vec![("arguments".to_owned(), DECEIVING.to_owned())]),
        details: Facts::new(vec![("file".to_owned(), "sha256 of the test".to_owned())]),
        choices: choices.map(|(key, meaning)| (key, meaning.to_owned())).to_vec(),
        telling: Some(('t', "tell".to_owned())),
        last: None,
    }
}

fn exists(name: &str) -> bool {
    Path::new(name).exists()
}

/// Asks a question for each file `ask1`, `ask2` and so on, until the file `done` exists. Withdraws
/// all of them if the file `void` exists, and writes a text as a model would if the file `say`
/// exists.
pub(crate) fn ask_beside(editor: &mut Editor, screen: &Screen) {
    let (asker, worker) = (editor.asker(), screen.clone());
    let stop = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&stop);
    let work = thread::spawn(move || {
        let busy = worker.busy("working").expect("a screen");
        let mut asked: Vec<QuestionHandle> = Vec::new();
        wait_until_some(
            || {
                if exists("void") {
                    asked.clear();
                }
                if exists("say") {
                    fs::remove_file("say").expect("a file");
                    worker.text("┏ ikigai asks \n\n┃ Said by a model.\n\n").expect("a screen");
                    worker.end_text().expect("a screen");
                }
                let number = asked.len() + 1;
                if exists(&format!("ask{number}")) {
                    let screen = worker.clone();
                    asked.push(asker.ask(question(number), move |given| {
                        screen.line(&format!("{number} is {given:?}")).expect("a screen");
                    }));
                }
                exists("done").then_some(())
            },
            || "the work was not ended".to_owned(),
        );
        drop(busy);
        ending.store(true, Ordering::SeqCst);
    });
    editor.watch(&stop, &|_| screen.line("a key for the work").expect("a screen")).expect("keys");
    work.join().expect("the work");
    screen.line("worked").expect("a screen");
}

/// Asks one question without an editor, as soon as the file `ask1` exists.
pub(crate) fn ask_alone(screen: &Screen) {
    screen.line("alone").expect("a screen");
    wait_until_some(|| exists("ask1").then_some(()), || "nobody asks".to_owned());
    let given = question::ask(screen, &question(1), &|| exists("void")).expect("a terminal");
    screen.line(&format!("1 is {given:?}")).expect("a screen");
}

fn beside() -> Typing {
    let typing = start(80, &[]);
    typing.terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    typing.terminal.send("consent\r");
    typing.terminal.wait_for("working");
    typing
}

/// Returns whether a question can be answered.
fn is_asked(screen: &str, number: usize) -> bool {
    let after = screen.split_once(&format!("number {number}?\n"));
    let block = after.and_then(|(_, rest)| rest.split_once("\n┗ o once"));
    block.is_some_and(|(facts, _)| facts.lines().all(|line| line.starts_with('┃')))
}

/// Waits until a question can be answered.
fn wait_for_keys(terminal: &Terminal) -> String {
    terminal.wait_for("┗ o once · s this session · d deny · ? details · t tell")
}

fn wait_for_draft(terminal: &Terminal, draft: &str) {
    terminal.wait_until("the draft is there", |screen| screen.ends_with(&format!("> {draft}")));
}

#[test]
fn what_was_typed_before_a_question_answers_nothing_and_stays() {
    let typing = beside();
    let terminal = &typing.terminal;
    terminal.send("o\ro");
    wait_for_draft(terminal, "o");
    typing.touch("ask1");
    let screen = wait_for_keys(terminal);
    assert!(screen.ends_with("queued: o\n> o"), "{screen}");
    assert!(!screen.contains("1 is"), "{screen}");
    terminal.send("o");
    let screen = terminal.wait_for("1 is Key('o')");
    assert!(screen.contains("┗ → once\n1 is Key('o')"), "{screen}");
    typing.touch("done");
    terminal.wait_until("it is in the editor", |screen| {
        screen.contains("got \"o\"\n") && is_asking(screen, "> o")
    });
}

#[test]
fn each_key_answers_and_others_are_typed() {
    let typing = beside();
    let terminal = &typing.terminal;
    let keys = [
        ("o", "Key('o')"),
        ("s", "Key('s')"),
        ("d", "Key('d')"),
        ("\r", "Declined"),
        ("\x1b", "Declined"),
        ("\x04", "Declined"),
    ];
    for (at, (key, given)) in keys.iter().enumerate() {
        let number = at + 1;
        typing.touch(&format!("ask{number}"));
        terminal.wait_until("it is asked", |screen| is_asked(screen, number));
        terminal.send(key);
        terminal.wait_for(&format!("{number} is {given}"));
    }
    typing.touch("ask7");
    terminal.wait_until("it is asked", |screen| is_asked(screen, 7));
    terminal.send("y");
    wait_for_draft(terminal, "y");
    terminal.wait_until("keys count again", |screen| is_asked(screen, 7));
    assert!(!terminal.screen().contains("7 is"), "{}", terminal.screen());
    typing.touch("done");
    terminal.wait_for("┗ → not asked any more");
}

#[test]
fn a_text_is_told() {
    let typing = beside();
    let terminal = &typing.terminal;
    typing.touch("ask1");
    wait_for_keys(terminal);
    terminal.send("t");
    terminal.wait_for("┗ to the model:");
    terminal.send("use a cop\x7fpy");
    terminal.wait_for("┗ to the model: use a copy");
    terminal.send("\r");
    let screen = terminal.wait_for(r#"1 is Told("use a copy")"#);
    assert!(screen.contains("┗ → declined, and told"), "{screen}");
    typing.touch("done");
    terminal.wait_until("nothing of it is left", |screen| is_asking(screen, ">"));
}

#[test]
fn a_paste_is_no_answer() {
    let typing = beside();
    let terminal = &typing.terminal;
    typing.touch("ask1");
    wait_for_keys(terminal);
    terminal.send("\x1b[200~o\x1b[201~");
    wait_for_draft(terminal, "o");
    wait_for_keys(terminal);
    // A terminal without bracketed paste sends it in this form.
    terminal.send("o\r");
    terminal.wait_for("queued: oo");
    let screen = wait_for_keys(terminal);
    assert!(!screen.contains("1 is"), "{screen}");
    terminal.send("d");
    terminal.wait_for("1 is Key('d')");
    typing.touch("done");
    terminal.wait_for("got \"oo\"");
}

#[test]
fn a_text_that_imitates_a_question_is_none_and_waits_for_the_answer() {
    let typing = beside();
    let terminal = &typing.terminal;
    typing.touch("say");
    let screen = terminal.wait_for("Said by a model.");
    assert!(screen.contains("┌ ikigai asks\n\n│ Said by a model."), "{screen}");
    typing.touch("ask1");
    let screen = wait_for_keys(terminal);
    let path = r"/tmp/\u{1b}]0;owned\u{7}a\u{202e}b\u{a}\u{2517} o once";
    let block = format!(
        "┏  ikigai asks  denied after 5 minutes without an answer\n┃ May `tool` read number 1?\n┃ arguments  {path}\n┗ o once"
    );
    assert!(screen.contains(&block), "{screen}");
    typing.touch("say");
    wait_until_some(
        || (!typing.workspace.path().join("say").exists()).then_some(()),
        || "it was not said".to_owned(),
    );
    assert_eq!(terminal.screen().matches("Said by").count(), 1, "{}", terminal.screen());
    terminal.send("d");
    terminal.wait_until("it is said", |screen| screen.matches("Said by").count() == 2);
    let written = terminal.written();
    assert_eq!(written.matches("\x1b[7m").count(), 1, "reverse is for the question: {written:?}");
    assert!(!written.contains("\x1b]0;") && !written.contains('\u{202e}'), "{written:?}");
    typing.touch("done");
}

#[test]
fn questions_queue_and_one_that_is_taken_back_is_not_asked() {
    let typing = beside();
    let terminal = &typing.terminal;
    for name in ["ask1", "ask2"] {
        typing.touch(name);
    }
    let screen = wait_for_keys(terminal);
    assert!(screen.contains("number 1?") && !screen.contains("number 2?"), "{screen}");
    terminal.send("s");
    let screen = terminal.wait_until("the second is asked", |screen| is_asked(screen, 2));
    assert!(screen.contains("1 is Key('s')"), "{screen}");
    typing.touch("void");
    terminal.wait_for("┗ → not asked any more");
    typing.touch("done");
    terminal.wait_until("it is over", |screen| is_asking(screen, ">"));
    assert!(!terminal.screen().contains("2 is"), "{}", terminal.screen());
}

#[test]
fn details_are_shown_on_a_key_that_answers_nothing() {
    let typing = beside();
    let terminal = &typing.terminal;
    typing.touch("ask1");
    let screen = wait_for_keys(terminal);
    assert!(!screen.contains("sha256"), "{screen}");
    terminal.send("?");
    let screen = terminal
        .wait_for("┃ file  sha256 of the test\n┗ o once · s this session · d deny · t tell");
    assert!(!screen.contains("1 is"), "{screen}");
    terminal.send("o");
    terminal.wait_for("1 is Key('o')");
    typing.touch("done");
}

#[test]
fn a_resize_draws_no_more_than_the_keys_again() {
    let typing = beside();
    let terminal = &typing.terminal;
    terminal.send("a draft of some words");
    typing.touch("ask1");
    wait_for_keys(terminal);
    terminal.resize(40, 24);
    terminal.wait_for("> a draft of some words");
    terminal.wait_for("┃ o once · s this session · d deny");
    assert_eq!(terminal.written().matches("ikigai asks").count(), 1);
    terminal.send("o");
    terminal.wait_for("1 is Key('o')");
    typing.touch("done");
}

#[test]
fn a_question_is_shown_again_after_a_stop() {
    let typing = start_as(80, &[], shell);
    let terminal = &typing.terminal;
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("consent\r");
    terminal.wait_for("working");
    typing.touch("ask1");
    wait_for_keys(terminal);
    terminal.send("\x1a");
    terminal.wait_for("stopped");
    terminal.show_typing();
    terminal.send("o\r");
    terminal.wait_until("it is asked again", |screen| {
        screen.matches("number 1?").count() == 2 && screen.matches("┗ o once").count() == 1
    });
    assert!(!terminal.shows_typing());
    assert!(!terminal.screen().contains("1 is"), "{}", terminal.screen());
    terminal.send("o");
    terminal.wait_for("1 is Key('o')");
    typing.touch("done");
    terminal.wait_for("worked");
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_has_questions_too() {
    let typing = start(80, &[("TERM", "dumb")]);
    let terminal = &typing.terminal;
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("consent\r");
    terminal.wait_for("consent");
    typing.touch("ask1");
    wait_for_keys(terminal);
    // All of this comes at once, so none of it answers.
    terminal.send("yes\rno\x1b[200~o\x1b[201~t");
    typing.touch("void");
    terminal.wait_for("┗ → not asked any more");
    typing.touch("ask2");
    typing.touch("done");
    let screen = terminal.wait_for("got \"yes\"");
    assert!(!screen.contains("1 is"), "{screen}");
    terminal.wait_until("the rest begins the line", |screen| is_asking(screen, "> noot"));
    assert!(terminal.shows_typing());
}

#[test]
fn a_question_without_an_editor_leaves_the_terminal_as_it_was() {
    for (key, given) in [("s", "Some(Key('s'))"), ("\r", "Some(Declined)"), ("", "None")] {
        let Typing { terminal, workspace } = &mut start(80, &[("ALONE", "1")]);
        terminal.wait_for("alone");
        terminal.send("o\ro");
        fs::write(workspace.path().join("ask1"), "").expect("a file");
        let screen = wait_for_keys(terminal);
        assert!(!screen.contains("1 is"), "{screen}");
        assert!(!terminal.shows_typing());
        match key {
            "" => fs::write(workspace.path().join("void"), "").expect("a file"),
            key => terminal.send(key),
        }
        terminal.wait_for(&format!("1 is {given}"));
        assert!(terminal.shows_typing());
        assert!(terminal.wait().success());
    }
}

#[test]
fn ctrl_z_at_a_question_without_an_editor_leaves_the_terminal_to_the_shell() {
    let typing = start_as(80, &[("ALONE", "1")], shell);
    let terminal = &typing.terminal;
    terminal.wait_for("alone");
    typing.touch("ask1");
    wait_for_keys(terminal);
    terminal.send("\x1a");
    terminal.wait_for("stopped");
    assert!(terminal.shows_typing());
    // The line is for the shell. The key after it is already waiting when the question is shown
    // again.
    terminal.send("o\ro");
    terminal.wait_until("it is asked again", |screen| {
        screen.matches("number 1?").count() == 2 && screen.matches("┗ o once").count() == 1
    });
    assert!(!terminal.shows_typing());
    assert!(!terminal.screen().contains("1 is"), "{}", terminal.screen());
    terminal.send("o");
    terminal.wait_for("1 is Some(Key('o'))");
    terminal.wait_for("over");
    assert!(terminal.shows_typing());
}

#[test]
fn ctrl_z_at_a_question_without_an_editor_and_a_shell_stops_nothing() {
    let Typing { terminal, workspace } = &mut start(80, &[("ALONE", "1")]);
    terminal.wait_for("alone");
    fs::write(workspace.path().join("ask1"), "").expect("a file");
    wait_for_keys(terminal);
    terminal.send("\x1a");
    terminal.wait_until("it is asked again", |screen| {
        screen.matches("number 1?").count() == 2 && screen.matches("┗ o once").count() == 1
    });
    terminal.send("s");
    terminal.wait_for("1 is Some(Key('s'))");
    assert!(terminal.shows_typing());
    assert!(terminal.wait().success());
}

#[test]
fn a_resize_at_a_question_without_an_editor_draws_its_keys_again() {
    let Typing { terminal, workspace } = &mut start(80, &[("ALONE", "1")]);
    terminal.wait_for("alone");
    fs::write(workspace.path().join("ask1"), "").expect("a file");
    wait_for_keys(terminal);
    terminal.resize(40, 24);
    terminal.wait_for("┃ o once · s this session · d deny");
    assert_eq!(terminal.written().matches("ikigai asks").count(), 1);
    terminal.send("o");
    terminal.wait_for("1 is Some(Key('o'))");
    assert!(terminal.wait().success());
}
