//! How close the shell of the component comes to GNU bash: commands as an agent
//! writes them, in `tests/fidelity/cases.jsonl`, each with what GNU bash made of it.
//!
//! What counts is what the `bash` tool answers, merged output and exit code, and what
//! lies in the workspace afterwards. The format is described in
//! `tests/fidelity/README.md`.

mod seed;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::places;

/// Where the cases are, from the root of the repository.
const FILE: &str = "tests/fidelity/cases.jsonl";

/// Stands for the workspace, which is another each time.
const WORKSPACE: &str = "{{DIR}}";

/// One command, and what GNU bash made of it.
#[derive(Clone, Debug)]
pub struct Case(Map<String, Value>);

/// What a shell made of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Standard output and standard error as they came, less one newline at the end;
    /// bytes that are no UTF-8 as U+FFFD.
    pub output: String,
    /// 128 + N for signal N.
    pub exit: i64,
    /// What differs from the seed: a file's contents, `null` for one that is gone.
    pub files: BTreeMap<String, Value>,
}

/// All cases, in the order of the file.
#[must_use]
pub fn cases() -> Vec<Case> {
    let text = fs::read_to_string(places::repository().join(FILE)).expect("the cases");
    text.lines().map(|line| Case(serde_json::from_str(line).expect("a line is JSON"))).collect()
}

/// Writes the cases back, with what `made` says of each.
pub fn record(cases: &[Case], made: &[Made]) {
    let mut text = String::new();
    for (case, made) in cases.iter().zip(made) {
        let mut case = case.0.clone();
        case.insert("output".to_owned(), json!(made.output));
        case.insert("exit".to_owned(), json!(made.exit));
        case.insert("files".to_owned(), json!(made.files));
        text.push_str(&Value::Object(case).to_string());
        text.push('\n');
    }
    fs::write(places::repository().join(FILE), text).expect("the cases can be written");
}

impl Case {
    /// A command that is no part of the record.
    #[must_use]
    pub fn new(id: &str, command: &str) -> Self {
        let fields = [("id", id), ("command", command)];
        Self(fields.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect())
    }

    /// Its name: `area/what`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0["id"].as_str().expect("`id` is a string")
    }

    /// What the shell is given.
    #[must_use]
    pub fn command(&self) -> &str {
        self.0["command"].as_str().expect("`command` is a string")
    }

    /// Whether every POSIX shell must answer the same.
    #[must_use]
    pub fn is_posix(&self) -> bool {
        self.0.get("sh").is_some_and(|sh| sh == true)
    }

    /// What GNU bash made of it when it was recorded.
    #[must_use]
    pub fn recorded(&self) -> Made {
        let files = self.0["files"].as_object().expect("`files` is an object");
        Made {
            output: self.0["output"].as_str().expect("`output` is a string").to_owned(),
            exit: self.0["exit"].as_i64().expect("`exit` is a number"),
            files: files.clone().into_iter().collect(),
        }
    }
}

/// Runs every case, each in a workspace of its own, two at a time; what was made is
/// in the cases' order.
#[must_use]
pub fn run_all(
    cases: &[Case],
    shell: &(dyn Fn(&Case, &Path) -> (String, i64) + Sync),
) -> Vec<Made> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(vec![None; cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((index, case)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(index).map(|case| (index, case))
                } {
                    let one = in_workspace(case, shell);
                    made.lock().expect("no panic while held")[index] = Some(one);
                }
            });
        }
    });
    let made = made.into_inner().expect("no panic while held");
    made.into_iter().map(|one| one.expect("each case was run")).collect()
}

fn in_workspace(case: &Case, shell: &(dyn Fn(&Case, &Path) -> (String, i64) + Sync)) -> Made {
    let scratch = TempDir::new().expect("a temporary directory");
    let dir = scratch.path().canonicalize().expect("its own name");
    seed::lay_out(&dir);
    let before = files(&dir);
    let (output, exit) = shell(case, &dir);
    let after = files(&dir);
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    let gone: Vec<_> = gone.map(|path| (path.clone(), Value::Null)).collect();
    let changed = after.into_iter().filter(|(path, found)| before.get(path) != Some(found));
    Made {
        output: output.replace(dir.to_str().expect("UTF-8"), WORKSPACE),
        exit,
        files: changed.chain(gone).collect(),
    }
}

/// Every path of a tree and what is there: text, or `base64:`, `link:`, `directory`,
/// with ` (executable)` at the end for a file of that mode.
fn files(dir: &Path) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(parent) = pending.pop() {
        for entry in fs::read_dir(&parent).expect("readable").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(dir).expect("beneath").to_string_lossy().into_owned();
            let metadata = fs::symlink_metadata(&path).expect("there");
            let text = if metadata.is_symlink() {
                format!("link:{}", fs::read_link(&path).expect("a link").display())
            } else if metadata.is_dir() {
                pending.push(path);
                "directory".to_owned()
            } else {
                let contents = contents(&fs::read(&path).expect("readable"));
                let runs = metadata.permissions().mode() & 0o111 != 0;
                if runs { format!("{contents} (executable)") } else { contents }
            };
            found.insert(name, Value::String(text));
        }
    }
    found
}

fn contents(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("base64:{}", base64::engine::general_purpose::STANDARD.encode(bytes)),
    }
}

/// Runs the command as `PROGRAM -c COMMAND`, with both outputs on one pipe.
#[must_use]
pub fn reference(program: &str, case: &Case, dir: &Path) -> (String, i64) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut child = {
        let mut shell = Command::new(program);
        shell.args(["-c", "--", case.command()]).current_dir(dir).stdin(Stdio::null());
        shell.env_clear().env("PATH", path).envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC")]);
        shell.stdout(writer.try_clone().expect("a second end")).stderr(writer);
        shell.spawn().expect("the reference shell runs")
    };
    let mut output = Vec::new();
    reader.read_to_end(&mut output).expect("the output of the reference shell");
    let status = child.wait().expect("the end of the reference shell");
    if output.last() == Some(&b'\n') {
        output.pop();
    }
    let exit = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    (String::from_utf8_lossy(&output).into_owned(), exit.into())
}

/// Runs the command as the staged component, under the staged host.
#[must_use]
pub fn component(case: &Case, dir: &Path) -> (String, i64) {
    let mut host = Command::new(places::host());
    host.args(["--backend", "wasm", "--user-tools", "/nonexistent", "--system-tools"]);
    host.arg(places::tools()).arg("--workspace").arg(dir);
    // The time is the machine's, which may have much else to do.
    host.args([
        "--timeout",
        "5m",
        "tool",
        "call",
        "bash",
        &json!({"command": case.command()}).to_string(),
    ]);
    let ran = host.output().expect("the host runs");
    let envelope: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| {
        panic!("{}: {error}: {}", case.id(), String::from_utf8_lossy(&ran.stderr))
    });
    match (envelope["result"]["output"].as_str(), envelope["result"]["exit_code"].as_i64()) {
        (Some(output), Some(exit)) => (output.to_owned(), exit),
        // A crash or a limit is a difference like any other.
        _ => (envelope.to_string(), -1),
    }
}
