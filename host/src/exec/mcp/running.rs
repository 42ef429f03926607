//! One server that is in use: its process, its connection, and the tools that it has now.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ikigai_protocol::Digest;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::connect::{AddressGate, Connect, McpConnection, Remote, ServerStreams, ServerTools};
use super::server::{DefinedServer, ServerTarget};
use super::stderr::Stderr;
use crate::exec::envelope::exit_code;
use crate::exec::native::Supervisor;
use crate::exec::output::Captured;
use crate::exec::{Call, DeniedAccesses, Exit, Outcome, Refusals};
use crate::limits::Limit;
use crate::policy::Grant;

/// The time limits of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerTimeouts {
    /// The time that it has to open a connection and to list its tools.
    pub(super) opening: Duration,
    /// The time without a call after which it is ended.
    pub(super) idle: Duration,
}

impl Default for ServerTimeouts {
    fn default() -> Self {
        Self { opening: Duration::from_secs(30), idle: Duration::from_secs(5 * 60) }
    }
}

/// The time that a server has to end on its own when its stdin is closed.
const GRACE: Duration = Duration::from_secs(2);

/// The exit code that stands for a connection that ended without a process: 128 + SIGPIPE.
const LOST: i32 = 141;

/// The variables that make package managers fail at once without a network. Otherwise they would
/// try for longer than a server has to open its connection.
#[cfg(target_os = "linux")]
const OFFLINE: [(&str, &str); 3] =
    [("npm_config_offline", "true"), ("UV_OFFLINE", "1"), ("PIP_NO_INDEX", "1")];

/// The outcome of a process, once it has ended.
type OutcomeReceiver = watch::Receiver<Option<Arc<Outcome>>>;

/// A server that is in use.
pub(crate) struct RunningServer {
    connection: Arc<dyn McpConnection>,
    grant: Arc<Grant>,
    listed: Mutex<ToolList>,
    /// Ends the process at once. Cancelled when this is dropped.
    end: CancellationToken,
    /// Cancelled when no further call may use this server.
    retired: CancellationToken,
    process: Option<OutcomeReceiver>,
    stderr: Stderr,
    refusals: Refusals,
    /// True once a call was lost with the connection.
    has_lost: AtomicBool,
    /// True once a call was answered.
    has_answered: AtomicBool,
    /// The number of calls in a row that had no answer in time.
    timeouts: AtomicU32,
    calls: Mutex<CallActivity>,
    idle: Duration,
}

#[derive(Default)]
struct ToolList {
    tools: Arc<ServerTools>,
    digests: BTreeMap<String, Digest>,
}

struct CallActivity {
    running: usize,
    last: Instant,
}

/// A call that uses the server.
pub(super) struct ServerUse<'a>(&'a RunningServer);

impl Drop for ServerUse<'_> {
    fn drop(&mut self) {
        let mut calls = self.0.calls.lock();
        calls.running -= 1;
        calls.last = Instant::now();
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.retired.cancel();
        self.end.cancel();
    }
}

