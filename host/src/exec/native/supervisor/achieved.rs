//! What held of a sandbox: the state of each layer, and what that comes to.
//!
//! Owns the only place where a layer's failure becomes a weaker level. Sets nothing
//! up.

use super::domain::SCOPES_SIGNALS;
use crate::exec::level::{Hold, Layer, Level};

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
    /// A kernel's bound on processes, behind the supervisor's count.
    pub(super) process_limit: bool,
}

impl Achieved {
    pub(super) fn level(&self) -> Level {
        Level {
            fs: self.fs(),
            net: self.net(),
            processes: self.processes(),
            memory: Hold::Partial(
                "each process is capped by RLIMIT_DATA and the tree by looks at it, because no \
                 cgroup is used; files in /tmp have a bound of their own"
                    .into(),
            ),
            kill_tree: self.kill_tree(),
            privileges: self.privileges(),
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
        match (&self.namespaces, &self.proc) {
            (Ok(_), Ok(())) => Hold::Enforced,
            (Ok(_), Err(why)) if self.process_limit => Hold::Partial(
                format!("no `/proc` ({why}), so only RLIMIT_NPROC bounds their number").into(),
            ),
            (Ok(_), Err(why)) => {
                Hold::Partial(format!("no `/proc` ({why}), so nothing bounds their number").into())
            }
            (Err(why), _) => match self.landlock {
                Ok(version) if version >= SCOPES_SIGNALS => Hold::Partial(
                    format!("no PID namespace ({why}): others can be seen, not signalled").into(),
                ),
                _ => Hold::None(
                    format!("no PID namespace ({why}): others can be seen and signalled").into(),
                ),
            },
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
            (Ok(()), Ok(())) => Hold::Enforced,
            (Err(why), _) => Hold::None(format!("capabilities were not dropped: {why}").into()),
            (Ok(()), Err(why)) => Hold::Partial(
                format!("no seccomp ({why}): a user namespace can be made inside").into(),
            ),
        }
    }

    /// Each layer by itself; `apart` says so of a namespace.
    pub(super) fn layers(&self, apart: impl Fn(&str) -> Hold) -> Vec<Layer> {
        let landlock = self.landlock.as_ref();
        let user = match &self.namespaces {
            Ok(false) => Hold::None("not to be had; the others are made with root's right".into()),
            _ => apart("user namespace"),
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
/// namespace, or why not.
pub(super) fn unconfined(namespaced: Result<(), &str>) -> Level {
    let open = || Hold::None("no sandbox: the tool has all of its user's rights".into());
    Level {
        fs: open(),
        net: open(),
        processes: open(),
        memory: Hold::Partial(
            "each process is capped by RLIMIT_DATA and the tree by looks at it".into(),
        ),
        kill_tree: match namespaced {
            Ok(()) => Hold::Enforced,
            Err(why) => Hold::Partial(
                format!(
                    "no PID namespace ({why}): a tool that kills its supervisor leaves what it started"
                )
                .into(),
            ),
        },
        privileges: open(),
    }
}
