//! The calls of one client: how many run, wait and are refused, and how they end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{CallToolResponse, ErrorData, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use super::asker::ClientAsker;
use super::questions::OPEN;
use crate::connect::CallProgress;
use crate::offer::{ClientCall, Offer};
use crate::result;

/// The bounds on calls in flight.
#[derive(Clone, Copy, Debug)]
struct ConcurrencyLimits {
    /// The most calls that may run at once.
    running: usize,
    /// The most calls that may wait for a running call to end.
    waiting: usize,
    /// The maximum total size of the arguments of all calls that run or wait, in bytes.
    arguments: usize,
}

/// The calls of one client.
const CLIENT: ConcurrencyLimits =
    ConcurrencyLimits { running: 64, waiting: 1024, arguments: 64 << 20 };

/// The calls of all clients of one server.
const SERVER: ConcurrencyLimits =
    ConcurrencyLimits { running: 256, waiting: 4096, arguments: 256 << 20 };

/// The time until the first progress notification, for a client that asked for them.
const FIRST_PROGRESS: Duration = Duration::from_secs(1);

/// The time between two notifications of the elapsed time.
const PROGRESS: Duration = Duration::from_secs(5);

/// The minimum time between two notifications.
const BETWEEN_REPORTS: Duration = Duration::from_millis(100);

/// The message for a call that is refused because too many are in flight.
const BUSY: &str = "too many calls are in flight; wait for some to end, and try again";

/// The message for a call that was cancelled while it waited.
const CANCELLED: &str = "the call was cancelled before it began";

/// The calls of one client, or of a whole server.
pub(super) struct ClientCalls {
    bounds: ConcurrencyLimits,
    permits: Semaphore,
    /// Calls that run or wait.
    count: AtomicUsize,
    arguments: AtomicUsize,
    /// Cancelled when all calls must end.
    closed: CancellationToken,
    /// Holds one permit for each call that may still be running.
    live: Semaphore,
    /// Holds one permit for each further question that may be open at the client.
    questions: Arc<Semaphore>,
    /// The calls of the whole server, if it has several clients.
    whole: Option<Arc<ClientCalls>>,
}

/// One call's share of its client's bounds. Dropping it returns the share.
struct Share<'a> {
    calls: &'a ClientCalls,
    bytes: usize,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.calls.count.fetch_sub(1, Ordering::Relaxed);
        self.calls.arguments.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A permit of the client's own, and a permit of the server.
type Permits<'a> =
    (Result<SemaphorePermit<'a>, AcquireError>, Option<Result<SemaphorePermit<'a>, AcquireError>>);

impl ClientCalls {
    /// Creates the calls of the only client of a server.
    pub(super) fn of_client() -> Self {
        Self::new(CLIENT, None)
    }

    /// Creates the calls of a server with several clients.
    pub(super) fn of_server() -> Self {
        Self::new(SERVER, None)
    }

    /// Creates the calls of one of several clients of a server.
    pub(super) fn within(server: Arc<Self>) -> Self {
        Self::new(CLIENT, Some(server))
    }

    fn new(bounds: ConcurrencyLimits, whole: Option<Arc<Self>>) -> Self {
        let closed = match &whole {
            Some(whole) => whole.closed.child_token(),
            None => CancellationToken::new(),
        };
        Self {
            bounds,
            permits: Semaphore::new(bounds.running),
            count: AtomicUsize::new(0),
            arguments: AtomicUsize::new(0),
            closed,
            live: Semaphore::new(bounds.running + bounds.waiting),
            questions: Arc::new(Semaphore::new(OPEN)),
            whole,
        }
    }

    /// Returns the semaphore with one permit for each further question that may be open at the
    /// client.
    pub(super) fn questions(&self) -> &Arc<Semaphore> {
        &self.questions
    }

    /// Ends all calls, and refuses new ones.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Waits until no call is running.
    pub(super) async fn ended(&self) {
        let all = self.bounds.running + self.bounds.waiting;
        // The semaphore is never closed.
        let _ = self.live.acquire_many(u32::try_from(all).unwrap_or(u32::MAX)).await;
    }

