//! Testing a project with cases.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use ikigai_tests::core_module::{import, saying, tool};
use ikigai_tests::host::schema;
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use serde_json::json;

use super::Project;
use super::build::echo;

/// Rights of WASI preview 1: to read, to write and to seek.
const RIGHTS: u32 = 0x2 | 0x40 | 0x4;

/// Flags of WASI preview 1: make the file, which must be new.
const NEW: u32 = 1 | 4;

/// Returns a tool that opens `a.txt` in its first directory with these flags. It answers with the
/// contents of the file, or with `null` if it cannot be opened.
fn opener(flags: u32, rights: u32) -> Vec<u8> {
    let imports = import("path_open", "i32 i32 i32 i32 i32 i64 i64 i32 i32")
        + &saying("null")
        + "(data (i32.const 21000) \"a.txt\")";
    let body = format!(
        "(if (call $path_open (i32.const 3) (i32.const 1) (i32.const 21000) (i32.const 5)
             (i32.const {flags}) (i64.const {rights}) (i64.const {rights}) (i32.const 0)
             (i32.const 16384))
           (then (call $print) (return)))
         (i32.store (i32.const 0) (i32.const 16400))
         (i32.store (i32.const 4) (i32.const 100))
         (drop (call $fd_read (i32.load (i32.const 16384)) (i32.const 0) (i32.const 1) (i32.const 8)))
         (call $say (i32.const 16400) (i32.load (i32.const 8)))
         (if (i32.eqz (i32.load (i32.const 8))) (then
           (i32.store16 (i32.const 17000) (i32.const 0x2222)) (call $say (i32.const 17000) (i32.const 2))))"
    );
    tool(&schema("tool"), &imports, &body)
}

/// Returns a built project with these cases.
fn project(binary: &[u8], needs: &str, cases: &str) -> Project {
    let project = Project::from_binary(binary);
    project.describe(needs, "command = \"cp in.wasm out.wasm\"\noutput = \"out.wasm\"");
    project.run("build", &[]).expect_code(0);
    project.write("cases.jsonl", cases);
    project
}

const READS: &str = "[[needs.fs]]\ndir = \"ro:.\"\nwhy = \"reads a.txt\"";

#[test]
fn cases_pass_and_fail_with_a_difference() {
    let good = "{\"name\": \"echo\", \"arguments\": {\"a\": [1]}, \"expect\": {\"a\": [1]}}\n\n\
                {\"name\": \"error\", \"arguments\": {\"error_code\": \"X\", \"error\": \"no\"}, \
                \"expect\": {\"error_code\": \"X\"}}\n";
    let project = project(&echo(), "", good);
    let ran = project.run("test", &[]).expect_code(0);
    assert_eq!(ran.stdout(), "ok    echo\nok    error\n2 passed, 0 failed\n", "{ran}");
    let bad = "{\"name\": \"bad\", \"arguments\": {\"b\": 1, \"a\": 2}, \"expect\": {\"a\": 3, \"b\": 1}}\n\
               {\"name\": \"new\", \"arguments\": {}}\n";
    project.write("cases.jsonl", [good, bad].concat());
    let ran = project.run("test", &[]).expect_code(1);
    let difference = "FAIL  bad (line 4)\n       {\n      -  \"a\": 3,\n      +  \"a\": 2,\n         \
                      \"b\": 1\n       }\nFAIL  new (line 5)\n      +{}\n2 passed, 2 failed\n";
    assert!(ran.stdout().ends_with(difference), "{ran}");
    let said = project.run("test", &["--json"]).expect_code(1).json();
    assert_eq!((&said["passed"], &said["failed"]), (&json!(2), &json!(2)), "{said}");
    let bad = json!({
        "name": "bad", "line": 4, "verdict": "fail",
        "expected": {"a": 3, "b": 1}, "actual": {"b": 1, "a": 2},
    });
    assert_eq!(said["cases"][2], bad);
    project.host.assert_nothing_left();
}

