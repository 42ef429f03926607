//! Command-line programs that a definition turns into tools, natively and as core modules.

use std::fs;
use std::path::PathBuf;

use ikigai_tests::core_module;
use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

/// A program that prints its arguments, one per line, and its stdin.
const SHOWING: &str = "#!/bin/sh\nfor word; do echo \"[$word]\"; done\ncat\nexit ${1#--exit=}\n";

/// Returns a host with a program that is not among the tools.
fn host(program: &str) -> (Host, PathBuf) {
    let host = Host::without_system_tools();
    let path = host.write("programs/show", program, 0o755);
    (host, path)
}

#[track_caller]
fn call(host: &Host, name: &str, arguments: &Value) -> Value {
    let ran = host.run(["tool", "call", name, &arguments.to_string()]).expect_code(0);
    ran.json()["result"].clone()
}

fn new(host: &Host, args: &[&str]) -> Ran {
    host.run([&["tool", "new"], args].concat())
}

/// Returns the text of a definition for a program.
fn definition(program: &str, rest: &str) -> String {
    format!("description = \"A tool\"\nprogram = {program:?}\n{rest}\n")
}

#[test]
fn a_wrapped_program_can_be_called_at_once() {
    let (host, _) = host("");
    let made = new(&host, &["my_echo", "--wrap", "echo"]).expect_code(0);
    let first = made
        .stdout()
        .lines()
        .find(|it| it.contains("tool call"))
        .expect("a call")
        .trim()
        .to_owned();
    assert_eq!(first, "ikigai tool call my_echo '{\"args\": [\"--version\"]}'");
    let last = "policy grant my_echo   # with --read, --write or --net: for access beyond the \
                workspace\n";
    assert!(made.stdout().ends_with(last), "{made}");
    let arguments = json!({ "args": ["a  b", "$(id)", "*", "-x", "'"] });
    assert_eq!(
        call(&host, "my_echo", &arguments),
        json!({ "output": "a  b $(id) * -x '\n", "exit_code": 0 })
    );
    let path = host.user_tools().join("my_echo.wrap.toml");
    let path = path.to_str().expect("UTF-8");
    let checked = host.run(["tool", "check", path]).expect_code(0).stdout();
    assert!(
        !checked.contains("warn") && checked.contains("a definition, whose program"),
        "{checked}"
    );
    let shown = host.run(["tool", "show", "my_echo", "--json"]).expect_code(0).json();
    assert!(shown["wraps"].as_str().is_some_and(|it| it.ends_with("/echo")), "{shown}");
    assert_eq!((&shown["backend"], &shown["sandbox"]), (&json!("native"), &json!("sandboxed")));
    host.write("workspace/7z", SHOWING, 0o755);
    // The command replaces neither a definition nor another tool.
    let again = new(&host, &["my_echo", "--wrap", "echo"]).expect_code(2);
    assert!(again.stderr().contains("there is already a tool `my_echo`"), "{again}");
    for (args, expected) in [
        (&["--wrap", "no-such-program"][..], "there is no program `no-such-program`"),
        (&["1x", "--wrap", "echo"], "`1x` is not a valid tool name"),
        (&["--wrap", "echo", "--lang", "c"], "cannot be used with"),
        (&["--wrap", "./7z"], "name the tool: `ikigai tool new NAME --wrap PROGRAM`"),
    ] {
        let ran = new(&host, args).expect_code(2);
        assert!(ran.stderr().contains(expected), "{ran}");
    }
    let elsewhere = new(&host, &["--wrap", "echo", "--dir", "d", "--json"]).expect_code(0).json();
    assert_eq!((&elsewhere["name"], &elsewhere["backend"]), (&json!("echo"), &json!("native")));
    assert!(host.workspace().join("d/echo.wrap.toml").is_file());
    let installed = host.run(["tool", "install", "d/echo.wrap.toml", "--yes"]).expect_code(1);
    assert!(installed.stderr().contains("cannot be installed"), "{installed}");
    let removed = host.run(["tool", "remove", "my_echo", "--yes"]).expect_code(1);
    assert!(removed.stderr().contains(&format!("`rm {path}` removes the tool\n")), "{removed}");
}

