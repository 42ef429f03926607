//! The editor in a pseudo-terminal: what a person sees while typing.
//!
//! The program in the terminal is this test executable itself: the other tests run [`program`]
//! with settings in its environment.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ikigai_terminal::editor::{History, Setup};
use ikigai_terminal::finder::{self, Finder, Names};
use ikigai_terminal::{Editor, Ended, Input, Look, Screen};
use ikigai_terminal_testing::{TIMEOUT, Terminal, wait_until_some};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use signal_hook::consts::SIGCONT;
use signal_hook::iterator::Signals;
use tempfile::TempDir;

/// Reads lines and prints them; some are commands.
#[test]
#[ignore = "the program that the other tests run"]
fn program() {
    let setting = |name: &str| env::var(name).ok();
    let look = Look::of(&std::io::stdout());
    let screen = Screen::new(std::io::stdout(), look);
    let tools: Names = Arc::new(|| vec!["file_read".to_owned()]);
    let command = |name: &str, help: &str, arguments: Option<&Names>| finder::Command {
        name: name.to_owned(),
        help: help.to_owned(),
        arguments: arguments.cloned(),
    };
    let assets: Names = Arc::new(|| vec!["blocks/decisions.md".to_owned()]);
    let commands = vec![
        command("help", "what can be typed", None),
        command("tool", "a tool", Some(&tools)),
        command("pin", "an asset", Some(&assets)),
    ];
    let workspace = env::current_dir().expect("a workspace");
    let history = setting("HISTORY").map(|path| History::open(Path::new(&path), 100));
    let mut editor = Editor::new(Setup {
        prompt: setting("PROMPT").unwrap_or_else(|| "> ".to_owned()),
        look,
        screen: screen.clone(),
        history: history.map(|history| history.expect("a history")),
        unsaved: vec!["/env ".to_owned()],
        asks_for_secret: Vec::new(),
        finder: Finder::new(workspace, commands, assets),
    })
    .expect("a terminal");
    let printer = editor.printer();
    let stopper = editor.stopper();
    let continued = Continued::listen(&editor);
    loop {
        match editor.read().expect("a terminal") {
            Input::Line(line) if line == "print" => {
                printer.print("first above\nsecond above").expect("a prompt to come");
            }
            Input::Line(line) if line == "stop" => assert_eq!(stopper.stop(), look.live),
            Input::Line(line) if line == "later" => {
                let printer = printer.clone();
                thread::spawn(move || {
                    printer.print("said later in many words").expect("a prompt");
                });
            }
            Input::Line(line) if line == "ask" => {
                wait_for_keys(look);
                let answer = editor.read_answer("sure? ").expect("a terminal");
                screen.line(&format!("answered {answer:?}")).expect("a screen");
            }
            Input::Line(line) if line == "hide" => {
                let secret = editor.read_secret("secret? ").expect("a terminal");
                screen.line(&format!("told {} bytes", length(&secret))).expect("a screen");
            }
            Input::Line(line) if line == "doze" => {
                screen.line("dozing").expect("a screen");
                continued.wait_for(1);
                screen.line("awake").expect("a screen");
                continued.wait_for(2);
            }
            Input::Line(line) if line == "work" => {
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
                    .watch(&stop, &|| screen.line("escaped").expect("a screen"))
                    .expect("a terminal");
                work.join().expect("the work");
                screen.line("worked").expect("a screen");
                if Path::new("interrupted").exists() {
                    editor.take_back();
                }
                fs::remove_file("done").expect("a file");
            }
            Input::Line(line) if line == "call" => {
                screen.text("Some **bold** text").expect("a screen");
                screen.end_text().expect("a screen");
                screen.begin_call("1", "bash", "{}").expect("a screen");
                let ended = Ended { duration: Duration::from_millis(5), size: 7, error: None };
                screen.end_call("1", "bash", ended).expect("a screen");
            }
            Input::Line(line) => screen.line(&format!("got {line:?}")).expect("a screen"),
            Input::Interrupted => screen.line("interrupted").expect("a screen"),
            Input::End => break,
            Input::More => screen.line("all of it").expect("a screen"),
            Input::Edit(line) => editor.set_text(&format!("{line} edited")),
        }
    }
    screen.line("ended").expect("a screen");
}

