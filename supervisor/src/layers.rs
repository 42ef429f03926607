//! The state of each layer of a sandbox, and the isolation that the layers add up to.
//!
//! Owns the only rules by which a missing layer weakens a guarantee. Sets nothing up.

use super::domain::SCOPES_SIGNALS;
use super::namespace::Namespace;
use crate::isolation::{Guarantee, Isolation, KeptBy, LimitEnforcer, Mechanism, SandboxLayer};

/// The reason why a layer is missing.
pub(super) type MissingReason = String;

/// The state of each layer.
pub(super) struct LayerStates {
    /// `Ok(true)` if there is a user namespace too.
    pub(super) namespaces: Result<bool, MissingReason>,
    /// A `/proc` for the PID namespace.
    pub(super) proc: Result<(), MissingReason>,
    /// The version of Landlock.
    pub(super) landlock: Result<i32, MissingReason>,
    pub(super) seccomp: Result<(), MissingReason>,
    /// All capabilities are dropped, and none can be gained.
    pub(super) capabilities: Result<(), MissingReason>,
    /// A user that has no rights for the kernel either.
    pub(super) mapped: Result<(), MissingReason>,
    /// The mechanisms that enforce the limits on resources.
    pub(super) limits: LimitMechanisms,
}

/// The mechanisms that enforce the limits on resources, as far as they are there.
pub(super) struct LimitMechanisms {
    /// RLIMIT_NPROC, if it counts only this call.
    pub(super) process_limit: bool,
    /// A PID namespace with a bound on its numbers: `Ok(true)` if the bound is the limit itself,
    /// `Ok(false)` if it is far above the limit.
    pub(super) pid_namespace: Result<bool, MissingReason>,
    pub(super) process_cgroup: Result<(), MissingReason>,
    pub(super) memory_cgroup: Result<(), MissingReason>,
    /// The process tree, read at intervals.
    pub(super) watched: Result<(), MissingReason>,
    /// Set for a tool that may have connections.
    pub(super) network: bool,
}

impl LimitMechanisms {
    /// Returns the mechanisms that enforce each limit.
    pub(super) fn kept_by(&self) -> KeptBy {
        let there = |keepers: &[(bool, LimitEnforcer)]| {
            keepers.iter().filter(|(there, _)| *there).map(|(_, keeper)| *keeper).collect()
        };
        let watched = self.watched.is_ok();
        KeptBy {
            processes: there(&[
                (self.process_cgroup.is_ok(), LimitEnforcer::Cgroup),
                (self.process_limit, LimitEnforcer::Rlimit),
                (self.pid_namespace == Ok(true), LimitEnforcer::PidNamespace),
                (watched, LimitEnforcer::Watched),
            ]),
            memory: there(&[
                (self.memory_cgroup.is_ok(), LimitEnforcer::Cgroup),
                (self.memory_cgroup.is_err(), LimitEnforcer::Rlimit),
                (watched && self.memory_cgroup.is_err(), LimitEnforcer::Watched),
            ]),
        }
    }

    /// Returns `Ok` if the kernel refuses a process beyond the limit, or the reason why it does
    /// not.
    fn processes(&self) -> Result<(), String> {
        let Err(none) = &self.process_cgroup else { return Ok(()) };
        if self.process_limit || self.pid_namespace == Ok(true) {
            return Ok(());
        }
        Err(match &self.watched {
            Ok(()) => format!(
                "no cgroup ({none}): their number is watched, and can be exceeded for a moment"
            ),
            Err(why) => {
                format!("no cgroup ({none}) and no `/proc` ({why}): nothing bounds their number")
            }
        })
    }

