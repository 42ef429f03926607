//! The writer of a log. It begins a session with the first prompt, appends events, and renews the
//! lease in the background.
//!
//! **Invariant:** after an event that cannot be written, this writer writes nothing more, since a
//! log with a gap makes an invalid conversation. It warns the user once. The conversation
//! continues, unless it must be kept. Then the turn ends, so that no call runs that is not in the
//! log.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ikigai_assets::{Error, Lease, NewEvent, NewSession, SessionChanges, SessionId, Store};
use ikigai_host::exec::scrub::SecretValues;
use ikigai_host::host::Host;
use ikigai_host::registry::{Snapshot, Tool};
use ikigai_protocol::is_deceptive;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tokio::task::AbortHandle;

use super::{JournalEvent, format};
use crate::assets::StoredAssets;
use crate::environment::SessionEnvironment;
use crate::session_assets::SessionAssets;
use crate::surroundings::TurnSurroundings;

/// The time for which a lease is valid. A process that was killed holds its session until then.
const LEASE: Duration = Duration::from_secs(60);

/// The time after which a lease is renewed. Two renewals may fail.
const RENEWED_AFTER: Duration = Duration::from_secs(20);

/// The most characters of a title that is made of a prompt.
const TITLE: usize = 60;

/// The writer of the log of a conversation.
#[derive(Default)]
pub(crate) struct JournalWriter {
    state: JournalState,
    /// The events that are not written yet, oldest first.
    queue: Vec<JournalEvent>,
    /// The number of events at the beginning of the queue that an attempt tried to write, if its
    /// result is unknown.
    attempted: usize,
    /// The provider and the model that the log names.
    model: Option<(String, String)>,
    /// The surroundings that the log has.
    surroundings: Option<TurnSurroundings>,
    /// True if the log has calls without results.
    has_open_calls: bool,
    /// True if a turn must end when its events cannot be written.
    is_required: bool,
    secrets: SecretValues,
}

#[derive(Default)]
enum JournalState {
    /// Nothing is kept.
    #[default]
    Off,
    /// The session begins with the first prompt.
    Wanted,
    Open(LeasedSession),
    /// An event could not be written.
    Stopped {
        /// The session that has the events before it; nothing if it was the first.
        session: Option<SessionId>,
        /// The warning that the user got.
        reason: String,
    },
}

/// A session that is leased.
struct LeasedSession {
    assets: Arc<StoredAssets>,
    lease: Lease,
    /// The number of the last event.
    last: u64,
    renewal: LeaseRenewal,
}

/// The task that renews a lease. Dropping this ends it.
struct LeaseRenewal {
    task: AbortHandle,
    is_lost: Arc<AtomicBool>,
}

impl Drop for LeaseRenewal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A session to continue.
pub(crate) struct Resumption {
    pub(crate) lease: Lease,
    /// The number of the last event.
    pub(crate) last: u64,
    /// The provider and the model that its log names.
    pub(crate) model: Option<(String, String)>,
    /// The surroundings of the last turn.
    pub(crate) surroundings: Option<TurnSurroundings>,
}

impl JournalWriter {
    /// Begins a session with the next prompt.
    pub(crate) fn want(&mut self) {
        if matches!(self.state, JournalState::Off) {
            self.state = JournalState::Wanted;
        }
    }

    /// Continues a session that is leased.
    pub(crate) fn go_on(&mut self, assets: &SessionAssets, resumption: Resumption) {
        let Resumption { lease, last, model, surroundings } = resumption;
        let open = LeasedSession::new(Arc::clone(&assets.store), lease, last);
        *self = Self { state: JournalState::Open(open), model, surroundings, ..Self::default() };
    }

    /// Makes turns end when their events cannot be written.
    pub(crate) fn require(&mut self) {
        self.is_required = true;
    }

