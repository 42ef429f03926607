//! `ikigai audit --follow`: new records are shown, across rotations, until the command is
//! interrupted or its reader is gone.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use ikigai_tests::host::Host;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::log::nearly_full;
use super::script;

struct Follower {
    child: Child,
    lines: Option<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(host: &Host, args: &[&str]) -> Self {
        let mut command: Command = host.command();
        command.args(["audit", "--follow"]).args(args);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines: Some(lines) }
    }

    fn next(&mut self) -> String {
        let mut line = String::new();
        self.lines.as_mut().expect("still read").read_line(&mut line).expect("read");
        assert_ne!(line, "", "it ended");
        line
    }

    fn id(&mut self) -> String {
        let record: Value = serde_json::from_str(&self.next()).expect("JSON");
        record["id"].to_string()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // The process still runs only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_comes_is_shown_over_a_rotation_until_interrupted() {
    let host = script("echo 1");
    nearly_full(&host, 2000);
    let mut follower = Follower::start(&host, &["--json", "--tail", "2"]);
    let repeated = follower.id();
    assert_eq!(follower.id(), repeated);
    let mut seen = Vec::new();
    for _ in 0..5 {
        host.run(["tool", "call", "tool"]).expect_code(0);
        seen.push(follower.id());
    }
    assert!(host.state().join("audit.jsonl.1").exists(), "it was rotated");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5, "each once");
    kill_process(Pid::from_child(&follower.child), Signal::INT).expect("there");
    assert_eq!(follower.child.wait().expect("ended").code(), Some(130));
    host.assert_nothing_left();
}

#[test]
fn a_log_that_is_not_there_yet_is_followed_from_its_beginning() {
    let host = script("echo 1");
    let mut follower = Follower::start(&host, &["--tool", "absent"]);
    let heading = follower.next();
    assert!(heading.contains("TOOL") && heading.contains("OUTCOME"), "{heading}");
    host.run(["tool", "call", "tool"]).expect_code(0);
    host.run(["tool", "call", "absent"]).expect_code(1);
    let row = follower.next();
    assert!(row.contains("absent") && row.contains("TOOL_NOT_FOUND"), "{row}");
}

#[test]
fn it_ends_when_nobody_reads_it_although_nothing_comes() {
    let host = script("echo 1");
    host.run(["tool", "call", "tool"]).expect_code(0);
    let mut follower = Follower::start(&host, &["--json"]);
    follower.next();
    follower.lines = None;
    assert_eq!(follower.child.wait().expect("ended").code(), Some(1));
    let mut said = String::new();
    let mut stderr = follower.child.stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut stderr, &mut said).expect("read");
    assert_eq!(said, "");
}
