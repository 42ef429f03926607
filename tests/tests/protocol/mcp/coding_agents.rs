//! Claude Code and Codex from npm, with `ikigai mcp serve` as their MCP server and a fake model.
//!
//! If they are not installed because npm or the network was missing, the tests report that they
//! test nothing.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ikigai_provider_testing::{FakeServer, Received, Reply, Vendor};
use ikigai_tests::host::{Host, Ran, Running};
use ikigai_tests::{left_out, paths};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A coding agent with its own way to name our tools.
#[derive(Clone, Copy, PartialEq)]
enum Agent {
    ClaudeCode,
    Codex,
}

use Agent::{ClaudeCode, Codex};

impl Agent {
    fn vendor(self) -> Vendor {
        match self {
            ClaudeCode => Vendor::Anthropic,
            Codex => Vendor::OpenAi,
        }
    }

    /// Returns the agent's program, if npm has installed it.
    fn program(self) -> Option<PathBuf> {
        let environment = paths::coding_agents();
        if !environment.join(".installed").exists() {
            return left_out("Claude Code and Codex", "their npm packages");
        }
        Some(environment.join("node_modules").join(match self {
            // A script creates the other package's launcher, and npm runs no scripts here.
            ClaudeCode if cfg!(target_arch = "aarch64") => {
                "@anthropic-ai/claude-code-linux-arm64/claude"
            }
            ClaudeCode => "@anthropic-ai/claude-code-linux-x64/claude",
            Codex => ".bin/codex",
        }))
    }

    /// Returns the number of results that the agent has passed to the model, and the last of them.
    fn results(self, request: &Received) -> (usize, String) {
        let results: Vec<&Value> = match self {
            ClaudeCode => {
                let messages = request.body["messages"].as_array().into_iter().flatten();
                let blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
                blocks
                    .filter(|block| block["type"] == "tool_result")
                    .map(|block| &block["content"])
                    .collect()
            }
            Codex => {
                let items = request.body["input"].as_array().into_iter().flatten();
                items
                    .filter(|item| item["type"] == "function_call_output")
                    .map(|item| &item["output"])
                    .collect()
            }
        };
        (results.len(), results.last().map(|last| text(last)).unwrap_or_default())
    }

    /// Returns the agent's own shells that a request offers to the model.
    fn own_shells(self, request: &Received) -> Vec<&str> {
        let shells: &[&str] = match self {
            ClaudeCode => &["Bash", "Monitor", "PowerShell"],
            Codex => &["exec_command", "shell", "shell_command", "local_shell", "write_stdin"],
        };
        let tools = request.body["tools"].as_array().into_iter().flatten();
        let names = tools.filter_map(|tool| tool["name"].as_str().or(tool["type"].as_str()));
        names.filter(|name| shells.contains(name)).collect()
    }

    /// Returns whether the request belongs to the conversation. The agents also request titles and
    /// similar texts.
    fn has_our_tools(self, request: &Received) -> bool {
        let tools = request.body["tools"].as_array().into_iter().flatten();
        let mut names = tools.filter_map(|tool| tool["name"].as_str());
        match self {
            ClaudeCode => names.any(|name| name == "mcp__ikigai__grep"),
            Codex => names.any(|name| name == "mcp__ikigai"),
        }
    }

    /// Returns the reply by which the model calls one of our tools.
    fn call(self, tool: &str, arguments: &Value) -> Reply {
        match self {
            ClaudeCode => Reply::answer().call(&format!("mcp__ikigai__{tool}"), arguments),
            // Codex puts a server's tools into a namespace, which ikigai itself never does.
            Codex => Reply::answer().event(json!({
                "type": "response.output_item.done",
                "output_index": 0,
                "item": {
                    "type": "function_call", "id": "fc_1", "call_id": "call_1",
                    "namespace": "mcp__ikigai", "name": tool, "arguments": arguments.to_string(),
                    "status": "completed",
                },
            })),
        }
    }

