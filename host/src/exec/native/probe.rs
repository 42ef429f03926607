//! Finds out which sandbox this machine gives to native tools, by setting one up.
//!
//! Owns the one call that tries every layer and starts nothing, and the remedies for missing
//! layers. Decides nothing.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::geteuid;

use super::{MachineSandbox, Supervisor};
use ikigai_supervisor::isolation::{Isolation, LayerRemedy, Mechanism, SandboxLayer};
use ikigai_supervisor::plan::{
    CallBounds, DESCRIPTORS, PathGrant, Plan, RunMode, Sandbox, SupervisorReport, ToolEnd,
    ToolNetwork, WatchLevel,
};

/// The time for the probe: far more than it takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the sandbox of this machine, by trying every layer.
pub(super) async fn machine(supervisor: &Supervisor) -> MachineSandbox {
    match tokio::time::timeout(TIMEOUT, run(supervisor)).await {
        Ok(Ok(report)) => machine_of(report),
        Ok(Err(error)) => unconfined(&format!("no supervisor could be started: {error}")),
        Err(_) => unconfined("the supervisor did not answer"),
    }
}

async fn run(supervisor: &Supervisor) -> io::Result<SupervisorReport> {
    let nothing = || openat(CWD, c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let ends = [nothing()?, nothing()?, nothing()?];
    let plan = plan(supervisor);
    let mut process = supervisor.process(plan.kind.sandbox, ends[DESCRIPTORS - 1].as_fd())?;
    let plan = plan.encode().map_err(io::Error::other)?;
    process.send(&plan, ends.each_ref().map(AsFd::as_fd), None).await?;
    let report = process.report().await?;
    process.reap().await?;
    report.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn plan(supervisor: &Supervisor) -> Plan {
    Plan {
        // It is not executed.
        program: c"/bin/sh".to_owned(),
        directory: c"/".to_owned(),
        args: vec![c"probe".to_owned()],
        env: Vec::new(),
        dirs: installed(supervisor).into_iter().collect(),
        hidden: Vec::new(),
        read_only: Vec::new(),
        pinned: Vec::new(),
        machine: None,
        links: Vec::new(),
        closed: Vec::new(),
        closed_except: Vec::new(),
        kind: RunMode {
            sandbox: Sandbox::Prefer,
            net: ToolNetwork::None,
            own_sockets: false,
            host_socket: false,
            probe: true,
            watch: WatchLevel::Nothing,
            without: supervisor.without,
        },
        bounds: CallBounds { wall_clock: TIMEOUT, memory: 1 << 30, processes: 16 },
    }
}

/// Returns the directory of the supervisor, which also contains the installed tools. Root sees
/// files as their owner only if the file system can map owners. The file system of a container
/// often cannot.
fn installed(supervisor: &Supervisor) -> Option<PathGrant> {
    let program = supervisor.path.as_deref()?.canonicalize().ok()?;
    let dir = program.parent().filter(|dir| geteuid().is_root() && !dir.starts_with("/usr"))?;
    Some(PathGrant {
        path: CString::new(dir.as_os_str().as_bytes()).ok()?,
        writable: false,
        searched: None,
    })
}

fn machine_of(report: SupervisorReport) -> MachineSandbox {
    let SupervisorReport { end, isolation, mut layers, .. } = report;
    let (ToolEnd::Code(0), Some(isolation)) = (&end, isolation) else {
        return MachineSandbox {
            layers,
            ..unconfined(&format!("no tool would be started: {end:?}"))
        };
    };
    for layer in &mut layers {
        layer.remedy = remedy(layer);
    }
    MachineSandbox { isolation, layers }
}

/// Returns a machine without any guarantee, for this reason.
fn unconfined(reason: &str) -> MachineSandbox {
    MachineSandbox { isolation: Isolation::none(reason), layers: Vec::new() }
}

/// Settings that prevent a user from making namespaces: the name of each, the value that forbids,
/// and the value that allows.
const SETTINGS: [(&str, &str, &str); 3] = [
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "10000"),
];

/// The bounds on the number of namespaces of a user, any of which may be 0.
const BOUNDS: [&str; 6] = ["cgroup", "ipc", "mnt", "net", "pid", "uts"];

/// Returns the settings of this machine and this process that decide which layers there are. While
/// none of them has changed, another probe would find the same boundaries. The program that tries
/// is not among them.
pub(super) fn surroundings() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    // The kernel with its security modules: both change with a start of the machine only.
    let mut parts = vec![read("/proc/sys/kernel/random/boot_id")];
    let (user, group) = (geteuid(), rustix::process::getegid());
    parts.push(format!("{}:{}", user.as_raw(), group.as_raw()));
    // The rights of this process, and what a container or a security module forbids it.
    let status = read("/proc/self/status");
    let keys = ["CapBnd:", "CapEff:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];
    parts.extend(lines(&status, |line| keys.iter().any(|key| line.starts_with(key))));
    parts.extend(["uid_map", "gid_map", "setgroups", "attr/current"].map(own).map(|it| read(&it)));
    // Shows that a container was entered: numbers of namespaces are reused, but not at once.
    let namespace = |kind: &str| fs::read_link(own(kind)).unwrap_or_default();
    let namespaces = ["ns/user", "ns/mnt", "ns/pid", "ns/cgroup"].map(namespace);
    parts.extend(namespaces.map(|it| it.to_string_lossy().into_owned()));
    // The masks over `/proc`, and the hierarchies of control groups with this process's place in
    // them.
    let mounts = read("/proc/self/mountinfo");
    let matters = |line: &str| {
        let point = line.split(' ').nth(4).unwrap_or_default();
        ["/proc", "/sys/fs/cgroup"].iter().any(|top| Path::new(point).starts_with(top))
    };
    parts.extend(lines(&mounts, matters));
    let groups = read("/proc/self/cgroup");
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    if let Some(group) = unified.map(|group| Path::new("/sys/fs/cgroup").join(group)) {
        let owner = fs::metadata(&group).map(|it| (it.uid(), it.gid(), it.mode())).ok();
        let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        parts.push(format!("{owner:?} {controllers}"));
    }
    parts.push(groups);
    let settings = SETTINGS.iter().map(|(setting, ..)| setting.replace('.', "/"));
    let bounds = BOUNDS.iter().map(|kind| format!("user/max_{kind}_namespaces"));
    parts.extend(settings.chain(bounds).map(|setting| read(&format!("/proc/sys/{setting}"))));
    parts.join(";")
}

/// Returns the path of a file about this process.
fn own(name: &str) -> String {
    format!("/proc/self/{name}")
}

/// Returns the lines of a text that matter.
fn lines(text: &str, matters: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    text.lines().filter(move |line| matters(line)).map(str::to_owned)
}

/// Returns the remedy for a layer that is missing.
fn remedy(layer: &SandboxLayer) -> Option<LayerRemedy> {
    if layer.guarantee.is_enforced() {
        return None;
    }
    match layer.mechanism {
        Mechanism::Landlock => Some(LayerRemedy::EnableLandlock),
        Mechanism::Seccomp => Some(LayerRemedy::EnableSeccomp),
        Mechanism::Proc => Some(LayerRemedy::UnmaskProc),
        Mechanism::ProcessCgroup | Mechanism::MemoryCgroup => Some(LayerRemedy::DelegateCgroup),
        Mechanism::PidMax => Some(LayerRemedy::UpgradeForPidMax),
        Mechanism::UnprivilegedUser => Some(LayerRemedy::RunUnprivileged),
        Mechanism::Capabilities | Mechanism::ProcessLimit => None,
        Mechanism::UserNamespace
        | Mechanism::MountNamespace
        | Mechanism::PidNamespace
        | Mechanism::NetworkNamespace
        | Mechanism::IpcNamespace
        | Mechanism::UtsNamespace => namespace_remedy(),
    }
}

/// Returns the remedy for a namespace that cannot be made.
fn namespace_remedy() -> Option<LayerRemedy> {
    let set = SETTINGS.iter().find(|(setting, forbids, _)| {
        let path = format!("/proc/sys/{}", setting.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|value| value.trim() == *forbids)
    });
    if let Some((setting, _, allows)) = set {
        let (setting, value) = ((*setting).to_owned(), (*allows).to_owned());
        return Some(LayerRemedy::AllowNamespaces { setting, value });
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let filtered =
        status.lines().any(|line| line.trim_end().ends_with('2') && line.starts_with("Seccomp:"));
    filtered.then_some(LayerRemedy::UnfilterHost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ikigai_supervisor::isolation::Guarantee;

    #[test]
    fn the_surroundings_are_the_same_until_something_changes() {
        let here = surroundings();
        assert_eq!(here, surroundings());
        assert!(here.contains("CapEff:") && here.contains("Seccomp:"), "{here}");
    }

    #[test]
    fn a_layer_that_is_there_needs_no_remedy() {
        let landlock = |guarantee| SandboxLayer {
            mechanism: Mechanism::Landlock,
            guarantee,
            detail: None,
            remedy: None,
        };
        assert_eq!(remedy(&landlock(Guarantee::Enforced)), None);
        let absent = landlock(Guarantee::None("not there".into()));
        assert_eq!(remedy(&absent), Some(LayerRemedy::EnableLandlock));
    }
}
