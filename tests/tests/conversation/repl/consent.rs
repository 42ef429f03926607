//! Questions about calls that need more access than they are granted.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ikigai_provider_testing::{Received, Reply};
use ikigai_terminal_testing::Terminal;
use serde_json::{Value, json};

use crate::repl::rig::{Rig, enter, is_asking, wait_for_answer};

const SECRET: &str = "the secret of the test";

/// The text at the end of a question that accepts keys.
const KEYS: &str = "once · s this session";

/// Returns a REPL whose model reads a file outside of the workspace with `calls` calls at once, and
/// repeats that in each further turn.
fn reading(calls: usize) -> Rig {
    // The path is set once the rig exists.
    let secret: Arc<OnceLock<PathBuf>> = Arc::default();
    let path = Arc::clone(&secret);
    let rig = Rig::staged(move |request: &Received| {
        let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
        let text = messages.last().map(Value::to_string).unwrap_or_default();
        // After an interruption the results and the prompt are one message.
        if text.contains("tool_result") && !text.contains("once more") {
            return Reply::answer().text("It is done.");
        }
        let read = json!({ "file_path": path.get().expect("a rig") });
        (0..calls).fold(Reply::answer(), |answer, _| answer.call("file_read", &read))
    });
    rig.host.write("outside/secret.txt", SECRET, 0o644);
    secret.set(rig.host.scratch().join("outside/secret.txt")).expect("set once");
    rig
}

fn policy(rig: &Rig) -> String {
    fs::read_to_string(rig.host.home().join(".config/ikigai/policy.toml")).unwrap_or_default()
}

/// Begins a turn, and waits until its question can be answered.
fn begin(terminal: &Terminal) -> String {
    terminal.send("read it\r");
    terminal.wait_for(KEYS)
}

fn wait_for_end(terminal: &Terminal) -> String {
    wait_for_answer(terminal, "It is done.")
}

/// Returns the messages that the model got about the calls of the last turn.
fn told(rig: &Rig) -> String {
    let requests = rig.server.requests();
    requests.last().expect("a request").body["messages"].to_string()
}

#[test]
fn what_is_allowed_once_is_asked_again_and_what_was_typed_before_stays() {
    let rig = reading(1);
    let terminal = rig.ready();
    terminal.send("read it\ro");
    let screen = terminal.wait_for(KEYS);
    let path = rig.host.scratch().join("outside/secret.txt");
    let shown: String = screen.replace("\n┃ ", "").replace('\n', "");
    assert!(shown.contains(&format!("read {}?", path.canonicalize().expect("a file").display())));
    assert!(!screen.contains("sha256 ") && !screen.contains("denied by"), "{screen}");
    assert!(shown.contains("{\"file_path\":"), "{screen}");
    assert!(screen.ends_with("> o"), "{screen}");
    terminal.send("?");
    let screen =
        terminal.wait_until("the details are there", |screen| screen.contains("denied by"));
    assert!(screen.contains("sha256 ") && screen.contains("writes to "), "{screen}");
    assert!(screen.contains(KEYS) && screen.ends_with("> o"), "{screen}");
    terminal.send("o");
    terminal.wait_until("the turn is over", |s| s.contains("It is done.") && s.ends_with("> o"));
    assert!(told(&rig).contains(SECRET), "{}", told(&rig));
    terminal.send("\x15");
    begin(&terminal);
    terminal.send("\r");
    wait_for_end(&terminal);
    assert_eq!(policy(&rig), "", "nothing was written");
    let audit = rig.host.run(["audit", "--json"]).expect_code(0).stdout();
    assert!(audit.contains("\"once\"") && audit.contains("\"no\""), "{audit}");
}

#[test]
fn two_equal_calls_at_once_ask_one_question_and_a_session_remembers() {
    let rig = reading(2);
    let terminal = rig.ready();
    begin(&terminal);
    terminal.send("s");
    wait_for_end(&terminal);
    assert_eq!(told(&rig).matches(SECRET).count(), 2, "{}", told(&rig));
    terminal.send("again\r");
    terminal.wait_until("the turn is over", |s| s.matches("It is done.").count() == 2);
    assert_eq!(terminal.everything().matches("ikigai asks").count(), 1);
    assert_eq!(told(&rig).matches(SECRET).count(), 4, "{}", told(&rig));
}

