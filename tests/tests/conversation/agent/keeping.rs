//! Stored conversations. Wherever a process died, another one can continue, and every provider
//! accepts its requests.

use std::future::ready;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use ikigai_agent::journal::{self, ReplayError};
use ikigai_agent::{
    ResumeError, Resumed, Session, SessionRetention, Spend, SpendLimit, Turn, TurnEnd, TurnEvent,
    TurnSurroundings, prune_sessions,
};
use ikigai_assets::{Error, NewEvent, SessionEvent, SessionFilter, SessionId, StoreUrl};
use ikigai_host::registry::Snapshot;
use ikigai_provider_testing::{FakeServer, Received, Reply, Trouble, Vendor};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::agent::place::{Place, agent};
use crate::agent::session::host;

/// The duration of the tests' session leases.
const TTL: Duration = Duration::from_secs(60);

/// The last answer of each turn.
const ANSWER: &str = "There is nothing pinned, neither here nor elsewhere; nothing at all, and there \
                      never was: neither in this workspace nor in any other that I could know of, \
                      wherever it may be, and whoever may have made it.";

impl Place {
    async fn events(&self, session: &SessionId) -> Vec<SessionEvent> {
        let store = self.store.open().await.expect("a store");
        store.session_events(session, 0, 1000).await.expect("events")
    }

    /// Returns a copy of a session that ends with this event, as if the process had died then.
    async fn killed_after(&self, session: &SessionId, seq: u64) -> SessionId {
        let store = self.store.open().await.expect("a store");
        let lease = store.fork_session(session, seq, &agent(), "died", TTL).await.expect("a copy");
        store.release_session(&lease).await.expect("released");
        lease.session()
    }
}

/// Takes a turn, and returns it with its warnings.
async fn turn(session: &mut Session, prompt: &str) -> (Turn, Vec<String>) {
    let tools = ready(Some(Arc::new(Snapshot::default())));
    let mut warnings = Vec::new();
    let mut on_event = |event: TurnEvent<'_>| {
        if let TurnEvent::Warning(text) = event {
            warnings.push(text.to_owned());
        }
    };
    let cancel = CancellationToken::new();
    let turn = session.turn(tools, prompt.into(), &cancel, &mut on_event).await;
    (turn.expect("there is a model"), warnings)
}

/// A model that calls tools if the prompt asks for it, and otherwise answers. It thinks, so that
/// its provider's conversation contains signed parts.
fn talkative(vendor: Vendor) -> FakeServer {
    let mut has_called = false;
    FakeServer::with(vendor, move |request| {
        let text = request.body.to_string();
        if text.contains("Write notes of at most about") {
            return Reply::answer().text("Notes.");
        }
        has_called = !has_called && ends_with(request, "call");
        if has_called {
            let command = json!({ "command": "/pinned" });
            Reply::answer()
                .thinking("Hm.")
                .text("Let me see.")
                .call("slash_command", &command)
                .call("slash_command", &command)
        } else {
            Reply::answer().thinking("Well.").text(ANSWER)
        }
    })
}

/// Returns whether the last text in a request is this prompt.
fn ends_with(request: &Received, prompt: &str) -> bool {
    let messages =
        ["input", "messages", "contents"].into_iter().find_map(|it| request.body.get(it));
    let last = messages.and_then(|it| it.as_array()?.last()).map(ToString::to_string);
    last.is_some_and(|last| last.contains(&format!("\"{prompt}\"")))
}

/// Has a conversation of three turns with calls and a compaction, and returns its session.
async fn talk(place: &Place, server: &FakeServer) -> SessionId {
    let mut session = place.session(server);
    session.keep();
    assert_eq!(session.kept(), None, "it begins with the first prompt");
    for prompt in ["call", "and now?", "call", "thanks"] {
        let (turn, warnings) = turn(&mut session, prompt).await;
        assert_eq!((turn.end, warnings), (TurnEnd::Answered, Vec::new()), "{prompt}");
    }
    let cancel = CancellationToken::new();
    let compacted = session.compact(None, &cancel, &mut |_| {}).await.expect("a model");
    assert!(compacted.is_some_and(|it| it.messages > 0), "{compacted:?}");
    let (turn, _) = turn(&mut session, "call").await;
    assert_eq!(turn.end, TurnEnd::Answered);
    let id = session.kept().expect("it is kept");
    assert_eq!(session.release().await, None);
    id
}

