//! The file of the log: its owner and mode, appends by several hosts, and calls without a log.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Stdio;

use ikigai_tests::host::{Host, Ran};
use ikigai_tests::mode::permit;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use rustix::process::geteuid;

use super::{only, script};

/// Asserts that a call succeeds although it cannot be recorded, with one warning that contains
/// `warning`.
#[track_caller]
fn assert_goes_on(host: &Host, warning: &str) {
    let ran = host.run(["tool", "call", "tool"]).expect_code(0);
    assert_eq!(ran.json()["result"], 1, "{ran}");
    let warnings = ran.stderr().matches("calls are not recorded").count();
    assert!(warnings == 1 && ran.stderr().contains(warning), "{ran}");
}

#[test]
fn the_log_is_its_users_alone() {
    let host = script("echo 1");
    // With this umask, every user would have access.
    let mut shell = host.shell("umask 0; exec \"$0\" tool call tool");
    Ran::from_command(&mut shell, b"").expect_code(0);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(&host.audit_log()), 0o600);
    assert_eq!(mode(&host.state()), 0o700);
    host.run(["tool", "call", "tool"]).expect_code(0);
    assert_eq!(host.records().len(), 2);
}

#[test]
fn what_lies_in_the_logs_place_is_not_written_to() {
    let link = |path: &Path| {
        let target = path.with_file_name("target");
        fs::write(&target, "").expect("written");
        symlink(target, path).expect("linked");
    };
    let fifo = |path: &Path| {
        mknodat(CWD, path, FileType::Fifo, Mode::from(0o600), 0).expect("made");
    };
    let open_to_all = |path: &Path| {
        fs::write(path, "").expect("written");
        permit(path, 0o666);
    };
    let directory = |path: &Path| fs::create_dir(path).expect("made");
    type Spoil<'a> = &'a dyn Fn(&Path);
    let cases: [(Spoil<'_>, &str); 4] = [
        (&link, "link"),
        (&fifo, "not a regular file"),
        (&open_to_all, "another user"),
        (&directory, "directory"),
    ];
    for (make, said) in cases {
        let host = script("echo 1");
        fs::create_dir_all(host.state()).expect("made");
        let path = host.audit_log();
        make(&path);
        assert_goes_on(&host, said);
        // Reading the log is refused as well, with a hint.
        let ran = host.run(["audit"]).expect_code(1);
        assert!(ran.stderr().contains("hint: "), "{ran}");
        let target = host.state().join("target");
        assert!(!target.exists() || fs::read(target).expect("read").is_empty(), "written to");
    }
}

#[test]
fn a_file_of_another_user_is_not_written_to() {
    if !geteuid().is_root() {
        return;
    }
    let host = script("echo 1");
    fs::create_dir_all(host.state()).expect("made");
    let path = host.write("state/ikigai/audit.jsonl", "", 0o600);
    std::os::unix::fs::chown(&path, Some(12345), Some(12345)).expect("given away");
    assert_goes_on(&host, "another user");
    std::os::unix::fs::chown(&path, Some(0), Some(0)).expect("taken back");
    std::os::unix::fs::chown(host.state(), Some(12345), Some(12345)).expect("given away");
    assert_goes_on(&host, "another user");
}

#[test]
fn a_place_that_cannot_be_written_stops_no_call() {
    let host = script("echo 1").as_nobody();
    let state = host.scratch().join("state");
    fs::create_dir_all(&state).expect("made");
    permit(&state, 0o555);
    assert_goes_on(&host, "Permission denied");
    permit(&state, 0o755);

    let host = script("echo 1");
    host.write("state", "a file where a directory should be", 0o644);
    assert_goes_on(&host, "");
    let host = script("echo 1");
    let mut command = host.command();
    let ran = Ran::from_command(
        command
            .env_remove("XDG_STATE_HOME")
            .env("HOME", "relative")
            .args(["tool", "call", "absent"]),
        b"",
    );
    assert!(ran.expect_code(1).stderr().contains("set HOME or XDG_STATE_HOME"));
}

/// Runs a script with the log on a disk of a few pages. Returns `None` if this machine cannot mount
/// such a disk.
fn on_a_small_disk(host: &Host, script: &str) -> Option<Ran> {
    let mut command = host.command_of("unshare");
    let disk = host.scratch().join("state");
    fs::create_dir_all(&disk).expect("made");
    let mount = "mount -t tmpfs -o size=16k tmpfs \"$1\" || exit 99";
    command.args(["-Urm", "sh", "-c", &format!("{mount}; {script}"), "sh"]);
    command.arg(&disk).arg(host.command().get_program());
    let works = std::process::Command::new("unshare").args(["-Urm", "true"]).output();
    works.is_ok_and(|output| output.status.success()).then(|| Ran::from_command(&mut command, b""))
}

#[test]
fn a_full_disk_stops_no_call_and_leaves_no_half_line() {
    let host = script("echo 1");
    // A user namespace with only one user has no second user for the sandbox.
    host.run(["policy", "grant", "tool", "--unconfined"]).expect_code(0);
    let calls = "chmod 700 \"$1\"; i=0; while [ $i -lt 40 ]; do \"$2\" tool call tool || exit 98; \
                 i=$((i + 1)); done; echo ---; cat \"$1/ikigai/audit.jsonl\"";
    let Some(ran) = on_a_small_disk(&host, calls) else {
        return ikigai_tests::impossible_here("no user namespace to mount a small disk in");
    };
    let ran = ran.expect_code(0);
    let stdout = ran.stdout();
    let (answers, log) = stdout.split_once("---\n").expect("both");
    assert_eq!(answers.matches("\"tool_success\":true").count(), 40, "{ran}");
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.len() > 2 && lines.len() < 40 && log.ends_with('\n'), "{ran}");
    for line in &lines {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "torn: {line}");
    }
    let unrecorded = ran.stderr().matches("calls are not recorded").count();
    assert_eq!(unrecorded, 40 - lines.len(), "each host says it once\n{ran}");
    assert!(ran.stderr().contains("No space left on device"), "{ran}");
}

