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
    let host = host();
    host.run(["tool", "new", "count_all", "--lang", language]).expect_code(0);
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
fn a_project_in_python() {
    let environment = paths::built_examples().join("python-component/.venv");
    let program = environment.join("bin/componentize-py");
    if installed(program, "a project in Python", "python3").is_none() {
        return;
    }
    follow("python", |project| symlink(environment, project.join(".venv")).expect("linked"));
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
