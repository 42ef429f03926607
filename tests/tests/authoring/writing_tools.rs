//! The tools of the guides for authors: the pages show the files of `tests/examples` unchanged, and
//! each tool works in the host as the pages say.

mod recorded;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use ikigai_tests::{left_out, paths};
use serde_json::{Value, json};

/// The guides for authors, in the order in which a reader follows them.
const PAGES: [&str; 3] = ["write-a-tool.md", "wrap-a-program.md", "write-a-component.md"];

/// The files of the examples that the pages do not show.
const NOT_SHOWN: &[&str] = &[".gitignore"];

fn examples() -> PathBuf {
    paths::repository().join("tests").join("examples")
}

/// Arguments that every tool must answer with `INVALID_PARAMS`, because they are not JSON.
const MALFORMED: &[u8] = b"{\"malformed\":";

/// Returns the text of all pages.
fn pages() -> String {
    let guides = paths::repository().join("docs/guides");
    PAGES.iter().map(|page| fs::read_to_string(guides.join(page)).expect(page)).collect()
}

#[test]
fn the_page_shows_the_files_as_they_are() {
    let page = pages();
    let shown = shown_files(&page);
    for (path, text) in &shown {
        let file = fs::read_to_string(examples().join(path))
            .unwrap_or_else(|error| panic!("the page shows `{path}`: {error}"));
        assert_eq!(*text, file, "the page (left) and `tests/examples/{path}` differ");
    }
    let mut shown: Vec<&str> = shown.iter().map(|(path, _)| *path).collect();
    shown.sort_unstable();
    assert_eq!(shown, example_files(), "the page shows every file of `tests/examples`, once");
}

/// Returns the commands of the page in its order, without those that build a component, which
/// `cargo xtask test` has run.
fn shown_commands(page: &str) -> Vec<&str> {
    let parts: Vec<&str> = page.split("```").collect();
    let blocks = parts.windows(2).step_by(2);
    blocks
        .filter(|pair| !pair[0].ends_with("-->\n"))
        .filter_map(|pair| pair[1].strip_prefix("sh\n"))
        .collect()
}

#[test]
fn the_commands_of_the_page_work_from_an_empty_folder() {
    let built = paths::built_examples();
    let component = built.join("rust-component/text-count.wasm");
    if !component.is_file() {
        return left_out("the commands of the page", "wasm32-wasip2").unwrap_or_default();
    }
    let page = pages();
    let host = Host::new();
    let folder = host.workspace();
    for (path, text) in shown_files(&page).iter().filter(|(path, _)| !path.contains('/')) {
        fs::write(folder.join(path), text).expect("written");
    }
    fs::copy(&component, folder.join("text-count.wasm")).expect("copied");

    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = [built.join("bin")].into_iter().chain(std::env::split_paths(&paths));
    let path = std::env::join_paths(paths).expect("a PATH");
    let commands = shown_commands(&page);
    assert!(commands.len() > 2, "{commands:?}");
    let mut said = String::new();
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-eu", "-c", command]).current_dir(&folder);
        shell.env_clear().env("PATH", &path).env("HOME", host.home());
        said += &Ran::from_command(&mut shell, b"").expect_code(0).stdout();
    }
    assert!(said.contains(r#""words":2"#), "{said}");
}

/// A block of a page with commands and the answer of the last one.
pub(crate) struct ConsoleBlock<'p> {
    pub(crate) commands: Vec<&'p str>,
    answer: &'p str,
}

impl<'p> ConsoleBlock<'p> {
    /// Finds the first block whose first command begins with `start`.
    #[track_caller]
    pub(crate) fn find(page: &'p str, start: &str) -> Self {
        let mut blocks = page.split("```console\n").skip(1);
        let block = blocks.find(|block| block.starts_with(&format!("$ {start}")));
        let block = block.and_then(|block| block.split_once("\n```")).map(|(block, _)| block);
        let block = block.unwrap_or_else(|| panic!("no block begins with `{start}`"));
        let (_, answer) = block.rsplit_once('\n').expect("more lines than one");
        let commands = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        Self { commands, answer }
    }