#[test]
fn a_lock_that_is_held_forever_holds_no_call() {
    let host = script("echo 1");
    host.run(["tool", "call", "tool"]).expect_code(0);
    let holder = fs::File::open(host.audit_log()).expect("opened");
    flock(&holder, FlockOperation::LockExclusive).expect("locked");
    let ran = host.run(["tool", "call", "tool"]).expect_code(0);
    assert_eq!(ran.stderr().matches("is locked by another process").count(), 1, "{ran}");
    drop(holder);
    assert_eq!(host.run(["tool", "call", "tool"]).expect_code(0).stderr(), "");
    assert_eq!(host.records().len(), 3);
}

#[test]
fn a_line_that_a_crash_left_is_not_continued() {
    let host = script("echo 1");
    fs::create_dir_all(host.state()).expect("made");
    host.write("state/ikigai/audit.jsonl", "{\"time\":\"20", 0o600);
    host.run(["tool", "call", "tool"]).expect_code(0);
    let ran = host.run(["audit", "--json"]).expect_code(0);
    assert_eq!(ran.stdout().lines().count(), 1, "{ran}");
    assert!(ran.stderr().contains("1 line of the audit log is damaged"), "{ran}");
}

/// Fills the log with records, so that only `left` bytes fit before its rotation, and returns their
/// number.
pub(super) fn nearly_full(host: &Host, left: usize) -> usize {
    host.run(["tool", "call", "tool"]).expect_code(0);
    let mut line = only(host).to_string();
    line.push('\n');
    let count = (ikigai_host::audit::ROTATED_AT as usize - left) / line.len();
    let mut log = OpenOptions::new();
    let mut log = log.append(true).open(host.audit_log()).expect("opened");
    std::io::Write::write_all(&mut log, line.repeat(count - 1).as_bytes()).expect("written");
    count
}

#[test]
fn many_hosts_append_at_once_and_rotate_and_nothing_is_torn_or_lost() {
    const HOSTS: usize = 4;
    const CALLS: usize = 25;
    let host = script("echo 1");
    // Only some of the following calls fit before the rotation.
    let before = nearly_full(&host, HOSTS * CALLS * 300);
    std::thread::scope(|scope| {
        for _ in 0..HOSTS {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    let mut command = host.command();
                    command.args(["tool", "call", "tool"]).stdin(Stdio::null());
                    let output = command.output().expect("runs");
                    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
                }
            });
        }
    });
    let rotated = host.state().join("audit.jsonl.1");
    assert!(rotated.exists(), "it was rotated");
    let ran = host.run(["audit", "--json", "--until", "2999-01-01"]).expect_code(0);
    assert_eq!(ran.stderr(), "", "nothing is damaged");
    let count = before + HOSTS * CALLS;
    assert_eq!(ran.stdout().lines().count(), count);
    let ids: BTreeSet<String> = ran
        .stdout()
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["id"].to_string()
        })
        .collect();
    assert_eq!(ids.len(), 1 + HOSTS * CALLS, "the first was repeated by this test");
}
