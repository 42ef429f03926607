//! The service of one call, from the plan to the exit code.
//!
//! Owns the order in which the program prepares itself.

use std::fs;
use std::io::{self, Write};
use std::os::fd::IntoRawFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit, setsid,
};

use super::cgroup::Cgroups;
use super::identity::Identity;
use super::launch::Restrictions;
use super::layers::{self, Limits};
use super::namespace::{self, Entered};
use super::plan::{Network, Sandbox};
use super::watch::{Delivery, Prepared, Watch};
use super::{request, sandbox, signals};

/// The exit code of a call whose report the host has.
const REPORTED: u8 = 0;

/// The exit code of a call whose report was lost.
const LOST: u8 = 1;

/// The exit code of a call that was not served. The host takes what is on stderr for the
/// reason.
const NOT_SERVED: u8 = 2;

/// Serves one call, and returns the exit code of the program.
///
/// To be called before anything else in `main`: no thread may have been started.
#[must_use]
pub fn main() -> u8 {
    match serve() {
        Ok(Delivery::Sent) => REPORTED,
        Ok(Delivery::Lost) => LOST,
        Err(error) => {
            // stderr is the tool's, and so becomes part of the outcome. Where it is closed, or
            // before a supervisor in reserve has its call, the exit code has to do.
            let _ = writeln!(io::stderr(), "ikigai: supervisor: {error}");
            NOT_SERVED
        }
    }
}

fn serve() -> io::Result<Delivery> {
    fill_standard_descriptors()?;
    // The groups of the tool's processes are killed as a whole, so that this process must not
    // share one with the host. The call fails for the leader of a group, which a process that
    // the host spawns is not.
    setsid()?;
    // A host whose own limit is 0 cannot raise it.
    let most = getrlimit(Resource::Core).maximum.map_or(NO_CORE, |own| own.min(NO_CORE));
    setrlimit(Resource::Core, Rlimit { current: Some(most), maximum: Some(most) })?;
    // Inherited by all processes of the call. Without `/proc` there is no such preference.
    let _ = fs::write("/proc/self/oom_score_adj", FIRST_VICTIM);
    // A supervisor in reserve waits here. A signal to end ends it: one that was kept until later
    // would end a call that it was not meant for.
    let request = request::receive()?;
    let signals = signals::take_over()?;
    let plan = &request.plan;
    let sandboxed = plan.kind.sandbox != Sandbox::Off;
    let mut cgroups = match plan.kind.without.cgroups {
        true => Cgroups::none("left out"),
        false => Cgroups::make(plan.bounds),
    };
    if plan.kind.net != Network::None || !sandboxed {
        cgroups.bound_network(plan.bounds);
    }
    let mut watch = Watch::new(request, signals, cgroups);
    let delivery = if sandboxed { sandbox::run(&mut watch) } else { unconfined(&mut watch) };
    // The report is sent, so that the host does not wait for this.
    if let Some(left) = watch.cgroups.remove() {
        writeln!(io::stderr(), "ikigai: supervisor: {left}")?;
    }
    delivery
}

/// Opens `/dev/null` at each standard descriptor that is closed, as Rust's runtime does for
/// programs that have it. Otherwise the next file that is opened would be taken for a stream.
fn fill_standard_descriptors() -> io::Result<()> {
    for number in 0..STANDARD_DESCRIPTORS {
        // SAFETY: a system call on a number.
        let is_open = unsafe { libc::fcntl(number, libc::F_GETFD) } != -1;
        if !is_open {
            // It gets the lowest number that is free, which is this one, and keeps it.
            let null = open(c"/dev/null", OFlags::RDWR, Mode::empty())?;
            let _ = null.into_raw_fd();
        }
    }
    Ok(())
}

/// stdin, stdout and stderr.
const STANDARD_DESCRIPTORS: i32 = 3;

/// The limit under which a tool that crashes leaves no dump. Any dump is larger than a file of
/// this size. Where dumps are piped to a program of root's no limit holds, but the kernel takes
/// exactly 1 for a refusal (`do_coredump` in fs/coredump.c).
const NO_CORE: u64 = 1;

/// The `oom_score_adj` by which the kernel kills the tool and not its host when the machine, or
/// a group around the host, runs out of memory: as if the tool had half of all memory more than
/// it has, proc_pid_oom_score_adj(5).
const FIRST_VICTIM: &str = "500";

/// Serves the call of a tool with all of its user's rights.
fn unconfined(watch: &mut Watch) -> io::Result<Delivery> {
    let limits = |watch: &Watch, pid_namespace| Limits {
        process_limit: false,
        pid_namespace,
        process_cgroup: watch.cgroups.bounds_processes().map_err(str::to_owned),
        memory_cgroup: watch.cgroups.bounds_memory().map_err(str::to_owned),
        watched: Ok(()),
        network: false,
    };
    let prepared = |namespaced: Result<(), &str>, notes, limits: Limits| Prepared {
        isolation: Some(layers::unconfined(namespaced, Identity::own().is_root(), &limits)),
        layers: Vec::new(),
        notes,
        refusal: None,
        watched: true,
        listener: None,
        restrictions: Restrictions::none(),
        scope: None,
    };
    let init = |unbound: Option<io::Error>| {
        let mut notes = Vec::new();
        if let Some(error) = unbound {
            notes.push(format!("the namespace may outlive the supervisor: {error}"));
        }
        let bounded = sandbox::bound_numbers(watch, false);
        // Without a `/proc` of its own, the tree is read from the host's.
        if let Err(error) = namespace::mount_proc() {
            notes.push(format!("no `/proc` of the PID namespace: {error}"));
        }
        let limits = limits(watch, bounded);
        watch.run(true, prepared(Ok(()), notes, limits))
    };
    // SAFETY: this process has one thread, and nothing here holds a lock.
    match unsafe { namespace::enter(namespace::OF_ANY_TOOL, init) } {
        Entered::Ended(delivery) => Ok(delivery),
        Entered::Killed => Ok(Delivery::Lost),
        Entered::Refused(reason) => {
            // Every process that the tool leaves behind becomes this process's child.
            set_child_subreaper(Some(getpid()))?;
            let reason = reason.to_string();
            let notes = vec![format!("no PID namespace: {reason}")];
            let limits = limits(watch, Err(reason.clone()));
            Ok(watch.run(false, prepared(Err(&reason), notes, limits)))
        }
    }
}