    /// Returns the reason why writing events has stopped.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.state {
            JournalState::Stopped { reason, .. } => Some(reason),
            JournalState::Off | JournalState::Wanted | JournalState::Open(_) => None,
        }
    }

    /// Returns the reason why the turn must end, if its events must be written and cannot be.
    pub(crate) fn ends_turn(&self) -> Option<&str> {
        self.failure().filter(|_| self.is_required)
    }

    /// Returns the session that is kept, once it has begun.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match &self.state {
            JournalState::Off | JournalState::Wanted => None,
            // The attempt to write the first events may have failed.
            JournalState::Open(open) => (open.last > 0).then(|| open.lease.session()),
            JournalState::Stopped { session, .. } => *session,
        }
    }

    /// Sets the values that are not written.
    pub(crate) fn hide(&mut self, secrets: SecretValues) {
        self.secrets = secrets;
    }

    /// Adds the surroundings of a turn, if they differ from those in the log.
    pub(crate) fn surround(&mut self, now: TurnSurroundings) {
        let now = now.or(self.surroundings.as_ref());
        if self.surroundings.as_ref() != Some(&now) {
            self.queue(JournalEvent::Surroundings(now.clone()));
            self.surroundings = Some(now);
        }
    }

    /// Adds an event that is written with the next one.
    pub(crate) fn queue(&mut self, event: JournalEvent) {
        if matches!(self.state, JournalState::Wanted | JournalState::Open(_)) {
            self.queue.push(event);
        }
    }

    /// Returns whether events are to be written.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.state, JournalState::Wanted | JournalState::Open(_))
    }

    /// Writes events, together with those in the queue. Returns a warning if they cannot be
    /// written. After that, nothing more is written.
    pub(crate) async fn write(
        &mut self,
        environment: &SessionEnvironment,
        events: impl IntoIterator<Item = JournalEvent>,
    ) -> Option<String> {
        if !self.is_on() {
            return None;
        }
        for event in events {
            self.add(environment, event);
        }
        if self.queue.is_empty() {
            return None;
        }
        let error = self.flush(environment).await.err()?;
        let reason = match error {
            Error::SessionLost(_) => {
                "another terminal continues this conversation: from now on, it is not saved here"
                    .to_owned()
            }
            error => format!("this conversation is not kept from here on: {error}"),
        };
        self.state = JournalState::Stopped { session: self.session(), reason: reason.clone() };
        self.queue.clear();
        Some(reason)
    }

    /// Puts an event into the queue, and before it the events that keep the log valid.
    fn add(&mut self, environment: &SessionEnvironment, event: JournalEvent) {
        let is_results = matches!(event, JournalEvent::Results { .. });
        if std::mem::take(&mut self.has_open_calls) && !is_results {
            self.queue.push(JournalEvent::Dropped);
        }
        self.has_open_calls = matches!(event, JournalEvent::Calls { .. });
        if let (JournalEvent::Prompt { .. }, Some(model)) = (&event, &environment.model) {
            let named = (model.client.provider().as_str().to_owned(), model.name.clone());
            if self.model.as_ref() != Some(&named) {
                let (provider, name) = named.clone();
                self.queue.push(JournalEvent::Model { provider, name });
                self.model = Some(named);
            }
        }
        self.queue.push(event);
    }

    /// Writes all events of the queue. The future may be dropped at any point.
    async fn flush(&mut self, environment: &SessionEnvironment) -> Result<(), Error> {
        if let JournalState::Wanted = self.state
            && let Some(assets) = &environment.assets
        {
            let open = self.begin(environment, assets).await?;
            self.state = JournalState::Open(open);
        }
        let JournalState::Open(open) = &mut self.state else { return Ok(()) };
        if open.renewal.is_lost.load(Ordering::Relaxed) {
            return Err(Error::SessionLost(open.lease.session()));
        }
        let store = open.assets.open().await?;
        if self.attempted > 0 {
            // An attempt whose future was dropped wrote either all of its events or none.
            let written = store.session(&open.lease.session()).await?.events;
            if written == open.last + self.attempted as u64 {
                self.queue.drain(..self.attempted);
                open.last = written;
            }
            self.attempted = 0;
        }
        let json = |event: &JournalEvent| {
            let json = format::write(event, &self.secrets);
            json.map(|json| (event.kind(), json, event.begins_turn()))
        };
        let written: Result<Vec<_>, _> = self.queue.iter().map(json).collect();
        // This cannot fail for the texts and numbers of an event.
        let written = written.map_err(|_| Error::OutOfMemory)?;
        let events = written.iter();
        let events: Vec<NewEvent<'_>> = events
            .map(|(kind, json, begins_turn)| NewEvent { kind, json, begins_turn: *begins_turn })
            .collect();
        self.attempted = events.len();
        open.last = store.append_events(&open.lease, open.last, &events, LEASE).await?;
        self.attempted = 0;
        self.queue.clear();
        let named = self.model.as_ref();
        if let Some((provider, name)) = named.filter(|_| written.iter().any(|it| it.0 == "model")) {
            let (provider, model) = (Some(provider.as_str()), Some(name.as_str()));
            let changes = SessionChanges { provider, model, ..SessionChanges::default() };
            store.describe_session(&open.lease, &changes).await?;
        }
        Ok(())
    }

    /// Begins a session, which is titled by its first prompt.
    async fn begin(
        &self,
        environment: &SessionEnvironment,
        assets: &SessionAssets,
    ) -> Result<LeasedSession, Error> {
        let store = assets.store.open().await?;
        let title = self.queue.iter().find_map(|event| match event {
            JournalEvent::Prompt { typed, texts, .. } => {
                Some(title(&self.secrets, std::iter::once(typed).chain(texts)))
            }
            _ => None,
        });
        let title = title.filter(|title| !title.is_empty());
        let model = self.model.as_ref();
        let session = NewSession {
            workspace: &environment.workspace.to_string_lossy(),
            title: title.as_deref(),
            provider: model.map(|(provider, _)| provider.as_str()),
            model: model.map(|(_, name)| name.as_str()),
        };
        let lease = store.create_session(&assets.agent, &session, &owner(), LEASE).await?;
        Ok(LeasedSession::new(Arc::clone(&assets.store), lease, 0))
    }

    /// Stops keeping the conversation: writes the queue and releases the lease.
    pub(crate) async fn end(&mut self, environment: &SessionEnvironment) -> Option<String> {
        let is_begun = matches!(self.state, JournalState::Open(_));
        let warning = if is_begun { self.write(environment, []).await } else { None };
        let state = std::mem::take(self).state;
        if let JournalState::Open(open) = state
            && let Ok(store) = open.assets.open().await
            && let Err(error) = store.release_session(&open.lease).await
        {
            // The lease expires on its own.
            tracing::debug!("the lease of a session was not given back: {error}");
        }
        warning
    }
}

