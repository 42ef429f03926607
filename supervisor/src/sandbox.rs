//! The sandbox: every layer, in the order in which the layers are put around the tool.
//!
//! Owns the order, and the fallbacks:
//!
//! 1. If the host is root, a user namespace in which root is a user without rights.
//! 2. A user namespace in which the tool is the host's user. Any user may make one on most
//!    machines.
//! 3. If the host is root, namespaces by root's privilege, without a user namespace.
//! 4. No namespaces.
//!
//! The isolation that is reported shows what a fallback lacks. If the policy requires all of it,
//! the tool is not started.

use std::ffi::{CString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fstat};
use rustix::process::{geteuid, getpid, set_child_subreaper};
use rustix::thread::CapabilitySet;

use super::filter::{self, FilterRights, Sockets};
use super::identity::UserIdentity;
use super::launch::{OwnSockets, Restrictions};
use super::layers::{LayerStates, LimitMechanisms};
use super::namespace::{self, Init, Namespace};
use super::observer::ToolScope;
use super::overlay::OverlayDir;
use super::root::ToolRoot;
use super::selection::{self, ViewFault};
use super::view::{OWN, View};
use super::watch::{CallWatch, Delivery, PreparedSandbox};
use super::{domain, loopback, privileges, user_watches};
use crate::isolation::{Guarantee, Isolation};
use crate::plan::{OmittedLayers, Plan, RunMode, Sandbox, ToolEnd, ToolNetwork, path_of};
use crate::process_tree;

/// The first kernel that counts the processes of each user namespace separately.
const COUNTS_PROCESSES_APART: (u32, u32) = (5, 14);

/// The first kernel that charges semaphores of System V to a control group. It has always charged
/// rules of Landlock.
const CHARGES_IPC: (u32, u32) = (5, 15);

/// The first kernel on which a supervisor can make the connections of another process. It must
/// copy a descriptor of that process (5.6), and be asked about a notification by the number that
/// libc has (5.9).
const MAKES_CONNECTIONS: (u32, u32) = (5, 9);

/// The spare numbers of a PID namespace, beyond the limit on processes, if something else
/// enforces that limit. A number that is reused too soon would be taken for another process.
const SPARE_NUMBERS: u64 = 1 << 15;

/// The processes that the user's other programs may start during a call without namespaces.
const SPARE_PROCESSES: u64 = 256;

/// A way to make the namespaces. Each is the fallback of the one before it.
#[derive(Clone, Copy)]
enum Fallback {
    /// In a user namespace in which the tool is this user.
    User(UserIdentity),
    /// By root's privilege.
    Root,
}

impl Fallback {
    fn flags(self, net: ToolNetwork) -> c_int {
        let user = if matches!(self, Self::User(_)) { Namespace::User.flag() } else { 0 };
        let net = match net {
            ToolNetwork::None | ToolNetwork::Relay => Namespace::Network.flag(),
            ToolNetwork::Host => 0,
        };
        namespace::OF_A_SANDBOX | user | net
    }

    /// Returns the user that this process, as root, has to become while it makes the namespaces.
    fn assumed(self) -> Option<UserIdentity> {
        match self {
            Self::User(identity) if identity.is_assumed() => Some(identity),
            Self::User(_) | Self::Root => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::User(it) if it.is_assumed() => "with root mapped away",
            Self::User(_) => "with a user namespace",
            Self::Root => "by root's privilege",
        }
    }
}

/// Returns the fallbacks that this process may try, the best first.
fn fallbacks(without: OmittedLayers) -> io::Result<Vec<Fallback>> {
    if without.namespaces {
        return Ok(Vec::new());
    }
    let (own, root) = (UserIdentity::own(), privileges::may_make_namespaces());
    let mapped = root && own.is_root() && !without.id_maps;
    let user = mapped.then(UserIdentity::mapped_root).transpose()?.into_iter().chain([own]);
    let user = user.filter(|_| !without.user_namespace).map(Fallback::User);
    Ok(user.chain(root.then_some(Fallback::Root)).collect())
}

/// The namespaces of a fallback, and what every sandbox has in them.
pub(super) struct SandboxNamespaces {
    fallback: Fallback,
    flags: c_int,
    init: Init,
    /// The root of the tool, unless it is granted the whole of the host's.
    root: Option<ToolRoot>,
    /// The user namespace by which granted directories are mapped.
    owners: Option<OwnedFd>,
}

