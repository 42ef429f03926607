//! Turns: prompts, answers, and Ctrl-C.

use ikigai_provider_testing::{Gate, Reply};

use crate::repl::rig::{Rig, is_asking, wait_for_answer};

#[test]
fn a_conversation_goes_on() {
    let rig = Rig::new([Reply::answer().text("First."), Reply::answer().text("Second.")]);
    let terminal = rig.ready();
    terminal.send("one\r");
    wait_for_answer(&terminal, "First.");
    terminal.send("two\r");
    wait_for_answer(&terminal, "Second.");
    let told = rig.server.requests()[1].body["messages"].to_string();
    assert!(told.contains("one") && told.contains("First.") && told.contains("two"), "{told}");
}

#[test]
fn an_answer_is_shown_as_it_comes_and_interrupted_by_ctrl_c() {
    let gate = Gate::closed();
    let rig = Rig::new([
        Reply::answer().text("It begins with **this** and ").stall(&gate).text("never ends."),
        Reply::answer().text("Still here."),
    ]);
    let terminal = rig.ready();
    terminal.send("go on\r");
    let screen = terminal.wait_for("It begins with this");
    assert!(!screen.contains("never ends"), "{screen}");
    terminal.send("\x03");
    wait_for_answer(&terminal, "Interrupted.");
    rig.server.block_on(rig.server.hang_ups_reach(1));
    terminal.send("and now?\r");
    terminal.wait_for("Still here.");
    assert_eq!(rig.server.violations(), Vec::<String>::new());
}

#[test]
fn an_image_that_goes_with_a_prompt_has_a_line() {
    let rig = Rig::new([Reply::answer().text("A cat.")]);
    // The beginning of a PNG of 640 × 480 pixels. The host examines only that.
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x80\0\0\x01\xe0\x08\x02\0\0\0";
    rig.host.write("workspace/picture.png", png, 0o644);
    let terminal = rig.ready();
    terminal.send("look at @picture.png now\r");
    let screen = wait_for_answer(&terminal, "A cat.");
    assert!(screen.contains("[image picture.png, 640 × 480, 1 kB]"), "{screen}");
    let told = rig.server.requests()[0].body["messages"][0]["content"][1].clone();
    assert_eq!(told["source"]["media_type"], "image/png", "{told}");
    assert_eq!(rig.server.violations(), Vec::<String>::new());
}

#[test]
fn a_server_that_is_not_there_is_told_of_once() {
    let rig = Rig::new([]).env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let terminal = rig.ready();
    terminal.send("one\r");
    let screen = wait_for_answer(&terminal, "hint: ");
    assert!(screen.contains("error: nothing listens at 127.0.0.1:1"), "{screen}");
    assert_eq!(screen.matches("nothing listens").count(), 1, "{screen}");
}

#[test]
fn thoughts_are_told_before_the_answer() {
    let gate = Gate::closed();
    let rig = Rig::new([Reply::answer()
        .thinking("It may be ")
        .thinking("this.\nOr that")
        .stall(&gate)
        .thinking(".")
        .text("It is this.")]);
    let terminal = rig.ready();
    terminal.send("what is it?\r");
    let screen = terminal.wait_until("it thinks", |screen| screen.contains("It may be this."));
    assert!(!screen.contains("Or that"), "a line that is not whole: {screen}");
    gate.open();
    let screen = terminal.wait_until("it asks", is_asking);
    let at = |text: &str| screen.find(text).unwrap_or_else(|| panic!("{text}: {screen}"));
    assert!(
        at("It may be this.") < at("Or that.") && at("Or that.") < at("It is this."),
        "{screen}"
    );
}

#[test]
fn a_call_is_interrupted_with_all_that_it_started() {
    let (rig, mut terminal) = Rig::in_endless_call();
    terminal.send("\x03");
    let screen = wait_for_answer(&terminal, "Interrupted.");
    assert!(screen.contains("✗ slow {}"), "{screen}");
    terminal.send("/exit\r");
    assert!(terminal.wait().success());
    rig.host.assert_nothing_left();
}

#[test]
fn a_failure_says_what_to_do_and_the_conversation_goes_on() {
    let rig = Rig::new([Reply::status(401, "invalid x-api-key"), Reply::answer().text("Now.")]);
    let terminal = rig.ready();
    terminal.send("one\r");
    let screen = wait_for_answer(&terminal, "error: ");
    assert!(screen.contains("hint: check ANTHROPIC_API_KEY"), "{screen}");
    terminal.send("two\r");
    terminal.wait_for("Now.");
}

