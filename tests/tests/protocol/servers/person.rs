//! A user at a terminal, who is asked before anything is granted or offered.

use std::fs;
use std::os::unix::fs::symlink;

use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;
use serde_json::json;

use crate::servers::{call, define, doing, offered, program, text};

/// Starts a command in a terminal that is wide enough for its paths.
fn start(host: &Host, arguments: &[&str]) -> Terminal {
    let mut command = host.command();
    command.args(arguments);
    Terminal::start(&command, 240, 60)
}

/// Answers a question, and waits for the end of the command.
fn answer(mut terminal: Terminal, question: &str, answer: &str, code: i32) -> String {
    terminal.wait_for(&format!("{question} [y/N"));
    terminal.send(&format!("{answer}\r"));
    assert_eq!(terminal.wait().code(), Some(code), "{}", terminal.everything());
    terminal.everything()
}

#[test]
fn a_person_agrees_to_the_grant_and_then_to_the_tools() {
    const GRANT: &str = "Write this?";
    const TOOLS: &str = "Offer these 2 tools to models?";
    let host = Host::without_system_tools();
    let file = define(&host, &doing(&["echo", "env"])).display().to_string();
    let dir = host.scratch().join("peer").display().to_string();
    let program = program();
    let add = ["mcp", "add", "peer", "--read", &dir, "--", &program, &file];
    let said = answer(start(&host, &add), GRANT, "n", 1);
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(!host.user_tools().join("peer.mcp.toml").exists(), "{said}");
    assert!(!host.home().join(".config/ikigai/policy.toml").exists(), "{said}");
    // When the user agrees to the grant, the tools have not been shown yet.
    let terminal = start(&host, &add);
    terminal.wait_for(&format!("{GRANT} [y/N]"));
    terminal.send("y\r");
    let said = answer(terminal, TOOLS, "n", 1);
    assert!(said.contains("echo (new)") && said.contains("nothing was approved"), "{said}");
    assert_eq!(offered(&host), [] as [&str; 0]);
    let approve = ["mcp", "approve", "peer"];
    // Neither an empty line nor any text other than yes counts as consent.
    for no in ["", "maybe"] {
        answer(start(&host, &approve), TOOLS, no, 1);
        assert_eq!(offered(&host), [] as [&str; 0]);
    }
    // The schemas are shown on request.
    let terminal = start(&host, &approve);
    let screen = terminal.wait_for(TOOLS);
    assert!(!screen.contains("arguments"), "{screen}");
    terminal.send("d\r");
    terminal.wait_until("it asks again", |screen| screen.matches(TOOLS).count() == 2);
    let said = answer(terminal, TOOLS, "y", 0);
    assert!(said.contains("arguments") && said.contains("\"type\": \"object\""), "{said}");
    assert!(said.contains("offered as peer__echo, peer__env"), "{said}");
    assert_eq!(offered(&host), ["peer__echo", "peer__env"]);
    assert_eq!(text(&call(&host, "echo", &json!({}))), "{}");
}

#[test]
fn the_code_of_the_program_is_proposed_for_reading() {
    let host = Host::without_system_tools();
    let own = host.write("mcp/node_modules/peer/run", fs::read(program()).expect("read"), 0o755);
    // Files in the program's directory are visible with it.
    let file = host.write("mcp/node_modules/other/peer.json", doing(&["echo"]).to_string(), 0o644);
    let link = host.scratch().join("mcp/node_modules/.bin/peer");
    fs::create_dir(link.parent().expect("a directory")).expect("created");
    symlink(&own, &link).expect("a link");
    let (link, file) = (link.display().to_string(), file.display().to_string());
    let modules = host.scratch().join("mcp/node_modules").display().to_string();

    // Without a person to ask, the directory is not granted.
    let ran = host.run(["mcp", "add", "peer", "--yes", "--", &link, &file]).expect_code(1);
    assert!(ran.stderr().contains(&format!("`--read {modules}` grants it the code")), "{ran}");
    assert!(!host.user_tools().join("peer.mcp.toml").exists(), "{ran}");

    let terminal = start(&host, &["mcp", "add", "peer", "--", &link, &file]);
    let screen = terminal.wait_for("Write this? [y/N]");
    assert!(screen.contains(&format!("ro:{modules}")), "{screen}");
    terminal.send("y\r");
    answer(terminal, "Offer this tool to models?", "y", 0);
    assert_eq!(text(&call(&host, "echo", &json!({}))), "{}");
}
