//! The messages of the control socket between the host and the supervisor.
//!
//! The host sends one [`Plan`]. The tool's stdin, stdout and stderr come with it as descriptors,
//! and so does the host socket of a tool that is granted assets. The supervisor answers with one
//! [`SupervisorReport`] when nothing of the tool is left. If the plan asks for it, one byte ([`LISTENER`])
//! comes before the report, with a descriptor: the listener of the tool's network. Until then
//! the host may send the time that the tool now has ([`time_message`]), any number of times. No
//! other message exists. The host asks for the end of a call by shutting down its side of the
//! socket, and a host that dies has the same effect.
//!
//! Owns the bytes of all messages, and refuses what is malformed. Opens nothing.

use std::ffi::{CStr, CString, OsStr};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};
use thiserror::Error;

pub use self::seen::{AccessKind, FileAccess, ObservedAccesses};
use crate::isolation::{Isolation, SandboxLayer};

mod seen;

/// The largest plan that is sent or taken, in bytes: well above the arguments and environment
/// that the kernel passes to a program (`ARG_MAX`, 2 MiB by default).
const MAX_PLAN: usize = 64 << 20;

/// The number of descriptors that come with every plan: the tool's stdin, stdout and stderr.
pub const DESCRIPTORS: usize = 3;

/// The descriptor of the host socket in a tool that has one: the first after the streams.
pub const HOST_SOCKET: i32 = 3;

/// The address at which the host listens in the network namespace of a tool with
/// [`ToolNetwork::Relay`]. The namespace is new, so that every port in it is free.
pub const RELAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// The byte that the listener at [`RELAY`] comes with. No report begins with it.
pub const LISTENER: u8 = b'L';

/// The length of the prefix of a plan, which [`Plan::lengths`] reads.
pub const PREFIX: usize = 8;

/// A program to run, and the bounds of the call.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The executable; absolute.
    pub program: CString,
    /// The working directory; absolute.
    pub directory: CString,
    /// `argv`, with the program's name at its head.
    pub args: Vec<CString>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// The directories and files that are granted to a sandboxed tool; absolute.
    pub dirs: Vec<PathGrant>,
    /// The files and directories in them that it does not see.
    pub hidden: Vec<HiddenPath>,
    /// The files and directories in them that it may only read, and may not move.
    pub read_only: Vec<HiddenPath>,
    /// Set if a sandboxed tool may also read the rest of the machine, beyond its grant. Lists
    /// the files and directories there that it does not see unless they are granted.
    pub machine: Option<Vec<HiddenPath>>,
    /// The symbolic links that it sees beside what was granted.
    pub links: Vec<Link>,
    /// The places of the machine in which other tools may write, or once could, and those of
    /// secrets; absolute. Unless they are granted, the tool sees no directory of an installation
    /// there.
    pub closed: Vec<CString>,
    /// The places in them in which no tool may write; absolute.
    pub closed_except: Vec<CString>,
    /// The way in which it is run.
    pub kind: RunMode,
    /// The limits at which the supervisor ends the call.
    pub bounds: CallBounds,
}

/// A granted directory, or a single granted file.
#[derive(Debug, PartialEq, Eq)]
pub struct PathGrant {
    /// Its path; absolute.
    pub path: CString,
    /// Set if the tool may write to it.
    pub writable: bool,
    /// The identity that it had when it was searched for files that are kept from the tool.
    pub searched: Option<InodeId>,
}

/// A symbolic link. It grants nothing: the tool sees it if it sees its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its path; absolute.
    pub path: CString,
    /// The file or directory at the end of all links; absolute.
    pub target: CString,
}

/// A file or directory that is hidden from a sandboxed tool, or that it may only read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenPath {
    /// Its path; absolute, and without links.
    pub path: CString,
    /// The kind and the identity that it had when it was found.
    pub found: InodeId,
}

/// The kind and the identity of a file or directory when the host found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InodeId {
    /// Set for a directory.
    pub directory: bool,
    /// The number of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

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
    /// Only the tool's own loopback, on which the host listens at [`RELAY`].
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

