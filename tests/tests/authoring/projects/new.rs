//! Beginning a project.

use std::fs;
use std::path::Path;

use ikigai_terminal_testing::Terminal;
use ikigai_tests::host::Host;
use serde_json::json;

const LANGUAGES: &[&str] = &["rust", "python", "js", "go", "c", "shell"];

/// Returns the number of entries in a directory, or 0 if the directory does not exist.
fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn a_project_of_each_language_is_written_and_says_what_comes_next() {
    let host = Host::without_system_tools();
    for language in LANGUAGES {
        let name = format!("pi_{language}");
        let made = host.run(["tool", "new", &name, "--lang", language, "--json"]).expect_code(0);
        let made = made.json();
        assert_eq!((&made["name"], &made["lang"]), (&json!(name), &json!(language)), "{made}");
        assert_eq!(made["next"][0], json!(format!("ikigai tool build {name}")), "{made}");
        let directory = host.workspace().join(&name);
        let files = made["files"].as_array().expect("a list");
        for file in files {
            let path = directory.join(file.as_str().expect("a path"));
            assert!(fs::read(&path).is_ok_and(|text| !text.is_empty()), "{}", path.display());
        }
        let has = |path: &str| files.contains(&json!(path));
        assert!(["tool.toml", "cases.jsonl", "README.md", ".gitignore"].map(has) == [true; 4]);
        let needs_wit = matches!(*language, "python" | "js");
        assert_eq!(has("wit/deps/wasi-cli-0.2.12/package.wit"), needs_wit, "{language}");
        let text = fs::read_to_string(directory.join("tool.toml")).expect("tool.toml");
        assert!(text.contains(&format!("name = \"{name}\"\n")), "{text}");
    }
    let said = host.run(["tool", "new", "a", "--lang", "go"]).expect_code(0);
    let next = "next:\n  ikigai tool build a\n  ikigai tool test a\n  ikigai tool install a\n";
    assert!(said.stdout().starts_with("created a in a: tool.toml, go.mod, main.go, "), "{said}");
    assert!(said.stdout().ends_with(next), "{said}");
}

#[test]
fn a_project_of_wasi_0_3_is_one_in_rust_or_python() {
    let host = Host::without_system_tools();
    let new = |name: &str, flags: &[&str]| host.run([&["tool", "new", name], flags].concat());
    for (language, main) in [("rust", "src/lib.rs"), ("python", "app.py")] {
        let name = format!("pi_{language}");
        new(&name, &["--lang", language, "--wasi", "0.3"]).expect_code(0);
        let text = fs::read_to_string(host.workspace().join(&name).join(main)).expect(main);
        assert!(text.contains("stream of WASI 0.3"), "{text}");
        let of_0_2 = format!("{name}_2");
        new(&of_0_2, &["--lang", language, "--wasi", "0.2"]).expect_code(0);
        let by_default = format!("{name}_d");
        new(&by_default, &["--lang", language]).expect_code(0);
        let manifest = |name: &str| {
            let file = host.workspace().join(name).join("tool.toml");
            fs::read_to_string(file).expect("tool.toml").replace(name, "NAME")
        };
        assert_eq!(manifest(&of_0_2), manifest(&by_default));
    }
    let before = entries(&host.workspace());
    for language in ["script", "js", "go", "c", "shell"] {
        let ran = new("a", &["--lang", language, "--wasi", "0.3"]).expect_code(2);
        let why = format!(
            "error: invalid value `0.3` for `--wasi` with `--lang {language}`; expected `--lang rust` \
             or `--lang python`\nhint: leave out `--wasi`, or choose one of the two\n"
        );
        assert_eq!(ran.stderr(), why, "{ran}");
    }
    for version in ["0.1", "0.4", "0.3.0", ""] {
        let ran = new("a", &["--lang", "rust", "--wasi", version]).expect_code(2);
        assert!(ran.stderr().contains("possible values: 0.2, 0.3"), "{ran}");
    }
    new("a", &["--wrap", "sh", "--wasi", "0.3"]).expect_code(2);
    let ran = new("pi-day", &["--lang", "rust", "--wasi", "0.3"]).expect_code(2);
    let hint = "`ikigai tool new pi_day --lang rust --wasi 0.3 --dir pi-day`\n";
    assert!(ran.stderr().ends_with(hint), "{ran}");
    assert_eq!(entries(&host.workspace()), before, "nothing was written");
}