/// Makes the best namespaces that this machine supports, including a network namespace. Returns
/// `None` if that fails.
pub(super) fn begin(control: BorrowedFd<'_>) -> Option<SandboxNamespaces> {
    // Inherited. If it fails, it fails again when there is a plan, and is reported then.
    let _ = privileges::leave_groups();
    let best = fallbacks(OmittedLayers::default()).ok()?.into_iter().next()?;
    SandboxNamespaces::new(best, best.flags(ToolNetwork::None), false, control).ok().flatten()
}

impl SandboxNamespaces {
    /// Makes the namespaces. Returns `None` if their init was killed.
    fn new(
        fallback: Fallback,
        flags: c_int,
        grants_all: bool,
        control: BorrowedFd<'_>,
    ) -> io::Result<Option<Self>> {
        let assumed = fallback.assumed();
        let owners = assumed.map(UserIdentity::map_for_mounts).transpose()?;
        if let Some(identity) = assumed {
            identity.assume()?;
        }
        let mut root = None;
        let prepare = || {
            if let Fallback::User(identity) = fallback {
                identity.map()?;
            }
            root = (!grants_all).then(|| ToolRoot::begin(None)).transpose()?;
            Ok(())
        };
        // SAFETY: this process has one thread, and nothing here holds a lock.
        let init = unsafe { Init::start(flags, control, prepare) };
        if assumed.is_some() {
            UserIdentity::resume()?;
        }
        Ok(init?.map(|init| Self { fallback, flags, init, root, owners }))
    }

    /// Returns the init that waits in these namespaces.
    pub(super) fn init(&self) -> &Init {
        &self.init
    }

    /// Returns whether the plan asks for exactly these namespaces, and they are still good.
    fn serves(&self, plan: &Plan) -> bool {
        let OmittedLayers { namespaces, user_namespace, id_maps, .. } = plan.kind.without;
        let is_whole = !(namespaces || user_namespace || id_maps || grants_all(plan));
        is_whole && self.flags == self.fallback.flags(plan.kind.net) && self.init.is_good()
    }
}

/// Serves the call of a sandboxed tool. Uses the namespaces that were begun, if they serve it.
pub(super) fn run(
    watch: &mut CallWatch<'_>,
    begun: Option<SandboxNamespaces>,
) -> io::Result<Delivery> {
    let groups = privileges::leave_groups().map_err(|error| format!("groups: {error}"));
    let mut missing = Vec::new();
    let begun = begun.filter(|begun| begun.serves(&watch.request.plan));
    // The namespaces that were begun are those of the first fallback.
    if let Some(begun) = begun {
        let fallback = begun.fallback;
        match served(attempt(watch, fallback, Some(begun), groups.clone(), &missing)) {
            Ok(delivery) => return Ok(delivery),
            Err(error) => missing.push(format!("{}: {error}", fallback.name())),
        }
    }
    let without = watch.request.plan.kind.without;
    for fallback in fallbacks(without)?.into_iter().skip(missing.len()) {
        match served(attempt(watch, fallback, None, groups.clone(), &missing)) {
            Ok(delivery) => return Ok(delivery),
            Err(error) => missing.push(format!("{}: {error}", fallback.name())),
        }
    }
    if missing.is_empty() {
        missing.push("left out".to_owned());
    }
    set_child_subreaper(Some(getpid()))?;
    outside(watch, missing.join("; "), groups)
}

/// Returns the result of an attempt, or the reason to try the next fallback.
fn served(attempted: io::Result<Option<io::Result<Delivery>>>) -> io::Result<Delivery> {
    attempted?.unwrap_or(Ok(Delivery::Lost))
}

