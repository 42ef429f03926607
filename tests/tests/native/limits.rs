//! Tools that take more processes and more memory than their limits, in a full sandbox and in each
//! fallback. A limit that is reported as enforced must never be exceeded.
//!
//! Each attack here exceeded its limit when limits were only polled. Before an attack this process
//! limits itself, so that a successful attack does not harm the machine.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ikigai_host::exec::native::OmittedLayers;
use ikigai_host::exec::{Exit, Outcome};
use ikigai_host::limits::Limit;
use ikigai_host::policy::Sandbox;
use ikigai_supervisor::isolation::{Guarantee, Isolation, LimitEnforcer};
use ikigai_supervisor::process_tree;
use ikigai_tests::wait::eventually;
use rustix::process::{Pid, Resource, Rlimit, Signal, Uid, getrlimit, kill_process, setrlimit};

use super::rig::{self, NOBODY, Rig, each_user, text};

/// The limits of this process, which bound the attacks: far higher than any limit of a call here,
/// and harmless for the machine.
const MOST_PROCESSES: u64 = 3000;
const MOST_MEMORY: u64 = 3 << 30;

/// Limits on this process and its children, which are lifted when dropped.
pub(crate) struct Guard(Vec<PathBuf>);

impl Guard {
    /// Sets the limits, by cgroups of version 1 if this is root, and by the limits of the user.
    pub(crate) fn new() -> Self {
        let mut groups = Vec::new();
        if rig::started_as_root() {
            for (controller, file, bound) in [
                ("pids", "pids.max", MOST_PROCESSES),
                ("memory", "memory.limit_in_bytes", MOST_MEMORY),
            ] {
                let group = own_group(controller).join(format!("guard-{}", std::process::id()));
                if fs::create_dir(&group).is_ok() {
                    fs::write(group.join(file), bound.to_string()).expect("bounded");
                    fs::write(group.join("cgroup.procs"), "0").expect("entered");
                    groups.push(group);
                }
            }
        }
        let own = getrlimit(Resource::Nproc);
        let most = own.maximum.map_or(MOST_PROCESSES, |most| most.min(MOST_PROCESSES));
        let bound = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(Resource::Nproc, bound).expect("bounded");
        Self(groups)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for group in &self.0 {
            let parent = group.parent().expect("a parent");
            fs::write(parent.join("cgroup.procs"), "0").expect("left");
            let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
            let remove = || fs::remove_dir(group).err().filter(is_busy);
            eventually("the guard's group is empty", remove, Option::is_none);
        }
    }
}

/// Returns the directory of this process's cgroup in a hierarchy of version 1, at its usual mount
/// point.
fn own_group(controller: &str) -> PathBuf {
    let own = fs::read_to_string("/proc/self/cgroup").expect("told");
    let path = own.lines().find_map(|line| line.split_once(&format!(":{controller}:")));
    let beneath = path.map_or("", |(_, path)| path.trim_start_matches('/'));
    Path::new("/sys/fs/cgroup").join(controller).join(beneath)
}

/// Returns the full sandbox and its fallbacks: the name of the missing kernel feature, and the
/// sandbox without it.
pub(crate) fn fallbacks() -> Vec<(&'static str, OmittedLayers)> {
    let all = OmittedLayers::default();
    vec![
        ("everything", all),
        ("no bound on numbers", OmittedLayers { pid_limit: true, ..all }),
        ("no cgroup", OmittedLayers { cgroups: true, ..all }),
        ("no cgroup, no bound on numbers", OmittedLayers { cgroups: true, pid_limit: true, ..all }),
        ("no id-mapped mounts", OmittedLayers { id_maps: true, ..all }),
        ("root as it is, no cgroup", OmittedLayers { id_maps: true, cgroups: true, ..all }),
        (
            "root as it is, nothing that counts it",
            OmittedLayers { id_maps: true, cgroups: true, pid_limit: true, ..all },
        ),
        ("no user namespace", OmittedLayers { user_namespace: true, ..all }),
        (
            "no user namespace, no cgroup",
            OmittedLayers { user_namespace: true, cgroups: true, ..all },
        ),
        ("no namespace", OmittedLayers { namespaces: true, ..all }),
        ("no namespace, no cgroup", OmittedLayers { namespaces: true, cgroups: true, ..all }),
    ]
}

