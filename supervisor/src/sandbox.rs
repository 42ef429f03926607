//! The sandbox: every layer, in the order in which they are put around the tool.
//!
//! Owns the order, and the ladder: with a user namespace, which anyone may have on most
//! machines, and in which root is a user without rights; with one in which it stays root;
//! without one, by root's right; and without any namespace. What a rung lacks is in the
//! level that is reported, and where the grant requires all of it, the tool is not started.

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::fstat;
use rustix::process::{geteuid, getpid, set_child_subreaper};

use super::filter::{self, Reach};
use super::identity::Identity;
use super::launch::Restrictions;
use super::layers::{Achieved, Limits};
use super::namespace::{self, Made};
use super::view::{Fault, View};
use super::watch::{Prepared, Watch};
use super::{domain, privileges, root};
use crate::isolation::{Hold, Level};
use crate::plan::{Confinement, End, Kind, Plan};
use crate::process_tree;

/// The first kernel that counts the processes of a user namespace apart.
const COUNTS_PROCESSES_APART: (u32, u32) = (5, 14);

/// How far above the limit on processes the numbers of a PID namespace end where something
/// else keeps the limit: numbers that are given again soon would be taken for others.
const SPARE_NUMBERS: u64 = 1 << 15;

/// What a user's other programs may start while a call without namespaces lasts.
const SPARE_PROCESSES: u64 = 256;

/// A way to have namespaces.
#[derive(Clone, Copy)]
enum Rung {
    /// With a user namespace in which the tool is this user.
    User(Identity),
    /// By root's right.
    Root,
}

impl Rung {
    fn flags(self, plan: &Plan) -> c_int {
        let user = if matches!(self, Self::User(_)) { libc::CLONE_NEWUSER } else { 0 };
        let net = if plan.kind.net { 0 } else { libc::CLONE_NEWNET };
        namespace::OF_A_SANDBOX | user | net
    }

    fn name(self) -> &'static str {
        match self {
            Self::User(it) if it.is_assumed() => "with root mapped away",
            Self::User(_) => "with a user namespace",
            Self::Root => "by root's right",
        }
    }
}

/// The rungs that this process may try, the best first.
fn rungs(plan: &Plan) -> io::Result<Vec<Rung>> {
    let without = plan.kind.without;
    if without.namespaces {
        return Ok(Vec::new());
    }
    let (own, root) = (Identity::own(), privileges::may_make_namespaces());
    let mapped = root && own.is_root() && !without.id_maps;
    let user = mapped.then(Identity::mapped_root).transpose()?.into_iter().chain([own]);
    let user = user.filter(|_| !without.user_namespace).map(Rung::User);
    Ok(user.chain(root.then_some(Rung::Root)).collect())
}

