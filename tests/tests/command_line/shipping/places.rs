//! The places of installed tools. An installation must not replace a built-in tool, another tool,
//! or a user's own file.

use std::fs;

use ikigai_tests::host::Host;

use crate::shipping::scene::*;

#[test]
fn the_name_of_a_standard_tool_is_taken_by_a_user_who_says_so_and_by_no_workspace() {
    let host = Host::without_system_tools();
    let standard = component("grep", "the standard grep");
    host.write("system-tools/grep.wasm", standard, 0o644);
    let path = host.write("source/grep.wasm", named("grep", "1.0.0", "{}"), 0o644);
    let says = |host: &Host| {
        let ran = host.run(["tool", "call", "grep", "{}"]).expect_code(0);
        ran.json()["result"]["description"].clone()
    };
    for flags in [
        &[][..],
        &["--yes", "--grant"],
        &["--in-workspace"],
        &["--in-workspace", "--replace", "--yes"],
    ] {
        let ran = install_with(&host, &path, flags).expect_code(1);
        assert!(error(&ran).contains("`grep` is the name of a built-in tool"), "{flags:?}\n{ran}");
        assert!(state(&host).is_empty(), "{flags:?}\n{ran}");
        assert_eq!(says(&host), "the standard grep", "{flags:?}");
    }
    install_with(&host, &path, &["--replace"]).expect_code(0);
    assert_eq!(says(&host), "grep 1.0.0");
    host.run(["tool", "remove", "grep"]).expect_code(0);
    assert_eq!(says(&host), "the standard grep");
}

#[test]
fn a_tool_that_was_put_there_by_hand_stays() {
    let host = Host::without_system_tools();
    host.program("weather.wasm", component("weather", "weather by hand"));
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    for flags in [&[][..], &["--yes", "--grant"]] {
        let ran = install_with(&host, &path, flags).expect_code(1);
        assert!(error(&ran).contains("which ikigai did not put there"), "{ran}");
        assert!(error(&ran).contains("--replace"), "{ran}");
        answers(&host, "by hand");
        assert!(!lock(&host).exists(), "{ran}");
    }
    install_with(&host, &path, &["--replace"]).expect_code(0);
    answers(&host, "1.0.0");
}

/// A file that is not a tool would be lost as well.
#[test]
fn a_file_that_is_no_tool_stays_too() {
    let host = Host::without_system_tools();
    let place = host.write("user-tools/weather.wasm", "my notes", 0o644);
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    let ran = install(&host, &path).expect_code(1);
    assert!(error(&ran).contains("is a file that ikigai did not put there"), "{ran}");
    assert_eq!(fs::read_to_string(&place).expect("there"), "my notes");
}

#[test]
fn a_native_build_by_hand_is_replaced_only_where_somebody_says_so() {
    let host = Host::without_system_tools();
    let script = host.script("weather", "echo 1");
    let path = host.write("source/weather.wasm", weather("1.0.0"), 0o644);
    let ran = install(&host, &path).expect_code(1);
    assert!(error(&ran).contains("which ikigai did not put there"), "{ran}");
    assert!(script.is_file() && !host.user_tools().join("weather.wasm").exists(), "{ran}");
    install_with(&host, &path, &["--replace"]).expect_code(0);
    assert!(!script.exists(), "of two builds one would run for the other");
    answers(&host, "1.0.0");
}

#[test]
fn a_tool_of_another_place_is_told_with_both() {
    let (host, first) = installed();
    let second = host.write("other/weather.wasm", weather("1.0.1"), 0o644);
    let (first, second) = (first.display().to_string(), second.display().to_string());
    refused(&host, &["tool", "install", "--yes", &second], 1, &[&first, &second, "--replace"]);
    refused(&host, &["tool", "install", &second, "--yes", "--grant"], 1, &[&first, &second]);
    host.run(["tool", "install", "--yes", &second, "--replace"]).expect_code(0);
    answers(&host, "1.0.1");
    assert_eq!(locked(&lock_text(&host), "from"), second);
}

/// A reserved name, or a text that is not a valid name, never becomes a file name.
#[test]
fn a_schema_chooses_no_path() {
    let host = Host::without_system_tools();
    for name in ["../evil", "a/b", ".hidden", "slash_command", ""] {
        let path = host.write("source/any.wasm", component(name, "x"), 0o644);
        let ran = install(&host, &path).expect_code(1);
        assert!(error(&ran).contains("is not a tool"), "{name}\n{ran}");
        assert!(state(&host).is_empty(), "{name}: {:?}", state(&host));
    }
}
