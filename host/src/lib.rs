//! Runs tools that language models call, each confined to its grant and bounded by limits.
//!
//! A tool is a program that prints a JSON schema when its argument is `--schema`, and otherwise
//! reads one JSON object on stdin and writes one JSON value on stdout. It is a native executable,
//! a WebAssembly component for `wasm32-wasip2`, or a core module for `wasm32-wasip1`. A [`Host`]
//! finds the tools of an installation and of its user, decides by policy what each may touch, runs
//! it under limits, and answers every call with one [`Envelope`].
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
//! The directory `examples` of this crate has complete programs: `embed` calls a tool, `limits`
//! ends calls by a limit and by a token, `own_store` keeps assets in its own store, `server` serves
//! many callers at once.
//!
//! # What to install
//!
//! The library starts two programs, which `cargo xtask install --prefix DIR` in ikigai's repository
//! installs below a prefix, together with the built-in tools:
//!
//! | file below the prefix | purpose | without it |
//! |---|---|---|
//! | `libexec/ikigai-supervisor` | confines and watches each native call | native tools cannot be started |
//! | `bin/ikigai` | compiles components; same version as this library | components that are not in a cache cannot be used |
//! | `libexec/ikigai` | the built-in tools: `bash`, `file_read`, `file_write`, `file_edit`, `glob`, `grep` | only the user's tools |
//!
//! [`Paths::of_installation`] takes the prefix. [`Paths`] describes how to set other files and
//! directories. The host never starts the program that embeds it.
//!
//! It also needs:
//!
//! - A tokio runtime with I/O and time, on which its futures are polled.
//! - Linux for native tools. Elsewhere only components run.
//! - The signal `SIGURG`, which interrupts a thread that is blocked in a component. The program
//!   must not give it another handler.
//!
//! Warnings, such as a policy file that cannot be read, go to [`tracing`](https://docs.rs/tracing):
//! install a subscriber.
//!
//! # A host
//!
//! [`Host::builder`] takes the workspace, which is the directory that tools work in. The builder
//! has defaults for everything else, listed in [`HostBuilder`]. [`build`](HostBuilder::build) fails
//! with a [`BuildError`] if the workspace or a policy file cannot be used. Missing tools and
//! programs are not an error until something needs them.
//!
//! # Tools
//!
//! [`Host::refresh`] looks through the tool directories and returns a [`Snapshot`], which never
//! changes. Refresh again to see new tools; calls with the old snapshot continue.
//! [`Snapshot::tools`] has a [`Tool`] for each name, and [`Tool::schema`] is what a model needs to
//! know: name, description, and a JSON Schema of the arguments.
//!
//! A component that is not in a cache is compiled first, which may take seconds. Its code is then
//! cached. [`HostBuilder::progress`] reports each compilation, and [`HostBuilder::compile_timeout`]
//! limits the time that a call waits for it.
//!
//! # Calls
//!
//! [`Host::call`] takes a snapshot, the name of a tool, the arguments as the text of one JSON
//! object, and a `CancellationToken`, re-exported from `tokio-util`. It never fails: even if
//! nothing ran, it returns an [`Envelope`].
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use ikigai_host::{Envelope, Host, Snapshot, CancellationToken};
//! # async fn example(host: &Arc<Host>, tools: &Snapshot) {
//! let arguments = r#"{"file_path": "Cargo.toml"}"#.into();
//! match host.call(tools, "file_read", arguments, CancellationToken::new()).await {
//!     Envelope::Success(success) => println!("the tool answered {}", success.result),
//!     Envelope::Failure(failure) => {
//!         eprintln!("{}: {}", failure.error_code.as_str(), failure.error);
//!     }
//! }
//! # }
//! ```
//!
//! An envelope prints as JSON for a model. A success means that the tool ran and answered. The
//! answer may itself report an error: a built-in tool that does not find a file answers
//! `{"error": "…", "error_code": "FILE_NOT_FOUND"}`, with a [`ToolCode`]. In a failure, the
//! [`EnvelopeCode`] says why the answer is missing.
//!
//! # Limits
//!
//! Each call has limits on time, fuel (instructions of a component), memory, output, open handles,
//! and processes. [`CallLimits`] has their units and defaults. [`HostBuilder::timeout`] and its
//! neighbours set them for all calls of a host, and a policy file sets them for one tool. The
//! administrator's policy bounds both. If a call exceeds a limit, it is ended, and
//! [`Failure::limit`] names the [`Limit`]. The [`Deadline`] in a call's [`Control`] can give it
//! more time while it runs, as far as the policy files allow.
//!
//! # Cancellation
//!
//! Cancel the token of a call, and it ends with an envelope; drop the future of the call, and it
//! ends without one. Both end every process that the call started. One kind of tool can escape
//! that: if the host does not run as root, a native tool without a sandbox can kill its own
//! supervisor.
//!
//! # Permissions
//!
//! A policy grants each tool directories, peers on the network, variables and assets. Without a
//! policy file, the built-in tools and the user's native tools work in the workspace without a
//! network, and the user's components can touch nothing. [`HostBuilder::profile`] with
//! [`Profile::Strict`] refuses the user's native tools until they are granted something. See
//! [`policy`] for the files, and for how a program changes grants.
//!
//! No tool may write the tools, the policy, the caches, the audit log, the asset store or the
//! programs of the host. The builder computes these paths from its [`Paths`]. If a workspace
//! contains one of them, tools can only read it.
//!
//! # Assets
//!
//! An asset is a text that tools read and write under `ikigai://`, outside of the workspace.
//! Implement [`assets::AssetStore`] to keep assets, and give the store to [`HostBuilder::assets`].
//! Without a store, such names are refused.
//!
//! # Many callers
//!
//! A host is an [`Arc`](std::sync::Arc) and all of its methods take `&self`: clone it into as many
//! tasks as there are callers. [`HostBuilder::components`] sets how many components run at once,
//! and limits their memory together; further calls wait for their turn. Native calls don't count. A
//! program with several workspaces builds a host for each.
//!
//! The task that awaits the future of a call polls it. While a component runs, a thread of the host
//! polls it, so that a call is handed over only once. This future and the futures of an
//! [`assets::AssetStore`] must not depend on the thread that polls them; both threads provide the
//! tokio runtime of the task. A [`Reactor`] is a runtime whose tasks are also polled by threads of
//! the host, so that a short call is not handed over at all.
//!
//! # When something is refused
//!
//! | symptom | source of the reason |
//! |---|---|
//! | `build` fails | the [`BuildError`] and its [`source`](std::error::Error::source) |
//! | a tool is missing from a snapshot | [`Snapshot::skipped`], and [`Snapshot::warnings`] for whole directories |
//! | an unexpected build of a tool runs | [`Tool::reason`] |
//! | a call fails | [`Failure::error`] for people, [`Failure::error_code`] for programs |
//! | a call is `PERMISSION_DENIED` | [`Host::decide`] returns the [`Denial`](policy::Denial), with the rule and a remedy |
//! | a tool cannot reach a file or a host | [`Host::decide`] returns its grant and the rules that decided it; [`Record::denied`](audit::Record::denied) lists the accesses that it tried |
//! | native tools are not sandboxed, or do not start | [`Host::machine`] |
//!
//! # Consent
//!
//! The policy may require consent to a call. Implement [`front_end::FrontEnd`], and pass it to
//! [`Host::call_for`]. Without a front end such calls are refused.
//!
//! # Records
//!
//! Each call is a line of the audit log, even if nothing ran: see [`audit`].

