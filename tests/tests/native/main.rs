//! The native executor against hostile and unlucky tools, through its public interface.
//!
//! Each case runs as root and as a user without privileges, or only as the latter if this is not
//! root. Root has a PID namespace even without a sandbox.
//!
//! A tool opens a FIFO that all its processes inherit. So the end of the FIFO shows that none of
//! them is left, and no test has to guess from the time.

#![cfg(target_os = "linux")]

mod attacks;
mod confined;
mod files;
mod hidden;
mod limits;
mod mounts;
mod own_sockets;
#[path = "../components/network/rig.rs"]
#[allow(dead_code, reason = "the rest of it is for components")]
mod peers;
mod places;
mod relay;
mod reserve;
mod rig;
mod shared;
mod tls;
mod watched;

use std::cell::Cell;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::exec::output::Sink;
use ikigai_host::exec::{Exit, Stdin};
use ikigai_host::limits::{CallLimits, Limit};
use ikigai_host::policy::Sandbox;
use ikigai_supervisor::isolation::LimitEnforcer;
use rig::{Rig, each_mode, each_user, text};

#[test]
fn the_output_and_the_exit_of_a_tool_arrive_exactly() {
    each_mode(|rig| {
        let tool = rig.script("cat; echo problem >&2; exit 7");
        let outcome =
            rig.run(&tool, |call| call.stdin = Stdin::Bytes(Bytes::from_static(b"{\"a\":1}")));
        assert_eq!(outcome.exit, Exit::Code(7), "{outcome:?}");
        assert_eq!((text(&outcome.stdout), text(&outcome.stderr)), ("{\"a\":1}", "problem\n"));
        assert_eq!((outcome.limit, outcome.cancelled), (None, false));
        assert!(outcome.usage.peak_memory.is_some_and(|peak| peak > 100_000), "{outcome:?}");
        assert!(outcome.usage.duration > Duration::ZERO);
    });
}

#[test]
fn every_signal_is_reported_as_itself() {
    each_mode(|rig| {
        let tool = rig.script("kill -$1 $$; sleep 1000");
        for signal in ["HUP", "INT", "QUIT", "ABRT", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "USR1"]
        {
            let outcome = rig.run(&tool, |call| call.args = vec![signal.into()]);
            let number = Command::new("/bin/sh")
                .args(["-c", &format!("kill -{signal} $$")])
                .status()
                .map(|status| std::os::unix::process::ExitStatusExt::signal(&status));
            let number = number.expect("a shell").expect("a signal");
            assert_eq!(outcome.exit, Exit::Signal(number), "{signal}: {outcome:?}");
        }
    });
}

#[test]
fn a_tool_that_reads_nothing_is_no_error() {
    each_mode(|rig| {
        let tool = rig.script("exec <&-; echo done");
        let much = Bytes::from(vec![b'x'; 4 << 20]);
        let outcome = rig.run(&tool, |call| call.stdin = Stdin::Bytes(much.clone()));
        assert_eq!((outcome.exit, text(&outcome.stdout)), (Exit::Code(0), "done\n"));
    });
}

#[test]
fn a_tool_without_output_is_no_error() {
    each_mode(|rig| {
        let outcome = rig.run(&rig.script("exit 0"), |_| {});
        assert_eq!(
            (outcome.exit, outcome.stdout.total, outcome.stderr.total),
            (Exit::Code(0), 0, 0)
        );
    });
}

#[test]
fn fifty_megabytes_go_in_and_out_at_once() {
    each_mode(|rig| {
        let much = Bytes::from(vec![b'x'; 50_000_000]);
        let outcome = rig.run(&rig.script("exec cat"), |call| {
            call.stdin = Stdin::Bytes(much.clone());
            call.limits.output = 60_000_000;
        });
        assert_eq!((outcome.exit, outcome.limit), (Exit::Code(0), None));
        assert!(outcome.stdout.bytes == much, "{} bytes", outcome.stdout.total);
    });
}

#[test]
fn a_tool_that_hangs_is_ended_and_its_output_is_kept() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; echo so far; sleep 1000");
        let outcome = rig.run(&tool, |call| call.limits.wall_clock = Duration::from_millis(700));
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Ended, Some(Limit::WallClock)));
        assert_eq!(text(&outcome.stdout), "so far\n", "{outcome:?}");
        alive.assert_nobody();
    });
}

