//! The checked contents of one policy file, with the position of each value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ikigai_protocol::{Access, Digest};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

use super::commands::CommandRules;
use super::provenance::{LayerKind, Provenance};
use super::signer_rule::SignerRule;
use super::{
    Approve, AssetAccess, Backend, BackendChoice, Hide, Net, Profile, Sandbox, WasiVersion,
};
use crate::limits::CallLimits;
use crate::toml_file::TextPosition;

/// A value and its position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) position: TextPosition,
}

/// The contents of one file.
#[derive(Clone, Debug)]
pub(super) struct PolicyLayer {
    pub(super) kind: LayerKind,
    pub(super) path: Arc<Path>,
    pub(super) profile: Option<Located<Profile>>,
    pub(super) tools: BTreeMap<String, PolicyEntry>,
    /// The tables `[servers.NAME]`.
    pub(super) servers: BTreeMap<String, PolicyEntry>,
    /// The table `[tools."*"]`: a bound for every tool, never a grant. [`Self::every_beside`]
    /// returns the part of it that applies to one tool.
    pub(super) every: Option<PolicyEntry>,
    /// True if tools need a signature by a known signer.
    pub(super) require_signed: Option<Located<bool>>,
    /// The tables `[signers.NAME]`, in the order of the file.
    pub(super) signers: Vec<SignerRule>,
}

impl PolicyLayer {
    /// Returns the layer of a file that does not exist.
    pub(super) fn empty(kind: LayerKind, path: &Path) -> Self {
        Self {
            kind,
            path: path.into(),
            profile: None,
            tools: BTreeMap::new(),
            servers: BTreeMap::new(),
            every: None,
            require_signed: None,
            signers: Vec::new(),
        }
    }

    /// Returns the entry of a tool or, with [`Backend::Mcp`], of the server with this name.
    pub(super) fn entry(&self, backend: Backend, name: &str) -> Option<&PolicyEntry> {
        match backend {
            Backend::Mcp => self.servers.get(name),
            Backend::Wasm | Backend::Native => self.tools.get(name),
        }
    }

    /// Returns the part of `[tools."*"]` that applies to a tool whose entry in this file is `own`.
    pub(super) fn every_beside<'a>(
        &'a self,
        own: Option<&'a PolicyEntry>,
    ) -> Option<&'a PolicyEntry> {
        own.map_or(self.every.as_ref(), |own| own.rest.as_deref())
    }

    /// Stores in each entry the part of `[tools."*"]` that applies to its tool.
    pub(super) fn settle(&mut self) {
        let Some(every) = &self.every else { return };
        for entry in self.tools.values_mut().chain(self.servers.values_mut()) {
            entry.rest = Some(Box::new(every.beside(entry)));
        }
    }
}

/// All layers at one moment.
#[derive(Clone, Debug)]
pub(super) struct PolicyLayers {
    pub(super) ceilings: Vec<Arc<PolicyLayer>>,
    pub(super) user: Arc<PolicyLayer>,
    pub(super) workspace: Arc<PolicyLayer>,
}

impl PolicyLayers {
    /// Returns every layer, beginning with the ceilings, which bound the others.
    pub(super) fn all(&self) -> impl Iterator<Item = &PolicyLayer> {
        self.each().map(|layer| &**layer)
    }

    /// Returns whether both have the same layers, so that no file was read in between.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        self.ceilings.len() == other.ceilings.len()
            && self.each().zip(other.each()).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    fn each(&self) -> impl Iterator<Item = &Arc<PolicyLayer>> {
        self.ceilings.iter().chain([&self.user, &self.workspace])
    }
}

/// The table `[tools.NAME]` or `[servers.NAME]`. An absent key has no effect.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicyEntry {
    pub(super) position: TextPosition,
    /// True if the tool may not run.
    pub(super) deny: Option<Located<bool>>,
    pub(super) backend: Option<Located<BackendChoice>>,
    pub(super) sandbox: Option<Located<Sandbox>>,
    pub(super) sha256: Option<Located<Vec<Digest>>>,
    pub(super) fs: Option<Located<Vec<DirRule>>>,
    pub(super) net: Option<Located<Net>>,
    pub(super) env: Option<Located<Vec<String>>>,
    /// The absolute directories to put before those of `PATH`. Only the user's file has them.
    pub(super) path: Option<Located<Vec<PathBuf>>>,
    pub(super) assets: Option<Located<AssetAccess>>,
    pub(super) approve: Option<Located<Approve>>,
    /// False if the user may not be asked to widen the grant.
    pub(super) ask: Option<Located<bool>>,
    pub(super) hide: Option<Located<Hide>>,
    /// The versions of WASI that a component or core module may use.
    pub(super) wasi: Option<Located<Vec<WasiVersion>>>,
    /// The rules for commands, only for `bash`. They grant nothing.
    pub(super) commands: Option<Located<CommandRules>>,
    pub(super) limits: LimitRules,
    /// The approved tools of a server, with the digests of their descriptions.
    pub(super) approved: Option<Located<BTreeMap<String, Digest>>>,
    /// The part of `[tools."*"]` in the same file that also applies to this tool.
    pub(super) rest: Option<Box<PolicyEntry>>,
}

