//! What the kernel counts for all programs of a user, or of the machine, together: no tool uses it up, and
//! a call that has none of it left says so.

use std::env::{current_exe, var_os};
use std::process::{Command, Output, id};

use ikigai_host::exec::Exit;
use ikigai_host::policy::Sandbox;

use super::rig::{self, Rig};

/// Runs a host, which is one of the tests below, with so many open files. It is of a user of its own if this is
/// root, and of this user otherwise. `before` is a program that starts it.
fn host(name: &str, open_files: u64, before: &[&str]) -> Output {
    let mut command = if rig::started_as_root() {
        let user = (0x6000_0000 + id()).to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all"]);
        command
    } else {
        Command::new("env")
    };
    command
        .args(["prlimit", &format!("--nofile={open_files}:{open_files}")])
        .args(before)
        .arg(current_exe().expect("this program"))
        .args(["--exact", &format!("shared::{name}"), "--ignored"])
        .output()
        .expect("runs")
}

#[test]
fn a_call_that_cannot_be_handed_over_ends_with_the_reason() {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let intruder = rig.intruder();
    let intruder = intruder.to_str().expect("UTF-8");
    let ran = host("a_host_that_cannot_pass_descriptors", 64, &[intruder, "in-flight", "65"]);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
#[ignore = "runs inside another test"]
fn a_host_that_cannot_pass_descriptors() {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let outcome = rig.run(&rig.script("exit 0"), |_| {});
    let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
    assert!(reason.contains("passing more open files") && reason.contains("(64)"), "{reason}");
    assert_eq!(outcome.limit, None);
}