    fn memory(&self) -> Guarantee {
        let Err(none) = &self.memory_cgroup else {
            return match (self.network, &self.watched) {
                // A bound on the memory of TCP limits only what a socket may take beyond its
                // minimum. A datagram that is being reassembled is not charged to any group.
                (true, _) => Guarantee::Partial(
                    "the memory of sockets is bounded by their number only".into(),
                ),
                (false, Err(why)) => Guarantee::Partial(
                    format!(
                        "some memory of the kernel is charged to no cgroup, and nothing watches it \
                         (no `/proc`: {why})"
                    )
                    .into(),
                ),
                (false, Ok(())) => Guarantee::Enforced,
            };
        };
        let tree = match &self.watched {
            Ok(()) => {
                "the process tree is measured at intervals, without all shared memory".to_owned()
            }
            Err(why) => format!("nothing bounds the process tree (no `/proc`: {why})"),
        };
        Guarantee::Partial(
            format!("no cgroup ({none}): each process is capped by RLIMIT_DATA, and {tree}").into(),
        )
    }
}

impl LayerStates {
    /// Returns the isolation that the layers add up to.
    pub(super) fn isolation(&self) -> Isolation {
        Isolation {
            fs: self.fs(),
            net: self.net(),
            processes: self.processes(),
            memory: self.memory(),
            kill_tree: self.kill_tree(),
            privileges: self.privileges(),
            // The host knows the grant.
            places: None,
            kept_by: self.limits.kept_by(),
        }
    }

    fn fs(&self) -> Guarantee {
        let Err(why) = &self.namespaces else { return Guarantee::Enforced };
        match &self.landlock {
            Ok(version) => {
                let truncation = if *version < 3 { ", and files truncated" } else { "" };
                Guarantee::Partial(
                    format!(
                        "no mount namespace ({why}): with only Landlock, names, modes and times of \
                         files outside can be seen, and modes and times changed{truncation}"
                    )
                    .into(),
                )
            }
            Err(none) => Guarantee::None(
                format!("no mount namespace ({why}) and no Landlock ({none})").into(),
            ),
        }
    }

    fn net(&self) -> Guarantee {
        match (&self.seccomp, &self.namespaces) {
            (Ok(()), _) => Guarantee::Enforced,
            (Err(why), Ok(_)) => Guarantee::Partial(
                format!("no seccomp ({why}): local sockets can be reached").into(),
            ),
            (Err(why), Err(none)) => Guarantee::None(
                format!("no network namespace ({none}) and no seccomp ({why})").into(),
            ),
        }
    }

    fn processes(&self) -> Guarantee {
        let number = self.limits.processes();
        match (&self.namespaces, number) {
            (Ok(_), Ok(())) => Guarantee::Enforced,
            (Ok(_), Err(number)) => Guarantee::Partial(number.into()),
            (Err(why), number) => {
                let number = number.err().map(|number| format!("; {number}")).unwrap_or_default();
                match self.landlock {
                    Ok(version) if version >= SCOPES_SIGNALS => Guarantee::Partial(
                        format!(
                            "no PID namespace ({why}): other processes can be seen, not signalled{number}"
                        )
                        .into(),
                    ),
                    _ => Guarantee::None(
                        format!(
                            "no PID namespace ({why}): other processes can be seen and signalled{number}"
                        )
                        .into(),
                    ),
                }
            }
        }
    }

    fn memory(&self) -> Guarantee {
        match (self.limits.memory(), &self.seccomp) {
            (Guarantee::Enforced, Err(why)) => Guarantee::Partial(
                format!("no seccomp ({why}): some memory of the kernel is charged to no cgroup")
                    .into(),
            ),
            (guarantee, _) => guarantee,
        }
    }

    fn kill_tree(&self) -> Guarantee {
        let Err(why) = &self.namespaces else { return Guarantee::Enforced };
        let rest = match self.landlock {
            Ok(version) if version >= SCOPES_SIGNALS => {
                "remaining processes are found and killed one by one, unless the supervisor itself is killed"
            }
            _ => "a tool that kills its supervisor leaves its processes running",
        };
        Guarantee::Partial(format!("no PID namespace ({why}): {rest}").into())
    }