/// Serves the call in the namespaces of a fallback, or in the namespaces that were begun, which
/// are the best fallback's. After an error the next fallback is tried. `missing` are the errors
/// of the previous fallbacks. Returns `None` if the init was killed.
fn attempt(
    watch: &mut CallWatch<'_>,
    fallback: Fallback,
    begun: Option<SandboxNamespaces>,
    groups: Result<(), String>,
    missing: &[String],
) -> io::Result<Option<io::Result<Delivery>>> {
    let fallback = begun.as_ref().map_or(fallback, |begun| begun.fallback);
    // Only root can open some files.
    let view = fallback.assumed().map(|_| view_of(watch)).transpose();
    let mut view = match view {
        Ok(view) => view,
        Err(refusal) => {
            drop(begun);
            return Ok(Some(Ok(refuse(watch, refusal))));
        }
    };
    let begun = match begun {
        Some(begun) => begun,
        None => {
            let plan = &watch.request.plan;
            let (flags, control) = (fallback.flags(plan.kind.net), watch.request.control.as_fd());
            let Some(begun) = SandboxNamespaces::new(fallback, flags, grants_all(plan), control)?
            else {
                return Ok(None);
            };
            begun
        }
    };
    let SandboxNamespaces { init, root, owners, .. } = begun;
    if let (Some(view), Some(owners)) = (&mut view, &owners) {
        view.hand_over(owners)?;
    }
    if let Some(identity) = fallback.assumed() {
        identity.own_pipes(&watch.request.streams)?;
    }
    let work = || inside(watch, fallback, (view, root), groups, missing);
    // SAFETY: this process has one thread, and nothing here holds a lock.
    Ok(unsafe { init.run(work) })
}

/// Returns whether the plan shows the tool the whole of the host's tree.
fn grants_all(plan: &Plan) -> bool {
    plan.dirs.iter().any(|dir| path_of(&dir.path) == Path::new("/"))
}

/// The layers around the supervisor, which exist before the layers of the tool's own process.
/// Each error is the reason why a layer is missing.
struct OuterLayers {
    /// `Ok(true)` if there is a user namespace too.
    namespaces: Result<bool, String>,
    /// A `/proc` of the namespace's own.
    proc: Result<(), String>,
    /// The list of locks, if the `/proc` of the tool does not show it.
    locks: Option<File>,
    /// The result of leaving root's other groups.
    groups: Result<(), String>,
    /// A user that is not root for the kernel.
    mapped: Result<(), String>,
    /// A bound on the numbers of processes: `Ok(true)` if it is the limit itself.
    pid_namespace: Result<bool, String>,
    /// The network of the plan, and its listener if the network is the relay. The error is the
    /// reason why the tool has no network instead.
    network: Result<(ToolNetwork, Option<OwnedFd>), String>,
    /// The tool's own loopback: the device of the file system with the files of local sockets,
    /// or the reason why the tool has no sockets. `None` if the plan asks for no such sockets.
    own_sockets: Option<Result<u64, String>>,
    /// The writable directories that the tool has for itself.
    own: Vec<PathBuf>,
    /// The directories of the machine among `own`.
    overlaid: Vec<OverlayDir>,
    /// Remarks for the readers of the log.
    notes: Vec<String>,
}

/// Serves the call as the init of the namespaces. After an error the next fallback is tried.
fn inside(
    watch: &mut CallWatch<'_>,
    fallback: Fallback,
    (view, root): (Option<View>, Option<ToolRoot>),
    groups: Result<(), String>,
    missing: &[String],
) -> io::Result<Delivery> {
    let outside_root = match fallback {
        Fallback::User(identity) => identity.is_root(),
        Fallback::Root => UserIdentity::own().is_root(),
    };
    let pid_namespace = bound_numbers(watch, !outside_root);
    let inotify = match fallback {
        Fallback::User(_) => user_watches::bound_inotify(),
        Fallback::Root => Ok(()),
    };
    let network = network_of(&watch.request.plan);
    let loopback = wants_own_sockets(&watch.request.plan.kind).then(loopback::begin);
    let view = match view.map_or_else(|| view_of(watch), Ok) {
        Ok(view) => view,
        Err(refusal) => return Ok(refuse(watch, refusal)),
    };
    let granted = view.entries.first().filter(|entry| entry.path == Path::new("/"));
    let root = root.map_or_else(|| ToolRoot::begin(granted), Ok);
    let root = match root.and_then(|it| it.enter(&view, watch.request.plan.bounds.memory / 2)) {
        // It would be unreachable in any other fallback too.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            return Ok(refuse(watch, ToolEnd::Refused(error.to_string())));
        }
        entered => entered?,
    };
    set_directory_for_temporary_files(watch, &view);
    let mapped = match missing {
        _ if !outside_root => Ok(()),
        [] => Err("this process cannot map root to another user".to_owned()),
        errors => Err(errors.join("; ")),
    };
    let mut notes = root.notes;
    notes.extend(inotify.err().map(|why| format!("inotify is limited only for its user: {why}")));
    let own_sockets = loopback.map(|begun| match begun {
        Ok(()) => Ok(root.memory),
        Err(error) => Err(format!("no loopback: {error}")),
    });
    let overlaid = root.overlaid.iter().map(|over| over.path.clone());
    let own = OWN.iter().map(PathBuf::from).chain(view.home.clone()).chain(overlaid).collect();
    let surroundings = OuterLayers {
        namespaces: Ok(matches!(fallback, Fallback::User(_))),
        proc: root.proc.map_err(|error| error.to_string()),
        locks: root.locks,
        groups,
        mapped,
        pid_namespace,
        network,
        own_sockets,
        own,
        overlaid: root.overlaid,
        notes,
    };
    let prepared = prepare(watch, &view, surroundings)?;
    drop(view);
    Ok(watch.run(true, prepared))
}