/// Runs the case as each user in each fallback.
fn each_fallback(case: impl Fn(&str, &Rig)) {
    let _guard = Guard::new();
    for (name, layers) in fallbacks() {
        each_user(Sandbox::Prefer, |rig| case(name, &rig.lacking(layers)));
    }
}

/// Puts the tool that exceeds its limits into the workspace.
fn glutton(rig: &Rig) -> PathBuf {
    let path = rig.path("glutton");
    if !path.exists() {
        fs::copy(env!("CARGO_BIN_EXE_glutton"), &path).expect("copied");
    }
    path
}

fn isolation(outcome: &Outcome) -> &Isolation {
    outcome.isolation.as_ref().unwrap_or_else(|| panic!("it did not run: {outcome:?}"))
}

/// The time limit of a call that no other limit ends.
const END: Duration = Duration::from_secs(10);

pub(crate) fn attack(rig: &Rig, words: &str, processes: u64, mebibytes: u64) -> Outcome {
    rig.run(&glutton(rig), |call| {
        call.args = words.split(' ').map(Into::into).collect();
        call.limits.processes = processes;
        call.limits.native_memory = mebibytes << 20;
        call.limits.wall_clock = END;
    })
}

#[test]
fn no_process_more_than_the_limit_is_had_where_it_is_enforced() {
    each_fallback(|fallback, rig| {
        for way in ["fork 2500", "corpses 2500", "headless 2500", "threads 2500"] {
            let outcome = attack(rig, way, 60, 512);
            let had = outcome.stdout.total;
            let context =
                format!("{fallback}, root: {}, {way}: {had} had, {outcome:?}", rig.is_root());
            let isolation = isolation(&outcome);
            if isolation.processes.is_enforced() {
                // The tool itself counts as one process, and the first one above the limit ends the
                // call.
                assert!(had <= 60, "{context}");
                assert!(
                    isolation.kept_by.processes.iter().any(|it| *it != LimitEnforcer::Watched),
                    "{context}"
                );
            }
            // The limit has ended the call, whether it is enforced or only polled.
            assert_eq!(
                (&outcome.exit, outcome.limit),
                (&Exit::Ended, Some(Limit::Processes)),
                "{context}"
            );
        }
    });
}

#[test]
fn no_memory_beyond_the_limit_is_had_where_it_is_enforced() {
    each_fallback(|fallback, rig| {
        let ways = [
            "heap 400 leave",
            "heaps-of-the-headless 300",
            "shared 400 leave",
            "sockets 400 leave",
            "queues 400 leave",
            "semaphores 400 leave",
            "files 400 leave",
        ];
        for way in ways {
            let outcome = attack(rig, way, 200, 64);
            let had = outcome.stdout.total;
            let context =
                format!("{fallback}, root: {}, {way}: {had} MiB, {outcome:?}", rig.is_root());
            let isolation = isolation(&outcome);
            if isolation.memory.is_enforced() {
                if way.starts_with("heaps") {
                    // A process that is killed for lack of memory makes room for the next one. So
                    // the sum exceeds the memory that was used at any time.
                    assert!(outcome.limit.is_some(), "{context}");
                } else {
                    // The tool reports only memory that it already has.
                    assert!(had <= 64, "{context}");
                }
                assert_eq!(
                    isolation.kept_by.memory.first(),
                    Some(&LimitEnforcer::Cgroup),
                    "{context}"
                );
            } else {
                assert!(
                    isolation.memory.reason().is_some_and(|why| why.contains("cgroup")),
                    "{context}"
                );
            }
        }
    });
}

