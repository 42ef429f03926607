//! The single path of every call: the host looks up the tool, the policy decides, the program runs,
//! and its outcome becomes an envelope. Every front end uses this path.

mod approval;
mod assets;
mod attempt;
mod builder;
mod contents;
mod in_flight;
mod installation;
mod own;
mod widened;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ikigai_protocol::{Digest, EnvelopeCode, ResultKind};
use tokio_util::sync::CancellationToken;

use self::attempt::CallAttempt;
use self::in_flight::CallInFlight;
use crate::audit::{Audit, PendingRecord, ProgramRecord, Requester, Via};
use crate::exec::assets::AssetStore;
use crate::exec::envelope::{self, Aside, Envelope};
use crate::exec::native::MachineSandbox;
use crate::exec::output::Sink;
use crate::exec::scrub::SecretValues;
use crate::exec::widening::OpenQuestions;
use crate::exec::{Exit, KeptFromModels, Outcome, Stdin};
use crate::front_end::FrontEnd;
use crate::limits::{CallLimits, Deadline, STDERR_KEPT};
use crate::policy::{Authority, Decision, Denial, PolicyRequest, ToolOrigin};
use crate::registry::{Build, Registry, ScanDepth, Snapshot, Tool, WAS_NAMED};

pub use builder::{BuildError, HostBuilder};

/// A host: the registry of tools, the policy that decides on calls, and the audit log.
///
/// [`Host::builder`] makes one, as an [`Arc`] that callers share. Each caller takes a snapshot of
/// the tools, and calls them by name:
///
/// ```no_run
/// use std::sync::Arc;
///
/// use ikigai_host::{CancellationToken, Envelope, Host};
///
/// /// Calls one tool, for any number of callers at once.
/// async fn answer(host: Arc<Host>, tool: String, arguments: String) -> Envelope {
///     let tools = host.refresh().await;
///     host.call(&tools, &tool, arguments.into(), CancellationToken::new()).await
/// }
/// ```
pub struct Host {
    registry: Registry,
    workspace: Arc<Path>,
    audit: Arc<Audit>,
    assets: Option<(Arc<dyn AssetStore>, Arc<str>)>,
    questions: Arc<OpenQuestions>,
    /// The addresses of the asset store. The user is not asked about them.
    own_peers: Arc<[(String, u16)]>,
    compile_timeout: Option<Duration>,
}

/// The reason why a call that needs consent does not run, if no front end can ask.
const NOBODY: &str = "ikigai cannot ask the user here";

/// The reason for a timeout before the program has begun.
const COMPILING: &str = "its component was still being compiled";

/// The program that a call runs: a tool, or a program that is named by its path.
///
/// A [`Tool`] converts into it: `host.decide(tool.into())`.
#[derive(Clone, Copy)]
pub struct CallTarget<'a> {
    /// The name of the tool; `None` for a program that is named by its path.
    pub name: Option<&'a str>,
    /// The origin of the tool.
    pub origin: ToolOrigin,
    /// The build that runs.
    pub build: &'a Build,
    /// The reason for this build, for the user.
    pub reason: &'a str,
    /// True if it runs only because its component cannot be used on this host.
    pub fell_back: bool,
}

impl<'a> CallTarget<'a> {
    /// Returns the subject for a program that is named by its path.
    #[doc(hidden)]
    #[must_use]
    pub fn at_path(build: &'a Build) -> Self {
        Self { name: None, origin: ToolOrigin::User, build, reason: WAS_NAMED, fell_back: false }
    }

    /// Returns the name, or the path of a program without a name.
    fn title(&self) -> Cow<'a, str> {
        self.name.map_or_else(|| self.build.path.to_string_lossy(), Cow::Borrowed)
    }
}

impl<'a> From<&'a Tool> for CallTarget<'a> {
    fn from(tool: &'a Tool) -> Self {
        let Tool { origin, build, reason, fell_back, .. } = tool;
        Self { name: Some(tool.name()), origin: *origin, build, reason, fell_back: *fell_back }
    }
}

