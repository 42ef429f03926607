//! One call, from the plan to the exit code.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::{
    Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit, setsid,
};

use super::cgroup::Cgroups;
use super::identity::Identity;
use super::launch::Restrictions;
use super::layers::{self, Limits};
use super::namespace::{self, Made};
use super::plan::Confinement;
use super::watch::{Prepared, Watch};
use super::{request, sandbox, signals};

/// Serves one call, and exits.
///
/// To be called before anything else in `main`: no thread may have been started.
#[must_use]
pub fn main() -> ExitCode {
    match serve() {
        Ok(code) => code,
        Err(error) => {
            // stderr is the tool's, and so becomes part of the outcome; where it is
            // closed, the exit code has to do.
            let _ = writeln!(io::stderr(), "ikigai: supervisor: {error}");
            ExitCode::from(2)
        }
    }
}

fn serve() -> io::Result<ExitCode> {
    // The groups of the tool's processes are killed as a whole, so that this process must
    // not share one with the host. It fails for the leader of a group, which what the
    // host spawns is not.
    setsid()?;
    let signals = signals::take_over()?;
    let request = request::receive()?;
    // Where the host may have none at all, that cannot be raised.
    let most = getrlimit(Resource::Core).maximum.map_or(NO_CORE, |own| own.min(NO_CORE));
    setrlimit(Resource::Core, Rlimit { current: Some(most), maximum: Some(most) })?;
    // Inherited by all of the call. Without `/proc` there is no such preference.
    let _ = fs::write("/proc/self/oom_score_adj", FIRST_VICTIM);
    let plan = &request.plan;
    let sandboxed = plan.kind.sandbox != Confinement::Off;
    let mut cgroups = match plan.kind.without.cgroups {
        true => Cgroups::none("left out"),
        false => Cgroups::make(plan.bounds),
    };
    if plan.kind.net || !sandboxed {
        cgroups.bound_network(plan.bounds);
    }
    let mut watch = Watch::new(request, signals, cgroups);
    let code = if sandboxed { sandbox::run(&mut watch) } else { unconfined(&mut watch) };
    // The report has gone already, and who reads it need not wait for this.
    if let Some(left) = watch.cgroups.remove() {
        writeln!(io::stderr(), "ikigai: supervisor: {left}")?;
    }
    code
}

/// No dump of a tool that crashes: a file is smaller than any dump, and of a pipe to a program of
/// root's, which no limit holds for, the kernel takes exactly 1 for a no (`do_coredump` in
/// fs/coredump.c).
const NO_CORE: u64 = 1;

/// Where the machine, or a group around the host, runs out of memory, the kernel is to end the
/// tool and not its host: proc_pid_oom_score_adj(5), half of all memory more than it has.
const FIRST_VICTIM: &str = "500";

/// Serves the call of a tool with all of its user's rights.
fn unconfined(watch: &mut Watch) -> io::Result<ExitCode> {
    let limits = |watch: &Watch, pid_namespace| Limits {
        process_limit: false,
        pid_namespace,
        process_cgroup: watch.cgroups.bounds_processes().map_err(str::to_owned),
        memory_cgroup: watch.cgroups.bounds_memory().map_err(str::to_owned),
        watched: Ok(()),
        network: false,
    };
    let prepared = |namespaced: Result<(), &str>, notes, limits: Limits| Prepared {
        level: layers::unconfined(namespaced, Identity::own().is_root(), &limits),
        layers: Vec::new(),
        notes,
        refusal: None,
        watched: true,
        restrictions: Restrictions::none(),
    };
    let init = |unbound: Option<io::Error>| {
        let mut notes = Vec::new();
        if let Some(error) = unbound {
            notes.push(format!("the namespace may outlive the supervisor: {error}"));
        }
        let bounded = sandbox::bound_numbers(watch, false);
        // Without one of its own, it is looked for in that of the host.
        if let Err(error) = namespace::mount_proc() {
            notes.push(format!("no `/proc` of the PID namespace: {error}"));
        }
        let limits = limits(watch, bounded);
        watch.run(true, prepared(Ok(()), notes, limits))
    };
    // SAFETY: this process has one thread, and nothing here holds a lock.
    match unsafe { namespace::enter(namespace::OF_ANY_TOOL, init) } {
        Made::Ended(code) => Ok(code),
        Made::Killed => Ok(ExitCode::FAILURE),
        Made::Refused(reason) => {
            // Whatever the tool leaves behind becomes this process's child.
            set_child_subreaper(Some(getpid()))?;
            let reason = reason.to_string();
            let notes = vec![format!("no PID namespace: {reason}")];
            let limits = limits(watch, Err(reason.clone()));
            Ok(watch.run(false, prepared(Err(&reason), notes, limits)))
        }
    }
}