impl RunningServer {
    /// Starts a server, or connects to it, with the grant of a call, and lists its tools. Each
    /// later change of the list is counted in `changes`.
    pub(super) async fn start(
        server: &DefinedServer,
        (connect, revision): (&dyn Connect, Option<String>),
        supervisor: &Supervisor,
        call: &Call,
        changes: watch::Sender<u64>,
        ServerTimeouts { opening: patience, idle }: ServerTimeouts,
    ) -> Result<Arc<Self>, Outcome> {
        let end = CancellationToken::new();
        // If this future is dropped, the guard ends the process.
        let guard = end.clone().drop_guard();
        let (stderr, refusals) = (Stderr::default(), Refusals::default());
        let with_refusals = |outcome: Outcome| Outcome { denied: refusals.take(), ..outcome };
        let (opening, process) = match &server.target {
            ServerTarget::Remote { url, auth } => {
                let remote = Remote {
                    name: server.name.clone(),
                    url: url.clone(),
                    auth: auth.clone(),
                    judge: AddressGate::new(Arc::clone(&call.grant), refusals.clone()),
                };
                (connect.to_remote(remote, revision), None)
            }
            ServerTarget::Process { .. } => {
                let process = spawn(server, supervisor, call, (&stderr, &refusals), &end)
                    .map_err(|error| Outcome::not_started(error.to_string()))?;
                (connect.to_process(process.streams, revision), Some(process.ended))
            }
        };
        let opened = timeout(patience, async {
            let connection = opening.await?;
            let tools = connection.tools().await?;
            Ok::<_, String>((connection, tools))
        });
        let (connection, tools) = match opened.await {
            Ok(Ok(opened)) => opened,
            Ok(Err(reason)) => {
                let outcome = not_opened(server, reason, GRACE, process, &stderr, &end).await;
                return Err(with_refusals(outcome));
            }
            // Its streams are closed now, so the way in which it ends says nothing.
            Err(_) => {
                let reason = format!("it did not answer within {} s", patience.as_secs());
                let none = Duration::ZERO;
                let outcome = not_opened(server, reason, none, process, &stderr, &end).await;
                return Err(with_refusals(outcome));
            }
        };
        let running = Arc::new(Self {
            connection,
            grant: Arc::clone(&call.grant),
            listed: Mutex::default(),
            end: guard.disarm(),
            retired: CancellationToken::new(),
            process,
            stderr,
            refusals,
            has_lost: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
            timeouts: AtomicU32::new(0),
            calls: Mutex::new(CallActivity { running: 0, last: Instant::now() }),
            idle,
        });
        running.keep(tools);
        changes.send_modify(|count| *count += 1);
        tokio::spawn(follow_changes(
            Arc::downgrade(&running),
            Arc::clone(&running.connection),
            running.retired.clone(),
            changes,
            patience,
        ));
        tokio::spawn(end_when_idle(Arc::downgrade(&running), running.retired.clone()));
        Ok(running)
    }

    pub(super) fn connection(&self) -> &dyn McpConnection {
        &*self.connection
    }

    /// Returns the tools that the server has now.
    pub(super) fn tools(&self) -> Arc<ServerTools> {
        Arc::clone(&self.listed.lock().tools)
    }

    /// Returns the digest of the description that a tool has now.
    pub(super) fn digest(&self, tool: &str) -> Option<Digest> {
        self.listed.lock().digests.get(tool).copied()
    }

    /// Returns the end of the server's stderr.
    pub(super) fn stderr(&self) -> Captured {
        self.stderr.kept()
    }

    /// Returns the refusals since the last call of this function.
    pub(super) fn take_refusals(&self) -> DeniedAccesses {
        self.refusals.take()
    }

    /// Returns what the server was granted when it was started.
    pub(super) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Returns whether a call with this grant can use the server.
    pub(super) fn is_usable_with(&self, grant: &Grant) -> bool {
        !self.has_failed() && !self.retired.is_cancelled() && *self.grant == *grant
    }

    /// Returns whether the server may be called again, or still answers a call.
    pub(super) fn is_in_use(&self) -> bool {
        !self.retired.is_cancelled() || self.calls.lock().running > 0
    }

    /// Returns whether the server ended although the host did not ask it to, or does not answer.
    pub(super) fn has_failed(&self) -> bool {
        let has_ended = self.process.as_ref().is_some_and(|ended| ended.borrow().is_some());
        (has_ended && !self.retired.is_cancelled())
            || self.has_lost.load(Ordering::Relaxed)
            || self.timeouts.load(Ordering::Relaxed) >= super::TIMEOUTS_IN_A_ROW
    }