    /// Runs the commands where ikigai is installed, with the other programs on `path`, and checks
    /// the answer.
    #[track_caller]
    pub(crate) fn run(&self, host: &Host, path: &OsStr) -> Ran {
        let bin = host.scratch().join("bin");
        fs::create_dir_all(&bin).expect("made");
        symlink(paths::host(), bin.join("ikigai")).expect("linked");
        let all = [bin].into_iter().chain(std::env::split_paths(path));
        let mut shell = host.command_of("sh");
        shell.args(["-eu", "-c", &self.commands.join("\n")]);
        shell.env("PATH", std::env::join_paths(all).expect("a PATH"));
        let ran = Ran::from_command(&mut shell, b"").expect_code(0);
        assert!(ran.stdout().ends_with(&format!("{}\n", self.answer)), "{ran}");
        ran
    }
}

/// Returns the path and the text of each block of `page` that follows a comment with a file name.
fn shown_files(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("<!-- file: ").skip(1);
    parts
        .map(|part| {
            let (path, rest) = part.split_once(" -->\n```").expect("a block after its comment");
            let (_language, rest) = rest.split_once('\n').expect("the first line of a block");
            let (text, _) = rest.split_once("```\n").expect("the end of a block");
            (path, text)
        })
        .collect()
}

/// Returns the files of `tests/examples`, without the built ones, which git ignores.
fn example_files() -> Vec<String> {
    let mut git = Command::new("git");
    git.current_dir(examples()).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = Ran::from_command(&mut git, b"").expect_code(0).stdout();
    let mut files: Vec<String> =
        listed.lines().filter(|path| !NOT_SHOWN.contains(path)).map(str::to_owned).collect();
    files.sort_unstable();
    files
}

/// One example, installed in its own host.
struct Example {
    host: Host,
    name: &'static str,
    path: PathBuf,
}

impl Example {
    fn install(host: Host, name: &'static str, file: &Path) -> Self {
        let path = host.user_tools().join(file.file_name().expect("a file"));
        fs::copy(file, &path).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        permit(&path, 0o755);
        Self { host, name, path }
    }

    /// Installs a native example from the repository. Returns `None` if this machine lacks
    /// `interpreter`.
    fn native(name: &'static str, file: &str, interpreter: &str) -> Option<Self> {
        let found = Command::new(interpreter).args(["-c", ""]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            return left_out(file, interpreter);
        }
        Some(Self::install(Host::new(), name, &examples().join(file)))
    }

    /// Installs a component that `cargo xtask test` built. Returns `None` if it was not built,
    /// because this machine lacks `language`.
    fn component(name: &'static str, file: &str, language: &str) -> Option<Self> {
        let file = paths::built_examples().join(file);
        if !file.is_file() {
            return left_out(&file.display().to_string(), language);
        }
        Some(Self::install(Host::new().with_shared_cache(), name, &file))
    }

    /// Returns the tool's own answer to a call that succeeds.
    fn call(&self, arguments: &Value) -> Value {
        let ran = self.host.run(["tool", "call", self.name, &arguments.to_string()]);
        let mut envelope = ran.expect_code(0).json();
        assert_eq!(envelope["tool_success"], json!(true), "{envelope}");
        envelope["result"].take()
    }

    /// Asserts that the tool is listed, that `check` finds no problem, that `--schema` reaches the
    /// tool, and that malformed arguments are answered in JSON.
    fn is_a_good_tool(&self) {
        let path = self.path.to_str().expect("a path in UTF-8");

        let check = self.host.run(["tool", "check", path, "--json"]).expect_code(0).json();
        assert_eq!(check["good"], json!(true), "{check:#}");
        for finding in check["findings"].as_array().expect("a list") {
            assert_eq!(finding["verdict"], json!("ok"), "{check:#}");
        }

        let listed = self.host.run(["tool", "list", "--json"]).expect_code(0);
        assert!(listed.stdout().contains(&format!("\"{}\"", self.name)), "{listed}");

        let schema = self.host.run(["tool", "run", path, "--schema"]).expect_code(0).json();
        assert_eq!(schema["name"], json!(self.name));
        let known = self.host.run(["tool", "schema", self.name]).expect_code(0).json();
        assert_eq!(known[0]["name"], schema["name"]);
        assert_eq!(known[0]["description"], schema["description"]);

        let answer = self.host.run_with(["tool", "run", path], MALFORMED).expect_code(0).json();
        assert_eq!(answer["error_code"], json!("INVALID_PARAMS"), "{answer}");
    }

