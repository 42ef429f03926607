//! One native call, from the plan to the outcome.
//!
//! Owns the reasons for which the host ends a call (cancelled, flooded, overdue), and turns the
//! supervisor's report into an outcome. The supervisor enforces the limits, because no busy runtime
//! delays it. The host tells it if the caller gives the call more time. The host's own deadline
//! comes later.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::refusal;
use super::streams::{HostPipes, StreamSignals, ToolPipes, feed, pump, settle};
use super::supervisor_process::{GRACE, SupervisorProcess};
use super::{
    Supervisor, hidden, host_socket, missing_files, own_loopback, plan, unresolved, watched,
};
use crate::exec::assets::AssetGate;
use crate::exec::envelope::did_its_work;
use crate::exec::net::{NetworkGate, relay};
use crate::exec::output::{Pipe, Sink};
use crate::exec::widening::Widening;
use crate::exec::{Call, Exit, Outcome, ResourceUsage, Stdin};
use crate::limits::{CallLimits, DeadlineWatch, Limit};
use crate::policy::{Grant, Remedy, Sandbox};
use crate::reactor;
use crate::toolchain::missing_programs;
use ikigai_supervisor::isolation::{Guarantee, Isolation};
use ikigai_supervisor::plan::{
    DESCRIPTORS, KillCause, StartStep, SupervisorReport, ToolEnd, ToolNetwork,
};

/// The time after the limit on the wall clock when the host itself ends a call that its
/// supervisor should have ended. It covers the supervisor's own start.
const OVERDUE: Duration = Duration::from_secs(2);

/// The reason that no guarantee is claimed for a call whose supervisor was killed. Another program
/// killed it, or the kernel for lack of memory, or the host because it did not answer.
const UNREPORTED: &str = "the call's supervisor was killed before it could report";

/// The exit code of a supervisor that refused to start anything.
const REFUSED: i32 = 2;

/// A call as a future. Dropping it ends the call: the runtime then asks the supervisor to end,
/// and reaps it.
pub(super) struct NativeCall {
    work: Option<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
    /// The runtime of the first poll. Nothing is started before that poll.
    runtime: Option<Handle>,
    cancel: CancellationToken,
}

impl NativeCall {
    /// Returns a call whose stdin and stdout are those of `call`, or the pipes in `held`.
    pub(super) fn new(
        program: Arc<Path>,
        supervisor: Supervisor,
        mut call: Call,
        held: Option<ToolPipes>,
    ) -> Self {
        // A separate token, because dropping this call must not cancel others.
        let cancel = call.cancel.child_token();
        call.cancel = cancel.clone();
        let work = Box::pin(async move { run(&program, &supervisor, call, held).await });
        Self { work: Some(work), runtime: None, cancel }
    }
}

impl Future for NativeCall {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if self.runtime.is_none() {
            self.runtime = Some(Handle::current());
        }
        let Some(work) = &mut self.work else { return Poll::Pending };
        let outcome = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(outcome)
    }
}

impl Drop for NativeCall {
    fn drop(&mut self) {
        if let (Some(work), Some(runtime)) = (self.work.take(), self.runtime.take()) {
            self.cancel.cancel();
            runtime.spawn(work);
        }
    }
}

/// The reason that the host ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    Cancelled,
    Flooded,
    Overdue,
}

/// The end of a supervisor.
struct SupervisorExit {
    /// Its report, unless it was killed or refused the call.
    report: Option<SupervisorReport>,
    /// Its exit status, if there is no report.
    status: Option<ExitStatus>,
    /// The reason that the host asked it to end, if it did.
    reason: Option<EndReason>,
    /// The error because of which it did not get its plan, if it waited for a plan.
    unsent: Option<io::Error>,
}