    /// Notes that a call begins, which lasts until the returned guard is dropped.
    pub(super) fn begin_call(&self) -> ServerUse<'_> {
        self.calls.lock().running += 1;
        ServerUse(self)
    }

    pub(super) fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
        self.timeouts.store(0, Ordering::Relaxed);
    }

    /// Returns whether the server has answered a call.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Notes a call without an answer, and returns how many there were in a row.
    pub(super) fn note_timeout(&self) -> u32 {
        self.timeouts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Ends the server: asks it to end, and kills it if it still runs after [`GRACE`]. Calls that
    /// still run are lost.
    pub(super) fn end(self: &Arc<Self>) {
        if self.retired.is_cancelled() {
            return;
        }
        self.retired.cancel();
        let running = Arc::clone(self);
        tokio::spawn(async move {
            let _ = timeout(GRACE, running.connection.close()).await;
            if let Some(mut ended) = running.process.clone() {
                let _ = timeout(GRACE, ended.wait_for(Option::is_some)).await;
            }
            running.end.cancel();
        });
    }

    /// Returns the outcome of a call whose connection was lost for this reason.
    pub(super) async fn lost(self: &Arc<Self>, server: &str, reason: &str) -> Outcome {
        let ended = match &self.process {
            None => None,
            // The server's stdout may end before its process.
            Some(ended) => {
                let mut ended = ended.clone();
                let ended = timeout(GRACE, ended.wait_for(Option::is_some)).await;
                ended.ok().and_then(Result::ok).and_then(|ended| ended.clone())
            }
        };
        self.has_lost.store(true, Ordering::Relaxed);
        self.retired.cancel();
        self.end.cancel();
        let limit = ended.as_ref().and_then(|ended| ended.limit);
        let code = ended.as_ref().and_then(|ended| exit_code(&ended.exit));
        let reason = match ended.as_deref() {
            Some(ended) => format!("the server `{server}` {}", end_text(&ended.exit)),
            None => format!("the server `{server}` was lost: {reason}"),
        };
        Outcome {
            exit: Exit::Lost { code: code.unwrap_or(LOST), reason },
            limit: limit.filter(|limit| *limit != Limit::Output),
            stderr: self.stderr(),
            ..Outcome::not_started("")
        }
    }

    fn keep(&self, tools: ServerTools) {
        let digests = tools.tools.iter().map(|tool| (tool.name.clone(), tool.digest())).collect();
        *self.listed.lock() = ToolList { tools: Arc::new(tools), digests };
    }

    /// Returns the time at which the server has been idle for long enough; nothing while a call
    /// runs.
    fn idle_at(&self) -> Option<Instant> {
        let calls = self.calls.lock();
        (calls.running == 0).then(|| calls.last + self.idle)
    }
}

/// A process that was started, and the host's ends of its streams.
struct ServerProcess {
    streams: ServerStreams,
    ended: OutcomeReceiver,
}

