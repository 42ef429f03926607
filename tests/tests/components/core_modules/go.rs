//! A program of Go. Since version 1.24, its allocator believes that all memory above its data is
//! its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ikigai_tests::host::Host;
use ikigai_tests::{left_out, paths};
use serde_json::json;

/// Returns the Go that `cargo xtask test` installs.
fn go() -> Option<PathBuf> {
    let go = paths::toolchains().join("bin/go");
    if go.is_file() { Some(go) } else { left_out("a program of Go", "Go") }
}

#[test]
fn a_program_of_go_writes_reads_lists_sleeps_and_has_a_large_heap() {
    let Some(go) = go() else { return };
    let host = Host::without_system_tools();
    let source = host.write("source/main.go", include_str!("program.go"), 0o644);
    host.write("source/go.mod", "module example.test/tool\n\ngo 1.21\n", 0o644);
    let file = host.user_tools().join("go.wasm");
    fs::create_dir_all(host.user_tools()).expect("made");
    let mut build = Command::new(&go);
    build.args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(&file).arg(".");
    build.current_dir(source.parent().expect("a directory"));
    build.env("GOOS", "wasip1").env("GOARCH", "wasm").env("GOTOOLCHAIN", "local");
    build.env("GOCACHE", paths::shared_scratch().join("go"));
    let built = build.output().expect("started");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    host.write("workspace/a", "1", 0o644);
    host.write("workspace/dir/b", "2", 0o644);
    host.run(["policy", "grant", "go", "--write", "."]).expect_code(0);
    let text = "x".repeat(5 << 20);
    let arguments = json!({ "text": text }).to_string();
    let ran = host.run_with(["tool", "call", "--memory", "1GiB", "go", "-"], arguments.as_bytes());
    let result = ran.expect_code(0).json()["result"].clone();
    let expected = json!({
        "input": arguments.len(),
        "heap": 300,
        "names": ["a", "dir"],
        "slept": 100,
        "written": "<nil>",
        "outside": true,
    });
    assert_eq!(result, expected);
    assert_eq!(fs::read(host.workspace().join("written")).expect("a file"), b"w");
    host.assert_nothing_left();
}