/// The streams of a call whose output is not collected.
pub struct CallStreams {
    /// The stdin of the tool.
    pub stdin: Stdin,
    /// The destination of its stdout.
    pub stdout: Sink,
    /// The destination of its stderr.
    pub stderr: Sink,
}

/// The caller's control over a running call. A [`CancellationToken`] converts into it.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// Ends the call early.
    pub cancel: CancellationToken,
    /// The time of the call, which can be extended. Each call has its own.
    pub deadline: Deadline,
}

impl From<CancellationToken> for Control {
    fn from(cancel: CancellationToken) -> Self {
        Self { cancel, deadline: Deadline::default() }
    }
}

/// The caller's side of a call.
#[derive(Default)]
struct CallOrigin {
    principal: Option<Arc<str>>,
    /// True if the principal must not use assets, even if the policy grants them.
    without_assets: bool,
    front_end: Option<Arc<dyn FrontEnd>>,
    control: Control,
}

/// The answer to a call.
pub struct AnsweredCall {
    /// The envelope.
    pub envelope: Envelope,
    /// The decision that the tool ran under; `None` if it did not run.
    pub decision: Option<Decision>,
}

impl Host {
    /// Returns a builder of a host whose tools work in the directory `workspace`. See
    /// [`HostBuilder`] for the settings.
    pub fn builder(workspace: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder::new(workspace.into())
    }

    /// Returns the registry, which shows the state of discovery and can scan at other depths than
    /// [`refresh`](Self::refresh).
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Finds all tools and returns them. Does not ask unchanged files again. Waits for the
    /// compilation of new components.
    ///
    /// Never fails: [`Snapshot::skipped`] and [`Snapshot::warnings`] list what is missing.
    pub async fn refresh(&self) -> Arc<Snapshot> {
        self.registry.scan(ScanDepth::Remembered).await
    }

    /// Finds one tool, for a program that makes a single call. See [`Registry::look_up`]. Waits for
    /// compilations no longer than the [`compile_timeout`](HostBuilder::compile_timeout) of this
    /// host.
    pub async fn look_up(&self, name: &str) -> Arc<Snapshot> {
        self.registry.look_up(name, self.compile_timeout).await
    }

    /// Calls a tool. `arguments` are the text of one JSON object, in UTF-8.
    ///
    /// Never fails: an [`Envelope`] reports the result of the call. `control` is the token that
    /// ends the call with an envelope when it is cancelled, or a [`Control`], which can also give
    /// the call more time. Dropping the future ends the call without an envelope. When the future
    /// resolves, nothing that the call started is running, with one exception, described on the
    /// [page of the crate](crate#cancellation).
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use ikigai_host::{CancellationToken, Host, Snapshot};
    /// # async fn example(host: &Arc<Host>, tools: &Snapshot) {
    /// let cancel = CancellationToken::new();
    /// let other = cancel.clone();
    /// tokio::spawn(async move {
    ///     if tokio::signal::ctrl_c().await.is_ok() {
    ///         other.cancel();
    ///     }
    /// });
    /// let envelope = host.call(tools, "glob", r#"{"pattern": "*"}"#.into(), cancel).await;
    /// println!("{envelope}");
    /// # }
    /// ```
    pub async fn call(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        name: &str,
        arguments: Bytes,
        control: impl Into<Control>,
    ) -> Envelope {
        self.call_for(&Requester::default(), snapshot, name, arguments, control, None).await
    }

