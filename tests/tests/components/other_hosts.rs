//! The six tools as components in other authors' hosts: the Python package of wasmtime, and jco,
//! which the JavaScript example installs. Each tool prints its schema there, and works on the files
//! that the host gives to it.
//!
//! If a host is not installed because Python, npm or the network was missing, its test reports that
//! it tests nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use ikigai_tests::{left_out, paths};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The variable that makes the absence of a host a failure, if it is `1`.
const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_OTHER_HOSTS";

/// The text of the only file in the workspace of each call, which is executable.
const NOTE: &str = "one\ntwo\n";

/// A call, its answer, and the content of a file afterwards.
struct Case {
    tool: &'static str,
    arguments: Value,
    answer: Value,
    file: (&'static str, &'static str),
}

fn cases() -> Vec<Case> {
    let case = |tool, arguments, answer, file| Case { tool, arguments, answer, file };
    let note = ("note.txt", NOTE);
    vec![
        case(
            "bash",
            json!({ "command": "cat note.txt | tr a-z A-Z > loud.txt; cat loud.txt" }),
            json!({ "output": "ONE\nTWO", "exit_code": 0 }),
            ("loud.txt", "ONE\nTWO\n"),
        ),
        case(
            "file_read",
            json!({ "file_path": "note.txt", "offset": 2 }),
            json!({ "output": "two\n" }),
            note,
        ),
        case(
            "file_read",
            json!({ "file_path": "ikigai:///blocks/a.md" }),
            json!({ "error_code": "PERMISSION_DENIED" }),
            note,
        ),
        case(
            "file_write",
            json!({ "file_path": "new.txt", "content": "new\n" }),
            json!({ "output": "Wrote 4 bytes to new.txt", "bytes": 4 }),
            ("new.txt", "new\n"),
        ),
        case(
            "file_edit",
            json!({ "file_path": "note.txt", "old_string": "one\n", "new_string": "1\n" }),
            json!({ "output": "Replaced 1 occurrence in note.txt", "replacements": 1 }),
            ("note.txt", "1\ntwo\n"),
        ),
        case(
            "glob",
            json!({ "pattern": "*.txt" }),
            json!({ "output": "note.txt", "count": 1 }),
            note,
        ),
        case(
            "grep",
            json!({ "pattern": "^t" }),
            json!({ "output": "./note.txt:2: two", "count": 1 }),
            note,
        ),
    ]
}

/// A host by other authors.
trait OtherHost {
    /// Runs a component in the workspace `dir`, with `--schema` and as a call with `stdin`, and
    /// returns the stdout of both, which succeed.
    fn schema_and_answer(&self, component: &Path, dir: &Path, stdin: &str) -> [String; 2];
}

/// The Python package of wasmtime.
struct Wasmtime {
    python: PathBuf,
}

impl Wasmtime {
    fn find() -> Option<Self> {
        let environment = paths::other_hosts();
        if !environment.join(".installed").exists() {
            return missing("wasmtime of Python");
        }
        Some(Self { python: environment.join("bin").join("python") })
    }
}

impl OtherHost for Wasmtime {
    fn schema_and_answer(&self, component: &Path, dir: &Path, stdin: &str) -> [String; 2] {
        // One process runs both, and so compiles the component once.
        let calls =
            [json!({ "args": ["--schema"], "stdin": "" }), json!({ "args": [], "stdin": stdin })];
        let calls = calls.map(|call| format!("{call}\n")).concat();
        let mut python = Command::new(&self.python);
        python.arg("-I").arg(kept("run.py")).arg(component).current_dir(dir).env_clear();
        let ran = Ran::from_command(&mut python, calls.as_bytes()).expect_code(0);
        let answers = ran.stdout();
        let answers = answers.lines().map(|line| {
            let answer: Value = serde_json::from_str(line).expect("a line of JSON");
            assert_eq!(answer["ok"], json!(true), "{answer}");
            answer["stdout"].as_str().expect("text").to_owned()
        });
        answers.collect::<Vec<_>>().try_into().expect("an answer to each call")
    }
}

/// jco, which turns a component into JavaScript and runs it with Node.js.
struct Jco {
    program: PathBuf,
    scratch: TempDir,
}

impl Jco {
    fn find() -> Option<Self> {
        let modules = paths::built_examples().join("javascript-component/node_modules");
        let program = modules.join(".bin/jco");
        if !program.exists() {
            return missing("jco");
        }
        let scratch = TempDir::new().expect("a directory");
        // jco runs the component in this directory, and finds the imports there.
        fs::copy(kept("files.mjs"), scratch.path().join("files.mjs")).expect("copied");
        Some(Self { program, scratch })
    }
}

impl OtherHost for Jco {
    fn schema_and_answer(&self, component: &Path, dir: &Path, stdin: &str) -> [String; 2] {
        let run = |args: &[&str], stdin: &str| {
            let mut jco = Command::new(&self.program);
            jco.arg("run").arg("--jco-dir").arg(self.scratch.path());
            jco.arg("--jco-import").arg(self.scratch.path().join("files.mjs"));
            // jco gives its environment to the component, so `PWD` is set, as by a shell.
            jco.arg(component).args(args).current_dir(dir).env("PWD", dir);
            Ran::from_command(&mut jco, stdin.as_bytes()).expect_code(0).stdout()
        };
        [run(&["--schema"], ""), run(&[], stdin)]
    }
}

/// Reports that a host is missing, or fails if that is an error.
fn missing<T>(what: &str) -> Option<T> {
    let is_required = std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1");
    assert!(!is_required, "{what} is not installed, and `{REQUIRE_VARIABLE}` asks for it");
    left_out("the components in another host", what)
}

/// Returns the path of a file of `tests/other-hosts`.
fn kept(name: &str) -> PathBuf {
    paths::repository().join("tests/other-hosts").join(name)
}

/// Asserts that every tool prints its schema in `other` and works there.
fn all_work_in(other: &dyn OtherHost) {
    let host = Host::new().with_shared_cache();
    for Case { tool, arguments, answer, file } in cases() {
        let component = paths::tools().join(format!("{}.wasm", tool.replace('_', "-")));
        let dir = TempDir::new().expect("a workspace");
        let note = dir.path().join("note.txt");
        fs::write(&note, NOTE).expect("written");
        permit(&note, 0o751);

        let [schema, answered] =
            other.schema_and_answer(&component, dir.path(), &arguments.to_string());
        let schema: Value = serde_json::from_str(&schema).expect("a schema");
        let own = host.run(["tool", "run", component.to_str().expect("UTF-8"), "--schema"]);
        assert_eq!(schema, own.expect_code(0).json(), "the schema of `{tool}`");

        let answered: Value = serde_json::from_str(&answered).expect("an answer in JSON");
        for (key, value) in answer.as_object().expect("an object") {
            assert_eq!(answered[key], *value, "`{tool}` {arguments}: {answered}");
        }
        let (name, contents) = file;
        let found = fs::read_to_string(dir.path().join(name)).expect("the file is there");
        assert_eq!(found, contents, "`{name}` after `{tool}` {arguments}");
        let mode = fs::metadata(&note).expect("the file is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o751, "the mode after `{tool}` {arguments}");
    }
}

#[test]
fn every_tool_works_in_wasmtime() {
    if let Some(wasmtime) = Wasmtime::find() {
        all_work_in(&wasmtime);
    }
}

#[test]
fn every_tool_works_in_jco() {
    if let Some(jco) = Jco::find() {
        all_work_in(&jco);
    }
}
