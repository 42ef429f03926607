//! Runs every command of ikigai on the first pages and in the guides, each page on a host of its
//! own. A file in `pages` has the rows of a page, in the order in which they run:
//!
//! ```text
//! ikigai tool new NAME --lang go           the command as the page has it
//!     as ikigai tool new weather --lang c  the command that runs, if the page has placeholders
//!     0 created weather                    its exit code, and a text of its output
//!     at-terminal o deny                   or the key that answers a screen which ends with `deny`
//!     serves 200 file_read                 or the status of a server's answer, and a text of it
//!     in FILE TEST                         or the other test, which reads the commands of the page
//!     in SCRIPT TEXT                       or the script with the command
//! ```
//!
//! Each command in a block needs a row, and so does each in backquotes that is more than a name
//! such as `ikigai policy grant`. For these names, the program must have a page of help. Commands
//! of other programs, such as `npm install`, are not covered.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ikigai_packages_testing::Fake;
use ikigai_provider_testing::{FakeServer, Reply, Vendor};
use ikigai_terminal_testing::Terminal;
use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, Ran, schema};
use ikigai_tests::mcp::http::Server;
use ikigai_tests::mcp::peer::HttpPeer;
use ikigai_tests::paths;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use regex::Regex;
use rustix::process::Signal;
use serde_json::json;

use crate::shipping::scene::{Net, program};

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];

        $(#[test]
        fn $test() {
            follow($page);
        })*
    };
}

pages! {
    readme: "README.md",
    security: "SECURITY.md",
    comparison: "docs/concepts/comparison.md",
    claude_code: "docs/guides/claude-code.md",
    codex: "docs/guides/codex.md",
    grant_access: "docs/guides/grant-access.md",
    mcp_servers: "docs/guides/mcp-servers.md",
    other_clients: "docs/guides/other-clients.md",
    scripts: "docs/guides/scripts.md",
    serve_over_http: "docs/guides/serve-over-http.md",
    ship_a_tool: "docs/guides/ship-a-tool.md",
    terminal_agent: "docs/guides/terminal-agent.md",
    toolchains: "docs/guides/toolchains.md",
    troubleshooting: "docs/guides/troubleshooting.md",
    wrap_a_program: "docs/guides/wrap-a-program.md",
    write_a_component: "docs/guides/write-a-component.md",
    write_a_tool: "docs/guides/write-a-tool.md",
    data_flows: "docs/security/data-flows.md",
    threat_model: "docs/security/threat-model.md",
    first_call: "docs/start/first-call.md",
    install: "docs/start/install.md",
}

/// The commands on a page.
#[derive(Debug, Default, PartialEq)]
struct PageCommands {
    /// Those that need a row.
    complete: BTreeSet<String>,
    /// Those that are only a name, such as `ikigai policy grant`.
    names: BTreeSet<String>,
}

impl PageCommands {
    fn read(page: &str) -> Self {
        let expression = |text| Regex::new(text).expect("an expression");
        let command = expression(r"^(?:\w+=\S+ |.*(?:\||; do) )?ikigai |^cargo xtask ");
        let name = expression(r"^ikigai(?: [a-z]+){1,2}$");
        let continuation = expression(r"\s*\\\n\s*");
        let comment = expression(r"\s+# .*$");
        let mut found = Self::default();
        let mut block = None;
        for event in Parser::new_ext(page, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    let is_shell = matches!(&*language, "sh" | "console");
                    block = is_shell.then(String::new);
                }
                Event::End(TagEnd::CodeBlock) => {
                    let block = block.take().unwrap_or_default();
                    for line in continuation.replace_all(&block, " ").lines() {
                        let line = comment.replace(line.strip_prefix("$ ").unwrap_or(line), "");
                        if command.is_match(&line) {
                            found.complete.insert(line.into_owned());
                        }
                    }
                }
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        block.push_str(&text);
                    }
                }
                Event::Code(span) if name.is_match(&span) => {
                    found.names.insert(span.into_string());
                }
                Event::Code(span) if span.starts_with("ikigai ") => {
                    found.complete.insert(span.into_string());
                }
                _ => {}
            }
        }
        found
    }
}

/// A command of a page, and what must come of it.
struct DocumentedCommand<'t> {
    text: &'t str,
    /// The command that runs.
    run: &'t str,
    outcome: ExpectedOutcome<'t>,
}