/// Prepares the network that the plan asks for, in a network namespace unless it is the host's.
fn network_of(plan: &Plan) -> Result<(ToolNetwork, Option<OwnedFd>), String> {
    let network = plan.kind.net;
    let listener = (network == ToolNetwork::Relay).then(loopback::listener).transpose();
    Ok((network, listener.map_err(|error| format!("no loopback: {error}"))?))
}

/// Returns whether a tool is to have sockets in its own network.
fn wants_own_sockets(kind: &RunMode) -> bool {
    kind.own_sockets && kind.net != ToolNetwork::Host
}

/// Bounds the numbers of this PID namespace. If the kernel counts the processes in no other way,
/// the bound is the limit on processes itself, and the result is `true`.
pub(super) fn bound_numbers(watch: &CallWatch<'_>, counted_by_user: bool) -> Result<bool, String> {
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

/// Returns the number of processes and threads for a kernel mechanism that does not report a
/// refusal. It is one more than the limit: the supervisor then sees that the limit is exceeded,
/// and ends the call.
fn most_processes(plan: &Plan) -> u64 {
    plan.bounds.processes.saturating_add(1)
}

/// Returns the number of processes and threads that a user without a namespace may have,
/// including the user's other programs. This is not the call's limit, but a bound on a tool that
/// forks faster than it can be watched and killed.
pub(super) fn most_of_user(plan: &Plan) -> io::Result<u64> {
    let own = process_tree::tasks_of(geteuid())?;
    Ok(own.saturating_add(plan.bounds.processes.saturating_mul(2)).saturating_add(SPARE_PROCESSES))
}

/// Serves the call as a plain subreaper, without namespaces.
fn outside(
    watch: &mut CallWatch<'_>,
    missing: String,
    groups: Result<(), String>,
) -> io::Result<Delivery> {
    let mut view = match view_of(watch) {
        Ok(view) => view,
        Err(refusal) => return Ok(refuse(watch, refusal)),
    };
    view.own_hosts = false;
    if !view.hidden.is_empty() || !view.kept.is_empty() {
        let boundary = format!("files must be hidden, but there is no mount namespace ({missing})");
        return Ok(refuse(watch, ToolEnd::Unconfined(boundary)));
    }
    // Landlock cannot take rights away within a granted directory, so `fs` is only partial.
    let unkept = (!view.read_only.is_empty() || !view.pinned.is_empty())
        .then(|| "files that other programs execute can be written: no mounts".to_owned());
    let notes = unkept.into_iter().collect();
    let root = UserIdentity::own().is_root();
    let network = match watch.request.plan.kind.net {
        // In the host's namespace any process could connect to the listener.
        ToolNetwork::Relay => Err(format!("no network namespace ({missing})")),
        network => Ok((network, None)),
    };
    let no_loopback = || Err(format!("no network namespace ({missing})"));
    let surroundings = OuterLayers {
        namespaces: Err(missing.clone()),
        proc: Ok(()),
        locks: None,
        groups,
        network,
        own_sockets: wants_own_sockets(&watch.request.plan.kind).then(no_loopback),
        mapped: if root { Err(missing) } else { Ok(()) },
        pid_namespace: Err("no PID namespace".to_owned()),
        own: Vec::new(),
        overlaid: Vec::new(),
        notes,
    };
    let prepared = prepare(watch, &view, surroundings)?;
    drop(view);
    Ok(watch.run(false, prepared))
}

fn view_of(watch: &CallWatch<'_>) -> Result<View, ToolEnd> {
    let [stdin, ..] = &watch.request.streams;
    let refused = match fstat(stdin).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        // From an open directory, `..` leads out of what is shown.
        Ok(FileType::Directory) => Some("a directory"),
        // It belongs to the host's network. The host sends a pipe in its place.
        Ok(FileType::Socket) => Some("a socket"),
        _ => None,
    };
    if let Some(kind) = refused {
        let reason = format!("the stdin of a sandboxed tool cannot be {kind}");
        return Err(ToolEnd::Refused(reason));
    }
    selection::choose(&watch.request.plan).map_err(|fault| match fault {
        ViewFault::Refused(reason) => ToolEnd::Refused(reason),
        ViewFault::Step(step, errno) => ToolEnd::NotStarted(step, errno),
    })
}

