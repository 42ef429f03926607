//! Running a tool: one trait, two lanes behind it.
//!
//! Owns what a call is ([`Call`]), what came of it ([`Outcome`]) and how that is
//! told to a model or a person ([`envelope`]). Knows nothing of where tools are
//! found, what they are called, or who decided what they may touch: a call
//! arrives with its grant resolved and its limits set.

pub mod assets;
pub mod envelope;
pub mod native;
pub mod output;
pub mod scrub;
pub mod wasm;

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use self::assets::AssetHandle;
use crate::limits::{Limit, Limits};
use crate::policy::Grant;
use ikigai_supervisor::isolation::Isolation;
use output::{Captured, Sink};

/// A program that can be called: a component or an executable.
pub trait Executor: Send + Sync {
    /// Runs the program once, to its end or to a limit.
    ///
    /// Never fails: whatever happens is an [`Outcome`]. When the future
    /// resolves, nothing that the call started is left running. Dropping the
    /// future ends the call as cancelling it does.
    fn run(&self, call: Call) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;
}

/// One invocation of one program.
#[derive(Clone)]
pub struct Call {
    /// Arguments after the program's own name.
    pub args: Vec<OsString>,
    /// What the program reads on stdin.
    pub stdin: Stdin,
    /// Where stdout goes, up to [`Limits::output`].
    pub stdout: Sink,
    /// Where stderr goes; it never ends a call.
    pub stderr: Sink,
    /// What the program may touch.
    pub grant: Arc<Grant>,
    /// The assets of the host; what the program may do with them is in the grant.
    pub assets: Option<AssetHandle>,
    /// The directory that relative paths start from; absolute and canonical.
    pub workspace: Arc<Path>,
    /// What the program may use up.
    pub limits: Limits,
    /// Ends the call early.
    pub cancel: CancellationToken,
}

/// What a program reads on stdin.
#[derive(Clone)]
pub enum Stdin {
    /// These bytes, then EOF.
    Bytes(Bytes),
    /// The host's own stdin.
    Inherit,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal, sent by itself or another, not by the host.
    Signal(i32),
    /// A component trapped, by itself or because the host stopped it; the text is
    /// for the tool's author.
    Trap(String),
    /// The host killed a native tool, for the limit in [`Outcome::limit`] or because
    /// the call was cancelled.
    Ended,
    /// It never ran; the text says why.
    NotStarted(String),
    /// It was not allowed to run; the text says by whom, and what would allow it.
    Denied(String),
}

/// What came of a call.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended.
    pub exit: Exit,
    /// The limit that ended the call, if one did.
    pub limit: Option<Limit>,
    /// Whether the call was cancelled.
    pub cancelled: bool,
    /// What was collected of stdout.
    pub stdout: Captured,
    /// What was collected of stderr: its last 64 KiB.
    pub stderr: Captured,
    /// What the call used.
    pub usage: Usage,
    /// What held while the program ran; none where it never did.
    pub isolation: Option<Isolation>,
    /// What the program reached for and was refused.
    pub denied: Denied,
}

/// What a program reached for and was refused, as far as the lane sees it: assets, and
/// a component's network. Everything else is refused to a native tool by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denied {
    /// The first [`Denied::KEPT`] of them, each once, such as `net 10.0.0.1:80`. What
    /// is named there was chosen by the program; it holds no control characters.
    pub first: Vec<String>,
    /// How often the program was refused something, repetitions included.
    pub count: u64,
}

impl Denied {
    /// How many are told apart.
    pub const KEPT: usize = 16;

    /// Adds what another part of the lane refused.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        let repeated = other.count - other.first.len() as u64;
        other.first.into_iter().for_each(|what| self.note(what));
        self.count += repeated;
        self
    }

    /// Notes one refusal.
    pub fn note(&mut self, what: String) {
        self.count += 1;
        if self.first.len() < Self::KEPT && !self.first.contains(&what) {
            self.first.push(what);
        }
    }
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the start of the program to its end.
    pub duration: Duration,
    /// Fuel burnt; components only.
    pub fuel: Option<u64>,
    /// Peak memory in bytes: linear memory of a component, resident set of the
    /// largest process of a native tool.
    pub peak_memory: Option<u64>,
}

impl Outcome {
    /// A call that was cancelled before it began.
    #[must_use]
    pub fn cancelled() -> Self {
        Self { cancelled: true, ..Self::not_started("cancelled") }
    }

    /// A call whose time was over before it began, and what took it.
    #[must_use]
    pub fn late(reason: impl Into<String>) -> Self {
        Self { limit: Some(Limit::WallClock), ..Self::not_started(reason) }
    }

    /// A call that policy forbids.
    #[must_use]
    pub fn denied(reason: impl Into<String>) -> Self {
        Self { exit: Exit::Denied(reason.into()), ..Self::not_started(String::new()) }
    }

    /// A call that never became one.
    #[must_use]
    pub fn not_started(reason: impl Into<String>) -> Self {
        Self {
            exit: Exit::NotStarted(reason.into()),
            limit: None,
            cancelled: false,
            stdout: Captured::default(),
            stderr: Captured::default(),
            usage: Usage::default(),
            isolation: None,
            denied: Denied::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_up_to_a_bound_and_counted_beyond_it() {
        let mut denied = Denied::default();
        for port in (0..100).chain(0..100) {
            denied.note(format!("net host:{port}"));
        }
        assert_eq!((denied.first.len(), denied.count), (Denied::KEPT, 200));
        assert_eq!(denied.first[15], "net host:15");
    }
}
