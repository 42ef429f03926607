//! What one call may use up: the default of every limit, each declared here
//! and nowhere else.

use std::time::Duration;

use bytesize::ByteSize;
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

/// One mebibyte.
const MIB: u64 = 1 << 20;

/// The largest `--schema` answer that is collected, in bytes.
pub const SCHEMA_OUTPUT: u64 = ikigai_protocol::MAX_SCHEMA_BYTES as u64;

/// The memory of a component that answers `--schema`, in bytes: many are asked at once. One
/// that brings Python needs a third of it.
pub const SCHEMA_MEMORY: u64 = 128 * MIB;

/// How long a tool has for `--schema`, counted from its own start.
pub const SCHEMA_TIMEOUT: Duration = Duration::from_secs(1);

/// How much of stderr is kept: its last 64 KiB.
pub const STDERR_KEPT: usize = 64 * 1024;

/// No call is allowed to last forever, and a duration must fit a timer.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Reads a wall clock as flags and policy files write it.
///
/// # Errors
///
/// It is none, or no time that a call may have; the text says what is expected.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = humantime::parse_duration(text)
        .map_err(|error| format!("is no duration ({error}); write it as 500ms, 30s or 2m"))?;
    if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
        return Err("must be more than zero and at most 7days".to_owned());
    }
    Ok(timeout)
}

/// Reads a size as flags and policy files write it, in bytes.
///
/// # Errors
///
/// It is none, or zero; the text says what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    // The parser's own words speak of floats and say nothing of units.
    let size: ByteSize =
        text.parse().map_err(|_| "is no size; write it as 64KiB or 512MiB".to_owned())?;
    if size.as_u64() == 0 {
        return Err("must be more than zero".to_owned());
    }
    Ok(size.as_u64())
}

/// A limit that ended a call, as the envelope's `limit` names it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    AsRefStr,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum Limit {
    /// Time on the wall.
    WallClock,
    /// Instructions of a component.
    Fuel,
    /// Linear memories and tables, or the memory of a native tool's processes.
    Memory,
    /// Bytes on stdout.
    Output,
    /// Processes and threads of a native tool.
    Processes,
}

impl Limit {
    /// The name in the envelope and in the audit log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What one call may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the program. Default 30 s.
    pub wall_clock: Duration,
    /// Instructions of a component. See [`DEFAULT_FUEL`].
    pub fuel: u64,
    /// Bytes of linear memories and tables, all of the component together. Default 512 MiB.
    pub wasm_memory: u64,
    /// Bytes of memory of a native tool. Default 2 GiB.
    pub native_memory: u64,
    /// Bytes of stdout. Default 16 MiB.
    pub output: u64,
    /// Open handles of a component: files, directories, streams, pollables. Default 256.
    pub handles: usize,
    /// Processes and threads of a native tool. Default 256.
    pub processes: u64,
}

/// Most of a minute of one core of ordinary code, so that the wall clock is what
/// usually ends a call. wasmtime counts one unit for most instructions of
/// WebAssembly. Measured by `cargo xtask bench` on the machine that
/// docs/performance.md names: 13 to 15 · 10⁹ a second where text, maps and sorting are
/// worked with, 8.3 · 10⁹ in a loop of dependent arithmetic, 3.2 to 3.4 · 10⁹ in a
/// search, which spends most of its time in the host. This is 50 to 58 s of the first.
pub const DEFAULT_FUEL: u64 = 750_000_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_clock: Duration::from_secs(30),
            fuel: DEFAULT_FUEL,
            wasm_memory: 512 * MIB,
            native_memory: 2048 * MIB,
            output: 16 * MIB,
            handles: 256,
            processes: 256,
        }
    }
}

impl Limits {
    /// The limits of a `--schema` call.
    #[must_use]
    pub fn for_schema(self) -> Self {
        Self {
            wall_clock: SCHEMA_TIMEOUT,
            output: SCHEMA_OUTPUT,
            wasm_memory: self.wasm_memory.min(SCHEMA_MEMORY),
            ..self
        }
    }
}
