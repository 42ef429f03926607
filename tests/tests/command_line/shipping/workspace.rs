//! A workspace's tools. One user shares them, and another approves them before any of them runs.

use std::fs;
use std::path::PathBuf;

use ikigai_packages_testing::Fake;
use ikigai_tests::host::{Host, Ran};
use serde_json::json;

use crate::shipping::scene::*;

/// A workspace with `weather` 1.0.0 in its lock, and another user, who works there as well.
struct Shared {
    first: Host,
    second: Host,
    lock: PathBuf,
    _net: Net,
    fake: Fake,
}

impl Shared {
    fn new() -> Self {
        let net = Net::new();
        let fake = net.registry();
        publish(&fake, "1.0.0", &weather("1.0.0"));
        let first = Host::without_system_tools();
        let reference = at(&fake.host(), "");
        let ran =
            first.run(["tool", "install", "--yes", &reference, "--in-workspace"]).expect_code(0);
        assert!(ran.stderr().contains("approved for you"), "{ran}");
        let lock = first.workspace().join(".ikigai/tools.lock");
        Self { first, second: Host::without_system_tools(), lock, _net: net, fake }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.lock).unwrap_or_default()
    }

    /// Runs a command of the second user in the workspace.
    fn run(&self, args: &[&str]) -> Ran {
        let workspace = self.first.workspace().display().to_string();
        self.second.run(["--workspace", &workspace].iter().chain(args))
    }

    /// Returns the answer that the second user gets, or `None` if the tool is not found.
    #[track_caller]
    fn says(&self) -> Option<String> {
        let envelope = self.run(&["tool", "call", "weather", "{}"]).json();
        let text = envelope["result"]["description"].as_str().map(str::to_owned);
        assert!(text.is_some() || envelope["error_code"] == "TOOL_NOT_FOUND", "{envelope}");
        text
    }
}

