//! The helper process that every native call has: a second start of the host's
//! own executable, which starts the tool, watches it, and leaves nothing of it.
//!
//! ```text
//! host ── control socket ── supervisor ── [init of a PID namespace] ── tool ── …
//! ```
//!
//! Owns the order in which the helper prepares itself. The order matters: what
//! the tool inherits (session, signals, limits, namespaces) is set up before it
//! is started, and what only the tool may have is set in the tool's own process,
//! between its clone and its exec ([`launch`]).
//!
//! Invariant: this process has one thread. Forking, and PDEATHSIG (which follows
//! the *thread* that forked, not the process), are sound only because of that.
//! The host is multi-threaded and spawns from pools, so its own end is seen as the
//! end of the control socket, never by PDEATHSIG.

mod achieved;
mod cgroup;
mod domain;
mod filter;
mod identity;
mod installation;
mod launch;
mod mounts;
mod namespace;
mod privileges;
mod reaper;
mod request;
mod root;
mod sandbox;
mod signals;
mod view;
mod watch;

use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getpid, set_child_subreaper, setrlimit, setsid};

use crate::exec::native::plan::Confinement;
use achieved::Limits;
use cgroup::Cgroups;
use launch::Restrictions;
use namespace::Made;
use watch::{Prepared, Watch};

/// The argument that makes the host's executable a supervisor. Not a command
/// for people: it answers only over the socket that is its stdin.
pub const ARGUMENT: &str = "__sandbox";

/// Serves one call, and exits.
///
/// To be called before anything else in `main`, where [`ARGUMENT`] is the first
/// argument: no thread may have been started.
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
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
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

/// Serves the call of a tool with all of its user's rights.
fn unconfined(watch: &mut Watch) -> io::Result<ExitCode> {
    let limits = |watch: &Watch, pid_namespace| Limits {
        process_limit: false,
        pid_namespace,
        process_cgroup: watch.cgroups.bounds_processes().map_err(str::to_owned),
        memory_cgroup: watch.cgroups.bounds_memory().map_err(str::to_owned),
        watched: Ok(()),
    };
    let prepared = |namespaced: Result<(), &str>, notes, limits: Limits| Prepared {
        level: achieved::unconfined(namespaced, &limits),
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
