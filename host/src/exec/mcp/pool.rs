//! The servers of one host that are in use. Each runs at most once for each principal: a server
//! that keeps data of one principal must not give it to another.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ikigai_protocol::Digest;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::connect::{Connect, ServerTools};
use super::running::{RunningServer, ServerTimeouts};
use super::server::DefinedServer;
use crate::exec::native::Supervisor;
use crate::exec::{Call, Exit, Outcome};
use crate::policy::{Grant, RemedyHints};

/// The largest number of concurrent calls of one server.
const AT_ONCE: usize = 16;

/// The largest number of servers that run at once for principals that came over a network.
const OF_PRINCIPALS: usize = 64;

/// The time in which failures of a server are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// The failures within [`MINUTE`] after which a server is not restarted at once.
const FAILURES: usize = 3;

/// The wait after that many failures. Each further failure doubles it.
const WAIT: Duration = Duration::from_secs(5);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(40);

/// The servers of one host.
pub(crate) struct ServerPool {
    connect: Option<Arc<dyn Connect>>,
    supervisor: Supervisor,
    hints: RemedyHints,
    patience: ServerTimeouts,
    slots: Mutex<HashMap<SlotKey, Arc<ServerSlot>>>,
    /// The revision of the protocol that each server spoke last.
    revisions: Mutex<HashMap<Digest, String>>,
    /// Counts the changes of lists of tools.
    changes: watch::Sender<u64>,
}

/// The digest of a server's definition, and the principal for whom the server runs; `None` in a
/// host that its own user started.
type SlotKey = (Digest, Option<Arc<str>>);

/// The place of one server.
struct ServerSlot {
    permits: Arc<Semaphore>,
    state: tokio::sync::Mutex<SlotState>,
}

#[derive(Default)]
struct SlotState {
    running: Option<Arc<RunningServer>>,
    failures: Failures,
}

/// The failures of a server, and the wait that follows from them.
#[derive(Default)]
struct Failures {
    /// When it failed within the last [`MINUTE`].
    recent: VecDeque<Instant>,
    /// The wait after the last failure. The failures that led to it may be longer ago than
    /// [`MINUTE`], since the waits between them grow.
    wait: Option<Duration>,
}

impl Default for ServerSlot {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(AT_ONCE)), state: tokio::sync::Mutex::default() }
    }
}

impl ServerPool {
    pub(crate) fn new(
        connect: Option<Arc<dyn Connect>>,
        supervisor: Supervisor,
        hints: RemedyHints,
    ) -> Self {
        let (slots, revisions) = (Mutex::default(), Mutex::default());
        let (patience, changes) = (ServerTimeouts::default(), watch::Sender::new(0));
        Self { connect, supervisor, hints, patience, slots, revisions, changes }
    }

    /// Returns the sentences that say what to do if a call is refused.
    pub(super) fn hints(&self) -> &RemedyHints {
        &self.hints
    }

    /// Returns whether this host can speak a protocol to servers.
    pub(crate) fn can_connect(&self) -> bool {
        self.connect.is_some()
    }

    /// Returns a channel with the number of times that a server's list of tools was read.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until a call of the server may begin.
    ///
    /// # Errors
    ///
    /// Fails if the server runs for too many other principals.
    pub(super) async fn permit(
        &self,
        server: &DefinedServer,
        call: &Call,
    ) -> Result<Option<OwnedSemaphorePermit>, Outcome> {
        let permits = Arc::clone(&self.slot(server, call).map_err(Outcome::not_started)?.permits);
        // It is never closed.
        Ok(permits.acquire_owned().await.ok())
    }

    /// Returns the tools of a server, and the revision of the protocol that it speaks. Starts the
    /// server if it is not in use.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the server cannot be used.
    pub(crate) async fn list(
        &self,
        server: &DefinedServer,
        call: &Call,
    ) -> Result<(Arc<ServerTools>, String), String> {
        match self.running(server, call).await {
            Ok(running) => Ok((running.tools(), running.connection().revision())),
            Err(outcome) => Err(match outcome.exit {
                Exit::NotStarted(reason)
                | Exit::Denied(reason)
                | Exit::Trap(reason)
                | Exit::Lost { reason, .. } => reason,
                Exit::Code(_) | Exit::Signal(_) | Exit::Ended => "it ended".to_owned(),
            }),
        }
    }

