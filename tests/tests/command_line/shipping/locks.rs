//! Locks that cannot be read, and that no command overwrites.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::shipping::scene::*;

/// Runs every command that reads the lock. Each must refuse it and leave it unchanged.
#[track_caller]
fn all_refuse(text: impl Fn(&str) -> String, texts: &[&str]) {
    let (host, path) = installed();
    let broken = text(&lock_text(&host));
    fs::write(lock(&host), &broken).expect("written");
    fs::write(&path, weather("1.1.0")).expect("written");
    let path = path.to_str().expect("UTF-8");
    for args in [
        &["tool", "install", path, "--replace", "--yes", "--grant"][..],
        &["tool", "update", "--yes"],
        &["tool", "outdated"],
        &["tool", "verify"],
        &["tool", "remove", "weather", "--yes"],
    ] {
        refused(&host, args, 2, texts);
        assert_eq!(lock_text(&host), broken, "{args:?}");
    }
}

fn duplicate(text: &str) -> String {
    let (_, entry) = text.split_once("\n\n").expect("an entry");
    format!("{text}\n{entry}")
}

#[test]
fn a_tool_that_is_locked_twice_is_told_with_both_lines() {
    let second = "user-tools.lock:13:";
    all_refuse(
        duplicate,
        &[second, "`weather` is locked twice", "of line 4", "ikigai does not overwrite it"],
    );
}

#[test]
fn the_marks_of_a_conflict_are_told_with_their_line() {
    let conflict = |text: &str| {
        format!("{text}<<<<<<< HEAD\nversion = 1\n=======\nversion = 1\n>>>>>>> other\n")
    };
    all_refuse(
        conflict,
        &["user-tools.lock:11:1: has the marks of a conflict of git", "merge both sides by hand"],
    );
}

#[test]
fn a_lock_of_a_newer_ikigai_or_with_unknown_keys_is_left_alone() {
    let newer = |text: &str| text.replacen("version = 1", "version = 2", 1);
    all_refuse(newer, &["user-tools.lock:1:", "`version = 2` needs a newer ikigai"]);
    all_refuse(
        |text| text.replace("signer =", "signr ="),
        &["unknown key `signr`", "did you mean `signer`?"],
    );
    all_refuse(
        |text| text.replace("signer = \"none\"", "signer = \"mallory\""),
        &["does not name a signer"],
    );
    all_refuse(|_| "\u{0}".to_owned(), &["user-tools.lock:"]);
}

#[test]
fn a_lock_that_is_no_file_is_not_waited_for() {
    let (host, path) = installed();
    fs::remove_file(lock(&host)).expect("removed");
    fs::create_dir(lock(&host)).expect("a directory");
    let ran = install(&host, &path).expect_code(2);
    assert!(error(&ran).contains("cannot read the lock"), "{ran}");
    answers(&host, "1.0.0");
}

/// A workspace's lock is part of a repository, where merge conflicts happen.
#[test]
fn a_lock_of_a_workspace_is_not_written_over_either() {
    let (host, path) = installed();
    install_with(&host, &path, &["--in-workspace", "--replace"]).expect_code(0);
    let lock = host.workspace().join(".ikigai/tools.lock");
    let mode = fs::metadata(&lock).expect("a lock").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o644, "it is for everybody who works there");
    let text = fs::read_to_string(&lock).expect("a lock");
    fs::write(&lock, duplicate(&text)).expect("written");
    let path = path.to_str().expect("UTF-8");
    for args in [
        &["tool", "install", path, "--in-workspace", "--yes"][..],
        &["tool", "update", "--yes", "--in-workspace"],
        &["tool", "sync", "--yes"],
        &["tool", "sync", "--locked", "--yes"],
        &["tool", "outdated", "--in-workspace"],
        &["tool", "verify", "--in-workspace"],
        &["tool", "remove", "weather", "--in-workspace", "--yes"],
    ] {
        refused(&host, args, 2, &[".ikigai/tools.lock:13:", "`weather` is locked twice"]);
    }
    assert_eq!(fs::read_to_string(Path::new(&lock)).expect("a lock"), duplicate(&text));
}

/// A user who can write to a workspace can replace its lock by anything.
#[test]
fn a_lock_of_a_workspace_that_is_a_pipe_holds_nobody() {
    let (host, _) = installed();
    let dir = host.workspace().join(".ikigai");
    fs::create_dir_all(&dir).expect("made");
    let made = mknodat(CWD, dir.join("tools.lock"), FileType::Fifo, Mode::RUSR, 0);
    made.expect("a pipe");
    let ran = host.run(["tool", "list"]).expect_code(0);
    assert!(ran.stderr().contains("warning: no tool of this workspace is offered: "), "{ran}");
    let ran = host.run(["tool", "sync", "--yes"]).expect_code(2);
    assert!(ran.stderr().contains("tools.lock`: it is not a file"), "{ran}");
}