/// The first part of a plan: everything but its strings, and their number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanHeader {
    bounds: CallBounds,
    kind: RunMode,
    args: usize,
    env: usize,
    /// For each directory: a flag that the tool may write to it, and its identity when it was
    /// searched.
    dirs: Vec<(bool, Option<InodeId>)>,
    hidden: Vec<InodeId>,
    read_only: Vec<InodeId>,
    machine: Option<Vec<InodeId>>,
    /// The number of links.
    #[serde(default)]
    links: usize,
    /// The number of closed places, and of the places in them that are not closed.
    #[serde(default)]
    closed: (usize, usize),
}

/// The reason why a plan cannot be sent, or is refused.
#[derive(Debug, Error)]
pub enum PlanError {
    /// It is larger than 64 MiB.
    #[error("arguments and environment take more than {MAX_PLAN} bytes")]
    TooLarge,
    /// The header is not what this version writes.
    #[error("malformed plan")]
    Header(#[from] serde_json::Error),
    /// The number of strings differs from the header.
    #[error("malformed plan: {0}")]
    Strings(&'static str),
}

impl Plan {
    /// Writes the plan as bytes. It begins with the lengths of the two parts that follow, little
    /// endian, 32 bits each. Then come a header in JSON, and the strings. Each string ends with
    /// a NUL, which is the form in which a program gets them.
    ///
    /// # Errors
    ///
    /// Fails if the plan is too large.
    pub fn encode(&self) -> Result<Vec<u8>, PlanError> {
        let header = PlanHeader {
            bounds: self.bounds,
            kind: self.kind,
            args: self.args.len(),
            env: self.env.len(),
            dirs: self.dirs.iter().map(|dir| (dir.writable, dir.searched)).collect(),
            hidden: self.hidden.iter().map(|it| it.found).collect(),
            read_only: self.read_only.iter().map(|it| it.found).collect(),
            machine: self.machine.as_ref().map(|all| all.iter().map(|it| it.found).collect()),
            links: self.links.len(),
            closed: (self.closed.len(), self.closed_except.len()),
        };
        let header = serde_json::to_vec(&header)?;
        let mut strings = Vec::new();
        let fixed = [&self.program, &self.directory];
        let dirs = self.dirs.iter().map(|dir| &dir.path);
        let hidden = self.hidden.iter().chain(&self.read_only).chain(self.machine.iter().flatten());
        let links = self.links.iter().flat_map(|link| [&link.path, &link.target]);
        let closed = self.closed.iter().chain(&self.closed_except);
        let paths = dirs.chain(hidden.map(|it| &it.path)).chain(links).chain(closed);
        for string in fixed.into_iter().chain(&self.args).chain(&self.env).chain(paths) {
            strings.extend_from_slice(string.as_bytes_with_nul());
        }
        let mut frame = Vec::with_capacity(PREFIX + header.len() + strings.len());
        for part in [&header, &strings] {
            let length = u32::try_from(part.len()).map_err(|_| PlanError::TooLarge)?;
            frame.extend_from_slice(&length.to_le_bytes());
        }
        frame.extend_from_slice(&header);
        frame.extend_from_slice(&strings);
        if frame.len() > MAX_PLAN {
            return Err(PlanError::TooLarge);
        }
        Ok(frame)
    }

    /// Reads the lengths of the header and of the strings that follow `prefix`.
    ///
    /// # Errors
    ///
    /// Fails if the plan is too large.
    pub fn lengths(prefix: [u8; PREFIX]) -> Result<(usize, usize), PlanError> {
        let [a, b, c, d, e, f, g, h] = prefix;
        let header = u32::from_le_bytes([a, b, c, d]) as usize;
        let strings = u32::from_le_bytes([e, f, g, h]) as usize;
        if header.saturating_add(strings) > MAX_PLAN {
            return Err(PlanError::TooLarge);
        }
        Ok((header, strings))
    }

    /// Reads the plan that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Fails if the plan is malformed, or names a relative path.
    pub fn decode(header: &[u8], strings: &[u8]) -> Result<Self, PlanError> {
        let header: PlanHeader = serde_json::from_slice(header)?;
        let mut strings = Strings(strings);
        let program = strings.next()?;
        let directory = strings.next()?;
        let args = (0..header.args).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let env = (0..header.env).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let dirs = header.dirs.iter().map(|&(writable, searched)| {
            strings.next().map(|path| PathGrant { path, writable, searched })
        });
        let dirs = dirs.collect::<Result<Vec<_>, _>>()?;
        let hidden = strings.hidden(&header.hidden)?;
        let read_only = strings.hidden(&header.read_only)?;
        let machine = header.machine.as_ref().map(|found| strings.hidden(found)).transpose()?;
        let links = (0..header.links).map(|_| strings.link()).collect::<Result<Vec<_>, _>>()?;
        let (closed, except) = header.closed;
        let closed = (0..closed).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let closed_except = (0..except).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        if !strings.0.is_empty() {
            return Err(PlanError::Strings("more strings than announced"));
        }
        if args.is_empty() {
            return Err(PlanError::Strings("no name for the program"));
        }
        let is_relative = |path: &CString| !path.as_bytes().starts_with(b"/");
        let granted = dirs.iter().map(|dir| &dir.path);
        let without = hidden.iter().chain(&read_only).chain(machine.iter().flatten());
        let without = without.map(|it| &it.path);
        let linked = links.iter().flat_map(|link| [&link.path, &link.target]);
        let fixed = [&program, &directory].into_iter().chain(&closed).chain(&closed_except);
        if fixed.chain(granted).chain(without).chain(linked).any(is_relative) {
            return Err(PlanError::Strings("a path is not absolute"));
        }
        let PlanHeader { kind, bounds, .. } = header;
        Ok(Self {
            program,
            directory,
            args,
            env,
            dirs,
            hidden,
            read_only,
            machine,
            links,
            closed,
            closed_except,
            kind,
            bounds,
        })
    }

    /// Returns the value of a variable in the tool's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find_map(|pair| {
            let value = pair.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsStr::from_bytes(value))
        })
    }
}