    /// Starts a model that makes one call after the other and then ends its turn.
    fn model(self, calls: Vec<(&'static str, Value)>) -> FakeServer {
        FakeServer::for_vendor(self.vendor()).for_other_clients().start_with(move |request| {
            let (done, _) = self.results(request);
            match calls.get(done).filter(|_| self.has_our_tools(request)) {
                Some((tool, arguments)) => self.call(tool, arguments),
                None => Reply::answer().text("Done."),
            }
        })
    }

    /// Returns the agent's command for one turn. `ikigai mcp install` has set up its server.
    fn command(self, program: &PathBuf, host: &Host, model: &FakeServer) -> Command {
        let mut command = Command::new(program);
        command.current_dir(host.workspace()).env_clear().env("HOME", host.home());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // The agents leave files there, which this test must not count.
        let temporary = host.scratch().join("agent");
        fs::create_dir(&temporary).expect("a directory");
        command.env("TMPDIR", temporary);
        match self {
            ClaudeCode => {
                host.run(["mcp", "install", "claude-code"]).expect_code(0);
                command.env("ANTHROPIC_BASE_URL", model.base_url()).env("ANTHROPIC_API_KEY", "key");
                command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
                // The agent's temporary files stay, and this test must not count them.
                command.env("CLAUDE_CODE_TMPDIR", host.home());
                command.args(["--print", "Work", "--allowedTools", "mcp__ikigai"]);
            }
            Codex => {
                host.run(["mcp", "install", "codex"]).expect_code(0);
                command.env("MODEL_KEY", "key").args(["exec", "--skip-git-repo-check"]);
                for setting in [
                    "model=\"fake\"".to_owned(),
                    "model_provider=\"fake\"".to_owned(),
                    format!(
                        "model_providers.fake={{name=\"fake\",base_url=\"{}\",env_key=\"MODEL_KEY\",\
                         wire_api=\"responses\"}}",
                        model.base_url()
                    ),
                    "mcp_servers.ikigai.default_tools_approval_mode=\"approve\"".to_owned(),
                ] {
                    command.args(["-c", &setting]);
                }
                command.arg("Work");
            }
        }
        command
    }
}

/// Returns the text of a result in a request.
fn text(result: &Value) -> String {
    match result {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

#[track_caller]
fn assert_contains(result: &str, parts: &[&str]) {
    for part in parts {
        assert!(result.contains(part), "`{part}` is missing in {result:?}");
    }
}

/// Makes the agent work for a turn: list, search, edit, run a long command, get a refusal and a
/// long result.
fn works(agent: Agent) {
    let Some(program) = agent.program() else { return };
    let host = Host::within(&paths::shown_scratch());
    host.write("workspace/note.txt", "a needle\n", 0o644);
    host.write("outside.txt", "a secret\n", 0o644);
    let outside = host.scratch().join("outside.txt").display().to_string();
    let edit = json!({ "file_path": "note.txt", "old_string": "needle", "new_string": "pin" });
    let model = agent.model(vec![
        ("glob", json!({ "pattern": "**/*.txt" })),
        ("grep", json!({ "pattern": "needle" })),
        ("file_edit", edit),
        // The command takes longer than the second after which the server reports progress.
        ("bash", json!({ "command": "echo before; sleep 2; echo after" })),
        ("file_read", json!({ "file_path": outside })),
        ("bash", json!({ "command": "seq 1 40000" })),
    ]);
    let ran = Ran::from_command(&mut agent.command(&program, &host, &model), b"").expect_code(0);

    let requests = model.requests();
    let result = |number: usize| -> String {
        let mut all = requests.iter().map(|request| agent.results(request));
        let found = all.find(|(done, _)| *done == number);
        found.unwrap_or_else(|| panic!("no result {number}\n{ran}")).1
    };
    assert_contains(&result(1), &["note.txt"]);
    assert_contains(&result(2), &["note.txt:1: a needle"]);
    let edited = fs::read_to_string(host.workspace().join("note.txt")).expect("a file");
    assert_eq!(edited, "a pin\n", "{}", result(3));
    assert_contains(&result(4), &["before\nafter\n"]);
    let refusal = result(5);
    assert_contains(&refusal, &["ikigai policy grant file_read --read"]);
    assert!(!refusal.contains("a secret"), "{refusal}");
    // The result contains the head, the tail, and a link to the asset with the whole text.
    assert_contains(&result(6), &["1\n2\n3\n", "39999\n40000", "ikigai://"]);
    host.assert_nothing_left();
}

/// Cancels the agent while a command runs.
fn cancels(agent: Agent) {
    let Some(program) = agent.program() else { return };
    let host = Host::within(&paths::shown_scratch());
    let command = json!({ "command": "touch begun; sleep 1000" });
    let model = agent.model(vec![("bash", command)]);
    let mut running = Running::start(&mut agent.command(&program, &host, &model));
    // Codex first reads its input to the end.
    drop(running.take_pipes());
    running.wait_for(&host.workspace().join("begun"));
    running.signal(Signal::INT);
    running.wait();
    host.assert_nothing_left();
}

/// Returns the first block of a guide in a language.
fn block(guide: &str, language: &str) -> String {
    let page = fs::read_to_string(paths::repository().join("docs/guides").join(guide));
    let page = page.expect("a guide");
    let (_, block) = page.split_once(&format!("\n```{language}\n")).expect("a block");
    block.split_once("```").expect("its end").0.to_owned()
}

/// Makes the agent list the home directory with our shell, before and after its user followed the
/// guide's rule.
fn leaves_our_shell(agent: Agent) {
    let Some(program) = agent.program() else { return };
    for follows_the_guide in [false, true] {
        let host = Host::within(&paths::shown_scratch());
        fs::write(host.home().join("secret"), "").expect("a file");
        let model = agent.model(vec![("bash", json!({ "command": "ls -A ~" }))]);
        let mut command = agent.command(&program, &host, &model);
        if follows_the_guide {
            let (file, rule) = match agent {
                ClaudeCode => {
                    let rule = block("claude-code.md", "json");
                    (host.workspace().join(".claude/settings.json"), rule)
                }
                Codex => {
                    let file = host.home().join(".codex/config.toml");
                    let entry = fs::read_to_string(&file).expect("the entry");
                    (file, format!("{entry}\n{}", block("codex.md", "toml")))
                }
            };
            fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            fs::write(file, rule).expect("a file");
        }
        let ran = Ran::from_command(&mut command, b"").expect_code(0);

        let requests = model.requests();
        let request = requests.iter().find(|request| agent.results(request).0 == 1);
        let request = request.unwrap_or_else(|| panic!("no result\n{ran}"));
        let (_, listed) = agent.results(request);
        assert!(!listed.contains("secret"), "{listed}");
        let shells = agent.own_shells(request);
        assert_eq!(shells.is_empty(), follows_the_guide, "{shells:?}\n{ran}");
        host.assert_nothing_left();
    }
}

#[test]
fn the_rule_of_the_guide_leaves_claude_code_our_shell() {
    leaves_our_shell(ClaudeCode);
}

#[test]
fn the_line_of_the_guide_leaves_codex_our_shell() {
    leaves_our_shell(Codex);
}

#[test]
fn claude_code_works_with_our_tools() {
    works(ClaudeCode);
}

#[test]
fn codex_works_with_our_tools() {
    works(Codex);
}

#[test]
fn a_command_ends_when_claude_code_is_cancelled() {
    cancels(ClaudeCode);
}

#[test]
fn a_command_ends_when_codex_is_cancelled() {
    cancels(Codex);
}