#[test]
fn closing_stdout_is_not_the_end_of_a_tool() {
    each_mode(|rig| {
        let tool = rig.script("exec >&-; echo still here >&2; sleep 0.1; exit 3");
        let outcome = rig.run(&tool, |_| {});
        assert_eq!((outcome.exit, text(&outcome.stderr)), (Exit::Code(3), "still here\n"));
    });
}

#[test]
fn a_daemon_ends_with_the_call_though_it_holds_the_pipes() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script(
            "exec 9>alive\n(setsid sh -c 'trap \"\" HUP INT TERM PIPE; touch there; sleep 1000; sleep 1000' &)\n\
             until [ -e there ]; do :; done; echo started",
        );
        let outcome = rig.run(&tool, |_| {});
        assert_eq!(
            (&outcome.exit, text(&outcome.stdout)),
            (&Exit::Code(0), "started\n"),
            "{outcome:?}"
        );
        alive.assert_nobody();
    });
}

#[test]
fn a_fork_bomb_is_ended_and_the_next_call_is_unharmed() {
    let _bounds = limits::Guard::new();
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; bomb() { bomb | bomb & wait; }; bomb");
        let outcome = rig.run(&tool, |call| call.limits.processes = 40);
        // If a shell cannot start a process, it may give up before the supervisor polls.
        let refused = String::from_utf8_lossy(&outcome.stderr.bytes).contains("Cannot fork");
        let ended = outcome.exit == Exit::Ended && outcome.limit == Some(Limit::Processes);
        assert!(ended || refused, "{outcome:?}");
        alive.assert_nobody();
        assert_eq!(rig.run(&rig.script("exit 0"), |_| {}).exit, Exit::Code(0));
    });
}

#[test]
fn a_fork_bomb_that_outlives_its_first_process_is_ended() {
    let _bounds = limits::Guard::new();
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; bomb() { setsid true; bomb & bomb & }; bomb; exit 4");
        let outcome = rig.run(&tool, |_| {});
        // On a busy machine the bomb may reach the limit before its first process ends.
        let reached = outcome.exit == Exit::Ended && outcome.limit == Some(Limit::Processes);
        assert!(outcome.exit == Exit::Code(4) || reached, "{outcome:?}");
        alive.assert_nobody();
    });
}

#[test]
fn one_process_that_takes_too_much_memory_is_refused_it() {
    each_mode(|rig| {
        let outcome = rig.run(&rig.script("exec tail /dev/zero"), |call| {
            call.limits.native_memory = 200 << 20;
        });
        assert_eq!(outcome.limit, Some(Limit::Memory), "{outcome:?}");
        assert!(outcome.exit != Exit::Code(0), "{outcome:?}");
    });
}

/// The shell's child asks for all of the memory at once, and the shell itself then exits with an
/// error.
#[test]
fn the_limit_is_named_where_a_control_group_counts_the_memory() {
    each_mode(|rig| {
        let kept = rig.run(&rig.script("exit 0"), |_| {}).isolation.expect("it ran").kept_by;
        if kept.memory.first() != Some(&LimitEnforcer::Cgroup) {
            return;
        }
        let tool = rig.script("dd if=/dev/zero of=/dev/null bs=300M count=1; exit 3");
        let outcome = rig.run(&tool, |call| call.limits.native_memory = 100 << 20);
        assert_eq!(outcome.limit, Some(Limit::Memory), "{outcome:?}");
    });
}

#[test]
fn processes_that_together_take_too_much_memory_are_ended() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let one = "(head -c 80000000 /dev/zero; sleep 1000) | tail -c 90000000 &\n";
        let tool = rig.script(&format!("exec 9>alive\n{}wait", one.repeat(3)));
        let outcome = rig.run(&tool, |call| call.limits.native_memory = 180 << 20);
        assert_eq!(
            (&outcome.exit, outcome.limit),
            (&Exit::Ended, Some(Limit::Memory)),
            "{outcome:?}"
        );
        alive.assert_nobody();
    });
}

#[test]
fn a_flood_on_stdout_is_cut_off_at_the_cap() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; trap '' PIPE; while :; do echo yes; done; sleep 1000");
        let outcome = rig.run(&tool, |call| call.limits.output = 100_000);
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Ended, Some(Limit::Output)));
        assert_eq!(outcome.stdout.bytes.len(), 100_000);
        alive.assert_nobody();
    });
}

