//! The editor in a pseudo-terminal: what users see while they type.
//!
//! The program in the terminal is this test executable: the other tests run [`program`] with
//! settings in its environment.

#[path = "typing/keys.rs"]
mod keys;
#[path = "typing/questions.rs"]
mod questions;
#[path = "typing/rig.rs"]
mod rig;
#[path = "typing/stopping.rs"]
mod stopping;
#[path = "typing/suggestions.rs"]
mod suggestions;
#[path = "typing/work.rs"]
mod work;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use ikigai_terminal::editor::{EditorSettings, History, WorkKey};
use ikigai_terminal::finder::{self, Finder, NameSource};
use ikigai_terminal::{CallSummary, Editor, EditorEvent, OutputFeatures, Screen};
use ikigai_terminal_testing::wait_until_some;
use tempfile::TempDir;

use crate::rig::{Continued, Typing, is_asking, length, start, wait_for_keys};

/// Reads lines and prints them; some are commands.
#[test]
#[ignore = "the program that the other tests run"]
fn program() {
    let setting = |name: &str| env::var(name).ok();
    let look = OutputFeatures::for_stream(&std::io::stdout());
    let screen = Screen::new(std::io::stdout(), look);
    let tools: NameSource = Arc::new(|| vec!["file_read".to_owned()]);
    let command = |name: &str, help: &str, arguments: Option<&NameSource>| finder::FinderCommand {
        name: name.to_owned(),
        help: help.to_owned(),
        arguments: arguments.cloned(),
    };
    let assets: NameSource = Arc::new(|| vec!["blocks/decisions.md".to_owned()]);
    let commands = vec![
        command("help", "what can be typed", None),
        command("tool", "a tool", Some(&tools)),
        command("pin", "an asset", Some(&assets)),
    ];
    let workspace = env::current_dir().expect("a workspace");
    let history = setting("HISTORY").map(|path| History::open(Path::new(&path), 100));
    let mut editor = Editor::new(EditorSettings {
        prompt: setting("PROMPT").unwrap_or_else(|| "> ".to_owned()),
        look,
        screen: screen.clone(),
        history: history.map(|history| history.expect("a history")),
        unsaved: vec!["/env ".to_owned()],
        asks_for_secret: Vec::new(),
        finder: Finder::new(workspace, commands, assets),
    })
    .expect("a terminal");
    if setting("ALONE").is_some() {
        drop(editor);
        return keys::ask_alone(&screen);
    }
    let printer = editor.printer();
    let stopper = editor.stopper();
    let continued = Continued::listen(&editor);
    loop {
        match editor.read().expect("a terminal") {
            EditorEvent::Line(line) if line == "print" => {
                printer.print("first above\nsecond above").expect("a prompt to come");
            }
            EditorEvent::Line(line) if line == "stop" => assert_eq!(stopper.stop(), look.live),
            EditorEvent::Line(line) if line == "later" => {
                let printer = printer.clone();
                thread::spawn(move || {
                    printer.print("said later in many words").expect("a prompt");
                });
            }
            EditorEvent::Line(line) if line == "ask" => {
                wait_for_keys(look);
                let answer = editor.read_answer("sure? ").expect("a terminal");
                screen.line(&format!("answered {answer:?}")).expect("a screen");
            }
            EditorEvent::Line(line) if line == "hide" => {
                let secret = editor.read_secret("secret? ").expect("a terminal");
                screen.line(&format!("told {} bytes", length(&secret))).expect("a screen");
            }
            EditorEvent::Line(line) if line == "doze" => {
                screen.line("dozing").expect("a screen");
                continued.wait_for(1);
                screen.line("awake").expect("a screen");
                continued.wait_for(2);
            }
            EditorEvent::Line(line) if line == "consent" => keys::ask_beside(&mut editor, &screen),
            EditorEvent::Line(line) if line == "work" => {
                let stop = Arc::new(AtomicBool::new(false));
                let ending = Arc::clone(&stop);
                let worker = screen.clone();
                let work = thread::spawn(move || {
                    worker.text("It begins ").expect("a screen");
                    let busy = worker.busy("working").expect("a screen");
                    wait_until_some(
                        || Path::new("done").exists().then_some(()),
                        || "the work was not ended".to_owned(),
                    );
                    drop(busy);
                    ending.store(true, Ordering::SeqCst);
                });
                editor
                    .watch(&stop, &|key| {
                        let word = match key {
                            WorkKey::Interrupt => "escaped",
                            WorkKey::MoreTime => "given more time",
                        };
                        screen.line(word).expect("a screen");
                    })
                    .expect("a terminal");
                work.join().expect("the work");
                screen.line("worked").expect("a screen");
                if Path::new("interrupted").exists() {
                    editor.take_back();
                }
                fs::remove_file("done").expect("a file");
            }
            EditorEvent::Line(line) if line == "call" => {
                screen.text("Some **bold** text").expect("a screen");
                screen.end_text().expect("a screen");
                screen.begin_call("1", "bash", "{}").expect("a screen");
                let ended =
                    CallSummary { duration: Duration::from_millis(5), size: 7, error: None };
                screen.end_call("1", "bash", ended).expect("a screen");
            }
            EditorEvent::Line(line) => screen.line(&format!("got {line:?}")).expect("a screen"),
            EditorEvent::Interrupted => screen.line("interrupted").expect("a screen"),
            EditorEvent::End => break,
            EditorEvent::More => screen.line("all of it").expect("a screen"),
            EditorEvent::Edit(line) => editor.set_text(&format!("{line} edited")),
        }
    }
    screen.line("ended").expect("a screen");
}