async fn resumes_after_a_kill_at_every_event(vendor: Vendor) {
    let (place, server) = (Place::new(), talkative(vendor));
    let id = talk(&place, &server).await;
    let events = place.events(&id).await;
    assert!(events.len() > 15, "{}", events.len());
    assert!(events.iter().any(|event| event.kind == "summarized"));
    for event in &events {
        let copy = place.killed_after(&id, event.seq).await;
        let mut session = place.session(&server);
        let resumed = session.resume(&copy).await.expect("a conversation");
        let had_calls = event.kind == "calls";
        assert_eq!(resumed.lost.len(), if had_calls { 2 } else { 0 }, "{vendor}: {event:?}");
        let ended = ["end", "model", "surroundings", "summarized", "shortened"]
            .contains(&event.kind.as_str());
        assert_eq!(resumed.unanswered.is_none(), ended, "{vendor}: {event:?}");
        let (turn, warnings) = turn(&mut session, "go on").await;
        assert_eq!((turn.end, warnings), (TurnEnd::Answered, Vec::new()), "{vendor}: {event:?}");
        if had_calls {
            let told = server.requests().pop().expect("a request").body.to_string();
            assert!(told.contains("It may have run"), "{vendor}: {told}");
        }
        // The log continues, and can be resumed.
        let transcript = session.transcript();
        assert_eq!(session.release().await, None);
        let log = place.events(&copy).await;
        assert_eq!(journal::replay(&log).expect("a log").transcript(), transcript, "{vendor}");
    }
    assert_eq!(server.violations(), Vec::<String>::new(), "{vendor}");
}

#[tokio::test]
async fn openai_goes_on_after_a_kill_at_every_event() {
    resumes_after_a_kill_at_every_event(Vendor::OpenAi).await;
}

#[tokio::test]
async fn openai_chat_goes_on_after_a_kill_at_every_event() {
    resumes_after_a_kill_at_every_event(Vendor::OpenAiChat).await;
}

#[tokio::test]
async fn anthropic_goes_on_after_a_kill_at_every_event() {
    resumes_after_a_kill_at_every_event(Vendor::Anthropic).await;
}

#[tokio::test]
async fn google_goes_on_after_a_kill_at_every_event() {
    resumes_after_a_kill_at_every_event(Vendor::Google).await;
}

#[tokio::test]
async fn another_provider_goes_on_with_a_kept_conversation() {
    for vendor in Vendor::ALL {
        let place = Place::new();
        let id = talk(&place, &talkative(vendor)).await;
        for other in Vendor::ALL.into_iter().filter(|other| *other != vendor) {
            let server = talkative(other);
            let mut session = place.session(&server);
            session.resume(&id).await.expect("a conversation");
            let (turn, _) = turn(&mut session, "call").await;
            assert_eq!(
                turn.end,
                TurnEnd::Answered,
                "{vendor} to {other}: {:?}",
                server.violations()
            );
            assert_eq!(server.violations(), Vec::<String>::new(), "{vendor} to {other}");
            assert_eq!(session.release().await, None);
            let store = place.store.open().await.expect("a store");
            let summary = store.session(&id).await.expect("the session");
            assert_eq!(summary.provider.as_deref(), Some(other.as_str()));
        }
    }
}

#[tokio::test]
async fn a_person_sees_where_the_talk_was_left() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    let id = talk(&place, &server).await;
    let mut session = place.session(&server);
    let Resumed { session: summary, last, unanswered, lost, before, has_notes } =
        session.resume(&id).await.expect("a conversation");
    assert_eq!(summary.title.as_deref(), Some("call"), "the first prompt is the title");
    assert_eq!((summary.turns, unanswered, lost.len(), has_notes), (5, None, 0, true));
    assert_eq!(last.prompt.as_deref(), Some("call"));
    assert_eq!(last.answer.as_deref(), Some(ANSWER));
    let before = before.expect("the surroundings of the last turn");
    let assets = place.assets();
    let none = Snapshot::default();
    let now = TurnSurroundings::now(&host(&place.scratch), Some(&assets), Some(&none)).await;
    assert_eq!(before.changes(&now), Vec::<String>::new());
    let usage = session.usage(None).await;
    assert!(usage.spent > 0, "what was spent counts: {usage:?}");
}

