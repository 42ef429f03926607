//! Resources that the kernel counts for all programs of a user or of the machine together. No tool
//! can use them up, and a call that finds none left reports that.

use std::env::current_exe;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, id};
use std::thread;

use ikigai_host::exec::Exit;
use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::limits::Limit;
use ikigai_host::policy::Sandbox;

use super::limits::{Guard, attack};
use super::rig::{self, Rig, each_user, text};

/// Runs one of the ignored tests below as a host, with a limit of `open_files`. If this is root,
/// the host runs as a separate user, otherwise as this user.
///
/// The separate user may pass through every directory, since root's target directory may be closed
/// to others. The kernel's count of descriptors ignores this capability. `before` is a program that
/// starts the host.
fn host(name: &str, open_files: u64, before: &[&str]) -> Output {
    let mut command = if rig::started_as_root() {
        let user = (0x6000_0000 + id()).to_string();
        let mut command = Command::new("setpriv");
        let pass = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"];
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).args(pass);
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

#[test]
fn no_tool_keeps_its_host_from_passing_descriptors() {
    let ran = host("a_host_beside_a_tool_that_passes_descriptors", 1024, &[]);
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
#[ignore = "runs inside another test"]
fn a_host_beside_a_tool_that_passes_descriptors() {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let alive = rig.fifo();
    rig.intruder();
    let greedy = rig.script("exec 9>alive; ./intruder fill-flight >said; echo x >&9; sleep 1000");
    let outcome = rig.run_until(&greedy, alive.first_byte(), |call| {
        let outcome = thread::scope(|scope| {
            let beside = scope.spawn(|| rig.run(Path::new("/bin/true"), |_| {}));
            beside.join().expect("no panic")
        });
        assert_eq!(outcome.exit, Exit::Code(0), "{outcome:?}");
        call.cancel.cancel();
    });
    assert!(outcome.cancelled, "{outcome:?}");
    let said = fs::read_to_string(rig.path("said")).expect("written");
    assert!(said.contains("Too many references"), "it passed as many as it could: {said}");
}

#[test]
fn a_call_has_a_part_of_the_inotify_of_its_user() {
    each_user(Sandbox::Require, |rig| {
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").expect("told");
        let most: u64 = most.trim().parse().expect("a number");
        // The share is smaller than the number of descriptors that a process may have.
        if most / 8 > 900 {
            ikigai_tests::impossible_here("a share of inotify that a tool could exceed");
            return;
        }
        let outcome = attack(rig, "inotify 1000 leave", 60, 64);
        assert_eq!(outcome.stdout.total, most / 8, "{outcome:?}");
        assert!(text(&outcome.stderr).contains("Too many open files"), "{outcome:?}");
    });
}

#[test]
fn the_processes_of_a_call_share_its_open_files() {
    each_user(Sandbox::Require, |rig| {
        let outcome = rig.run(&rig.script("ulimit -Hn"), |call| call.limits.processes = 1024);
        assert_eq!(text(&outcome.stdout), "256\n", "{outcome:?}");
    });
}

#[test]
fn a_call_has_a_part_of_the_signals_of_its_user() {
    let most = |limits: &str| {
        let line =
            limits.lines().find(|it| it.starts_with("Max pending signals")).expect("a limit");
        line.split_whitespace().nth(3).expect("a number").parse::<u64>().expect("a number")
    };
    let own = most(&fs::read_to_string("/proc/self/limits").expect("told"));
    each_user(Sandbox::Require, |rig| {
        let outcome = rig.run(&rig.script("cat /proc/self/limits"), |_| {});
        assert_eq!(most(text(&outcome.stdout)), own / 8, "{outcome:?}");
    });
}

/// Checks files that no descriptor shows, because they are only mapped.
#[test]
fn open_files_of_the_machine_are_not_used_up_by_mappings() {
    let _guard = Guard::new();
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Prefer);
    let rig = rig.lacking(OmittedLayers { cgroups: true, ..OmittedLayers::default() });
    for way in ["mapped-files 40", "mapped-files-of-the-hidden 40"] {
        let outcome = attack(&rig, way, 60, 1024);
        assert_eq!(outcome.limit, Some(Limit::Memory), "{way}: {outcome:?}");
    }
}
