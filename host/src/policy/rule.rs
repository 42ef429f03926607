//! What one policy file says, read and checked, with the place of each word.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ikigai_protocol::Access;
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

use super::{AssetAccess, BackendChoice, Net, Profile, Sandbox};
use crate::digest::Digest;
use crate::limits::Limits;
use crate::toml_file::Position;

/// Whose words a file holds.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    AsRefStr,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum LayerKind {
    /// The administrator's: nothing passes it.
    Ceiling,
    /// The user's: the only one that grants.
    User,
    /// The workspace's: anybody's, and so it can only narrow.
    Workspace,
}

impl LayerKind {
    /// `ceiling`, `user` or `workspace`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) position: Position,
}

/// One file.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) kind: LayerKind,
    pub(super) path: Arc<Path>,
    pub(super) profile: Option<Located<Profile>>,
    pub(super) tools: BTreeMap<String, Entry>,
    /// `[tools."*"]`: a bound for every tool, never a grant.
    pub(super) every: Option<Entry>,
}

impl Layer {
    /// A file that is not there: it says nothing.
    pub(super) fn empty(kind: LayerKind, path: &Path) -> Self {
        Self { kind, path: path.into(), profile: None, tools: BTreeMap::new(), every: None }
    }
}

/// `[tools.NAME]`. An absent key says nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) position: Position,
    pub(super) backend: Option<Located<BackendChoice>>,
    pub(super) sandbox: Option<Located<Sandbox>>,
    pub(super) sha256: Option<Located<Vec<Digest>>>,
    pub(super) fs: Option<Located<Vec<DirRule>>>,
    pub(super) net: Option<Located<Net>>,
    pub(super) env: Option<Located<Vec<String>>>,
    pub(super) assets: Option<Located<AssetAccess>>,
    pub(super) limits: LimitRules,
}

/// One entry of an `fs` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirRule {
    pub(super) access: Access,
    /// Absolute; links are not resolved yet.
    pub(super) path: PathBuf,
    /// Whether it was written relative to the workspace, and so must lie in it.
    pub(super) within: bool,
    /// As it was written, without the access.
    pub(super) raw: String,
    pub(super) position: Position,
}

/// A limit by the name of its key.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    AsRefStr,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum LimitKey {
    /// Nanoseconds.
    WallClock,
    /// Instructions.
    Fuel,
    /// Bytes, of both kinds of tools.
    Memory,
    /// Bytes of stdout.
    Output,
    /// Open handles.
    Handles,
    /// Processes and threads.
    Processes,
}

impl LimitKey {
    /// As policy files write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Sets it.
    pub(super) fn set(self, limits: &mut Limits, value: u64) {
        match self {
            Self::WallClock => limits.wall_clock = Duration::from_nanos(value),
            Self::Fuel => limits.fuel = value,
            Self::Memory => (limits.wasm_memory, limits.native_memory) = (value, value),
            Self::Output => limits.output = value,
            Self::Handles => limits.handles = usize::try_from(value).unwrap_or(usize::MAX),
            Self::Processes => limits.processes = value,
        }
    }

    /// Sets it where it is more, and says whether it was.
    pub(super) fn narrow(self, limits: &mut Limits, value: u64) -> bool {
        let before = *limits;
        self.set(limits, value);
        *limits = Limits {
            wall_clock: before.wall_clock.min(limits.wall_clock),
            fuel: before.fuel.min(limits.fuel),
            wasm_memory: before.wasm_memory.min(limits.wasm_memory),
            native_memory: before.native_memory.min(limits.native_memory),
            output: before.output.min(limits.output),
            handles: before.handles.min(limits.handles),
            processes: before.processes.min(limits.processes),
        };
        *limits != before
    }
}

/// The `limits` of an entry, each in the unit of its [`LimitKey`].
pub(super) type LimitRules = BTreeMap<LimitKey, Located<u64>>;
