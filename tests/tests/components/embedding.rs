//! Programs that embed the host: the examples of the library, and one outside of this workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use ikigai_tests::host::Ran;
use ikigai_tests::paths;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An installation made of links, with a workspace and a home directory.
struct Rig {
    scratch: TempDir,
}

impl Rig {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let prefix = scratch.path().join("prefix");
        fs::create_dir_all(prefix.join("bin")).expect("a directory");
        symlink(paths::host(), prefix.join("bin/ikigai")).expect("a link");
        let libexec = paths::supervisor().parent().expect("a parent").to_owned();
        symlink(libexec, prefix.join("libexec")).expect("a link");
        fs::create_dir(scratch.path().join("work")).expect("a directory");
        fs::write(scratch.path().join("work/plan.md"), "1. rest\n").expect("written");
        Self { scratch }
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Runs a program in the workspace, with only `HOME` and `PATH` in its environment.
    fn run(&self, program: &Path, arguments: &[&str], input: &str) -> Ran {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path("work")).env_clear();
        command.env("HOME", self.path("home")).env("PATH", "/usr/bin:/bin");
        Ran::from_command(&mut command, input.as_bytes())
    }

    /// Runs an example of the library over the installation.
    fn example(&self, name: &str, arguments: &[&str], input: &str) -> Vec<String> {
        let program = paths::programs().join("examples").join(name);
        let prefix = self.path("prefix");
        let arguments: Vec<&str> =
            [&*prefix].into_iter().chain(arguments.iter().copied()).collect();
        lines(&self.run(&program, &arguments, input).expect_code(0))
    }

    /// Returns the records of the audit log.
    fn records(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.path("home/.local/state/ikigai/audit.jsonl"));
        let log = log.expect("an audit log");
        log.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
    }

    /// Returns each call of the audit log: the tool, and the kind of its build.
    fn calls(&self) -> Vec<(String, String)> {
        let word = |record: &Value, key: &str| record[key].as_str().unwrap_or_default().to_owned();
        self.records().iter().map(|it| (word(it, "tool"), word(it, "backend"))).collect()
    }
}

fn lines(ran: &Ran) -> Vec<String> {
    ran.stdout().lines().map(str::to_owned).collect()
}

fn envelope(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn a_program_outside_embeds_the_library_alone() {
    let rig = Rig::new();
    let program = paths::programs().join("examples/embedding");
    let (prefix, work) = (rig.path("prefix"), rig.path("work"));
    let ran = rig.run(&program, &[&prefix, &work], "").expect_code(0);
    let printed: Vec<Value> = lines(&ran).iter().map(|line| envelope(line)).collect();
    let [shell, glob] = &printed[..] else { panic!("{printed:?}") };
    assert_eq!(glob["result"]["output"], "plan.md", "{glob}");
    let calls = rig.calls();
    let backend = &calls[0].1;
    if backend == "native" {
        // The memory limit of the native shell, in KiB, unless a control group enforces it.
        let kept_by = &rig.records()[0]["level"]["kept_by"]["memory"][0];
        let expected = if kept_by == "cgroup" { "unlimited" } else { "262144" };
        assert_eq!(shell["result"]["output"], expected, "{shell}");
    } else {
        ikigai_tests::impossible_here("no sandbox on this machine for a native shell");
    }
    assert_eq!(calls[1], ("glob".to_owned(), "wasm".to_owned()));
}

#[test]
fn the_library_needs_no_command_line_database_client_or_terminal() {
    let manifest = paths::repository().join("tests/embedding/Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "tree",
        "--locked",
        "--offline",
        "--edges=normal",
        "--prefix=none",
        "--format={lib}",
    ]);
    let tree = Ran::from_command(cargo.arg("--manifest-path").arg(manifest), b"").expect_code(0);
    let crates: Vec<String> = lines(&tree);
    assert!(crates.iter().any(|it| it == "ikigai_host"), "{crates:?}");
    for unwanted in
        ["clap", "sqlx", "sqlx_core", "rusqlite", "reqwest", "crossterm", "reedline", "nucleo"]
    {
        assert!(!crates.iter().any(|it| it == unwanted), "{unwanted}");
    }
    let ours = crates.iter().filter(|it| it.starts_with("ikigai"));
    let known = ["ikigai_host", "ikigai_protocol", "ikigai_supervisor"];
    assert!(ours.clone().all(|it| known.contains(&&**it)), "{:?}", ours.collect::<Vec<_>>());
}

#[test]
fn the_example_embed_calls_a_tool() {
    let rig = Rig::new();
    let printed = rig.example("embed", &["glob", r#"{"pattern": "*.md"}"#], "");
    assert_eq!(envelope(&printed[0])["result"]["output"], "plan.md", "{printed:?}");
}

#[test]
fn the_example_limits_ends_two_calls() {
    let printed = Rig::new().example("limits", &[], "");
    assert!(printed[0].contains("timed out after 1"), "{printed:?}");
    assert_eq!(envelope(&printed[1])["tool_success"], false, "{printed:?}");
}

#[test]
fn the_example_own_store_keeps_an_asset() {
    let printed = Rig::new().example("own_store", &[], "");
    let read = envelope(&printed[1]);
    assert_eq!(
        (&read["tool_success"], &read["result"]["output"]),
        (&json!(true), &json!("2. rest\n"))
    );
}

#[test]
fn the_example_server_answers_each_line() {
    let input = "glob {\"pattern\": \"*.md\"}\nglob {\"pattern\": \"*.rs\"}\nnobody {}\n";
    let mut printed = Rig::new().example("server", &[], input);
    printed.sort();
    let answers: Vec<(&str, bool)> = printed
        .iter()
        .map(|line| {
            let (number, answer) = line.split_once(' ').expect("a number and an envelope");
            (number, envelope(answer)["tool_success"] == true)
        })
        .collect();
    assert_eq!(answers, [("1", true), ("2", true), ("3", false)], "{printed:?}");
}
