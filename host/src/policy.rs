//! The policy: the decision on the permissions and limits of a call, with the rules that decided
//! it.
//!
//! Policies are TOML files, in three layers:
//!
//! | layer | file | effect |
//! |---|---|---|
//! | ceiling | [`Paths::ceiling`](crate::Paths::ceiling), and those of [`HostBuilder::ceiling`](crate::HostBuilder::ceiling) | bounds all others |
//! | user | [`Paths::policy`](crate::Paths::policy) | grants |
//! | workspace | `.ikigai/policy.toml` in the workspace | only narrows |
//!
//! ```toml
//! profile = "strict"
//!
//! [tools.grep]                     # a built-in tool
//! fs = ["ro:docs"]
//! limits = { wall_clock = "5s" }
//!
//! [tools.customer_db]              # a tool of the user, bound to the contents of its file
//! sha256 = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
//! net = ["db.internal:5432"]
//! env = ["CUSTOMER_DB"]
//!
//! [tools."*"]                      # a bound for every tool, never a grant
//! limits = { memory = "256MiB" }
//! ```
//!
//! The built-in rules of the [`Profile`] apply to a tool that no file names. The host checks the
//! files before each call, so a change applies to the next call. If a file cannot be used, its
//! earlier contents stay in force, with a warning. If a ceiling cannot be used, nothing may run.
//! `docs/reference/policy-file.md` of the repository describes every key.
//!
//! # Asking
//!
//! [`Host::decide`](crate::Host::decide) returns the [`Decision`] on a tool, or its [`Denial`].
//! A decision has the [`Grant`], the limits, and the rules behind each of them
//! ([`ProvenanceMap`]). [`Authority`] has the state of the files and the profile in force.
//!
//! # Granting
//!
//! Users grant permissions by editing their file, or with `ikigai policy grant`. A program can do
//! the same: [`Authority::propose_grant`] proposes a change of that file, and [`Proposal::write`]
//! makes it. First show the user what would change. Models and tools must not be able to call these
//! methods.
//!
//! ```no_run
//! use ikigai_host::policy::NewValue;
//! use ikigai_host::{Host, Tool};
//!
//! /// Lets a tool of the user read one directory of the workspace, and run in the sandbox.
//! fn grant(host: &Host, tool: &Tool) -> Result<(), Box<dyn std::error::Error>> {
//!     // A grant is for the contents of a file: of each build, where there are two.
//!     let builds = [Some(&tool.build), tool.other.as_ref()];
//!     let digests = builds.into_iter().flatten().map(|build| build.digest.to_string()).collect();
//!     let keys = [
//!         ("sha256".to_owned(), NewValue::List(digests)),
//!         ("fs".to_owned(), NewValue::List(vec!["ro:docs".to_owned()])),
//!     ];
//!     let proposal = host.authority().propose_grant(tool.name(), &keys)?;
//!     for line in proposal.difference() {
//!         println!("{line}");
//!     }
//!     proposal.write()?;
//!     Ok(())
//! }
//! ```
//!
//! The module opens only its own files, and the scripts that would run unconfined, because their
//! first line names the interpreter. A grant is a list of names. The executor that runs a tool
//! turns the names into handles.

mod authority;
mod broad_places;
mod commands;
mod decide;
mod decision;
mod dirs;
mod earlier_reach;
mod edit;
mod entry_lists;
mod executed_places;
mod hide;
mod live;
mod missed_places;
mod net;
mod parse;
mod propose;
mod provenance;
mod reached;
mod remedy;
mod reserved;
mod rule;
mod secret_places;
mod session;
mod shortfall;
mod signer_rule;
mod signers;
mod standard;
mod variables;
mod wasi;
mod widen;
mod writable_record;
mod written;

use std::ffi::OsString;
use std::path::PathBuf;

pub use ikigai_protocol::{Access, GrantedDir};
use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

#[doc(hidden)]
pub use authority::BuildChoice;
pub(crate) use authority::PolicySnapshot;
pub use authority::{Authority, Override, Overrides};
pub use broad_places::{is_broad_place, is_of_kernel};
#[doc(hidden)]
pub use commands::fuzzing as fuzzing_commands;
pub use commands::{CommandRule, Commands, Requirement, ScriptVerdict};
pub(crate) use decision::CalledProgram;
pub use decision::{
    Decision, Denial, Effects, PolicyRequest, RegisteredTool, ServerTool, Variable,
};
pub use earlier_reach::{EarlierReach, InEarlierReach};
pub use edit::{NewKey, NewValue};
pub use entry_lists::{Conflict, EntryLists};
pub use executed_places::{EXECUTED_PLACES, ExecutedPlace, GIT, IN_GIT, executed_place};
pub(crate) use executed_places::{MODULES, WORKTREES};
pub use hide::Hide;
pub(crate) use hide::HideWalk;
pub use ikigai_supervisor::plan::Sandbox;
pub(crate) use live::PolicyFiles;
pub use live::{FileStatus, shell_quoted};
#[doc(hidden)]
pub use net::is_public;
pub use net::{Net, Peer, PeerHost};
pub use parse::{check_server_name, check_variable, parse_limit};
pub use propose::{Proposal, fuzzing};
pub use provenance::{LayerKind, Provenance, ProvenanceMap};
pub use reached::{RequestedAccess, UsedAccess};
pub(crate) use remedy::RemedyHints;
pub use remedy::{Permissions, Remedy};
pub use reserved::Reserved;
pub use rule::LimitKey;
pub use secret_places::{
    SECRET_PLACES, SecretPlace, holds_secret_place, present_secrets, secret_names, secret_place,
};
pub use session::SessionAnswer;
pub use shortfall::Shortfall;
pub use signer_rule::{SignerIdentity, SignerRule};
pub use signers::{Signatures, SignersInForce};
pub(crate) use standard::path_arguments as path_arguments_of;
pub use standard::{CLIENTS, OWN_TOOL, STORE_VARIABLE, is_standard};
pub use wasi::{WasiUse, WasiVersion};
pub use widen::unconfining_keys;
pub use written::{EntryPermissions, WrittenPath, path_in_policy};