/// Prepares what is the same for every fallback: privileges, Landlock, the filter, and the
/// isolation.
fn prepare(
    watch: &CallWatch<'_>,
    view: &View,
    surroundings: OuterLayers,
) -> io::Result<PreparedSandbox> {
    let OuterLayers {
        namespaces,
        proc,
        locks,
        groups,
        mapped,
        pid_namespace,
        network,
        own_sockets,
        own,
        overlaid,
        mut notes,
    } = surroundings;
    let plan = &watch.request.plan;
    let kind = plan.kind;
    // If the tool's network is missing, it runs without a network.
    let ((network, listener), lacking) = match network {
        Ok(network) => (network, None),
        Err(why) => ((ToolNetwork::None, None), Some(why)),
    };
    let memory_cgroup = watch.cgroups.bounds_memory().map_err(str::to_owned);
    let own_sockets = own_sockets.transpose().and_then(|files| {
        let Some(files) = files else { return Ok(None) };
        own_sockets_are_bounded(kind, &proc, &memory_cgroup)?;
        Ok(Some(files))
    });
    let has_network = network != ToolNetwork::None || matches!(own_sockets, Ok(Some(_)));
    privileges::close_to_others()?;
    // Outside of a user namespace the capability would be a right over the machine's network.
    let keep = match (&own_sockets, &namespaces) {
        (Ok(Some(_)), Ok(true)) => privileges::over_own_network(),
        _ => CapabilitySet::empty(),
    };
    let capabilities = privileges::drop_all_but(keep).map_err(|error| error.to_string());
    let capabilities = capabilities.and(groups);
    let (landlock, domain) = match landlock(plan, view, &own, has_network) {
        Ok((version, domain)) => (Ok(version), Some(domain)),
        Err(why) => (Err(why), None),
    };
    let reach = FilterRights {
        sockets: match network {
            ToolNetwork::None => Sockets::None,
            ToolNetwork::Relay => Sockets::Tcp,
            ToolNetwork::Host => Sockets::All,
        },
        host_socket: kind.host_socket && network != ToolNetwork::Host,
        own_processes: namespaces.is_ok(),
        counted_memory: memory_cgroup.is_ok() && namespace::kernel_is_since(CHARGES_IPC),
    };
    let own_sockets =
        own_sockets.map(|files| files.map(|files| OwnSockets { files, otherwise: reach }));
    let sockets = if matches!(own_sockets, Ok(Some(_))) { Sockets::Own } else { reach.sockets };
    let (seccomp, filter) = match seccomp(kind, FilterRights { sockets, ..reach }) {
        Ok(filter) => (Ok(()), filter),
        Err(why) => (Err(why), Vec::new()),
    };
    let together = namespaces.clone();
    let apart = |namespace: Namespace| match &together {
        Ok(_) => Guarantee::Enforced,
        Err(why) if kind.without.namespaces => Guarantee::None(why.clone().into()),
        Err(_) => apart(namespace),
    };
    // The kernel does not limit the processes of the machine's root. Outside of a user namespace
    // it counts all processes of the user.
    let process_limit = namespaces == Ok(true) && counts_processes_apart() && mapped.is_ok();
    let limits = LimitMechanisms {
        process_limit,
        pid_namespace,
        process_cgroup: watch.cgroups.bounds_processes().map_err(str::to_owned),
        memory_cgroup,
        watched: proc.clone(),
        network: network != ToolNetwork::None || matches!(own_sockets, Ok(Some(_))),
    };
    // The init is counted too: it is the same user in the same namespace.
    let processes = match process_limit {
        true => Some(most_processes(plan).saturating_add(1)),
        false if namespaces.is_err() && mapped.is_ok() => Some(most_of_user(plan)?),
        false => None,
    };
    let namespaced = namespaces.is_ok();
    let layers = LayerStates { namespaces, proc, landlock, seccomp, capabilities, mapped, limits };
    let isolation = layers.isolation();
    notes.extend(lacking.as_ref().map(|why| format!("the tool has no network: {why}")));
    let own_sockets = own_sockets.unwrap_or_else(|why| {
        notes.push(format!("the tool has no sockets of its own: {why}"));
        None
    });
    Ok(PreparedSandbox {
        layers: if kind.probe { layers.list(apart) } else { Vec::new() },
        refusal: refusal_of(plan, &isolation, lacking.as_deref()),
        isolation: Some(isolation),
        notes,
        watched: layers.limits.watched.is_ok(),
        locks,
        listener,
        restrictions: Restrictions {
            program: CString::new(view.program().as_os_str().as_bytes()).ok(),
            domain,
            filter,
            processes,
            sandboxed: true,
            own_sockets,
        },
        scope: ToolScope::from_plan(plan, view, overlaid, namespaced),
    })
}

