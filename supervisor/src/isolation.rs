//! The isolation of a call: the guarantees that applied while it ran, which may be fewer than it
//! asked for.
//!
//! Owns the words for them, in records, reports and tables. Finds nothing out.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The guarantees that applied during a call, or would apply on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Isolation {
    /// Files outside the granted directories cannot be reached.
    pub fs: Guarantee,
    /// Hosts outside the grant cannot be reached, nor local sockets.
    pub net: Guarantee,
    /// Other processes can be neither seen nor signalled, and their number is bounded.
    pub processes: Guarantee,
    /// Memory is bounded.
    pub memory: Guarantee,
    /// Nothing that the call started outlives it, or its host.
    pub kill_tree: Guarantee,
    /// No privilege can be gained that the caller did not hand over.
    pub privileges: Guarantee,
    /// Places that other programs execute were neither changed nor made. `None` for a machine,
    /// since the grant decides this, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Guarantee>,
    /// The mechanisms that enforce the limits. Empty in older records.
    #[serde(default)]
    pub kept_by: KeptBy,
}

/// A boundary around a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// [`Isolation::fs`]
    Fs,
    /// [`Isolation::net`]
    Net,
    /// [`Isolation::processes`]
    Processes,
    /// [`Isolation::memory`]
    Memory,
    /// [`Isolation::kill_tree`]
    KillTree,
    /// [`Isolation::privileges`]
    Privileges,
}

impl Boundary {
    /// Returns its name in tables and records, such as `kill_tree`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fs => "fs",
            Self::Net => "net",
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::KillTree => "kill_tree",
            Self::Privileges => "privileges",
        }
    }
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The mechanisms that enforce each limit on a resource, the strongest first. Empty if nothing
/// enforces it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptBy {
    /// The mechanisms that bound the number of processes and threads.
    pub processes: Vec<LimitEnforcer>,
    /// The mechanisms that bound the memory of all processes together.
    pub memory: Vec<LimitEnforcer>,
}

/// A mechanism that enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitEnforcer {
    /// The runtime of components.
    Runtime,
    /// `pids.max` or `memory.max` of the call's own control group.
    Cgroup,
    /// RLIMIT_NPROC in the call's own user namespace. Or RLIMIT_DATA, which bounds each process
    /// separately if no control group bounds the call.
    Rlimit,
    /// `kernel.pid_max` of the call's own PID namespace.
    PidNamespace,
    /// The supervisor, which reads `/proc` at intervals: a call can exceed the limit until
    /// `/proc` is read again.
    Watched,
}

impl LimitEnforcer {
    /// Returns its name in tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Cgroup => "cgroup",
            Self::Rlimit => "rlimit",
            Self::PidNamespace => "pid namespace",
            Self::Watched => "watched",
        }
    }
}