/// Converts a path of a plan.
pub(crate) fn path_of(path: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}

/// Strings that end with a NUL each, taken from the front.
struct Strings<'a>(&'a [u8]);

impl Strings<'_> {
    fn next(&mut self) -> Result<CString, PlanError> {
        let missing = PlanError::Strings("fewer strings than announced");
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(missing)?;
        let (string, rest) = self.0.split_at(end + 1);
        self.0 = rest;
        CString::from_vec_with_nul(string.to_vec())
            .map_err(|_| PlanError::Strings("a string without its end"))
    }

    /// Takes a link and its target.
    fn link(&mut self) -> Result<Link, PlanError> {
        Ok(Link { path: self.next()?, target: self.next()? })
    }

    /// Takes the path of each of `found`.
    fn hidden(&mut self, found: &[InodeId]) -> Result<Vec<HiddenPath>, PlanError> {
        found
            .iter()
            .map(|found| self.next().map(|path| HiddenPath { path, found: *found }))
            .collect()
    }
}

/// The course of a call, reported when none of its processes is left. One line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupervisorReport {
    /// The end of the tool.
    pub end: ToolEnd,
    /// The time from the start of the tool to its end.
    pub duration: Duration,
    /// The resident set of the largest process, in bytes.
    pub peak_memory: u64,
    /// The lowest value that `peak_memory` can have, in bytes: a program starts with the peak of
    /// the process that became it, which is the supervisor's.
    pub memory_floor: u64,
    /// The number of processes that still ran when the tool had ended, and were killed. Older
    /// supervisors do not count them.
    #[serde(default)]
    pub left_running: usize,
    /// The number of processes that could not be killed.
    pub survivors: usize,
    /// Failures that did not stop the call.
    pub notes: Vec<String>,
    /// The isolation of the tool, or of a probe. None for a call that was refused before the
    /// layers were made.
    // Without this attribute serde accepts a report without the key.
    #[serde(rename = "level", deserialize_with = "Option::deserialize")]
    pub isolation: Option<Isolation>,
    /// The state of each layer, in the report of a probe.
    pub layers: Vec<SandboxLayer>,
    /// The accesses of a watched tool.
    pub seen: ObservedAccesses,
}