    /// Returns the tools that a server in use has now, and the revision of the protocol that it
    /// speaks.
    pub(crate) fn listed(&self, server: &DefinedServer) -> Option<(Arc<ServerTools>, String)> {
        let slots = self.slots.lock();
        let of_server = slots.iter().filter(|((digest, _), _)| *digest == server.digest);
        // The user's server comes first: its list is the approved one.
        let mut of_server: Vec<_> = of_server.collect();
        of_server.sort_by(|((_, one), _), ((_, other), _)| one.cmp(other));
        of_server.into_iter().find_map(|(_, slot)| {
            // A server that is being started has no list yet.
            let state = slot.state.try_lock().ok()?;
            let running = state.running.as_ref().filter(|running| !running.has_failed())?;
            Some((running.tools(), running.connection().revision()))
        })
    }

    /// Retires each server in use whose grant no longer applies. Its calls continue, and it ends
    /// with the last of them.
    pub(crate) fn retain(&self, is_granted: impl Fn(Digest, &Grant) -> bool) {
        let slots: Vec<(Digest, Arc<ServerSlot>)> = self
            .slots
            .lock()
            .iter()
            .map(|((digest, _), slot)| (*digest, Arc::clone(slot)))
            .collect();
        for (digest, slot) in slots {
            // A server that is being started is checked when its list was read, as for any other
            // change.
            let Ok(mut state) = slot.state.try_lock() else { continue };
            state.running = state.running.take().filter(|it| is_granted(digest, it.grant()));
        }
    }

    /// Remembers the revision of the protocol that a server spoke in another run.
    pub(crate) fn remember(&self, server: &DefinedServer, revision: &str) {
        self.revisions.lock().entry(server.digest).or_insert_with(|| revision.to_owned());
    }

    /// Returns the server with the grant of a call. It is started if it is not in use.
    pub(super) async fn running(
        &self,
        server: &DefinedServer,
        call: &Call,
    ) -> Result<Arc<RunningServer>, Outcome> {
        let slot = self.slot(server, call).map_err(Outcome::not_started)?;
        let mut state = slot.state.lock().await;
        if let Some(running) = state.running.take() {
            if running.is_usable_with(&call.grant) {
                return Ok(Arc::clone(state.running.insert(running)));
            }
            if running.has_answered() {
                state.failures.note_answer();
            }
            if running.has_failed() {
                state.failures.note(Instant::now());
            }
            // The old server's calls continue, and it ends with the last of them.
        }
        state.may_start(&server.name, Instant::now()).map_err(Outcome::not_started)?;
        let Some(connect) = &self.connect else {
            return Err(Outcome::not_started("this program does not support MCP servers"));
        };
        let revision = self.revisions.lock().get(&server.digest).cloned();
        let (connect, changes) = ((&**connect, revision), self.changes.clone());
        let starting =
            RunningServer::start(server, connect, &self.supervisor, call, changes, self.patience);
        match starting.await {
            Ok(running) => {
                self.revisions.lock().insert(server.digest, running.connection().revision());
                state.running = Some(Arc::clone(&running));
                Ok(running)
            }
            Err(outcome) => {
                state.failures.note(Instant::now());
                // The server may have another version now.
                self.revisions.lock().remove(&server.digest);
                Err(outcome)
            }
        }
    }

    /// Returns the place of a server for the principal of a call.
    fn slot(&self, server: &DefinedServer, call: &Call) -> Result<Arc<ServerSlot>, String> {
        let mut slots = self.slots.lock();
        let key = (server.digest, call.principal.clone());
        if let Some(slot) = slots.get(&key) {
            return Ok(Arc::clone(slot));
        }
        // Drops the slots of principals that are gone.
        slots.retain(|(_, principal), slot| principal.is_none() || slot.is_used());
        let others = slots.keys().filter(|(_, principal)| principal.is_some()).count();
        if call.principal.is_some() && others >= OF_PRINCIPALS {
            let name = &server.name;
            return Err(format!(
                "the server `{name}` cannot be started: {OF_PRINCIPALS} servers run for other \
                 principals; try again when some of them are idle"
            ));
        }
        Ok(Arc::clone(slots.entry(key).or_default()))
    }
}

impl ServerSlot {
    /// Returns whether a call uses or may use the server, or whether the server failed a short time
    /// ago.
    fn is_used(self: &Arc<Self>) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return true };
        let has_failed = state.failures.are_recent(Instant::now());
        let runs = state.running.as_ref().is_some_and(|running| running.is_in_use());
        let waits = self.permits.available_permits() < AT_ONCE || Arc::strong_count(self) > 1;
        runs || waits || has_failed
    }
}

impl SlotState {
    /// Refuses to start a server that has failed again and again.
    fn may_start(&mut self, name: &str, now: Instant) -> Result<(), String> {
        let left = self.failures.left(now);
        if left.is_zero() {
            return Ok(());
        }
        let seconds = left.as_secs() + 1;
        Err(format!(
            "the server `{name}` failed again and again; it can be started again in {seconds} s"
        ))
    }
}

