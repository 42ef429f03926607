//! Calls of two processes that overlap: what one of them makes at a place that other programs execute
//! does not stay because the other one found it there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ikigai_tests::host::{Host, Running};
use rustix::process::Signal;
use serde_json::json;

/// Starts an `ikigai` that calls the shell. In the script, `until_there FILE` waits for a file.
fn start(host: &Host, script: &str) -> Running {
    let wait = "until_there() { while [ ! -e $1 ]; do sleep 0.02; done; }";
    let arguments = json!({ "command": format!("{wait}; {script}") }).to_string();
    host.start(["--backend", "native", "tool", "call", "bash", &arguments])
}

/// Runs two calls. The second starts after the first made the file `first`, and the first goes on
/// after the second made the file `second`. Then the test makes the file `ended`.
fn overlap(host: &Host, [first, second]: [&str; 2]) -> [String; 2] {
    let file = |name: &str| host.workspace().join(name);
    let mut one = start(host, first);
    one.wait_for(&file("first"));
    let mut other = start(host, second);
    other.wait_for(&file("second"));
    let one = one.wait().expect_code(0).to_string();
    fs::write(file("ended"), "").expect("written");
    [one, other.wait().expect_code(0).to_string()]
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Asserts that no running call is noted any more.
fn assert_none_is_noted(host: &Host) {
    let dir = host.scratch().join("state/ikigai/calls");
    assert_eq!(fs::read_dir(dir).expect("a directory").count(), 0);
}

#[test]
fn a_place_that_one_call_made_and_removed_is_new_for_the_other() {
    for (make, place) in [
        ("echo evil >.envrc", ".envrc"),
        ("mkdir .vscode", ".vscode"),
        ("ln -s r .vscode", ".vscode"),
        ("mkdir -p .git/objects .git/refs; echo ref: refs/heads/a >.git/HEAD", ".git"),
    ] {
        let host = Host::new();
        let first = format!("{make}; touch first; until_there second; rm -r {place}");
        let second = format!("touch second; until_there ended; {make}");
        let ran = overlap(&host, [&first, &second]);
        let there = |name: String| host.workspace().join(name).symlink_metadata().is_ok();
        assert!(!there(place.to_owned()) && there(format!("{place}.withheld")), "{ran:?}");
        assert_none_is_noted(&host);
    }
}

#[test]
fn a_link_and_the_directories_on_its_way_stay_where_they_are() {
    let host = Host::new();
    let hook = host.write("workspace/scripts/pre-commit", "good", 0o755);
    host.write("workspace/.git/HEAD", "ref: refs/heads/a\n", 0o644);
    for dir in ["a", ".git/hooks", ".git/objects"] {
        fs::create_dir(host.workspace().join(dir)).expect("made");
    }
    for (link, target) in [
        (".git/hooks/pre-commit", "../../a/../scripts/chain"),
        ("scripts/chain", "pre-commit"),
        (".envrc", "scripts/pre-commit"),
    ] {
        symlink(target, host.workspace().join(link)).expect("linked");
    }
    let change = "echo evil >evil; ln -sf evil .envrc; rm .envrc; mv scripts s; rmdir a; \
                  ln -s evil scripts/new; mv scripts/new scripts/chain; mv .git g; \
                  echo evil >scripts/pre-commit; true";
    let first = format!("{change}; touch first; until_there second; {change}");
    let second = format!("{change}; touch second; until_there ended; {change}");
    let ran = overlap(&host, [&first, &second]);
    for path in [".git/hooks/pre-commit", ".envrc"] {
        assert_eq!(text(&host.workspace().join(path)), "good", "{path}: {ran:?}");
    }
    assert!(host.workspace().join("a").is_dir() && text(&hook) == "good", "{ran:?}");
    assert!(!ran.iter().any(|ran| ran.contains("withheld")), "{ran:?}");
    assert_none_is_noted(&host);
}

#[test]
fn what_two_calls_make_where_a_link_led_nowhere_is_not_executed() {
    let host = Host::new();
    host.write("workspace/.git/HEAD", "ref: refs/heads/a\n", 0o644);
    for dir in ["scripts", ".git/hooks", ".git/objects"] {
        fs::create_dir(host.workspace().join(dir)).expect("made");
    }
    let link = host.workspace().join(".git/hooks/pre-commit");
    symlink("../../scripts/pre-commit", &link).expect("linked");
    // The second call makes the same file that it found.
    let make = "ln scripts/evil scripts/pre-commit";
    let away = "touch first; until_there second; rm scripts/pre-commit";
    let first = format!("echo evil >scripts/evil; {make}; {away}");
    let ran = overlap(&host, [&first, &format!("touch second; until_there ended; {make}")]);
    assert!(!link.is_symlink() && link.with_extension("withheld").is_symlink(), "{ran:?}");
    assert_none_is_noted(&host);
}

#[test]
fn the_next_call_removes_what_a_killed_process_noted() {
    let host = Host::new();
    let mut killed = start(&host, "echo x >.envrc; touch first; until_there never");
    killed.wait_for(&host.workspace().join("first"));
    killed.signal(Signal::KILL);
    killed.wait();
    let calls = host.scratch().join("state/ikigai/calls");
    assert_eq!(fs::read_dir(&calls).expect("a directory").count(), 1);
    start(&host, "true").wait().expect_code(0);
    assert_none_is_noted(&host);
    // Nobody knows who made the file, and it may be the user's.
    assert_eq!(text(&host.workspace().join(".envrc")), "x\n");
}

#[test]
fn a_call_that_other_processes_cannot_know_says_so() {
    let host = Host::new();
    host.write("state/ikigai/calls", "a file", 0o600);
    start(&host, "true").wait().expect_code(0);
    let audit = host.run(["audit", "--json", "--tail", "1"]).expect_code(0);
    let places = audit.json()["level"]["places"].to_string();
    assert!(places.contains("do not know this call") && places.contains("calls"), "{audit}");
}