    /// Runs a call. Sends progress notifications if the client asked for them.
    pub(super) async fn run(
        &self,
        offer: &impl Offer,
        name: String,
        arguments: Bytes,
        context: RequestContext<RoleServer>,
        asker: Arc<ClientAsker>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = client(&context);
        let token = context.meta.get_progress_token();
        // The rest of the context may be large, so it is not kept while the call waits.
        let RequestContext { ct: cancel, peer, .. } = context;
        let Some(_shares) = self.shares(arguments.len()) else {
            offer.refused(&name, client, BUSY);
            return Ok(result::error(BUSY).into());
        };
        let _live = self.acquire(|calls| &calls.live).await;
        let permits = tokio::select! {
            // After the connection has ended, no call may begin.
            biased;
            () = self.closed.cancelled() => None,
            () = cancel.cancelled() => None,
            permits = self.acquire(|calls| &calls.permits) => Some(permits),
        };
        let Some(permits) = permits else {
            offer.refused(&name, client, CANCELLED);
            return Ok(result::error(CANCELLED).into());
        };
        let call =
            ClientCall { name, arguments, cancel: cancel.clone(), client, asker: asker.clone() };
        let call = offer.call(call);
        let mut call = std::pin::pin!(call);
        let told = cancel.run_until_cancelled(report(token.zip(asker.reports()), peer));
        let answer = tokio::select! {
            biased;
            answer = &mut call => answer,
            () = self.closed.cancelled() => {
                cancel.cancel();
                call.await
            }
            // The client no longer wants progress reports.
            _ = told => call.await,
        };
        drop(permits);
        asker.response().unwrap_or_else(|| result::from_answer(answer).map(Into::into))
    }

    /// Returns a permit of the client's semaphore and of the server's. They are never closed.
    async fn acquire(&self, of: impl Fn(&Self) -> &Semaphore) -> Permits<'_> {
        let own = of(self).acquire().await;
        let whole = match &self.whole {
            Some(whole) => Some(of(whole).acquire().await),
            None => None,
        };
        (own, whole)
    }

    /// Returns the shares of a call with arguments of `bytes` bytes in its client's bounds and in
    /// the server's. Returns `None` if either has no room for it.
    fn shares(&self, bytes: usize) -> Option<(Share<'_>, Option<Share<'_>>)> {
        let own = self.share(bytes)?;
        let whole = match &self.whole {
            Some(whole) => Some(whole.share(bytes)?),
            None => None,
        };
        Some((own, whole))
    }

    /// Returns the share of a call in these bounds only.
    fn share(&self, bytes: usize) -> Option<Share<'_>> {
        // Each counter is incremented before it is checked, so that two calls cannot both take the
        // last place.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let before = self.arguments.fetch_add(bytes, Ordering::Relaxed);
        let share = Share { calls: self, bytes };
        let ConcurrencyLimits { running, waiting, arguments } = self.bounds;
        let fits = count < running + waiting && (before == 0 || before + bytes <= arguments);
        fits.then_some(share)
    }
}

/// Returns the name and version that the client of a request reports.
pub(super) fn client(context: &RequestContext<RoleServer>) -> Option<String> {
    context.client_info().map(|it| format!("{} {}", it.name, it.version))
}

/// Reports the progress of a call to the client. Sends the elapsed seconds periodically until the
/// offer's first report, and from then on only the offer's reports.
async fn report(
    wanted: Option<(ProgressToken, watch::Receiver<Option<CallProgress>>)>,
    peer: Peer<RoleServer>,
) -> Infallible {
    let Some((token, mut reports)) = wanted else { return std::future::pending().await };
    let begun = Instant::now();
    let mut ticks = interval_at(begun + FIRST_PROGRESS, PROGRESS);
    let mut sent = SentProgress::default();
    loop {
        let progress = tokio::select! {
            // The sender lives as long as the call.
            Ok(()) = reports.changed() => {
                let report = reports.borrow_and_update().clone();
                report.and_then(|report| sent.after(report))
            }
            _ = ticks.tick() => sent.seconds(begun.elapsed()),
        };
        let Some(CallProgress { progress, total, message }) = progress else { continue };
        let mut params = ProgressNotificationParam::new(token.clone(), progress);
        (params.total, params.message) = (total, message);
        if peer.notify_progress(params).await.is_err() {
            // Other code notices the end of the connection.
            return std::future::pending().await;
        }
        tokio::time::sleep(BETWEEN_REPORTS).await;
    }
}

