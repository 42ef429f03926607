//! Servers by other authors, from npm and PyPI, in the sandbox. They work on granted files, and
//! cannot read anything else, although their arguments allow it.

use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::{impossible_here, left_out, paths};
use serde_json::{Value, json};

/// Returns the program of a server, if it is installed.
fn installed(program: PathBuf) -> Option<PathBuf> {
    if program.exists() {
        return Some(program);
    }
    left_out("servers of other authors", &program.display().to_string())
}

/// Adds a server that may read these directories.
fn add(host: &Host, name: &str, dirs: &[&Path], command: &[&Path]) {
    let text = |path: &&Path| path.display().to_string();
    let mut args = vec!["mcp".to_owned(), "add".to_owned(), name.to_owned(), "--yes".to_owned()];
    for dir in dirs {
        args.extend(["--read".to_owned(), text(dir)]);
    }
    args.push("--".to_owned());
    args.extend(command.iter().map(text));
    host.run(args).expect_code(0);
}

/// Calls a tool, and returns whether it failed, and its text.
fn call(host: &Host, tool: &str, arguments: &Value) -> (bool, String) {
    let envelope = host.run(["tool", "call", tool, &arguments.to_string()]).json();
    (envelope["result"]["isError"] == true, crate::servers::text(&envelope).to_owned())
}

#[test]
fn the_server_for_files_of_npm_reads_only_what_it_was_granted() {
    let modules = paths::mcp_node();
    let program = modules.join("node_modules/.bin/mcp-server-filesystem");
    let Some(program) = installed(program) else { return };
    let host = Host::without_system_tools();
    let note = host.write("workspace/notes/roof.txt", "tiles", 0o644);
    let secret = host.write("home/secret.txt", "a secret", 0o644);
    let notes = host.workspace().join("notes");
    // The server's arguments let it serve everything, so only the sandbox prevents it.
    add(&host, "files", &[&notes, &modules], &[&program, host.scratch()]);
    let read = |path: &Path| call(&host, "files__read_text_file", &json!({ "path": path }));
    assert_eq!(read(&note), (false, "tiles".to_owned()));
    let (failed, said) = read(&secret);
    assert!(failed && said.contains("ENOENT"), "{said}");
    let written = notes.join("new.txt");
    let arguments = json!({ "path": written, "content": "x" });
    let (failed, said) = call(&host, "files__write_file", &arguments);
    assert!(failed && !written.exists(), "{said}");
    host.run(["mcp", "remove", "files", "--yes"]).expect_code(0);
    // With a wider grant, the same call succeeds.
    let home = host.home();
    add(&host, "files", &[&notes, &modules, &home], &[&program, host.scratch()]);
    assert_eq!(read(&secret), (false, "a secret".to_owned()));
    host.assert_nothing_left();
}

/// Opens a page until it is served, takes a screenshot of it, and returns its heading.
const LOOK: &str = r"async (page) => {
    for (;;) {
        try { await page.goto('http://127.0.0.1:8000/'); break; }
        catch (error) { await page.waitForTimeout(50); }
    }
    await page.screenshot({ path: 'PICTURE' });
    return await page.textContent('h1');
}";

#[test]
fn the_browser_of_npm_takes_a_screenshot_of_a_page_on_its_own_loopback() {
    let modules = paths::mcp_node();
    let Some(program) = installed(modules.join("node_modules/.bin/playwright-mcp")) else { return };
    // The start script in `PATH` would read a directory of `/etc`, so the program is started
    // directly.
    let Some(chromium) = installed("/usr/lib/chromium/chromium".into()) else { return };
    let host = Host::without_system_tools();
    if !counts_memory(&host) {
        impossible_here("a browser in the sandbox, without a control group that counts its memory");
        return;
    }
    let shots = host.workspace().join("shots");
    std::fs::create_dir(&shots).expect("made");
    let page = r#"require("http").createServer((_, page) => page.end("<h1>its own</h1>"))"#;
    let script = format!(
        "#!/bin/sh\nnode -e '{page}.listen(8000, \"127.0.0.1\")' &\nexec {} --headless --no-sandbox \
         --isolated --executable-path {} --output-dir {}\n",
        program.display(),
        chromium.display(),
        shots.display(),
    );
    let script = host.write("home/mcp/browse", script, 0o755);
    let [modules, written, script] =
        [&modules, &shots, &script].map(|path| path.display().to_string());
    let grant = ["--yes", "--read", &modules, "--write", &written, "--", &script];
    host.run(["mcp", "add", "browser"].into_iter().chain(grant)).expect_code(0);
    let picture = shots.join("picture.png");
    let look = LOOK.replace("PICTURE", &picture.display().to_string());
    let (failed, said) = call(&host, "browser__browser_run_code_unsafe", &json!({ "code": look }));
    assert!(!failed && said.contains("its own"), "{said}");
    assert!(std::fs::read(&picture).expect("a picture").starts_with(b"\x89PNG"));
    host.assert_nothing_left();
}

/// Returns whether a control group counts a call's memory. Without that, a call has no sockets.
fn counts_memory(host: &Host) -> bool {
    let doctor = host.run(["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().expect("a list");
    checks.iter().any(|it| it["what"] == "cgroup: memory" && it["status"] == "ok")
}

#[test]
fn the_server_for_repositories_of_pypi_reads_only_what_it_was_granted() {
    let environment = paths::mcp_clients();
    let Some(program) = installed(environment.join("bin/mcp-server-git")) else { return };
    let host = Host::without_system_tools();
    for place in ["workspace/mine", "home/private"] {
        let file = host.write(format!("{place}/file"), "text", 0o644);
        let dir = file.parent().expect("a directory");
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            let author = ["-c", "user.name=n", "-c", "user.email=n@example.org"];
            command.current_dir(dir).env("HOME", host.home()).args(author).args(args);
            Ran::from_command(&mut command, b"").expect_code(0);
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-qm", "words of the commit"]);
    }
    // The interpreter's own library, which an environment only refers to, must be granted as well.
    let script = "import sys; print(sys.base_prefix)";
    let mut python = Command::new(environment.join("bin/python"));
    let base = Ran::from_command(python.args(["-c", script]), b"").expect_code(0).stdout();
    let (mine, base) = (host.workspace().join("mine"), PathBuf::from(base.trim()));
    add(&host, "git", &[&mine, &environment, &base], &[&program]);
    let log = |dir: PathBuf| call(&host, "git__git_log", &json!({ "repo_path": dir }));
    let (failed, said) = log(mine.clone());
    assert!(!failed && said.contains("words of the commit"), "{said}");
    let (failed, said) = log(host.home().join("private"));
    assert!(failed && !said.contains("words of the commit"), "{said}");
    host.assert_nothing_left();
}
