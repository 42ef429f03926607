//! How far a call was kept from what it was not granted: what was achieved, not
//! what was asked for.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What held during one call, or would hold on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Files outside the granted directories cannot be reached.
    pub fs: Hold,
    /// Hosts outside the grant cannot be reached, nor local sockets.
    pub net: Hold,
    /// Other processes can be neither seen nor signalled, and their number is bounded.
    pub processes: Hold,
    /// Memory is bounded.
    pub memory: Hold,
    /// Nothing that the call started outlives it, or its host.
    pub kill_tree: Hold,
    /// No privilege can be had that the caller did not hand over.
    pub privileges: Hold,
    /// The keepers of the limits. Older records have none.
    #[serde(default)]
    pub kept_by: KeptBy,
}

/// The keepers of each limit on a resource, the strongest first. Empty where nothing keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptBy {
    /// The number of processes and threads.
    pub processes: Vec<Keeper>,
    /// The memory of all of them together.
    pub memory: Vec<Keeper>,
}

/// A mechanism that keeps a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeper {
    /// The runtime of components.
    Runtime,
    /// `pids.max` or `memory.max` of a control group of the call's own.
    Cgroup,
    /// RLIMIT_NPROC in a user namespace of the call's own; RLIMIT_DATA, which bounds each
    /// process by itself.
    Rlimit,
    /// `kernel.pid_max` of a PID namespace of the call's own.
    PidNamespace,
    /// The supervisor's looks at `/proc`: what is too much can be there until the next one.
    Watched,
}

impl Keeper {
    /// Its name for people.
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
    /// Returns the keepers of the boundary of this name, such as `cgroup, rlimit`; nothing for one
    /// that is no limit on a resource.
    #[must_use]
    pub fn told(&self, boundary: &str) -> Option<String> {
        let keepers = match boundary {
            "processes" => &self.processes,
            "memory" => &self.memory,
            _ => return None,
        };
        let names: Vec<_> = keepers.iter().map(|keeper| keeper.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Whether one boundary holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum Hold {
    /// The kernel, or the runtime of components, keeps it.
    Enforced,
    /// It is kept against some ways around it; the reason names the others.
    Partial(Cow<'static, str>),
    /// Nothing keeps it.
    None(Cow<'static, str>),
}

impl Hold {
    /// Whether it holds without exception.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        *self == Self::Enforced
    }

    /// `enforced`, `partial` or `none`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Partial(_) => "partial",
            Self::None(_) => "none",
        }
    }

    /// What is missing, and why.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Enforced => None,
            Self::Partial(reason) | Self::None(reason) => Some(reason),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        self.reason().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

/// One of the kernel's mechanisms that a level is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// What it is called.
    pub name: String,
    /// Whether it is there.
    pub hold: Hold,
    /// Which kind or version of it.
    pub detail: Option<String>,
    /// Where it is not there: what a person can do about it.
    pub remedy: Option<String>,
}

impl Level {
    /// What holds for every component, on every machine.
    #[must_use]
    pub fn of_a_component() -> Self {
        let enforced = || Hold::Enforced;
        Self {
            fs: enforced(),
            net: enforced(),
            processes: enforced(),
            memory: enforced(),
            kill_tree: enforced(),
            privileges: enforced(),
            kept_by: KeptBy { processes: vec![Keeper::Runtime], memory: vec![Keeper::Runtime] },
        }
    }

    /// Returns the level of a tool from which nothing is kept, for this reason.
    #[must_use]
    pub fn nothing(why: &str) -> Self {
        let none = || Hold::None(why.to_owned().into());
        Self {
            fs: none(),
            net: none(),
            processes: none(),
            memory: none(),
            kill_tree: none(),
            privileges: none(),
            kept_by: KeptBy::default(),
        }
    }

    /// Each boundary by its name, in the order of tables.
    #[must_use]
    pub fn holds(&self) -> [(&'static str, &Hold); 6] {
        let Self { fs, net, processes, memory, kill_tree, privileges, kept_by: _ } = self;
        [
            ("fs", fs),
            ("net", net),
            ("processes", processes),
            ("memory", memory),
            ("kill_tree", kill_tree),
            ("privileges", privileges),
        ]
    }

    /// Each boundary by its name with its state in words, and for a limit on a resource by
    /// what it is kept.
    #[must_use]
    pub fn told(&self) -> [(&'static str, String); 6] {
        self.holds().map(|(name, hold)| {
            let kept = self.kept_by.told(name).map(|by| format!(", by {by}"));
            let reason = hold.reason().map(|reason| format!(" ({reason})"));
            let parts = [Some(hold.as_str().to_owned()), kept, reason];
            (name, parts.into_iter().flatten().collect())
        })
    }

    /// The boundaries that a sandbox stands or falls with, and that do not hold. The bound
    /// on memory is none of them: passing it harms nobody's files.
    pub fn unmet(&self) -> impl Iterator<Item = (&'static str, &Hold)> {
        let counts = |(name, hold): &(&str, &Hold)| *name != "memory" && !hold.is_enforced();
        self.holds().into_iter().filter(counts)
    }
}
