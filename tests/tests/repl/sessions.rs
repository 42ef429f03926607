//! Conversations that are kept: the REPL keeps each, and goes on with one.

use ikigai_provider_testing::Reply;

use crate::rig::{Rig, enter};

#[test]
fn a_conversation_goes_on_in_another_terminal() {
    let answers = ["It is blue.", "Blue, as I said.", "Green."];
    let rig = Rig::new(answers.map(|text| Reply::answer().text(text)));
    let terminal = rig.ready();
    terminal.wait_for("Conversations are kept for 90 days");
    terminal.send("what colour is it?\r");
    terminal.wait_for("It is blue.");
    assert!(enter(&terminal, "/rename the colour").contains("is `the colour` now"));
    // Both terminals are open: the second may have a copy.
    let second = rig.ready_with(&["--continue"]);
    let screen = second.screen();
    assert!(screen.contains("`/fork` goes on with a copy of it"), "{screen}");
    assert!(screen.contains("is in use by `process"), "{screen}");
    assert!(enter(&second, "/fork").contains("Going on with `the colour` (1 turn)."));
    second.send("are you sure?\r");
    second.wait_for("Blue, as I said.");
    for mut terminal in [terminal, second] {
        terminal.send("/exit\r");
        assert!(terminal.wait().success());
    }

    rig.host.script("new_tool", "echo 1");
    let third = rig.ready_with(&["--resume", "the colour"]);
    let screen = third.screen();
    assert!(screen.contains("`the colour` means 2 sessions"), "{screen}");
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