fn length(input: &Input) -> usize {
    match input {
        Input::Line(line) => line.len(),
        Input::Interrupted | Input::End | Input::More | Input::Edit(_) => 0,
    }
}

/// Waits until something was typed that nobody has read.
fn wait_for_keys(look: Look) {
    let is_there = if look.live {
        crossterm::event::poll(TIMEOUT).expect("a terminal")
    } else {
        let stdin = std::io::stdin();
        let timeout = TIMEOUT.try_into().expect("a timeout");
        poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)).expect("a terminal") > 0
    };
    assert!(is_there, "nothing was typed");
}

/// The number of times that the program was continued and then set its terminal's modes again.
struct Continued(Arc<AtomicUsize>);

impl Continued {
    fn listen(editor: &Editor) -> Self {
        let times = Arc::new(AtomicUsize::new(0));
        let (counted, modes) = (Arc::clone(&times), editor.modes());
        let mut signals = Signals::new([SIGCONT]).expect("signals");
        thread::spawn(move || {
            for _ in signals.forever() {
                modes.reapply().expect("a terminal");
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self(times)
    }

    fn wait_for(&self, times: usize) {
        wait_until_some(
            || (self.0.load(Ordering::SeqCst) >= times).then_some(()),
            || format!("the program was not continued {times} times"),
        );
    }
}

/// The program in a workspace of its own.
struct Typing {
    terminal: Terminal,
    workspace: TempDir,
}

impl Typing {
    /// Puts an empty file into the program's workspace, which it waits for or looks at.
    fn touch(&self, name: &str) {
        fs::write(self.workspace.path().join(name), "").expect("a file");
    }
}

fn start(columns: u16, env: &[(&str, &str)]) -> Typing {
    start_as(columns, env, |program| program)
}

/// Starts the program with the command that `command` makes of it.
fn start_as(
    columns: u16,
    env: &[(&str, &str)],
    command: impl FnOnce(Command) -> Command,
) -> Typing {
    let workspace = TempDir::new().expect("a temporary directory");
    fs::create_dir(workspace.path().join("src")).expect("a folder");
    for name in ["src/main.rs", "a b.txt", ".hidden"] {
        fs::write(workspace.path().join(name), "").expect("a file");
    }
    let mut program = Command::new(env::current_exe().expect("this test"));
    program.args(["program", "--exact", "--ignored", "--nocapture", "--quiet"]);
    let mut command = command(program);
    command.current_dir(workspace.path()).envs(env.iter().copied());
    let terminal = Terminal::start(&command, columns, 24);
    Typing { terminal, workspace }
}

/// Returns `true` if the last line of the screen is a prompt and nothing else.
fn is_asking(screen: &str, prompt: &str) -> bool {
    screen.lines().last().is_some_and(|line| line.trim_end() == prompt)
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
        // A terminal that can move its cursor would recall it.
        terminal.send("\x1b[A\r");
        terminal.wait_for(if term == "dumb" { "told 3 bytes" } else { "told 0 bytes" });
        terminal.send("shown\r");
        terminal.wait_for(r#"got "shown""#);
        let written = terminal.written();
        assert!(!written.contains("s3") && !written.contains("cret\r"), "{term}: {written:?}");
    }
}

/// Returns a shell with job control that runs the program, and continues it with the next line.
fn shell(program: Command) -> Command {
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
fn a_file_is_offered_behind_a_bracket() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("(@mai");
    terminal.wait_for("  src/main.rs");
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

/// Starts the program, and work in it that ends with the file `done`.
fn working(columns: u16) -> Typing {
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

#[test]
fn keys_for_a_line_are_no_answer_to_a_question() {
    let Typing { terminal, .. } = &mut start(80, &[]);
    terminal.wait_until("the prompt is there", |screen| is_asking(screen, ">"));
    terminal.send("ask\ry\r");
    terminal.wait_until("the question is there", |screen| is_asking(screen, "sure?"));
    terminal.send("\x0f\x18\x05no\r");
    terminal.wait_for(r#"answered Line("no")"#);
}
