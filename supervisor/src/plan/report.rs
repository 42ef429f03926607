//! The report of a call: its end, what it used, and how the tool was isolated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::seen::ObservedAccesses;
use crate::isolation::{Isolation, SandboxLayer};

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
    /// The call took longer than [`CallBounds::wall_clock`](super::CallBounds::wall_clock).
    WallClock,
    /// The processes took more memory than [`CallBounds::memory`](super::CallBounds::memory).
    Memory,
    /// The call had more processes than [`CallBounds::processes`](super::CallBounds::processes).
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
