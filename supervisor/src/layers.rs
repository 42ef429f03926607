//! What held of a sandbox: the state of each layer, and what that comes to.
//!
//! Owns the only place where a layer's failure becomes a weaker level. Sets nothing
//! up.

use super::domain::SCOPES_SIGNALS;
use crate::isolation::{Hold, Keeper, KeptBy, Layer, Level};

/// Why a layer is not there.
pub(super) type Missing = String;

/// The state of each layer.
pub(super) struct Achieved {
    /// Whether there is a user namespace too.
    pub(super) namespaces: Result<bool, Missing>,
    /// A `/proc` of the namespace's own.
    pub(super) proc: Result<(), Missing>,
    /// The version.
    pub(super) landlock: Result<i32, Missing>,
    pub(super) seccomp: Result<(), Missing>,
    /// All of them dropped, and none to be had.
    pub(super) capabilities: Result<(), Missing>,
    /// A user without rights for the kernel too.
    pub(super) mapped: Result<(), Missing>,
    /// The mechanisms that keep the limits on resources.
    pub(super) limits: Limits,
}

/// The mechanisms that keep the limits on resources, as far as they are there.
pub(super) struct Limits {
    /// RLIMIT_NPROC, where it counts the call alone.
    pub(super) process_limit: bool,
    /// A PID namespace with a bound on its numbers; whether that is the limit itself, or
    /// stands far above it.
    pub(super) pid_namespace: Result<bool, Missing>,
    pub(super) process_cgroup: Result<(), Missing>,
    pub(super) memory_cgroup: Result<(), Missing>,
    /// Looks at the tree.
    pub(super) watched: Result<(), Missing>,
    /// Set for a tool that may have connections.
    pub(super) network: bool,
}

impl Limits {
    pub(super) fn kept_by(&self) -> KeptBy {
        let there = |keepers: &[(bool, Keeper)]| {
            keepers.iter().filter(|(there, _)| *there).map(|(_, keeper)| *keeper).collect()
        };
        let watched = self.watched.is_ok();
        KeptBy {
            processes: there(&[
                (self.process_cgroup.is_ok(), Keeper::Cgroup),
                (self.process_limit, Keeper::Rlimit),
                (self.pid_namespace == Ok(true), Keeper::PidNamespace),
                (watched, Keeper::Watched),
            ]),
            memory: there(&[
                (self.memory_cgroup.is_ok(), Keeper::Cgroup),
                (true, Keeper::Rlimit),
                (watched && self.memory_cgroup.is_err(), Keeper::Watched),
            ]),
        }
    }

    /// Returns `Ok` where the kernel refuses a process too many, or the reason why it does not.
    fn processes(&self) -> Result<(), String> {
        let Err(none) = &self.process_cgroup else { return Ok(()) };
        if self.process_limit || self.pid_namespace == Ok(true) {
            return Ok(());
        }
        Err(match &self.watched {
            Ok(()) => format!(
                "no cgroup ({none}): their number is watched, and can be passed for a moment"
            ),
            Err(why) => {
                format!("no cgroup ({none}) and no `/proc` ({why}): nothing bounds their number")
            }
        })
    }

    fn memory(&self) -> Hold {
        let Err(none) = &self.memory_cgroup else {
            return match self.network {
                // A bound on what TCP keeps is one on what a socket may take beyond its
                // minimum, and a datagram that is being put together counts for nobody.
                true => Hold::Partial("what sockets hold is bounded by their number".into()),
                false => Hold::Enforced,
            };
        };
        let tree = match &self.watched {
            Ok(()) => "the tree by looks at it, which do not see all that is shared".to_owned(),
            Err(why) => format!("the tree by nothing (no `/proc`: {why})"),
        };
        Hold::Partial(
            format!("no cgroup ({none}): each process is capped by RLIMIT_DATA, {tree}").into(),
        )
    }
}

impl Achieved {
    pub(super) fn level(&self) -> Level {
        Level {
            fs: self.fs(),
            net: self.net(),
            processes: self.processes(),
            memory: self.memory(),
            kill_tree: self.kill_tree(),
            privileges: self.privileges(),
            kept_by: self.limits.kept_by(),
        }
    }

    fn fs(&self) -> Hold {
        let Err(why) = &self.namespaces else { return Hold::Enforced };
        match &self.landlock {
            Ok(version) => {
                let truncation = if *version < 3 { ", and files be cut short" } else { "" };
                Hold::Partial(
                    format!(
                        "no mount namespace ({why}): by Landlock alone, names, modes and times of \
                         files outside can be seen and modes and times changed{truncation}"
                    )
                    .into(),
                )
            }
            Err(none) => {
                Hold::None(format!("no mount namespace ({why}) and no Landlock ({none})").into())
            }
        }
    }

    fn net(&self) -> Hold {
        match (&self.seccomp, &self.namespaces) {
            (Ok(()), _) => Hold::Enforced,
            (Err(why), Ok(_)) => {
                Hold::Partial(format!("no seccomp ({why}): local sockets can be reached").into())
            }
            (Err(why), Err(none)) => {
                Hold::None(format!("no network namespace ({none}) and no seccomp ({why})").into())
            }
        }
    }