async fn run(
    program: &Path,
    supervisor: &Supervisor,
    call: Call,
    held: Option<ToolPipes>,
) -> Outcome {
    if call.cancel.is_cancelled() {
        return Outcome::cancelled();
    }
    let started = Instant::now();
    let deadline = call.deadline.watch(&call.limits);
    let is_server = held.is_some();
    let network = plan::network(&call, is_server);
    let refusals = held.as_ref().map(|held| held.refusals.clone()).unwrap_or_default();
    let search = hidden::find_for_call(&call, !is_server, supervisor.calls());
    let mut unseen = match call.cancel.run_until_cancelled(search).await {
        Some(Ok(unseen)) => unseen,
        Some(Err(reason)) => return Outcome::not_started(reason),
        None => return Outcome::cancelled(),
    };
    let watch = watched::watch_of(&call, supervisor);
    let plan = plan::for_call(program, &call, (network, watch), &mut unseen, supervisor.without);
    let plan = match plan.and_then(|plan| Ok(plan.encode()?)) {
        Ok(plan) => plan,
        Err(error) => return Outcome::not_started(error.to_string()),
    };
    let sandbox = call.grant.sandbox;
    let begun = HostPipes::open(&call.stdin, sandbox, held).and_then(|(streams, ends)| {
        let process = supervisor.process(sandbox, ends[DESCRIPTORS - 1].as_fd())?;
        Ok((streams, ends, process))
    });
    let (streams, ends, mut process) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let error = reactor::explained(error);
            return Outcome::not_started(format!("no supervisor could be started: {error}"));
        }
    };

    let gate = AssetGate::for_call(&call);
    let (host_end, tool_end) = match host_socket::open(&call) {
        Ok(ends) => ends.unzip(),
        Err(error) => {
            let error = reactor::explained(error);
            return Outcome::not_started(format!("no host socket could be made: {error}"));
        }
    };
    let stdout = Pipe::new(call.stdout.clone(), call.limits.output);
    let stderr = Pipe::unlimited(call.stderr.clone());
    let stdin = match &call.stdin {
        Stdin::Bytes(bytes) => bytes.clone(),
        Stdin::Inherit => Bytes::new(),
    };
    let signals =
        StreamSignals { abandoned: call.cancel.child_token(), ..StreamSignals::default() };
    let (grant, widening) = (Arc::clone(&call.grant), call.widening.clone());
    let reach = Arc::new(NetworkGate::of_relay(grant, supervisor.network(), widening, refusals));
    let listener = (network == ToolNetwork::Relay).then(|| process.listener());
    let (mut ending, (), (), (), (), ()) = tokio::join!(
        conduct(process, &plan, (ends, tool_end), &call, (deadline, &signals)),
        serve_relay(listener, &reach, &signals),
        host_socket::serve(host_end, &gate, &signals),
        feed(streams.stdin, stdin, &signals),
        pump(streams.stdout, &call.stdout, &stdout, &signals),
        pump(Some(streams.stderr), &call.stderr, &stderr, &signals),
    );
    settle(streams.copied).await;

    // In a task, so that the caller waits neither for the check of the reserve nor for the start of
    // a thread.
    let filled = supervisor.clone();
    tokio::spawn(async move { filled.fill_reserve(sandbox) });

    watched::note(ending.report.as_mut(), &call, supervisor).await;
    // A server lives on while its user works, and the user may make such files, too.
    let set_aside = match is_server {
        true => Err(LEFT_BY_SERVERS.to_owned()),
        false => watched::set_aside(unseen.guarded, &call).await,
    };
    if let Some(isolation) = ending.report.as_mut().and_then(|it| it.isolation.as_mut()) {
        if isolation.fs == Guarantee::Enforced {
            if unseen.may_be_incomplete {
                isolation.fs = Guarantee::Partial(CHANGED_DURING_SEARCHES.into());
            } else if unseen.secret_dirs.may_have_changed() {
                isolation.fs = Guarantee::Partial(SECRETS_MAY_HAVE_APPEARED.into());
            }
        }
        note_places(isolation, &call.grant, set_aside);
    }
    let flooded = stdout.is_full();
    let (stdout, stderr) = (stdout.take(), stderr.take());
    let complaint = String::from_utf8_lossy(&stderr.bytes).trim().to_owned();
    let (exit, limit) = exit_of(&ending, program, supervisor, &call, &complaint);
    let (exit, limit) = if flooded { (Exit::Ended, Some(Limit::Output)) } else { (exit, limit) };
    let cancelled =
        exit == Exit::Ended && limit.is_none() && ending.reason == Some(EndReason::Cancelled);
    let usage = ResourceUsage {
        duration: ending
            .report
            .as_ref()
            .map_or_else(|| started.elapsed(), |report| report.duration),
        fuel: None,
        peak_memory: ending
            .report
            .as_ref()
            .map(|report| report.peak_memory)
            .filter(|peak| *peak > 0),
        left_running: ending.report.as_ref().map_or(0, |report| report.left_running),
    };
    let ran = !matches!(exit, Exit::NotStarted(_));
    // It is not known what a lost supervisor had done.
    let isolation = match ending.report {
        _ if !ran => None,
        Some(report) => report.isolation,
        None => Some(Isolation::none(UNREPORTED)),
    };
    let denied = gate.denied().and(reach.denied());
    let outcome = Outcome { exit, limit, cancelled, stdout, stderr, usage, isolation, denied };
    // A program that succeeded may print such a message for another reason.
    if call.grant.sandbox != Sandbox::Off
        && let Some(widening) = &call.widening
        && !did_its_work(&outcome, true)
    {
        let outputs: [&[u8]; 2] = [&outcome.stdout.bytes, &outcome.stderr.bytes];
        widening.missed_programs(missing_programs(outputs));
        if missing_files::are_told(outputs) {
            widening.missed_files();
        }
        if network == ToolNetwork::None {
            let arguments: &[u8] = match &call.stdin {
                Stdin::Bytes(bytes) => bytes,
                Stdin::Inherit => b"",
            };
            for peer in unresolved::peers(outputs, arguments) {
                widening.refused(peer);
            }
        }
        if !call.grant.net.any && !call.grant.net.has_loopback() {
            widening.found_nobody_at_own_loopback(own_loopback::ports(outputs));
        }
    }
    outcome
}