#[test]
fn exactly_the_cap_is_no_flood() {
    each_mode(|rig| {
        let tool = rig.script("exec head -c \"$1\" /dev/zero");
        let run = |bytes: &str| {
            rig.run(&tool, |call| {
                call.limits.output = 70_000;
                call.args = vec![bytes.into()];
            })
        };
        assert_eq!((run("70000").exit, run("70000").limit), (Exit::Code(0), None));
        assert_eq!((run("70001").exit, run("70001").limit), (Exit::Ended, Some(Limit::Output)));
    });
}

#[test]
fn a_flood_on_stderr_is_counted_and_its_end_kept() {
    each_mode(|rig| {
        let tool = rig.script("head -c 20000000 /dev/zero >&2; printf last >&2");
        let outcome = rig.run(&tool, |_| {});
        assert_eq!((&outcome.exit, outcome.limit), (&Exit::Code(0), None), "{:?}", outcome.exit);
        assert_eq!((outcome.stderr.bytes.len(), outcome.stderr.total), (64 << 10, 20_000_004));
        assert!(outcome.stderr.bytes.ends_with(b"\0last"));
    });
}

#[test]
fn what_cannot_be_executed_is_reported_with_the_reason() {
    each_mode(|rig| {
        for (content, mode, expected) in [
            ("echo no interpreter line\n", 0o755, "#!/bin/sh"),
            ("#!/nowhere/at/all\n", 0o755, "/nowhere/at/all"),
            ("#!/bin/sh\nexit 0\n", 0o644, "chmod +x"),
            ("", 0o755, "is empty"),
        ] {
            let tool = rig.file("odd", content, mode);
            let outcome = rig.run(&tool, |_| {});
            let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
            assert!(reason.contains(expected), "`{reason}` does not say `{expected}`");
        }
        let outcome = rig.run(&rig.path("absent"), |_| {});
        assert!(
            matches!(&outcome.exit, Exit::NotStarted(it) if it.contains("does not exist")),
            "{outcome:?}"
        );
        let outcome =
            rig.run(&rig.script("exit 0"), |call| call.workspace = rig.path("absent").into());
        assert!(
            matches!(&outcome.exit, Exit::NotStarted(it) if it.contains("workspace")),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_missing_or_wrong_supervisor_is_reported() {
    let rig = Rig::new(rig::supervisor_at("/nowhere/ikigai"), Sandbox::Off);
    let outcome = rig.run(&rig.script("exit 0"), |_| {});
    assert!(
        matches!(&outcome.exit, Exit::NotStarted(it) if it.contains("supervisor")),
        "{outcome:?}"
    );
    let rig = Rig::new(rig::supervisor_at("/bin/false"), Sandbox::Off);
    let outcome = rig.run(&rig.script("exit 0"), |_| {});
    assert!(!matches!(outcome.exit, Exit::Code(_)), "{outcome:?}");
}

#[test]
fn the_environment_is_what_was_granted() {
    each_mode(|rig| {
        let outcome = rig.run_with_env("/usr/bin/env", &[("B", "2 \n="), ("A", "")]);
        assert_eq!((outcome.exit, text(&outcome.stdout)), (Exit::Code(0), "B=2 \n=\nA=\n"));
    });
}

#[test]
fn nothing_is_open_but_stdin_stdout_and_stderr() {
    each_mode(|rig| {
        // `ls` itself opens the directory that it lists, as its first free number.
        let outcome = rig.run(&rig.script("exec ls /proc/self/fd"), |_| {});
        assert_eq!(text(&outcome.stdout), "0\n1\n2\n3\n", "{outcome:?}");
    });
}

#[test]
fn the_tool_starts_as_a_program_expects_to() {
    each_mode(|rig| {
        let tool = rig.script("pwd; grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -c; ps -o pid= -p $$ | tr -d ' '; echo $$");
        let outcome = rig.run(&tool, |_| {});
        let text = text(&outcome.stdout);
        let none = "0000000000000000";
        let mut lines = text.lines();
        let mut next = || lines.next().unwrap_or_default();
        assert_eq!(next(), rig.workspace().to_str().expect("UTF-8"), "{outcome:?}");
        assert_eq!(next(), format!("SigBlk:\t{none}"));
        assert_eq!(next(), format!("SigIgn:\t{none}"));
        assert_eq!(next(), "0", "core dumps");
        assert_eq!(next(), next(), "/proc and the process disagree on its number");
    });
}

#[test]
fn cancelling_ends_everything() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; setsid sleep 1000 & echo x >&9; sleep 1000");
        let outcome = rig.run_until(&tool, alive.first_byte(), |call| call.cancel.cancel());
        assert_eq!(
            (&outcome.exit, outcome.limit, outcome.cancelled),
            (&Exit::Ended, None, true),
            "{outcome:?}"
        );
        alive.assert_nobody();
    });
}

#[test]
fn what_is_cancelled_before_it_began_never_begins() {
    each_mode(|rig| {
        let outcome = rig.run(&rig.script("touch began"), |call| call.cancel.cancel());
        assert!(matches!(outcome.exit, Exit::NotStarted(_)), "{outcome:?}");
        assert!(outcome.cancelled && outcome.isolation.is_none(), "{outcome:?}");
        assert!(!rig.path("began").exists());
    });
}

#[test]
fn dropping_the_call_ends_everything_and_cancels_no_other() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; setsid sleep 1000 & echo x >&9; sleep 1000");
        let cancel = rig.drop_after(&tool, alive.first_byte());
        assert!(!cancel.is_cancelled());
        alive.wait_for_nobody();
    });
}

