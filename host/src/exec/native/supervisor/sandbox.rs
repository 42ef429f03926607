//! The sandbox: every layer, in the order in which they are put around the tool.
//!
//! Owns the order, and the ladder: with a user namespace, which anyone may have on
//! most machines; without one, by root's right; and without any namespace. What a
//! rung lacks is in the level that is reported, and where the grant requires all of it,
//! the tool is not started.

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::fstat;
use rustix::process::{geteuid, getpid, set_child_subreaper};

use super::achieved::Achieved;
use super::launch::Restrictions;
use super::namespace::{self, Identity, Made};
use super::view::{Fault, View};
use super::watch::{Prepared, Watch};
use super::{domain, filter, privileges, root};
use crate::exec::level::{Hold, Level};
use crate::exec::native::plan::{Confinement, End, Kind, Plan};

/// The first kernel that counts the processes of a user namespace apart.
const COUNTS_PROCESSES_APART: (u32, u32) = (5, 14);

/// The least that the kernel's bound on processes is set to.
const LEAST_PROCESS_LIMIT: u64 = 1024;

/// A way to have namespaces.
#[derive(Clone, Copy)]
struct Rung {
    user_namespace: bool,
}

impl Rung {
    fn flags(self, plan: &Plan) -> c_int {
        let user = if self.user_namespace { libc::CLONE_NEWUSER } else { 0 };
        let net = if plan.kind.net { 0 } else { libc::CLONE_NEWNET };
        namespace::OF_A_SANDBOX | user | net
    }

    fn name(self) -> &'static str {
        if self.user_namespace { "with a user namespace" } else { "by root's right" }
    }
}

/// Serves the call of a sandboxed tool.
pub(super) fn run(watch: &mut Watch) -> io::Result<ExitCode> {
    let without = watch.request.plan.kind.without;
    let groups = privileges::leave_groups().map_err(|error| format!("groups: {error}"));
    let mut missing = Vec::new();
    let rungs = [
        (!without.user_namespace, Rung { user_namespace: true }),
        (privileges::may_make_namespaces(), Rung { user_namespace: false }),
    ];
    for (_, rung) in rungs.into_iter().filter(|(there, _)| *there && !without.namespaces) {
        let identity = Identity::own();
        let flags = rung.flags(&watch.request.plan);
        let init = |unbound: Option<io::Error>| {
            unbound.map_or(Ok(()), Err)?;
            inside(watch, rung, identity, groups.clone())
        };
        // SAFETY: this process has one thread, and nothing here holds a lock.
        match unsafe { namespace::enter(flags, init) } {
            Made::Ended(Ok(code)) => return Ok(code),
            Made::Killed => return Ok(ExitCode::FAILURE),
            Made::Ended(Err(error)) | Made::Refused(error) => {
                missing.push(format!("{}: {error}", rung.name()));
            }
        }
    }
    if missing.is_empty() {
        missing.push("left out".to_owned());
    }
    set_child_subreaper(Some(getpid()))?;
    outside(watch, missing.join("; "), groups)
}

/// What surrounds the tool already when the layers of its own process are made.
struct Surroundings {
    /// Whether there is a user namespace too; or why there are none.
    namespaces: Result<bool, String>,
    proc: Result<(), String>,
    /// Whether root's other groups were left.
    groups: Result<(), String>,
    /// Places that are the tool's own, and writable.
    own: Vec<PathBuf>,
}

/// As the init of the namespaces. An error is the rung's, and the next one is tried.
fn inside(
    watch: &mut Watch,
    rung: Rung,
    identity: Identity,
    groups: Result<(), String>,
) -> io::Result<ExitCode> {
    if rung.user_namespace {
        identity.map()?;
    }
    let view = match view_of(watch) {
        Ok(view) => view,
        Err(refusal) => return Ok(refuse(watch, true, refusal)),
    };
    let proc = root::enter(&view, watch.request.plan.bounds.memory / 2)?;
    set_directory_for_temporary_files(watch, &view);
    let surroundings = Surroundings {
        namespaces: Ok(rung.user_namespace),
        proc: proc.map_err(|error| error.to_string()),
        groups,
        own: root::OWN.iter().map(PathBuf::from).chain(view.home.clone()).collect(),
    };
    let prepared = prepare(&watch.request.plan, &view, surroundings)?;
    drop(view);
    Ok(watch.run(true, prepared))
}

/// As a plain subreaper.
fn outside(watch: &mut Watch, missing: String, groups: Result<(), String>) -> io::Result<ExitCode> {
    let view = match view_of(watch) {
        Ok(view) => view,
        Err(refusal) => return Ok(refuse(watch, false, refusal)),
    };
    let surroundings = Surroundings {
        namespaces: Err(missing),
        proc: Err("no PID namespace".to_owned()),
        groups,
        own: Vec::new(),
    };
    let prepared = prepare(&watch.request.plan, &view, surroundings)?;
    drop(view);
    Ok(watch.run(false, prepared))
}

fn view_of(watch: &Watch) -> Result<View, End> {
    let [stdin, ..] = &watch.request.streams;
    // From a directory that is open, every `..` leads further out.
    if fstat(stdin).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFDIR) {
        return Err(End::Refused("the stdin of a sandboxed tool cannot be a directory".to_owned()));
    }
    View::of(&watch.request.plan).map_err(|fault| match fault {
        Fault::Refused(reason) => End::Refused(reason),
        Fault::Step(step, errno) => End::NotStarted(step, errno),
    })
}