#[test]
fn each_case_has_its_own_files_and_nothing_is_granted_but_what_the_project_asks_for() {
    let cases = "{\"name\": \"a file\", \"files\": {\"a.txt\": \"[1]\"}, \"arguments\": {}, \"expect\": [1]}\n\
                 {\"name\": \"no file\", \"arguments\": {}, \"expect\": null}\n";
    let reads = project(&opener(0, 0x2 | 0x4), READS, cases);
    reads.host.write("workspace/a.txt", "\"of the user\"", 0o644);
    let ran = reads.run("test", &[]).expect_code(0);
    assert!(ran.stdout().ends_with("2 passed, 0 failed\n"), "{ran}");
    // A case does not see the files that an earlier case wrote.
    let cases = "{\"name\": \"first\", \"arguments\": {}, \"expect\": \"\"}\n".repeat(2);
    let writes = project(&opener(NEW, RIGHTS), &READS.replace("ro:", "rw:"), &cases);
    let ran = writes.run("test", &[]).expect_code(0);
    assert!(ran.stdout().ends_with("2 passed, 0 failed\n"), "{ran}");
    assert!(!writes.host.workspace().join("a.txt").exists());
    // The first project may only read, and the second may not even read.
    let only_reads = project(&opener(NEW, RIGHTS), READS, &cases.replace("\"\"", "null"));
    only_reads.run("test", &[]).expect_code(0);
    let none = project(&opener(0, 0x2 | 0x4), "", &cases.replace("\"\"", "null"));
    none.run("test", &[]).expect_code(0);
    none.write(
        "cases.jsonl",
        "{\"name\": \"a\", \"files\": {\"a.txt\": \"1\"}, \"arguments\": {}}",
    );
    let ran = none.run("test", &[]).expect_code(2);
    assert!(ran.stderr().contains("cases.jsonl:1: the case has files, and the tool asks"), "{ran}");
    for project in [reads, writes, only_reads, none] {
        project.host.assert_nothing_left();
    }
}

/// The user's policy is broken, which stops every other call.
#[test]
fn the_users_policy_tools_and_log_take_no_part() {
    let case = "{\"name\": \"a\", \"arguments\": {}, \"expect\": {}}";
    let project = project(&echo(), "", case);
    project.host.write_policy("no policy");
    project.host.program("tool.wasm", "no tool");
    let state = project.host.scratch().join("state/ikigai");
    let log = || fs::read(state.join("audit.jsonl")).ok();
    let before = log();
    project.host.run(["tool", "list"]).expect_code(2);
    project.run("test", &[]).expect_code(0);
    assert_eq!(log(), before);
}

#[test]
fn what_is_blessed_is_expected_and_nothing_else_changes() {
    let cases = "{\"name\":\"kept\", \"arguments\": {\"a\":1 },\"expect\": { \"a\" : 1 } }\r\n\n\
                 {\"expect\": {\"a\": 1}, \"name\": \"old\", \"arguments\": {\"a\": 2.50}}\n\
                 {\"name\": \"new\", \"arguments\": {\"error_code\": \"X\", \"more\": 1}}";
    let project = project(&echo(), "", cases);
    let file = project.directory().join("cases.jsonl");
    permit(&file, 0o640);
    let ran = project.run("test", &["--bless"]).expect_code(0);
    assert!(ran.stdout().ends_with("1 passed, 0 failed, 2 rewritten\n"), "{ran}");
    let rewritten = cases
        .replace("\"expect\": {\"a\": 1}", "\"expect\": {\"a\":2.50}")
        .replace("\"more\": 1}}", "\"more\": 1}, \"expect\": {\"error_code\":\"X\"}}");
    assert_eq!(fs::read_to_string(&file).expect("read"), rewritten);
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
    let ran = project.run("test", &["--bless"]).expect_code(0);
    assert!(ran.stdout().ends_with("3 passed, 0 failed\n"), "{ran}");
    assert_eq!(fs::read_to_string(&file).expect("read"), rewritten);
}