    /// Calls a tool as [`call`](Self::call) does, for a front end. The audit log names the
    /// `requester`. The front end can ask the user to consent to the call and to fill in the forms
    /// of servers. If the policy requires consent and no front end can ask, the call is refused.
    pub async fn call_for(
        self: &Arc<Self>,
        requester: &Requester,
        snapshot: &Snapshot,
        name: &str,
        arguments: Bytes,
        control: impl Into<Control>,
        front_end: Option<Arc<dyn FrontEnd>>,
    ) -> Envelope {
        let call =
            self.call_with_decision(requester, snapshot, name, arguments, control, front_end);
        call.await.envelope
    }

    /// Calls a tool as [`call_for`](Self::call_for) does. Also returns the decision that the tool
    /// ran under.
    #[doc(hidden)]
    pub async fn call_with_decision(
        self: &Arc<Self>,
        requester: &Requester,
        snapshot: &Snapshot,
        name: &str,
        arguments: Bytes,
        control: impl Into<Control>,
        front_end: Option<Arc<dyn FrontEnd>>,
    ) -> AnsweredCall {
        let origin = CallOrigin {
            principal: requester.principal.as_deref().map(Arc::from),
            without_assets: requester.without_assets,
            front_end,
            control: control.into(),
        };
        let mut entry = self.audit.begin(requester, name);
        entry.arguments(arguments.clone());
        let Some(tool) = snapshot.get(name) else {
            let envelope = self.answer_missing(snapshot, name);
            entry.end(envelope.failure());
            return AnsweredCall { envelope, decision: None };
        };
        let (host, found) = (Arc::clone(self), tool.clone());
        // The future has kilobytes, which each front end would copy with its own future.
        let answer = Box::pin(async move {
            let target = CallTarget::from(&found);
            host.answer(entry, target, &found, arguments, origin).await
        });
        match tool.build.loaded() {
            Some(component) => component.carry(answer).await,
            None => answer.await,
        }
    }

    /// Calls a tool that is not in a snapshot, by its path. A policy entry grants it something only
    /// by its contents. If it is a registered tool, the entries with that name narrow the call.
    #[doc(hidden)]
    pub async fn call_at(
        &self,
        tool: &Tool,
        arguments: Bytes,
        control: impl Into<Control>,
        front_end: Option<Arc<dyn FrontEnd>>,
    ) -> Envelope {
        let target = CallTarget::at_path(&tool.build);
        let mut entry = self.audit.begin(&Requester::default(), &target.title());
        entry.arguments(arguments.clone());
        let origin = CallOrigin { front_end, control: control.into(), ..CallOrigin::default() };
        self.answer(entry, target, tool, arguments, origin).await.envelope
    }

    /// Answers a call of a tool, and ends its record.
    async fn answer(
        &self,
        mut entry: PendingRecord,
        target: CallTarget<'_>,
        tool: &Tool,
        arguments: Bytes,
        origin: CallOrigin,
    ) -> AnsweredCall {
        entry.program(program(target));
        let answer = match envelope::check_arguments(&arguments) {
            Err(reason) => {
                let envelope = Envelope::refused(EnvelopeCode::InvalidParams, reason);
                AnsweredCall { envelope, decision: None }
            }
            Ok(()) => {
                let streams = CallStreams {
                    stdin: Stdin::Bytes(arguments),
                    stdout: Sink::Head,
                    stderr: Sink::Tail(STDERR_KEPT),
                };
                let mut in_flight = CallInFlight::new(self, &mut entry, target, streams, origin);
                in_flight.tool = Some(tool);
                let attempt = in_flight.attempt().await;
                attempt.answer(tool, self.authority(), entry.secrets())
            }
        };
        entry.answered(&answer.envelope);
        entry.end(answer.envelope.failure());
        answer
    }