impl KeptBy {
    /// Returns the mechanisms that enforce a boundary, such as `cgroup, rlimit`; nothing for a
    /// boundary that is not a limit on a resource.
    #[must_use]
    pub fn describe(&self, boundary: Boundary) -> Option<String> {
        let keepers = match boundary {
            Boundary::Processes => &self.processes,
            Boundary::Memory => &self.memory,
            Boundary::Fs | Boundary::Net | Boundary::KillTree | Boundary::Privileges => {
                return None;
            }
        };
        let names: Vec<_> = keepers.iter().map(|keeper| keeper.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// The state of a boundary, or of a layer that boundaries are made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Guarantee {
    /// The kernel, or the runtime of components, enforces it.
    Enforced,
    /// It is enforced except in some cases; the reason names them.
    Partial(Cow<'static, str>),
    /// Nothing enforces it, for this reason.
    None(Cow<'static, str>),
}

impl Guarantee {
    /// Returns whether it is enforced without exception.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        *self == Self::Enforced
    }

    /// Returns `enforced`, `partial` or `none`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial(_) => "partial",
            Self::None(_) => "none",
        }
    }

    /// Returns the reason why it is not enforced.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Enforced => None,
            Self::Partial(reason) | Self::None(reason) => Some(reason),
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        self.reason().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

/// A mechanism of the kernel, and its state on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxLayer {
    /// The mechanism.
    #[serde(rename = "name")]
    pub mechanism: Mechanism,
    /// Its state.
    #[serde(rename = "hold")]
    pub guarantee: Guarantee,
    /// Its kind or version.
    pub detail: Option<String>,
    /// A step that adds the layer if it is missing. The host fills it in.
    pub remedy: Option<LayerRemedy>,
}

/// A step by which an administrator can add a layer to this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LayerRemedy {
    /// Run a kernel from Linux 5.13 on, with Landlock among its security modules.
    EnableLandlock,
    /// Run a kernel that is built with filters of system calls.
    EnableSeccomp,
    /// Show the host a whole `/proc`, if it runs in a container that masks parts of it.
    UnmaskProc,
    /// Have a service manager hand the host a control group.
    DelegateCgroup,
    /// Run Linux from 6.14 on. Other layers enforce the same limit.
    UpgradeForPidMax,
    /// Run the host as a user other than root.
    RunUnprivileged,
    /// Change a setting of the kernel, as root.
    AllowNamespaces {
        /// The name of the setting.
        setting: String,
        /// The value that allows namespaces.
        value: String,
    },
    /// Let the container that the host runs in make user namespaces.
    UnfilterHost,
}

/// A mechanism of the kernel that isolates a native tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mechanism {
    /// A user namespace, in which any user may make the others.
    #[serde(rename = "user namespace")]
    UserNamespace,
    /// A mount namespace, with the tool's own root.
    #[serde(rename = "mount namespace")]
    MountNamespace,
    /// A PID namespace, whose processes end with its init.
    #[serde(rename = "PID namespace")]
    PidNamespace,
    /// A network namespace without a connection to the host's network.
    #[serde(rename = "network namespace")]
    NetworkNamespace,
    /// An IPC namespace: System V IPC and POSIX message queues.
    #[serde(rename = "IPC namespace")]
    IpcNamespace,
    /// A UTS namespace: the host's name.
    #[serde(rename = "UTS namespace")]
    UtsNamespace,
    /// A `/proc` of the PID namespace.
    #[serde(rename = "/proc")]
    Proc,
    /// All capabilities dropped, and none to be gained.
    #[serde(rename = "capabilities")]
    Capabilities,
    /// A Landlock domain.
    #[serde(rename = "Landlock")]
    Landlock,
    /// A filter of system calls.
    #[serde(rename = "seccomp")]
    Seccomp,
    /// A user other than root, for the kernel too.
    #[serde(rename = "unprivileged user")]
    UnprivilegedUser,
    /// RLIMIT_NPROC that counts only this call.
    #[serde(rename = "RLIMIT_NPROC")]
    ProcessLimit,
    /// `kernel.pid_max` of the PID namespace.
    #[serde(rename = "pid_max")]
    PidMax,
    /// A control group that bounds processes.
    #[serde(rename = "cgroup: processes")]
    ProcessCgroup,
    /// A control group that bounds memory.
    #[serde(rename = "cgroup: memory")]
    MemoryCgroup,
}

impl Mechanism {
    /// Returns its name in tables and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UserNamespace => "user namespace",
            Self::MountNamespace => "mount namespace",
            Self::PidNamespace => "PID namespace",
            Self::NetworkNamespace => "network namespace",
            Self::IpcNamespace => "IPC namespace",
            Self::UtsNamespace => "UTS namespace",
            Self::Proc => "/proc",
            Self::Capabilities => "capabilities",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp",
            Self::UnprivilegedUser => "unprivileged user",
            Self::ProcessLimit => "RLIMIT_NPROC",
            Self::PidMax => "pid_max",
            Self::ProcessCgroup => "cgroup: processes",
            Self::MemoryCgroup => "cgroup: memory",
        }
    }
}

