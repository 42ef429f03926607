//! The single path of every call: the host looks up the tool, the policy decides, the program runs,
//! and its outcome becomes an envelope. Every front end uses this path.

mod approval;
mod assets;
mod builder;
mod installation;
mod own;
mod widened;

use std::borrow::Cow;
use std::ffi::OsString;
use std::iter;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ikigai_protocol::{Digest, EnvelopeCode, ResultKind};
use tokio_util::sync::CancellationToken;

use self::widened::Cancelled;
use crate::audit::{Audit, PendingRecord, ProgramRecord, Requester, Via};
use crate::exec::assets::AssetStore;
use crate::exec::envelope::{self, Aside, Envelope};
use crate::exec::native::MachineSandbox;
use crate::exec::output::Sink;
use crate::exec::scrub::SecretValues;
use crate::exec::widening::{OpenQuestions, Widening};
use crate::exec::{Call, Exit, Outcome, Stdin};
use crate::front_end::FrontEnd;
use crate::limits::{CallLimits, Deadline, STDERR_KEPT};
use crate::policy::{
    Authority, Backend, Decision, Denial, PolicyRequest, PolicySnapshot, Remedy, RequestedAccess,
    ToolOrigin, secret_names,
};
use crate::registry::{Build, Registry, ScanDepth, Snapshot, Tool, WAS_NAMED, before_deadline};

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
const NOBODY: &str = "nobody can be asked here";

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

/// The result of an attempt to call a tool.
struct CallAttempt {
    outcome: Outcome,
    /// The limits in force at its end.
    limits: CallLimits,
    aside: Aside,
    /// The step that raises the limit that ended the call.
    raise: Option<Remedy>,
}

impl CallAttempt {
    /// Returns the result of an attempt that ran nothing.
    fn ended(outcome: Outcome) -> Self {
        Self { outcome, limits: CallLimits::default(), aside: Aside::default(), raise: None }
    }
}