    /// Asserts that the tool refuses arguments that are JSON but do not fit its schema.
    fn refuses(&self, arguments: &Value) {
        let answer = self.call(arguments);
        assert_eq!(answer["error_code"], json!("INVALID_PARAMS"), "{answer}");
        assert!(answer["error"].is_string(), "{answer}");
    }
}

#[test]
fn the_wrapped_program() {
    let file = examples().join("count-lines.wrap.toml");
    let tool = Example::install(Host::new(), "count_lines", &file);
    tool.is_a_good_tool();
    let text = "-a\n-A\nb\n";
    for (arguments, output, exit_code) in [
        (json!({ "pattern": "-a", "text": text }), "1\n", 0),
        (json!({ "pattern": "-a", "text": text, "ignore_case": true }), "2\n", 0),
        (json!({ "pattern": "x", "text": text }), "0\n", 1),
        (json!({ "pattern": "^-", "file": "-notes", "limit": 1 }), "1\n", 0),
    ] {
        tool.host.write("workspace/-notes", text, 0o644);
        let answer = tool.call(&arguments);
        assert_eq!(answer, json!({ "output": output, "exit_code": exit_code }), "{arguments}");
    }
    let failed = tool.call(&json!({ "pattern": "x", "file": "absent" }));
    assert_eq!(failed["error_code"], "PROGRAM_FAILED", "{failed}");
    tool.refuses(&json!({ "pattern": "x", "limit": 0 }));
}

#[test]
fn the_wrapped_module() {
    let zig = paths::toolchains().join("bin/python-zig");
    if !zig.is_file() {
        return left_out("the wrapped module", "Zig").unwrap_or_default();
    }
    let host = Host::new().env("ZIG_GLOBAL_CACHE_DIR", paths::shared_scratch().join("zig"));
    for name in ["greet.c", "greet.wrap.toml"] {
        let file = examples().join("wrapped-module").join(name);
        fs::copy(file, host.workspace().join(name)).expect("copied");
    }
    fs::create_dir(host.home().join(".ikigai")).expect("made");
    symlink(host.user_tools(), host.home().join(".ikigai/tools")).expect("linked");
    host.write("bin/zig", format!("#!/bin/sh\nexec '{}' \"$@\"\n", zig.display()), 0o755);
    let path = std::env::var_os("PATH").unwrap_or_default();
    ConsoleBlock::find(&pages(), "zig cc ").run(&host, &path);
    let path = host.user_tools().join("greet.wrap.toml");
    let tool = Example { host, name: "greet", path };
    tool.is_a_good_tool();
    tool.refuses(&json!({ "names": "Ada" }));
}

#[test]
fn the_shell_script() {
    let Some(tool) = Example::native("disk_free", "disk-free", "sh") else { return };
    tool.is_a_good_tool();
    let answer = tool.call(&json!({}));
    let bytes = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{key}: {answer}"));
    assert!(bytes("free") <= bytes("total"), "{answer}");
}

#[test]
fn the_python_script_asks_for_its_credentials_and_works_with_them() {
    let Some(tool) = Example::native("db_query", "db-query", "python3") else { return };
    tool.is_a_good_tool();
    tool.refuses(&json!({ "query": 1 }));
    tool.refuses(&json!({ "query": "SELECT 1", "limit": 0 }));

    let query = json!({ "query": "SELECT name, year FROM crew ORDER BY year", "limit": null });
    let answer = tool.call(&query);
    assert_eq!(answer["error_code"], json!("MISSING_CREDENTIALS"), "{answer}");
    assert!(answer["help"]["steps"].as_array().is_some_and(|steps| !steps.is_empty()));

    // The user has followed the steps of the page.
    let database = tool.host.workspace().join("crew.db");
    let mut make = Command::new("python3");
    make.args(["-c", MAKE_DATABASE]).arg(&database);
    let _ = Ran::from_command(&mut make, b"").expect_code(0);
    let tool = Example { host: tool.host.env("DB_CONNECTION_STRING", &database), ..tool };
    let grant = ["policy", "grant", tool.name, "--env", "DB_CONNECTION_STRING"];
    tool.host.run([&grant[..], &["--replace", "--read", "."]].concat()).expect_code(0);
    let rows = json!([{ "name": "Ada", "year": 1815 }, { "name": "Grace", "year": 1906 }]);
    assert_eq!(tool.call(&query), json!({ "rows": rows, "count": 2 }));
    let answer = tool.call(&json!({ "query": "DELETE FROM crew" }));
    assert_eq!(answer["error_code"], json!("QUERY_FAILED"), "{answer}");
}