/// The guarantee for files if something hidden may have moved past the search for it.
const CHANGED_DURING_SEARCHES: &str = "other programs changed directories during each search for hidden files, and \
                                       may have moved one past it";

/// The guarantee of files after a call during which a place of secrets may have appeared in a granted
/// directory.
const SECRETS_MAY_HAVE_APPEARED: &str = "names changed in a granted directory in which secrets usually lie, and a place of \
                                         secrets that appears during a call is not hidden";

/// The guarantee for places after a call that could write to a directory.
const RENAMED_AFTERWARDS: &str = "what the tool made is renamed after the call, and what is below a directory of the \
                                  workspace is not looked at";

/// The guarantee for places after a call of a server.
const LEFT_BY_SERVERS: &str = "what a server makes stays";

/// Notes the guarantee for the places that other programs execute. A tool without a sandbox never
/// has this guarantee.
fn note_places(isolation: &mut Isolation, grant: &Grant, set_aside: Result<(), String>) {
    if isolation.places.is_some() {
        return;
    }
    isolation.places = Some(match &isolation.fs {
        open @ (Guarantee::Partial(_) | Guarantee::None(_)) => open.clone(),
        Guarantee::Enforced if grant.writable_dirs().next().is_none() => Guarantee::Enforced,
        Guarantee::Enforced => Guarantee::Partial(match set_aside {
            Ok(()) => RENAMED_AFTERWARDS.into(),
            Err(left) => left.into(),
        }),
    });
}