#[cfg(target_os = "linux")]
fn spawn(
    server: &DefinedServer,
    supervisor: &Supervisor,
    call: &Call,
    (stderr, refusals): (&Stderr, &Refusals),
    end: &CancellationToken,
) -> io::Result<ServerProcess> {
    use rustix::pipe::{PipeFlags, pipe_with};
    use tokio::net::unix::pipe::{Receiver, Sender};

    use crate::exec::native::NativeProgram;
    use crate::exec::pipes::{ThreadedReader, ThreadedWriter};
    use crate::limits::CallLimits;

    /// A server has no limit on time, but each of its calls has: a century.
    const ALWAYS: Duration = Duration::from_secs(100 * 365 * 86_400);

    let ServerTarget::Process { program, args } = &server.target else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (its_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let streams = ServerStreams {
        stdin: Box::new(ThreadedWriter::new(Sender::from_owned_fd(stdin)?)),
        stdout: Box::new(ThreadedReader::new(Receiver::from_owned_fd(stdout)?)),
    };
    let whole_life = Call {
        grant: Arc::new(with_offline(&call.grant)),
        args: args.clone(),
        stderr: stderr.sink(),
        principal: call.principal.clone(),
        limits: CallLimits { wall_clock: ALWAYS, output: u64::MAX, ..call.limits },
        cancel: end.clone(),
        ..Call::new(Arc::clone(&call.workspace))
    };
    let program = NativeProgram::new(program.as_path(), supervisor.clone());
    let process = program.hold(whole_life, [its_stdin, its_stdout], refusals.clone());
    let (sender, ended) = watch::channel(None);
    tokio::spawn(async move {
        let outcome = process.await;
        sender.send_replace(Some(Arc::new(outcome)));
    });
    Ok(ServerProcess { streams, ended })
}

/// Returns the grant of a server with the variables of [`OFFLINE`], if the sandbox gives it no
/// network. A variable that was granted by name keeps its value.
#[cfg(target_os = "linux")]
fn with_offline(grant: &Grant) -> Grant {
    use crate::policy::Sandbox;

    let mut grant = grant.clone();
    if grant.net.is_none() && grant.sandbox != Sandbox::Off {
        for (name, value) in OFFLINE {
            if !grant.env.iter().any(|(own, _)| own == name) {
                grant.env.push((name.into(), value.into()));
            }
        }
    }
    grant
}

#[cfg(not(target_os = "linux"))]
fn spawn(
    _: &DefinedServer,
    _: &Supervisor,
    _: &Call,
    _: (&Stderr, &Refusals),
    _: &CancellationToken,
) -> io::Result<ServerProcess> {
    Err(io::Error::other("servers are started on Linux only"))
}

/// Ends a server that could not be used for this reason, and returns the outcome for it. If it ends
/// on its own within `grace`, its end is the reason.
async fn not_opened(
    server: &DefinedServer,
    reason: String,
    grace: Duration,
    process: Option<OutcomeReceiver>,
    stderr: &Stderr,
    end: &CancellationToken,
) -> Outcome {
    let name = &server.name;
    let Some(mut ended) = process else {
        return Outcome::not_started(format!("the server `{name}` cannot be used: {reason}"));
    };
    // The end of a failed process says more than the end of its stream.
    let by_itself =
        !grace.is_zero() && timeout(grace, ended.wait_for(Option::is_some)).await.is_ok();
    end.cancel();
    // The supervisor bounds the time that this takes.
    let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
    let mut why = match ended.as_deref().map(|ended| &ended.exit) {
        Some(Exit::NotStarted(reason) | Exit::Denied(reason)) => reason.clone(),
        Some(exit) if by_itself => end_text(exit),
        _ => reason,
    };
    let complaint = stderr.kept().complaint();
    if !complaint.is_empty() {
        why = format!("{why}: {complaint}");
    }
    let outcome = Outcome::not_started(format!("the server `{name}` cannot be used: {why}"));
    Outcome { stderr: stderr.kept(), ..outcome }
}

/// Returns the end of a process in a few words.
fn end_text(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit code {code}"),
        Exit::Signal(signal) => format!("was killed by signal {signal}"),
        Exit::Ended => "was ended by the host".to_owned(),
        Exit::NotStarted(reason)
        | Exit::Denied(reason)
        | Exit::Trap(reason)
        | Exit::Lost { reason, .. } => reason.clone(),
    }
}

/// Lists the tools again whenever the server says that they changed.
async fn follow_changes(
    running: Weak<RunningServer>,
    connection: Arc<dyn McpConnection>,
    retired: CancellationToken,
    changes: watch::Sender<u64>,
    patience: Duration,
) {
    let follow = async {
        loop {
            connection.changed().await;
            let listed = timeout(patience, connection.tools()).await;
            let Some(running) = running.upgrade() else { return };
            match listed {
                Ok(Ok(tools)) => running.keep(tools),
                // Each tool may be another one now, so none may be called.
                Ok(Err(_)) | Err(_) => running.keep(ServerTools::default()),
            }
            changes.send_modify(|count| *count += 1);
        }
    };
    retired.run_until_cancelled(follow).await;
}