#[test]
fn a_call_without_an_answer_is_not_blessed() {
    let case = "{\"name\": \"a\", \"arguments\": {}}";
    let project = project(&tool(&schema("tool"), "", "unreachable"), "", case);
    let ran = project.run("test", &["--bless"]).expect_code(1);
    assert!(ran.stdout().contains("+  \"error_code\": \"TOOL_CRASHED\""), "{ran}");
    assert_eq!(fs::read_to_string(project.directory().join("cases.jsonl")).expect("read"), case);
    project.write(
        "cases.jsonl",
        case.replace("{}}", "{}, \"expect\": {\"error_code\": \"TOOL_CRASHED\"}}"),
    );
    project.run("test", &[]).expect_code(0);
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let project = Project::from_binary(&echo());
    let told = |code: i32, text: &str| {
        let ran = project.run("test", &[]).expect_code(code);
        assert!(ran.stderr().contains(text), "{text}\n{ran}");
    };
    told(2, "cases.jsonl` has no cases\nhint: write one call per line");
    project.write("cases.jsonl", "{\"name\": \"a\", \"arguments\": {}}\n{\"name\": \"b\",\n");
    told(2, "cases.jsonl:2:");
    project.write("cases.jsonl", "{\"name\": \"a\", \"arguments\": {}, \"expect\": {}}\n");
    told(2, "dist/tool.wasm` is not there\nhint: build it: `ikigai tool build ");
    project.run("build", &[]).expect_code(0);
    project.run("test", &[]).expect_code(0);
    project.describe(READS, "command = \"cp in.wasm out.wasm\"\noutput = \"out.wasm\"");
    told(2, "was built before `tool.toml` was changed\nhint: build it: `ikigai tool build ");
    fs::write(project.directory().join("dist/tool.wasm"), "no tool").expect("written");
    told(2, "is not a WebAssembly module or component");
}

/// Returns a built project around a component whose name is not `tool`.
fn project_around(file: &Path, name: &str, needs: &str, cases: &str) -> Project {
    let project = Project::from_binary(&fs::read(file).expect("a component"));
    project.describe(needs, "command = \"cp in.wasm out.wasm\"\noutput = \"out.wasm\"");
    let described = fs::read_to_string(project.directory().join("tool.toml")).expect("read");
    project.write("tool.toml", described.replace("name = \"tool\"", &format!("name = \"{name}\"")));
    project.run("build", &[]).expect_code(0);
    project.write("cases.jsonl", cases);
    project
}

/// Each run has a different workspace.
#[test]
fn a_blessed_answer_has_a_name_for_the_workspace_and_passes_in_the_next_run() {
    let case = "{\"name\": \"a\", \"arguments\": {\"at\": \"${IKIGAI_WORKSPACE}/b\"}}";
    let project = project(&echo(), "", case);
    project.run("test", &["--bless"]).expect_code(0);
    let blessed = case.replace("b\"}}", "b\"}, \"expect\": {\"at\":\"${IKIGAI_WORKSPACE}/b\"}}");
    let file = project.directory().join("cases.jsonl");
    assert_eq!(fs::read_to_string(file).expect("read"), blessed);
    project.run("test", &[]).expect_code(0);
}

#[test]
fn a_case_has_binary_files_and_variables() {
    let needs = format!("{READS}\n[[needs.env]]\nname = \"KEY\"\nwhy = \"k\"\n");
    let output = |text: &str| format!("{{\"output\": \"{text}\", \"exit_code\": 0}}");
    let case = |name: &str, command: &str, more: &str, expected: &str| {
        let arguments = format!("{{\"command\": \"{command}\"}}");
        format!(
            "{{\"name\": \"{name}\", \"arguments\": {arguments}{more}, \"expect\": {expected}}}\n"
        )
    };
    let files = ", \"files\": {\"a\": {\"base64\": \"AP8=\"}, \"b\": {\"copy\": \"testdata/b\"}}";
    let cases = case("bytes", "wc -c < a; cat b", files, &output("2\\nof the project"))
        + &case("with", "echo $KEY", ", \"env\": {\"KEY\": \"k\"}", &output("k"))
        + &case("without", "echo $KEY", "", &output(""));
    let bash = paths::tools().join("bash.wasm");
    let mut project = project_around(&bash, "bash", &needs, &cases);
    // A case does not see the user's variables.
    project.host = project.host.env("KEY", "of the user");
    project.write("testdata/b", "of the project");
    let ran = project.run("test", &[]).expect_code(0);
    assert!(ran.stdout().ends_with("3 passed, 0 failed\n"), "{ran}");
    fs::remove_file(project.directory().join("testdata/b")).expect("removed");
    let ran = project.run("test", &[]).expect_code(1);
    assert!(ran.stderr().contains("testdata/b`: No such file or directory"), "{ran}");
    project.host.assert_nothing_left();
}