/// Serves the tool's connections to the relay until the tool has ended, if the tool has a relay.
async fn serve_relay(
    listener: Option<oneshot::Receiver<OwnedFd>>,
    reach: &Arc<NetworkGate>,
    signals: &StreamSignals,
) {
    let Some(listener) = listener else { return };
    // The listener does not come if the tool is not started.
    let Some(Ok(listener)) = signals.ended.run_until_cancelled(listener).await else { return };
    if let Err(error) = relay::serve(listener, reach, &signals.ended).await {
        tracing::error!(%error, "the relay of a tool could not be used");
    }
}

/// Has the supervisor start the tool, waits for its report, and reaps it.
async fn conduct(
    mut process: SupervisorProcess,
    plan: &[u8],
    (ends, host_socket): ([OwnedFd; DESCRIPTORS], Option<OwnedFd>),
    call: &Call,
    (mut deadline, signals): (DeadlineWatch, &StreamSignals),
) -> SupervisorExit {
    let mut interruption = pin!(interruption(call, deadline.clone(), signals));
    let (mut reason, mut unsent) = (None, None);
    tokio::select! {
        biased;
        sent = process.send(
            plan,
            ends.each_ref().map(AsFd::as_fd),
            host_socket.as_ref().map(AsFd::as_fd),
        ) => match sent {
            Ok(()) => {}
            // The supervisor writes the reason to stderr, and ends.
            Err(error) if is_of_its_end(&error) => {
                tracing::debug!(%error, "a supervisor did not take its plan");
            }
            Err(error) => unsent = Some(error),
        },
        why = &mut interruption => reason = Some(why),
    }
    // Only the tool's processes hold them now, so the pipes end with the tool.
    drop((ends, host_socket));
    let mut report = None;
    while reason.is_none() && unsent.is_none() && report.is_none() {
        tokio::select! {
            biased;
            received = process.report() => report = Some(received),
            why = &mut interruption => reason = Some(why),
            time = deadline.more() => process.give_time(time).await,
        }
    }
    if reason.is_some() || unsent.is_some() {
        process.ask_to_end();
        report = tokio::time::timeout(GRACE, process.report()).await.ok();
    }
    let report = match report {
        Some(Ok(report)) => report,
        Some(Err(error)) => {
            tracing::warn!(%error, "the report of a supervisor is unreadable");
            process.kill().await;
            None
        }
        None => {
            tracing::warn!("a supervisor did not answer, and was killed");
            process.kill().await;
            None
        }
    };
    // Everything that the tool wrote is in the pipes.
    signals.ended.cancel();
    if reason.is_some() || report.as_ref().is_some_and(|it| matches!(it.end, ToolEnd::Killed(_))) {
        abandon_later(call, signals);
    }
    if report.is_some() {
        // Nothing of the tool is left. The supervisor still waits for the kernel to take its
        // mount namespace apart, for some milliseconds.
        tokio::spawn(async move { reap(&mut process).await });
        return SupervisorExit { report, status: None, reason, unsent };
    }
    SupervisorExit { report, status: reap(&mut process).await, reason, unsent }
}

/// Returns whether a message to a supervisor failed because the supervisor has ended.
fn is_of_its_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Resolves when the host has a reason to end the call.
async fn interruption(call: &Call, deadline: DeadlineWatch, signals: &StreamSignals) -> EndReason {
    // The supervisor's own time starts a little later.
    let begun = Instant::now();
    let begun = begun.checked_add(OVERDUE).unwrap_or(begun);
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => EndReason::Cancelled,
        () = signals.flooded.cancelled() => EndReason::Flooded,
        () = deadline.over(begun) => EndReason::Overdue,
    }
}

/// Lets a call that was ended stop waiting for a slow reader of its output after [`GRACE`].
fn abandon_later(call: &Call, signals: &StreamSignals) {
    let forwards = |sink: &Sink| matches!(sink, Sink::Forward(_));
    if forwards(&call.stdout) || forwards(&call.stderr) {
        let abandoned = signals.abandoned.clone();
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            abandoned.cancel();
        });
    }
}

