//! The slash commands of the REPL.

use ikigai_provider_testing::Reply;

use crate::rig::{Rig, enter, is_asking};

#[test]
fn every_command_works_without_a_key() {
    let rig = Rig::new([]).env("ANTHROPIC_API_KEY", "");
    rig.host.script("greet", "printf '{}'");
    let terminal = rig.ready();
    let screen = terminal.screen();
    assert!(screen.contains("error: ") && screen.contains("ANTHROPIC_API_KEY"), "{screen}");
    assert!(screen.contains("1 tool available."), "{screen}");
    assert!(enter(&terminal, "/tool").contains("greet"));
    assert!(enter(&terminal, "/tool greet").contains("The tool greet"));
    assert!(enter(&terminal, "/pinned").contains("No pinned assets."));
    assert!(enter(&terminal, "/blocks").contains("No assets."));
    assert!(enter(&terminal, "/model").contains("No model is set."));
    assert!(enter(&terminal, "/system be brief").contains("sent to the model from now on"));
    assert!(enter(&terminal, "/system").contains("be brief"));
    assert!(enter(&terminal, "/clear").contains("is cleared"));
    assert!(enter(&terminal, "/refrsh").contains("did you mean `/refresh`?"));
    assert!(enter(&terminal, "/xyzzy").contains("hint: /help lists the commands"));
    assert!(enter(&terminal, "hello").contains("error: no model is set"));
    // It is longer than the screen.
    terminal.send("/help\r");
    let shows_end = |screen: &str| screen.contains("Ctrl-D leaves.") && is_asking(screen);
    terminal.wait_until("the help was shown", shows_end);
    let help = terminal.everything();
    for command in ["/compact [PATH", "/env NAME=VALUE", "/exit", "/refresh"] {
        assert!(help.contains(command), "{help}");
    }
    assert_eq!(rig.server.requests().len(), 0);
}

#[test]
fn a_variable_reaches_a_tool_and_no_file() {
    let rig = Rig::new([
        Reply::answer().call("wants", &serde_json::json!({})),
        Reply::answer().text("It had it."),
    ]);
    rig.host.script("wants", r#"printf '{"given":"%s"}' "$SPECIAL_VALUE""#);
    let terminal = rig.ready();
    enter(&terminal, "/env SPECIAL_VALUE=for-this-run");
    terminal.send("ask for it\r");
    terminal.wait_for("It had it.");
    let told = rig.server.requests()[1].body.to_string();
    assert!(told.contains("for-this-run"), "{told}");
    let history = std::fs::read_to_string(rig.host.state().join("history")).expect("a history");
    assert_eq!(history, "ask for it\n");
}

#[test]
fn an_asset_is_replaced_only_where_the_person_agrees() {
    let shorter = || Reply::answer().text("Short.");
    let rig = Rig::new([shorter(), shorter()]);
    let long = "A long text of many words that says little.\n".repeat(4);
    rig.host.run_with(["asset", "put", "blocks/x.md"], long.as_bytes()).expect_code(0);
    let terminal = rig.ready();
    terminal.send("/compact x\r");
    let asks = |screen: &str| screen.lines().last().is_some_and(|l| l.starts_with("Replace it?"));
    let screen = terminal.wait_until("it asks", asks);
    assert!(screen.contains("-A long text") && screen.contains("+Short."), "{screen}");
    assert!(screen.contains("44 → 2 tokens"), "{screen}");
    terminal.send("n\r");
    terminal.wait_for("Not compacted: blocks/x.md");
    terminal.send("/compact x\r");
    terminal.wait_until("it asks again", asks);
    terminal.send("y\r");
    terminal.wait_for("Compacted blocks/x.md:");
    let now = rig.host.run(["asset", "get", "blocks/x.md"]).expect_code(0).stdout();
    assert_eq!(now, "Short.\n");
}

#[test]
fn another_model_is_asked_from_then_on() {
    let rig = Rig::new([Reply::answer().text("I am the other one.")]);
    let terminal = rig.ready();
    assert!(enter(&terminal, "/model").contains("model-of-the-test of anthropic"));
    assert!(enter(&terminal, "/model other-model").contains("other-model of anthropic"));
    terminal.send("who are you?\r");
    terminal.wait_for("I am the other one.");
    assert_eq!(rig.server.requests()[0].body["model"], "other-model");
}