#[test]
fn lines_are_edited_and_read() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("helo\x1b[Dl\r");
    terminal.wait_for(r#"got "hello""#);
    terminal.send("one\\\rtwo\x1b\rthree\r");
    terminal.wait_for(r#"got "one\ntwo\nthree""#);
    terminal.send("\x1b[200~a\\\nb\rc\x1b[201~\r");
    terminal.wait_for(r#"got "a\\\nb\nc""#);
    terminal.send("\x04");
    terminal.wait_for("ended");
    assert!(terminal.wait().success());
}

#[test]
fn pasted_text_is_sanitized() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("\x1b[200~a\x1b]0;title\x07\tb\r\nc\u{9b}2Jd\u{202e}\x1b[201~\r");
    terminal.wait_until("the line was read", |screen| screen.matches("2Jd").count() == 2);
    let written = terminal.written();
    assert!(written.contains("\\nc\u{fffd}2Jd\u{fffd}\""), "{written:?}");
    assert!(!written.contains("\x1b]0;") && !written.contains('\u{9b}'), "{written:?}");
}

#[test]
fn ctrl_c_clears_first_and_interrupts_then() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("some text");
    terminal.wait_for("> some text");
    terminal.send("\x03");
    terminal.wait_until("there is another prompt", |screen| is_asking(screen, ">"));
    assert!(!terminal.screen().contains("interrupted"));
    terminal.send("\x03");
    terminal.wait_for("interrupted");
}

#[test]
fn lines_printed_meanwhile_are_above_the_prompt() {
    let Typing { terminal, .. } = &mut start(80, &[("PROMPT", "世界> ")]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, "世界>"));
    terminal.send("print\r");
    let screen = terminal.wait_for("second above");
    let screen = if is_asking(&screen, "世界>") {
        screen
    } else {
        terminal.wait_until("the prompt is below", |screen| is_asking(screen, "世界>"))
    };
    assert!(screen.contains("first above\nsecond above\n世界>"), "{screen}");
    terminal.send("ab\x1b[Dé");
    terminal.wait_for("世界> aéb");
    assert_eq!(terminal.cursor().0, 8, "the cursor is where the next character goes");
}

#[test]
fn lines_printed_meanwhile_break_between_words() {
    let Typing { terminal, .. } = &mut start(20, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("later\r");
    terminal.wait_for("said later in many\nwords");
}

#[test]
fn an_editor_is_stopped_from_elsewhere() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("stop\r");
    terminal.wait_for("ended");
    assert!(terminal.wait().success());
}