impl Isolation {
    /// Returns the isolation of every component, on every machine.
    #[must_use]
    pub fn of_a_component() -> Self {
        let enforced = || Guarantee::Enforced;
        Self {
            fs: enforced(),
            net: enforced(),
            processes: enforced(),
            memory: enforced(),
            kill_tree: enforced(),
            privileges: enforced(),
            places: Some(enforced()),
            kept_by: KeptBy {
                processes: vec![LimitEnforcer::Runtime],
                memory: vec![LimitEnforcer::Runtime],
            },
        }
    }

    /// Returns an isolation without any guarantee, for this reason.
    #[must_use]
    pub fn none(why: &str) -> Self {
        let none = || Guarantee::None(why.to_owned().into());
        Self {
            fs: none(),
            net: none(),
            processes: none(),
            memory: none(),
            kill_tree: none(),
            privileges: none(),
            places: Some(none()),
            kept_by: KeptBy::default(),
        }
    }

    /// Returns each boundary that a machine has with its guarantee, in the order of tables.
    #[must_use]
    pub fn guarantees(&self) -> [(Boundary, &Guarantee); 6] {
        let Self { fs, net, processes, memory, kill_tree, privileges, places: _, kept_by: _ } =
            self;
        [
            (Boundary::Fs, fs),
            (Boundary::Net, net),
            (Boundary::Processes, processes),
            (Boundary::Memory, memory),
            (Boundary::KillTree, kill_tree),
            (Boundary::Privileges, privileges),
        ]
    }

    /// Returns each boundary with its guarantee in words, and the mechanisms that enforce a
    /// limit on a resource: `enforced, by cgroup`.
    #[must_use]
    pub fn describe(&self) -> [(Boundary, String); 6] {
        self.guarantees().map(|(boundary, guarantee)| {
            let kept = self.kept_by.describe(boundary).map(|by| format!(", by {by}"));
            let reason = guarantee.reason().map(|reason| format!(" ({reason})"));
            let parts = [Some(guarantee.as_str().to_owned()), kept, reason];
            (boundary, parts.into_iter().flatten().collect())
        })
    }

    /// Returns the boundaries that `require` demands and that are not enforced. The bound on
    /// memory is left out: exceeding it does not harm any files.
    pub fn unmet(&self) -> impl Iterator<Item = (Boundary, &Guarantee)> {
        let counts = |(boundary, guarantee): &(Boundary, &Guarantee)| {
            *boundary != Boundary::Memory && !guarantee.is_enforced()
        };
        self.guarantees().into_iter().filter(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_has_the_name_of_its_field() {
        let isolation = Isolation::of_a_component();
        let json = serde_json::to_value(&isolation).expect("serializes");
        for (boundary, _) in isolation.guarantees() {
            assert_eq!(json[boundary.as_str()]["state"], "enforced", "{boundary}");
        }
    }

    #[test]
    fn a_mechanism_has_one_name_for_reports_and_people() {
        for mechanism in [
            Mechanism::UserNamespace,
            Mechanism::MountNamespace,
            Mechanism::PidNamespace,
            Mechanism::NetworkNamespace,
            Mechanism::IpcNamespace,
            Mechanism::UtsNamespace,
            Mechanism::Proc,
            Mechanism::Capabilities,
            Mechanism::Landlock,
            Mechanism::Seccomp,
            Mechanism::UnprivilegedUser,
            Mechanism::ProcessLimit,
            Mechanism::PidMax,
            Mechanism::ProcessCgroup,
            Mechanism::MemoryCgroup,
        ] {
            let json = serde_json::to_value(mechanism).expect("serializes");
            assert_eq!(json, mechanism.as_str());
        }
    }

    #[test]
    fn a_layer_is_written_under_the_keys_of_old() {
        let layer = SandboxLayer {
            mechanism: Mechanism::Landlock,
            guarantee: Guarantee::Enforced,
            detail: Some("ABI 6".to_owned()),
            remedy: None,
        };
        let text = serde_json::to_string(&layer).expect("serializes");
        assert_eq!(
            text,
            r#"{"name":"Landlock","hold":{"state":"enforced"},"detail":"ABI 6","remedy":null}"#
        );
    }
}
