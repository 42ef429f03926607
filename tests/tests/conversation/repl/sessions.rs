//! Stored conversations: the REPL stores each one, and can continue one.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_terminal_testing::Terminal;

use crate::repl::rig::{Rig, enter};

#[test]
fn a_conversation_goes_on_in_another_terminal() {
    let answers = ["It is blue.", "Blue, as I said.", "Green."];
    let rig = Rig::new(answers.map(|text| Reply::answer().text(text)));
    let terminal = rig.ready();
    terminal.wait_for("Conversations are kept for 90 days");
    terminal.send("what colour is it?\r");
    terminal.wait_for("It is blue.");
    assert!(enter(&terminal, "/rename the colour").contains("is now called `the colour`"));
    // Both terminals are open, so the second one may only continue a copy.
    let second = rig.ready_with(&["--continue"]);
    let screen = second.screen();
    assert!(screen.contains("`/fork` continues in a copy of it"), "{screen}");
    assert!(screen.contains("is in use by `process"), "{screen}");
    assert!(enter(&second, "/fork").contains("Continuing `the colour` (1 turn)."));
    second.send("are you sure?\r");
    second.wait_for("Blue, as I said.");
    for mut terminal in [terminal, second] {
        terminal.send("/exit\r");
        assert!(terminal.wait().success());
    }

    rig.host.script("new_tool", "echo 1");
    let third = rig.ready_with(&["--resume", "the colour"]);
    let screen = third.screen();
    assert!(screen.contains("`the colour` matches 2 sessions"), "{screen}");
    let listed = enter(&third, "/sessions");
    let copy = listed.lines().rev().find(|line| line.ends_with("the colour")).expect("a session");
    let id = copy.split(' ').next().expect("an id").to_owned();
    let screen = enter(&third, &format!("/resume {id}"));
    assert!(screen.contains("> what colour is it?") && screen.contains("It is blue."), "{screen}");
    third.wait_for("The tools since the last turn: added new_tool.");
    third.send("and now?\r");
    third.wait_for("Green.");
    let asked = rig.server.requests()[2].body.to_string();
    assert!(asked.contains("It is blue.") && !asked.contains("as I said"), "{asked}");
}

#[test]
fn a_question_at_a_terminal_goes_on_in_a_conversation() {
    let answers = ["It is blue.", "Nobody keeps this.", "Blue, as I said."];
    let rig = Rig::new(answers.map(|text| Reply::answer().text(text)));
    for (arguments, answer) in [
        (&["ask", "what colour is it?"][..], "kept as "),
        (&["ask", "--no-keep", "and what else?"], "Nobody keeps this."),
    ] {
        let mut command = rig.host.command();
        let mut terminal = Terminal::start(command.args(arguments), 80, 24);
        terminal.wait_for(answer);
        assert!(terminal.wait().success(), "{}", terminal.screen());
    }
    let terminal = rig.ready_with(&["--continue"]);
    let screen = terminal.screen();
    assert!(screen.contains("Continuing `what colour is it?` (1 turn)."), "{screen}");
    terminal.send("are you sure?\r");
    terminal.wait_for("Blue, as I said.");
    let asked = rig.server.requests()[2].body.to_string();
    assert!(asked.contains("It is blue.") && !asked.contains("Nobody"), "{asked}");
}

#[test]
fn a_conversation_goes_on_with_its_model() {
    let answers = ["One.", "Two.", "Three.", "Four."];
    let rig = Rig::new(answers.map(|text| Reply::answer().text(text)));
    rig.host.run(["ask", "--keep", "first"]).expect_code(0);
    // The configuration for new conversations changes here.
    let rig = rig.env("IKIGAI_MODEL", "another-model");
    rig.host.run(["ask", "--continue", "second"]).expect_code(0);
    let mut terminal = rig.ready_with(&["--continue"]);
    let screen = terminal.screen();
    assert!(screen.contains("The model is model-of-the-test of anthropic."), "{screen}");
    terminal.send("third\r");
    terminal.wait_for("Three.");
    terminal.send("/exit\r");
    assert!(terminal.wait().success());
    let flags = ["ask", "--continue", "--model", "named-model", "fourth"];
    rig.host.run(flags).expect_code(0);
    let requests = rig.server.requests();
    let asked: Vec<_> = requests.iter().map(|request| &request.body["model"]).collect();
    let own = "model-of-the-test";
    assert_eq!(asked, [own, own, own, "named-model"]);
}

#[test]
fn a_model_that_cannot_be_asked_any_more_is_replaced_by_the_configured_one() {
    let rig = Rig::new([Reply::answer().text("One.")]);
    rig.host.run(["ask", "--keep", "first"]).expect_code(0);
    let other = FakeServer::start(Vendor::OpenAi, [Reply::answer().text("Of another.")]);
    let rig = rig
        .env("ANTHROPIC_API_KEY", "")
        .env("ANTHROPIC_BASE_URL", "")
        .env("OPENAI_BASE_URL", &other.base_url())
        .env("OPENAI_API_KEY", "another-key")
        .env("IKIGAI_MODEL", "another-model");
    let ran = rig.host.run(["ask", "--continue", "second"]).expect_code(0);
    assert_eq!(ran.stdout(), "Of another.\n", "{ran}");
    let warning = "the model of the conversation cannot be asked: there is no key for anthropic; \
                   asking another-model of openai";
    assert!(ran.stderr().contains(warning), "{ran}");
}
