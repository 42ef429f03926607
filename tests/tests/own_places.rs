//! The host's own directories are not writable by a tool: one that could write there could install
//! a tool that runs with its user's rights.

use std::fs;
use std::os::unix::fs::symlink;

use ikigai_tests::host::{Host, Ran};
use serde_json::json;

fn write(host: &Host, flags: &[&str], path: &str) -> Ran {
    let arguments = json!({"file_path": path, "content": "#!/bin/sh\nid\n"}).to_string();
    host.run([flags, &["tool", "call", "file_write", &arguments]].concat()).expect_code(0)
}

#[test]
fn a_tool_cannot_install_a_tool() {
    let host = Host::new();
    let tool = host.script("hello", "echo '{}'");
    let before = fs::read(&tool).expect("readable");
    // All directories of this host are below its scratch directory, as a user's are below the home
    // directory.
    let home = host.scratch().to_str().expect("UTF-8").to_owned();
    for backend in ["wasm", "native"] {
        let flags = ["--workspace", &home, "--backend", backend];
        for path in ["user-tools/hello", "user-tools/another", "cache/ikigai/index.json", "free"] {
            let ran = write(&host, &flags, path);
            assert_eq!(ran.json()["result"]["error_code"], "PERMISSION_DENIED", "{path}\n{ran}");
            assert_eq!(ran.stderr().matches("--workspace").count(), 1, "said once\n{ran}");
        }
        // A workspace below it, without directories of the host, is writable.
        let ran = write(&host, &["--backend", backend], "free");
        assert!(ran.json()["result"]["bytes"].is_number() && ran.stderr().is_empty(), "{ran}");
    }
    assert_eq!(fs::read(&tool).expect("readable"), before);
    assert!(!host.user_tools().join("another").exists());
}

#[test]
fn a_tool_that_other_tools_could_replace_does_not_run_with_all_rights() {
    let host = Host::new();
    let real = host.script("hello", "echo '{\"said\":1}'");
    let replaceable = host.workspace().join("hello");
    fs::rename(&real, &replaceable).expect("moved");
    symlink(&replaceable, &real).expect("a link");
    let ran = host.run(["tool", "call", "hello"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
    assert!(ran.stdout().contains("ikigai policy grant hello"), "{ran}");
    // A grant binds it to its content, so that it runs until another tool replaces it.
    host.run(["policy", "grant", "hello", "--yes"]).expect_code(0);
    let ran = host.run(["tool", "call", "hello"]).expect_code(0);
    assert_eq!(ran.json()["result"]["said"], 1, "{ran}");
    let text = fs::read_to_string(&replaceable).expect("readable").replace("said", "lied");
    let arguments = json!({"file_path": "hello", "content": text}).to_string();
    host.run(["tool", "call", "file_write", &arguments]).expect_code(0);
    let ran = host.run(["tool", "call", "hello"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
}
