//! Programs with setuid or setgid. They lose the bits when a tool rewrites them, so that the new
//! content does not get the old content's rights.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use ikigai_tests::host::Host;
use ikigai_tests::mode::permit;
use serde_json::{Value, json};

const SET_ID: u32 = 0o6000;

/// Creates a program with setuid and setgid in the workspace.
fn program(host: &Host, name: &str) -> PathBuf {
    let path = host.workspace().join(name);
    fs::write(&path, "the old text\n").expect("written");
    if host.runs_as_nobody() {
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("given away");
    }
    // A change of the owner clears the bits, so it comes first.
    permit(&path, 0o6755);
    path
}

#[track_caller]
fn assert_lost(path: &Path, what: &str) {
    let mode = fs::metadata(path).expect("there").permissions().mode();
    assert_eq!(mode & SET_ID, 0, "{what} left {mode:o}");
    let text = fs::read_to_string(path).expect("read");
    assert_ne!(text, "the old text\n", "{what} wrote nothing");
}

/// Returns a host that runs as root, for whom the kernel keeps the bits, and a host of another
/// user.
fn hosts() -> [Host; 2] {
    [Host::new().with_shared_cache(), Host::new().with_tools_for_all().as_nobody()]
}

#[test]
fn a_tool_that_rewrites_a_program_takes_setuid_and_setgid_away() {
    for host in hosts() {
        for backend in ["wasm", "native"] {
            let call = |tool: &str, arguments: Value| {
                let arguments = arguments.to_string();
                let ran = host.run(["--backend", backend, "tool", "call", tool, &arguments]);
                let ran = ran.expect_code(0);
                assert_eq!(ran.json()["tool_success"], true, "{ran}");
            };
            let path = program(&host, "written");
            call("file_write", json!({"file_path": path, "content": "new\n"}));
            assert_lost(&path, &format!("file_write, {backend}"));
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o755, "what else it may stays");

            let path = program(&host, "edited");
            call("file_edit", json!({"file_path": path, "old_string": "old", "new_string": "new"}));
            assert_lost(&path, &format!("file_edit, {backend}"));

            let path = program(&host, "linked");
            let link = host.workspace().join("link");
            // The link may exist from the previous round.
            let _ = fs::remove_file(&link);
            symlink("linked", &link).expect("linked");
            call("file_edit", json!({"file_path": link, "old_string": "old", "new_string": "new"}));
            assert_lost(&path, &format!("file_edit through a link, {backend}"));
        }
    }
}

#[test]
fn a_shell_that_rewrites_a_program_takes_setuid_and_setgid_away() {
    let commands = [
        "echo new > it",
        "echo new >> it",
        "echo new | tee it",
        "echo new | tee -a it",
        "echo new > other; cp other it",
        "sed -i s/old/new/ it",
        "echo new | dd of=it conv=notrunc",
        "truncate -s 3 it",
        "echo new 1<> it",
    ];
    for host in hosts() {
        for backend in ["wasm", "native"] {
            let mut rewritten = 0;
            for command in commands {
                let path = program(&host, "it");
                let arguments = json!({"command": command}).to_string();
                let ran = host.run(["--backend", backend, "tool", "call", "bash", &arguments]);
                let text = fs::read_to_string(&path).expect("read");
                if text == "the old text\n" {
                    // This shell may lack the command.
                    assert!(ran.stdout().contains("exit_code"), "{command}: {ran}");
                    continue;
                }
                rewritten += 1;
                assert_lost(&path, &format!("`{command}`, {backend}"));
            }
            assert!(rewritten >= 4, "{backend} rewrote only {rewritten}");
        }
    }
}