/// Calls the tool without a grant of assets. `asset_access` tests the call with a grant.
#[test]
fn the_python_script_that_reads_assets() {
    let Some(tool) = Example::native("open_questions", "open-questions", "python3") else {
        return;
    };
    tool.is_a_good_tool();
    tool.refuses(&json!({ "uri": 1 }));
    let answer = tool.call(&json!({ "uri": "ikigai:///blocks/decisions.md" }));
    assert_eq!(answer["error_code"], json!("PERMISSION_DENIED"), "{answer}");
}

const MAKE_DATABASE: &str = "
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute('CREATE TABLE crew (name, year)')
connection.execute(\"INSERT INTO crew VALUES ('Grace', 1906), ('Ada', 1815)\")
connection.commit()
";

#[test]
fn the_rust_component() {
    let file = "rust-component/text-count.wasm";
    let Some(tool) = Example::component("text_count", file, "wasm32-wasip2") else { return };
    tool.is_a_good_tool();
    assert_eq!(
        tool.call(&json!({ "text": "naïve\ntwo words" })),
        json!({ "lines": 2, "words": 3, "characters": 15, "bytes": 16 })
    );
    tool.refuses(&json!({ "text": 1 }));
    tool.refuses(&json!({}));
}

#[test]
fn the_python_component() {
    let file = "python-component/number-stats.wasm";
    let Some(tool) = Example::component("number_stats", file, "python3") else { return };
    tool.is_a_good_tool();
    assert_eq!(
        tool.call(&json!({ "numbers": [2, 4, 4, 4, 5, 5, 7, 9] })),
        json!({ "count": 8, "sum": 40, "mean": 5, "median": 4.5, "stdev": 2.0 })
    );
    tool.refuses(&json!({ "numbers": ["one"] }));
    tool.refuses(&json!({ "numbers": [] }));
}

#[test]
fn the_javascript_component() {
    let file = "javascript-component/regex-test.wasm";
    let Some(tool) = Example::component("regex_test", file, "npm") else { return };
    tool.is_a_good_tool();
    assert_eq!(
        tool.call(&json!({ "pattern": "([a-z])(\\d+)", "text": "a1 b22 ü" })),
        json!({ "matches": [
            { "index": 0, "text": "a1", "groups": ["a", "1"] },
            { "index": 3, "text": "b22", "groups": ["b", "22"] },
        ] })
    );
    // The answer is longer than one write in WASI.
    let text = "ab".repeat(10_000);
    let answer = tool.call(&json!({ "pattern": "A", "flags": "i", "text": text }));
    assert_eq!(answer["matches"].as_array().map(Vec::len), Some(10_000));
    tool.refuses(&json!({ "pattern": "(", "text": "" }));
    tool.refuses(&json!({ "pattern": "a" }));
}

#[test]
fn the_first_compilation_is_shown_and_happens_once() {
    let file = paths::built_examples().join("rust-component/text-count.wasm");
    if !file.is_file() {
        return left_out("text-count.wasm", "wasm32-wasip2").unwrap_or_default();
    }
    let tool = Example::install(Host::new(), "text_count", &file);
    let call = ["tool", "call", "text_count", r#"{"text":""}"#];
    let first = tool.host.run(call).expect_code(0);
    assert!(first.stderr().contains("compiling"), "{first}");
    let second = tool.host.run(call).expect_code(0);
    assert!(!second.stderr().contains("compiling"), "{second}");
}