/// The permissions of one tool in one workspace: the part of a [`Decision`] that the executor
/// enforces. A sandboxed tool or a component has no other access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The directories and single files, absolute. A component gets each as a preopen; a native
    /// tool reads them in `IKIGAI_DIRS`. If one lies in another, it has more access.
    pub dirs: Vec<GrantedDir>,
    /// The symbolic links that a native tool in the sandbox sees beside those directories.
    pub links: Vec<GrantedLink>,
    /// The names in those directories that the tool does not see.
    pub hide: Hide,
    /// The places in those directories that only an explicit grant opens.
    pub reserved: Reserved,
    /// The whole environment of the tool, including variables whose values may be secrets.
    pub env: Vec<(OsString, OsString)>,
    /// True if `env` is the environment of its user instead of variables that were granted by
    /// name.
    pub inherits_env: bool,
    /// The peers that it may connect to. A native tool with [`Net::any`] uses the machine's
    /// network, where addresses are not checked.
    pub net: Net,
    /// True if a sandboxed native tool may create sockets on its own loopback interface, which no
    /// other process can reach.
    pub own_sockets: bool,
    /// The access to assets.
    pub assets: AssetAccess,
    /// The sandbox that a native tool needs. Components are always confined.
    pub sandbox: Sandbox,
    /// The places of which a sandboxed native tool sees no directory beyond `dirs`.
    pub closed: ClosedPlaces,
}

/// The places of the machine that show no directory as part of a native tool's installation: those
/// in which tools may write, or once could, and those of secrets. Such a directory is seen only if
/// it is granted.
///
/// They grant nothing, and change while tools run. So all of them are equal: a grant stays the same
/// if another tool may write to one more directory.
#[derive(Clone, Debug, Default)]
pub struct ClosedPlaces {
    /// The places, absolute and without links.
    pub places: Vec<PathBuf>,
    /// The places in them in which no tool may write, such as the directory of the user's tools.
    /// The innermost place around a path decides.
    pub except: Vec<PathBuf>,
}

impl PartialEq for ClosedPlaces {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ClosedPlaces {}

/// A symbolic link that a list `fs` names. It opens nothing: the tool sees it if it sees the
/// target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedLink {
    /// The path of the link, absolute. No other link lies on the way to it.
    pub path: PathBuf,
    /// The file or directory that it leads to, with all links resolved.
    pub target: PathBuf,
}

/// The access of a tool to the assets of the host: the key `assets` of a policy file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
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

/// The calls that need consent before they run: the key `approve` of a policy file. The strictest
/// value of any layer applies. Consent grants nothing.
///
/// For all tools except `bash`, [`Unlisted`](Self::Unlisted) means the same as
/// [`Changes`](Self::Changes). For a `bash` that may change something, `Changes` is stricter,
/// because it asks about each call. For any other `bash`, `Unlisted` is stricter. So the value in
/// force asks about every call that the value of any layer asks about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Approve {
    /// No calls.
    #[default]
    None,
    /// Calls that may write, or connect to other machines.
    Changes,
    /// For `bash`, calls with a script that the rules of `commands` do not list. For other tools,
    /// calls that may write, or connect to other machines.
    Unlisted,
    /// All calls.
    Always,
}

impl Approve {
    /// Returns `none`, `changes`, `unlisted` or `always`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl AssetAccess {
    /// Returns `none`, `read` or `write`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The built-in rules for tools that no policy file names: the key `profile` of a policy file, or
/// [`HostBuilder::profile`](crate::HostBuilder::profile). The strictest value that a ceiling, the
/// user or the workspace sets applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Profile {
    /// Built-in tools work in the workspace. User components can touch nothing. User native tools
    /// run in the sandbox of the shell, with the workspace and without a network.
    #[default]
    Standard,
    /// No tool runs unconfined, and no native build replaces a component. User native tools are
    /// refused until they are granted something.
    Strict,
}

impl Profile {
    /// Returns `standard` or `strict`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The directory of tools that a tool comes from. The built-in grants are for system tools only: a
/// user tool with the name `file_write` gets nothing from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ToolOrigin {
    /// The tools that are installed with the host.
    System,
    /// The user's tools, and programs that are named by their path.
    User,
}

impl ToolOrigin {
    /// Returns `system` or `user`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The kind of program that a tool runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Backend {
    /// A WebAssembly component.
    Wasm,
    /// A native executable.
    Native,
    /// A tool of a Model Context Protocol (MCP) server.
    Mcp,
}

impl Backend {
    /// Returns `wasm`, `native` or `mcp`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The build that runs if a tool has two builds: the key `backend` of a policy file, or
/// [`HostBuilder::backend`](crate::HostBuilder::backend).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum BackendChoice {
    /// The component, or the native build if the component cannot be used. For the built-in `bash`,
    /// the standard profile prefers the native build if the machine's sandbox confines it.
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

    /// Returns whether this choice allows a build of this kind.
    #[must_use]
    pub fn allows(self, backend: Backend) -> bool {
        match self {
            Self::Auto => true,
            Self::Wasm => backend == Backend::Wasm,
            Self::Native => backend == Backend::Native,
        }
    }
}