#[test]
fn a_tool_of_a_workspace_runs_for_those_who_approved_it() {
    let shared = Shared::new();
    answers(&shared.first, "1.0.0");
    let files: Vec<_> = fs::read_dir(shared.first.user_tools()).expect("read").collect();
    assert!(files.is_empty() && !lock(&shared.first).exists(), "it is not the user's own");
    let shown = shared.first.run(["tool", "show", "weather", "--json"]).expect_code(0).json();
    assert!(shown.to_string().contains("\"workspace\""), "{shown:#}");
    // In another workspace the tool does not exist.
    let elsewhere = shared.first.write("elsewhere/mark", "", 0o644);
    let elsewhere = elsewhere.parent().expect("a directory").display().to_string();
    let args = ["--workspace", &elsewhere, "tool", "call", "weather", "{}"];
    assert_eq!(shared.first.run(args).json()["error_code"], "TOOL_NOT_FOUND");

    assert_eq!(shared.says(), None, "nothing runs before it is approved");
    let text = shared.text();
    let asked = shared.fake.seen().len();
    let ran = shared.run(&["tool", "sync"]).expect_code(1);
    for shown in [
        "weather  oci://",
        "are not approved, and there is no terminal to ask you",
        "`ikigai tool sync --yes`",
    ] {
        assert!(ran.stderr().contains(shown), "{shown}\n{ran}");
    }
    assert!(asked > 0 && shared.fake.seen().is_empty(), "no place that the lock names was asked");
    assert_eq!(shared.says(), None, "and nobody agreed");
    let ran = shared.run(&["tool", "sync", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["state"], "installed", "{ran}");
    for shown in ["weather 1.0.0", &sha256(&weather("1.0.0")), "none: the file is not signed"] {
        assert!(ran.stderr().contains(shown), "{ran}");
    }
    assert_eq!(shared.says().as_deref(), Some("weather 1.0.0"));
    assert_eq!((shared.text(), policy_text(&shared.second)), (text, String::new()));
    let record = &records(&shared.second)[0];
    assert_eq!(
        (&record["installed"]["action"], &record["tool"]),
        (&json!("sync"), &json!("weather"))
    );
    let ran = shared.run(&["tool", "sync", "--yes", "--json"]).expect_code(0);
    assert_eq!(ran.json()[0]["state"], "unchanged", "{ran}");
}

#[test]
fn a_tool_that_is_not_offered_is_told_with_the_reason() {
    let shared = Shared::new();
    let told = |args: &[&str], text: &str| {
        let ran = shared.run(args);
        let times = ran.stderr().matches(text).count();
        assert_eq!(times, 1, "{text}\n{ran}");
        ran
    };
    let waits = "warning: the tool `weather` of this workspace is not offered, since you have not \
                 approved it";
    for args in [
        &["tool", "list"][..],
        &["tool", "list", "--all"],
        &["tool", "list", "-v"],
        &["tool", "list", "--json"],
        &["tool", "schema"],
    ] {
        let ran = told(args, waits).expect_code(0);
        assert!(ran.stderr().contains("; run `ikigai tool sync`\n"), "{ran}");
    }
    let ran = told(&["tool", "call", "weather", "{}"], waits).expect_code(1);
    assert_eq!(ran.json()["error_code"], "TOOL_NOT_FOUND", "{ran}");
    assert!(!ran.stderr().contains("tool list --all"), "{ran}");
    told(&["tool", "show", "weather"], waits).expect_code(1);
    // A call of another tool does not mention it.
    let ran = shared.run(&["tool", "call", "clock", "{}"]).expect_code(1);
    assert!(!ran.stderr().contains("weather"), "{ran}");

    let own = shared.second.write("user-tools/weather.wasm", component("weather", "own"), 0o644);
    let ran = told(&["tool", "call", "weather", "{}"], waits).expect_code(0);
    assert_eq!(ran.json()["result"]["description"], "own", "{ran}");
    let instead = format!("; your own tool with this name, `{}`, runs instead", own.display());
    assert!(ran.stderr().contains(&instead), "{instead}\n{ran}");
    fs::remove_file(own).expect("removed");

    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    let ran = shared.run(&["tool", "list"]).expect_code(0);
    assert!(!ran.stderr().contains("warning: "), "{ran}");
    let text = shared.text();
    let changed = text.replace("version = \"1.0.0\"", "version = \"1.0.1\"");
    assert_ne!(changed, text);
    fs::write(&shared.lock, changed).expect("written");
    let edited = "`.ikigai/tools.lock` changed since you approved it; run `ikigai tool sync`";
    told(&["tool", "list"], edited).expect_code(0);
    told(&["tool", "call", "weather", "{}"], edited).expect_code(1);
}

#[test]
fn a_lock_that_cannot_be_read_is_told_where_its_tools_are_missed() {
    let shared = Shared::new();
    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    let text = shared.text();
    let line = text.lines().count() + 1;
    fs::write(&shared.lock, format!("{text}<<<<<<< HEAD\n")).expect("written");
    let place = format!(".ikigai/tools.lock:{line}:1: ");
    for (args, code) in [
        (&["tool", "list"][..], 0),
        (&["tool", "list", "--all"], 0),
        (&["tool", "call", "weather", "{}"], 1),
    ] {
        let ran = shared.run(args).expect_code(code);
        let stderr = ran.stderr();
        let warning = stderr.lines().find(|line| line.starts_with("warning: "));
        let warning = warning.unwrap_or_else(|| panic!("no warning\n{ran}"));
        assert!(warning.contains("no tool of this workspace is offered: "), "{ran}");
        assert!(warning.contains(&place), "{place}\n{ran}");
    }
}

/// The entry's source may be on this machine or in this network.
#[test]
fn an_entry_that_nobody_approved_is_not_updated_either() {
    let shared = Shared::new();
    drop(shared.fake.seen());
    let text = shared.text();
    let ran = shared.run(&["tool", "update", "--in-workspace", "--yes"]).expect_code(1);
    assert!(error(&ran).contains("you have not approved `weather`"), "{ran}");
    assert!(shared.fake.seen().is_empty(), "{ran}");
    assert_eq!((shared.text(), shared.says()), (text, None));
}

/// An author with write access to the repository must not choose what runs.
#[test]
fn each_change_of_an_entry_takes_the_approval_away() {
    let shared = Shared::new();
    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    let text = shared.text();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
        // The last character of the value is replaced by a similar one.
        let place = line.rfind(|c: char| c.is_ascii_alphanumeric()).expect("a value");
        let other = match line.as_bytes()[place] {
            b'1' => '2',
            b'0'..=b'9' => '1',
            b'a' => 'b',
            _ => 'a',
        };
        let changed = format!("{}{other}{}", &line[..place], &line[place + 1..]);
        let mut all: Vec<&str> = lines.clone();
        all[index] = &changed;
        fs::write(&shared.lock, all.join("\n") + "\n").expect("written");
        assert_eq!(shared.says(), None, "{changed}");
        fs::write(&shared.lock, &text).expect("written");
    }
    assert_eq!(shared.says().as_deref(), Some("weather 1.0.0"), "it is the same entry again");
    fs::remove_file(&shared.lock).expect("removed");
    assert_eq!(shared.says(), None);
}

