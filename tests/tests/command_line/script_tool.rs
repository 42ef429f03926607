//! A shell script as a component: the built shell with a script in it. It is a tool like any other,
//! and confined like any component.

use std::fs;

use ikigai_host::exec::wasm::script::{ScriptError, embed};
use ikigai_protocol::ScriptSlot;
use ikigai_tests::host::{Host, Ran};
use ikigai_tests::paths;
use serde_json::{Value, json};

/// The tool of all tests here, since the shell takes many seconds to compile. Its parameter
/// `action` selects what it does.
const SCRIPT: &str = r##"#!/usr/bin/env bash
# Exercises everything that a script gets and gives.
set -u

if [ "${1-}" = --schema ]; then
  cat <<'SCHEMA'
{
  "name": "scripted",
  "description": "Does what its parameter says",
  "parameters": {
    "action": {"type": "string", "required": true},
    "path": {"type": "string"},
    "words": {"type": "array", "items": {"type": "string"}}
  }
}
SCHEMA
  exit
fi

invalid() {
  jq -nc --arg error "$1" '{error: $error, error_code: "INVALID_PARAMS"}'
  exit
}

input=$(cat)
action=$(jq -er .action <<<"$input" 2>/dev/null) || invalid "no JSON object with \`action\`"

case $action in
  greet)
    jq -c '{greeting: (.words | join(" ")), count: (.words | length)}' <<<"$input" ;;
  started)
    jq -nc --arg name "$0" --args '{name: $name, arguments: $ARGS.positional}' "$@" ;;
  read)
    text=$(cat "$(jq -r .path <<<"$input")" 2>&1)
    jq -nc --arg text "$text" --argjson code $? '{text: $text, code: $code}' ;;
  write)
    complaint=$( { echo new >"$(jq -r .path <<<"$input")"; } 2>&1)
    jq -nc --arg text "$complaint" --argjson code $? '{text: $text, code: $code}' ;;
  list)
    for file in *; do printf '%s\n' "$file"; done | jq -Rnc '[inputs]' ;;
  variable)
    jq -nc --arg value "${GRANTED-none}" '$value' ;;
  absent)
    python3 -c 1 ;;
  fail)
    echo "half an answer"; echo "the reason" >&2; exit 3 ;;
  loop)
    while :; do :; done ;;
  grow)
    text=x; while :; do text=$text$text; done ;;
  *)
    invalid "unknown action $action" ;;
esac
"##;

