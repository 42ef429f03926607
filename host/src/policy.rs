//! What a tool may touch, who said so, and where.
//!
//! Owns the policy files (parsing, layers, the command that edits one), the
//! built-in profiles, and the decision on one call that comes of them. Opens
//! nothing but its own files, and the line in which a tool that would run unconfined names
//! its interpreter: a grant is a list of names, and the lane that runs a tool turns it into
//! handles.

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
pub use live::{FileStatus, PolicyFiles, shell_quoted};
pub use net::{Net, Peer, PeerHost, is_public};
pub use parse::{check_variable, parse_limit};
pub use propose::{Proposal, fuzzing};
pub(crate) use remedy::Hints;
pub use remedy::{Permissions, Remedy};
pub use rule::{LayerKind, LimitKey};
pub use standard::{OWN_TOOL, STORE_VARIABLE};

/// What one tool may touch in one workspace. Nothing else is reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Directories, absolute. A component gets each as a preopen; a native tool
    /// learns of them in `IKIGAI_DIRS`.
    pub dirs: Vec<GrantedDir>,
    /// The whole environment of the tool.
    pub env: Vec<(OsString, OsString)>,
    /// Whether that is its user's own environment rather than variables that were
    /// granted by name.
    pub inherits_env: bool,
    /// Which peers it may connect to. A native tool has no network or all of it.
    pub net: Net,
    /// What it may do with the host's assets.
    pub assets: AssetAccess,
    /// How much of this the native lane must be able to keep. Components are always
    /// kept to all of it.
    pub sandbox: Sandbox,
}

/// What a tool may do with the assets of the host.
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
    /// Nothing.
    #[default]
    None,
    /// Read and list them.
    Read,
    /// Also write and edit them.
    Write,
}

impl AssetAccess {
    /// `none`, `read` or `write`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What becomes of a native call where this machine cannot keep the whole grant.
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
pub enum Sandbox {
    /// There is no sandbox: the tool runs with all of its user's rights.
    Off,
    /// It runs with what can be kept, and is reported so.
    Prefer,
    /// It does not run.
    #[default]
    Require,
}

impl Sandbox {
    /// `off`, `prefer` or `require`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What holds where no file says otherwise.
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
    /// The standard tools work in the workspace; a user's native tools run as their
    /// user.
    #[default]
    Standard,
    /// Nothing runs unconfined, and nothing falls back.
    Strict,
}

impl Profile {
    /// `standard` or `strict`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Which of the two directories a tool comes from. The built-in grants are for
/// system tools only: a user's tool that calls itself `file_write` gets nothing
/// from them.
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
    /// Installed with the host.
    System,
    /// Put there by the user, or named by its path.
    User,
}

impl ToolOrigin {
    /// `system` or `user`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Which kind of program a tool is run as.
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
    /// `wasm` or `native`, as flags and tables write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Which build of a tool to take where there are two.
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
    /// The component; the native build only where there is no usable component.
    #[default]
    Auto,
    /// Components only.
    Wasm,
    /// Native builds only.
    Native,
}

impl BackendChoice {
    /// `auto`, `wasm` or `native`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether a build of this kind may be taken.
    #[must_use]
    pub fn allows(self, backend: Backend) -> bool {
        match self {
            Self::Auto => true,
            Self::Wasm => backend == Backend::Wasm,
            Self::Native => backend == Backend::Native,
        }
    }
}
