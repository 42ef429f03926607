//! Mistakes of beginners, and the answers to them.

use std::path::Path;

use ikigai_tests::component::{Ending, printing};
use ikigai_tests::host::{Host, schema};
use serde_json::{Value, json};

use super::two_tools;

#[test]
fn a_name_that_is_nearly_right_is_corrected() {
    let host = two_tools();
    for (args, code) in [
        (["call", "tol"], 1),
        (["show", "toool"], 1),
        (["run", "tool_"], 2),
        (["schema", "tolo"], 1),
    ] {
        let ran = host.run([&["tool"], &args[..]].concat()).expect_code(code);
        assert!(ran.stderr().contains("hint: did you mean `tool`?"), "{ran}");
    }
    let ran = host.run(["tool", "call", "zzz"]).expect_code(1);
    assert!(ran.stderr().contains("`ikigai tool list --all`"), "{ran}");
    let envelope: Value = ran.json();
    assert_eq!(envelope["error_code"], json!("TOOL_NOT_FOUND"));
}

#[test]
fn a_tool_or_a_command_in_the_wrong_place_leads_to_the_right_line() {
    let host = two_tools();
    for (args, said) in [
        (&["part"][..], "hint: `part` is a tool: `ikigai tool call part`\n"),
        (&["tool", "part", "--x", "1"], "hint: `part` is a tool: `ikigai tool call part`\n"),
        (&["help", "part"], "hint: `part` is a tool: `ikigai tool call part --help`\n"),
        (&["help", "grant"], "hint: did you mean `ikigai help policy grant`?\n"),
        (
            &["help", "nosuch"],
            "no help on `nosuch`; topics: sandbox, policy-file, tools, options\n",
        ),
    ] {
        let ran = host.run(args).expect_code(2);
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{args:?}\n{ran}");
    }
}