enum ExpectedOutcome<'t> {
    Exit { code: i32, output: &'t str },
    Terminal { key: &'t str, end: &'t str },
    Serving { status: u16, answer: &'t str },
    Elsewhere { file: &'t str, mark: &'t str },
}

/// Reads the file with a page's rows.
fn rows(file: &str) -> Vec<DocumentedCommand<'_>> {
    let mut rows: Vec<DocumentedCommand<'_>> = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let Some(line) = line.strip_prefix("    ") else {
            let outcome = ExpectedOutcome::Exit { code: 0, output: "" };
            rows.push(DocumentedCommand { text: line, run: line, outcome });
            continue;
        };
        let row = rows.last_mut().expect("a command before its outcome");
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, last) = rest.split_once(' ').unwrap_or((rest, ""));
        row.outcome = match word {
            "as" => {
                row.run = rest;
                continue;
            }
            "at-terminal" => ExpectedOutcome::Terminal { key: first, end: last },
            "serves" => {
                ExpectedOutcome::Serving { status: first.parse().expect("a status"), answer: last }
            }
            "in" => ExpectedOutcome::Elsewhere { file: first, mark: last },
            code => {
                ExpectedOutcome::Exit { code: code.parse().expect("an exit code"), output: rest }
            }
        };
    }
    rows
}

impl DocumentedCommand<'_> {
    #[track_caller]
    fn check(&self, host: &Host, page: &str) {
        match self.outcome {
            ExpectedOutcome::Exit { code, output } => {
                let ran = Ran::from_command(&mut shell(host, self.run), b"").expect_code(code);
                let is_there = ran.stdout().contains(output) || ran.stderr().contains(output);
                assert!(is_there, "`{output}` is missing\n{ran}");
            }
            ExpectedOutcome::Terminal { key, end } => {
                let mut terminal = Terminal::start(&shell(host, self.run), 120, 40);
                let what = format!("the screen ends with `{end}`");
                terminal.wait_until(&what, |screen| screen.trim_end().ends_with(end));
                terminal.send(match key {
                    "ctrl-d" => "\x04",
                    "yes" => "y\r",
                    key => key,
                });
                assert!(terminal.wait().success(), "{}", terminal.screen());
            }
            ExpectedOutcome::Serving { status, answer } => {
                // The shell becomes the server, which the signal must reach.
                let mut server = shell(host, &format!("exec {}", self.run));
                let server = match status {
                    401 => Server::start(&mut server),
                    _ => Server::with_token(&mut server),
                };
                let answered = server.request("tools/list", json!({}));
                assert_eq!(answered.status, status, "{answered:?}");
                let body = answered.body.to_string();
                let is_there = answered.headers.contains(answer) || body.contains(answer);
                assert!(is_there, "`{answer}` is missing\n{answered:?}");
                server.end(Signal::TERM).expect_code(130);
            }
            ExpectedOutcome::Elsewhere { file, mark } => {
                let is_test = file.ends_with(".rs");
                let folder = if is_test { "tests/tests" } else { "" };
                let source = fs::read_to_string(paths::repository().join(folder).join(file));
                let source = source.expect(file);
                let page = page.rsplit('/').next().expect("a name");
                let function = format!("fn {mark}(");
                let marks = if is_test { [&*function, page] } else { [mark, self.text] };
                for mark in marks {
                    let is_there = source.contains(mark);
                    assert!(is_there, "`{}`: there is no `{mark}` in {file}", self.text);
                }
            }
        }
    }
}

/// Returns the shell of a user who has installed ikigai, and is in the workspace.
fn shell(host: &Host, command: &str) -> Command {
    let mut shell = host.command_of("sh");
    shell.args(["-c", command]);
    shell
}

