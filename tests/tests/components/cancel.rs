//! The end of the host itself, by an interruption or by SIGKILL. It ends every process that the
//! host started.

use std::time::{Duration, Instant};

use ikigai_tests::component::{Ending, heavy, printing};
use ikigai_tests::host::{Host, schema};
use ikigai_tests::leftovers;
use rustix::process::Signal;
use serde_json::json;

/// The time in which an interrupted command ends, even on a very busy machine. Without the
/// interruption it would take at least a minute.
const SOON: Duration = Duration::from_secs(20);

/// The CPU time from which a guest counts as spinning, in ticks of 10 ms.
const BUSY: u64 = 50;

/// Installs a script that creates the file `began`, starts children of every kind, and never ends.
fn endless(host: &Host) {
    let began = host.workspace().join("began");
    let body = format!(
        "(setsid sh -c 'trap \"\" HUP INT TERM; sleep 1000; sleep 1000' &)\nsleep 1000 & touch '{}'; wait; sleep 1000",
        began.display()
    );
    host.script("endless", &body);
}

#[test]
fn an_interrupted_call_ends_with_all_that_it_started() {
    for signal in [Signal::INT, Signal::TERM] {
        for how in [["call", "endless"], ["run", "endless"]] {
            let host = Host::without_system_tools();
            endless(&host);
            let mut running = host.start([&["tool"], &how[..]].concat());
            running.wait_for(&host.workspace().join("began"));
            running.signal(signal);
            let begun = Instant::now();
            let ran = running.wait().expect_code(130);
            assert!(begun.elapsed() < SOON, "{ran}");
            host.assert_nothing_left();
            if how[0] == "call" {
                assert_eq!(ran.json()["error"], "Tool 'endless' was cancelled", "{ran}");
            }
        }
    }
}

#[test]
fn what_a_command_printed_before_it_was_ended_is_in_the_answer() {
    let host = Host::new();
    // The output is larger than a pipe's buffer, so its beginning was read before `began` exists.
    let command = "head -c 300000 /dev/zero | tr '\\0' x; touch began; sleep 1000";
    let arguments = json!({ "command": command }).to_string();
    let mut running = host.start(["tool", "call", "--backend", "native", "bash", &arguments]);
    running.wait_for(&host.workspace().join("began"));
    running.signal(Signal::INT);
    let ran = running.wait().expect_code(130);
    let stdout = ran.json()["stdout"].as_str().map(ToOwned::to_owned).expect("what was printed");
    assert!(stdout.starts_with(r#"{"output":"xxx"#), "{ran}");
}

#[test]
fn an_interrupted_component_ends() {
    let host = Host::without_system_tools();
    host.guest("greedy");
    host.run(["tool", "call", "greedy", r#"{"mode":"fine"}"#]).expect_code(0);
    for (mode, ticks) in [("spin", BUSY), ("sleep", 0)] {
        let arguments = format!("{{\"mode\":\"{mode}\"}}");
        let mut running = host.start(["tool", "call", "greedy", &arguments]);
        running.wait_until_it_catches(Signal::INT);
        running.wait_until_busy(ticks.max(1));
        running.signal(Signal::INT);
        let begun = Instant::now();
        let ran = running.wait().expect_code(130);
        assert!(begun.elapsed() < SOON, "{ran}");
        host.assert_nothing_left();
    }
}

#[test]
fn an_interruption_does_not_wait_for_discovery_or_compilation() {
    let host = Host::without_system_tools();
    // The compilation takes long enough to be interrupted.
    host.program("heavy.wasm", heavy(&schema("heavy"), 100_000));
    let path = host.user_tools().join("heavy.wasm");
    let path = path.to_str().expect("UTF-8");
    let compiles = || {
        leftovers::list(host.scratch()).iter().any(|process| process.contains("ikigai-compiler"))
    };
    for how in [["call", "heavy"], ["run", "heavy"], ["run", path]] {
        let mut running = host.start([&["tool"], &how[..]].concat());
        running.wait_until("the component is compiled", compiles);
        running.signal(Signal::INT);
        let ran = running.wait();
        assert_eq!(ran.code(), Some(130), "{ran}");
        assert_eq!(ran.stdout(), "", "it was compiled to its end\n{ran}");
        host.assert_nothing_left();
    }
    let mut running = host.start(["tool", "list"]);
    running.wait_until("the component is compiled", compiles);
    running.signal(Signal::INT);
    assert_ne!(running.wait().code(), Some(0));
    host.assert_nothing_left();
    // A compilation also ends if the host is killed.
    let mut running = host.start(["tool", "list"]);
    running.wait_until("the component is compiled", compiles);
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code(), None);
    host.assert_nothing_left();
}

#[test]
fn a_list_that_is_interrupted_leaves_no_tool_running() {
    let host = Host::without_system_tools();
    let hangs = host.program("hangs", "#!/bin/sh\n(setsid sleep 1000 &)\nsleep 1000\n");
    // A tool that is asked for its schema cannot create a file, so the test looks for its process.
    let command = format!(": /bin/sh {}", hangs.display());
    let runs = || leftovers::list(host.scratch()).iter().any(|process| process.contains(&command));
    host.program("spins.wasm", printing("", Ending::Spin));
    for how in [&["list"][..], &["call", "absent"], &["check", hangs.to_str().expect("UTF-8")]] {
        let mut running = host.start([&["tool"], how].concat());
        running.wait_until("the tool runs", runs);
        running.signal(Signal::INT);
        assert_ne!(running.wait().code(), Some(0));
        host.assert_nothing_left();
    }
}

#[test]
fn a_host_that_is_killed_takes_its_tools_with_it() {
    for how in ["call", "run"] {
        let host = Host::without_system_tools();
        endless(&host);
        let mut running = host.start(["tool", how, "endless"]);
        running.wait_for(&host.workspace().join("began"));
        running.signal(Signal::KILL);
        assert_eq!(running.wait().code(), None);
        host.assert_nothing_left();
    }
    // The same without privilege and without a PID namespace.
    let host = Host::without_system_tools();
    endless(&host);
    let host = host.as_nobody();
    let mut running = host.start(["tool", "call", "endless"]);
    running.wait_for(&host.workspace().join("began"));
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code(), None);
    host.assert_nothing_left();
}

#[test]
fn a_call_without_rights_of_its_own_leaves_nothing_either() {
    let host = Host::without_system_tools();
    endless(&host);
    host.script(
        "leaves",
        "(setsid sh -c 'trap \"\" HUP INT TERM; sleep 1000; sleep 1000' &); echo 1",
    );
    let host = host.as_nobody();
    host.run(["tool", "call", "leaves", "{}"]).expect_code(0);
    host.assert_nothing_left();
    let ran = host.run(["--timeout", "1s", "tool", "call", "endless", "{}"]).expect_code(1);
    assert_eq!(ran.json()["limit"], "wall_clock", "{ran}");
    host.assert_nothing_left();
}
