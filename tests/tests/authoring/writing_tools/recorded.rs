//! The contract of `policy record`. Under `strict`, an example with the proposed entry must do the
//! same as while it was recorded. Without any part of that entry, it must not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

use super::{Example, MAKE_DATABASE};

/// Returns the policy of the user.
fn policy(tool: &Example) -> PathBuf {
    tool.host.home().join(".config/ikigai/policy.toml")
}

/// Calls the tool under `strict`. Returns its answer, or the code of its failure.
fn strict(tool: &Example, arguments: &Value) -> Value {
    let call = ["--profile", "strict", "tool", "call", tool.name, &arguments.to_string()];
    let mut envelope = tool.host.run(call).json();
    match envelope["tool_success"].as_bool() {
        Some(true) => envelope["result"].take(),
        _ => json!({ "failed": envelope["error_code"] }),
    }
}

/// The most recordings of a tool. A run may stop at the first thing that is refused.
const ROUNDS: usize = 8;

/// Records the calls and grants each proposal, until nothing more is proposed. Then checks that
/// every answer passes, and that at least one fails if any part of the entry is missing.
#[track_caller]
fn holds(tool: &Example, calls: &[Value], passes: impl Fn(&Value) -> bool) {
    let calls: Vec<String> = calls.iter().map(Value::to_string).collect();
    let record = ["policy", "record", tool.name, "--permissive", "--json", "--"];
    let mut recorded = Value::Null;
    for round in 0..=ROUNDS {
        assert!(round < ROUNDS, "{recorded:#}");
        let words = record.iter().copied().chain(calls.iter().map(String::as_str));
        recorded = tool.host.run(words).expect_code(0).json();
        assert_eq!(recorded["written"], false, "nobody was asked");
        if recorded["difference"] == json!([]) {
            break;
        }
        let line = recorded["proposal"]["command"].as_str();
        let line = line.unwrap_or_else(|| panic!("{recorded:#}"));
        tool.host.run(line.split(' ').skip(1)).expect_code(0);
    }
    let passing = || calls.iter().all(|call| passes(&strict(tool, &parsed(call))));
    assert!(passing(), "{recorded:#}");

    let whole = fs::read_to_string(policy(tool)).expect("a policy");
    let without = withouts(&whole);
    assert!(!without.is_empty(), "{whole}");
    for text in without {
        fs::write(policy(tool), &text).expect("written");
        assert!(!passing(), "it does as much without a part of\n{whole}\nwith\n{text}");
    }
    fs::write(policy(tool), whole).expect("written");
    assert!(passing());
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Returns variants of the policy: one without each of its keys, and one without each entry of each
/// list that has several. The file has one entry, as `policy grant` writes it.
fn withouts(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.split_once(" = ") else { continue };
        let with = |line: Option<String>| {
            let all = lines.iter().enumerate().filter(|(other, _)| *other != at);
            let mut all: Vec<String> = all.map(|(_, line)| (*line).to_owned()).collect();
            all.extend(line);
            all.join("\n") + "\n"
        };
        found.push(with(None));
        let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
            continue;
        };
        let entries: Vec<&str> = list.split(", ").collect();
        for one in entries.iter().filter(|_| entries.len() > 1) {
            let rest: Vec<&str> = entries.iter().copied().filter(|it| it != one).collect();
            found.push(with(Some(format!("{key} = [{}]", rest.join(", ")))));
        }
    }
    found
}

#[test]
fn the_shell_script() {
    let Some(tool) = Example::native("disk_free", "disk-free", "sh") else { return };
    // The script asks about its working directory, which exists in every sandbox: without a grant
    // it is an empty directory. So the script accesses nothing outside the sandbox, and needs only
    // the permission to run.
    holds(&tool, &[json!({})], |answer| answer["total"].is_u64());
}

