//! Runs tools that language models call: programs that are found, confined and limited.
//!
//! A tool is a program that answers `--schema` with a JSON schema, and turns one JSON object on
//! stdin into one JSON value on stdout: a native executable, or a WebAssembly component for
//! `wasm32-wasip2`. A [`Host`] finds tools in the directories of an installation and of its user,
//! decides by the user's policy what each may touch, runs it under limits, and answers every
//! call with one [`Envelope`], whatever happens.
//!
//! ```no_run
//! use ikigai_host::{CancellationToken, Host, Paths};
//!
//! # async fn example() -> Result<(), ikigai_host::BuildError> {
//! let host = Host::builder(".").paths(Paths::of_installation("/usr")).build()?;
//! let tools = host.refresh().await;
//! for tool in tools.tools() {
//!     println!("{}: {}", tool.name(), tool.schema.description);
//! }
//! let arguments = r#"{"pattern": "*.rs"}"#.into();
//! let envelope = host.call(&tools, "glob", arguments, CancellationToken::new()).await;
//! println!("{envelope}");
//! # Ok(())
//! # }
//! ```
//!
//! The directory `examples` of this crate has programs to start from: `embed` calls a tool,
//! `limits` ends calls by a limit and by hand, `own_store` keeps assets in a store of one's own,
//! `server` has many callers at once.
//!
//! # What it needs
//!
//! - A tokio runtime with I/O and time, on which a host is called and refreshed. A host is shared
//!   by [`Arc`](std::sync::Arc); calls run at once.
//! - The programs of an installation of ikigai, which [`Paths`] name. Native tools run under
//!   `libexec/ikigai-supervisor`, components are compiled by `bin/ikigai`. Where one of them is
//!   missing, what needs it is refused with the reason. The program that embeds this library is
//!   never started again itself.
//! - Linux for native tools. Components run wherever wasmtime does.
//!
//! # What a call may touch
//!
//! Nothing that no policy grants. The built-in rules let the standard tools of an installation
//! work in the workspace; `policy.toml` of the user, a file of the administrator above it
//! and one of the workspace below it say the rest, and are read again when they change. No tool
//! may ever write the tools, the policy, the caches, the audit log, the asset store or the
//! programs: the [`HostBuilder`] computes that from its [`Paths`], and nothing else makes a host.
//! See [`policy`].
//!
//! # What a call may use up
//!
//! Time, fuel, memory, output, open files and processes, each with a default in [`limits`] that
//! the policy and the builder change. A call that passes a limit is ended, and its envelope names
//! the [`Limit`]. When the future of a call resolves or is dropped, nothing that the call started
//! goes on.
//!
//! # What is recorded
//!
//! Each call is a line of the audit log, also where nothing ran: see [`audit`].

#![deny(missing_docs)]

pub mod audit;
pub mod digest;
pub mod exec;
pub mod host;
pub mod limits;
#[doc(hidden)]
pub mod nearest;
pub mod paths;
pub mod policy;
pub mod registry;
#[doc(hidden)]
pub mod toml_file;

/// Assets: what a tool reads and writes under `ikigai://`, from a store of the embedder's.
pub mod assets {
    pub use crate::exec::assets::{
        Answer, AssetError, AssetStore, Caller, Entry, Listing, MAX_ENTRIES, Window,
    };
}

pub use bytes::Bytes;
pub use ikigai_protocol::{EnvelopeCode, ToolCode, ToolSchema};
pub use tokio_util::sync::CancellationToken;

pub use exec::envelope::{Envelope, Failure, Layout, Remains, Success};
pub use host::{BuildError, Host, HostBuilder, Subject};
pub use limits::{Limit, Limits};
pub use paths::{Paths, WorkspaceError};
pub use policy::{BackendChoice, LimitKey, Override, Overrides, Profile};
pub use registry::{Progress, Snapshot, Tool};
