//! The one path of a call: look the tool up, resolve its grant, run it, tell what
//! came of it. Every front end goes through here.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Once};

use bytes::Bytes;
use ikigai_protocol::{Access, DirsError, EnvelopeCode};
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, Entry, Program, Via};
use crate::exec::envelope::{self, Envelope};
use crate::exec::output::Sink;
use crate::exec::scrub::Secrets;
use crate::exec::{Call, Exit, Outcome, Stdin};
use crate::limits::{Limits, STDERR_KEPT};
use crate::policy::{self, Backend, Grant, Origin};
use crate::registry::{Build, Registry, Snapshot, Tool, WAS_NAMED};

/// Tools, and what a call of one may use.
pub struct Host {
    /// The tools that can be called.
    pub registry: Registry,
    workspace: Arc<Path>,
    limits: Limits,
    audit: Audit,
    /// What any tool may do in the workspace at most.
    most: Access,
}

/// What is run: a tool, or a program that is named by its path.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The name of the tool; none where a program is named by its path.
    pub name: Option<&'a str>,
    /// Where it is from.
    pub origin: Origin,
    /// What runs.
    pub build: &'a Build,
    /// Why this build, for a person.
    pub reason: &'a str,
}

impl<'a> Subject<'a> {
    /// A program that is named by its path.
    #[must_use]
    pub fn at_path(build: &'a Build) -> Self {
        Self { name: None, origin: Origin::User, build, reason: WAS_NAMED }
    }

    /// Its name, or its path.
    fn title(&self) -> Cow<'a, str> {
        self.name.map_or_else(|| self.build.path.to_string_lossy(), Cow::Borrowed)
    }
}

impl<'a> From<&'a Tool> for Subject<'a> {
    fn from(tool: &'a Tool) -> Self {
        let Tool { origin, build, reason, .. } = tool;
        Self { name: Some(tool.name()), origin: *origin, build, reason }
    }
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
        let audit = Audit::new(registry.places().state.clone(), &workspace);
        Self { registry, workspace, limits, audit, most }
    }

    /// Records the text of arguments as well, not only their digest.
    pub fn record_arguments(&mut self) {
        self.audit.record_arguments();
    }

    /// Calls a tool with arguments in JSON.
    pub async fn call(
        &self,
        snapshot: &Snapshot,
        name: &str,
        arguments: Bytes,
        cancel: CancellationToken,
    ) -> Envelope {
        let mut entry = self.audit.begin(Via::Call, name);
        entry.arguments(arguments.clone());
        let envelope = self.answer(&mut entry, snapshot, name, arguments, cancel).await;
        entry.end(envelope.failure());
        envelope
    }

    async fn answer(
        &self,
        entry: &mut Entry<'_>,
        snapshot: &Snapshot,
        name: &str,
        arguments: Bytes,
        cancel: CancellationToken,
    ) -> Envelope {
        let Some(tool) = snapshot.get(name) else { return Envelope::not_found(name) };
        let subject = Subject::from(tool);
        entry.program(program(subject));
        if let Err(reason) = envelope::check_arguments(&arguments) {
            return Envelope::refused(EnvelopeCode::InvalidParams, reason);
        }
        let streams = Streams {
            stdin: Stdin::Bytes(arguments),
            stdout: Sink::Head,
            stderr: Sink::Tail(STDERR_KEPT),
        };
        let outcome = self.attempt(entry, subject, Vec::new(), streams, cancel).await;
        Envelope::of(name, &self.limits, outcome, entry.secrets())
    }

    /// Runs a program by the bare protocol, with the grant that it has as a tool.
    pub async fn run(
        &self,
        via: Via,
        subject: Subject<'_>,
        args: Vec<OsString>,
        streams: Streams,
        cancel: CancellationToken,
    ) -> Outcome {
        let title = subject.title();
        let mut entry = self.audit.begin(via, &title);
        entry.program(program(subject));
        let line: Vec<&[u8]> = args.iter().map(|arg| arg.as_encoded_bytes()).collect();
        match &streams.stdin {
            Stdin::Bytes(bytes) => entry.arguments(bytes.clone()),
            Stdin::Inherit if line.is_empty() => {}
            Stdin::Inherit => entry.arguments(line.join(&0).into()),
        }
        let mut outcome = self.attempt(&mut entry, subject, args, streams, cancel).await;
        if let Exit::Trap(text) | Exit::NotStarted(text) = &mut outcome.exit {
            *text = entry.secrets().scrub_text(text).into_owned();
        }
        let failure = envelope::failure(&title, &self.limits, &outcome);
        entry.end(failure.as_ref().map(|(code, error)| (*code, error.as_str())));
        outcome
    }

    /// Records that somebody asked for a tool that is not there.
    pub fn record_unknown(&self, via: Via, name: &str) {
        self.audit.begin(via, name).end(Envelope::not_found(name).failure());
    }

    async fn attempt(
        &self,
        entry: &mut Entry<'_>,
        subject: Subject<'_>,
        args: Vec<OsString>,
        streams: Streams,
        cancel: CancellationToken,
    ) -> Outcome {
        let backend = subject.build.backend();
        let grant = match self.resolve(&subject.title(), subject.origin, backend) {
            Ok(grant) => grant,
            Err(error) => return Outcome::not_started(error.to_string()),
        };
        // Nothing is granted by name yet that could be a secret.
        entry.granted(&grant, backend, Vec::new(), Secrets::default());
        // A component may be compiled first, for many seconds.
        let program = match cancel.run_until_cancelled(subject.build.program()).await {
            None => Err(Outcome::cancelled()),
            Some(Ok(program)) => Ok(program),
            Some(Err(error)) => Err(Outcome::not_started(format!("the component {error}"))),
        };
        let outcome = match program {
            Err(outcome) => outcome,
            Ok(program) => {
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
        };
        entry.ran(&outcome);
        outcome
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

/// What the audit log says of a program.
fn program(subject: Subject<'_>) -> Program {
    Program {
        origin: subject.origin.as_str().to_owned(),
        path: subject.build.path.to_string_lossy().into_owned(),
        digest: subject.build.digest,
        backend: subject.build.backend().as_str().to_owned(),
        backend_reason: subject.reason.to_owned(),
    }
}
