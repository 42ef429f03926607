//! The templates with the compiler of each language: begun, built, tested, checked and called.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use ikigai_tests::host::Host;
use ikigai_tests::{left_out, paths};
use serde_json::json;

use crate::writing_tools::ConsoleBlock;

/// Returns a host whose user has this machine's compilers. Their results are kept for the next run
/// of the tests.
fn host() -> Host {
    let own = |variable: &str, directory: &str| {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        std::env::var_os(variable).unwrap_or_else(|| home.join(directory).into())
    };
    let kept = paths::shared_scratch();
    let mut host = Host::new()
        .with_shared_cache()
        .env("PATH", path())
        .env("CARGO_HOME", own("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"))
        .env("GOCACHE", kept.join("go"))
        .env("ZIG_GLOBAL_CACHE_DIR", kept.join("zig"));
    if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
        host = host.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    host
}

/// Returns a `PATH` with the compilers that `cargo xtask test` installs.
fn path() -> OsString {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let all = [paths::toolchains().join("bin")].into_iter().chain(std::env::split_paths(&own));
    std::env::join_paths(all).expect("a PATH")
}

/// Begins a project in a language, then builds, tests, checks and calls it. `prepare` puts earlier
/// compiled or installed files into the project.
fn follow(language: &str, prepare: impl FnOnce(&Path)) {
    follow_with(&["--lang", language], prepare);
}

/// Does the same with these flags, which choose the template. Returns the host, which has the tool.
fn follow_with(flags: &[&str], prepare: impl FnOnce(&Path)) -> Host {
    let host = host();
    host.run([&["tool", "new", "count_all"], flags].concat()).expect_code(0);
    let project = host.workspace().join("count_all");
    prepare(&project);
    let built = host.run(["tool", "build", "count_all", "--json"]).expect_code(0);
    for finding in built.json()["findings"].as_array().expect("a list") {
        assert_eq!(finding["verdict"], json!("ok"), "{built}");
    }
    let tested = host.run(["tool", "test", "count_all"]).expect_code(0);
    assert!(tested.stdout().ends_with("10 passed, 0 failed\n"), "{tested}");
    let file = project.join("dist/count_all.wasm");
    fs::copy(file, host.user_tools().join("count_all.wasm")).expect("copied");
    let called = host.run(["tool", "call", "count_all", "{\"text\":\"one two\"}"]).expect_code(0);
    assert_eq!(called.json()["result"], json!({"lines": 1, "words": 2}), "{called}");
    host
}

/// Calls the tool with a text of 21 MB, and a memory limit that such a text exceeds.
fn counts_more_than_it_may_hold(host: &Host, memory: &str) {
    const LINES: usize = 600_000;
    let text = "naïve \"quoted\" 😀, and the rest\n".repeat(LINES);
    let arguments = json!({ "text": text }).to_string();
    let call = ["tool", "call", "--memory", memory, "--timeout", "5m", "count_all", "-"];
    let called = host.run_with(call, arguments.as_bytes()).expect_code(0);
    assert_eq!(called.json()["result"], json!({"lines": LINES, "words": 6 * LINES}), "{called}");
    let shown = host.run(["tool", "list", "--json"]).expect_code(0).json();
    let tools = shown["tools"].as_array().expect("a list");
    let tool = tools.iter().find(|tool| tool["name"] == "count_all").expect("the tool");
    assert_eq!(tool["wasi"], json!(["0.2", "0.3"]), "{tool}");
}

/// Returns a file that `cargo xtask test` installed, or `None` if the language is missing.
fn installed(file: PathBuf, what: &str, language: &str) -> Option<PathBuf> {
    if file.is_file() { Some(file) } else { left_out(what, language) }
}

#[test]
fn a_project_in_rust() {
    let example = paths::built_examples().join("rust-component/text-count.wasm");
    if installed(example, "a project in Rust", "wasm32-wasip2").is_none() {
        return;
    }
    follow("rust", |project| {
        let target = paths::shared_scratch().join("project-in-rust");
        fs::create_dir_all(&target).expect("made");
        symlink(target, project.join("target")).expect("linked");
    });
}

#[test]
fn a_project_in_rust_of_wasi_0_3() {
    let example = paths::built_examples().join("rust-component/text-count.wasm");
    if installed(example, "a project in Rust of WASI 0.3", "wasm32-wasip2").is_none() {
        return;
    }
    let host = follow_with(&["--lang", "rust", "--wasi", "0.3"], |project| {
        let target = paths::shared_scratch().join("project-in-rust-0.3");
        fs::create_dir_all(&target).expect("made");
        symlink(target, project.join("target")).expect("linked");
    });
    counts_more_than_it_may_hold(&host, "4MiB");
}

#[test]
fn a_project_in_python() {
    let environment = paths::built_examples().join("python-component/.venv");
    let program = environment.join("bin/componentize-py");
    if installed(program, "a project in Python", "python3").is_none() {
        return;
    }
    follow("python", |project| symlink(environment, project.join(".venv")).expect("linked"));
}

#[test]
fn a_project_in_python_of_wasi_0_3() {
    let environment = paths::built_examples().join("python-component/.venv");
    let program = environment.join("bin/componentize-py");
    if installed(program, "a project in Python of WASI 0.3", "python3").is_none() {
        return;
    }
    let host = follow_with(&["--lang", "python", "--wasi", "0.3"], |project| {
        symlink(environment, project.join(".venv")).expect("linked");
    });
    counts_more_than_it_may_hold(&host, "32MiB");
}

#[test]
fn a_project_in_javascript() {
    let modules = paths::built_examples().join("javascript-component/node_modules");
    let program = modules.join(".bin/componentize-js");
    if installed(program, "a project in JavaScript", "npm").is_none() {
        return;
    }
    follow("js", |project| symlink(modules, project.join("node_modules")).expect("linked"));
}

#[test]
fn a_project_in_c() {
    let zig = paths::toolchains().join("bin/python-zig");
    if installed(zig, "a project in C", "Zig").is_none() {
        return;
    }
    follow("c", |_| {});
}

#[test]
fn a_project_in_shell() {
    follow("shell", |_| {});
}

/// The page begins with a project in Go.
#[test]
fn the_first_commands_of_the_page_lead_to_a_call() {
    let go = paths::toolchains().join("bin/go");
    if installed(go, "a project in Go", "Go").is_none() {
        return;
    }
    let page = fs::read_to_string(paths::repository().join("docs/guides/write-a-tool.md"));
    let page = page.expect("docs/guides/write-a-tool.md");
    let block = ConsoleBlock::find(&page, "ikigai tool new ");
    assert!(block.commands.len() <= 6, "{:?}", block.commands);
    let ran = block.run(&host(), &path());
    assert!(ran.stdout().contains("10 passed, 0 failed\n"), "{ran}");
}