#[test]
fn arguments_are_flags_of_the_schema_too_and_a_mistake_shows_an_example() {
    let host = Host::without_system_tools();
    let schema = r#"{"name":"copy","description":"Copy","parameters":{"type":"object",
        "required":["file_path"],"properties":{"file_path":{"type":"string"},
        "name":{"type":"string"},"count":{"type":"integer"},"all":{"type":"boolean"}}}}"#;
    let script = "#!/bin/sh\nif [ \"$1\" = --schema ]; then printf %s '";
    host.program("copy", format!("{script}{schema}'; else cat; fi\n"));
    let call = |args: &[&str]| host.run([&["tool", "call", "copy"], args].concat());
    let flags = ["--file-path", "a b.txt", "--all", "--count=3", "--pretty", "--name", "x"];
    let ran = call(&flags).expect_code(0);
    let expected = json!({ "file_path": "a b.txt", "all": true, "count": 3, "name": "x" });
    assert_eq!(ran.json()["result"], expected, "{ran}");
    assert!(ran.stdout().lines().count() > 1, "`--pretty` is ikigai's: {ran}");
    // The flags survive if a configuration file causes the command line to be parsed again.
    host.write("home/.config/ikigai/config.toml", "timeout = \"20s\"\n", 0o600);
    let again = call(&flags).expect_code(0);
    assert_eq!(again.json(), ran.json());

    assert_eq!(call(&["{}"]).expect_code(0).json()["result"], json!({}));
    for args in [&[][..], &["--all"]] {
        let ran = call(args).expect_code(2);
        let said = "error: `copy` needs `--file_path`\nhint: for example \
                    `ikigai tool call copy --file_path FILE_PATH`\n";
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{args:?}\n{ran}");
    }
    let recorded = host.run(["audit", "--tail", "1", "--json"]).expect_code(0).json();
    assert_eq!(recorded["outcome"], "INVALID_PARAMS", "{recorded}");
    for flag in ["--help", "-h"] {
        let help = call(&[flag]).expect_code(0).stdout();
        assert!(help.starts_with("Copy\n\nUsage: ikigai tool call copy "), "{help}");
        assert!(help.contains("\n  --file_path  string, required\n"), "{help}");
        assert!(!help.contains("--workspace") && help.lines().count() < 20, "{help}");
    }
    let ran = host.run(["tool", "call", "coppy", "--help"]).expect_code(1);
    assert!(ran.stderr().contains("did you mean `copy`?"), "{ran}");

    let ran = call(&["a.txt"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "INVALID_PARAMS", "{ran}");
    let json = r#"`ikigai tool call copy '{"file_path":"a.txt"}'`"#;
    assert!(ran.stderr().contains(json), "{ran}");
    assert!(ran.stderr().contains("`ikigai tool call copy --file_path a.txt`"), "{ran}");
    let ran = call(&["[1]"]).expect_code(1);
    assert!(ran.stderr().contains(r#"'{"file_path":"FILE_PATH"}'"#), "{ran}");
    for (args, said) in [
        (&["--file_pth", "a"][..], "did you mean `--file_path`?"),
        (&["--count", "many"], "expected integer"),
        (&["{}", "--all"], "use one of the two"),
    ] {
        let ran = call(args).expect_code(2);
        assert!(ran.stderr().contains(said) && ran.stdout().is_empty(), "{args:?}\n{ran}");
    }
    let shown = host.run(["tool", "show", "copy"]).expect_code(0).stdout();
    assert!(shown.contains("ikigai tool call copy --file_path FILE_PATH"), "{shown}");
}

#[test]
fn a_path_where_a_name_is_meant_leads_to_the_command_that_takes_one() {
    let host = two_tools();
    host.write("workspace/hello", "#!/bin/sh\n", 0o755);
    for (args, code) in [
        (["call", "./hello"], 1),
        (["call", "hello"], 1),
        (["show", "./hello"], 1),
        (["schema", "./hello"], 1),
    ] {
        let ran = host.run([&["tool"], &args[..]].concat()).expect_code(code);
        assert!(ran.stderr().contains("`ikigai tool run ./hello`"), "{ran}");
        assert!(ran.stderr().contains("`ikigai tool check ./hello`"), "{ran}");
    }
    let ran = host.run(["tool", "call", "hello"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "TOOL_NOT_FOUND");
    let ran = host.run(["policy", "grant", "./hello"]).expect_code(1);
    assert!(ran.stderr().contains("`ikigai tool list`"), "{ran}");
}

#[test]
fn a_tool_that_cannot_be_executed_is_named_wherever_one_asks() {
    let host = two_tools();
    let plain = host.write("user-tools/plain", "#!/bin/sh\n", 0o644);
    let elf = host.write("user-tools/elf", b"\x7fELF and more", 0o644);
    let unnamed = printing(schema("unnamed"), Ending::Well);
    let unnamed = host.write("user-tools/unnamed", unnamed, 0o644);
    std::os::unix::fs::symlink("/nowhere", host.user_tools().join("lost")).expect("a link");
    // These files are not meant to be tools.
    host.write("user-tools/README.md", "# Tools\n", 0o644);
    host.write("user-tools/parts/plain", "#!/bin/sh\n", 0o644);
    let chmod = |path: &Path| format!("chmod +x '{}'", path.display());
    let expected = [
        ("plain", chmod(&plain)),
        ("elf", chmod(&elf)),
        ("unnamed", "does not end in `.wasm`".to_owned()),
        ("lost", "No such file".to_owned()),
    ];
    let ran = host.run(["tool", "list", "--all", "--json"]).expect_code(0);
    let skipped = ran.json()["skipped"].as_array().expect("a list").clone();
    assert_eq!(skipped.len(), expected.len(), "{ran}");
    for (name, why) in &expected {
        let ends = |it: &&Value| it["path"].as_str().is_some_and(|path| path.ends_with(name));
        let found = skipped.iter().find(ends).unwrap_or_else(|| panic!("{name}: {ran}"));
        assert!(found["reason"].as_str().is_some_and(|it| it.contains(why.as_str())), "{found}");
        let verbose = host.run(["tool", "list", "-v"]).expect_code(0).stderr();
        assert!(verbose.contains(why), "{verbose}");
        let called = host.run(["tool", "call", name]).expect_code(1).stderr();
        assert!(called.contains(why), "{called}");
    }
    let plain = plain.to_str().expect("UTF-8");
    for args in [["tool", "run", plain], ["tool", "check", plain]] {
        let ran = host.run(args);
        assert!(format!("{}{}", ran.stdout(), ran.stderr()).contains(&expected[0].1), "{ran}");
    }
    let ran = host.run(["doctor", "--json"]).expect_code(0);
    let checks = ran.json()["checks"].as_array().expect("a list").clone();
    let skipped = checks.iter().find(|check| check["what"] == "skipped").expect("a check");
    assert_eq!((&skipped["detail"], &skipped["status"]), (&json!("4"), &json!("warn")));
    assert!(unnamed.exists());
    // The file is a tool once it is executable.
    host.script("plain", "echo 1");
    host.run(["tool", "call", "plain"]).expect_code(0);
}

#[test]
fn a_directory_of_tools_that_was_named_and_is_missing_is_reported() {
    let said =
        "warning: the tool directory `/nowhere/tools` does not exist; make it, or name another";
    let host = two_tools();
    for flag in ["--user-tools", "--system-tools"] {
        for command in [&["tool", "list"][..], &["tool", "call", "x"], &["tool", "schema"]] {
            let ran = host.run([&[flag, "/nowhere/tools"], command].concat());
            assert!(ran.stderr().contains(said), "{ran}");
        }
    }
    let ran = two_tools().env("IKIGAI_USER_TOOLS", "/nowhere/tools").run(["tool", "list"]);
    assert!(ran.expect_code(0).stderr().contains(said));
    let mut command = host.command();
    host.write("home/.config/ikigai/config.toml", "user_tools = \"/nowhere/tools\"\n", 0o600);
    command.env_remove("IKIGAI_USER_TOOLS").args(["tool", "list"]);
    let ran = ikigai_tests::host::Ran::from_command(&mut command, b"").expect_code(0);
    assert!(ran.stderr().contains(said), "{ran}");
    let ran = host.run(["--user-tools", "/nowhere/tools", "doctor", "--json"]).expect_code(0);
    let checks = ran.json()["checks"].as_array().expect("a list").clone();
    let user = checks.iter().find(|check| check["what"] == "user tools").expect("a check");
    assert_eq!(user["status"], "warn", "{user}");
    // The default directory may be missing.
    let host = two_tools();
    let mut command = host.command();
    command.env_remove("IKIGAI_USER_TOOLS").args(["tool", "list"]);
    let ran = ikigai_tests::host::Ran::from_command(&mut command, b"").expect_code(0);
    assert!(!ran.stderr().contains("does not exist"), "{ran}");
}

#[test]
fn an_asset_that_is_nearly_right_is_corrected() {
    let host = Host::without_system_tools();
    for path in ["blocks/decisions.md", "blocks/long-lived-rules.md", "notes/today.txt"] {
        host.run_with(["asset", "put", path], b"text").expect_code(0);
    }
    for (meant, path) in [
        ("decision", "blocks/decisions.md"),
        ("decisons.md", "blocks/decisions.md"),
        ("block/decisions", "blocks/decisions.md"),
        ("long-lived-rule", "blocks/long-lived-rules.md"),
        ("notes/tody.txt", "notes/today.txt"),
    ] {
        for command in ["get", "log", "rm", "pin", "unpin"] {
            let ran = host.run(["asset", command, meant]).expect_code(1);
            let hint = format!("hint: did you mean `{path}`?");
            assert!(ran.stderr().contains(&hint), "{command}: {ran}");
        }
    }
    let ran = host.run(["asset", "get", "zzz"]).expect_code(1);
    assert!(!ran.stderr().contains("did you mean"), "{ran}");
    assert!(ran.stderr().contains("`ikigai asset list`"), "{ran}");
}

#[test]
fn a_command_line_without_a_command_points_to_help() {
    let host = Host::without_system_tools();
    let ran = host.run([""; 0]).expect_code(2);
    assert!(ran.stderr().contains("there is no key for any model provider"), "{ran}");
    assert!(ran.stderr().contains("hint: `ikigai --help` lists"), "{ran}");
    // Other errors do not point to help.
    let ran = host.run(["ask", "what?"]).expect_code(2);
    assert!(!ran.stderr().contains("--help"), "{ran}");
}

#[test]
fn an_address_without_a_key_leads_to_the_provider_that_speaks_with_it() {
    for (variable, provider) in
        [("OPENAI_BASE_URL", "openai-chat"), ("ANTHROPIC_BASE_URL", "anthropic")]
    {
        let host = Host::without_system_tools().env(variable, "http://127.0.0.1:1/v1");
        let ran = host.run(["ask", "what?"]).expect_code(2);
        let hint = format!("hint: {variable} names a server: `--provider {provider}` asks it");
        assert!(ran.stderr().contains(&hint), "{ran}");
    }
}

#[test]
fn a_search_of_assets_says_that_it_searches_files() {
    let host = Host::new();
    host.run_with(["asset", "put", "notes/today.md"], b"milk").expect_code(0);
    for (tool, arguments) in [
        ("grep", r#"{"pattern":"milk","path":"ikigai://"}"#),
        ("grep", r#"{"pattern":"milk","glob":"ikigai:///notes/*"}"#),
        ("glob", r#"{"pattern":"ikigai:///notes/*"}"#),
        ("glob", r#"{"pattern":"*","path":"ikigai:///notes"}"#),
    ] {
        let result =
            host.run(["tool", "call", tool, arguments]).expect_code(0).json()["result"].clone();
        assert_eq!(result["error_code"], "INVALID_ARG", "{result}");
        assert!(
            result["error"].as_str().is_some_and(|it| it.contains("only files are searched")),
            "{result}"
        );
    }
}

#[test]
fn a_read_that_shows_nothing_has_a_reason_for_the_person() {
    let host = Host::new();
    host.write("workspace/docs/a.txt", "one\ntwo", 0o644);
    let read =
        |args: &[&str]| host.run([&["tool", "call", "file_read"], args].concat()).expect_code(0);
    let ran = read(&["--file_path", "docs"]);
    assert_eq!(ran.json()["result"]["error_code"], "READ_FAILED", "{ran}");
    let hint =
        "hint: `docs` is a directory; `ikigai tool call glob --pattern '*' --path docs` lists it";
    assert!(ran.stderr().contains(hint), "{ran}");
    let ran = read(&["--file_path", "docs/a.txt", "--offset", "7"]);
    assert_eq!(ran.json()["result"], json!({ "output": "" }), "{ran}");
    assert!(ran.stderr().contains("has 2 lines, and 7 is after the last one"), "{ran}");
    for args in [&["--file_path", "docs/a.txt", "--offset", "2"][..], &["--file_path", "absent"]] {
        assert!(!read(args).stderr().contains("hint"), "{args:?}");
    }
}
