//! What the host and the supervisor say to each other over the control socket.
//!
//! The host sends one [`Plan`], with the tool's stdin, stdout and stderr, and the host
//! socket of a tool that is granted documents, as descriptors beside it; the supervisor answers with one [`Report`] when nothing
//! of the tool is left. There is no other message: the host asks for the end of a
//! call by shutting its side down, which is also what its death looks like.
//!
//! Owns the bytes of both messages, and refuses what is malformed. Opens nothing.

use std::ffi::CString;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::isolation::{Layer, Level};

/// The largest plan that is sent or taken, in bytes: well above what the kernel
/// passes to a program (`ARG_MAX`, 2 MiB by default).
const MAX_PLAN: usize = 64 << 20;

/// The descriptors that come with a plan: the tool's stdin, stdout and stderr.
pub const DESCRIPTORS: usize = 3;

/// The number under which a tool finds the host socket, where it has one: the first
/// after the streams.
pub const HOST_SOCKET: i32 = 3;

/// The length of the [`prefix`](Plan::decode) that tells how long a plan is.
pub const PREFIX: usize = 8;

/// What to run, and within which bounds.
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
    /// The directories that a sandboxed tool gets; absolute.
    pub dirs: Vec<Dir>,
    /// What the supervisor makes of it.
    pub kind: Kind,
    /// When the supervisor ends the call by itself.
    pub bounds: Bounds,
}

/// A granted directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Dir {
    pub path: CString,
    pub writable: bool,
}

/// How a tool is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    pub sandbox: Confinement,
    /// Whether a sandboxed tool has the host's network.
    pub net: bool,
    /// Whether the host socket comes with the streams.
    pub host_socket: bool,
    /// Whether the tool is left out, to see what would hold for one.
    pub probe: bool,
    /// What the sandbox is to do without.
    pub without: Without,
}

/// [`Sandbox`], as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confinement {
    Off,
    Prefer,
    Require,
}

/// Layers that a test takes away from the sandbox, to see what is made of the
/// others. Set by programs that embed the library, on their own calls only.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Without {
    /// Mount, PID and network namespaces, and the user namespace that gives the right to them.
    pub namespaces: bool,
    /// The user namespace alone.
    pub user_namespace: bool,
    /// The filter of system calls.
    pub seccomp: bool,
    /// Landlock.
    pub landlock: bool,
    /// Control groups.
    pub cgroups: bool,
    /// The bound on numbers that a PID namespace has.
    pub pid_limit: bool,
    /// Id-mapped mounts, without which a host that is root cannot map its root away.
    pub id_maps: bool,
}

/// When the supervisor ends a call by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// From the start of the tool.
    pub wall_clock: Duration,
    /// Bytes of memory of all of the tool's processes together.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// What leads a plan: everything but its strings, and how many of those follow.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    bounds: Bounds,
    kind: Kind,
    args: usize,
    env: usize,
    /// Which of the directories may be written to.
    dirs: Vec<bool>,
}

