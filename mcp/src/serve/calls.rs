//! The calls of one connection: how many run, wait and are refused, and how they end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{CallToolResult, ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use crate::offer::{Call, Offer};
use crate::result;

/// The calls of a connection that run at once.
const RUNNING: usize = 64;

/// The calls that wait for one of those to end.
const WAITING: usize = 1024;

/// The bytes of the arguments of all calls that run or wait.
const ARGUMENTS: usize = 64 << 20;

/// The time after which a client that asked for it is first told that a call goes on.
const FIRST_PROGRESS: Duration = Duration::from_secs(1);

/// The time between two such notices.
const PROGRESS: Duration = Duration::from_secs(5);

/// The reason for which a call without room does not run.
const BUSY: &str = "too many calls are in flight; wait for some to end, and try again";

/// The reason for which a call does not run that was cancelled while it waited.
const CANCELLED: &str = "the call was cancelled before it began";

/// The calls of one connection.
pub(super) struct Calls {
    permits: Semaphore,
    /// Calls that run or wait.
    count: AtomicUsize,
    arguments: AtomicUsize,
    /// Cancelled when no call may go on.
    closed: CancellationToken,
    /// Holds one permit for each call that may still be running.
    live: Semaphore,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(RUNNING),
            count: AtomicUsize::new(0),
            arguments: AtomicUsize::new(0),
            closed: CancellationToken::new(),
            live: Semaphore::new(RUNNING + WAITING),
        }
    }
}

/// The share of one call in the bounds of its connection, given back when it is dropped.
struct Share<'a> {
    calls: &'a Calls,
    bytes: usize,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.calls.count.fetch_sub(1, Ordering::Relaxed);
        self.calls.arguments.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Calls {
    /// Ends all calls, and refuses those to come.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Waits until no call is running.
    pub(super) async fn ended(&self) {
        let all = u32::try_from(RUNNING + WAITING).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.live.acquire_many(all).await;
    }

    /// Runs a call, and tells the client that it goes on, if it asked for that.
    pub(super) async fn run(
        &self,
        offer: &impl Offer,
        name: String,
        arguments: Bytes,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let client = context.client_info().map(|it| format!("{} {}", it.name, it.version));
        let token = context.meta.get_progress_token();
        // The rest of the context is not kept while the call waits: it may be large.
        let RequestContext { ct: cancel, peer, .. } = context;
        let Some(_share) = self.share(arguments.len()) else {
            offer.refused(&name, client, BUSY);
            return Ok(result::error(BUSY));
        };
        let _live = self.live.acquire().await;
        let permit = tokio::select! {
            // No call begins after the end of its connection.
            biased;
            () = self.closed.cancelled() => None,
            () = cancel.cancelled() => None,
            permit = self.permits.acquire() => Some(permit),
        };
        let Some(permit) = permit else {
            offer.refused(&name, client, CANCELLED);
            return Ok(result::error(CANCELLED));
        };
        let call = offer.call(Call { name, arguments, cancel: cancel.clone(), client });
        let mut call = std::pin::pin!(call);
        let told = cancel.run_until_cancelled(report(token, peer));
        let answer = tokio::select! {
            biased;
            answer = &mut call => answer,
            () = self.closed.cancelled() => {
                cancel.cancel();
                call.await
            }
            // The client no longer wants to hear of it.
            _ = told => call.await,
        };
        drop(permit);
        result::of(answer)
    }

    /// Returns the share of a call with so many bytes of arguments, if there is room for it.
    fn share(&self, bytes: usize) -> Option<Share<'_>> {
        // Each counter is added to before it is looked at, so that two calls cannot both take the
        // last place.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let before = self.arguments.fetch_add(bytes, Ordering::Relaxed);
        let share = Share { calls: self, bytes };
        let fits = count < RUNNING + WAITING && (before == 0 || before + bytes <= ARGUMENTS);
        fits.then_some(share)
    }
}

enum Never {}

/// Tells the client again and again that a call goes on, with the seconds that it has taken.
async fn report(token: Option<ProgressToken>, peer: Peer<RoleServer>) -> Never {
    let Some(token) = token else { return std::future::pending().await };
    let begun = Instant::now();
    let mut ticks = interval_at(begun + FIRST_PROGRESS, PROGRESS);
    loop {
        ticks.tick().await;
        let progress = ProgressNotificationParam::new(token.clone(), begun.elapsed().as_secs_f64());
        if peer.notify_progress(progress).await.is_err() {
            // The end of the connection is noticed elsewhere.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_beyond_the_bounds_has_no_share_and_leaves_none() {
        let calls = Calls::default();
        let shares: Vec<_> = (0..RUNNING + WAITING).map(|_| calls.share(0)).collect();
        assert!(shares.iter().all(Option::is_some));
        assert!(calls.share(0).is_none());
        drop(shares);
        assert!(calls.share(0).is_some());
    }

    #[test]
    fn arguments_beyond_the_bound_have_no_share_unless_they_are_alone() {
        let calls = Calls::default();
        let alone = calls.share(ARGUMENTS + 1).expect("alone");
        assert!(calls.share(1).is_none());
        drop(alone);
        let first = calls.share(ARGUMENTS - 1).expect("room");
        assert!(calls.share(2).is_none());
        assert!(calls.share(1).is_some());
        drop(first);
        assert_eq!(calls.arguments.load(Ordering::Relaxed), 0);
    }
}