/// The end of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolEnd {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// The supervisor killed it.
    Killed(KillCause),
    /// It never ran: this step failed with this `errno`.
    NotStarted(StartStep, i32),
    /// It never ran, for this reason.
    Refused(String),
    /// It never ran: the policy requires the sandbox, and this boundary is not enforced.
    Unconfined(String),
}

/// The reason why a supervisor killed a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KillCause {
    /// The host asked for it, or is gone.
    Host,
    /// The call took longer than [`CallBounds::wall_clock`].
    WallClock,
    /// The processes took more memory than [`CallBounds::memory`].
    Memory,
    /// The call had more processes than [`CallBounds::processes`].
    Processes,
}

/// A step of a process that becomes the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartStep {
    /// Creating the process.
    Clone,
    /// Tying its life to the supervisor's.
    Bind,
    /// Setting its resource limits.
    Limits,
    /// Entering its control groups.
    Cgroup,
    /// Placing its stdin, stdout and stderr.
    Streams,
    /// Entering its working directory.
    Directory,
    /// Entering its Landlock domain.
    Landlock,
    /// Installing its filter of system calls.
    Filter,
    /// Executing the program.
    Exec,
}

impl SupervisorReport {
    /// Writes the report as one line.
    ///
    /// # Errors
    ///
    /// Fails if the report cannot be written as JSON.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Reads the report that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// Fails if the report is malformed.
    pub fn decode(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

/// The length of the message that moves the wall clock, in bytes.
pub const TIME_MESSAGE: usize = 8;

/// Returns the message that sets [`CallBounds::wall_clock`] to another time: its nanoseconds (little
/// endian, 64 bits), or the largest number if they do not fit.
#[must_use]
pub fn time_message(time: Duration) -> [u8; TIME_MESSAGE] {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).to_le_bytes()
}

/// Reads the message that [`time_message`] wrote.
#[must_use]
pub fn time_of(message: [u8; TIME_MESSAGE]) -> Duration {
    Duration::from_nanos(u64::from_le_bytes(message))
}

/// Entry points for the fuzz targets.
#[doc(hidden)]
pub mod fuzzing {
    use super::{PREFIX, Plan, PlanError, SupervisorReport};

    /// Decodes a plan that was sent as one piece, and encodes it again.
    ///
    /// # Errors
    ///
    /// Fails if the plan is malformed; the text says how.
    pub fn plan(frame: &[u8]) -> Result<Vec<u8>, String> {
        let short = || PlanError::Strings("shorter than announced");
        let again = || {
            let (prefix, body) = frame.split_first_chunk::<PREFIX>().ok_or_else(short)?;
            let (header, strings) = Plan::lengths(*prefix)?;
            let (header, body) = body.split_at_checked(header).ok_or_else(short)?;
            Plan::decode(header, body.get(..strings).ok_or_else(short)?)?.encode()
        };
        again().map_err(|error: PlanError| error.to_string())
    }

    /// Decodes a report, and encodes it again.
    ///
    /// # Errors
    ///
    /// Fails if the report is malformed; the text says how.
    pub fn report(line: &[u8]) -> Result<Vec<u8>, String> {
        SupervisorReport::decode(line)
            .and_then(|report| report.encode())
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let string = |text: &str| CString::new(text).expect("no NUL");
        Plan {
            program: string("/bin/tool"),
            directory: string("/work"),
            args: vec![string("/bin/tool"), string(""), string("a b\n")],
            env: vec![string("A=1"), string("B=")],
            dirs: vec![PathGrant {
                path: string("/work"),
                writable: true,
                searched: Some(InodeId { directory: true, device: 1, inode: 4 }),
            }],
            hidden: vec![HiddenPath {
                path: string("/work/.env"),
                found: InodeId { directory: false, device: 1, inode: u64::MAX },
            }],
            read_only: vec![HiddenPath {
                path: string("/work/.git/hooks"),
                found: InodeId { directory: true, device: 1, inode: 3 },
            }],
            machine: Some(vec![HiddenPath {
                path: string("/root/.ssh"),
                found: InodeId { directory: true, device: 1, inode: 2 },
            }]),
            links: vec![Link { path: string("/home/name"), target: string("/work/tool") }],
            closed: vec![string("/work")],
            closed_except: vec![string("/work/tools")],
            kind: RunMode {
                sandbox: Sandbox::Require,
                net: ToolNetwork::Relay,
                own_sockets: true,
                host_socket: true,
                probe: false,
                watch: WatchLevel::All,
                without: OmittedLayers::default(),
            },
            bounds: CallBounds {
                wall_clock: Duration::from_millis(1500),
                memory: 1 << 30,
                processes: 7,
            },
        }
    }

