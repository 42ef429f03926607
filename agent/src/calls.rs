//! The calls of one answer. Calls run at once if they may, and their results are in the order of
//! the calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use ikigai_host::audit::{CallId, Requester};
use ikigai_host::host::Control;
use ikigai_host::limits::Deadline;
use ikigai_host::registry::Snapshot;
use ikigai_provider::{ModelCall, strip_nulls};
use tokio_util::sync::CancellationToken;

use crate::called::FinishedCall;
use crate::confined;
use crate::environment::SessionEnvironment;
use crate::event::{OnEvent, TurnEvent};
use crate::excerpt;
use crate::images;
use crate::order;
use crate::own_tool::SLASH_COMMAND;
use crate::slash;

/// The most calls that run at once. The host runs as many components at once, so further ones would
/// wait. Each native tool is a few processes, so more of them would only be slower.
const AT_ONCE: usize = 16;

/// The most calls of one answer that run; the others get a result that says that they did not run.
/// No sensible model asks for more, and the limit keeps the calls of one answer from filling the
/// audit log.
const MOST: usize = 256;

/// Chooses the ids in the audit log for those calls of one answer that will run.
pub(super) fn audit_ids(calls: &[ModelCall]) -> Vec<CallId> {
    calls.iter().take(MOST).map(|_| CallId::choose()).collect()
}

/// Runs the calls of one answer under these ids of the audit log, and returns one [`FinishedCall`] for
/// each, in the order of the calls. Even if it is cancelled, it returns only when nothing that the
/// calls started is left running.
pub(super) async fn run(
    environment: &SessionEnvironment,
    snapshot: Option<&Arc<Snapshot>>,
    calls: &[ModelCall],
    ids: &[CallId],
    cancel: &CancellationToken,
    on_event: OnEvent<'_>,
) -> Vec<FinishedCall> {
    let (calls, beyond) = calls.split_at(calls.len().min(MOST));
    if !beyond.is_empty() {
        let (all, rest) = (calls.len() + beyond.len(), beyond.len());
        on_event(TurnEvent::Warning(&format!(
            "the model asked for {all} calls at once; the last {rest} do not run"
        )));
    }
    for call in calls {
        on_event(TurnEvent::Calling(call.into()));
    }
    let empty = Arc::default();
    let snapshot = snapshot.unwrap_or(&empty);
    let mut ended: Vec<Option<FinishedCall>> = calls.iter().map(|_| None).collect();
    let mut waiting = VecDeque::from(order::serial_groups(calls, &environment.workspace));
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < AT_ONCE
            && !cancel.is_cancelled()
            && let Some(mut group) = waiting.pop_front()
        {
            let Some(index) = group.pop_front() else { continue };
            let (call, id) = (&calls[index], ids.get(index).copied());
            let deadline = Deadline::default();
            on_event(TurnEvent::Running(call.into(), &deadline));
            let control = Control { cancel: cancel.clone(), deadline };
            running.push(async move {
                (group, index, run_one(environment, snapshot, call, id, control).await)
            });
        }
        let Some((group, index, called)) = running.next().await else { break };
        on_event(TurnEvent::Called(&called));
        let made = &environment.remarks;
        for remark in confined::remarks(&environment.host, made, snapshot, &called) {
            on_event(TurnEvent::Warning(&remark));
        }
        ended[index] = Some(called);
        // Before the other groups: the rest of a group that has begun has waited the longest.
        waiting.push_front(group);
    }
    let ended = calls.iter().zip(ended).map(|(call, called)| {
        called.unwrap_or_else(|| {
            let called = FinishedCall::cancelled(call);
            on_event(TurnEvent::Called(&called));
            called
        })
    });
    ended.chain(beyond.iter().map(|call| FinishedCall::beyond(call, MOST))).collect()
}

async fn run_one(
    environment: &SessionEnvironment,
    snapshot: &Arc<Snapshot>,
    call: &ModelCall,
    id: Option<CallId>,
    control: Control,
) -> FinishedCall {
    let requester = Requester { id, ..Requester::default() };
    let cancel = control.cancel.clone();
    let begun = Instant::now();
    let arguments = arguments(environment, snapshot, call);
    let SessionEnvironment { host, workspace, undo, .. } = environment;
    let changed = undo.before(workspace, snapshot, call).await;
    let envelope = if call.name == SLASH_COMMAND && environment.offers_own_tool {
        let answer = |granted| slash::answer(environment, &arguments, granted, snapshot, &cancel);
        host.call_own(&requester, SLASH_COMMAND, arguments.clone(), answer).await
    } else {
        let front_end = environment.front_end.clone();
        host.call_for(&requester, snapshot, &call.name, arguments, control, front_end).await
    };
    let duration = begun.elapsed();
    let (images, refused) = images::of_answer(&envelope, &call.name);
    let envelope = envelope.readable();
    let shown = excerpt::shown(&envelope, &call.id, environment.assets.as_ref()).await;
    let called = FinishedCall::new(call, shown, &envelope, duration);
    match changed {
        Some(path) if called.has_changed_nothing() => undo.unchanged(&path),
        Some(path) => undo.after(workspace, path).await,
        None => {}
    }
    let content = images::noted(called.content, &refused);
    // A call that succeeded was not ended by the interruption that came after it.
    let is_cancelled = called.is_error && cancel.is_cancelled();
    FinishedCall { content, images, is_cancelled, ..called }
}

/// Returns the arguments for the tool: the model's, without the nulls that stand for omitted
/// arguments. Arguments that are not JSON are returned unchanged, and the host refuses them.
fn arguments(environment: &SessionEnvironment, snapshot: &Snapshot, call: &ModelCall) -> Bytes {
    if call.arguments.trim().is_empty() {
        // Some servers write a call without arguments this way.
        return Bytes::from_static(b"{}");
    }
    let written = || Bytes::copy_from_slice(call.arguments.as_bytes());
    let is_strict = environment.model.as_ref().is_some_and(|it| it.client.provider().is_strict());
    let (true, Some(tool)) = (is_strict, snapshot.get(&call.name)) else { return written() };
    strip_nulls(&tool.schema, &call.arguments).map_or_else(written, Bytes::from)
}
