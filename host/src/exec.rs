//! Execution of programs: one trait, with an executor for native programs, one for components, and
//! one for the tools of servers.
//!
//! Owns a [`Call`], its [`Outcome`], and the [`Envelope`](crate::Envelope), the answer that the
//! caller gets. Knows nothing of tool directories, names or policy: a call arrives with its grant
//! resolved and its limits set.

pub(crate) mod arguments;
#[doc(hidden)]
pub mod assets;
pub mod content;
#[doc(hidden)]
pub mod envelope;
mod executed_links;
mod kept_from_models;
#[doc(hidden)]
pub mod mcp;
pub mod native;
mod net;
pub mod output;
pub(crate) mod own_task;
#[cfg(target_os = "linux")]
mod pipes;
#[doc(hidden)]
pub mod scrub;
pub mod wasm;
pub mod widening;
#[doc(hidden)]
pub mod wrap;

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use self::assets::AssetHandle;
use crate::front_end::FrontEnd;
use crate::limits::{CallLimits, Deadline, Limit};
use crate::policy::Grant;
use ikigai_supervisor::isolation::Isolation;
pub use kept_from_models::KeptFromModels;
use output::{Captured, Sink};
use widening::Widening;

/// A program that can be called: a component, an executable, or a tool of a server.
pub trait Executor: Send + Sync {
    /// Runs the program once, to its end or to a limit.
    ///
    /// Never fails: a failure is an [`Outcome`] too. When the future resolves, nothing that the
    /// call started is left running. Dropping the future ends the call as cancelling it does.
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
}

/// One invocation of one program.
#[derive(Clone)]
pub struct Call {
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The source of the program's stdin.
    pub stdin: Stdin,
    /// The destination of stdout, up to [`CallLimits::output`].
    pub stdout: Sink,
    /// The destination of stderr, which never ends a call.
    pub stderr: Sink,
    /// The files, peers and variables that the program may use.
    pub grant: Arc<Grant>,
    /// The principal for whom the program runs, if a front end has authenticated one. Servers are
    /// not shared between principals.
    pub principal: Option<Arc<str>>,
    /// The front end that may be asked during the call.
    pub front_end: Option<Arc<dyn FrontEnd>>,
    /// The way to ask for more than the grant allows, and the notes of the accesses that were tried
    /// and used.
    pub widening: Option<Arc<Widening>>,
    /// The assets of the host. The grant says what the program may do with them.
    pub assets: Option<AssetHandle>,
    /// The directory that relative paths start from; absolute and canonical.
    pub workspace: Arc<Path>,
    /// The limits on what the program uses up.
    pub limits: CallLimits,
    /// The wall clock of the call, which its caller may move while it runs.
    pub deadline: Deadline,
    /// Ends the call early.
    pub cancel: CancellationToken,
}

impl Call {
    /// Returns a call with the default limits, and without arguments, input or permissions.
    /// Keeps the beginnings of stdout and stderr.
    #[must_use]
    pub fn new(workspace: impl Into<Arc<Path>>) -> Self {
        Self {
            args: Vec::new(),
            stdin: Stdin::Bytes(Bytes::new()),
            stdout: Sink::Head,
            stderr: Sink::Head,
            grant: Arc::default(),
            principal: None,
            front_end: None,
            widening: None,
            assets: None,
            workspace: workspace.into(),
            limits: CallLimits::default(),
            deadline: Deadline::default(),
            cancel: CancellationToken::new(),
        }
    }
}

/// The source of a program's stdin.
#[derive(Clone)]
pub enum Stdin {
    /// These bytes, then EOF.
    Bytes(Bytes),
    /// The host's own stdin. A sandboxed native tool gets the descriptor itself only if it is a
    /// pipe, a FIFO, a terminal or `/dev/null`, and otherwise a pipe with a copy of the input.
    Inherit,
}

/// The end of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal, which the host did not send.
    Signal(i32),
    /// A component trapped, on its own or because the host stopped it; the text is for the tool's
    /// author.
    Trap(String),
    /// The host killed a native tool, for the limit in [`Outcome::limit`] or because the call
    /// was cancelled.
    Ended,
    /// The server of the tool, or the connection to it, ended during the call.
    Lost {
        /// The exit code that stands for the end.
        code: i32,
        /// The reason, for the user.
        reason: String,
    },
    /// It never ran, for this reason.
    NotStarted(String),
    /// It was not allowed to run; the text names the rule, and what would allow it.
    Denied(String),
}