async fn reap(process: &mut SupervisorProcess) -> Option<ExitStatus> {
    let reaped = match tokio::time::timeout(GRACE, process.reap()).await {
        Ok(reaped) => reaped,
        Err(_) => {
            process.kill().await;
            process.reap().await
        }
    };
    reaped.inspect_err(|error| tracing::warn!(%error, "a supervisor could not be reaped")).ok()?
}

/// Returns the exit of a call, and the limit that caused it.
fn exit_of(
    ending: &SupervisorExit,
    program: &Path,
    supervisor: &Supervisor,
    call: &Call,
    complaint: &str,
) -> (Exit, Option<Limit>) {
    let Some(report) = &ending.report else { return exit_without_report(ending, complaint) };
    for note in &report.notes {
        tracing::debug!(program = %program.display(), "{note}");
    }
    if report.survivors > 0 {
        let count = report.survivors;
        tracing::warn!(program = %program.display(), count, "processes of a tool are left running");
    }
    let limit = memory_ran_out(report, &call.limits).then_some(Limit::Memory);
    let not_started = |reason| (Exit::NotStarted(reason), None);
    match &report.end {
        ToolEnd::Code(code) => (Exit::Code(*code), limit),
        ToolEnd::Signal(signal) => (Exit::Signal(*signal), limit),
        ToolEnd::Killed(cause) => (Exit::Ended, ended_by(*cause, ending.reason)),
        ToolEnd::NotStarted(step, errno) => {
            let sandboxed = call.grant.sandbox != Sandbox::Off;
            let reason = refusal::explain(program, &call.workspace, *step, *errno, sandboxed);
            not_started(match step {
                StartStep::Landlock | StartStep::Filter if *errno != libc::ENOMEM => {
                    supervisor.hints.append(reason, &Remedy::InspectSandbox)
                }
                _ => reason,
            })
        }
        ToolEnd::Refused(reason) => not_started(reason.clone()),
        ToolEnd::Unconfined(boundary) => {
            let reason = format!(
                "this machine cannot provide the sandbox that the policy requires: {boundary}"
            );
            let reason = supervisor.hints.append(reason, &Remedy::InspectSandbox);
            let otherwise = call.widening.as_deref().and_then(Widening::without_sandbox);
            not_started(match otherwise {
                Some(remedy) => supervisor.hints.append(reason, &remedy),
                None => reason,
            })
        }
    }
}

fn ended_by(cause: KillCause, reason: Option<EndReason>) -> Option<Limit> {
    match (cause, reason) {
        (KillCause::WallClock, _) | (KillCause::Host, Some(EndReason::Overdue)) => {
            Some(Limit::WallClock)
        }
        (KillCause::Memory, _) => Some(Limit::Memory),
        (KillCause::Processes, _) => Some(Limit::Processes),
        (KillCause::Host, Some(EndReason::Flooded)) => Some(Limit::Output),
        (KillCause::Host, Some(EndReason::Cancelled) | None) => None,
    }
}

/// Returns the exit of a call whose supervisor made no report.
fn exit_without_report(ending: &SupervisorExit, complaint: &str) -> (Exit, Option<Limit>) {
    if let Some(reason) = ending.reason {
        return (Exit::Ended, ended_by(KillCause::Host, Some(reason)));
    }
    if let Some(error) = &ending.unsent {
        let why = format!("its supervisor did not receive what to run: {error}");
        return (Exit::NotStarted(why), None);
    }
    match ending.status.and_then(|status| status.code()) {
        Some(REFUSED) => {
            // A supervisor in reserve cannot report what went wrong before it has a call.
            let why = if complaint.is_empty() { "it did not say why" } else { complaint };
            (Exit::NotStarted(format!("the supervisor refused the call: {why}")), None)
        }
        // Another program killed it, or the kernel did for lack of memory, and the tool with it.
        _ => {
            tracing::warn!(status = ?ending.status, "a supervisor was killed during its call");
            (Exit::Signal(libc::SIGKILL), None)
        }
    }
}