#![deny(missing_docs, rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)]

pub mod audit;
pub mod consent;
#[doc(hidden)]
pub mod exec;
pub mod front_end;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod nearest;
#[doc(hidden)]
pub mod paths;
pub mod policy;
mod reactor;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod toml_file;
#[doc(hidden)]
pub mod toolchain;

/// The store of assets, which tools read and write under `ikigai://`.
///
/// A program that keeps assets implements [`assets::AssetStore`] and gives it to
/// [`HostBuilder::assets`]. Tools name an asset `ikigai:///PATH` or `ikigai://PATH`. The host
/// checks the grant of the call, then asks the store. `examples/own_store.rs` is a complete
/// program. By default `file_read` may read assets, `file_write` and `file_edit` may change them,
/// and other tools have no access.
pub mod assets {
    pub use crate::exec::assets::{
        AssetCaller, AssetEntry, AssetError, AssetFuture, AssetListing, AssetStore, MAX_ENTRIES,
        Window,
    };
    pub use ikigai_protocol::host_socket::MAX_CONTENT;
}

#[doc(no_inline)]
pub use bytes::Bytes;
#[doc(inline)]
pub use ikigai_protocol::{Digest, DigestError};
pub use ikigai_protocol::{EnvelopeCode, ResultKind, ToolCode, ToolSchema};
#[doc(inline)]
pub use ikigai_supervisor::isolation;
#[doc(no_inline)]
pub use tokio_util::sync::CancellationToken;

pub use exec::content::{AnswerBlock, BlockKind, ContentAnswer, ContentError};
pub use exec::envelope::{Envelope, Failure, JsonLayout, Remains, Success};
pub use exec::native::MachineSandbox;
pub use host::{BuildError, CallTarget, Control, Host, HostBuilder};
pub use limits::{CallLimits, Deadline, Extended, Limit};
pub use paths::{Paths, WorkspaceError};
pub use policy::{BackendChoice, LimitKey, Override, Overrides, Profile};
pub use reactor::Reactor;
pub use registry::{
    Build, CompileEvent, Registry, ScanDepth, ScanState, Skipped, Snapshot, Tool, WorkspaceTool,
};
pub use toml_file::{TextPosition, TomlError};