/// The outcome of a call.
#[derive(Debug)]
pub struct Outcome {
    /// The end of the program.
    pub exit: Exit,
    /// The limit that ended the call, if one did.
    pub limit: Option<Limit>,
    /// True if the call was cancelled.
    pub cancelled: bool,
    /// The part of stdout that was kept.
    pub stdout: Captured,
    /// The part of stderr that was kept: its last 64 KiB.
    pub stderr: Captured,
    /// The resources that the call used.
    pub usage: ResourceUsage,
    /// The guarantees that applied while the program ran; `None` if it never ran.
    pub isolation: Option<Isolation>,
    /// The accesses that the program was refused.
    pub denied: DeniedAccesses,
}

/// The accesses that a program was refused, as far as its executor sees them. It sees accesses to
/// assets, and accesses to the network through a component's imports, a native tool's relay or the
/// connection to a server. The kernel refuses a native tool all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedAccesses {
    /// The first [`DeniedAccesses::KEPT`] of them, each once, such as `net 10.0.0.1:80`. The names in
    /// them were chosen by the program, and hold no control characters.
    pub first: Vec<String>,
    /// The number of refusals, repetitions included.
    pub count: u64,
}

impl DeniedAccesses {
    /// The number of different refusals that are kept.
    pub const KEPT: usize = 16;

    /// Adds the refusals of another part of the executor.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        let repeated = other.count - other.first.len() as u64;
        other.first.into_iter().for_each(|what| self.note(what));
        self.count += repeated;
        self
    }

    /// Notes one refusal.
    pub(crate) fn note(&mut self, what: String) {
        self.count += 1;
        if self.first.len() < Self::KEPT && !self.first.contains(&what) {
            self.first.push(what);
        }
    }
}

/// The refusals of a program that runs, as they come. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Arc<Mutex<DeniedAccesses>>);

impl Refusals {
    /// Notes one refusal.
    pub(crate) fn note(&self, what: String) {
        self.0.lock().note(what);
    }

    /// Returns the refusals so far.
    pub(crate) fn so_far(&self) -> DeniedAccesses {
        self.0.lock().clone()
    }

    /// Returns the refusals since the last time, for a program that serves one call after the
    /// other.
    pub(crate) fn take(&self) -> DeniedAccesses {
        std::mem::take(&mut self.0.lock())
    }
}

/// The resources that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The time from the start of the program to its end.
    pub duration: Duration,
    /// The fuel burnt; components only.
    pub fuel: Option<u64>,
    /// The peak of memory, in bytes: linear memory of a component, resident set of the largest
    /// process of a native tool.
    pub peak_memory: Option<u64>,
    /// The processes of a native tool that ran when it had exited. They were ended.
    pub left_running: usize,
}

impl Outcome {
    /// Returns the outcome of a call that was cancelled before it began.
    #[must_use]
    pub(crate) fn cancelled() -> Self {
        Self { cancelled: true, ..Self::not_started("cancelled") }
    }

    /// Returns the outcome of a call whose time was over before it began, for this reason.
    #[must_use]
    pub(crate) fn late(reason: impl Into<String>) -> Self {
        Self { limit: Some(Limit::WallClock), ..Self::not_started(reason) }
    }

    /// Returns the outcome of a call that policy forbids.
    #[must_use]
    pub(crate) fn denied(reason: impl Into<String>) -> Self {
        Self { exit: Exit::Denied(reason.into()), ..Self::not_started(String::new()) }
    }

    /// Returns the outcome of a call that could not begin.
    #[must_use]
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self {
            exit: Exit::NotStarted(reason.into()),
            limit: None,
            cancelled: false,
            stdout: Captured::default(),
            stderr: Captured::default(),
            usage: ResourceUsage::default(),
            isolation: None,
            denied: DeniedAccesses::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_kept_up_to_a_bound_and_counted_beyond_it() {
        let mut denied = DeniedAccesses::default();
        for port in (0..100).chain(0..100) {
            denied.note(format!("net host:{port}"));
        }
        assert_eq!((denied.first.len(), denied.count), (DeniedAccesses::KEPT, 200));
        assert_eq!(denied.first[15], "net host:15");
    }
}