#[test]
fn a_word_to_the_model_reaches_it() {
    let rig = reading(1);
    let terminal = rig.ready();
    begin(&terminal);
    terminal.send("t");
    terminal.wait_for("to the model:");
    terminal.send("look into notes.txt");
    terminal.wait_for("to the model: look into notes.txt");
    terminal.send("\r");
    wait_for_end(&terminal);
    let told = told(&rig);
    assert!(told.contains("look into notes.txt") && !told.contains(SECRET), "{told}");
    assert!(told.contains("ikigai policy grant file_read"), "{told}");
    assert_eq!(rig.server.violations(), Vec::<String>::new());
}

#[test]
fn always_shows_the_change_and_writes_it() {
    let rig = reading(1);
    let terminal = rig.ready();
    begin(&terminal);
    terminal.send("a");
    let screen = terminal.wait_for("┗ y write it · n back to the question");
    assert!(screen.contains("[tools.file_read]"), "{screen}");
    assert_eq!(policy(&rig), "");
    terminal.send("\r");
    terminal.wait_until("it is asked again", |screen| screen.ends_with("deny, and tell the model"));
    assert_eq!(policy(&rig), "");
    terminal.send("a");
    terminal
        .wait_until("it is asked", |screen| screen.ends_with("n back to the question · ? details"));
    terminal.send("y");
    wait_for_end(&terminal);
    let policy = policy(&rig);
    let dir = rig.host.scratch().join("outside").canonicalize().expect("a directory");
    let line = format!("fs = [\"ro:.\", \"ro:{}\"]", dir.display());
    assert!(policy.contains(&line), "the directory, and not the file: {policy}");
    assert!(told(&rig).contains(SECRET), "{}", told(&rig));
}

#[test]
fn a_policy_that_changed_under_the_question_is_not_written_and_said_so() {
    let rig = reading(1);
    let terminal = rig.ready();
    begin(&terminal);
    terminal.send("a");
    terminal.wait_for("┗ y write it · n back to the question");
    let changed = "# A comment of the person.\n";
    rig.host.write_policy(changed);
    terminal.send("y");
    let screen = terminal.wait_until("it is asked again", |screen| {
        let words: Vec<&str> = screen.split_whitespace().collect();
        let is_said = words.join(" ").contains("was not written: the file changed");
        is_said && screen.ends_with("deny, and tell the model")
    });
    assert!(screen.contains("┗ o once · s this session · d deny"), "{screen}");
    terminal.send("d");
    wait_for_end(&terminal);
    assert_eq!(policy(&rig), changed);
    assert!(!told(&rig).contains(SECRET), "{}", told(&rig));
}

#[test]
fn nobody_is_asked_with_never_and_the_command_is_told() {
    let rig = reading(1);
    let terminal = rig.ready_with(&["--approve", "never"]);
    terminal.send("read it\r");
    let screen = wait_for_end(&terminal);
    assert!(!screen.contains("ikigai asks"), "{screen}");
    assert!(screen.contains("hint: to allow it: ikigai policy grant file_read"), "{screen}");
    assert!(!told(&rig).contains(SECRET), "{}", told(&rig));
}

