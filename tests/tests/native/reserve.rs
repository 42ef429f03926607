//! Supervisors in reserve. A call takes one, an unusable one is replaced, and none outlives its
//! host.

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ikigai_host::exec::native::{NativeProgram, Supervisor};
use ikigai_host::exec::{Call, Executor, Exit, Outcome};
use ikigai_host::policy::Sandbox;
use ikigai_supervisor::process_tree;
use ikigai_tests::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};

use crate::rig::{self, Rig, text};

/// A host that keeps one supervisor in reserve.
struct Host {
    rig: Rig,
    supervisor: Supervisor,
    runtime: Runtime,
}

impl Host {
    fn new() -> Self {
        Self::with(Sandbox::Require)
    }

    fn with(sandbox: Sandbox) -> Self {
        Self::over(ikigai_tests::paths::supervisor(), sandbox)
    }

    /// Returns a host that starts the supervisor at `path`.
    fn over(path: PathBuf, sandbox: Sandbox) -> Self {
        let rig = Rig::new(path.clone(), sandbox);
        // A thread other than the test's reaps the supervisors of ended calls.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let supervisor = Supervisor::new(Some(path), 1);
        Self { rig, supervisor, runtime: runtime.expect("a runtime") }
    }

    fn call(&self, tool: &Path) -> impl Future<Output = Outcome> + use<> {
        NativeProgram::new(tool, self.supervisor.clone()).run(self.rig.call())
    }

    /// Runs a tool that prints `ok` on stdout and `why` on stderr.
    fn attempt(&self) -> Outcome {
        self.runtime.block_on(self.call(&self.rig.script("echo ok; echo why >&2")))
    }

    /// Runs a tool, and checks its answer.
    fn run(&self) {
        let outcome = self.attempt();
        assert_eq!((&outcome.exit, text(&outcome.stdout)), (&Exit::Code(0), "ok\n"), "{outcome:?}");
        assert_eq!(text(&outcome.stderr), "why\n");
    }

    /// Runs a tool, and returns the supervisor that waits for the next call.
    fn run_and_refill(&self) -> Pid {
        self.run();
        let look = || (rig::child_processes(), is_being_filled());
        let what = "one supervisor waits, and no other is left";
        let (children, _) = eventually(what, look, |(children, is_filled)| {
            !is_filled && children.len() == 1 && waits(children[0])
        });
        children[0]
    }
}

/// Returns whether a thread of this process is filling a reserve. A supervisor that it has started
/// may not be in the reserve yet.
fn is_being_filled() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc is mounted").flatten();
    let names = threads.filter_map(|thread| std::fs::read(thread.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim_ascii_end() == b"ikigai-reserve")
}

/// Returns whether this child is a waiting supervisor. A supervisor in a call has the tool's
/// stderr.
fn waits(child: Pid) -> bool {
    let stderr = std::fs::read_link(format!("/proc/{}/fd/2", child.as_raw_nonzero()));
    stderr.is_ok_and(|stderr| stderr == Path::new("/dev/null"))
}

#[test]
fn a_call_takes_the_supervisor_that_waits() {
    let host = Host::new();
    let waiting = host.run_and_refill();
    let alive = host.rig.fifo();
    let tool = host.rig.script("exec 9>alive; echo x >&9; cat >/dev/null; sleep 1000");
    let call: Call = host.rig.call();
    let running = NativeProgram::new(tool, host.supervisor.clone()).run(call.clone());
    let first = alive.first_byte();
    let outcome = host.runtime.block_on(async {
        let reaction = async {
            first.wait_aside().await;
            let tree = process_tree::descendants(waiting).expect("a list");
            call.cancel.cancel();
            assert!(!tree.is_empty(), "it has not started the tool");
        };
        tokio::join!(running, reaction).0
    });
    assert!(outcome.cancelled, "{outcome:?}");
    eventually("another one has taken its place", rig::child_processes, |children| {
        children.iter().any(|child| *child != waiting && waits(*child))
    });
}

#[test]
fn one_that_was_killed_or_stopped_meanwhile_delays_no_call() {
    let host = Host::new();
    let waiting = host.run_and_refill();
    kill_process(waiting, Signal::KILL).expect("killed");
    // A supervisor that died while a call takes it would count as killed during the call.
    wait_for_end(waiting);
    kill_process(host.run_and_refill(), Signal::STOP).expect("stopped");
    // A request to end that arrives before the call, but is noticed together with it, does not
    // apply to the call.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let waiting = host.run_and_refill();
        // Before it waits, a request to end has its default action.
        eventually("the supervisor waits", || sleeps_in_poll(waiting), |waits| *waits);
        kill_process(waiting, Signal::STOP).expect("stopped");
        kill_process(waiting, signal).expect("sent");
    }
    host.run_and_refill();
}