#[test]
fn shutting_the_runtime_down_ends_everything() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; setsid sleep 1000 & echo x >&9; sleep 1000");
        rig.shut_down_after(&tool, alive.first_byte());
        alive.assert_nobody();
    });
}

#[test]
fn a_host_that_is_killed_takes_everything_with_it() {
    each_mode(|rig| {
        kill_host(rig, || {});
        // A stopped supervisor ends with its host as well.
        let rig = rig.lacking(OmittedLayers::default());
        kill_host(&rig, || rig.stop_supervisor());
    });
}

/// A thread of the tool may have a lock that its supervisor waits for in the kernel.
#[test]
fn a_host_that_is_killed_takes_a_tool_along_whose_supervisor_does_nothing() {
    // Without a sandbox and without root, the call has no second process that could react.
    each_user(Sandbox::Require, |rig| {
        let held = Cell::new(None);
        kill_host(rig, || held.set(Some(rig.hold_init())));
        held.take().expect("held").wait_for_its_end();
    });
}

/// Starts a call in a separate host, runs `first` once the tool runs, and kills the host.
fn kill_host(rig: &Rig, first: impl Fn()) {
    let alive = rig.fifo();
    let tool = rig.script("exec 9>alive; (setsid sleep 1000 &); echo x >&9; sleep 1000");
    let mut host = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_host_for_another_test", "--ignored"])
        .env("NATIVE_EXECUTOR_TOOL", &tool)
        .env("NATIVE_EXECUTOR_SUPERVISOR", rig.supervisor_path())
        .env("NATIVE_EXECUTOR_SANDBOX", rig.sandbox.as_str())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    alive.first_byte().wait();
    first();
    host.kill().expect("killed");
    host.wait().expect("reaped");
    alive.wait_for_nobody();
}

/// Not a test: the host that another test kills.
#[test]
#[ignore = "runs inside another test"]
fn a_host_for_another_test() {
    let tool = std::env::var_os("NATIVE_EXECUTOR_TOOL").expect("given");
    let supervisor = std::env::var_os("NATIVE_EXECUTOR_SUPERVISOR").expect("given");
    let sandboxed = std::env::var("NATIVE_EXECUTOR_SANDBOX").expect("given") != "off";
    let sandbox = if sandboxed { Sandbox::Require } else { Sandbox::Off };
    rig::run_forever(tool.as_ref(), supervisor.as_ref(), sandbox);
}

#[test]
fn a_supervisor_that_is_stopped_is_killed_with_its_tool() {
    each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; setsid sleep 1000 & echo x >&9; sleep 1000");
        let outcome = rig.run_until(&tool, alive.first_byte(), |call| {
            rig.stop_supervisor();
            call.cancel.cancel();
        });
        assert_eq!((&outcome.exit, outcome.cancelled), (&Exit::Ended, true), "{outcome:?}");
        alive.wait_for_nobody();
    });
}

#[test]
fn a_tool_that_kills_its_parent_gains_nothing() {
    each_mode(|rig| {
        let alive = rig.fifo();
        // The tool starts no process, because without a namespace such a process would be left
        // behind.
        let tool = rig.script("exec 9>alive; kill -KILL $PPID; while :; do :; done");
        let outcome = rig.run(&tool, |call| call.limits.wall_clock = Duration::from_millis(700));
        // The init of a PID namespace cannot be killed from within.
        let unharmed = outcome.exit == Exit::Ended && outcome.limit == Some(Limit::WallClock);
        assert!(unharmed || outcome.exit == Exit::Signal(9), "{outcome:?}");
        alive.wait_for_nobody();
    });
}