#[test]
fn a_directory_is_new_or_empty() {
    let host = Host::without_system_tools();
    let new = |dir: &str| host.run(["tool", "new", "a", "--lang", "c", "--dir", dir]);
    host.write("workspace/full/kept", "kept", 0o644);
    host.write("workspace/file", "kept", 0o644);
    fs::create_dir(host.workspace().join("with a space")).expect("made");
    for (dir, why) in [("full", "`full` is not empty"), ("file", "`file` is not a directory")] {
        let ran = new(dir).expect_code(2);
        assert!(ran.stderr().contains(why) && ran.stderr().contains("--dir"), "{ran}");
    }
    assert_eq!(entries(&host.workspace().join("full")), 1);
    let made = new("with a space").expect_code(0);
    assert!(made.stdout().contains("ikigai tool build 'with a space'\n"), "{made}");
    new("with a space").expect_code(2);
    new("deep/er").expect_code(0);
    assert!(host.workspace().join("deep/er/tool.toml").is_file());
}

#[test]
fn a_name_is_that_of_a_tool() {
    let host = Host::without_system_tools();
    let ran = host.run(["tool", "new", "word-count", "--lang", "go"]).expect_code(2);
    let hint = "hint: tools are named with underscores: `ikigai tool new word_count --lang go --dir \
                word-count`\n";
    assert!(ran.stderr().ends_with(hint), "{ran}");
    for name in ["1a", "../a", "a/b", "slash_command", "a b", ""] {
        host.run(["tool", "new", "--lang", "go", name]).expect_code(2);
    }
    let ran = host.run(["tool", "new", "a", "--lang", "cobol"]).expect_code(2);
    assert!(
        ran.stderr().contains("possible values: script, rust, python, js, go, c, shell"),
        "{ran}"
    );
    let ran = host.run(["tool", "new", "a"]).expect_code(2);
    let hint = "hint: specify it with `--lang`: script, rust, python, js, go, c, shell\n";
    assert!(ran.stderr().contains(hint), "{ran}");
    assert_eq!(entries(&host.workspace()), 0, "nothing was written");
}

#[test]
fn a_script_is_a_tool_at_once() {
    let host = Host::without_system_tools();
    let made =
        host.run(["tool", "new", "my_count", "--lang", "script", "--json"]).expect_code(0).json();
    let script = host.user_tools().join("my_count");
    assert_eq!(made["path"], json!(script.to_str().expect("UTF-8")), "{made}");
    let ran = host.run(["tool", "call", "my_count", "--text", "one two"]).expect_code(0);
    assert_eq!(ran.json()["result"], json!({ "lines": 1, "words": 2 }), "{ran}");
    host.write("workspace/notes", "a b\nc\n", 0o644);
    let ran = host.run(["tool", "call", "my_count", "--path", "notes"]).expect_code(0);
    assert_eq!(ran.json()["result"], json!({ "lines": 2, "words": 3 }), "{ran}");
    let ran = host.run(["tool", "call", "my_count"]).expect_code(0);
    assert_eq!(ran.json()["result"]["error_code"], "INVALID_PARAMS", "{ran}");
    let ran = host.run(["tool", "check", script.to_str().expect("UTF-8")]).expect_code(0);
    assert!(!ran.stdout().contains("fail"), "{ran}");

    let again = host.run(["tool", "new", "my_count", "--lang", "script"]).expect_code(2);
    assert!(again.stderr().contains("there is already a tool"), "{again}");
    let elsewhere =
        host.run(["tool", "new", "other", "--lang", "script", "--dir", "here"]).expect_code(0);
    assert!(host.workspace().join("here/other").is_file(), "{elsewhere}");
    assert!(elsewhere.stdout().contains("install -D -m 755 -t ~/.ikigai/tools "), "{elsewhere}");
}

#[test]
fn the_language_is_asked_for_at_a_terminal() {
    let host = Host::without_system_tools();
    let mut command = host.command();
    let mut terminal = Terminal::start(command.args(["tool", "new", "my_tool"]), 100, 40);
    let asked = terminal.wait_for("Which language?");
    assert!(asked.contains("script  A native Python script"), "{asked}");
    terminal.send("cobol\r");
    terminal.wait_for("`cobol` is not one of these");
    terminal.send("script\r");
    assert_eq!(terminal.wait().code(), Some(0), "{}", terminal.everything());
    assert!(
        terminal.everything().contains("ikigai tool call my_tool"),
        "{}",
        terminal.everything()
    );
    assert!(host.user_tools().join("my_tool").is_file());
}