/// Returns the init that waits in its namespaces for this supervisor's work.
fn init_of(waiting: Pid) -> Pid {
    let find = || {
        let tree = process_tree::descendants(waiting).expect("a list");
        tree.iter().find(|it| !it.has_ended() && sleeps_in_poll(it.pid)).map(|it| it.pid)
    };
    eventually("an init waits", find, Option::is_some).expect("found")
}

/// Returns whether a process waits in poll(2).
fn sleeps_in_poll(pid: Pid) -> bool {
    let call = std::fs::read_to_string(format!("/proc/{}/syscall", pid.as_raw_nonzero()));
    let number = call.ok().and_then(|call| call.split(' ').next()?.parse::<i64>().ok());
    let polls = [
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        libc::SYS_ppoll,
    ];
    number.is_some_and(|number| polls.contains(&number))
}

#[test]
fn an_init_that_was_killed_or_stopped_meanwhile_delays_no_call() {
    // Without a sandbox only root has a PID namespace.
    let unconfined = rig::started_as_root().then_some(Sandbox::Off);
    for sandbox in [Sandbox::Require].into_iter().chain(unconfined) {
        let host = Host::with(sandbox);
        let init = init_of(host.run_and_refill());
        kill_process(init, Signal::KILL).expect("killed");
        wait_for_end(init);
        kill_process(init_of(host.run_and_refill()), Signal::STOP).expect("stopped");
        // A signal that was sent before the call does not apply to the call.
        kill_process(init_of(host.run_and_refill()), Signal::TERM).expect("sent");
        host.run_and_refill();
    }
}

/// A supervisor needs descriptors for the files that it opens, and receives its call's descriptors.
/// If it has too few, it runs a tool exactly as requested or not at all.
#[test]
fn one_that_is_starved_of_descriptors_runs_no_tool_with_less_than_it_was_asked_for() {
    let place = tempfile::tempdir().expect("a directory");
    let beside = |name: &str| place.path().join(name);
    fs::copy(ikigai_tests::paths::supervisor(), beside("supervisor")).expect("copied");
    fs::copy(env!("CARGO_BIN_EXE_starved"), beside("starved")).expect("copied");
    for sandbox in [Sandbox::Require, Sandbox::Off] {
        let (mut served, mut refused) = (0, 0);
        for most in [4, 5, 6, 8, 10, 12, 16, 24, 64, 256] {
            fs::write(beside("descriptors"), most.to_string()).expect("written");
            let host = Host::over(beside("starved"), sandbox);
            // The first supervisor is started for the call, and the second may come from the
            // reserve.
            for _ in 0..2 {
                let outcome = host.attempt();
                match (&outcome.exit, text(&outcome.stdout)) {
                    (Exit::Code(0), "ok\n") => served += 1,
                    (Exit::Code(0), _) | (_, "ok\n") => panic!("with {most}: {outcome:?}"),
                    _ => refused += 1,
                }
            }
            drop(host);
            // The thread that fills the reserve may have started a supervisor after the host was
            // dropped.
            wait_for_none();
        }
        assert!(served > 0 && refused > 0, "{served} served, {refused} refused");
    }
}

/// A host continues to use the program that it has opened, which understands its plans. A program
/// that an update has installed in the meantime may not.
#[test]
fn one_that_is_older_than_the_program_on_disk_serves_its_host() {
    let place = tempfile::tempdir().expect("a directory");
    let program = place.path().join("ikigai-supervisor");
    fs::copy(ikigai_tests::paths::supervisor(), &program).expect("copied");
    let host = Host::over(program.clone(), Sandbox::Require);
    let waiting = host.run_and_refill();
    let newer = place.path().join("newer");
    // This program serves no call of this version.
    fs::copy("/bin/false", &newer).expect("copied");
    fs::rename(&newer, &program).expect("replaced");
    // The calls use the waiting supervisor, its replacement, and one that is started for its call.
    let next = host.run_and_refill();
    assert_ne!(next, waiting);
    let killed = host.run_and_refill();
    kill_process(killed, Signal::KILL).expect("killed");
    wait_for_end(killed);
    host.run_and_refill();
    // A host that starts now uses the new program.
    let later = Host::over(program, Sandbox::Require).attempt();
    assert_ne!(later.exit, Exit::Code(0), "{later:?}");
}

