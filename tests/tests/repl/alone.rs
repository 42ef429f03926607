//! Questions of commands without an editor: `tool call` and `ask` at a terminal.

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;
use ikigai_tests::readme;
use serde_json::json;

const KEYS: &str = "once · s this session";

fn host() -> Host {
    let host = Host::new().with_shared_cache();
    host.write("outside.txt", "not for it", 0o644);
    host
}

#[test]
fn a_call_at_a_terminal_asks_and_leaves_the_terminal_as_it_was() {
    for (key, is_read) in [("o", true), ("\r", false), ("\x03", false)] {
        let host = host();
        let read = json!({ "file_path": host.scratch().join("outside.txt") }).to_string();
        let mut command = host.command();
        let mut terminal =
            Terminal::start(command.args(["tool", "call", "file_read", &read]), 80, 24);
        let screen = terminal.wait_for(KEYS);
        assert!(screen.contains("ikigai asks"), "{screen}");
        assert!(!terminal.shows_typing());
        terminal.send(key);
        terminal.wait_for("tool_success");
        let status = terminal.wait();
        assert!(terminal.shows_typing(), "{key:?}");
        assert_eq!(terminal.screen().contains("not for it"), is_read, "{}", terminal.screen());
        if key == "\x03" {
            assert_eq!(status.code(), Some(130), "{}", terminal.screen());
        }
    }
}

#[test]
fn the_example_of_the_readme_ends_in_a_question() {
    let example = readme::refusal();
    for (key, is_read) in [("o", true), ("\r", false)] {
        let host = host();
        let mut command = host.command();
        // Wide enough for the envelope with the command on one row.
        let mut terminal = Terminal::start(command.args(&example.call), 400, 24);
        let screen = terminal.wait_for(KEYS);
        assert!(screen.contains(&format!("read {}?", example.path)), "{screen}");
        terminal.send(key);
        let screen = terminal.wait_for("tool_success");
        terminal.wait();
        assert_eq!(screen.contains("root:"), is_read, "{screen}");
        assert_eq!(terminal.screen().contains(&example.allow_with), !is_read, "{screen}");
    }
}

#[test]
fn a_question_of_ask_is_answered_and_other_output_waits() {
    for (key, code) in [("o", 0), ("d", 3)] {
        let host = host();
        let read = json!({ "file_path": host.scratch().join("outside.txt") });
        let server = FakeServer::start(
            Vendor::Anthropic,
            [
                Reply::answer().call("file_read", &read).call("glob", &json!({ "pattern": "*" })),
                Reply::answer().text("It is done."),
            ],
        );
        let host = host
            .env("ANTHROPIC_API_KEY", "key-of-the-test")
            .env("ANTHROPIC_BASE_URL", server.base_url())
            .env("IKIGAI_MODEL", "model-of-the-test")
            .env("IKIGAI_AUTO_SUMMARY", "off");
        let mut command = host.command();
        let mut terminal = Terminal::start(command.args(["ask", "read it"]), 80, 24);
        let screen = terminal.wait_for(KEYS);
        assert!(screen.ends_with("deny, and tell the model"), "{screen}");
        terminal.send(key);
        terminal.wait_for("It is done.");
        assert_eq!(terminal.wait().code(), Some(code), "{}", terminal.screen());
        assert!(terminal.screen().contains("✓ glob"), "{}", terminal.screen());
        let told = server.requests()[1].body.to_string();
        assert_eq!(told.contains("not for it"), key == "o", "{told}");
    }
}
