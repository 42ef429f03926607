//! Questions of commands that have no editor: `tool call` and `ask` at a terminal.

use std::os::unix::fs::symlink;
use std::process::Command;

use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;
use ikigai_tests::paths;
use serde_json::json;

/// The key of a question about `tool call`'s only call.
const KEYS: &str = "o allow for this call";

fn host() -> Host {
    let host = Host::new().with_shared_cache();
    host.write("outside.txt", "not for it", 0o644);
    host
}

#[test]
fn a_call_at_a_terminal_asks_and_leaves_the_terminal_as_it_was() {
    for (key, is_read) in [("o", true), ("n", false), ("\r", false), ("\x03", false)] {
        let host = host();
        let read = json!({ "file_path": host.scratch().join("outside.txt") }).to_string();
        let mut command = host.command();
        let mut terminal =
            Terminal::start(command.args(["tool", "call", "file_read", &read]), 80, 24);
        let screen = terminal.wait_for(KEYS);
        assert!(screen.contains("ikigai asks  denied after 5 minutes"), "{screen}");
        assert!(!screen.contains("this session"), "{screen}");
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
fn a_run_that_lacked_a_toolchain_gets_it_by_one_key() {
    // The sandbox replaces `/tmp`, so the home directory must be elsewhere.
    let host = Host::within(&paths::shown_scratch()).with_shared_cache();
    let rustup = "#!/bin/sh\nexec \"$HOME/.rustup/toolchains/stable/bin/${0##*/}\" \"$@\"\n";
    host.write("home/.cargo/bin/rustup", rustup, 0o755);
    let bin = host.home().join(".cargo/bin");
    symlink("rustup", bin.join("cargo")).expect("linked");
    let cargo = "#!/bin/sh\necho \"it is the $1\"\n";
    host.write("home/.rustup/toolchains/stable/bin/cargo", cargo, 0o755);
    let host = host.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let arguments = json!({ "command": "cargo test" }).to_string();
    // The first call has no terminal, so no question is asked.
    let ran = host.run(["--backend", "native", "tool", "call", "bash", &arguments]);
    assert_eq!(ran.json()["allow_with"], "ikigai policy grant bash --toolchain rust", "{ran}");
    let mut command = host.command();
    command.args(["--backend", "native", "tool", "call", "bash", &arguments]);
    let mut terminal = Terminal::start(&command, 120, 40);
    let screen = terminal.wait_for("w run again, with the toolchain `rust`");
    assert!(screen.contains("toolchain   rust (read-only: "), "{screen}");
    terminal.send("w");
    let screen = terminal.wait_for("y write it, and run again");
    assert!(screen.contains("Grant `bash` the toolchain `rust` from now on"), "{screen}");
    terminal.send("y");
    terminal.wait_for("it is the test");
    assert!(terminal.wait().success());
    // One answer is enough, and the next call needs none.
    assert_eq!(terminal.written().matches("ikigai asks").count(), 2);
    let ran = host.run(["--backend", "native", "tool", "call", "bash", &arguments]);
    assert_eq!(ran.json()["result"]["output"], "it is the test", "{ran}");
}

/// Returns a shell with job control that runs the host's command, and continues it with the next
/// line.
fn shell(program: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"set -m; "$@"; echo stopped; read line; fg; echo "over $?""#, "sh"]);
    shell.arg(program.get_program()).args(program.get_args());
    shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = program.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
}

#[test]
fn ctrl_z_leaves_the_terminal_to_the_shell_and_the_question_comes_again() {
    let host = host();
    let read = json!({ "file_path": host.scratch().join("outside.txt") }).to_string();
    let mut command = host.command();
    let shell = shell(command.args(["tool", "call", "file_read", &read]));
    let mut terminal = Terminal::start(&shell, 80, 60);
    terminal.wait_for(KEYS);
    terminal.send("\x1a");
    terminal.wait_for("stopped");
    assert!(terminal.shows_typing());
    // The line is for the shell. The key after it is already typed when the question appears again.
    terminal.send("o\ro");
    let screen = terminal.wait_until("it is asked again", |screen| {
        screen.matches("ikigai asks").count() == 2 && screen.matches(KEYS).count() == 1
    });
    assert!(!screen.contains("tool_success"), "{screen}");
    assert!(!terminal.shows_typing());
    terminal.send("o");
    let screen = terminal.wait_for("over 0");
    assert!(screen.contains("not for it"), "{screen}");
    assert!(terminal.shows_typing());
    assert!(terminal.wait().success());
}

#[test]
fn a_terminal_that_is_closed_at_a_question_ends_the_call_and_allows_nothing() {
    let host = host();
    let read = json!({ "file_path": host.scratch().join("outside.txt") }).to_string();
    let mut command = host.command();
    let mut terminal = Terminal::start(command.args(["tool", "call", "file_read", &read]), 80, 24);
    terminal.wait_for(KEYS);
    terminal.close();
    assert!(!terminal.wait().success());
    assert!(!terminal.screen().contains("not for it"), "{}", terminal.screen());
    let audit = host.run(["audit", "--json"]).stdout();
    assert!(!audit.contains("\"once\""), "{audit}");
}

#[test]
fn a_resize_at_a_question_answers_nothing() {
    let host = host();
    let read = json!({ "file_path": host.scratch().join("outside.txt") }).to_string();
    let mut command = host.command();
    let mut terminal = Terminal::start(command.args(["tool", "call", "file_read", &read]), 100, 24);
    terminal.wait_for("┗ o allow for this call");
    terminal.resize(60, 24);
    // The keys need a further row.
    let screen = terminal.wait_for("┃ o allow for this call");
    assert!(!screen.contains("tool_success"), "{screen}");
    assert_eq!(terminal.written().matches("ikigai asks").count(), 1);
    terminal.send("o");
    terminal
        .wait_until("it was read", |screen| screen.replace(['\n', ' '], "").contains("notforit"));
    assert!(terminal.wait().success());
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
        let screen = terminal.wait_for("once · s this session");
        assert!(screen.ends_with("deny, and tell the model"), "{screen}");
        terminal.send(key);
        terminal.wait_for("It is done.");
        assert_eq!(terminal.wait().code(), Some(code), "{}", terminal.screen());
        assert!(terminal.screen().contains("✓ glob"), "{}", terminal.screen());
        let told = server.requests()[1].body.to_string();
        assert_eq!(told.contains("not for it"), key == "o", "{told}");
    }
}
