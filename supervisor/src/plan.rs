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

mod contents;
mod format;
mod report;
mod run_mode;
mod seen;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

pub(crate) use self::contents::path_of;
pub use self::contents::{HiddenPath, InodeId, Link, PathGrant, Plan};
pub use self::format::{PREFIX, PlanError};
pub use self::report::{KillCause, StartStep, SupervisorReport, ToolEnd};
pub use self::run_mode::{
    CallBounds, Confinement, OmittedLayers, RunMode, Sandbox, ToolNetwork, WatchLevel,
};
pub use self::seen::{AccessKind, FileAccess, ObservedAccesses};

/// The number of descriptors that come with every plan: the tool's stdin, stdout and stderr.
pub const DESCRIPTORS: usize = 3;

/// The descriptor of the host socket in a tool that has one: the first after the streams.
pub const HOST_SOCKET: i32 = 3;

/// The address at which the host listens in the network namespace of a tool with
/// [`ToolNetwork::Relay`]. The namespace is new, so that every port in it is free.
pub const RELAY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// The byte that the listener at [`RELAY`] comes with. No report begins with it.
pub const LISTENER: u8 = b'L';

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
mod tests;