#[test]
fn nobody_gets_memory_of_the_kernel_that_no_control_group_counts() {
    let _guard = Guard::new();
    each_user(Sandbox::Prefer, |rig| {
        for (fallback, layers) in fallbacks().into_iter().filter(|(_, it)| it.cgroups) {
            for (way, refusals) in [
                ("semaphores 3 leave", &["not permitted"][..]),
                ("queues 3 leave", &["not permitted"]),
                // A kernel may have no Landlock, or not have it enabled.
                ("rulesets 3 leave", &["not implemented", "not supported"]),
            ] {
                let outcome = attack(&rig.lacking(layers), way, 60, 64);
                let context = format!("{fallback}, root: {}, {way}, {outcome:?}", rig.is_root());
                assert_eq!(outcome.stdout.total, 0, "{context}");
                let reason = text(&outcome.stderr);
                assert!(refusals.iter().any(|refusal| reason.contains(refusal)), "{context}");
            }
        }
    });
}

/// Checks records of mappings and page tables, which are not part of any resident set.
#[test]
fn little_memory_is_locked_that_another_control_group_was_charged_for() {
    each_user(Sandbox::Require, |rig| {
        let outcome = rig.run(&rig.script("ulimit -H -l; ulimit -S -l"), |_| {});
        assert_eq!(text(&outcome.stdout), "64\n64\n", "{outcome:?}");
    });
}

#[test]
fn mappings_and_page_tables_count_into_the_memory() {
    let _guard = Guard::new();
    each_user(Sandbox::Prefer, |rig| {
        let rig = rig.lacking(OmittedLayers { cgroups: true, ..OmittedLayers::default() });
        for way in ["mappings 40", "page-tables 400"] {
            let outcome = attack(&rig, way, 60, 64);
            let context = format!("root: {}, {way}, {outcome:?}", rig.is_root());
            assert_eq!(outcome.limit, Some(Limit::Memory), "{context}");
        }
    });
}

/// Checks shared memory, which stays while one process maps it, even if none has it resident.
#[test]
fn shared_memory_of_no_process_counts_into_the_memory() {
    let _guard = Guard::new();
    each_user(Sandbox::Prefer, |rig| {
        let rig = rig.lacking(OmittedLayers { cgroups: true, ..OmittedLayers::default() });
        for way in ["shared 400", "shared-by-the-headless"] {
            let outcome = attack(&rig, way, 60, 64);
            let context = format!("root: {}, {way}, {outcome:?}", rig.is_root());
            assert_eq!(outcome.limit, Some(Limit::Memory), "{context}");
        }
    });
}

/// Checks the number of files in memory, each of which takes memory of the kernel.
#[test]
fn a_smaller_memory_limit_leaves_fewer_files_in_memory() {
    each_user(Sandbox::Require, |rig| {
        let tool = rig.script("stat -f -c %c /tmp");
        for (mebibytes, files) in [(64_u64, "32768\n"), (512, "131072\n")] {
            let outcome = rig.run(&tool, |call| call.limits.native_memory = mebibytes << 20);
            assert_eq!(text(&outcome.stdout), files, "{outcome:?}");
        }
    });
}

/// Checks memory that a file system keeps for a directory that is being read, which the kernel
/// charges to no cgroup.
#[test]
fn directories_that_are_being_read_count_into_the_memory() {
    // EXT4_SUPER_MAGIC, linux/magic.h. A tmpfs needs no such memory.
    const EXT4: i64 = 0xef53;

    let _guard = Guard::new();
    each_user(Sandbox::Prefer, |rig| {
        if rustix::fs::statfs(rig.workspace()).expect("told").f_type != EXT4 {
            ikigai_tests::impossible_here("directories of another file system than ext4");
            return;
        }
        let outcome = attack(rig, "directories 20", 200, 64);
        assert_eq!(outcome.limit, Some(Limit::Memory), "root: {}, {outcome:?}", rig.is_root());
    });
}

#[test]
fn the_memory_of_a_tool_with_a_network_is_not_called_enforced() {
    each_user(Sandbox::Prefer, |rig| {
        let outcome = rig.run(&rig.script("exit 0"), |call| {
            let mut grant = (*call.grant).clone();
            grant.net.any = true;
            call.grant = grant.into();
        });
        assert!(isolation(&outcome).memory.reason().is_some(), "{outcome:?}");
    });
}