    /// Runs a program without an envelope, with its grant as a tool. Returns its outcome, and
    /// remarks about it.
    #[doc(hidden)]
    pub async fn run(
        &self,
        via: Via,
        subject: CallTarget<'_>,
        args: Vec<OsString>,
        streams: CallStreams,
        cancel: CancellationToken,
        front_end: Option<Arc<dyn FrontEnd>>,
    ) -> (Outcome, Aside) {
        let title = subject.title();
        let mut entry = self.audit.begin(&via.into(), &title);
        entry.program(program(subject));
        let line: Vec<&[u8]> = args.iter().map(|arg| arg.as_encoded_bytes()).collect();
        match &streams.stdin {
            Stdin::Bytes(bytes) => entry.arguments(bytes.clone()),
            Stdin::Inherit if line.is_empty() => {}
            Stdin::Inherit => entry.arguments(line.join(&0).into()),
        }
        let origin = CallOrigin { front_end, control: cancel.into(), ..CallOrigin::default() };
        let mut in_flight = CallInFlight::new(self, &mut entry, subject, streams, origin);
        in_flight.call.args = args;
        let CallAttempt { mut outcome, limits, aside, .. } = in_flight.attempt().await;
        if let Exit::Trap(text) | Exit::NotStarted(text) | Exit::Denied(text) = &mut outcome.exit {
            *text = entry.secrets().scrub_text(text).into_owned();
        }
        let failure = envelope::failure(&title, &limits, &outcome);
        entry.end(failure.as_ref().map(|(code, error)| (*code, error.as_str())));
        (outcome, aside)
    }

    /// Records a call of a tool that does not exist, and returns the envelope that answers it.
    #[doc(hidden)]
    pub fn refuse_missing(
        &self,
        requester: &Requester,
        snapshot: &Snapshot,
        name: &str,
    ) -> Envelope {
        let envelope = self.answer_missing(snapshot, name);
        self.audit.begin(requester, name).end(envelope.failure());
        envelope
    }

    /// Records a call whose arguments do not match the schema of its tool, so that the front end
    /// did not run it.
    #[doc(hidden)]
    pub fn refuse_arguments(
        &self,
        requester: &Requester,
        tool: &Tool,
        arguments: Bytes,
        reason: &str,
    ) {
        let mut entry = self.audit.begin(requester, tool.name());
        entry.arguments(arguments);
        entry.program(program(tool.into()));
        entry.end(Some((EnvelopeCode::InvalidParams, reason)));
    }

    /// Records a call that the front end did not start.
    #[doc(hidden)]
    pub fn refuse_unbegun(&self, requester: &Requester, name: &str, reason: &str) {
        self.audit.begin(requester, name).end(Some((EnvelopeCode::ToolCrashed, reason)));
    }

    /// Records a request that the front end refused because the access token of its client does not
    /// cover it.
    #[doc(hidden)]
    pub fn refuse_forbidden(
        &self,
        requester: &Requester,
        name: &str,
        arguments: Bytes,
        reason: &str,
    ) {
        let mut entry = self.audit.begin(requester, name);
        entry.arguments(arguments);
        entry.end(Some((EnvelopeCode::PermissionDenied, reason)));
    }

    /// Returns the answer to a call of a tool that does not exist, or that was not found yet.
    fn answer_missing(&self, snapshot: &Snapshot, name: &str) -> Envelope {
        let Some(timeout) = self.compile_timeout.filter(|_| snapshot.is_late()) else {
            return Envelope::not_found(name);
        };
        let limits = CallLimits { wall_clock: timeout, ..CallLimits::default() };
        let outcome = Outcome::late(COMPILING);
        Envelope::from_outcome(
            name,
            ResultKind::default(),
            &limits,
            outcome,
            &SecretValues::default(),
        )
    }

    /// Decides a tool's grant and limits, for the contents that its file had when the scan found
    /// it. Each call decides anew, for the contents at that time.
    ///
    /// ```no_run
    /// # use ikigai_host::{Host, Snapshot};
    /// # fn example(host: &Host, tools: &Snapshot) {
    /// for tool in tools.tools() {
    ///     match host.decide(tool.into()) {
    ///         Ok(decision) => {
    ///             println!("{}: {:?}", tool.name(), decision.grant.dirs);
    ///             println!("    by {}", decision.granted_by().join(", "));
    ///         }
    ///         Err(denial) => println!("{}: denied, {denial}", tool.name()),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the policy forbids the call.
    pub fn decide(&self, subject: CallTarget<'_>) -> Result<Decision, Denial> {
        self.authority().decide(&request(subject, &[subject.build.digest]))
    }

