//! Shell completions and manual pages.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::paths;

/// Returns the completions that bash offers for the last word of a line.
fn offered(host: &Host, line: &[&str]) -> Vec<String> {
    let bin = host.scratch().join("bin");
    if !bin.exists() {
        fs::create_dir(&bin).expect("a directory of the test");
        symlink(paths::host(), bin.join("ikigai")).expect("linked");
    }
    let script = host.run(["completions", "bash"]).expect_code(0).stdout();
    let ask = "COMP_WORDS=(ikigai \"$@\"); COMP_CWORD=$#; COMP_TYPE=9\n\
        _clap_complete_ikigai ikigai \"${COMP_WORDS[COMP_CWORD]}\" \"\"\n\
        printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let file = host.write("completions.bash", format!("{script}\n{ask}"), 0o644);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = host.command_of("bash");
    bash.env("PATH", format!("{}:{path}", bin.display())).arg(&file).args(line);
    let ran = Ran::from_command(&mut bash, b"").expect_code(0);
    assert_eq!(ran.stderr(), "", "{line:?}\n{ran}");
    ran.stdout().lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn completions_are_scripts_of_their_shell() {
    let host = Host::without_system_tools();
    for (shell, mark) in
        [("bash", "complete -o nospace"), ("zsh", "#compdef ikigai"), ("fish", "--command ikigai")]
    {
        let ran = host.run(["completions", shell]).expect_code(0);
        let script = ran.stdout();
        assert!(script.contains(mark) && script.contains("IKIGAI_COMPLETE="), "{shell}: {script}");
        let file = host.write(format!("completions.{shell}"), ran.stdout(), 0o644);
        // The syntax can be checked only if this machine has the shell.
        match Command::new(shell).arg("-n").arg(&file).output() {
            Ok(read) => assert!(read.status.success(), "{shell}: {read:?}"),
            Err(error) => {
                ikigai_tests::impossible_here(&format!("the completions of {shell}: {error}"));
            }
        }
    }
    host.run(["completions", "cobol"]).expect_code(2);
    let ran = host.env("IKIGAI_COMPLETE", "cobol").run(["--", "ikigai", ""]).expect_code(2);
    assert!(ran.stderr().contains("IKIGAI_COMPLETE: `cobol`"), "{ran}");
}

#[test]
fn names_of_tools_are_offered_as_far_as_they_are_known_and_nothing_is_run() {
    let host = Host::without_system_tools();
    let log = host.write("log", "", 0o644);
    let schema = ikigai_tests::host::schema("own_tool");
    let noted = format!("#!/bin/sh\necho ran >>'{}'\nprintf %s '{schema}'\n", log.display());
    host.program("own-tool", &noted);
    let runs = || fs::read_to_string(&log).expect("a log").lines().count();
    assert!(!offered(&host, &["tool", "call", "o"]).contains(&"own_tool".to_owned()));
    assert_eq!(runs(), 0, "nobody has looked yet");

    // The host does not remember a tool that changed a moment ago.
    while offered(&host, &["tool", "call", "o"]).is_empty() {
        host.run(["--profile", "standard", "tool", "list"]).expect_code(0);
    }
    let before = runs();
    for line in [
        &["tool", "call", "o"][..],
        &["tool", "show", "own"],
        &["tool", "run", "o"],
        &["tool", "schema", "own_tool", "o"],
        &["policy", "grant", "o"],
        &["policy", "revoke", "o"],
        &["policy", "show", "o"],
        &["policy", "test", "o"],
        &["audit", "--tool", "o"],
        &["--user-tools", "../user-tools", "tool", "call", "o"],
    ] {
        assert_eq!(offered(&host, line), ["own_tool"], "{line:?}");
    }
    assert!(offered(&host, &["--user-tools", "/nowhere", "tool", "call", "o"]).is_empty());
    host.program("other-tool", &noted);
    assert_eq!(offered(&host, &["tool", "call", "o"]), ["own_tool"]);
    assert_eq!(runs(), before);
    host.assert_nothing_left();
}

#[test]
fn files_are_offered_where_a_tool_may_be_one() {
    let host = Host::without_system_tools();
    host.write("workspace/here/hello", "", 0o755);
    assert_eq!(offered(&host, &["tool", "run", "./here/he"]), ["./here/hello"]);
    assert_eq!(offered(&host, &["tool", "check", "here/he"]), ["here/hello"]);
}

#[test]
fn commands_and_the_flags_that_do_something_for_them_are_offered() {
    let host = Host::without_system_tools();
    let flags = |command: &[&str]| offered(&host, &[command, &["--"]].concat());
    let call = flags(&["tool", "call"]);
    assert!(call.contains(&"--timeout".to_owned()) && call.contains(&"--pretty".to_owned()));
    let list = flags(&["asset", "list"]);
    assert!(list.contains(&"--store".to_owned()) && !list.contains(&"--timeout".to_owned()));
    assert_eq!(offered(&host, &["as"]), ["ask", "asset"]);
    assert!(!offered(&host, &[""]).iter().any(|it| it.starts_with("__")));
    assert!(!offered(&host, &["tool", "list", "--"]).contains(&"--ceiling".to_owned()));
}

#[test]
fn names_of_assets_are_offered() {
    let host = Host::without_system_tools();
    assert!(offered(&host, &["asset", "get", "b"]).is_empty());
    assert!(!host.home().join(".local/share/ikigai").exists(), "no store is made for a Tab");
    for path in ["blocks/decisions.md", "blocks/rules.md", "notes.md", "outputs/1.txt"] {
        host.run_with(["asset", "put", path], b"text").expect_code(0);
    }
    for command in ["get", "put", "edit", "rm", "log", "restore", "pin", "unpin", "list"] {
        let all = ["blocks/decisions.md", "blocks/rules.md"];
        assert_eq!(offered(&host, &["asset", command, "b"]), all, "{command}");
    }
    assert_eq!(offered(&host, &["asset", "get", "dec"]), ["decisions", "decisions.md"]);
    assert_eq!(offered(&host, &["asset", "get", "outputs/"]), ["outputs/1.txt"]);
    assert_eq!(offered(&host, &["asset", "rm", "notes.md", "blocks/r"]), ["blocks/rules.md"]);
    // Completion is silent about a mistake in the configuration, which the command reports.
    host.write("home/.config/ikigai/config.toml", "unknown = 1\n", 0o600);
    assert_eq!(offered(&host, &["asset", "get", "n"]), ["notes.md"]);
}

#[test]
fn sessions_are_offered_by_their_ids_and_titles() {
    let host = Host::without_system_tools();
    assert!(offered(&host, &["session", "show", "f"]).is_empty());
    assert!(!host.home().join(".local/share/ikigai").exists(), "no store is made for a Tab");
    let import = |title: &str| {
        let head = format!(r#"{{"format":"ikigai-session","version":1,"title":"{title}"}}"#);
        let ran = host.run_with(["session", "import", "--json"], head.as_bytes()).expect_code(0);
        ran.json()["id"].as_str().expect("an id").to_owned()
    };
    let (parser, command, word) =
        (import("Fix the parser"), import("$(reboot)"), import("tidying"));
    let all = [&*word, &command, &parser];
    for command in ["show", "export", "fork", "rename", "rm"] {
        let mut ids = offered(&host, &["session", command, ""]);
        ids.retain(|id| all.contains(&&**id));
        assert_eq!(ids, all, "{command}: the newest first");
    }
    assert_eq!(offered(&host, &["session", "show", &parser[..35]]).first(), Some(&parser));
    // A shell would split or run these titles, so the id is offered instead.
    assert_eq!(offered(&host, &["session", "show", "fix"]), [parser]);
    assert_eq!(offered(&host, &["session", "show", "$(re"]), [command]);
    assert_eq!(offered(&host, &["session", "show", "tid"]), ["tidying"]);
    assert!(offered(&host, &["session", "show", "zzz"]).is_empty());
}

#[test]
fn a_store_that_does_not_answer_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let store = format!("postgres://somebody@127.0.0.1:{port}/assets");
    let host = Host::without_system_tools().env("IKIGAI_STORE", store);
    let begun = Instant::now();
    assert!(offered(&host, &["asset", "get", "b"]).is_empty());
    // A normal command waits for ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

/// Returns the options of a manual page that have no description. The line after the name of such
/// an option is missing, or only names its variable.
fn options_without_text(page: &str) -> Vec<&str> {
    let lines: Vec<&str> = page.lines().collect();
    let options = lines.windows(3).filter(|it| it[0] == ".TP" && it[1].contains("\\-\\-"));
    options.filter(|it| it[2].starts_with('.') || it[2].is_empty()).map(|it| it[1]).collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let host = Host::without_system_tools();
    let dir = host.scratch().join("man");
    fs::create_dir(&dir).expect("a directory of the test");
    let ran = host.run([std::ffi::OsStr::new("__manual"), dir.as_ref()]).expect_code(0);
    assert!(ran.stdout().is_empty() && ran.stderr().is_empty(), "{ran}");
    let entries = fs::read_dir(&dir).expect("listed").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    for name in ["ikigai.1", "ikigai-tool.1", "ikigai-tool-call.1", "ikigai-asset-get.1"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("__") || name.contains("help")), "{names:?}");
    let page = fs::read_to_string(dir.join("ikigai-asset-list.1")).expect("a page");
    assert!(page.contains("IKIGAI_STORE") && !page.contains("IKIGAI_TIMEOUT"), "{page}");
    for name in &names {
        let page = fs::read_to_string(dir.join(name)).expect("a page");
        let without = options_without_text(&page);
        assert!(without.is_empty(), "{name} says nothing about {without:?}");
    }
    let page = fs::read_to_string(dir.join("ikigai.1")).expect("a page");
    assert!(page.contains("provider") && page.contains("IKIGAI_STORE"), "{page}");
    let page = fs::read_to_string(dir.join("ikigai-policy.5")).expect("a page");
    assert!(page.contains("deny = true") && page.contains("/etc/ikigai/policy.toml"), "{page}");
    for name in &names {
        let mut groff = Command::new("groff");
        groff.args(["-Kutf8", "-man", "-Tutf8", "-ww", "-z"]).arg(dir.join(name));
        let Ok(read) = groff.output() else {
            return ikigai_tests::impossible_here("manual pages, read by groff");
        };
        assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
    }
}