/// Ends the server after the idle time of its [`ServerTimeouts`] without a call.
async fn end_when_idle(running: Weak<RunningServer>, retired: CancellationToken) {
    let watch = async {
        loop {
            let Some(running) = running.upgrade() else { return };
            let idle_at = running.idle_at();
            if idle_at.is_some_and(|at| at <= Instant::now()) {
                return running.end();
            }
            let next_look = idle_at.unwrap_or_else(|| Instant::now() + running.idle);
            drop(running);
            sleep_until(next_look).await;
        }
    };
    retired.run_until_cancelled(watch).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::exec::mcp::fake::{Fake, StuckRequest, call_of, server};

    /// Far beyond the time of any test.
    const LONG: Duration = Duration::from_secs(3600);

    const SHORT: Duration = Duration::from_millis(10);

    async fn start(
        fake: &Fake,
        changes: &watch::Sender<u64>,
        patience: ServerTimeouts,
    ) -> Result<Arc<RunningServer>, String> {
        let (supervisor, call) = (Supervisor::new(None, 0), call_of(None));
        let server = server();
        let changes = changes.clone();
        let starting =
            RunningServer::start(&server, (fake, None), &supervisor, &call, changes, patience);
        starting.await.map_err(|outcome| match outcome.exit {
            Exit::NotStarted(reason) => reason,
            exit => panic!("it ended as {exit:?}"),
        })
    }

    #[tokio::test]
    async fn a_server_without_an_answer_at_its_start_is_not_waited_for() {
        for (stuck, connections) in [(StuckRequest::Opening, 0), (StuckRequest::List, 1)] {
            let fake = Fake { stuck, ..Fake::default() };
            let patience = ServerTimeouts { opening: SHORT, idle: LONG };
            let started = start(&fake, &watch::Sender::new(0), patience).await;
            let reason = started.err().expect("it is not started");
            assert!(reason.contains("it did not answer within"), "{stuck:?}: {reason}");
            assert_eq!(AtomicUsize::into_inner(fake.connections), connections, "{stuck:?}");
        }
    }

    #[tokio::test]
    async fn the_end_of_a_process_is_the_reason_unless_it_was_given_up() {
        for (grace, why) in [(GRACE, "ended with exit code 0"), (Duration::ZERO, "too late")] {
            let outcome = Outcome { exit: Exit::Code(0), ..Outcome::not_started(String::new()) };
            let (_sender, ended) = watch::channel(Some(Arc::new(outcome)));
            let (stderr, end) = (Stderr::default(), CancellationToken::new());
            let reason = "too late".to_owned();
            let outcome = not_opened(&server(), reason, grace, Some(ended), &stderr, &end).await;
            assert!(
                matches!(&outcome.exit, Exit::NotStarted(text) if text.ends_with(why)),
                "{outcome:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_change_of_which_no_list_comes_takes_all_tools_away() {
        let fake = Fake { stuck: StuckRequest::SecondList, ..Fake::default() };
        let sender = watch::Sender::new(0);
        let mut changes = sender.subscribe();
        let patience = ServerTimeouts { opening: SHORT, idle: LONG };
        let running = start(&fake, &sender, patience).await.expect("it runs");
        changes.wait_for(|count| *count == 2).await.expect("the sender is here");
        assert!(running.tools().tools.is_empty() && running.digest("tool").is_none());
    }

    #[tokio::test]
    async fn a_server_that_nobody_calls_is_asked_to_end() {
        let fake = Fake::default();
        let patience = ServerTimeouts { opening: LONG, idle: SHORT };
        let running = start(&fake, &watch::Sender::new(0), patience).await.expect("it runs");
        fake.closed.cancelled().await;
        assert!(!running.is_usable_with(&Grant::default()));
        assert!(!running.has_failed(), "it was asked to");
    }

    #[tokio::test]
    async fn a_server_is_not_idle_during_a_call() {
        let fake = Fake::default();
        let patience = ServerTimeouts { opening: LONG, idle: LONG };
        let running = start(&fake, &watch::Sender::new(0), patience).await.expect("it runs");
        let before = running.idle_at().expect("nobody has called it");
        let calls = (running.begin_call(), running.begin_call());
        drop(calls.0);
        assert!(running.idle_at().is_none());
        drop(calls.1);
        assert!(running.idle_at().is_some_and(|at| at > before), "the time begins anew");
    }
}