#[test]
fn what_is_passed_on_arrives_whole_and_ends_at_the_cap() {
    each_mode(|rig| {
        let tool = rig.script("exec head -c 300000 /dev/zero");
        let (sink, passed) = rig::forward();
        let outcome = rig.run(&tool, |call| call.stdout = sink.clone());
        assert_eq!((outcome.exit, outcome.limit), (Exit::Code(0), None));
        assert_eq!(passed.lock().expect("not poisoned").len(), 300_000);

        let (sink, passed) = rig::forward();
        let outcome = rig.run(&tool, |call| {
            call.stdout = sink.clone();
            call.limits.output = 1000;
        });
        assert_eq!((outcome.exit, outcome.limit), (Exit::Ended, Some(Limit::Output)));
        assert_eq!(passed.lock().expect("not poisoned").len(), 1000);
    });
}

#[test]
fn a_reader_that_never_reads_does_not_hold_a_call_past_its_limit() {
    each_mode(|rig| {
        let (sink, release) = rig::blocked();
        let outcome = rig.run(&rig.script("exec yes"), |call| {
            call.stdout = sink.clone();
            call.limits = CallLimits { wall_clock: Duration::from_millis(300), ..call.limits };
        });
        assert_eq!((outcome.exit, outcome.limit), (Exit::Ended, Some(Limit::WallClock)));
        drop(release);
    });
}

#[test]
fn arguments_are_passed_on_whole() {
    each_mode(|rig| {
        let outcome = rig.run(&rig.script("printf '<%s>' \"$@\""), |call| {
            call.args = ["--schema", "", "a b", "-- -x", "ü\n"].map(Into::into).to_vec();
        });
        assert_eq!(text(&outcome.stdout), "<--schema><><a b><-- -x><ü\n>", "{outcome:?}");
        // Larger than the buffer of any socket, and within the limit on a program's arguments.
        let outcome = rig.run(&rig.script("printf %s \"$*\" | wc -c"), |call| {
            call.args = vec!["x".repeat(100_000).into(); 12];
        });
        assert_eq!(text(&outcome.stdout).trim(), "1200011", "{outcome:?}");
        let outcome = rig.run(&rig.script("exit 0"), |call| {
            call.args = vec!["x".repeat(100_000).into(); 100];
        });
        assert!(
            matches!(&outcome.exit, Exit::NotStarted(it) if it.contains("too long")),
            "{:?}",
            outcome.exit
        );
    });
}

/// Counts the descriptors and children of this process, so no other test may run in it.
#[test]
fn many_calls_at_once_leave_no_descriptor_and_no_child() {
    let alone = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "many_calls_alone", "--ignored"])
        .output()
        .expect("runs");
    assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stdout));
}

#[test]
#[ignore = "runs inside another test"]
fn many_calls_alone() {
    each_mode(|rig| {
        let tool = rig.script("cat >/dev/null; (sleep 1000 &) ; echo ok");
        // The first run opens the descriptors that a runtime opens once per process.
        rig.run_many(&tool, 1, |_| {});
        let before = rig::open_descriptors();
        rig.run_many(&tool, 40, |outcome| {
            assert_eq!(
                (&outcome.exit, text(&outcome.stdout)),
                (&Exit::Code(0), "ok\n"),
                "{outcome:?}"
            );
        });
        assert_eq!(rig::open_descriptors(), before);
        assert_eq!(rig::children(), 0);
    });
}

#[test]
fn a_file_that_is_no_plan_is_refused() {
    let refused = Command::new(ikigai_tests::paths::supervisor())
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    assert!(!refused.status.success());
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("only ikigai starts this program"),
        "{refused:?}"
    );
}

#[test]
fn the_sink_for_stderr_may_be_the_head() {
    each_mode(|rig| {
        let outcome = rig.run(&rig.script("echo a >&2"), |call| call.stderr = Sink::Head);
        assert_eq!(text(&outcome.stderr), "a\n");
    });
}

#[test]
fn an_executable_that_was_just_written_runs() {
    each_mode(|rig| {
        for _ in 0..20 {
            let tool = rig.file("fresh", "#!/bin/sh\nexit 5\n", 0o755);
            assert_eq!(rig.run(&tool, |_| {}).exit, Exit::Code(5));
            std::fs::remove_file(&tool).expect("removed");
        }
        assert!(
            std::fs::metadata(rig.workspace()).expect("there").permissions().mode() & 0o777
                == 0o777
        );
    });
}