/// Serves the call of a sandboxed tool.
pub(super) fn run(watch: &mut Watch) -> io::Result<ExitCode> {
    let groups = privileges::leave_groups().map_err(|error| format!("groups: {error}"));
    let mut missing = Vec::new();
    for rung in rungs(&watch.request.plan)? {
        match climb(watch, rung, groups.clone(), &missing) {
            Ok(Made::Ended(Ok(code))) => return Ok(code),
            Ok(Made::Killed) => return Ok(ExitCode::FAILURE),
            Ok(Made::Ended(Err(error)) | Made::Refused(error)) | Err(error) => {
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

/// Serves the call in the namespaces of a rung. An error is the rung's, and the next one
/// is tried; `missing` are those of the rungs before it.
fn climb(
    watch: &mut Watch,
    rung: Rung,
    groups: Result<(), String>,
    missing: &[String],
) -> io::Result<Made<io::Result<ExitCode>>> {
    let flags = rung.flags(&watch.request.plan);
    let stranger = match rung {
        Rung::User(identity) if identity.is_assumed() => Some(identity),
        _ => None,
    };
    // What root alone can open is opened before the tool's user is another.
    let view = match stranger {
        None => None,
        Some(identity) => match view_of(watch) {
            Ok(mut view) => {
                view.hand_over(&identity.map_for_mounts()?)?;
                identity.own_pipes(&watch.request.streams)?;
                Some(view)
            }
            Err(refusal) => return Ok(Made::Ended(Ok(refuse(watch, refusal)))),
        },
    };
    let init = |unbound: Option<io::Error>| {
        unbound.map_or(Ok(()), Err)?;
        inside(watch, rung, view, groups, missing)
    };
    if let Some(identity) = stranger {
        identity.assume()?;
    }
    // SAFETY: this process has one thread, and nothing here holds a lock.
    let made = unsafe { namespace::enter(flags, init) };
    if stranger.is_some() {
        Identity::resume()?;
    }
    Ok(made)
}

/// What surrounds the tool already when the layers of its own process are made.
struct Surroundings {
    /// Whether there is a user namespace too; or why there are none.
    namespaces: Result<bool, String>,
    proc: Result<(), String>,
    /// Whether root's other groups were left.
    groups: Result<(), String>,
    /// Whether the tool is no root for the kernel.
    mapped: Result<(), String>,
    /// Whether the numbers of processes are bounded, and by the limit itself.
    pid_namespace: Result<bool, String>,
    /// Places that are the tool's own, and writable.
    own: Vec<PathBuf>,
}

/// As the init of the namespaces. An error is the rung's, and the next one is tried.
fn inside(
    watch: &mut Watch,
    rung: Rung,
    view: Option<View>,
    groups: Result<(), String>,
    missing: &[String],
) -> io::Result<ExitCode> {
    let outside_root = match rung {
        Rung::User(identity) => {
            identity.map()?;
            identity.is_root()
        }
        Rung::Root => Identity::own().is_root(),
    };
    let pid_namespace = bound_numbers(watch, !outside_root);
    let view = match view.map_or_else(|| view_of(watch), Ok) {
        Ok(view) => view,
        Err(refusal) => return Ok(refuse(watch, refusal)),
    };
    let proc = match root::enter(&view, watch.request.plan.bounds.memory / 2) {
        // Another way to have namespaces would not reach it either.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            let refusal = End::Refused(format!("{error}: is a directory being renamed?"));
            return Ok(refuse(watch, refusal));
        }
        entered => entered?,
    };
    set_directory_for_temporary_files(watch, &view);
    let mapped = if outside_root { Err(missing.join("; ")) } else { Ok(()) };
    let surroundings = Surroundings {
        namespaces: Ok(matches!(rung, Rung::User(_))),
        proc: proc.map_err(|error| error.to_string()),
        groups,
        mapped,
        pid_namespace,
        own: root::OWN.iter().map(PathBuf::from).chain(view.home.clone()).collect(),
    };
    let prepared = prepare(watch, &view, surroundings)?;
    drop(view);
    Ok(watch.run(true, prepared))
}

/// Bounds the numbers of this PID namespace: by the limit on processes itself where the
/// kernel counts them in no other way, which is whether that is so.
pub(super) fn bound_numbers(watch: &Watch, counted_by_user: bool) -> Result<bool, String> {
    let plan = &watch.request.plan;
    if plan.kind.without.pid_limit {
        return Err("left out".to_owned());
    }
    let most = most_processes(plan);
    let counted = counted_by_user && counts_processes_apart();
    let is_limit = !counted && watch.cgroups.bounds_processes().is_err();
    let room = if is_limit { most } else { most.saturating_add(SPARE_NUMBERS) };
    namespace::bound_processes(room).map_err(|error| error.to_string())?;
    Ok(is_limit)
}

/// The processes and threads that the kernel allows where it does not tell that it has
/// refused one: one more than the limit, by which the supervisor sees that it is passed,
/// and ends the call.
fn most_processes(plan: &Plan) -> u64 {
    plan.bounds.processes.saturating_add(1)
}

/// The processes and threads that a user may have who has no namespace, with all that
/// others of its programs do: no limit of the call's, but a bound on what grows faster than
/// it can be watched and killed.
fn most_of_user(plan: &Plan) -> io::Result<u64> {
    let own = process_tree::tasks_of(geteuid())?;
    Ok(own.saturating_add(plan.bounds.processes.saturating_mul(2)).saturating_add(SPARE_PROCESSES))
}

/// As a plain subreaper.
fn outside(watch: &mut Watch, missing: String, groups: Result<(), String>) -> io::Result<ExitCode> {
    let view = match view_of(watch) {
        Ok(view) => view,
        Err(refusal) => return Ok(refuse(watch, refusal)),
    };
    let root = Identity::own().is_root();
    let surroundings = Surroundings {
        namespaces: Err(missing.clone()),
        proc: Ok(()),
        groups,
        mapped: if root { Err(missing) } else { Ok(()) },
        pid_namespace: Err("no PID namespace".to_owned()),
        own: Vec::new(),
    };
    let prepared = prepare(watch, &view, surroundings)?;
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
fn prepare(watch: &Watch, view: &View, surroundings: Surroundings) -> io::Result<Prepared> {
    let Surroundings { namespaces, proc, groups, mapped, pid_namespace, own } = surroundings;
    let plan = &watch.request.plan;
    let kind = plan.kind;
    privileges::close_to_others()?;
    let capabilities = privileges::drop_all().map_err(|error| error.to_string());
    let capabilities = capabilities.and(groups);
    let (landlock, domain) = match landlock(plan, view, &own) {
        Ok((version, domain)) => (Ok(version), Some(domain)),
        Err(why) => (Err(why), None),
    };
    let reach = Reach {
        net: kind.net,
        host_socket: kind.host_socket && !kind.net,
        own_processes: namespaces.is_ok(),
    };
    let (seccomp, filter) = match seccomp(kind, reach) {
        Ok(filter) => (Ok(()), filter),
        Err(why) => (Err(why), Vec::new()),
    };
    let together = namespaces.clone();
    let apart = |name: &str| match &together {
        Ok(_) => Hold::Enforced,
        Err(why) if kind.without.namespaces => Hold::None(why.clone().into()),
        Err(_) => apart(name),
    };
    // The kernel counts nothing for its own root, and all of a user's outside of a user
    // namespace.
    let process_limit = namespaces == Ok(true) && counts_processes_apart() && mapped.is_ok();
    let limits = Limits {
        process_limit,
        pid_namespace,
        process_cgroup: watch.cgroups.bounds_processes().map_err(str::to_owned),
        memory_cgroup: watch.cgroups.bounds_memory().map_err(str::to_owned),
        watched: proc.clone(),
        network: kind.net,
    };
    // The init is counted too: it is the same user in the same namespace.
    let processes = match process_limit {
        true => Some(most_processes(plan).saturating_add(1)),
        false if namespaces.is_err() && mapped.is_ok() => Some(most_of_user(plan)?),
        false => None,
    };
    let achieved = Achieved { namespaces, proc, landlock, seccomp, capabilities, mapped, limits };
    let level = achieved.level();
    Ok(Prepared {
        layers: if kind.probe { achieved.layers(apart) } else { Vec::new() },
        refusal: refusal_of(plan, &level),
        level,
        notes: Vec::new(),
        watched: achieved.limits.watched.is_ok(),
        restrictions: Restrictions {
            program: CString::new(view.program().as_os_str().as_bytes()).ok(),
            domain,
            filter,
            processes,
            sandboxed: true,
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

fn seccomp(kind: Kind, reach: Reach) -> Result<Vec<seccompiler::sock_filter>, String> {
    if kind.without.seccomp {
        return Err("left out".to_owned());
    }
    filter::available().and_then(|()| filter::program(reach)).map_err(|error| error.to_string())
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
fn refuse(watch: &mut Watch, refusal: End) -> ExitCode {
    let prepared = Prepared {
        // Nothing runs, so nothing is reached.
        level: Level::of_a_component(),
        layers: Vec::new(),
        notes: Vec::new(),
        refusal: Some(refusal),
        watched: false,
        restrictions: Restrictions::none(),
    };
    // There is nothing to end, wherever this process is.
    watch.run(false, prepared)
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
    namespace::kernel_is_since(COUNTS_PROCESSES_APART)
}