#[test]
fn the_python_script_once_its_variable_is_named() {
    let Some(tool) = Example::native("db_query", "db-query", "python3") else { return };
    let database = tool.host.workspace().join("crew.db");
    let mut make = Command::new("python3");
    make.args(["-c", MAKE_DATABASE]).arg(&database);
    let _ = Ran::from_command(&mut make, b"").expect_code(0);
    let query = json!({ "query": "SELECT name FROM crew WHERE year = 1815" });
    let tool = Example { host: tool.host.env("DB_CONNECTION_STRING", &database), ..tool };

    let words = ["policy", "record", tool.name, "--permissive", "--", &query.to_string()];
    let first = tool.host.run(words).expect_code(0);
    assert!(first.stdout().contains("MISSING_CREDENTIALS"), "{first}");
    assert!(first.stdout().contains("variables are never inferred"), "{first}");
    let grant = ["policy", "grant", tool.name, "--replace", "--env", "DB_CONNECTION_STRING"];
    tool.host.run(grant).expect_code(0);
    let rows = json!({ "rows": [{ "name": "Ada" }], "count": 1 });
    holds(&tool, &[query], |answer| *answer == rows);
}

#[test]
fn the_python_script_that_reads_assets_once_they_are_granted() {
    let Some(tool) = Example::native("open_questions", "open-questions", "python3") else {
        return;
    };
    let uri = "ikigai:///blocks/decisions.md";
    let text = tool.host.write("decisions", "Why?\nSo.\n", 0o644);
    let text = text.to_str().expect("a path in UTF-8");
    tool.host.run(["asset", "put", uri, text]).expect_code(0);
    let call = json!({ "uri": uri });
    let words = ["policy", "record", tool.name, "--permissive", "--", &call.to_string()];
    let first = tool.host.run(words).expect_code(0);
    assert!(first.stdout().contains("--assets read grants them"), "{first}");
    let grant = ["policy", "grant", tool.name, "--replace", "--assets", "read"];
    tool.host.run(grant).expect_code(0);
    let expected = json!({ "questions": ["Why?"] });
    holds(&tool, &[call], |answer| *answer == expected);
}

#[test]
fn components_that_only_compute_need_nothing() {
    let cases = [
        ("text_count", "rust-component/text-count.wasm", json!({ "text": "a b" })),
        ("number_stats", "python-component/number-stats.wasm", json!({ "numbers": [1, 2] })),
        (
            "regex_test",
            "javascript-component/regex-test.wasm",
            json!({ "pattern": "a", "text": "a" }),
        ),
    ];
    for (name, file, call) in cases {
        let Some(tool) = Example::component(name, file, "a toolchain of components") else {
            continue;
        };
        let words = ["policy", "record", name, "--permissive", "--json", "--", &call.to_string()];
        let recorded = tool.host.run(words).expect_code(0).json();
        assert_eq!(recorded["difference"], json!([]), "{name} {recorded:#}");
        let answer = strict(&tool, &call);
        let is_error = |member: &str| !answer[member].is_null();
        assert!(!is_error("failed") && !is_error("error_code"), "{name} {answer:#}");
    }
}

/// The user's script reads a file outside of the workspace and writes into the workspace.
#[test]
fn a_script_with_files_inside_and_outside_of_the_workspace() {
    let host = Host::without_system_tools();
    let data = host.write("data/list", "outside\n", 0o644);
    host.write("workspace/in/name", "inside\n", 0o644);
    fs::create_dir(host.workspace().join("out")).expect("made");
    let body = format!(
        "read a <{} && read b <in/name && echo \"$a $b\" >out/new && printf '{{\"ok\": true}}'",
        data.display()
    );
    let path = host.script("script", &body);
    let tool = Example { host, name: "script", path };
    holds(&tool, &[json!({})], |answer| *answer == json!({ "ok": true }));
    let text = fs::read_to_string(policy(&tool)).expect("a policy");
    assert!(text.contains("ro:in") && text.contains("rw:out"), "{text}");
    assert!(text.contains(&format!("ro:{}", data.display())), "{text}");
    tool.host.assert_nothing_left();
}