/// Checks locks on files, whose memory the kernel charges to no cgroup.
#[test]
fn locks_on_files_count_into_the_memory() {
    each_fallback(|fallback, rig| {
        // All fallbacks poll in the same way, and each takes seconds to exceed the limit.
        if !matches!(fallback, "everything" | "no namespace") {
            return;
        }
        let outcome = attack(rig, "locks 200", 200, 64);
        let context = format!("{fallback}, root: {}, {outcome:?}", rig.is_root());
        assert_eq!(outcome.limit, Some(Limit::Memory), "{context}");
    });
}

/// Checks that locks and the memory of a control group count together, and that the record does not
/// call the limit enforced once locks may be a large part of it.
#[test]
fn locks_on_files_count_together_with_what_a_control_group_is_charged_for() {
    each_fallback(|fallback, rig| {
        if fallback != "everything" {
            return;
        }
        let outcome = attack(rig, "locks-and-heap 60 50", 200, 64);
        let isolation = isolation(&outcome);
        if !isolation.kept_by.memory.contains(&LimitEnforcer::Cgroup) {
            return;
        }
        let context = format!("root: {}, {outcome:?}", rig.is_root());
        assert_eq!(outcome.limit, Some(Limit::Memory), "{context}");
        assert!(!isolation.memory.is_enforced(), "{context}");
    });
}

#[test]
fn a_watch_that_is_blinded_ends_the_call_or_is_not_to_be_blinded() {
    each_fallback(|fallback, rig| {
        // The parent is the init of the namespaces, or the supervisor without namespaces.
        let tool = rig.script("exec ./glutton blind $PPID 400");
        glutton(rig);
        for pid in ["1", "$PPID"] {
            let tool =
                if pid == "1" { rig.script("exec ./glutton blind 1 400") } else { tool.clone() };
            let outcome = rig.run(&tool, |call| {
                call.limits.processes = 60;
                call.limits.native_memory = 512 << 20;
                call.limits.wall_clock = END;
            });
            let had = outcome.stdout.total;
            let context =
                format!("{fallback}, root: {}, {pid}: {had} had, {outcome:?}", rig.is_root());
            assert!(text(&outcome.stderr).contains("refused"), "{context}");
            assert!(!isolation(&outcome).processes.is_enforced() || had <= 60, "{context}");
            assert_eq!(outcome.limit, Some(Limit::Processes), "{context}");
        }
    });
}

/// Sets a flag when it is dropped, even by a panic. Without the flag, the test would wait forever,
/// and the panic's message would never be shown.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_fork_bomb_of_either_kind_ends_at_its_limit_and_the_machine_answers_meanwhile() {
    each_fallback(|fallback, rig| {
        let alive = rig.fifo();
        // Without a PID namespace the processes of a bomb are killed one by one, which may take
        // long, and `kill_tree` is reported as partial. Other tests use smaller bombs for that
        // case.
        if !isolation(&rig.run(&rig.script("exit 0"), |_| {})).kill_tree.is_enforced() {
            return;
        }
        glutton(rig);
        rig.file("b.sh", "setsid sh ./b.sh & setsid sh ./b.sh & wait\n", 0o755);
        for bomb in ["exec ./glutton fork-forever", "exec sh ./b.sh"] {
            let tool = rig.script(&format!("exec 9>alive; {bomb}"));
            let over = AtomicBool::new(false);
            let (outcome, slowest) = std::thread::scope(|scope| {
                let neighbour = scope.spawn(|| {
                    let mut slowest = Duration::ZERO;
                    while !over.load(Ordering::Relaxed) {
                        let began = Instant::now();
                        // If only this process's own limits stop a bomb, no process can be started.
                        let had = Command::new("/bin/true").status().is_ok_and(|it| it.success());
                        slowest = if had { slowest.max(began.elapsed()) } else { Duration::MAX };
                    }
                    slowest
                });
                let outcome = {
                    let _over = SetAtEnd(&over);
                    rig.run(&tool, |call| call.limits.processes = 256)
                };
                (outcome, neighbour.join().expect("no panic"))
            });
            let context =
                format!("{fallback}, root: {}, {bomb}: {slowest:?}, {outcome:?}", rig.is_root());
            alive.assert_nobody();
            // If shells cannot start processes, all of them may give up before the supervisor
            // polls.
            let ended_itself = matches!(outcome.exit, Exit::Code(_)) && bomb.contains("b.sh");
            assert!(ended_itself || outcome.limit == Some(Limit::Processes), "{context}");
            // Less than the 30 s of the call's wall clock, even on a busy machine.
            let enforced = isolation(&outcome).processes.is_enforced();
            assert!(!enforced || outcome.usage.duration < Duration::from_secs(15), "{context}");
            assert!(!enforced || slowest < Duration::from_secs(15), "{context}");
        }
    });
}