/// Returns the host of a user who has everything that the pages start from: tools, files,
/// toolchains, a browser and the programs of MCP servers. `$REGISTRY` replaces `ghcr.io`.
fn host(server: &FakeServer, registry: &Fake) -> Host {
    // The sandbox replaces `/tmp`, so the home directory must be elsewhere.
    let host = Host::within(&paths::shown_scratch()).with_shared_cache();
    for name in ["db_query", "deploy", "formatter"] {
        host.script(name, "cat");
    }
    host.program("customer_db.wasm", printing(schema("customer_db"), Ending::Well));
    let peer = "#!/bin/sh\nexec ~/mcp/peer ~/mcp/peer.json\n";
    for (path, content, mode) in [
        ("home/toolchain/bin/cargo", "#!/bin/sh\n", 0o755),
        ("home/toolchain/bin/go", "#!/bin/sh\n", 0o755),
        ("home/toolchain/bin/node", "#!/bin/sh\n", 0o755),
        ("home/toolchain/bin/python", "#!/bin/sh\n", 0o755),
        ("home/toolchain/bin/rg", "#!/bin/sh\necho 'ripgrep 14.1.1'\n", 0o755),
        ("home/mcp/node_modules/.bin/mcp-server-filesystem", peer, 0o755),
        ("home/mcp/node_modules/.bin/playwright-mcp", peer, 0o755),
        ("home/mcp/peer.json", r#"{"tools":[{"name":"echo","does":"echo"}]}"#, 0o644),
        ("home/ceiling.toml", "[tools.\"*\"]\nnet = []\nsandbox = \"require\"\n", 0o644),
        ("home/.gitconfig", "", 0o644),
        ("workspace/.git/config", "", 0o644),
        ("workspace/src/main.c", "int main(void) { return 0; }\n", 0o644),
        ("workspace/notes.txt", "TODO: mend the roof\n", 0o644),
        ("workspace/list", "src/main.c\n", 0o644),
        ("workspace/calls.jsonl", "{}\n", 0o644),
    ] {
        host.write(path, content, mode);
    }
    fs::copy(paths::programs().join("mcp-peer"), host.home().join("mcp/peer")).expect("copied");
    for name in ["count-lines.wrap.toml", "disk-free", "open-questions"] {
        let file = paths::repository().join("tests/examples").join(name);
        fs::copy(file, host.workspace().join(name)).expect("copied");
    }
    for name in ["data", "notes", "out", "shots", "work"] {
        fs::create_dir(host.home().join(name)).expect("a directory");
    }
    let bin = host.scratch().join("bin");
    fs::create_dir(&bin).expect("a directory");
    symlink(paths::host(), bin.join("ikigai")).expect("linked");
    // ikigai would refuse the build itself, which has a hard link in another directory.
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    fs::copy(env!("CARGO_BIN_EXE_browser"), bin.join(opener)).expect("copied");
    let path = format!("{}:{}/toolchain/bin:/usr/bin:/bin", bin.display(), host.home().display());
    host.env("PATH", path)
        .env("API_KEY", "key-of-the-test")
        .env("CUSTOMER_DB", "key-of-the-test")
        .env("REGISTRY", registry.host())
        .env("ANTHROPIC_API_KEY", "key-of-the-test")
        .env("ANTHROPIC_BASE_URL", server.base_url())
        .env("IKIGAI_MODEL", "model-of-the-test")
        .env("IKIGAI_AUTO_SUMMARY", "off")
}

/// Compares the commands of a page with its rows, and runs the rows.
#[track_caller]
fn follow(page: &str) {
    let text = fs::read_to_string(paths::repository().join(page)).expect(page);
    let PageCommands { complete, names } = PageCommands::read(&text);
    let file = Path::new(page).with_extension("txt");
    let file = file.file_name().expect("a name").to_ascii_lowercase();
    let file = paths::repository().join("tests/tests/command_line/pages").join(file);
    // A page that has only names of commands has no file.
    let file = fs::read_to_string(file).unwrap_or_default();
    let rows = rows(&file);
    let listed: BTreeSet<&str> = rows.iter().map(|row| row.text).collect();
    let without: Vec<_> = complete.iter().filter(|it| !listed.contains(it.as_str())).collect();
    assert!(without.is_empty(), "{page}: commands without a row: {without:#?}");
    let is_shown = |text: &str| complete.contains(text) || names.contains(text);
    let stale: Vec<_> = listed.iter().filter(|text| !is_shown(text)).collect();
    assert!(stale.is_empty(), "{page} does not have these commands: {stale:#?}");
    if rows.iter().any(|row| row.run.contains("ssh-keygen"))
        && program("ssh-keygen", "IKIGAI_REQUIRE_SIGNERS").is_none()
    {
        return;
    }

    let server = FakeServer::with(Vendor::Anthropic, |_| Reply::answer().text("It is done."));
    let net = Net::new();
    let registry = net.registry();
    let host = host(&server, &registry);
    // `$DOCS` replaces `https://mcp.example.com/mcp`. Its issuer asks no person.
    let docs = json!({ "tools": [{ "name": "echo", "does": "echo" }], "http": { "oauth": {} } });
    let docs = HttpPeer::start(&host, &docs);
    let host = host.env("DOCS", &docs.url);
    for name in names.iter().filter(|name| !listed.contains(name.as_str())) {
        Ran::from_command(&mut shell(&host, &format!("{name} --help")), b"").expect_code(0);
    }
    for row in &rows {
        row.check(&host, page);
    }
    drop(docs);
    host.assert_nothing_left();
}

#[test]
fn every_guide_is_followed() {
    let guides = fs::read_dir(paths::repository().join("docs/guides")).expect("the guides");
    for guide in guides {
        let name = guide.expect("a guide").file_name();
        let page = format!("docs/guides/{}", name.display());
        assert!(PAGES.contains(&page.as_str()), "{page}");
    }
}

#[test]
fn the_commands_of_a_page_are_found() {
    let page = "`ikigai\ntool list` `tool` `ikigai tool list --all`\n\n1. one\n\n\
                \x20  ```sh\n   ikigai a \\\n       b    # c\n   npm x\n   K=v ikigai c\n   ```\n\n\
                ```json\nikigai d\n```\n\n```console\n$ echo | ikigai e\nikigai\n```\n";
    let set = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let complete = ["K=v ikigai c", "echo | ikigai e", "ikigai a b", "ikigai tool list --all"];
    let complete = set(&complete);
    let names = set(&["ikigai tool list"]);
    assert_eq!(PageCommands::read(page), PageCommands { complete, names });
}
