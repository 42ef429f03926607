//! The limits of a call and their defaults, which are declared only here.

mod deadline;

use std::time::Duration;

use bytesize::ByteSize;
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

pub(crate) use deadline::DeadlineWatch;
pub use deadline::{Deadline, Extended};

/// One mebibyte.
const MIB: u64 = 1 << 20;

/// The largest accepted answer to `--schema`, in bytes.
pub(crate) const SCHEMA_OUTPUT: u64 = ikigai_protocol::MAX_SCHEMA_BYTES as u64;

/// The memory of a component that answers `--schema`, in bytes. Many components answer at once; a
/// component that contains Python needs a third of it.
pub(crate) const SCHEMA_MEMORY: u64 = 128 * MIB;

/// The wall clock of `--schema`, from the start of the program.
pub(crate) const SCHEMA_TIMEOUT: Duration = Duration::from_secs(1);

/// The end of stderr that is kept, in bytes.
pub const STDERR_KEPT: usize = 64 * 1024;

/// The longest wall clock. It bounds every call, and fits a timer.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Parses a wall clock in the form of flags and policy files.
///
/// # Errors
///
/// Fails if the text is not a duration, or is out of range. The error says what is expected.
pub fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = humantime::parse_duration(text)
        .map_err(|error| format!("is not a duration ({error}); write it as 500ms, 30s or 2m"))?;
    if timeout.is_zero() || timeout > LONGEST_TIMEOUT {
        return Err("must be more than zero and at most 7days".to_owned());
    }
    Ok(timeout)
}

/// Parses a size in the form of flags and policy files. Returns bytes.
///
/// # Errors
///
/// Fails if the text is not a size, or is zero. The error says what is expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    // The parser's own message mentions floats, but not units.
    let size: ByteSize =
        text.parse().map_err(|_| "is not a size; write it as 64KiB or 512MiB".to_owned())?;
    if size.as_u64() == 0 {
        return Err("must be more than zero".to_owned());
    }
    Ok(size.as_u64())
}

/// The least memory of a call: one page of a component's memory. No tool can start with less.
const LEAST_MEMORY: u64 = 64 * 1024;

/// Parses a memory limit in the form of policy files. Returns bytes.
///
/// # Errors
///
/// Fails if the text is not a size, or is too small for any tool to start. The error says what is
/// expected.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    if size < LEAST_MEMORY {
        return Err("is too little for any tool to start; write at least 64KiB".to_owned());
    }
    Ok(size)
}

/// Checks that a size on the command line has a unit, because a user who forgets the unit usually
/// means mebibytes.
///
/// # Errors
///
/// Fails if the text has only digits. The error says what is expected.
pub fn check_unit(text: &str) -> Result<(), String> {
    match text.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        true => Err("has no unit; write it as 64MiB".to_owned()),
        false => Ok(()),
    }
}

/// A limit that ended a call: the field `limit` of an envelope.
///
/// [`CallLimits`] lists the defaults and units. [`LimitKey`](crate::LimitKey) sets a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Limit {
    /// The wall clock. The code of the envelope is `TOOL_TIMEOUT`.
    WallClock,
    /// The instructions of a component. The code is `TOOL_TIMEOUT`.
    Fuel,
    /// The linear memories and tables of a component, or the memory of a native tool's processes.
    /// The code is `TOOL_CRASHED`.
    Memory,
    /// The bytes on stdout. The code is `INVALID_OUTPUT`.
    Output,
    /// The processes and threads of a native tool. The code is `TOOL_CRASHED`.
    Processes,
}

impl Limit {
    /// Returns its name in the envelope and in the audit log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The limits of one call, as decided by the policy and the host's settings.
///
/// [`HostBuilder::limit`](crate::HostBuilder::limit) and its neighbours set them for a host. The
/// table `limits` of a policy file sets them for a tool.
/// [`Decision::limits`](crate::policy::Decision::limits) has the limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// The time from the start of the program: compiling and waiting for other calls don't count.
    /// Default 30 s; in a policy at most 7 days.
    pub wall_clock: Duration,
    /// The longest wall clock that the caller can set while the call runs, with its [`Deadline`]:
    /// the wall clock of the policy files, if they set one. Default 7 days.
    pub wall_clock_ceiling: Duration,
    /// The fuel of a component, about one unit per instruction. Default 750 · 10⁹, which is most of
    /// a minute on one core.
    pub fuel: u64,
    /// The bytes of all linear memories and tables of a component together. Default 512 MiB.
    pub wasm_memory: u64,
    /// The bytes of memory of a native tool. Default 2 GiB.
    pub native_memory: u64,
    /// The bytes of stdout. Default 16 MiB. For stderr, the last 64 KiB are kept, and more output
    /// does not end the call.
    pub output: u64,
    /// The open handles of a component: files, directories, streams, pollables. Default 256.
    pub handles: usize,
    /// The processes and threads of a native tool. Default 256.
    pub processes: u64,
}

/// The default fuel: most of a minute of one core of ordinary code, so that usually the wall clock
/// ends a call. wasmtime counts one unit for most instructions of WebAssembly. Measured on the
/// machine that docs/reference/performance.md names: 13 to 15 · 10⁹ a second in work with text,
/// maps and sorting, 8.3 · 10⁹ in a loop of dependent arithmetic, 3.2 to 3.4 · 10⁹ in a search,
/// which spends most of its time in the host. This is 50 to 58 s of the first.
const DEFAULT_FUEL: u64 = 750_000_000_000;

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            wall_clock: Duration::from_secs(30),
            wall_clock_ceiling: LONGEST_TIMEOUT,
            fuel: DEFAULT_FUEL,
            wasm_memory: 512 * MIB,
            native_memory: 2048 * MIB,
            output: 16 * MIB,
            handles: 256,
            processes: 256,
        }
    }
}

impl CallLimits {
    /// Returns the limits of a `--schema` call.
    #[must_use]
    pub(crate) fn for_schema(self) -> Self {
        Self {
            wall_clock: SCHEMA_TIMEOUT,
            output: SCHEMA_OUTPUT,
            wasm_memory: self.wasm_memory.min(SCHEMA_MEMORY),
            ..self
        }
    }
}