#[test]
fn what_a_lock_says_of_a_file_must_be_so() {
    let shared = Shared::new();
    let text = shared.text();
    let digest = sha256(&weather("1.0.0"));
    let needs = locked(&text, "needs");
    for (from, to, told) in [
        (
            "version = \"1.0.0\"",
            "version = \"9.9.9\"",
            "the version of `weather` is 9.9.9, but it is 1.0.0",
        ),
        (
            "name = \"weather\"",
            "name = \"wetter\"",
            "the name of `wetter` is wetter, but it is weather",
        ),
        ("signer = \"none\"", "signer = \"minisign:0123456789ABCDEF\"", "signed by `none`"),
        (
            &needs,
            &format!("sha256:{digest}"),
            "the needs of `weather` differ from the needs in its file",
        ),
        (
            &format!("sha256 = \"{digest}\""),
            &format!("sha256 = \"{}\"", sha256(b"x")),
            &sha256(b"x"),
        ),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        fs::write(&shared.lock, &changed).expect("written");
        let ran = shared.run(&["tool", "sync", "--yes"]).expect_code(1);
        assert!(error(&ran).contains(told), "{told}\n{ran}");
        assert_eq!((shared.says(), shared.text()), (None, changed));
    }
}

#[test]
fn sync_takes_what_is_locked_where_a_tag_moved() {
    let shared = Shared::new();
    let text = shared.text();
    publish(&shared.fake, "1.0.0", &weather("1.0.1"));
    publish(&shared.fake, "2.0.0", &weather("2.0.0"));
    shared.run(&["tool", "sync", "--locked", "--yes"]).expect_code(0);
    assert_eq!(shared.says().as_deref(), Some("weather 1.0.0"));
    assert_eq!(shared.text(), text);
    shared.run(&["tool", "update", "--in-workspace", "--yes"]).expect_code(0);
    assert_eq!(shared.says().as_deref(), Some("weather 2.0.0"));
    assert_eq!(call(&shared.first)["error_code"], "TOOL_NOT_FOUND", "the other has not seen it");
}

/// A layout contains several tools, and possibly none of them is the locked one.
#[test]
fn a_file_that_its_source_has_no_more_is_told_by_sync() {
    let host = Host::without_system_tools();
    let layout = host.scratch().join("layout");
    let out = layout.display().to_string();
    for (name, file) in [("weather", weather("1.0.0")), ("clock", named("clock", "0.1.0", "{}"))] {
        let path = host.write(format!("push/{name}.wasm"), file, 0o644).display().to_string();
        host.run(["tool", "push", &out, &path]).expect_code(0);
    }
    install_with(&host, &layout, &["--in-workspace"]).expect_code(0);
    let lock = host.workspace().join(".ikigai/tools.lock");
    let other = sha256(b"another");
    let text =
        fs::read_to_string(&lock).expect("a lock").replace(&sha256(&weather("1.0.0")), &other);
    // Removes the artifact's digest, which would be used to search the layout.
    let lines = text.lines().filter(|line| !line.starts_with("manifest = "));
    fs::write(&lock, lines.map(|line| format!("{line}\n")).collect::<String>()).expect("written");
    let ran = host.run(["tool", "sync", "--yes"]).expect_code(1);
    let told =
        format!("no longer has a file with the digest {other}, which the lock has for `weather`");
    for text in [&*told, "`ikigai tool install --in-workspace` writes it again"] {
        assert!(error(&ran).contains(text), "{text}\n{ran}");
    }
}

#[test]
fn a_lock_that_is_not_whole_is_not_completed_where_it_is_locked() {
    let shared = Shared::new();
    let text = shared.text();
    let line = text.lines().find(|line| line.starts_with("size = ")).expect("a size");
    let changed = text.replace(line, "size = 1");
    fs::write(&shared.lock, &changed).expect("written");
    let ran = shared.run(&["tool", "sync", "--locked", "--yes"]).expect_code(1);
    assert!(error(&ran).contains("the lock would change"), "{ran}");
    assert_eq!((shared.text(), shared.says()), (changed, None));
    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    assert_eq!((shared.text(), shared.says().as_deref()), (text, Some("weather 1.0.0")));
}

