//! The limits of a compilation, in proportion to the size of what is compiled.

use std::fmt;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use super::CompilerTask;

/// The ratio of the wall clock to the processor time of a compilation: its process is niced, and
/// the machine may have other work.
const WALL_CLOCK_RATIO: u32 = 8;

/// The limits of one compilation. Ordinary components need time and memory in proportion to their
/// size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompilerLimits {
    /// Processor time of all threads, in seconds.
    pub(super) processor: u64,
    /// Memory that is the process's own, in bytes.
    pub(super) memory: u64,
    /// The compiled code, in bytes.
    pub(super) code: u64,
}

impl CompilerLimits {
    /// Returns the limits for a component of `size` bytes.
    pub(super) fn for_task(size: u64, task: CompilerTask) -> Self {
        let mebibytes = size.div_ceil(1 << 20);
        let processor = 10 + 4 * mebibytes;
        Self {
            // A fraction, because the baseline takes a fraction of the time, and the other compiler
            // may have to follow.
            processor: if task == CompilerTask::Baseline { processor / 4 } else { processor },
            memory: (512 + 48 * mebibytes) << 20,
            code: (64 + 16 * mebibytes) << 20,
        }
    }

    pub(super) fn wall_clock(self) -> Duration {
        Duration::from_secs(self.processor) * WALL_CLOCK_RATIO
    }
}

/// The limits of this process that are lower than a compilation's limits; the compilation inherits
/// them. Each is a text for the user.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited {
    /// The limit on processor time.
    pub(super) processor: Option<String>,
    /// The limit on memory.
    pub(super) memory: Option<String>,
    /// The limit on the size of a file, such as the code.
    pub(super) code: Option<String>,
}

impl Inherited {
    /// Returns the limits of this process that are lower than `limits`.
    pub(super) fn below(limits: CompilerLimits) -> Self {
        let below = |resource, most: u64, unit: &str, flag: &str| {
            let own = getrlimit(resource).current.filter(|own| *own < most)?;
            Some(format!("{own} {unit} (`ulimit {flag}`)"))
        };
        Self {
            processor: below(Resource::Cpu, limits.processor, "s of processor time", "-t"),
            memory: below(Resource::As, limits.memory, "bytes of memory", "-v")
                .or_else(|| below(Resource::Data, limits.memory, "bytes of memory", "-d")),
            code: below(Resource::Fsize, limits.code, "bytes of a file", "-f"),
        }
    }
}

/// The limit that ended a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Processor time, in seconds.
    Processor(u64),
    /// Time on the wall clock, in seconds.
    WallClock(u64),
    /// Memory, in bytes.
    Memory(u64),
    /// Compiled code, in bytes.
    Code(u64),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processor(seconds) => write!(f, "{seconds} s of processor time"),
            Self::WallClock(seconds) => write!(f, "{seconds} s"),
            Self::Memory(bytes) => write!(f, "{} MiB of memory", bytes >> 20),
            Self::Code(bytes) => write!(f, "{} MiB of compiled code", bytes >> 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_components_may_take_more() {
        let limits = |size| CompilerLimits::for_task(size, CompilerTask::Optimised);
        let (small, large) = (limits(100_000), limits(20 << 20));
        assert!(small.processor < large.processor && small.memory < large.memory);
        // Four times the measured needs of a component with an interpreter in it.
        assert!(large.processor >= 4 * 21 && large.memory >= 2 * (510 << 20));
    }
}
