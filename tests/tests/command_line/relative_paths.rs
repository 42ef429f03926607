//! Relative paths, which start from the workspace, even if other directories are granted. `policy
//! test` and calls agree on them.

use std::fs;

use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

const TOOLS: [&str; 4] = ["file_read", "glob", "grep", "bash"];

/// Returns a host with `a.txt` and `docs/b.txt` in its workspace, and with `beside/c.txt` next to
/// the workspace. Each tool may read everything below `granted`.
fn host(granted: &str) -> Host {
    let host = Host::new();
    for path in ["workspace/a.txt", "workspace/docs/b.txt", "beside/c.txt"] {
        host.write(path, "needle\n", 0o644);
    }
    for tool in TOOLS {
        let grant = ["policy", "grant", tool, "--replace", "--read", granted];
        let ran = host.run(grant).expect_code(0);
        let workspace = host.workspace().canonicalize().expect("a path");
        let warning = format!("`{tool}` can then no longer read {}", workspace.display());
        let is_less = matches!(granted, "docs" | "../beside") && tool != "bash";
        assert_eq!(ran.stderr().contains(&warning), is_less, "{granted}: {ran}");
    }
    host
}

fn call(host: &Host, backend: &str, tool: &str, arguments: &Value) -> Ran {
    let arguments = arguments.to_string();
    host.run(["tool", "call", "--backend", backend, tool, &arguments])
}

#[test]
fn they_lead_where_policy_says() {
    for granted in ["docs", ".", "..", "/"] {
        let host = host(granted);
        for backend in ["native", "wasm"] {
            for path in ["a.txt", "docs/b.txt", "./docs/./b.txt", "../beside/c.txt"] {
                // The test is below `/tmp`, and the sandbox has its own `/tmp`.
                if (granted, backend) == ("/", "native") && path.starts_with("..") {
                    continue;
                }
                let said = format!("{granted} is granted, {backend}, {path}");
                let allowed = host.run(["policy", "test", "file_read", "--read", path]);
                let allowed = allowed.code() == Some(0);
                let ran = call(&host, backend, "file_read", &json!({ "file_path": path }));
                let read = ran.json()["result"]["output"] == "needle\n";
                assert_eq!(read, allowed, "{said}: {ran}");
                let command = format!("cat {path}");
                let ran = call(&host, backend, "bash", &json!({ "command": command }));
                let read = ran.json()["result"]["output"] == "needle";
                assert_eq!(read, allowed, "{said}, bash: {ran}");
            }
        }
    }
}

#[test]
fn they_lead_to_a_directory_that_is_granted_beside_the_workspace() {
    let host = host(".");
    host.write("other.txt", "needle\n", 0o644);
    host.run(["policy", "grant", "file_read", "--read", "../beside"]).expect_code(0);
    for (path, code) in [("../beside/c.txt", 0), ("./..//beside/c.txt", 0), ("../other.txt", 1)] {
        host.run(["policy", "test", "file_read", "--read", path]).expect_code(code);
        for backend in ["native", "wasm"] {
            let ran = call(&host, backend, "file_read", &json!({ "file_path": path }));
            let is_read = ran.json()["result"]["output"] == "needle\n";
            assert_eq!(is_read, code == 0, "{backend}, {path}: {ran}");
        }
    }
}

#[test]
fn a_search_of_the_workspace_finds_what_is_granted_of_it() {
    for (granted, found) in [
        ("docs", &["docs/b.txt"][..]),
        (".", &["a.txt", "docs/b.txt"]),
        ("..", &["a.txt", "docs/b.txt"]),
        ("/", &["a.txt", "docs/b.txt"]),
    ] {
        let host = host(granted);
        for backend in ["native", "wasm"] {
            let ran = call(&host, backend, "glob", &json!({ "pattern": "**/*.txt" }));
            let mut names = lines(&ran);
            names.sort_unstable();
            assert_eq!(names, found, "{granted} is granted, {backend}: {ran}");
            let ran =
                call(&host, backend, "grep", &json!({ "pattern": "needle", "glob": "**/*.txt" }));
            assert_eq!(lines(&ran).len(), found.len(), "{granted}, {backend}: {ran}");
            let ran = call(&host, backend, "grep", &json!({ "pattern": "needle", "path": "docs" }));
            assert_eq!(lines(&ran).len(), 1, "{granted} is granted, {backend}: {ran}");
        }
    }
}

#[test]
fn a_search_of_a_workspace_of_which_nothing_is_granted_is_refused() {
    let host = host("../beside");
    for backend in ["native", "wasm"] {
        for (tool, arguments) in [
            ("glob", json!({ "pattern": "*.txt" })),
            ("glob", json!({ "pattern": "**/*.txt" })),
            ("glob", json!({ "pattern": "docs/*.txt" })),
            ("grep", json!({ "pattern": "needle" })),
        ] {
            let ran = call(&host, backend, tool, &arguments);
            assert_eq!(ran.json()["result"]["error_code"], "PERMISSION_DENIED", "{backend}: {ran}");
        }
    }
}

#[test]
fn a_shell_starts_in_the_workspace() {
    for granted in ["docs", ".", "..", "/"] {
        let host = host(granted);
        for backend in ["native", "wasm"] {
            let ran = call(&host, backend, "bash", &json!({ "command": "pwd; ls docs" }));
            let pwd = host.workspace().canonicalize().expect("a path");
            let expected = [pwd.to_str().expect("UTF-8"), "b.txt"];
            assert_eq!(lines(&ran), expected, "{granted} is granted, {backend}: {ran}");
        }
    }
}

#[test]
fn what_is_answered_to_be_written_is_there_after_the_call() {
    let host = Host::new();
    // The file is usually below `/tmp`, and the sandbox has its own `/tmp`.
    let file = host.write("beside/file.txt", "", 0o644);
    let dir = file.parent().and_then(|dir| dir.to_str()).expect("UTF-8");
    let arguments = json!({ "file_path": file, "content": "kept" });
    let content = || fs::read_to_string(&file).expect("a file");
    for backend in ["native", "wasm"] {
        let ran = call(&host, backend, "file_write", &arguments);
        assert_eq!(ran.json()["result"]["error_code"], "PERMISSION_DENIED", "{backend}: {ran}");
        assert_eq!(content(), "", "{backend}");
    }
    host.run(["policy", "grant", "file_write", "--write", dir]).expect_code(0);
    for backend in ["native", "wasm"] {
        let ran = call(&host, backend, "file_write", &arguments);
        assert_eq!(ran.json()["result"]["bytes"], 4, "{backend}: {ran}");
        assert_eq!(content(), "kept", "{backend}: {ran}");
        fs::write(&file, "").expect("written");
    }
}

fn lines(ran: &Ran) -> Vec<String> {
    let json = ran.json();
    let output = json["result"]["output"].as_str().unwrap_or_else(|| panic!("{ran}"));
    output.lines().map(ToOwned::to_owned).collect()
}