#[test]
fn needs_of_a_workspaces_tool_are_granted_by_nobody_else() {
    let shared = Shared::new();
    let needs = r#"{"env":[{"name":"KEY","why":"the key"}]}"#;
    publish(&shared.fake, "1.1.0", &needing("1.1.0", needs));
    shared.first.run(["tool", "update", "--in-workspace", "--yes", "--grant"]).expect_code(0);
    assert!(policy_text(&shared.first).contains("KEY"));
    shared.run(&["tool", "sync", "--locked", "--yes"]).expect_code(0);
    assert_eq!(policy_text(&shared.second), "", "`--yes` grants nothing");
    shared.run(&["tool", "sync", "--locked", "--yes", "--grant"]).expect_code(0);
    let policy = policy_text(&shared.second);
    assert!(
        policy.contains(&sha256(&needing("1.1.0", needs))) && policy.contains("KEY"),
        "{policy}"
    );
}

#[test]
fn a_workspace_never_has_the_name_of_a_standard_tool() {
    let shared = Shared::new();
    shared.second.write("system-tools/grep.wasm", component("grep", "the standard grep"), 0o644);
    let grep = shared.first.write("source/grep.wasm", named("grep", "1.0.0", "{}"), 0o644);
    // The first user has no such tool, so only the name prevents the installation.
    let ran = install_with(&shared.first, &grep, &["--in-workspace", "--yes"]);
    let says = |host: &Host| host.run(["tool", "call", "grep", "{}"]).json();
    assert_eq!(says(&shared.first)["error_code"], "TOOL_NOT_FOUND", "{ran}");
    if !shared.text().contains("grep") {
        let entry = format!(
            "\n[[tool]]\nname = \"grep\"\nversion = \"1.0.0\"\nfrom = \"{}\"\nsha256 = \"{}\"\nsize = \
             {}\nsigner = \"none\"\n",
            grep.display(),
            sha256(&named("grep", "1.0.0", "{}")),
            named("grep", "1.0.0", "{}").len()
        );
        fs::write(
            &shared.lock,
            shared.text().replace("version = 1\n", &format!("version = 1\n{entry}")),
        )
        .expect("written");
    }
    let ran = shared.run(&["tool", "sync", "--yes"]).expect_code(1);
    assert!(error(&ran).contains("`grep` is the name of a built-in tool"), "{ran}");
    let ran = shared.run(&["tool", "call", "grep", "{}"]).expect_code(0);
    assert_eq!(ran.json()["result"]["description"], "the standard grep", "{ran}");
}

#[test]
fn what_leaves_the_lock_is_not_approved_any_more() {
    let shared = Shared::new();
    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    let text = shared.text();
    let file = |host: &Host| {
        let name = format!("{}.wasm", sha256(&weather("1.0.0")));
        host.home().join(".local/share/ikigai/tools").join(name)
    };
    // A second workspace of the first user uses the same file.
    let mark = shared.first.write("elsewhere/mark", "", 0o644);
    let elsewhere = mark.parent().expect("a directory");
    let there = elsewhere.display().to_string();
    let line = ["--workspace", &there, "tool", "install", "--yes", "--in-workspace"];
    let reference = at(&shared.fake.host(), "");
    shared.first.run(line.iter().chain(&[&*reference])).expect_code(0);
    shared.first.run(["tool", "remove", "weather", "--in-workspace"]).expect_code(0);
    assert!(!shared.lock.parent().expect("a directory").exists(), "nothing is left of it");
    assert!(file(&shared.first).exists(), "the other workspace has it still");
    let line = ["--workspace", &there, "tool", "remove", "weather", "--in-workspace"];
    shared.first.run(line).expect_code(0);
    assert!(!file(&shared.first).exists() && !elsewhere.join(".ikigai").exists());
    assert!(file(&shared.second).exists());
    let ran = shared.run(&["tool", "sync"]).expect_code(0);
    assert!(ran.stderr().contains("no longer in the lock: weather"), "{ran}");
    assert!(!file(&shared.second).exists(), "{ran}");
    // If the entry is added again, it must be approved again.
    fs::create_dir_all(shared.lock.parent().expect("a directory")).expect("made");
    fs::write(&shared.lock, text).expect("written");
    assert_eq!(shared.says(), None);
}

/// A model that writes the workspace's files must not be able to change an approved tool.
#[test]
fn a_file_that_was_changed_where_it_lies_does_not_run() {
    let shared = Shared::new();
    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    let digest = sha256(&weather("1.0.0"));
    let file = shared.second.home().join(format!(".local/share/ikigai/tools/{digest}.wasm"));
    fs::write(&file, component("weather", "weather changed")).expect("written");
    assert_eq!(shared.says(), None);
    shared.run(&["tool", "verify", "--in-workspace", "--offline"]).expect_code(1);
    shared.run(&["tool", "sync", "--yes"]).expect_code(0);
    assert_eq!(shared.says().as_deref(), Some("weather 1.0.0"), "sync mends it");
}