/// Returns the built shell.
fn shell() -> Vec<u8> {
    let path = paths::tools().join("bash.wasm");
    fs::read(&path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

/// Returns a host with the script as its only tool.
fn host() -> Host {
    let host = Host::without_system_tools().with_shared_cache();
    let tool = embed(&shell(), SCRIPT.as_bytes()).expect("a tool");
    host.program("scripted.wasm", tool);
    host
}

fn action(action: &str) -> String {
    json!({ "action": action }).to_string()
}

fn on(action: &str, path: &str) -> String {
    json!({ "action": action, "path": path }).to_string()
}

#[track_caller]
fn call(host: &Host, arguments: &str) -> Ran {
    host.run(["tool", "call", "scripted", arguments])
}

#[track_caller]
fn result(host: &Host, arguments: &str) -> Value {
    call(host, arguments).expect_code(0).json()["result"].clone()
}

#[test]
fn a_script_in_the_shell_is_a_tool_like_any_other() {
    let host = host();
    let listed = host.run(["tool", "list", "--json"]).expect_code(0).json();
    let tools = listed["tools"].as_array().expect("tools");
    assert!(tools.len() == 1 && tools[0]["name"] == "scripted", "{listed}");
    let arguments = json!({ "action": "greet", "words": ["ein", "Löwe ✓", "'$(quoted)'"] });
    let greeting = result(&host, &arguments.to_string());
    assert_eq!(greeting, json!({ "greeting": "ein Löwe ✓ '$(quoted)'", "count": 3 }));
    host.assert_nothing_left();
}

#[test]
fn the_process_is_the_script() {
    let host = host();
    let path = host.user_tools().join("scripted.wasm");
    let path = path.to_str().expect("UTF-8");
    let asked = host.run(["tool", "run", path, "--schema"]).expect_code(0);
    assert_eq!(asked.json()["name"], "scripted", "{asked}");
    let started = action("started");
    let ran = host.run_with(["tool", "run", path, "one", "zwei ✓"], started.as_bytes());
    let ran = ran.expect_code(0);
    assert_eq!(ran.json(), json!({ "name": "tool", "arguments": ["one", "zwei ✓"] }), "{ran}");
    let failed = host.run_with(["tool", "run", path], action("fail").as_bytes());
    assert_eq!(
        (failed.stdout().as_str(), failed.code()),
        ("half an answer\n", Some(1)),
        "{failed}"
    );
    assert!(failed.stderr().contains("the reason"), "{failed}");
}

#[test]
fn arguments_that_are_no_json_are_answered() {
    let host = host();
    let refused = call(&host, "{\"action\":").expect_code(1).json();
    assert_eq!(refused["error_code"], "INVALID_PARAMS", "{refused}");
    // The host rejects such arguments before the script runs. With `tool run`, the script itself
    // answers.
    let path = host.user_tools().join("scripted.wasm");
    for input in ["{\"action\":", "", "[]", "{}"] {
        let arguments = ["tool", "run", path.to_str().expect("UTF-8")];
        let answered = host.run_with(arguments, input.as_bytes()).expect_code(0);
        assert_eq!(answered.json()["error_code"], "INVALID_PARAMS", "`{input}`: {answered}");
    }
    let unknown = result(&host, &action("fly"));
    assert_eq!(unknown["error"], "unknown action fly", "{unknown}");
}

#[test]
fn a_script_that_fails_or_misses_a_program_is_reported() {
    let host = host();
    let envelope = call(&host, &action("fail")).expect_code(1).json();
    // The component of the shell reports only success or failure: other codes arrive as 1.
    let found = (&envelope["error_code"], &envelope["exit_code"], &envelope["stderr"]);
    assert_eq!(found, (&json!("TOOL_CRASHED"), &json!(1), &json!("the reason\n")), "{envelope}");
    let envelope = call(&host, &action("absent")).expect_code(1).json();
    let stderr = envelope["stderr"].as_str().expect("text");
    assert!(stderr.starts_with("tool: line ") && stderr.contains("python3"), "{stderr}");
    assert!(stderr.contains("command not found"), "{stderr}");
}

#[test]
fn a_script_that_does_not_end_is_ended() {
    let host = host();
    let ended = |flags: &[&str], arguments: &str| {
        let ran = host.run([flags, &["tool", "call", "scripted", arguments]].concat());
        let envelope = ran.expect_code(1).json();
        (envelope["error_code"].clone(), envelope["limit"].clone())
    };
    // The first call compiles the component, so that the compilation does not count against the
    // time limits.
    assert_eq!(result(&host, &action("variable")), "none");
    let (looping, growing) = (action("loop"), action("grow"));
    let timeout = |limit: &str| (json!("TOOL_TIMEOUT"), json!(limit));
    assert_eq!(ended(&["--timeout", "1s"], &looping), timeout("wall_clock"));
    assert_eq!(ended(&["--fuel", "50000000"], &looping), timeout("fuel"));
    let memory = (json!("TOOL_CRASHED"), json!("memory"));
    assert_eq!(ended(&["--memory", "64MiB"], &growing), memory);
    host.assert_nothing_left();
}

#[test]
fn files_and_variables_are_there_once_they_are_granted() {
    let host = host().env("GRANTED", "its value");
    host.write("workspace/kept", "kept\n", 0o644);
    host.write("outside/secret", "secret\n", 0o644);
    let secret = host.scratch().join("outside/secret");
    let secret = secret.to_str().expect("UTF-8");
    let refused = |answer: Value| {
        assert_ne!(answer["code"], 0, "{answer}");
        answer["text"].as_str().expect("text").to_owned()
    };
    for path in ["kept", "./kept", "/etc/passwd", "../outside/secret", secret] {
        let text = refused(result(&host, &on("read", path)));
        assert!(text.ends_with("No such file or directory"), "`{path}`: {text}");
    }
    refused(result(&host, &on("write", "new")));
    assert_eq!(result(&host, &action("variable")), "none");
    host.run(["policy", "grant", "scripted", "--read", ".", "--env", "GRANTED"]).expect_code(0);
    assert_eq!(result(&host, &on("read", "kept")), json!({ "text": "kept", "code": 0 }));
    assert_eq!(result(&host, &action("list")), json!(["kept"]));
    assert_eq!(result(&host, &action("variable")), "its value");
    for path in ["/etc/passwd", "../outside/secret", secret] {
        refused(result(&host, &on("read", path)));
    }
    for path in ["kept", "new", "../outside/new"] {
        refused(result(&host, &on("write", path)));
    }
    assert_eq!(fs::read_to_string(host.workspace().join("kept")).expect("read"), "kept\n");
    host.run(["policy", "grant", "scripted", "--write", "."]).expect_code(0);
    assert_eq!(result(&host, &on("write", "new")), json!({ "text": "", "code": 0 }));
    assert_eq!(fs::read_to_string(host.workspace().join("new")).expect("read"), "new\n");
}

#[test]
fn a_script_that_is_too_large_is_refused_and_another_replaces_the_first() {
    let shell = shell();
    let mut script = SCRIPT.as_bytes().to_vec();
    script.resize(ScriptSlot::CAPACITY, b'#');
    let full = embed(&shell, &script).expect("as large as it may be");
    assert_eq!(full.len(), shell.len());
    script.push(b'#');
    let (size, capacity) = (ScriptSlot::CAPACITY + 1, ScriptSlot::CAPACITY);
    assert_eq!(embed(&shell, &script), Err(ScriptError::TooLarge { size, capacity }));
    let again = embed(&full, SCRIPT.as_bytes()).expect("a tool");
    assert!(again == embed(&shell, SCRIPT.as_bytes()).expect("a tool"), "it is not the same file");
}