/// The progress that was sent to a client. The protocol requires it to grow, so the offer's own
/// progress is added to the seconds that were sent before it.
#[derive(Default)]
struct SentProgress {
    seconds: f64,
    last: Option<f64>,
    has_own: bool,
}

impl SentProgress {
    fn seconds(&mut self, elapsed: Duration) -> Option<CallProgress> {
        if self.has_own {
            return None;
        }
        // Clients show the number unchanged.
        let seconds = elapsed.as_secs();
        self.seconds = elapsed.as_secs_f64().floor();
        if self.last.is_some_and(|last| self.seconds <= last) {
            return None;
        }
        self.last = Some(self.seconds);
        let message = Some(format!("has run for {seconds} s"));
        Some(CallProgress { progress: self.seconds, total: None, message })
    }

    fn after(&mut self, report: CallProgress) -> Option<CallProgress> {
        let progress = self.seconds + report.progress;
        if !progress.is_finite() || self.last.is_some_and(|last| progress <= last) {
            return None;
        }
        (self.last, self.has_own) = (Some(progress), true);
        let total = report.total.map(|total| self.seconds + total).filter(|it| it.is_finite());
        Some(CallProgress { progress, total, message: report.message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_beyond_the_bounds_has_no_share_and_leaves_none() {
        let calls = ClientCalls::of_client();
        let shares: Vec<_> = (0..CLIENT.running + CLIENT.waiting).map(|_| calls.share(0)).collect();
        assert!(shares.iter().all(Option::is_some));
        assert!(calls.share(0).is_none());
        drop(shares);
        assert!(calls.share(0).is_some());
    }

    #[test]
    fn arguments_beyond_the_bound_have_no_share_unless_they_are_alone() {
        let calls = ClientCalls::of_client();
        let alone = calls.share(CLIENT.arguments + 1).expect("alone");
        assert!(calls.share(1).is_none());
        drop(alone);
        let first = calls.share(CLIENT.arguments - 1).expect("room");
        assert!(calls.share(2).is_none());
        assert!(calls.share(1).is_some());
        drop(first);
        assert_eq!(calls.arguments.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_client_cannot_take_the_room_of_the_others() {
        let server = Arc::new(ClientCalls::of_server());
        let clients: Vec<_> = (0..5).map(|_| ClientCalls::within(Arc::clone(&server))).collect();
        let full = |calls: &ClientCalls| calls.shares(CLIENT.arguments).is_none();
        let shares: Vec<_> = clients.iter().map(|calls| calls.shares(CLIENT.arguments)).collect();
        let had_room: Vec<_> = shares.iter().map(Option::is_some).collect();
        assert_eq!(had_room, [true, true, true, true, false]);
        assert!(full(&clients[0]) && full(&clients[4]));
        drop(shares);
        assert!(!full(&clients[4]));
        server.close();
        assert!(clients.iter().all(|calls| calls.closed.is_cancelled()));
    }

    #[test]
    fn the_progress_that_a_client_is_told_grows() {
        let mut sent = SentProgress::default();
        let report = |progress, total| CallProgress { progress, total, message: None };
        let second =
            CallProgress { message: Some("has run for 1 s".to_owned()), ..report(1.0, None) };
        assert_eq!(sent.seconds(Duration::from_millis(1_001)), Some(second));
        assert_eq!(sent.seconds(Duration::from_millis(1_900)), None);
        assert_eq!(sent.after(report(0.25, Some(1.0))), Some(report(1.25, Some(2.0))));
        for stale in [0.25, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(sent.after(report(stale, Some(1.0))), None);
        }
        assert_eq!(sent.seconds(Duration::from_secs(6)), None);
        assert_eq!(sent.after(report(1.0, None)), Some(report(2.0, None)));
    }
}