    fn processes(&self) -> Hold {
        let number = self.limits.processes();
        match (&self.namespaces, number) {
            (Ok(_), Ok(())) => Hold::Enforced,
            (Ok(_), Err(number)) => Hold::Partial(number.into()),
            (Err(why), number) => {
                let number = number.err().map(|number| format!("; {number}")).unwrap_or_default();
                match self.landlock {
                    Ok(version) if version >= SCOPES_SIGNALS => Hold::Partial(
                        format!(
                            "no PID namespace ({why}): others can be seen, not signalled{number}"
                        )
                        .into(),
                    ),
                    _ => Hold::None(
                        format!(
                            "no PID namespace ({why}): others can be seen and signalled{number}"
                        )
                        .into(),
                    ),
                }
            }
        }
    }

    fn memory(&self) -> Hold {
        match (self.limits.memory(), &self.seccomp) {
            (Hold::Enforced, Err(why)) => Hold::Partial(
                format!("no seccomp ({why}): some memory of the kernel is charged to no cgroup")
                    .into(),
            ),
            (hold, _) => hold,
        }
    }

    fn kill_tree(&self) -> Hold {
        let Err(why) = &self.namespaces else { return Hold::Enforced };
        let rest = match self.landlock {
            Ok(version) if version >= SCOPES_SIGNALS => {
                "what is left is found and killed one by one, unless the supervisor itself is killed"
            }
            _ => "a tool that kills its supervisor leaves what it started",
        };
        Hold::Partial(format!("no PID namespace ({why}): {rest}").into())
    }

    fn privileges(&self) -> Hold {
        match (&self.capabilities, &self.seccomp) {
            (Err(why), _) => Hold::None(format!("capabilities were not dropped: {why}").into()),
            (Ok(()), Err(why)) => Hold::Partial(
                format!("no seccomp ({why}): a user namespace can be made inside").into(),
            ),
            (Ok(()), Ok(())) => match &self.mapped {
                Ok(()) => Hold::Enforced,
                Err(why) => Hold::Partial(
                    format!(
                        "the tool is root for the kernel too, without its capabilities ({why})"
                    )
                    .into(),
                ),
            },
        }
    }

    /// Each layer by itself; `apart` says so of a namespace.
    pub(super) fn layers(&self, apart: impl Fn(&str) -> Hold) -> Vec<Layer> {
        let landlock = self.landlock.as_ref();
        let user = match &self.namespaces {
            Ok(false) => Hold::None("not to be had; the others are made with root's right".into()),
            _ => apart("user namespace"),
        };
        let Limits { process_limit, pid_namespace, process_cgroup, memory_cgroup, .. } =
            &self.limits;
        let there = |there: bool, why: &str| match there {
            true => Hold::Enforced,
            false => Hold::None(why.to_owned().into()),
        };
        let layer =
            |name: &str, hold, detail| Layer { name: name.to_owned(), hold, detail, remedy: None };
        let version = landlock.ok().map(|version| format!("ABI {version}"));
        vec![
            layer("user namespace", user, None),
            layer("mount namespace", apart("mount namespace"), None),
            layer("PID namespace", apart("PID namespace"), None),
            layer("network namespace", apart("network namespace"), None),
            layer("IPC namespace", apart("IPC namespace"), None),
            layer("UTS namespace", apart("UTS namespace"), None),
            layer("/proc", hold(self.proc.as_ref()), None),
            layer("capabilities", hold(self.capabilities.as_ref()), None),
            layer("Landlock", hold(landlock), version),
            layer("seccomp", hold(self.seccomp.as_ref()), None),
            layer("unprivileged user", hold(self.mapped.as_ref()), None),
            layer(
                "RLIMIT_NPROC",
                there(*process_limit, "the kernel counts no processes of this user's alone"),
                None,
            ),
            layer("pid_max", hold(pid_namespace.as_ref()), None),
            layer("cgroup: processes", hold(process_cgroup.as_ref()), None),
            layer("cgroup: memory", hold(memory_cgroup.as_ref()), None),
        ]
    }
}

/// Whether a layer is there.
fn hold<T>(state: Result<T, &Missing>) -> Hold {
    match state {
        Ok(_) => Hold::Enforced,
        Err(why) => Hold::None(why.clone().into()),
    }
}

/// What holds of a tool that is not sandboxed. `namespaced`: it is in a PID
/// namespace, or why not. `root`: it is the machine's root.
pub(super) fn unconfined(namespaced: Result<(), &str>, root: bool, limits: &Limits) -> Level {
    let open = || Hold::None("no sandbox: the tool has all of its user's rights".into());
    Level {
        fs: open(),
        net: open(),
        processes: open(),
        memory: match limits.memory() {
            // It may write where its groups are made.
            Hold::Enforced => Hold::Partial(
                "no sandbox: a tool that has its user's rights can leave its cgroup".into(),
            ),
            hold => hold,
        },
        kill_tree: match namespaced {
            Ok(()) if root => Hold::Partial(
                "no sandbox: a tool that is root can have others start what outlives the call"
                    .into(),
            ),
            Ok(()) => Hold::Enforced,
            Err(why) => Hold::Partial(
                format!(
                    "no PID namespace ({why}): a tool that kills its supervisor leaves what it started"
                )
                .into(),
            ),
        },
        privileges: open(),
        kept_by: limits.kept_by(),
    }
}