#[test]
fn an_answer_cannot_do_anything_to_the_terminal() {
    let rig = Rig::new([Reply::answer().text("a\x1b]0;owned\x07b\x1b[2Jc &#27;[31md")]);
    let terminal = rig.ready();
    terminal.send("go on\r");
    let screen = terminal.wait_for("a␛]0;owned␇b␛[2Jc ␛[31md");
    assert!(screen.contains("ikigai "), "nothing was erased: {screen}");
    let written = terminal.written();
    assert!(!written.contains("\x1b]0;") && !written.contains("\x1b[31m"), "{written:?}");
}

#[test]
fn a_line_that_is_typed_during_a_turn_is_seen_and_sent_after_it() {
    let (gate, rig, terminal) = Rig::in_answer([Reply::answer().text("The second.")]);
    terminal.send("and then?\rthe next dra");
    let screen = terminal.wait_for("> the next dra");
    assert!(screen.contains("It begins\nqueued: and then?\n> the next dra"), "{screen}");
    assert_eq!(rig.server.requests().len(), 1);
    gate.open();
    let screen = terminal.wait_until("the draft is in the line", |screen| {
        screen.contains("The second.\n\n") && screen.ends_with("> the next dra")
    });
    let status = "model-of-the-test · ";
    let first = format!("It begins and ends.\n\n{status}");
    assert!(screen.contains(&first), "{screen}");
    assert!(screen.contains(&format!("> and then?\nThe second.\n\n{status}")), "{screen}");
    let told = rig.server.requests()[1].body.to_string();
    assert!(told.contains("and then?") && !told.contains("the next dra"), "{told}");
}

#[test]
fn what_was_typed_is_in_the_line_after_an_interruption() {
    for key in ["\x1b", "\x03"] {
        let (_gate, rig, terminal) = Rig::in_answer([]);
        terminal.send("one\rtwo");
        terminal.wait_for("> two");
        terminal.send(key);
        terminal.wait_until("both lines are there", |screen| {
            screen.contains("Interrupted.") && screen.ends_with("> one\n… two")
        });
        rig.server.block_on(rig.server.hang_ups_reach(1));
        assert_eq!(rig.server.requests().len(), 1, "nothing was sent");
    }
}

#[test]
fn a_key_that_is_typed_ahead_is_neither_shown_nor_sent_to_a_model() {
    let (gate, rig, terminal) = Rig::in_answer([Reply::answer().text("The second.")]);
    terminal.send("/key\r");
    terminal.wait_for("queued: /key (it asks after this;");
    terminal.send("s3cret-ahead\r\x1b[A");
    // The Up key returns the line to the editor, so the keys before it were processed.
    terminal.wait_until("the line is not queued", |screen| {
        screen.contains("\n> /key") && !screen.contains("queued: ")
    });
    terminal.send("\rs3cret-ahead\r");
    terminal.wait_for("queued: /key");
    gate.open();
    terminal.wait_until("it asks for the key", |screen| {
        screen.lines().last().is_some_and(|line| line.starts_with("Key for anthropic"))
    });
    terminal.send("s3cret-key\r");
    wait_for_answer(&terminal, "is set for this run");
    terminal.send("and then?\r");
    terminal.wait_for("The second.");
    let requests = rig.server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].header("x-api-key"), Some("s3cret-key"));
    assert!(!requests[1].body.to_string().contains("s3cret"), "{}", requests[1].body);
    assert!(!terminal.written().contains("s3cret"), "{:?}", terminal.written());
}

#[test]
fn a_key_that_is_typed_ahead_is_not_in_the_line_after_an_interruption() {
    let (_gate, rig, terminal) = Rig::in_answer([]);
    terminal.send("one\r/key\r");
    terminal.wait_for("queued: /key");
    terminal.send("s3cret-ahead\r");
    terminal.send("\x1b");
    terminal.wait_until("it asks for the key at once", |screen| {
        screen.contains("Interrupted.")
            && screen.lines().last().is_some_and(|line| line.starts_with("Key for anthropic"))
    });
    terminal.send("\r");
    terminal.wait_until("the other line is there", |screen| {
        screen.contains("No key was given.") && screen.ends_with("> one")
    });
    assert!(!terminal.written().contains("s3cret"), "{:?}", terminal.written());
    assert_eq!(rig.server.requests().len(), 1, "nothing was sent");
}

#[test]
fn a_line_that_waits_for_an_answer_is_not_sent_without_one() {
    let gate = Gate::closed();
    let rig = Rig::new([Reply::answer().text("It begins ").stall(&gate).without_end()]);
    let terminal = rig.ready();
    terminal.send("go on\r");
    terminal.wait_for("It begins");
    terminal.send("and then?\r");
    terminal.wait_for("queued: and then?");
    gate.open();
    terminal.wait_until("the line is there to be sent", |screen| {
        screen.contains("error: ") && screen.ends_with("> and then?")
    });
    assert_eq!(rig.server.requests().len(), 1);
}