impl Failures {
    fn note(&mut self, now: Instant) {
        self.forget(now);
        self.recent.push_back(now);
        self.wait = match self.wait {
            Some(wait) => Some((wait * 2).min(LONGEST_WAIT)),
            None => (self.recent.len() >= FAILURES).then_some(WAIT),
        };
    }

    /// Notes that the server works, so that the next wait is a short one.
    fn note_answer(&mut self) {
        self.wait = None;
    }

    /// Forgets what is over: each failure after a minute, and the wait with the last of them.
    fn forget(&mut self, now: Instant) {
        self.recent.retain(|at| now - *at < MINUTE);
        if self.recent.is_empty() {
            self.wait = None;
        }
    }

    /// Returns the rest of the wait.
    fn left(&mut self, now: Instant) -> Duration {
        self.forget(now);
        match (self.wait, self.recent.back()) {
            (Some(wait), Some(last)) => wait.saturating_sub(now - *last),
            _ => Duration::ZERO,
        }
    }

    /// Returns whether the server failed within the last minute.
    fn are_recent(&mut self, now: Instant) -> bool {
        self.forget(now);
        !self.recent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::exec::mcp::fake::{Fake, call_of, server};

    /// Returns a pool, and the fake through which it connects to servers.
    fn pool() -> (ServerPool, Arc<Fake>) {
        let fake = Arc::new(Fake::default());
        let connect = Some(Arc::clone(&fake) as Arc<dyn Connect>);
        (ServerPool::new(connect, Supervisor::new(None, 0), RemedyHints::default()), fake)
    }

    #[tokio::test]
    async fn principals_share_no_server_and_are_bounded() {
        let ((pool, fake), server) = (pool(), server());
        let connections = || fake.connections.load(Ordering::Relaxed);
        for _ in 0..2 {
            for principal in [None, Some("ada"), Some("bob")] {
                pool.running(&server, &call_of(principal)).await.expect("it runs");
            }
        }
        assert_eq!(connections(), 3);
        for number in 2..OF_PRINCIPALS {
            let principal = number.to_string();
            pool.running(&server, &call_of(Some(&principal))).await.expect("it runs");
        }
        let refused = pool.running(&server, &call_of(Some("eve"))).await.err();
        let Some(Exit::NotStarted(reason)) = refused.map(|outcome| outcome.exit) else {
            panic!("a server more than the bound was started")
        };
        assert!(reason.contains("64 servers run for other principals"), "{reason}");
        // The running ones, and the user's, are used as before.
        for principal in [None, Some("ada")] {
            pool.running(&server, &call_of(principal)).await.expect("it runs");
        }
        assert_eq!(connections(), 1 + OF_PRINCIPALS);
        // A server that has ended makes room.
        let of_ada = pool.running(&server, &call_of(Some("ada"))).await.expect("it runs");
        of_ada.end();
        drop(of_ada);
        pool.running(&server, &call_of(Some("eve"))).await.expect("it runs");
    }

    #[tokio::test]
    async fn a_server_that_is_not_granted_what_it_runs_with_is_retired() {
        let ((pool, fake), server) = (pool(), server());
        let connections = || fake.connections.load(Ordering::Relaxed);
        let running = pool.running(&server, &call_of(None)).await.expect("it runs");
        pool.retain(|digest, grant| digest == server.digest && *grant == Grant::default());
        pool.running(&server, &call_of(None)).await.expect("it runs");
        assert_eq!(connections(), 1);
        pool.retain(|_, _| false);
        assert!(pool.listed(&server).is_none());
        assert!(running.is_in_use(), "a call that has it goes on");
        pool.running(&server, &call_of(None)).await.expect("it runs");
        assert_eq!(connections(), 2);
    }

    /// Returns the seconds for which a server is not started after a failure.
    fn wait(state: &mut SlotState, failed: Instant) -> u64 {
        state.failures.note(failed);
        let may = |wait: &u64| state.may_start("peer", failed + Duration::from_secs(*wait)).is_ok();
        (0..).find(may).expect("it may be started some time")
    }

    #[test]
    fn a_server_that_fails_is_left_alone_for_longer_each_time() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut state = SlotState::default();
        let mut now = 0;
        for expected in [0, 0, 5, 10, 20, 40, 40, 40] {
            let waited = wait(&mut state, at(now));
            assert_eq!(waited, expected, "failed after {now} s");
            now += waited;
        }
        // A minute without a failure makes up for all of them.
        now += 60;
        for expected in [0, 0, 5, 10] {
            assert_eq!(wait(&mut state, at(now)), expected);
        }
        // An answer resets the length of the wait.
        state.failures.note_answer();
        assert!(state.may_start("peer", at(now)).is_ok());
        assert_eq!(wait(&mut state, at(now)), 5);
    }
}