/// A mount hides everything beneath it, even from a tool whose namespaces are older.
#[test]
fn a_tool_sees_what_was_mounted_since_its_namespaces_were_made() {
    let mut unshare = Command::new("unshare");
    // In a container, the machine's mounts do not propagate into a namespace.
    unshare.args(["--mount", "--propagation", "private"]);
    if !rig::started_as_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    let program = std::env::current_exe().expect("this program");
    let output = unshare
        .arg(program)
        .args(["--exact", "reserve::a_host_that_mounts_for_another_test"])
        .args(["--ignored", "--nocapture"])
        .output()
        .expect("starts");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

/// Not a test: the host of another test, in a separate mount namespace.
#[test]
#[ignore = "runs inside another test"]
fn a_host_that_mounts_for_another_test() {
    for sandbox in [Sandbox::Prefer, Sandbox::Off] {
        let host = Host::with(sandbox);
        let place = host.rig.workspace().join("place");
        std::fs::create_dir(&place).expect("made");
        std::fs::write(place.join("kept"), "kept from the tool").expect("written");
        let look = host.rig.file("look", "#!/bin/sh\nls place\n", 0o755);
        let seen = || text(&host.runtime.block_on(host.call(&look)).stdout).to_owned();
        assert_eq!(seen(), "kept\n");
        init_of(host.run_and_refill());
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&place).status();
        assert!(mounted.expect("starts").success());
        assert_eq!(seen(), "");
        init_of(host.run_and_refill());
        assert!(Command::new("umount").arg(&place).status().expect("starts").success());
        assert_eq!(seen(), "kept\n");
    }
}

/// A request to end takes effect at once. If it were kept until a call has the supervisor, it would
/// end that call.
#[test]
fn one_that_is_asked_to_end_ends() {
    let host = Host::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let waiting = host.run_and_refill();
        kill_process(waiting, signal).expect("sent");
        wait_for_end(waiting);
    }
    host.run_and_refill();
}

#[test]
fn a_supervisor_that_cannot_run_leaves_no_process_and_no_thread() {
    let rig = Rig::new(ikigai_tests::paths::supervisor(), Sandbox::Require);
    let supervisor = Supervisor::new(Some("/bin/true".into()), 2);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for _ in 0..3 {
        let call = NativeProgram::new(rig.script("echo ok"), supervisor.clone()).run(rig.call());
        let outcome = runtime.block_on(call);
        assert_ne!(outcome.exit, Exit::Code(0), "{outcome:?}");
    }
    drop(runtime);
    drop(supervisor);
    wait_for_none();
}

#[test]
fn none_is_left_when_the_last_handle_is_dropped() {
    let host = Host::new();
    let waiting = host.run_and_refill();
    // Once the init waits, the supervisor's groups exist, since it makes them before its
    // namespaces.
    init_of(waiting);
    let Host { supervisor, runtime, .. } = host;
    drop(runtime);
    let own = format!("ikigai-supervisor-{}-", waiting.as_raw_nonzero());
    let groups = || {
        let controllers = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        let trees = controllers.map(|it| it.path()).flat_map(directories);
        trees.filter(|it| it.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&own)))
    };
    // If the machine allows groups, the supervisor has made them.
    let had = groups().count();
    drop(supervisor);
    assert_eq!(rig::children(), 0);
    assert_eq!(groups().count(), 0, "of {had}");
}

/// Returns the directories in a directory, recursively.
fn directories(place: std::path::PathBuf) -> Vec<std::path::PathBuf> {
    let inside = std::fs::read_dir(place).into_iter().flatten().flatten().map(|it| it.path());
    inside
        .filter(|it| it.is_dir())
        .flat_map(|it| [vec![it.clone()], directories(it)].concat())
        .collect()
}

/// A host with a supervisor in reserve is killed. Only the end of the socket tells the supervisor.
#[test]
fn none_outlives_a_host_that_is_killed() {
    let mut host = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "reserve::a_host_for_another_test", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(host.stdout.take().expect("a pipe")).lines();
    let waiting = lines.map(|line| line.expect("text")).find_map(|line| {
        line.split_once("waiting: ").map(|(_, pid)| pid.parse::<i32>().expect("a number"))
    });
    let waiting = Pid::from_raw(waiting.expect("its number")).expect("a number");
    assert!(!has_ended(waiting));
    host.kill().expect("killed");
    host.wait().expect("reaped");
    wait_for_end(waiting);
}

/// Not a test: the host that another test kills.
#[test]
#[ignore = "runs inside another test"]
#[allow(clippy::print_stdout, reason = "the other test reads it")]
fn a_host_for_another_test() {
    let host = Host::new();
    println!("waiting: {}", host.run_and_refill().as_raw_nonzero());
    // This waits until the process is killed.
    let _ = std::io::stdin().lines().next();
}

/// Waits until no supervisor is left, and none is being started.
#[track_caller]
fn wait_for_none() {
    let look = || (is_being_filled(), rig::child_processes());
    eventually("no supervisor is left", look, |(is_filled, left)| !is_filled && left.is_empty());
}

#[track_caller]
fn wait_for_end(pid: Pid) {
    eventually(&format!("process {pid:?} has ended"), || has_ended(pid), |ended| *ended);
}

/// Returns whether a process, which may have any parent, is gone or a zombie.
fn has_ended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.ok()
        .and_then(|stat| Some(stat.rsplit_once(')')?.1.trim_start().starts_with('Z')))
        .unwrap_or(true)
}