/// Returns whether a tool failed for lack of memory.
///
/// Tools react to an allocation that the kernel refuses in their own ways: by an exception, an
/// abort, a crash. So a failure at 15/16 of the limit or more counts as caused by the limit. A
/// single allocation far beyond the limit is not recognised.
fn memory_ran_out(report: &SupervisorReport, limits: &CallLimits) -> bool {
    let failed = matches!(report.end, ToolEnd::Signal(_))
        || matches!(report.end, ToolEnd::Code(code) if code != 0);
    let near = limits.native_memory - limits.native_memory / 16;
    failed && report.peak_memory > report.memory_floor && report.peak_memory >= near
}

#[cfg(test)]
mod tests {
    use ikigai_supervisor::plan::ObservedAccesses;

    use super::*;
    use crate::policy::RemedyHints;

    fn report(end: ToolEnd, peak_memory: u64) -> SupervisorReport {
        let duration = Duration::from_millis(1);
        SupervisorReport {
            end,
            duration,
            peak_memory,
            memory_floor: 8 << 20,
            left_running: 0,
            survivors: 0,
            notes: Vec::new(),
            isolation: None,
            layers: Vec::new(),
            seen: ObservedAccesses::default(),
        }
    }

    #[test]
    fn a_hint_follows_where_the_machine_lacks_the_sandbox() {
        let call = Call::new(Path::new("/w"));
        let hints = RemedyHints::new(|remedy| format!("{remedy:?}"));
        let supervisor = Supervisor::new(None, 0).with_hints(hints);
        let reason = |end| {
            let report = Some(report(end, 0));
            let ending = SupervisorExit { report, status: None, reason: None, unsent: None };
            match exit_of(&ending, Path::new("/w/tool"), &supervisor, &call, "") {
                (Exit::NotStarted(reason), None) => reason,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            reason(ToolEnd::Unconfined("fs is none".to_owned())),
            "this machine cannot provide the sandbox that the policy requires: fs is none; \
             InspectSandbox"
        );
        let closing = reason(ToolEnd::NotStarted(StartStep::Landlock, libc::EPERM));
        assert!(closing.ends_with("; InspectSandbox"), "{closing}");
        for end in [
            ToolEnd::Refused("no".to_owned()),
            ToolEnd::NotStarted(StartStep::Filter, libc::ENOMEM),
        ] {
            let text = reason(end);
            assert!(!text.contains("InspectSandbox"), "{text}");
        }
    }

    #[test]
    fn a_failure_near_the_cap_is_the_caps_doing() {
        let limits = CallLimits { native_memory: 64 << 20, ..CallLimits::default() };
        let ran_out = |end, peak| memory_ran_out(&report(end, peak), &limits);
        assert!(ran_out(ToolEnd::Code(1), 60 << 20) && ran_out(ToolEnd::Signal(6), 64 << 20));
        assert!(!ran_out(ToolEnd::Code(0), 64 << 20), "it did not fail");
        assert!(!ran_out(ToolEnd::Code(1), 59 << 20), "it was not near");
        let tiny = CallLimits { native_memory: 4 << 20, ..limits };
        assert!(
            !memory_ran_out(&report(ToolEnd::Code(1), 8 << 20), &tiny),
            "the floor says nothing"
        );
    }

    #[test]
    fn a_lost_supervisor_is_no_success() {
        let ending = |reason| SupervisorExit { report: None, status: None, reason, unsent: None };
        let lost = |reason| exit_without_report(&ending(reason), "");
        assert_eq!(lost(None), (Exit::Signal(libc::SIGKILL), None));
        assert_eq!(lost(Some(EndReason::Cancelled)), (Exit::Ended, None));
        assert_eq!(lost(Some(EndReason::Overdue)), (Exit::Ended, Some(Limit::WallClock)));
    }
}