#[test]
fn a_case_has_assets_of_its_own() {
    let case = |name: &str, more: &str, expected: &str| {
        format!(
            "{{\"name\": \"{name}\", \"arguments\": {{\"file_path\": \"ikigai:///blocks/a.md\"}}{more}, \
             \"expect\": {expected}}}\n"
        )
    };
    let cases =
        case("with", ", \"assets\": {\"ikigai:///blocks/a.md\": \"x\"}", "{\"output\": \"x\"}")
            + &case("without", "", "{\"error_code\": \"FILE_NOT_FOUND\"}");
    let file = paths::tools().join("file-read.wasm");
    let project = project_around(&file, "file_read", "needs.assets = \"read\"", &cases);
    let ran = project.run("test", &[]).expect_code(0);
    assert!(ran.stdout().ends_with("2 passed, 0 failed\n"), "{ran}");
    project.host.assert_nothing_left();
}

#[test]
fn a_case_has_a_server_on_loopback() {
    let case = |name: &str, path: &str| {
        let url = format!("http://${{IKIGAI_SERVER}}{path}");
        format!(
            "{{\"name\": \"{name}\", \"arguments\": {{\"mode\":\"get\",\"path\":\"{url}\"}}, \"server\": \
             [{{\"path\": \"/a?b=1\", \"status\": 201, \"body\": \"from the case\"}}]}}\n"
        )
    };
    let needs = "[[needs.net]]\npeer = \"api.example:443\"\nwhy = \"w\"\n";
    let guest = paths::guests().join("caller.wasm");
    let project = project_around(&guest, "_caller", needs, &case("found", "/a?b=1"));
    project.run("test", &["--bless"]).expect_code(0);
    let blessed = fs::read_to_string(project.directory().join("cases.jsonl")).expect("read");
    let answer = blessed.split("\"expect\": ").nth(1).expect("an answer");
    assert!(answer.contains("201") && answer.contains("from the case"), "{blessed}");
    assert!(answer.contains("http://${IKIGAI_SERVER}/a?b=1"), "{blessed}");
    project.run("test", &[]).expect_code(0);
    project.write("cases.jsonl", case("lost", "/c"));
    let ran = project.run("test", &["--bless"]).expect_code(1);
    assert!(ran.stdout().contains("the case's server has no answer for GET /c\n"), "{ran}");
    project.host.assert_nothing_left();
}

#[test]
fn sources_that_changed_after_the_build_are_noticed() {
    let project = project(&echo(), "", "{\"name\": \"a\", \"arguments\": {}, \"expect\": {}}");
    let later = SystemTime::now() + Duration::from_secs(60);
    let change = |path: &str| {
        let path = project.write(path, "changed");
        File::open(path).and_then(|file| file.set_modified(later)).expect("set");
    };
    for path in [".hidden", "ignored/a", "dist/b"] {
        change(path);
    }
    project.write(".gitignore", "/ignored/\n");
    let cases = File::open(project.directory().join("cases.jsonl")).expect("cases");
    cases.set_modified(later).expect("set");
    project.run("test", &[]).expect_code(0);
    change("src/main.c");
    let ran = project.run("test", &[]).expect_code(2);
    assert!(
        ran.stderr().contains("src/main.c` was changed\nhint: build it: `ikigai tool build "),
        "{ran}"
    );
}
