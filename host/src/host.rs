//! The one path of a call: look the tool up, resolve its grant, run it, tell what
//! came of it. Every front end goes through here.

use std::path::Path;
use std::sync::{Arc, Once};

use bytes::Bytes;
use ikigai_protocol::{Access, DirsError, EnvelopeCode};
use tokio_util::sync::CancellationToken;

use crate::exec::envelope::{self, Envelope};
use crate::exec::output::Sink;
use crate::exec::{Call, Outcome, Stdin};
use crate::limits::{Limits, STDERR_KEPT};
use crate::policy::{self, Backend, Grant, Origin};
use crate::registry::{Build, Registry, Snapshot, Tool};

/// Tools, and what a call of one may use.
pub struct Host {
    /// The tools that can be called.
    pub registry: Registry,
    workspace: Arc<Path>,
    limits: Limits,
    /// What any tool may do in the workspace at most.
    most: Access,
}

/// The streams of a call that does not collect them.
pub struct Streams {
    /// What the tool reads.
    pub stdin: Stdin,
    /// Where its stdout goes.
    pub stdout: Sink,
    /// Where its stderr goes.
    pub stderr: Sink,
}

impl Host {
    /// A host over a registry. `workspace` is absolute and canonical.
    #[must_use]
    pub fn new(registry: Registry, workspace: Arc<Path>, limits: Limits) -> Self {
        let most = policy::most_in(&workspace, &registry.places().own());
        Self { registry, workspace, limits, most }
    }

    /// Calls a tool with arguments in JSON.
    pub async fn call(
        &self,
        snapshot: &Snapshot,
        name: &str,
        arguments: Bytes,
        cancel: CancellationToken,
    ) -> Envelope {
        let Some(tool) = snapshot.get(name) else { return Envelope::not_found(name) };
        if let Err(reason) = envelope::check_arguments(&arguments) {
            return Envelope::refused(EnvelopeCode::InvalidParams, reason);
        }
        let streams = Streams {
            stdin: Stdin::Bytes(arguments),
            stdout: Sink::Head,
            stderr: Sink::Tail(STDERR_KEPT),
        };
        let outcome =
            self.run(&tool.build, tool.name(), tool.origin, Vec::new(), streams, cancel).await;
        Envelope::of(name, &self.limits, outcome)
    }

    /// Runs a program by the bare protocol, with the grant that it has as a tool
    /// called `name`.
    pub async fn run(
        &self,
        build: &Build,
        name: &str,
        origin: Origin,
        args: Vec<std::ffi::OsString>,
        streams: Streams,
        cancel: CancellationToken,
    ) -> Outcome {
        let grant = match self.resolve(name, origin, build.backend()) {
            Ok(grant) => grant,
            Err(error) => return Outcome::not_started(error.to_string()),
        };
        // A component may be compiled first, for many seconds.
        let program = match cancel.run_until_cancelled(build.program()).await {
            None => return Outcome::cancelled(),
            Some(Ok(program)) => program,
            Some(Err(error)) => {
                return Outcome::not_started(format!("the component {error}"));
            }
        };
        let call = Call {
            args,
            stdin: streams.stdin,
            stdout: streams.stdout,
            stderr: streams.stderr,
            grant: Arc::new(grant),
            workspace: Arc::clone(&self.workspace),
            limits: self.limits,
            cancel,
        };
        program.run(call).await
    }

    /// What a tool may touch.
    ///
    /// # Errors
    ///
    /// The workspace cannot be granted; the text says why.
    pub fn grant(&self, tool: &Tool) -> Result<Grant, String> {
        self.resolve(tool.name(), tool.origin, tool.build.backend())
            .map_err(|error| error.to_string())
    }

    fn resolve(&self, name: &str, origin: Origin, backend: Backend) -> Result<Grant, DirsError> {
        if self.most == Access::ReadOnly && policy::writes(name, origin) {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| {
                tracing::warn!(
                    "the workspace `{}` holds ikigai's own files, so tools may only read it; \
                     choose a directory beneath it with --workspace",
                    self.workspace.display()
                );
            });
        }
        policy::standard(name, origin, backend, &self.workspace, self.most)
    }

    /// What every call may use up.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
