//! `ikigai mcp install`: the entry in a client's file, and the server that it starts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ikigai_tests::host::Host;
use ikigai_tests::mcp::{Client, LEGACY};
use serde_json::{Value, json};

/// Reads the entry of a JSON file.
fn entry(file: &Path, servers: &str) -> Value {
    let text = fs::read_to_string(file).expect("a file");
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    value[servers]["ikigai"].clone()
}

/// Starts an entry's server as its client does, in a project's directory, and calls a tool.
fn serves(host: &Host, entry: &Value) {
    let args: Vec<String> = entry["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .map(|arg| arg.as_str().expect("a text"))
        .map(|arg| arg.replace("${workspaceFolder}", &host.workspace().display().to_string()))
        .collect();
    // The environment is the test's, and the program is the entry's.
    let own = host.command();
    let program = entry["command"].as_str().expect("a program");
    // A project's entry contains only the program's name, which each user has on their PATH.
    let program = if program == "ikigai" { own.get_program() } else { program.as_ref() };
    let (mut client, _) = Client::legacy(host.command_of(program).args(args), LEGACY[2]);
    let result = client.call("grep", &json!({ "pattern": "needle" }));
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(text.contains("note.txt"), "{result}");
    client.wait().0.expect_code(0);
}

#[test]
fn a_client_finds_an_entry_that_starts_the_server() {
    let host = Host::new();
    host.write("workspace/note.txt", "a needle\n", 0o644);
    for (client, file, servers) in [
        ("claude-code", "home/.claude.json", "mcpServers"),
        ("vscode", "home/.config/Code/User/mcp.json", "servers"),
        ("cursor", "home/.cursor/mcp.json", "mcpServers"),
    ] {
        let file = host.scratch().join(file);
        let ran = host.run(["mcp", "install", client]).expect_code(0);
        let place = file.strip_prefix(host.home()).expect("a file in the home");
        assert!(ran.stdout().contains(&format!("`~/{}`", place.display())), "{ran}");
        let undo = format!("\nundo: `ikigai mcp uninstall {client}`\n");
        assert!(ran.stdout().ends_with(&undo), "{ran}");
        serves(&host, &entry(&file, servers));
        let before = fs::read(&file).expect("a file");
        let ran = host.run(["mcp", "install", client]).expect_code(0);
        assert!(ran.stdout().contains("already"), "{ran}");
        assert_eq!(fs::read(&file).expect("a file"), before);
    }
    host.run(["mcp", "install", "codex", "--", "--tools", "grep"]).expect_code(0);
    let text = fs::read_to_string(host.home().join(".codex/config.toml")).expect("a file");
    assert!(text.starts_with("[mcp_servers.ikigai]\ncommand = \"/"), "{text}");
    assert!(text.contains(r#""mcp", "serve", "--tools", "grep"]"#), "{text}");
    // Claude Desktop starts servers in no particular directory.
    let ran = host.run(["mcp", "install", "claude-desktop"]).expect_code(2);
    assert!(ran.stderr().contains("--workspace"), "{ran}");
    let workspace = host.workspace().display().to_string();
    host.run(["--workspace", &workspace, "mcp", "install", "claude-desktop"]).expect_code(0);
    let file = host.home().join(".config/Claude/claude_desktop_config.json");
    let found = entry(&file, "mcpServers");
    assert_eq!(found["args"][1], workspace, "{found}");
    serves(&host, &found);
}

#[test]
fn an_entry_of_a_project_is_in_the_project() {
    let host = Host::new();
    host.write("workspace/note.txt", "a needle\n", 0o644);
    for (client, file, servers) in [
        ("claude-code", ".mcp.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("gemini-cli", ".gemini/settings.json", "mcpServers"),
        ("qwen-code", ".qwen/settings.json", "mcpServers"),
    ] {
        let ran = host.run(["mcp", "install", client, "--scope", "project"]).expect_code(0);
        assert!(ran.stdout().contains("needs `ikigai` on their PATH"), "{ran}");
        let undo = format!("\nundo: `ikigai mcp uninstall {client} --scope project`\n");
        assert!(ran.stdout().ends_with(&undo), "{ran}");
        let file = host.workspace().join(file);
        let text = fs::read_to_string(&file).expect("a file");
        assert!(!text.contains(": \"/"), "a path of this machine: {text}");
        serves(&host, &entry(&file, servers));
        let ran = host.run(["mcp", "uninstall", client, "--scope", "project"]).expect_code(0);
        assert!(ran.stdout().contains("removed `ikigai`"), "{ran}");
        let names = fs::read_dir(host.workspace()).expect("a workspace");
        let names: Vec<_> = names.map(|name| name.expect("a name").file_name()).collect();
        assert_eq!(names, ["note.txt"]);
        let ran = host.run(["mcp", "uninstall", client, "--scope", "project"]).expect_code(1);
        assert!(ran.stderr().contains("has no entry"), "{ran}");
        assert!(!file.parent().is_some_and(|dir| dir != host.workspace() && dir.exists()), "{ran}");
    }
}

#[test]
fn what_an_install_made_ends_with_its_entry() {
    let host = Host::new();
    let workspace = host.workspace().display().to_string();
    for client in ["claude-code", "codex", "vscode", "claude-desktop", "continue"] {
        host.run(["--workspace", &workspace, "mcp", "install", client]).expect_code(0);
        assert_ne!(fs::read_dir(host.home()).expect("a home").count(), 0, "{client}");
        let ran = host.run(["mcp", "uninstall", client]).expect_code(0);
        assert!(ran.stdout().contains("which had nothing else"), "{ran}");
        assert_eq!(fs::read_dir(host.home()).expect("a home").count(), 0, "{client}");
        // A missing file is not created, and neither is its directory.
        host.run(["mcp", "uninstall", client]).expect_code(1);
        assert_eq!(fs::read_dir(host.home()).expect("a home").count(), 0, "{client}");
    }
    let codex = host.write("home/.codex/config.toml", "# mine\n", 0o600);
    let linked = host.write("home/dotfiles/claude.json", "{}", 0o600);
    std::os::unix::fs::symlink(&linked, host.home().join(".claude.json")).expect("a link");
    for (client, file, left) in [("codex", codex, "# mine"), ("claude-code", linked, "{}")] {
        host.run(["mcp", "install", client]).expect_code(0);
        host.run(["mcp", "uninstall", client]).expect_code(0);
        assert_eq!(fs::read_to_string(&file).expect("the file stays").trim(), left);
    }
}

#[test]
fn an_entry_of_the_other_scope_is_named() {
    let host = Host::new();
    host.run(["mcp", "install", "claude-code", "--scope", "project"]).expect_code(0);
    let ran = host.run(["mcp", "uninstall", "claude-code"]).expect_code(1);
    assert!(ran.stderr().contains("`~/.claude.json` has no entry `ikigai`"), "{ran}");
    let hint = "hint: this project's .mcp.json has one: add `--scope project`\n";
    assert!(ran.stderr().contains(hint), "{ran}");
    host.run(["mcp", "uninstall", "claude-code", "--scope", "project"]).expect_code(0);
    host.run(["mcp", "install", "claude-code"]).expect_code(0);
    let ran = host.run(["mcp", "uninstall", "claude-code", "--scope", "project"]).expect_code(1);
    let hint = "hint: ~/.claude.json has one: leave out `--scope project`\n";
    assert!(ran.stderr().contains(hint), "{ran}");
    let ran = host.run(["mcp", "uninstall", "codex"]).expect_code(1);
    assert!(!ran.stderr().contains("hint:"), "{ran}");
}

#[test]
fn an_entry_has_the_flags_that_were_typed_and_waits_for_the_longest_call() {
    let host = Host::new();
    let shown = |args: &[&str]| {
        let args = args.iter().chain(&["mcp", "install", "codex", "--print"]).copied();
        host.run(args).expect_code(0).stdout().to_owned()
    };
    let text = shown(&[]);
    assert!(text.contains("tool_timeout_sec = 150\n"), "{text}");
    let text = shown(&["--timeout", "10m", "--policy", "mine.toml"]);
    let policy = host.workspace().join("mine.toml").display().to_string();
    let expected = format!(
        r#"["--workspace", ".", "--policy", "{policy}", "--timeout", "10m", "mcp", "serve"]"#
    );
    assert!(text.contains(&expected) && text.contains("tool_timeout_sec = 630\n"), "{text}");
}

#[test]
fn what_a_client_needs_beside_the_entry_is_printed() {
    let host = Host::new();
    // The guide denies the same tools.
    let guide = include_str!("../../../../docs/guides/claude-code.md");
    assert!(guide.contains(r#""deny": ["Bash", "Monitor", "PowerShell"]"#), "{guide}");
    for (client, part) in [
        (
            "claude-code",
            r#"allow only ikigai's bash, add {"permissions":{"deny":["Bash","Monitor","PowerShell"]}}"#,
        ),
        ("claude-code", "--allowedTools mcp__ikigai"),
        ("codex", r#"default_tools_approval_mode = "approve""#),
        ("opencode", r#"{"permission":{"bash":"deny"}}"#),
        ("gemini-cli", "put these rules into\n  ~/.gemini/policies/ikigai.toml:\n\n  [[rule]]\n"),
        ("gemini-cli", "- `gemini -p` does not ask you."),
        (
            "qwen-code",
            r#"{"permissions":{"deny":["run_shell_command"],"allow":["mcp__ikigai"]}} to the same file."#,
        ),
        ("qwen-code", "- `qwen -p` does not ask you."),
    ] {
        let ran = host.run(["mcp", "install", client]).expect_code(0);
        assert!(ran.stdout().contains(part), "{part}: {ran}");
        assert!(!ran.stdout().contains("trust"), "{ran}");
    }
    let text = fs::read_to_string(host.home().join(".config/opencode/opencode.json"));
    let value: Value = serde_json::from_str(&text.expect("a file")).expect("JSON");
    let line = value["mcp"]["ikigai"]["command"].as_array().expect("a list");
    assert_eq!(line.last(), Some(&json!("serve")), "{value}");
    let workspace = host.workspace().display().to_string();
    for client in ["cline", "continue", "zed", "windsurf"] {
        let ran = host.run(["mcp", "install", client]).expect_code(2);
        assert!(ran.stderr().contains("ikigai --workspace DIR mcp install"), "{ran}");
        host.run(["--workspace", &workspace, "mcp", "install", client]).expect_code(0);
    }
}

#[test]
fn the_rules_for_gemini_cli_are_those_of_the_guide_and_a_project_has_to_be_trusted() {
    let host = Host::new();
    let ran = host.run(["mcp", "install", "gemini-cli", "--scope", "project"]).expect_code(0);
    let printed = ran.stdout();
    let (_, rules) = printed.split_once("ikigai.toml:\n\n").expect("rules");
    let (rules, _) = rules.split_once("\n\n- ").expect("a step after the rules");
    let rules: Vec<&str> = rules.lines().map(str::trim_start).collect();
    let guide = include_str!("../../../../docs/guides/other-clients.md");
    assert!(guide.contains(&format!("```toml\n{}\n```", rules.join("\n"))), "{rules:?}");
    let trust = "\n- Start `gemini` once in the project and trust the folder.";
    assert!(printed.contains(trust), "{ran}");
}

#[test]
fn codex_has_a_file_of_the_project_too() {
    let host = Host::new();
    host.run(["mcp", "install", "codex", "--scope", "project"]).expect_code(0);
    let text = fs::read_to_string(host.workspace().join(".codex/config.toml")).expect("a file");
    assert!(text.starts_with("[mcp_servers.ikigai]\n"), "{text}");
    assert!(text.contains(r#"["--workspace", ".", "mcp", "serve"]"#), "{text}");
    let ran = host.run(["mcp", "install", "claude-desktop", "--scope", "project"]).expect_code(2);
    assert!(ran.stderr().contains("--workspace") || ran.stderr().contains("project"), "{ran}");
    assert_eq!(fs::read_dir(host.home()).expect("a home").count(), 0);
}

#[test]
fn the_variables_that_move_the_files_of_clients_are_followed() {
    for (variable, client, file) in [
        ("CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("XDG_CONFIG_HOME", "vscode", "Code/User/mcp.json"),
        ("XDG_CONFIG_HOME", "claude-desktop", "Claude/claude_desktop_config.json"),
    ] {
        let host = Host::new();
        let moved = host.scratch().join("moved");
        let host = host.env(variable, &moved);
        let workspace = host.workspace().display().to_string();
        let args = ["--workspace", &workspace, "mcp", "install", client];
        let ran = host.run(args).expect_code(0);
        let file = moved.join(file);
        assert!(ran.stdout().contains(&file.display().to_string()), "{ran}");
        let text = fs::read_to_string(&file).expect("the file");
        assert!(text.contains("ikigai"), "{text}");
        assert_eq!(fs::read_dir(host.home()).expect("a home").count(), 0, "{variable}");
    }
}

#[test]
fn a_file_keeps_its_mode_its_link_and_its_other_servers() {
    let host = Host::new();
    let real = host.write(
        "home/dotfiles/claude.json",
        r#"{"token":"x","mcpServers":{"a":{"command":"b"}}}"#,
        0o600,
    );
    std::os::unix::fs::symlink(&real, host.home().join(".claude.json")).expect("a link");
    host.run(["mcp", "install", "claude-code"]).expect_code(0);
    assert!(host.home().join(".claude.json").is_symlink());
    let metadata = fs::metadata(&real).expect("a file");
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let value: Value = serde_json::from_slice(&fs::read(&real).expect("a file")).expect("JSON");
    assert_eq!((&value["token"], &value["mcpServers"]["a"]["command"]), (&json!("x"), &json!("b")));
    assert!(value["mcpServers"]["ikigai"]["command"].is_string(), "{value}");
}

#[test]
fn a_link_of_a_project_that_leads_out_of_it_is_not_followed() {
    let host = Host::new();
    let outside = host.write("home/settings.json", "{}", 0o600);
    std::os::unix::fs::symlink(&outside, host.workspace().join(".mcp.json")).expect("a link");
    std::os::unix::fs::symlink(host.home(), host.workspace().join(".cursor")).expect("a link");
    for client in ["claude-code", "cursor"] {
        let ran = host.run(["mcp", "install", client, "--scope", "project"]).expect_code(1);
        assert!(ran.stderr().contains("out of the project"), "{ran}");
    }
    assert_eq!(fs::read(&outside).expect("a file"), b"{}");
    assert!(!host.home().join("mcp.json").exists());
    std::os::unix::fs::symlink("nowhere", host.home().join(".claude.json")).expect("a link");
    let ran = host.run(["mcp", "install", "claude-code"]).expect_code(1);
    assert!(ran.stderr().contains("leads nowhere"), "{ran}");
}

#[test]
fn a_file_that_does_not_parse_is_left_and_wrong_flags_are_refused() {
    let host = Host::new();
    for (client, file) in
        [("cursor", "home/.cursor/mcp.json"), ("codex", "home/.codex/config.toml")]
    {
        let file = host.write(file, "{ nonsense", 0o644);
        let ran = host.run(["mcp", "install", client]).expect_code(1);
        let place = file.strip_prefix(host.home()).expect("a file in the home");
        assert!(ran.stderr().contains(&format!("`~/{}`", place.display())), "{ran}");
        assert_eq!(fs::read(&file).expect("a file"), b"{ nonsense");
    }
    for flags in [
        &["--nonsense"][..],
        &["--tools"],
        &["--max-result", "1"],
        // These flags are for servers that the client does not start itself.
        &["--http"],
        &["--http", "127.0.0.1:0"],
        &["--tools", "grep", "--http=127.0.0.1:0", "--no-auth"],
    ] {
        let args = [&["mcp", "install", "claude-code", "--"], flags].concat();
        let ran = host.run(args).expect_code(2);
        let flag = flags.iter().find(|flag| flag.starts_with("--http")).unwrap_or(&flags[0]);
        let flag = flag.split('=').next().expect("a flag");
        assert!(ran.stderr().contains(flag), "{ran}");
    }
    assert!(!host.home().join(".claude.json").exists());
}

/// Each command waits for the one before it, and none overwrites what another has just written.
#[test]
fn commands_at_once_edit_a_file_one_after_the_other() {
    let host = Host::new();
    host.write("home/.cursor/mcp.json", r#"{"mcpServers":{"a":{"command":"b"}}}"#, 0o600);
    let ended = std::thread::scope(|scope| {
        let started =
            ["grep", "glob", "bash", "file_read", "file_write", "file_edit"].map(|tool| {
                let host = &host;
                scope.spawn(move || host.run(["mcp", "install", "cursor", "--", "--tools", tool]))
            });
        started.map(|run| run.join().expect("no panic"))
    });
    for ran in &ended {
        assert_eq!(ran.code(), Some(0), "{ran}");
    }
    let text = fs::read_to_string(host.home().join(".cursor/mcp.json")).expect("a file");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["mcpServers"]["a"]["command"], "b", "{text}");
    assert!(value["mcpServers"]["ikigai"]["args"].to_string().contains("--tools"), "{text}");
}

#[test]
fn the_entry_can_be_printed_instead() {
    let host = Host::new();
    let ran = host.run(["mcp", "install", "vscode", "--print"]).expect_code(0);
    assert_eq!(ran.json()["servers"]["ikigai"]["args"][1], "${workspaceFolder}", "{ran}");
    let ran = host.run(["mcp", "install", "codex", "--print"]).expect_code(0);
    assert!(ran.stdout().starts_with("[mcp_servers.ikigai]\n"), "{ran}");
    assert_eq!(fs::read_dir(host.home()).expect("a home").count(), 0);
}