#[test]
fn lines_are_kept_for_the_next_time_but_not_secrets() {
    let folder = TempDir::new().expect("a temporary directory");
    let path = folder.path().join("history");
    let env = [("HISTORY", path.to_str().expect("UTF-8"))];
    let Typing { terminal, .. } = &mut start(80, &env);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("remember me\r");
    terminal.wait_for(r#"got "remember me""#);
    terminal.send("/env KEY=secret\r");
    terminal.wait_for("got \"/env");
    assert_eq!(fs::read_to_string(&path).expect("a history"), "remember me\n");
    let Typing { terminal, .. } = &mut start(80, &env);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("\x1b[A");
    terminal.wait_for("> remember me");
}

#[test]
fn a_resize_keeps_what_was_typed() {
    let Typing { terminal, .. } = &mut start(200, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("some words");
    terminal.wait_for("> some words");
    let written = terminal.written().len();
    terminal.resize(40, 12);
    // The editor draws again once it knows the size.
    terminal.wait_until_written("the editor has drawn again", |now| now.len() > written);
    terminal.send(" more\r");
    terminal.wait_for(r#"got "some words more""#);
}

#[test]
fn colours_are_left_out_where_nobody_wants_them() {
    let Typing { terminal, .. } = &mut start(80, &[("NO_COLOR", "1")]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("/h");
    terminal.wait_for("what can be typed");
    terminal.send("\x15call\r");
    terminal.wait_for("✓ bash {} · 5 ms · 7 chars");
    let written = terminal.written();
    assert!(written.contains("Some \x1b[1mbold\x1b[0m text"), "{written:?}");
    let is_colour = |part: &&str| {
        let (parameters, _) = part.split_once('m').unwrap_or(("", ""));
        parameters
            .split(';')
            .any(|p| matches!(p.parse(), Ok(30..=37_u8 | 40..=47 | 38 | 48 | 90..=97)))
            && parameters.chars().all(|c| c.is_ascii_digit() || c == ';')
    };
    assert_eq!(written.split("\x1b[").find(is_colour), None, "{written:?}");
}

#[test]
fn a_dumb_terminal_gets_nothing_but_lines() {
    let Typing { terminal, .. } = &mut start(80, &[("TERM", "dumb")]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("one\\\r");
    terminal.send("two\r");
    terminal.wait_for(r#"got "one\ntwo""#);
    terminal.send("call\r");
    terminal.wait_for("✓ bash {} · 5 ms · 7 chars");
    terminal.send("print\r");
    terminal.wait_for("first above\nsecond above");
    terminal.send("\x04");
    terminal.wait_for("ended");
    assert!(!terminal.written().contains('\x1b'), "{:?}", terminal.written());
}

#[test]
fn a_dumb_terminal_has_its_prompt_again_below_what_is_printed() {
    let Typing { terminal, .. } = &mut start(80, &[("TERM", "dumb")]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("later\r");
    terminal.wait_for("said later");
    terminal.wait_until("the prompt is below it", |screen| is_asking(screen, ">"));
}

#[test]
fn a_search_of_the_history_takes_every_character() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("see a/b now\r");
    terminal.wait_for("got");
    terminal.send("\x12");
    terminal.wait_for("(earlier: )");
    terminal.send("a/b n");
    terminal.wait_for("(earlier: a/b n)");
}

#[test]
fn a_blank_line_is_between_an_answer_and_the_next_prompt() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("call\r");
    let called = "Some bold text\n✓ bash {} · 5 ms · 7 chars\n\n>";
    terminal.wait_until("there is one", |screen| screen.ends_with(called));
    terminal.send("x\r");
    terminal.wait_until("there is none", |screen| screen.ends_with("\n> x\ngot \"x\"\n>"));
}

#[test]
fn ctrl_o_asks_for_more_and_keeps_the_line() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("a draft\x0f");
    terminal.wait_until("the line is below it", |screen| screen.ends_with("all of it\n> a draft"));
    terminal.send("!\r");
    terminal.wait_for(r#"got "a draft!""#);
}

#[test]
fn ctrl_x_ctrl_e_edits_the_line_elsewhere() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("a line\x18\x05");
    terminal.wait_until("it is edited", |screen| is_asking(screen, "> a line edited"));
    terminal.send("\x18x\x05!\r");
    terminal.wait_for(r#"got "a line editedx!""#);
}