/// What is the same on every rung: privileges, Landlock, the filter, and the judgement.
fn prepare(plan: &Plan, view: &View, surroundings: Surroundings) -> io::Result<Prepared> {
    let Surroundings { namespaces, proc, groups, own } = surroundings;
    let kind = plan.kind;
    privileges::close_to_others()?;
    let capabilities = privileges::drop_all().map_err(|error| error.to_string());
    let capabilities = capabilities.and(groups);
    let (landlock, domain) = match landlock(plan, view, &own) {
        Ok((version, domain)) => (Ok(version), Some(domain)),
        Err(why) => (Err(why), None),
    };
    // A network namespace has nothing to connect to; without one, there must be no way to.
    let internet = kind.net || namespaces.is_ok();
    let (seccomp, filter) = match seccomp(kind, internet) {
        Ok(filter) => (Ok(()), filter),
        Err(why) => (Err(why), Vec::new()),
    };
    let together = namespaces.clone();
    let apart = |name: &str| match &together {
        Ok(_) => Hold::Enforced,
        Err(why) if kind.without.namespaces => Hold::None(why.clone().into()),
        Err(_) => apart(name),
    };
    // For root the kernel counts nothing.
    let process_limit = namespaces == Ok(true) && counts_processes_apart() && !geteuid().is_root();
    let achieved = Achieved { namespaces, proc, landlock, seccomp, capabilities, process_limit };
    let level = achieved.level();
    // The supervisor counts, and ends the call that has too many. This stops what
    // grows faster than it looks, far enough above for it to see.
    let most = plan.bounds.processes.saturating_mul(4).max(LEAST_PROCESS_LIMIT);
    let processes = process_limit.then_some(most);
    Ok(Prepared {
        layers: if kind.probe { achieved.layers(apart) } else { Vec::new() },
        refusal: refusal_of(plan, &level),
        level,
        notes: Vec::new(),
        restrictions: Restrictions {
            program: CString::new(view.program().as_os_str().as_bytes()).ok(),
            domain,
            filter,
            processes,
            open_files: true,
        },
    })
}

/// Whether the namespace of this name can be made by itself, where it cannot with the others.
fn apart(name: &str) -> Hold {
    let flag = match name {
        "user namespace" => 0,
        "mount namespace" => libc::CLONE_NEWNS,
        "PID namespace" => libc::CLONE_NEWPID,
        "network namespace" => libc::CLONE_NEWNET,
        "IPC namespace" => libc::CLONE_NEWIPC,
        _ => libc::CLONE_NEWUTS,
    };
    // SAFETY: this process has one thread, and nothing here holds a lock.
    match unsafe { namespace::possible(flag | libc::CLONE_NEWUSER) } {
        Ok(()) => Hold::Partial("can be made, but not together with what else it takes".into()),
        Err(error) => Hold::None(error.to_string().into()),
    }
}

fn landlock(plan: &Plan, view: &View, own: &[PathBuf]) -> Result<(i32, OwnedFd), String> {
    if plan.kind.without.landlock {
        return Err("left out".to_owned());
    }
    let domain = || Ok((domain::version()?, domain::of(view, own, plan.kind.net)?));
    domain().map_err(|error: io::Error| error.to_string())
}

fn seccomp(kind: Kind, internet: bool) -> Result<Vec<seccompiler::sock_filter>, String> {
    if kind.without.seccomp {
        return Err("left out".to_owned());
    }
    let holds_socket = kind.host_socket && !kind.net;
    filter::available()
        .and_then(|()| filter::program(internet, holds_socket))
        .map_err(|error| error.to_string())
}

/// Why a tool whose grant requires the sandbox is not started.
fn refusal_of(plan: &Plan, level: &Level) -> Option<End> {
    if plan.kind.sandbox != Confinement::Require {
        return None;
    }
    let (boundary, hold) = level.unmet().next()?;
    Some(End::Refused(format!(
        "the sandbox that the policy requires cannot be had on this machine: {boundary} is {hold}; \
         `ikigai doctor` tells what would raise it"
    )))
}

/// Answers that the tool is not started.
fn refuse(watch: &mut Watch, namespaced: bool, refusal: End) -> ExitCode {
    let prepared = Prepared {
        // Nothing runs, so nothing is reached.
        level: Level::of_a_component(),
        layers: Vec::new(),
        notes: Vec::new(),
        refusal: Some(refusal),
        restrictions: Restrictions::none(),
    };
    watch.run(namespaced, prepared)
}

/// What the host calls its directory for temporary files is not there for the tool,
/// which has its own at the usual place.
fn set_directory_for_temporary_files(watch: &mut Watch, view: &View) {
    const NAME: &[u8] = b"TMPDIR=";
    for variable in &mut watch.request.plan.env {
        if let Some(dir) = variable.as_bytes().strip_prefix(NAME)
            && !view.has(Path::new(std::ffi::OsStr::from_bytes(dir)))
        {
            *variable = c"TMPDIR=/tmp".to_owned();
        }
    }
}

fn counts_processes_apart() -> bool {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy();
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= COUNTS_PROCESSES_APART,
        _ => false,
    }
}