/// Fails if the number or the connections of a tool's own sockets could not be bounded, with the
/// reason.
fn own_sockets_are_bounded(
    kind: RunMode,
    proc: &Result<(), String>,
    memory_cgroup: &Result<(), String>,
) -> Result<(), String> {
    if kind.without.seccomp {
        return Err("no seccomp".to_owned());
    }
    if !namespace::kernel_is_since(MAKES_CONNECTIONS) {
        return Err("before Linux 5.9, ikigai cannot make its connections".to_owned());
    }
    proc.as_ref().map_err(|why| format!("no `/proc`: {why}"))?;
    memory_cgroup.as_ref().map_err(|why| format!("no cgroup counts their memory: {why}"))?;
    Ok(())
}

/// Returns the state of one namespace, after it could not be made together with the others.
fn apart(namespace: Namespace) -> Guarantee {
    // SAFETY: this process has one thread, and nothing here holds a lock.
    match unsafe { namespace::possible(namespace) } {
        Ok(()) => Guarantee::Partial("can be made, but not with everything that it needs".into()),
        Err(error) => Guarantee::None(error.to_string().into()),
    }
}

fn landlock(
    plan: &Plan,
    view: &View,
    own: &[PathBuf],
    has_network: bool,
) -> Result<(i32, OwnedFd), String> {
    if plan.kind.without.landlock {
        return Err("left out".to_owned());
    }
    // A tool with its own loopback may run servers there, which its tests start. The namespace
    // leads nowhere else, so a rule for the one port would only forbid those servers.
    let domain = || Ok((domain::version()?, domain::build(view, own, has_network)?));
    domain().map_err(|error: io::Error| error.to_string())
}

fn seccomp(kind: RunMode, reach: FilterRights) -> Result<Vec<seccompiler::sock_filter>, String> {
    if kind.without.seccomp {
        return Err("left out".to_owned());
    }
    filter::available().and_then(|()| filter::program(reach)).map_err(|error| error.to_string())
}

/// Returns the refusal of a tool whose policy requires more than this isolation, or a network
/// that is `lacking`.
fn refusal_of(plan: &Plan, isolation: &Isolation, lacking: Option<&str>) -> Option<ToolEnd> {
    if plan.kind.sandbox != Sandbox::Require {
        return None;
    }
    if let Some(why) = lacking {
        return Some(ToolEnd::Unconfined(format!("the peers of `net` cannot be reached: {why}")));
    }
    let (boundary, guarantee) = isolation.unmet().next()?;
    Some(ToolEnd::Unconfined(format!("{boundary} is {guarantee}")))
}

/// Reports that the tool is not started.
fn refuse(watch: &mut CallWatch<'_>, refusal: ToolEnd) -> Delivery {
    let prepared = PreparedSandbox {
        isolation: None,
        layers: Vec::new(),
        notes: Vec::new(),
        refusal: Some(refusal),
        watched: false,
        locks: None,
        listener: None,
        restrictions: Restrictions::none(),
        scope: None,
    };
    // No process was started, so nothing has to be ended, in a namespace or outside of one.
    watch.run(false, prepared)
}

/// Points TMPDIR at `/tmp` if the tool does not see the host's directory for temporary files.
fn set_directory_for_temporary_files(watch: &mut CallWatch<'_>, view: &View) {
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
