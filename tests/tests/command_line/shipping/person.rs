//! A user at a terminal, who is asked before a tool is installed, granted or approved.

use std::fs;

use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;

use crate::shipping::scene::*;

const NEEDS: &str = r#"{"env":[{"name":"KEY","why":"the key of the service"}]}"#;

/// Starts a command in a terminal that is wide enough for its paths.
fn start(host: &Host, arguments: &[&str]) -> Terminal {
    let mut command = host.command();
    command.args(arguments);
    Terminal::start(&command, 240, 60)
}

/// Answers questions one after the other, and waits for the end of the command.
fn answering(host: &Host, arguments: &[&str], answers: &[(&str, &str)], code: i32) -> String {
    let mut terminal = start(host, arguments);
    for (question, answer) in answers {
        terminal.wait_for(question);
        terminal.send(&format!("{answer}\r"));
    }
    assert_eq!(terminal.wait().code(), Some(code), "{}", terminal.everything());
    terminal.everything()
}

#[test]
fn a_person_agrees_to_the_tool_and_then_to_its_grant() {
    let host = Host::without_system_tools();
    let path = host.write("source/weather.wasm", needing("1.0.0", NEEDS), 0o644);
    let path = path.to_str().expect("UTF-8");
    let (tool, grant) = ("Install `weather`?", "Grant it this?");
    let args = ["tool", "install", path];
    for no in ["n", "", "maybe"] {
        let said = answering(&host, &args, &[(tool, no)], 1);
        assert!(
            said.contains("the key of the service") && said.contains("nothing was installed"),
            "{said}"
        );
        assert!(state(&host).is_empty(), "{said}");
    }
    let said = answering(&host, &args, &[(tool, "y"), (grant, "n")], 0);
    assert!(said.contains("ikigai policy grant weather --env KEY"), "{said}");
    assert_eq!(policy_text(&host), "", "{said}");
    answers(&host, "1.0.0");
    // With `--grant`, the command asks only these two questions.
    host.run(["tool", "remove", "weather"]).expect_code(0);
    let said = answering(&host, &args, &[(tool, "y"), (grant, "y")], 0);
    assert!(said.contains("and granted"), "{said}");
    assert!(policy_text(&host).contains("KEY"), "{said}");
}

#[test]
fn a_person_is_asked_before_a_grant_is_renewed() {
    let host = Host::without_system_tools();
    let path = host.write("source/weather.wasm", needing("1.0.0", NEEDS), 0o644);
    install_with(&host, &path, &["--grant"]).expect_code(0);
    let next = needing("1.1.0", NEEDS);
    fs::write(&path, &next).expect("written");
    // Pressing Enter once is enough.
    let questions = [("Install `weather`?", "y"), ("Renew its grant? [Y/n]", "")];
    answering(&host, &["tool", "update"], &questions, 0);
    assert!(policy_text(&host).contains(&sha256(&next)));
    answers(&host, "1.1.0");
    let unwanted = needing("1.1.1", NEEDS);
    fs::write(&path, &unwanted).expect("written");
    let questions = [("Install `weather`?", "y"), ("Renew its grant? [Y/n]", "n")];
    let said = answering(&host, &["tool", "update"], &questions, 1);
    assert!(said.contains("`weather` cannot be called: "), "{said}");
    assert!(!policy_text(&host).contains(&sha256(&unwanted)));
    // A grant with additional needs is not a renewal.
    let grown = needing("1.2.0", r#"{"env":[{"name":"KEY","why":"k"},{"name":"MORE","why":"m"}]}"#);
    fs::write(&path, &grown).expect("written");
    let questions = [("Install `weather`?", "y"), ("Grant it this?", "n")];
    let said = answering(&host, &["tool", "update"], &questions, 1);
    assert!(said.contains("+ ") && said.contains("MORE"), "{said}");
    assert!(!policy_text(&host).contains(&sha256(&grown)));
}

#[test]
fn a_person_is_asked_before_a_tool_of_a_workspace_runs() {
    let (first, second) = (Host::without_system_tools(), Host::without_system_tools());
    let path = first.write("source/weather.wasm", weather("1.0.0"), 0o644);
    install_with(&first, &path, &["--in-workspace"]).expect_code(0);
    let workspace = first.workspace().display().to_string();
    let sync = ["--workspace", &workspace, "tool", "sync"];
    let says = || {
        let ran = second.run(["--workspace", &workspace, "tool", "call", "weather", "{}"]);
        ran.json()["result"]["description"].as_str().map(str::to_owned)
    };
    let question = "Let `weather` run in this workspace?";
    let places = "Download the tools from these sources?";
    let said = answering(&second, &sync, &[(places, "n")], 1);
    assert!(said.contains(path.to_str().expect("UTF-8")), "{said}");
    let said = answering(&second, &sync, &[(places, "y"), (question, "n")], 1);
    assert!(said.contains("none: the file is not signed"), "{said}");
    assert_eq!(says(), None, "{said}");
    answering(&second, &sync, &[(places, "y"), (question, "y")], 0);
    assert_eq!(says().as_deref(), Some("weather 1.0.0"));
}

#[test]
fn without_a_terminal_nothing_is_installed_that_nobody_agreed_to() {
    let host = Host::without_system_tools();
    let path = host.write("source/weather.wasm", needing("1.0.0", NEEDS), 0o644);
    let path = path.to_str().expect("UTF-8");
    for flags in [&[][..], &["--grant"], &["--json"], &["--in-workspace"]] {
        let ran = host.run(["tool", "install", path].iter().chain(flags)).expect_code(1);
        let error = error(&ran);
        assert!(error.contains("ikigai needs a terminal to ask you"), "{ran}");
        assert!(error.contains("`--yes` installs it"), "{ran}");
        assert!(ran.stderr().contains("the key of the service"), "what it needs is shown\n{ran}");
        assert!(state(&host).is_empty(), "{ran}");
    }
    host.run(["tool", "install", path, "--yes"]).expect_code(0);
    fs::write(path, needing("1.1.0", NEEDS)).expect("written");
    refused(&host, &["tool", "update"], 1, &["ikigai needs a terminal to ask you"]);
}
