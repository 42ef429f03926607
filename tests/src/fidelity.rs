//! The fidelity of the component's shell to GNU bash: commands of the kind that agents write, in
//! `tests/fidelity/cases.jsonl`, each with the results of GNU bash.
//!
//! The results are the answer of the `bash` tool, merged output and exit code, and the files in the
//! workspace afterwards. `tests/fidelity/README.md` describes the format.

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

use crate::paths;

/// The file of the cases, relative to the root of the repository.
const FILE: &str = "tests/fidelity/cases.jsonl";

/// The placeholder for the workspace, whose name differs in each run.
const WORKSPACE: &str = "{{DIR}}";

/// One command, and its results under GNU bash.
#[derive(Clone, Debug)]
pub struct Case(Map<String, Value>);

/// The results of a command in a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Standard output and standard error merged, without one newline at the end; bytes that are
    /// not UTF-8 become U+FFFD.
    pub output: String,
    /// The exit code, or 128 + N for signal N.
    pub exit: i64,
    /// The differences to the seed: a file's contents, or `null` for a removed file.
    pub files: BTreeMap<String, Value>,
}

/// Returns all cases, in the order of the file.
#[must_use]
pub fn cases() -> Vec<Case> {
    let text = fs::read_to_string(paths::repository().join(FILE)).expect("the cases");
    text.lines().map(|line| Case(serde_json::from_str(line).expect("a line is JSON"))).collect()
}

/// Writes the cases with the results `made`.
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
    fs::write(paths::repository().join(FILE), text).expect("the cases can be written");
}

impl Case {
    /// Creates a case that is not in the file.
    #[must_use]
    pub fn new(id: &str, command: &str) -> Self {
        let fields = [("id", id), ("command", command)];
        Self(fields.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect())
    }

    /// Returns the name: `area/case`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0["id"].as_str().expect("`id` is a string")
    }

    /// Returns the command.
    #[must_use]
    pub fn command(&self) -> &str {
        self.0["command"].as_str().expect("`command` is a string")
    }

    /// Returns `true` if every POSIX shell must give the same results.
    #[must_use]
    pub fn is_posix(&self) -> bool {
        self.0.get("sh").is_some_and(|sh| sh == true)
    }

    /// Returns the recorded results of GNU bash.
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

/// Runs every case, each in its own workspace, two at a time. The results are in the order of the
/// cases.
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

/// Returns every path of a tree with its content: text, or `base64:`, `link:`, `directory`. An
/// executable file has ` (executable)` at the end.
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
    let mut host = Command::new(paths::host());
    host.args(["--backend", "wasm", "--user-tools", "/nonexistent", "--system-tools"]);
    host.arg(paths::tools()).arg("--workspace").arg(dir);
    // The time limit must allow for a busy machine.
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
        // A crash or a limit counts as an ordinary difference.
        _ => (envelope.to_string(), -1),
    }
}