/// The caller's side of a call.
#[derive(Default)]
struct CallOrigin {
    principal: Option<Arc<str>>,
    /// True if the principal must not use assets, even if the policy grants them.
    without_assets: bool,
    front_end: Option<Arc<dyn FrontEnd>>,
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
        let control = control.into();
        let mut entry = self.audit.begin(requester, name);
        entry.arguments(arguments.clone());
        let asker = CallOrigin {
            principal: requester.principal.as_deref().map(Arc::from),
            without_assets: requester.without_assets,
            front_end,
        };
        let Some(tool) = snapshot.get(name) else {
            let envelope = self.answer_missing(snapshot, name);
            entry.end(envelope.failure());
            return envelope;
        };
        let (host, found) = (Arc::clone(self), tool.clone());
        // The future has kilobytes, which each front end would copy with its own future.
        let answer = Box::pin(async move {
            let subject = (CallTarget::from(&found), &found);
            let envelope = host.answer_by(&mut entry, subject, arguments, control, asker).await;
            entry.answered(&envelope);
            entry.end(envelope.failure());
            envelope
        });
        match tool.build.loaded() {
            Some(component) => component.carry(answer).await,
            None => answer.await,
        }
    }

    /// Calls a tool that is not in a snapshot, by its path. No policy entry applies to it.
    #[doc(hidden)]
    pub async fn call_at(
        &self,
        tool: &Tool,
        arguments: Bytes,
        control: impl Into<Control>,
        front_end: Option<Arc<dyn FrontEnd>>,
    ) -> Envelope {
        let subject = CallTarget::at_path(&tool.build);
        let mut entry = self.audit.begin(&Requester::default(), &subject.title());
        entry.arguments(arguments.clone());
        let asker = CallOrigin { front_end, ..CallOrigin::default() };
        let answer = self.answer_by(&mut entry, (subject, tool), arguments, control.into(), asker);
        let envelope = answer.await;
        entry.answered(&envelope);
        entry.end(envelope.failure());
        envelope
    }

    async fn answer_by(
        &self,
        entry: &mut PendingRecord,
        (subject, tool): (CallTarget<'_>, &Tool),
        arguments: Bytes,
        control: Control,
        asker: CallOrigin,
    ) -> Envelope {
        entry.program(program(subject));
        if let Err(reason) = envelope::check_arguments(&arguments) {
            return Envelope::refused(EnvelopeCode::InvalidParams, reason);
        }
        let streams = CallStreams {
            stdin: Stdin::Bytes(arguments),
            stdout: Sink::Head,
            stderr: Sink::Tail(STDERR_KEPT),
        };
        let attempt =
            self.attempt(entry, (subject, Some(tool)), Vec::new(), streams, control, asker);
        let CallAttempt { outcome, limits, aside, raise } = attempt.await;
        let aside = Aside { background: envelope::background(&outcome), ..aside };
        let (name, kind) = (tool.name(), tool.schema.result);
        let envelope =
            Envelope::from_outcome(name, kind, &limits, outcome, entry.secrets()).with(aside);
        match raise.and_then(|remedy| self.authority().hint(&remedy)) {
            Some(hint) => envelope.with_hint(&hint),
            None => envelope,
        }
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
        let asker = CallOrigin { front_end, ..CallOrigin::default() };
        let attempt =
            self.attempt(&mut entry, (subject, None), args, streams, cancel.into(), asker);
        let CallAttempt { mut outcome, limits, aside, raise: _ } = attempt.await;
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

    /// Decides and runs a call, whose tool is known, unless the caller named its program by a path.
    async fn attempt(
        &self,
        entry: &mut PendingRecord,
        (subject, tool): (CallTarget<'_>, Option<&Tool>),
        args: Vec<OsString>,
        streams: CallStreams,
        Control { cancel, deadline }: Control,
        asker: CallOrigin,
    ) -> CallAttempt {
        // Read the policy files once for all decisions before the first question.
        let look = self.authority().look();
        let contents = match self.contents(&look, subject).await {
            Ok(contents) => contents,
            Err(reason) => return CallAttempt::ended(Outcome::not_started(reason)),
        };
        let front_end = asker.front_end.clone();
        let asks = (front_end.clone(), &deadline);
        let widening = self.widening(subject, &contents, &streams.stdin, asks);
        let once = widening.as_deref().map(Widening::once).unwrap_or_default();
        let decided = self.authority().decide_by(&look, &request(subject, &contents), &once);
        let asked = (&cancel, widening.as_deref());
        let with_a_person =
            self.with_a_person(entry, (subject, tool, decided), &streams.stdin, &asker, asked);
        let attempt = match with_a_person.await {
            Err(outcome) => {
                entry.ran(&outcome);
                CallAttempt::ended(*outcome)
            }
            Ok(decision) => {
                let call = Call {
                    args,
                    stdin: streams.stdin,
                    stdout: streams.stdout,
                    stderr: streams.stderr,
                    grant: Arc::default(),
                    assets: self.handle(&look, &asker),
                    principal: asker.principal,
                    front_end: asker.front_end,
                    widening: widening.clone(),
                    workspace: Arc::clone(&self.workspace),
                    limits: decision.limits,
                    deadline,
                    cancel,
                };
                self.run_decided(entry, subject, decision, call).await
            }
        };
        attempt.with_notes_of(widening.as_deref(), front_end.as_deref(), entry)
    }

    /// Runs a call after the decision. If the user then allows accesses that the tool was refused,
    /// runs it again.
    async fn run_decided(
        &self,
        entry: &mut PendingRecord,
        subject: CallTarget<'_>,
        mut decision: Decision,
        mut call: Call,
    ) -> CallAttempt {
        call.deadline.begin(&decision.limits);
        if call.widening.as_deref().is_some_and(Widening::is_permissive) {
            match decision.grant.hide.and(secret_names()) {
                Ok(hide) => decision.grant.hide = hide,
                Err(reason) => return CallAttempt::ended(Outcome::not_started(reason)),
            }
        }
        // A component may need to be compiled first, which can take many seconds.
        let latest = self.compile_timeout.map(|timeout| Instant::now() + timeout);
        let program = before_deadline(latest, subject.build.program());
        let program = match call.cancel.run_until_cancelled(program).await {
            None => Err(Outcome::cancelled()),
            Some(None) => Err(Outcome::late(COMPILING)),
            Some(Some(Ok(program))) => Ok(program),
            Some(Some(Err(error))) => Err(Outcome::not_started(format!("the component {error}"))),
        };
        let program = match program {
            Ok(program) => program,
            Err(outcome) => {
                entry.ran(&outcome);
                return CallAttempt { limits: decision.limits, ..CallAttempt::ended(outcome) };
            }
        };
        loop {
            let limits = decision.limits;
            if let Err(reason) = self.authority().record_writable(&decision.grant) {
                return CallAttempt { limits, ..CallAttempt::ended(Outcome::not_started(reason)) };
            }
            if let Some(widening) = &call.widening {
                widening.decided(&decision);
            }
            call.limits = limits;
            call.grant = Arc::new(mem::take(&mut decision.grant));
            let mut outcome = program.run(call.clone()).await;
            let own = outcome.usage.duration.saturating_sub(call.deadline.excluded());
            outcome.usage.duration = own;
            entry.ran(&outcome);
            entry.extended(call.deadline.extended());
            let raise = outcome.limit.and_then(|limit| {
                let limits = call.deadline.applied(limits);
                self.authority().raise(&request(subject, &[]), &decision, limit, &limits)
            });
            let wider = match self.widened_after(subject, decision, &call, &outcome).await {
                Ok(wider) => wider,
                Err(Cancelled) => {
                    outcome.cancelled = true;
                    entry.ran(&outcome);
                    None
                }
            };
            let Some(wider) = wider else {
                let limits = call.deadline.applied(limits);
                let did_run = !outcome.cancelled && !matches!(outcome.exit, Exit::NotStarted(_));
                let raise = raise.filter(|_| did_run);
                return CallAttempt { outcome, limits, aside: Aside::default(), raise };
            };
            entry.widened(&wider.grant, subject.build.backend(), wider.granted_by());
            decision = wider;
        }
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

    /// Returns whether to offer a tool to models and clients. Tools that the policy denies with
    /// `deny = true` are not offered, and calls to them are refused as well.
    #[must_use]
    pub fn offers(&self, tool: &Tool) -> bool {
        !self.decide(tool.into()).is_err_and(|denial| denial.is_by_deny)
    }

    /// Decides as [`decide`](Self::decide) does, but by the policy files and the file's contents as
    /// they are now, and with the accesses that the user allowed for this call. Fails if the file
    /// cannot be read.
    async fn decide_now(
        &self,
        subject: CallTarget<'_>,
        once: &[RequestedAccess],
    ) -> Result<Result<Decision, Denial>, String> {
        let look = self.authority().look();
        let contents = self.contents(&look, subject).await?;
        Ok(self.authority().decide_by(&look, &request(subject, &contents), once))
    }

    /// Returns the contents for which the policy decides: the contents that the scan found, and the
    /// present contents if the policy checks them.
    async fn contents(
        &self,
        look: &PolicySnapshot,
        subject: CallTarget<'_>,
    ) -> Result<Vec<Digest>, String> {
        let found = subject.build.digest;
        let backend = subject.build.backend();
        if !self.authority().looks_at_content(look, backend, subject.origin, subject.name) {
            return Ok(vec![found]);
        }
        let present = self.registry.present_contents(subject.build).await?;
        // A native tool is started from its file. A component was compiled from the contents that
        // the scan found, so both must be granted. The same applies to a definition, which the scan
        // read.
        let mut contents = match backend {
            Backend::Native if subject.build.wrapped_program().is_none() => present,
            Backend::Native | Backend::Wasm | Backend::Mcp => {
                iter::once(found).chain(present).collect()
            }
        };
        // Almost always they are the same. Then the user is asked about them once.
        contents.dedup();
        Ok(contents)
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
        origin: subject.origin,
        backend: subject.build.backend(),
        fell_back: subject.fell_back,
        path: &subject.build.path,
        program: match of_a_server {
            Some((server, _)) => server.program(),
            None => subject.build.wrapped_program(),
        },
        contents,
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
        server: subject.build.of_a_server().map(|(server, _)| server.name.clone()),
        backend_reason: subject.reason.to_owned(),
    }
}
