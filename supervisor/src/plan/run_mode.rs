//! The way in which a tool is run: its sandbox, its network and its limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

/// The way in which a tool is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunMode {
    /// The sandbox that the policy asks for.
    pub sandbox: Sandbox,
    /// The network of a sandboxed tool.
    pub net: ToolNetwork,
    /// Set if a sandboxed tool may make sockets in its own network: TCP and UDP sockets on its
    /// own loopback, and local sockets with its own names.
    pub own_sockets: bool,
    /// Set if the host socket comes with the streams.
    pub host_socket: bool,
    /// Set if no tool is started, to learn the isolation that a tool would have.
    pub probe: bool,
    /// The part of a sandboxed tool's accesses that is reported.
    pub watch: WatchLevel,
    /// The layers that the sandbox leaves out.
    pub without: OmittedLayers,
}

/// The network of a sandboxed tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolNetwork {
    /// No network: the tool reaches no host.
    #[default]
    None,
    /// Only the tool's own loopback, on which the host listens at [`RELAY`](super::RELAY).
    Relay,
    /// The host's network.
    Host,
}

/// The part of a sandboxed tool's accesses that is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchLevel {
    /// Nothing: the tool is not watched, which costs no time.
    #[default]
    Nothing,
    /// The files and peers that were out of its reach, and which granted directories it used.
    Reached,
    /// The same, and each granted file that it used.
    All,
}

/// The rule for a native call on a machine that cannot enforce its whole grant: the key `sandbox`
/// of a policy file. From the least strict to the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
pub enum Sandbox {
    /// The tool runs without a sandbox, with all rights of its user.
    Off,
    /// The tool runs under what can be enforced, and its call is reported accordingly.
    Prefer,
    /// The tool is not started unless every boundary except memory is enforced.
    #[default]
    Require,
}

/// The calls that a supervisor is started for: the one argument of the program. Before it has a
/// plan, it makes what all plans of such calls ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum Confinement {
    /// Calls in a sandbox.
    Sandboxed,
    /// Calls of tools with all rights of their user.
    Unconfined,
}

impl Confinement {
    /// Returns `sandboxed` or `unconfined`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl From<Sandbox> for Confinement {
    fn from(sandbox: Sandbox) -> Self {
        match sandbox {
            Sandbox::Off => Self::Unconfined,
            Sandbox::Prefer | Sandbox::Require => Self::Sandboxed,
        }
    }
}

impl Sandbox {
    /// Returns `off`, `prefer` or `require`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The layers that a test removes from the sandbox, to test the others. Set by programs that
/// embed the library, and only on their own calls.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OmittedLayers {
    /// All namespaces.
    pub namespaces: bool,
    /// Only the user namespace.
    pub user_namespace: bool,
    /// The filter of system calls.
    pub seccomp: bool,
    /// Landlock.
    pub landlock: bool,
    /// Control groups.
    pub cgroups: bool,
    /// The `pid_max` of the PID namespace.
    pub pid_limit: bool,
    /// Id-mapped mounts, without which a host that is root cannot map its root away.
    pub id_maps: bool,
}

/// The limits at which the supervisor ends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallBounds {
    /// The time from the start of the tool.
    pub wall_clock: Duration,
    /// The memory of all of the tool's processes together, in bytes.
    pub memory: u64,
    /// The number of processes and threads.
    pub processes: u64,
}
