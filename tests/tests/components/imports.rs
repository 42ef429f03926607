//! The imports of each built-in component. A new line here is a new capability, which needs a
//! review, so these lists are not generated.

use ikigai_tests::host::Host;
use serde_json::Value;

/// The imports of Rust's standard library and its streams, which every tool has.
const STANDARD: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/wall-clock",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
];

/// The imports of tools that use files below preopened directories.
const FILES: &[&str] = &["wasi:filesystem/preopens", "wasi:filesystem/types"];

#[test]
fn components_import_what_they_need_and_no_more() {
    let expected = [
        // The shell tells the time, sleeps, and draws random numbers.
        (
            "bash",
            &["wasi:clocks/monotonic-clock", "wasi:random/insecure-seed", "wasi:random/random"][..],
        ),
        // The host replaces files for the tool, inside a directory that the tool has opened.
        ("file_edit", &["ikigai:tool/assets", "ikigai:tool/workspace"]),
        ("file_read", &["ikigai:tool/assets"]),
        ("file_write", &["ikigai:tool/assets"]),
        ("glob", &[]),
        // The import provides the seeds of hash maps in the regular expression engine.
        ("grep", &["wasi:random/insecure-seed"]),
    ];
    let host = Host::new().with_shared_cache();
    for (tool, own) in expected {
        let mut allowed: Vec<&str> = [STANDARD, FILES, own].concat();
        allowed.sort_unstable();
        assert_eq!(imports(&host, tool), allowed, "imports of `{tool}`");
    }
}

/// Returns the interfaces that a tool imports, without their versions, sorted.
fn imports(host: &Host, tool: &str) -> Vec<String> {
    let shown =
        host.run(["tool", "show", tool, "--json", "--backend", "wasm"]).expect_code(0).json();
    let imports = shown["imports"].as_array().expect("a list of imports");
    let name = |import: &Value| {
        let import = import.as_str().expect("a name");
        import.split('@').next().unwrap_or(import).to_owned()
    };
    let mut names: Vec<String> = imports.iter().map(name).collect();
    names.sort_unstable();
    names
}