    /// Refuses a build of a version of WASI that the policy does not allow, as discovery does before
    /// it asks the build for its schema.
    ///
    /// # Errors
    ///
    /// Fails if the policy refuses the build.
    #[doc(hidden)]
    pub fn check_wasi(&self, build: &Build) -> Result<(), Denial> {
        let name = build.expected_name();
        let target = CallTarget { name: Some(&name), ..CallTarget::at_path(build) };
        self.authority().check_wasi(&request(target, &[build.digest]))
    }

    /// Returns the files that an agent does not read for a model, unless the user names them: those
    /// that are hidden from `file_read` now, and those in places of secrets.
    #[must_use]
    pub fn kept_from_models(&self) -> KeptFromModels {
        KeptFromModels::new(self.authority().kept_from_models())
    }

    /// Returns whether to offer a tool to models and clients. Tools that the policy denies with
    /// `deny = true` are not offered, and calls to them are refused as well.
    #[must_use]
    pub fn offers(&self, tool: &Tool) -> bool {
        !self.decide(tool.into()).is_err_and(|denial| denial.is_by_deny)
    }

    /// Returns the limits that a call would have, or the defaults if it is not allowed.
    #[must_use]
    pub fn limits(&self, subject: CallTarget<'_>) -> CallLimits {
        self.decide(subject).map_or_else(|_| CallLimits::default(), |decision| decision.limits)
    }

    /// Returns the authority, which decides on calls and can show and change the policy.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        self.registry.authority()
    }

    /// Returns the sandbox that this machine supports for native tools. The first call tries every
    /// layer, without a tool; later calls return the same result.
    ///
    /// ```no_run
    /// # use ikigai_host::Host;
    /// # async fn example(host: &Host) {
    /// let machine = host.machine().await;
    /// println!("files: {}", machine.isolation.fs);
    /// for layer in &machine.layers {
    ///     if let Some(remedy) = &layer.remedy {
    ///         println!("{}: {}: {remedy:?}", layer.mechanism.as_str(), layer.guarantee);
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn machine(&self) -> MachineSandbox {
        self.registry.machine().await
    }
}

/// Returns the request to the policy for a subject.
#[must_use]
pub fn request<'a>(subject: CallTarget<'a>, contents: &'a [Digest]) -> PolicyRequest<'a> {
    let of_a_server = subject.build.of_a_server();
    PolicyRequest {
        name: of_a_server.map(|(server, _)| server.name.as_str()).or(subject.name),
        names: &subject.build.names,
        registered: &subject.build.registered,
        origin: subject.origin,
        backend: subject.build.backend(),
        fell_back: subject.fell_back,
        path: &subject.build.path,
        program: match of_a_server {
            Some((server, _)) => server.program(),
            None => subject.build.wrapped_program(),
        },
        contents,
        wasi: subject.build.wasi(),
        tool: of_a_server.map(|(_, tool)| tool),
    }
}

/// Returns the description of a program for the audit log.
fn program(subject: CallTarget<'_>) -> ProgramRecord {
    ProgramRecord {
        origin: subject.origin.as_str().to_owned(),
        path: subject.build.path.to_string_lossy().into_owned(),
        digest: subject.build.digest,
        backend: subject.build.backend().as_str().to_owned(),
        wasi: subject.build.wasi().iter().map(|used| used.version.as_str().to_owned()).collect(),
        server: subject.build.of_a_server().map(|(server, _)| server.name.clone()),
        backend_reason: subject.reason.to_owned(),
    }
}