    fn parts(frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let prefix = frame[..PREFIX].try_into().expect("eight bytes");
        let (header, strings) = Plan::lengths(prefix).expect("short enough");
        let body = &frame[PREFIX..];
        assert_eq!(body.len(), header + strings);
        (body[..header].to_vec(), body[header..].to_vec())
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent() {
        let (header, strings) = parts(&plan().encode().expect("encodes"));
        assert_eq!(Plan::decode(&header, &strings).expect("decodes"), plan());
    }

    #[test]
    fn a_time_arrives_as_it_was_sent() {
        let time = Duration::from_millis(150_500);
        assert_eq!(time_of(time_message(time)), time);
        assert_eq!(time_of(time_message(Duration::MAX)), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn malformed_plans_are_refused() {
        let (header, strings) = parts(&plan().encode().expect("encodes"));
        let text = String::from_utf8(header.clone()).expect("JSON");
        let refused = |header: &[u8], strings: &[u8]| {
            assert!(
                Plan::decode(header, strings).is_err(),
                "{:?}",
                String::from_utf8_lossy(header)
            );
        };
        refused(&header, &strings[..strings.len() - 1]);
        refused(&header, &[&strings[..], b"more\0"].concat());
        refused(
            &header,
            &[&b"relative\0/work\0"[..], &strings["/bin/tool\0/work\0".len()..]].concat(),
        );
        let paths = [
            "/work\0",
            "/work/.env\0",
            "/work/.git/hooks\0",
            "/root/.ssh\0",
            "/home/name\0",
            "/work/tool\0",
            "/work\0",
            "/work/tools\0",
        ];
        let before = &strings[..strings.len() - paths.concat().len()];
        assert_eq!([before, paths.concat().as_bytes()].concat(), strings);
        for relative in 0..paths.len() {
            let mut paths = paths;
            paths[relative] = &paths[relative][1..];
            refused(&header, &[before, paths.concat().as_bytes()].concat());
        }
        refused(
            text.replace("\"args\":3", "\"args\":0").as_bytes(),
            b"/p\0/d\0A=1\0B=\0/w\0/w/.env\0/w/.git/hooks\0/root/.ssh\0/h/n\0/w/t\0/w\0/w/s\0",
        );
        refused(text.replace("Require", "Of").as_bytes(), &strings);
        refused(text.replace('}', ",\"extra\":1}").as_bytes(), &strings);
        refused(b"{", &strings);
        refused(&header, b"");
        assert!(Plan::lengths([0xff; PREFIX]).is_err());
    }

    #[test]
    fn a_refused_call_reports_no_isolation_and_says_so() {
        let report = SupervisorReport {
            end: ToolEnd::Refused("no".to_owned()),
            duration: Duration::ZERO,
            peak_memory: 0,
            memory_floor: 0,
            left_running: 0,
            survivors: 0,
            notes: Vec::new(),
            isolation: None,
            layers: Vec::new(),
            seen: ObservedAccesses {
                reached: vec![
                    FileAccess { path: "/a\n\"".into(), access: AccessKind::Read },
                    FileAccess {
                        path: OsStr::from_bytes(b"/\xff").into(),
                        access: AccessKind::Make,
                    },
                ],
                peers: vec![([127, 0, 0, 1], 80).into()],
                ..ObservedAccesses::default()
            },
        };
        let line = String::from_utf8(report.encode().expect("encodes")).expect("JSON");
        assert!(line.contains("\"level\":null"), "{line}");
        assert_eq!(SupervisorReport::decode(line.as_bytes()).expect("decodes"), report);
        let silent = line.replace("\"level\":null,", "");
        assert!(SupervisorReport::decode(silent.as_bytes()).is_err(), "{silent}");
    }
}
