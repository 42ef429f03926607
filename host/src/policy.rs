//! The policy: the decision on the permissions and limits of a call, with the rules that decided it.
//!
//! Owns the policy files (how they are parsed, layered and edited), the built-in profiles, and
//! the decision on one call. Opens nothing but its own files, and the first line of a script that
//! would run unconfined, which names its interpreter: a grant is a list of names, and the executor
//! that runs a tool turns it into handles.

mod authority;
mod decide;
mod decision;
mod dirs;
mod edit;
mod live;
mod net;
mod parse;
mod propose;
mod remedy;
mod rule;
mod standard;
mod variables;
mod writable_record;

use std::ffi::OsString;

use ikigai_protocol::GrantedDir;
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

pub use authority::{Authority, Choice, Override, Overrides};
pub use decision::{Decision, Denial, Provenance, ProvenanceMap, Request, Variable};
pub use edit::{NewKey, NewValue};
pub use ikigai_supervisor::plan::Sandbox;
pub use live::{FileStatus, PolicyFiles, shell_quoted};
pub use net::{Net, Peer, PeerHost, is_public};
pub use parse::{check_variable, parse_limit};
pub use propose::{Proposal, fuzzing};
pub(crate) use remedy::Hints;
pub use remedy::{Permissions, Remedy};
pub use rule::{LayerKind, LimitKey};
pub use standard::{OWN_TOOL, STORE_VARIABLE};

/// The permissions of one tool in one workspace. Nothing else is reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The directories, absolute. A component gets each as a preopen; a native tool reads them
    /// in `IKIGAI_DIRS`.
    pub dirs: Vec<GrantedDir>,
    /// The whole environment of the tool.
    pub env: Vec<(OsString, OsString)>,
    /// True if `env` is the environment of its user instead of variables that were granted by
    /// name.
    pub inherits_env: bool,
    /// The peers that it may connect to. A native tool has no network or all of it.
    pub net: Net,
    /// The access to assets.
    pub assets: AssetAccess,
    /// The sandbox that a native tool needs. Components are always confined.
    pub sandbox: Sandbox,
}

/// The access of a tool to the assets of the host.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
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
pub enum AssetAccess {
    /// No access.
    #[default]
    None,
    /// Reading and listing.
    Read,
    /// Reading, listing, writing and editing.
    Write,
}

impl AssetAccess {
    /// Returns `none`, `read` or `write`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The built-in rules for tools that no policy file names.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
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
pub enum Profile {
    /// The standard tools work in the workspace; native tools of a user run with all rights of
    /// that user.
    #[default]
    Standard,
    /// No tool runs unconfined, and no native build stands in for a component.
    Strict,
}

impl Profile {
    /// Returns `standard` or `strict`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The directory of tools that a tool comes from. The built-in grants are for system tools only:
/// a user's tool with the name `file_write` gets nothing from them.
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
pub enum ToolOrigin {
    /// The tools that are installed with the host.
    System,
    /// The tools of the user, and programs that are named by their path.
    User,
}

impl ToolOrigin {
    /// Returns `system` or `user`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The kind of program that a tool is run as.
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
pub enum Backend {
    /// A WebAssembly component.
    Wasm,
    /// A native executable.
    Native,
}

impl Backend {
    /// Returns `wasm` or `native`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The build of a tool that is taken where there are two.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    AsRefStr,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum BackendChoice {
    /// The component, or the native build where no component can be used.
    #[default]
    Auto,
    /// Components only.
    Wasm,
    /// Native builds only.
    Native,
}

impl BackendChoice {
    /// Returns `auto`, `wasm` or `native`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns whether a build of this kind may be taken.
    #[must_use]
    pub fn allows(self, backend: Backend) -> bool {
        match self {
            Self::Auto => true,
            Self::Wasm => backend == Backend::Wasm,
            Self::Native => backend == Backend::Native,
        }
    }
}