#[test]
fn a_definition_says_which_words_a_program_gets() {
    let (host, program) = host(SHOWING);
    let text = definition(
        program.to_str().expect("UTF-8"),
        r#"args = ["--exit={code}", ["--max", "{max}"], { if = "deep", then = ["-r"] }, ["-e", "{names}"], "--", "{path}"]
stdin = "text"
success = [0, 3]

[parameters]
code = { type = "integer", required = true }
path = { type = "string", required = true, pattern = "^[^/]" }
max = { type = "number" }
deep = { type = "boolean" }
names = { type = "array", items = { type = "string" } }
text = { type = "string" }"#,
    );
    host.write("user-tools/show.wrap.toml", text, 0o644);
    let arguments = json!({
        "code": 3, "path": "-p", "max": 1.50, "deep": true, "names": ["a b", "$c"], "text": "in",
    });
    assert_eq!(
        call(&host, "show", &arguments),
        json!({
            "output": "[--exit=3]\n[--max]\n[1.5]\n[-r]\n[-e]\n[a b]\n[-e]\n[$c]\n[--]\n[-p]\nin",
            "exit_code": 3,
        })
    );
    let failed = call(&host, "show", &json!({ "code": 4, "path": "p" }));
    assert_eq!(failed["error_code"], "PROGRAM_FAILED", "{failed}");
    assert_eq!(failed["output"], "[--exit=4]\n[--]\n[p]\n", "{failed}");
    for (arguments, expected) in [
        (json!({ "code": 0 }), "\"path\" is a required property"),
        (json!({ "code": "0", "path": "p" }), "`/code`"),
        (json!({ "code": 0, "path": "/etc" }), "`/path`"),
        (json!({ "code": 0, "path": "a\0" }), "`path` has a NUL"),
        (json!({ "code": 0, "path": "p", "names": ["-x"] }), "`names` must not begin with `-`"),
    ] {
        let answer = call(&host, "show", &arguments);
        assert_eq!(answer["error_code"], "INVALID_PARAMS", "{answer}");
        assert!(answer["error"].as_str().is_some_and(|it| it.contains(expected)), "{answer}");
    }
    // `tool run` uses the same bare protocol as for any tool.
    let ran = host.run(["tool", "run", "show", "-x"]).expect_code(126);
    assert!(ran.stderr().contains("its arguments are one JSON object"), "{ran}");
    let ran = host.run_with(["tool", "run", "show"], br#"{"code": 4, "path": "p"}"#).expect_code(0);
    assert_eq!(ran.json()["exit_code"], 4, "{ran}");
    let asked = host.run(["tool", "run", "show", "--schema"]).expect_code(0);
    assert_eq!(asked.json()["name"], "show", "{asked}");
    host.assert_nothing_left();
}

#[test]
fn a_grant_is_for_the_definition_and_the_program_together() {
    let (host, program) = host(SHOWING);
    let text = definition(program.to_str().expect("UTF-8"), "args = [\"--exit=0\"]");
    let path = host.write("user-tools/show.wrap.toml", &text, 0o644);
    let granted = || host.run(["policy", "grant", "show", "--read", ".", "--yes"]).expect_code(0);
    let refused = || {
        let ran = host.run(["tool", "call", "show"]).expect_code(1);
        assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
        let error = ran.json()["error"].as_str().expect("a text").to_owned();
        assert!(error.contains("or its program"), "{error}");
    };
    granted();
    assert_eq!(call(&host, "show", &json!({}))["exit_code"], 0);
    fs::write(&program, format!("{SHOWING}# more\n")).expect("written");
    refused();
    fs::write(&program, SHOWING).expect("written");
    call(&host, "show", &json!({}));
    fs::write(&path, text.replace("--exit=0", "--exit=1")).expect("written");
    refused();
    granted();
    assert_eq!(call(&host, "show", &json!({}))["exit_code"], 1);
    // The grant applies to the tool, not to the program itself.
    let grant =
        fs::read_to_string(host.home().join(".config/ikigai/policy.toml")).expect("a policy");
    let digest = ikigai_host::Digest::from_bytes(SHOWING.as_bytes()).to_string();
    assert!(grant.contains("sha256") && !grant.contains(&digest), "{grant}");
}

#[test]
fn a_definition_with_a_mistake_is_reported() {
    let (host, program) = host(SHOWING);
    let program = program.to_str().expect("UTF-8");
    for (text, expected) in [
        (definition("/no/such", ""), "its program `/no/such` cannot be used: No such file"),
        (definition("show", ""), "begins with `/`"),
        (definition("/etc/passwd", ""), "it is not executable"),
        (definition("/etc", ""), "it is not a regular file"),
        (definition(program, "args = [\"{x}\"]"), "bad.wrap.toml:3:9: `parameters` has no `x`"),
        (definition(program, "parameters = 1"), "`parameters`: expected a table"),
    ] {
        let path = host.write("user-tools/bad.wrap.toml", text, 0o644);
        let checked = host.run(["tool", "check", path.to_str().expect("UTF-8")]).expect_code(1);
        assert!(checked.stdout().contains(expected), "{expected}\n{checked}");
        let listed = host.run(["tool", "list", "--all"]).expect_code(0);
        assert!(listed.stdout().contains("bad.wrap.toml"), "{listed}");
    }
    let called = host.run(["tool", "call", "bad"]).expect_code(1);
    assert!(called.stderr().contains("`parameters`: expected a table"), "{called}");
}

/// Writes its arguments, each with a NUL at its end, and its stdin.
const ECHO: &str = "
    (if (call $args_sizes_get (i32.const 32) (i32.const 36)) (then unreachable))
    (if (call $args_get (i32.const 40) (i32.const 1024)) (then unreachable))
    (call $say (i32.const 1024) (i32.load (i32.const 36)))
    (call $say (i32.const 65536) (call $read))";

#[test]
fn a_core_module_is_wrapped_as_it_is() {
    let host = Host::without_system_tools();
    // The program knows nothing about tools: no argument makes it print a schema.
    let module = core_module::text("", "", ECHO).replace("(call $is_asked)", "(i32.const 0)");
    host.write("user-tools/show.wasm", core_module::assemble(&module), 0o644);
    let text = definition(
        "show.wasm",
        "args = [[\"{names}\"]]\nstdin = \"text\"\n[parameters]\nnames = { type = \"array\" }\n\
         text = { type = \"string\" }",
    );
    host.write("user-tools/shown.wrap.toml", text, 0o644);
    let answer = call(&host, "shown", &json!({ "names": ["a b", "é"], "text": "in" }));
    use base64::Engine as _;
    let output = base64::engine::general_purpose::STANDARD.encode("tool\0a b\0é\0in");
    assert_eq!(answer, json!({ "output_base64": output, "exit_code": 0 }));
    let listed = host.run(["tool", "list", "--all", "--json"]).expect_code(0).json();
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["tools"][0]["backend"], "wasm", "{listed}");
    assert_eq!(listed["skipped"], json!([]), "the module is no tool by itself");
    // Another module under a grant is refused.
    host.run(["policy", "grant", "shown", "--read", ".", "--yes"]).expect_code(0);
    call(&host, "shown", &json!({}));
    let other = core_module::assemble(&module.replace("(i32.const 65536)", "(i32.const 65537)"));
    host.write("user-tools/show.wasm", other, 0o644);
    let ran = host.run(["tool", "call", "shown"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
    // A library is refused before anything is written.
    host.write("workspace/library.wasm", ikigai_tests::component::core_library(), 0o644);
    let ran = new(&host, &["--wrap", "library.wasm"]).expect_code(1);
    assert!(ran.stderr().contains("`_start`"), "{ran}");
    assert!(!host.user_tools().join("library.wrap.toml").exists());
}