#[test]
fn a_turn_after_one_with_32_questions_asks_again() {
    let dir: Arc<OnceLock<PathBuf>> = Arc::default();
    let (outside, mut round) = (Arc::clone(&dir), 0);
    let rig = Rig::staged(move |_| {
        round += 1;
        let read = |number: u32| {
            let path = outside.get().expect("a rig").join(number.to_string());
            json!({ "file_path": path })
        };
        match round {
            1 => (0..33).fold(Reply::answer(), |it, number| it.call("file_read", &read(number))),
            3 => Reply::answer().call("file_read", &read(33)),
            _ => Reply::answer().text("It is done."),
        }
    });
    for number in 0..34 {
        rig.host.write(format!("outside/{number}"), SECRET, 0o644);
    }
    dir.set(rig.host.scratch().join("outside")).expect("set once");
    let terminal = rig.ready();
    terminal.send("read them\r");
    let deny = |question: usize| {
        terminal.wait_until("it is asked", |screen| screen.ends_with("deny, and tell the model"));
        terminal.send("d");
        terminal.wait_until_written("it is denied", |written| {
            written.matches("→ deny").count() == question
        });
    };
    (1..=32).for_each(&deny);
    wait_for_end(&terminal);
    let everything = terminal.everything();
    assert!(everything.contains("warning: ikigai asked 32 questions in this turn"), "{everything}");
    terminal.send("once more\r");
    deny(33);
    terminal.wait_until("the turn is over", is_asking);
    assert_eq!(terminal.everything().matches("ikigai asks").count(), 33);
    assert!(!told(&rig).contains(SECRET), "{}", told(&rig));
}

#[test]
fn untrusted_asks_before_a_call_that_may_change_something() {
    let mut round = 0;
    let rig = Rig::staged(move |_| {
        round += 1;
        match round {
            1 => Reply::answer().call("file_write", &json!({ "file_path": "a", "content": "b" })),
            _ => Reply::answer().text("It is done."),
        }
    });
    let terminal = rig.ready_with(&["--approve", "untrusted"]);
    terminal.send("write it\r");
    let screen = terminal.wait_for("┗ o run · d deny · ? details · t deny, and tell the model");
    assert!(screen.contains("Run `file_write`?"), "{screen}");
    terminal.send("t");
    terminal.wait_for("to the model:");
    terminal.send("not now");
    terminal.wait_for("to the model: not now");
    terminal.send("\r");
    wait_for_end(&terminal);
    assert!(!rig.host.workspace().join("a").exists());
    assert!(told(&rig).contains("not now"), "{}", told(&rig));
}

#[test]
fn an_interruption_and_a_closed_terminal_take_the_question_back() {
    let rig = reading(1);
    let mut terminal = rig.ready();
    begin(&terminal);
    terminal.send("\x03");
    let screen = wait_for_answer(&terminal, "Interrupted.");
    assert!(screen.contains("→ not asked any more"), "{screen}");
    terminal.send("once more\r");
    terminal.wait_until("it is asked", |screen| screen.ends_with("deny, and tell the model"));
    terminal.close();
    terminal.wait();
    let audit = rig.host.run(["audit", "--json"]).expect_code(0).stdout();
    assert!(!audit.contains("\"once\""), "{audit}");
    assert!(rig.server.requests().iter().all(|it| !it.body.to_string().contains(SECRET)));
}

#[test]
fn what_was_allowed_for_the_session_is_taken_back() {
    let rig = reading(1);
    let terminal = rig.ready();
    assert!(enter(&terminal, "/policy").contains("You allowed and refused nothing"));
    begin(&terminal);
    terminal.send("s");
    wait_for_end(&terminal);
    // The next call causes no question.
    terminal.send("once more\r");
    let is_over = |screen: &str| screen.matches("It is done.").count() == 2 && is_asking(screen);
    terminal.wait_until("the turn is over", is_over);
    for (command, said) in [
        ("/policy", "1  file_read may read "),
        ("/policy forget 2", "no answer of this session has the number 2"),
        ("/policy forget 1", "Forgotten: file_read may read "),
    ] {
        terminal.send(&format!("{command}\r"));
        terminal.wait_until(command, |screen| screen.contains(said) && is_asking(screen));
    }
    terminal.send("and once more\r");
    terminal.wait_for(KEYS);
    terminal.send("\r");
    let declined = |screen: &str| screen.contains("→ declined") && is_asking(screen);
    terminal.wait_until("the turn is over", declined);
    assert_eq!(told(&rig).matches(SECRET).count(), 2, "{}", told(&rig));
}