/// Why a plan cannot be sent, or is not taken.
#[derive(Debug, Error)]
pub enum PlanError {
    /// [`MAX_PLAN`]
    #[error("arguments and environment take more than {MAX_PLAN} bytes")]
    TooLarge,
    /// The header is not what this version writes.
    #[error("malformed plan")]
    Header(#[from] serde_json::Error),
    /// The strings are not as many as the header says.
    #[error("malformed plan: {0}")]
    Strings(&'static str),
}

impl Plan {
    /// The plan as bytes: the lengths of the two parts that follow (little
    /// endian, 32 bits each), a header in JSON, and the strings, each ended by a
    /// NUL, which is the form in which a program is given them.
    pub fn encode(&self) -> Result<Vec<u8>, PlanError> {
        let header = Header {
            bounds: self.bounds,
            kind: self.kind,
            args: self.args.len(),
            env: self.env.len(),
            dirs: self.dirs.iter().map(|dir| dir.writable).collect(),
        };
        let header = serde_json::to_vec(&header)?;
        let mut strings = Vec::new();
        let fixed = [&self.program, &self.directory];
        let dirs = self.dirs.iter().map(|dir| &dir.path);
        for string in fixed.into_iter().chain(&self.args).chain(&self.env).chain(dirs) {
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

    /// The lengths of the header and of the strings that follow `prefix`.
    pub fn lengths(prefix: [u8; PREFIX]) -> Result<(usize, usize), PlanError> {
        let [a, b, c, d, e, f, g, h] = prefix;
        let header = u32::from_le_bytes([a, b, c, d]) as usize;
        let strings = u32::from_le_bytes([e, f, g, h]) as usize;
        if header.saturating_add(strings) > MAX_PLAN {
            return Err(PlanError::TooLarge);
        }
        Ok((header, strings))
    }

    /// The plan that [`encode`](Self::encode) wrote.
    pub fn decode(header: &[u8], strings: &[u8]) -> Result<Self, PlanError> {
        let header: Header = serde_json::from_slice(header)?;
        let mut strings = Strings(strings);
        let program = strings.next()?;
        let directory = strings.next()?;
        let args = (0..header.args).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let env = (0..header.env).map(|_| strings.next()).collect::<Result<Vec<_>, _>>()?;
        let dirs = header
            .dirs
            .iter()
            .map(|writable| strings.next().map(|path| Dir { path, writable: *writable }));
        let dirs = dirs.collect::<Result<Vec<_>, _>>()?;
        if !strings.0.is_empty() {
            return Err(PlanError::Strings("more strings than announced"));
        }
        if args.is_empty() {
            return Err(PlanError::Strings("no name for the program"));
        }
        let is_relative = |path: &CString| !path.as_bytes().starts_with(b"/");
        let granted = dirs.iter().map(|dir| &dir.path);
        if [&program, &directory].into_iter().chain(granted).any(is_relative) {
            return Err(PlanError::Strings("a path is not absolute"));
        }
        Ok(Self { program, directory, args, env, dirs, kind: header.kind, bounds: header.bounds })
    }
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
}

/// How a call went, said when nothing of it is left. One line of JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// How the tool ended.
    pub end: End,
    /// From the start of the tool to its end.
    pub duration: Duration,
    /// The resident set of the largest process, in bytes.
    pub peak_memory: u64,
    /// What `peak_memory` cannot fall below: a program starts with the peak of
    /// the process that became it, the supervisor.
    pub memory_floor: u64,
    /// Processes that could not be ended.
    pub survivors: usize,
    /// What did not go as intended and did not stop the call.
    pub notes: Vec<String>,
    /// What held while the tool ran, or would have.
    pub level: Level,
    /// Of a probe: each layer that the level is made of.
    pub layers: Vec<Layer>,
}

/// How a tool ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// The supervisor killed it.
    Killed(Cause),
    /// It never ran: this step failed with this `errno`.
    NotStarted(Step, i32),
    /// It never ran, for this reason.
    Refused(String),
}

/// Why a supervisor killed a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The host asked for it, or is gone.
    Host,
    /// [`Bounds::wall_clock`]
    WallClock,
    /// [`Bounds::memory`]
    Memory,
    /// [`Bounds::processes`]
    Processes,
}

/// What a process does to become the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Making the process.
    Clone,
    /// Being bound to the supervisor's life.
    Bind,
    /// Its resource limits.
    Limits,
    /// Its control groups.
    Cgroup,
    /// Its stdin, stdout, stderr.
    Streams,
    /// Its working directory.
    Directory,
    /// Its Landlock domain.
    Landlock,
    /// Its filter of system calls.
    Filter,
    /// `execve`
    Exec,
}

impl Report {
    /// The report as one line.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// The report that [`encode`](Self::encode) wrote.
    pub fn decode(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}

/// What the fuzz targets reach of this.
#[doc(hidden)]
pub mod fuzzing {
    use super::{PREFIX, Plan, PlanError, Report};

    /// A plan, sent as one piece, taken and sent again.
    ///
    /// # Errors
    ///
    /// It is refused; the text says why.
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

    /// A report, taken and sent again.
    ///
    /// # Errors
    ///
    /// It is refused; the text says why.
    pub fn report(line: &[u8]) -> Result<Vec<u8>, String> {
        Report::decode(line).and_then(|report| report.encode()).map_err(|error| error.to_string())
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
            dirs: vec![Dir { path: string("/work"), writable: true }],
            kind: Kind {
                sandbox: Confinement::Require,
                net: false,
                host_socket: true,
                probe: false,
                without: Without::default(),
            },
            bounds: Bounds {
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
        refused(&header, &[&strings[..strings.len() - "/work\0".len()], b"work\0"].concat());
        refused(text.replace("\"args\":3", "\"args\":0").as_bytes(), b"/p\0/d\0A=1\0B=\0/w\0");
        refused(text.replace("Require", "Of").as_bytes(), &strings);
        refused(text.replace('}', ",\"extra\":1}").as_bytes(), &strings);
        refused(b"{", &strings);
        refused(&header, b"");
        assert!(Plan::lengths([0xff; PREFIX]).is_err());
    }
}