#[tokio::test]
async fn what_was_cleared_or_taken_back_stays_so() {
    let replies = [
        Reply::answer().text("Yes."),
        Reply::trouble(Trouble::Key),
        Reply::answer().text("New."),
        Reply::answer().text("Again."),
    ];
    let (place, server) = (Place::new(), FakeServer::start(Vendor::OpenAi, replies));
    let mut session = place.session(&server);
    session.keep();
    assert_eq!(turn(&mut session, "first").await.0.end, TurnEnd::Answered);
    assert!(matches!(turn(&mut session, "lost").await.0.end, TurnEnd::Failed(_)));
    session.clear();
    assert_eq!(turn(&mut session, "second").await.0.end, TurnEnd::Answered);
    let id = session.kept().expect("kept");
    session.clear();
    assert_eq!(session.release().await, None, "the last clearing is written");

    let mut session = place.session(&server);
    session.resume(&id).await.expect("a conversation");
    assert_eq!(session.messages(), []);
    assert_eq!(turn(&mut session, "third").await.0.end, TurnEnd::Answered);
    let replayed = journal::replay(&place.events(&id).await).expect("a log");
    assert_eq!(replayed.messages().len(), 2);
}

#[tokio::test]
async fn a_fork_leaves_the_original_as_it_was() {
    let (place, server) = (Place::new(), talkative(Vendor::Google));
    let id = talk(&place, &server).await;
    let before = place.events(&id).await;
    let mut session = place.session(&server);
    let resumed = session.fork(&id, Some(2)).await.expect("a fork");
    assert_eq!(resumed.session.turns, 2);
    assert_eq!(resumed.last.prompt.as_deref(), Some("and now?"));
    assert_eq!(turn(&mut session, "another way").await.0.end, TurnEnd::Answered);
    assert_ne!(session.kept(), Some(id));
    assert_eq!(place.events(&id).await, before);

    let error = session.fork(&id, Some(6)).await.expect_err("only five");
    assert!(error.to_string().ends_with("has 5 turns, not 6"), "{error}");
    assert_eq!(session.messages().len(), 8, "nothing has changed");
}

#[tokio::test]
async fn a_session_that_another_process_has_is_not_taken() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    let id = talk(&place, &server).await;
    let store = place.store.open().await.expect("a store");
    let lease = store.lease_session(&id, "another terminal", TTL).await.expect("a lease");
    let mut session = place.session(&server);
    let error = session.resume(&id).await.expect_err("held");
    assert!(matches!(error, ResumeError::Store(Error::SessionHeld { .. })), "{error}");
    assert!(error.to_string().contains("another terminal"), "{error}");
    session.fork(&id, None).await.expect("a fork needs no lease");
    store.release_session(&lease).await.expect("released");
}

#[tokio::test]
async fn a_terminal_that_lost_its_session_says_so_once_and_goes_on() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    let mut session = place.session(&server);
    session.keep();
    assert_eq!(turn(&mut session, "call").await.1, Vec::<String>::new());
    let id = session.kept().expect("kept");
    // Another process takes the session over, as it can after the lease has expired.
    let store = place.store.open().await.expect("a store");
    let owner = store.session(&id).await.expect("it").holder.expect("a holder").owner;
    let lease = store.lease_session(&id, &owner, TTL).await.expect("the same owner may");
    let events = place.events(&id).await.len();

    let (taken, warnings) = turn(&mut session, "call").await;
    assert_eq!(taken.end, TurnEnd::Answered);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.starts_with("another terminal continues this conversation"), "{warning}");
    assert_eq!(turn(&mut session, "call").await.1, Vec::<String>::new(), "only once");
    assert_eq!(place.events(&id).await.len(), events, "nothing more is written");
    let last = events as u64;
    let event = NewEvent { kind: "cleared", json: r#"{"v":1}"#, begins_turn: false };
    store.append_events(&lease, last, &[event], TTL).await.expect("the other one may");
}