#[test]
fn what_hides_from_an_unconfined_call_ends_with_it() {
    let _guard = Guard::new();
    each_user(Sandbox::Off, |rig| {
        let alive = rig.fifo();
        glutton(rig);
        let tool = rig.script("exec 9>alive; ./glutton headless 20 leave; echo done");
        let outcome = rig.run(&tool, |call| call.limits.wall_clock = END);
        assert!(text(&outcome.stdout).ends_with("done\n"), "{outcome:?}");
        alive.assert_nobody();
        for way in ["headless 1000", "heaps-of-the-headless 300"] {
            let outcome = attack(rig, way, 60, 64);
            // The number of processes at the time of polling depends on the machine.
            assert!(outcome.limit.is_some(), "{way}: {outcome:?}");
        }
    });
}

/// Checks that the limit on core dumps is 1. With any other limit the kernel may pipe a dump to a
/// program that runs as root.
#[test]
fn a_crash_is_dumped_nowhere() {
    each_user(Sandbox::Prefer, |rig| {
        let own = getrlimit(Resource::Core).maximum.map_or(1, |own| own.min(1)).to_string();
        // A tool cannot change it, and a script that tries to goes on.
        let tool = rig.script("ulimit -S -c 0 && ulimit -c 0 && grep 'Max core' /proc/self/limits");
        let outcome = rig.run(&tool, |_| {});
        let limits: Vec<&str> = text(&outcome.stdout).split_whitespace().skip(4).take(2).collect();
        assert_eq!(limits, [own.as_str(), own.as_str()], "{outcome:?}");
    });
}

#[test]
fn root_is_nobody_outside_and_its_files_stay_its_own() {
    if !rig::started_as_root() {
        ikigai_tests::impossible_here("only root can be mapped away");
        return;
    }
    each_user(Sandbox::Require, |rig| {
        if !rig.is_root() {
            return;
        }
        rig.file("private", "of root\n", 0o600);
        let of_another = rig.file("of-another", "of another\n", 0o644);
        std::os::unix::fs::chown(&of_another, Some(4242), Some(4242)).expect("given");
        let tool = rig.script(
            "id -u; awk '{print $2}' /proc/self/uid_map; cat private; echo more >>private; echo x >new; \
             stat -c %u private of-another; echo said >/dev/stdout; echo y >>of-another || echo refused",
        );
        let outcome = rig.run(&tool, |_| {});
        let output = text(&outcome.stdout);
        let (head, tail) = output.split_once('\n').expect("lines");
        let (outer, tail) = tail.split_once('\n').expect("lines");
        assert_eq!((head, tail), ("0", "of root\n0\n65534\nsaid\nrefused\n"), "{outcome:?}");
        // Each call maps root to a different number, which no user outside has.
        let outer: u32 = outer.parse().expect("a number");
        assert!((0x7000_0000..0x8000_0000).contains(&outer), "{outcome:?}");
        let again = rig.run(&rig.script("awk '{print $2}' /proc/self/uid_map"), |_| {});
        assert_ne!(text(&again.stdout).trim(), outer.to_string(), "{again:?}");
        use std::os::unix::fs::MetadataExt;
        for name in ["private", "new"] {
            let metadata = fs::metadata(rig.path(name)).expect("there");
            assert_eq!((metadata.uid(), metadata.gid()), (0, 0), "{name}");
        }
        assert!(isolation(&outcome).privileges.is_enforced());
        let as_it_is = rig.lacking(OmittedLayers { id_maps: true, ..OmittedLayers::default() });
        let outcome = as_it_is.run(&as_it_is.script("exit 0"), |_| {});
        let Exit::NotStarted(reason) = &outcome.exit else { panic!("{outcome:?}") };
        assert!(reason.contains("privileges is partial"), "{reason}");
    });
}