    fn privileges(&self) -> Guarantee {
        match (&self.capabilities, &self.seccomp) {
            (Err(why), _) => {
                Guarantee::None(format!("capabilities were not dropped: {why}").into())
            }
            (Ok(()), Err(why)) => Guarantee::Partial(
                format!("no seccomp ({why}): a user namespace can be made inside").into(),
            ),
            (Ok(()), Ok(())) => match &self.mapped {
                Ok(()) => Guarantee::Enforced,
                Err(why) => Guarantee::Partial(
                    format!("the tool is root for the kernel too, without capabilities ({why})")
                        .into(),
                ),
            },
        }
    }

    /// Returns the state of each layer. `namespace` returns the state of one namespace.
    pub(super) fn list(&self, namespace: impl Fn(Namespace) -> Guarantee) -> Vec<SandboxLayer> {
        let landlock = self.landlock.as_ref();
        let user = match &self.namespaces {
            Ok(false) => Guarantee::None(
                "cannot be made; the other namespaces are made by root's privilege".into(),
            ),
            _ => namespace(Namespace::User),
        };
        let LimitMechanisms { process_limit, pid_namespace, process_cgroup, memory_cgroup, .. } =
            &self.limits;
        let process_limit = match process_limit {
            true => Guarantee::Enforced,
            false => Guarantee::None(
                "the kernel does not count the processes of this call separately".into(),
            ),
        };
        let layer = |mechanism, guarantee| SandboxLayer {
            mechanism,
            guarantee,
            detail: None,
            remedy: None,
        };
        let others = Namespace::ALL.into_iter().filter(|it| *it != Namespace::User);
        let mut layers = vec![layer(Mechanism::UserNamespace, user)];
        layers.extend(others.map(|it| layer(it.mechanism(), namespace(it))));
        layers.extend([
            layer(Mechanism::Proc, guarantee(self.proc.as_ref())),
            layer(Mechanism::Capabilities, guarantee(self.capabilities.as_ref())),
            SandboxLayer {
                detail: landlock.ok().map(|version| format!("ABI {version}")),
                ..layer(Mechanism::Landlock, guarantee(landlock))
            },
            layer(Mechanism::Seccomp, guarantee(self.seccomp.as_ref())),
            layer(Mechanism::UnprivilegedUser, guarantee(self.mapped.as_ref())),
            layer(Mechanism::ProcessLimit, process_limit),
            layer(Mechanism::PidMax, guarantee(pid_namespace.as_ref())),
            layer(Mechanism::ProcessCgroup, guarantee(process_cgroup.as_ref())),
            layer(Mechanism::MemoryCgroup, guarantee(memory_cgroup.as_ref())),
        ]);
        layers
    }
}

/// Returns the guarantee of a layer that is there or missing.
fn guarantee<T>(state: Result<T, &MissingReason>) -> Guarantee {
    match state {
        Ok(_) => Guarantee::Enforced,
        Err(why) => Guarantee::None(why.clone().into()),
    }
}

/// Returns the isolation of a tool that is not sandboxed. `namespaced` is the reason why it is
/// not in a PID namespace, if it is not; `root` is set for the machine's root.
pub(super) fn unconfined(
    namespaced: Result<(), &str>,
    root: bool,
    limits: &LimitMechanisms,
) -> Isolation {
    let open = || Guarantee::None("no sandbox: the tool has all of its user's rights".into());
    Isolation {
        fs: open(),
        net: open(),
        processes: open(),
        memory: match limits.memory() {
            // It may write to the directory in which its groups are made.
            Guarantee::Enforced => Guarantee::Partial(
                "no sandbox: a tool with all of its user's rights can leave its cgroup".into(),
            ),
            guarantee => guarantee,
        },
        kill_tree: match namespaced {
            Ok(()) if root => Guarantee::Partial(
                "no sandbox: a tool of root can have other services start processes that outlive the call"
                    .into(),
            ),
            Ok(()) => Guarantee::Enforced,
            Err(why) => Guarantee::Partial(
                format!(
                    "no PID namespace ({why}): a tool that kills its supervisor leaves its processes running"
                )
                .into(),
            ),
        },
        privileges: open(),
        places: Some(open()),
        kept_by: limits.kept_by(),
    }
}