#[tokio::test]
async fn a_store_that_cannot_be_written_stops_no_talk() {
    let scratch = tempfile::tempdir().expect("a directory");
    let dir = scratch.path().join("data");
    std::fs::create_dir(&dir).expect("a directory");
    // Every user may write there, so no store is created in it.
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&dir, everybody).expect("permissions");
    let (place, server) =
        (Place::at(StoreUrl::sqlite(dir.join("store.db"))), talkative(Vendor::OpenAiChat));
    let mut session = place.session(&server);
    session.keep();
    let (taken, warnings) = turn(&mut session, "hello").await;
    assert_eq!(taken.end, TurnEnd::Answered);
    let kept: Vec<_> = warnings.iter().filter(|it| it.contains("is not kept")).collect();
    assert_eq!(kept.len(), 1, "{warnings:?}");
    let (taken, warnings) = turn(&mut session, "hello").await;
    assert_eq!(taken.end, TurnEnd::Answered);
    assert!(!warnings.iter().any(|it| it.contains("is not kept")), "only once: {warnings:?}");
}

#[tokio::test]
async fn a_log_of_a_newer_program_is_refused_and_left_alone() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    let id = talk(&place, &server).await;
    let store = place.store.open().await.expect("a store");
    let last = place.events(&id).await.len() as u64;
    let lease = store.lease_session(&id, "newer", TTL).await.expect("a lease");
    let event = NewEvent { kind: "song", json: r#"{"v":2}"#, begins_turn: false };
    store.append_events(&lease, last, &[event], TTL).await.expect("written");
    store.release_session(&lease).await.expect("released");

    let mut session = place.session(&server);
    let error = session.resume(&id).await.expect_err("newer");
    assert!(
        matches!(error, ResumeError::Log { error: ReplayError::Newer { version: 2, .. }, .. }),
        "{error}"
    );
    assert_eq!(session.messages(), []);
    let summary = store.session(&id).await.expect("the session");
    assert_eq!(summary.holder, None, "it was given back");
}

#[tokio::test]
async fn without_keeping_nothing_is_written() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    let mut session = place.session(&server);
    assert_eq!(turn(&mut session, "call").await.0.end, TurnEnd::Answered);
    session.keep();
    assert_eq!(turn(&mut session, "call").await.0.end, TurnEnd::Answered);
    assert_eq!(session.kept(), None, "a log without its beginning would be no conversation");
    let store = place.store.open().await.expect("a store");
    let filter = SessionFilter { agent: &agent(), workspace: None };
    assert_eq!(store.sessions(&filter, None).await.expect("a list"), []);
}

#[tokio::test]
async fn what_other_conversations_spent_today_counts_for_the_day() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    talk(&place, &server).await;
    let mut first = place.session(&server);
    let spend = |day| Spend { session: None, day: Some(day) };
    first.set_spend(spend(10));
    let (taken, _) = turn(&mut first, "hello").await;
    let TurnEnd::Spent { per: SpendLimit::Day, spent, limit: 10 } = taken.end else {
        panic!("{taken:?}")
    };
    assert!(spent > 10, "{spent}");
    // The answers of the server cost 18 tokens each.
    first.set_spend(spend(spent + 18));
    assert_eq!(turn(&mut first, "hello").await.0.end, TurnEnd::Answered);
    let (taken, _) = turn(&mut first, "hello").await;
    assert!(matches!(taken.end, TurnEnd::Spent { .. }), "its own tokens count as well: {taken:?}");
}

#[tokio::test]
async fn sessions_are_removed_after_their_time_and_never_before() {
    let (place, server) = (Place::new(), talkative(Vendor::Anthropic));
    let id = talk(&place, &server).await;
    let assets = place.assets();
    let pruned = prune_sessions(&assets, SessionRetention::default()).await.expect("pruned");
    assert_eq!((pruned.removed, pruned.soon.len()), (0, 0));
    // With this retention, the session will be removed within a week, so it is listed in `soon`.
    let week = Duration::from_secs(7 * 24 * 60 * 60) + Duration::from_nanos(1000);
    let pruned = prune_sessions(&assets, SessionRetention::For(week)).await.expect("pruned");
    assert_eq!((pruned.removed, pruned.soon.first().map(|it| it.id)), (0, Some(id)));
    prune_sessions(&assets, SessionRetention::Forever).await.expect("nothing to do");
    let moment = SessionRetention::For(Duration::from_nanos(1000));
    assert_eq!(prune_sessions(&assets, moment).await.expect("pruned").removed, 1);
}