impl PolicyEntry {
    /// Returns the keys of `[tools."*"]` that apply to a tool with the entry `own` in the same
    /// file. A key of `own` replaces the same key, and any entry replaces `deny`. Hidden names are
    /// combined.
    fn beside(&self, own: &Self) -> Self {
        fn unless<T: Clone>(every: &Option<T>, own: &Option<T>) -> Option<T> {
            every.clone().filter(|_| own.is_none())
        }
        let Self {
            position,
            sandbox,
            fs,
            net,
            env,
            assets,
            approve,
            ask,
            hide,
            wasi,
            limits,
            // Any entry replaces `deny`. The other keys cannot be set for every tool.
            deny: _,
            backend: _,
            sha256: _,
            path: _,
            commands: _,
            approved: _,
            rest: _,
        } = self;
        let limits = limits.iter().filter(|(key, _)| !own.limits.contains_key(key));
        Self {
            position: *position,
            sandbox: unless(sandbox, &own.sandbox),
            fs: unless(fs, &own.fs),
            net: unless(net, &own.net),
            env: unless(env, &own.env),
            assets: unless(assets, &own.assets),
            approve: unless(approve, &own.approve),
            ask: unless(ask, &own.ask),
            hide: hide.clone(),
            wasi: unless(wasi, &own.wasi),
            limits: limits.map(|(key, at)| (*key, at.clone())).collect(),
            ..Self::default()
        }
    }

    /// Returns whether the entry has no permissions for its tool. Its other keys count even if it
    /// is bound to other contents.
    pub(super) fn grants_nothing(&self) -> bool {
        let Self {
            sandbox,
            sha256,
            fs,
            net,
            env,
            path,
            assets,
            approved,
            // These grant nothing.
            position: _,
            deny: _,
            backend: _,
            approve: _,
            ask: _,
            hide: _,
            wasi: _,
            commands: _,
            limits: _,
            rest: _,
        } = self;
        sandbox.is_none()
            && sha256.is_none()
            && fs.is_none()
            && net.is_none()
            && env.is_none()
            && path.is_none()
            && assets.is_none()
            && approved.is_none()
    }
}

/// Returns the line of a value.
pub(super) fn provenance_of<T>(layer: &PolicyLayer, at: &Located<T>) -> Provenance {
    line_provenance(layer, at.position.line)
}

/// Returns the line of an entry's `deny = true`; `None` if the entry does not deny its tool.
pub(super) fn deny_provenance(layer: &PolicyLayer, entry: &PolicyEntry) -> Option<Provenance> {
    entry.deny.as_ref().filter(|at| at.value).map(|at| provenance_of(layer, at))
}

/// Returns the line of an entry.
pub(super) fn entry_provenance(layer: &PolicyLayer, entry: &PolicyEntry) -> Provenance {
    line_provenance(layer, entry.position.line)
}

/// Returns a line of a layer.
pub(super) fn line_provenance(layer: &PolicyLayer, line: usize) -> Provenance {
    Provenance::File { kind: layer.kind, path: Arc::clone(&layer.path), line }
}

/// One entry of an `fs` list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirRule {
    pub(super) access: Access,
    /// The absolute path, without resolved links.
    pub(super) path: PathBuf,
    /// True if it was written relative to the workspace. Then it must lie in the workspace.
    pub(super) within: bool,
    /// The path as written, without the access.
    pub(super) raw: String,
    pub(super) position: TextPosition,
}

/// The key of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum LimitKey {
    /// The wall clock, in nanoseconds.
    WallClock,
    /// The fuel, about one unit per instruction.
    Fuel,
    /// The memory of both kinds of tools, in bytes.
    Memory,
    /// The stdout, in bytes.
    Output,
    /// The number of open handles.
    Handles,
    /// The number of processes and threads.
    Processes,
}

impl LimitKey {
    /// Returns the key as in policy files.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Sets the limit.
    pub(super) fn set(self, limits: &mut CallLimits, value: u64) {
        match self {
            Self::WallClock => limits.wall_clock = Duration::from_nanos(value),
            Self::Fuel => limits.fuel = value,
            Self::Memory => (limits.wasm_memory, limits.native_memory) = (value, value),
            Self::Output => limits.output = value,
            Self::Handles => limits.handles = usize::try_from(value).unwrap_or(usize::MAX),
            Self::Processes => limits.processes = value,
        }
    }

    /// Lowers the limit to `value`. Returns whether it was higher.
    pub(super) fn narrow(self, limits: &mut CallLimits, value: u64) -> bool {
        let before = *limits;
        self.set(limits, value);
        *limits = CallLimits {
            wall_clock: before.wall_clock.min(limits.wall_clock),
            wall_clock_ceiling: before.wall_clock_ceiling,
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