impl LeasedSession {
    fn new(assets: Arc<StoredAssets>, lease: Lease, last: u64) -> Self {
        let renewal = LeaseRenewal::start(Arc::clone(&assets), lease.clone());
        Self { assets, lease, last, renewal }
    }
}

impl LeaseRenewal {
    fn start(assets: Arc<StoredAssets>, lease: Lease) -> Self {
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&is_lost);
        let renew = async move {
            loop {
                tokio::time::sleep(RENEWED_AFTER).await;
                let renewed = async {
                    let store: &Store = assets.open().await?;
                    store.renew_session(&lease, LEASE).await
                };
                match renewed.await {
                    Ok(()) => {}
                    Err(Error::SessionLost(_) | Error::NoSession(_)) => break,
                    Err(error) => tracing::debug!("a session's lease was not renewed: {error}"),
                }
            }
            lost.store(true, Ordering::Relaxed);
        };
        Self { task: tokio::spawn(renew).abort_handle(), is_lost }
    }
}

/// Leases a session to this process. A lease of a dead process of this machine is taken over before
/// it expires.
pub(crate) async fn lease(store: &Store, session: &SessionId) -> Result<Lease, Error> {
    let own = owner();
    let held = match store.lease_session(session, &own, LEASE).await {
        Err(Error::SessionHeld { owner, .. }) if is_dead(&owner) => owner,
        leased => return leased,
    };
    // Only dead processes had this name, so only one process at a time gets past here.
    let lease = store.lease_session(session, &held, LEASE).await?;
    store.release_session(&lease).await?;
    store.lease_session(session, &own, LEASE).await
}

/// Returns whether the owner of a lease is a process of this machine that has ended.
fn is_dead(owner: &str) -> bool {
    let process = owner.strip_suffix(&on_this_machine()).and_then(|it| it.strip_prefix(PROCESS));
    let process = process.and_then(|number| Pid::from_raw(number.parse().ok()?));
    // Any other error means that the process exists, and belongs to another user.
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// Copies the events of a session up to number `up_to` into a new session, which is leased to this
/// process.
pub(crate) async fn fork(
    store: &Store,
    session: &SessionId,
    up_to: u64,
    assets: &SessionAssets,
) -> Result<Lease, Error> {
    store.fork_session(session, up_to, &assets.agent, &owner(), LEASE).await
}

/// The beginning of the name of a process.
const PROCESS: &str = "process ";

/// Returns the name under which this process holds sessions. Users see it.
#[must_use]
pub fn owner() -> String {
    format!("{PROCESS}{}{}", std::process::id(), on_this_machine())
}

/// Returns the end of the name of a process of this machine.
fn on_this_machine() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!(" on {}", host.chars().filter(|c| !is_deceptive(*c)).collect::<String>())
}

/// Returns the beginning of the first line that is not blank.
fn title<'a>(secrets: &SecretValues, texts: impl Iterator<Item = &'a String>) -> String {
    let mut lines = texts.flat_map(|text| text.lines()).map(str::trim);
    let line = secrets.scrub_text(lines.find(|line| !line.is_empty()).unwrap_or_default());
    let mut plain = line.chars().map(|c| if is_deceptive(c) { ' ' } else { c });
    let title: String = plain.by_ref().take(TITLE).collect();
    let rest = if plain.next().is_some() { "…" } else { "" };
    format!("{}{rest}", title.trim_end())
}

/// Returns the values of variables that the policy grants to the tools by name.
pub(crate) fn secrets(host: &Host, snapshot: Option<&Snapshot>) -> SecretValues {
    let tools = snapshot.into_iter().flat_map(Snapshot::tools);
    let decided = tools.filter_map(|tool: &Tool| host.decide(tool.into()).ok());
    let mut values: Vec<(OsString, OsString)> =
        decided.flat_map(|decision| decision.granted_values()).collect();
    values.sort_unstable();
    values.dedup();
    SecretValues::from_variables(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_machine_is_known_to_be_dead() {
        assert!(!is_dead(&owner()), "this process");
        let other = |number: i32| format!("{PROCESS}{number}{}", on_this_machine());
        assert!(!is_dead(&other(1)), "the first process");
        // This is above the largest process number of Linux.
        assert!(is_dead(&other(i32::MAX)));
        assert!(!is_dead(&format!("{PROCESS}{} on elsewhere", i32::MAX)));
        assert!(!is_dead("another terminal"));
    }

    #[test]
    fn a_title_is_the_first_line_of_a_prompt() {
        let of = |text: &str| title(&SecretValues::default(), [text.to_owned()].iter());
        assert_eq!(of("\n  fix\u{1b}it  \nplease"), "fix it");
        assert_eq!(of(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
        assert_eq!(of(" \n"), "");
    }
}