#[test]
fn no_process_of_the_user_is_ended_by_its_limits_without_namespaces() {
    each_user(Sandbox::Prefer, |rig| {
        let rig = rig.lacking(OmittedLayers { namespaces: true, ..OmittedLayers::default() });
        let mut victim = Command::new("sleep");
        victim.arg("1000");
        if !rig.is_root() && rig::started_as_root() {
            victim.uid(NOBODY).gid(NOBODY);
        }
        let mut victim = victim.spawn().expect("starts");
        let tool = rig.script(&format!(
            "prlimit --pid {0} --cpu=0:0; renice -n 19 -p {0}; taskset -p 1 {0}; ionice -c 3 -p {0}; exit 0",
            victim.id()
        ));
        let outcome = rig.run(&tool, |_| {});
        let refusals = text(&outcome.stderr).matches("not permitted").count();
        assert_eq!(refusals, 4, "{outcome:?}");
        victim.kill().expect("killed");
        victim.wait().expect("reaped");
    });
}

#[test]
fn a_stopped_supervisor_leaves_neither_itself_nor_its_groups() {
    rig::each_mode(|rig| {
        let alive = rig.fifo();
        let tool = rig.script("exec 9>alive; echo x >&9; sleep 1000");
        let outcome = rig.run_until(&tool, alive.first_byte(), |call| {
            rig.stop_supervisor();
            call.cancel.cancel();
        });
        assert!(outcome.cancelled, "{outcome:?}");
        alive.wait_for_nobody();
        eventually("no supervisor is left", rig::child_processes, Vec::is_empty);
        // The next call removes the groups that are left.
        assert_eq!(rig.run(&rig.script("exit 0"), |_| {}).exit, Exit::Code(0));
        if rig::started_as_root() {
            let groups = own_group("pids");
            let left = || {
                fs::read_dir(&groups)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .filter(|entry| {
                        let name = entry.file_name().to_string_lossy().into_owned();
                        name.strip_prefix("ikigai-")
                            .and_then(|rest| rest.split('-').next()?.parse().ok())
                            .and_then(Pid::from_raw)
                            .is_some_and(|pid| kill_process(pid, Signal::CONT).is_err())
                    })
                    .count()
            };
            eventually("no group is left", left, |count| *count == 0);
        }
    });
}

#[test]
fn a_bomb_without_a_namespace_has_a_bound_of_the_kernel() {
    let bounds = |sandbox| {
        each_user(sandbox, |rig| {
            let outcome = rig.run(&rig.script("exec cat /proc/self/limits"), |call| {
                call.limits.processes = 40;
            });
            let isolation = outcome.isolation.as_ref().expect("it ran");
            let has_namespace = isolation.kill_tree == Guarantee::Enforced;
            let limits = text(&outcome.stdout);
            let most = limits.lines().find_map(|line| line.strip_prefix("Max processes"));
            let most = most.and_then(|most| most.split_whitespace().next()).expect("told");
            let own = process_tree::tasks_of(Uid::from_raw(NOBODY)).expect("counted");
            // Twice the limit, and 256; other tests may start and end processes meanwhile.
            let is_bound = most.parse::<u64>().is_ok_and(|most| most < own + 2_000);
            assert!(is_bound || has_namespace || rig.is_root(), "{most} of {own}: {outcome:?}");
        });
    };
    bounds(Sandbox::Off);
    bounds(Sandbox::Require);
}
