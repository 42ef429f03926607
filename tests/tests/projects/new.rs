//! Beginning a project.

use std::fs;
use std::path::Path;

use ikigai_tests::host::Host;
use serde_json::json;

const LANGUAGES: &[&str] = &["rust", "python", "js", "go", "c", "shell"];

/// Returns the number of entries in a directory; none for one that is absent.
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
    assert!(said.stdout().starts_with("a begins in a: tool.toml, go.mod, main.go, "), "{said}");
    assert!(said.stdout().ends_with(next), "{said}");
}

#[test]
fn a_directory_is_new_or_empty() {
    let host = Host::without_system_tools();
    let new = |dir: &str| host.run(["tool", "new", "a", "--lang", "c", "--dir", dir]);
    host.write("workspace/full/kept", "kept", 0o644);
    host.write("workspace/file", "kept", 0o644);
    fs::create_dir(host.workspace().join("with a space")).expect("made");
    for (dir, why) in [("full", "`full` is not empty"), ("file", "`file` is no directory")] {
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
    assert!(ran.stderr().contains("possible values: rust, python, js, go, c, shell"), "{ran}");
    host.run(["tool", "new", "a"]).expect_code(2);
    assert_eq!(entries(&host.workspace()), 0, "nothing was written");
}
