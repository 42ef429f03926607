//! What one call may use up: the default of every limit, each declared here
//! and nowhere else.

use std::time::Duration;

/// One mebibyte.
const MIB: u64 = 1 << 20;

/// The largest `--schema` answer that is collected, in bytes.
pub const SCHEMA_OUTPUT: u64 = ikigai_protocol::MAX_SCHEMA_BYTES as u64;

/// How long a tool has for `--schema`, counted from its own start.
pub const SCHEMA_TIMEOUT: Duration = Duration::from_secs(1);

/// How much of stderr is kept: its last 64 KiB.
pub const STDERR_KEPT: usize = 64 * 1024;

/// A limit that ended a call, as the envelope's `limit` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Time on the wall.
    WallClock,
    /// Instructions of a component.
    Fuel,
    /// Linear memory, or the memory of a native tool's processes.
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
        match self {
            Self::WallClock => "wall_clock",
            Self::Fuel => "fuel",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::Processes => "processes",
        }
    }
}

/// What one call may use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of the program. Default 30 s.
    pub wall_clock: Duration,
    /// Instructions of a component. See [`DEFAULT_FUEL`].
    pub fuel: u64,
    /// Bytes of linear memory, all memories of the component together. Default 512 MiB.
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

/// About a minute of one core of ordinary code, so that the wall clock is what
/// usually ends a call. wasmtime counts one unit for most instructions of
/// WebAssembly. Measured by `cargo xtask bench` on the machine that
/// docs/performance.md names: 12.5 · 10⁹ a second where text, maps and sorting are
/// worked with, 8 · 10⁹ in a loop of dependent arithmetic, 3 · 10⁹ in a search, which
/// spends most of its time in the host. A minute of the first is 750 · 10⁹.
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
        Self { wall_clock: SCHEMA_TIMEOUT, output: SCHEMA_OUTPUT, ..self }
    }
}
