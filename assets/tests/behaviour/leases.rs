//! The leases of sessions: one writer at a time, even if others believe that they hold the
//! session.

use std::time::Duration;

use ikigai_assets::{Budget, Capacity, Error, Lease, NewEvent, NewSession, Store, StoreOptions};
use ikigai_protocol::ToolCode;

use super::sessions::HOUR;
use crate::{Fixture, agent};

/// Makes a session, leased to `here`.
pub(crate) async fn begin(
    store: &Store,
    name: &str,
    workspace: &str,
    title: Option<&str>,
) -> Lease {
    let new = NewSession { workspace, title, provider: None, model: None };
    store.create_session(&agent(name), &new, "here", HOUR).await.expect("made")
}

/// Returns an event with this content.
pub(crate) fn event(json: &str) -> NewEvent<'_> {
    NewEvent { kind: "note", json, begins_turn: false }
}

/// Returns an event that begins a turn.
pub(crate) fn turn(json: &str) -> NewEvent<'_> {
    NewEvent { begins_turn: true, ..event(json) }
}

pub(crate) async fn append(store: &Store, lease: &Lease, after: u64, events: &[NewEvent<'_>]) {
    let last = store.append_events(lease, after, events, HOUR).await.expect("appended");
    assert_eq!(last, after + events.len() as u64);
}

async fn texts(store: &Store, lease: &Lease) -> Vec<String> {
    let events = store.session_events(&lease.session(), 0, 1000).await.expect("events");
    events.into_iter().map(|event| event.json).collect()
}

/// Checks that a lease can no longer be used.
async fn is_lost(store: &Store, lease: &Lease, after: u64) {
    let changes = ikigai_assets::SessionChanges::default();
    let errors = [
        store.append_events(lease, after, &[event("late")], HOUR).await.expect_err("lost"),
        store.renew_session(lease, HOUR).await.expect_err("lost"),
        store.describe_session(lease, &changes).await.expect_err("lost"),
        store.release_session(lease).await.expect_err("lost"),
    ];
    for error in errors {
        assert!(matches!(error, Error::SessionLost(id) if id == lease.session()), "{error:?}");
        assert_eq!(error.code(), ToolCode::WriteFailed);
        assert!(error.remedy().is_some());
    }
}

pub(crate) async fn one_holds_a_session(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let id = lease.session();
    append(&store, &lease, 0, &[event("1")]).await;
    let held = store.session(&id).await.expect("there").holder.expect("held");
    let error = store.lease_session(&id, "there", HOUR).await.expect_err("in use");
    let Error::SessionHeld { session, owner, until } = &error else { panic!("{error:?}") };
    assert_eq!((*session, &**owner, *until), (id, "here", held.until));
    assert_eq!(error.to_string(), format!("session `{id}` is in use by `here`"));
    append(&store, &lease, 1, &[event("2")]).await;
    store.release_session(&lease).await.expect("released");
    assert_eq!(store.session(&id).await.expect("there").holder, None);
    is_lost(&store, &lease, 2).await;
    let next = store.lease_session(&id, "there", HOUR).await.expect("free");
    append(&store, &next, 2, &[event("3")]).await;
    is_lost(&store, &lease, 3).await;
    assert_eq!(texts(&store, &next).await, ["1", "2", "3"]);
    // A process that restarts under the same name gets its session back.
    let again = store.lease_session(&id, "there", HOUR).await.expect("of the same owner");
    append(&store, &again, 3, &[event("4")]).await;
    is_lost(&store, &next, 4).await;
}

pub(crate) async fn an_expired_lease_is_taken_over(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let id = lease.session();
    store.append_events(&lease, 0, &[event("1")], Duration::ZERO).await.expect("appended");
    assert_eq!(store.session(&id).await.expect("there").holder, None);
    let other = store.lease_session(&id, "there", HOUR).await.expect("expired");
    is_lost(&store, &lease, 1).await;
    append(&store, &other, 1, &[event("2")]).await;
    is_lost(&store, &lease, 2).await;
    assert_eq!(texts(&store, &other).await, ["1", "2"]);
    assert_eq!(store.session(&id).await.expect("there").holder.expect("held").owner, "there");
}

pub(crate) async fn an_expired_lease_that_nobody_took_goes_on(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let holder = async || store.session(&lease.session()).await.expect("there").holder;
    store.renew_session(&lease, Duration::ZERO).await.expect("renewed");
    assert_eq!(holder().await, None);
    append(&store, &lease, 0, &[event("1")]).await;
    assert!(holder().await.is_some(), "an append renews it");
    store.renew_session(&lease, Duration::ZERO).await.expect("renewed");
    store.renew_session(&lease, Duration::MAX).await.expect("renewed");
    assert!(holder().await.is_some());
}

pub(crate) async fn appended_only_after_the_last(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    append(&store, &lease, 0, &[event("1"), event("2")]).await;
    for after in [0, 1, 3, u64::MAX] {
        let error = store.append_events(&lease, after, &[event("x")], HOUR).await;
        let error = error.expect_err("another is the last");
        let Error::SessionChanged { found, expected, .. } = error else { panic!("{error:?}") };
        assert_eq!((found, expected), (2, after));
    }
    assert_eq!(texts(&store, &lease).await, ["1", "2"]);
}

/// Two tasks with one lease write at once, as a copied process would.
pub(crate) async fn two_writers_with_one_lease_do_not_mix(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let write = async |name: &str| {
        let (mut rounds, mut last) = (0, 0);
        while last < 100 {
            let texts = [1, 2, 3].map(|part| format!("{name} {rounds} {part}"));
            let events = [event(&texts[0]), event(&texts[1]), event(&texts[2])];
            match store.append_events(&lease, last, &events, HOUR).await {
                Ok(now) => (last, rounds) = (now, rounds + 1),
                Err(Error::SessionChanged { found, .. }) => last = found,
                Err(error) => panic!("{error:?}"),
            }
        }
        rounds
    };
    let (a, b) = tokio::join!(write("a"), write("b"));
    let texts = texts(&store, &lease).await;
    assert_eq!(texts.len(), 3 * (a + b), "no round is lost, and none is there twice");
    for round in texts.chunks(3) {
        let of = |text: &str| text.rsplit_once(' ').map(|(of, _)| of.to_owned());
        assert!(round.iter().all(|text| of(text) == of(&round[0])), "{round:?}");
    }
}

pub(crate) async fn of_many_who_want_it_one_gets_it(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let id = lease.session();
    store.renew_session(&lease, Duration::ZERO).await.expect("renewed");
    let take = async |owner| match store.lease_session(&id, owner, HOUR).await {
        Ok(lease) => Some(lease),
        Err(Error::SessionHeld { .. }) => None,
        Err(error) => panic!("{error:?}"),
    };
    let (a, b, c, d) = tokio::join!(take("a"), take("b"), take("c"), take("d"));
    let got: Vec<_> = [a, b, c, d].into_iter().flatten().collect();
    assert_eq!(got.len(), 1, "{got:?}");
    append(&store, &got[0], 0, &[event("1")]).await;
    is_lost(&store, &lease, 1).await;
}

pub(crate) async fn a_dropped_append_leaves_all_or_nothing(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let round = [turn("1"), event("2"), event("3"), event("4")];
    let (mut last, mut dropped) = (0, 0);
    for step in 0..100 {
        // Dropped at another point of the transaction each time.
        let append = store.append_events(&lease, last, &round, HOUR);
        dropped += u32::from(!fixture.ended_within(1 + step % 40, append).await);
        last = store.session(&lease.session()).await.expect("there").events;
        assert_eq!(last % 4, 0, "step {step}: half a round");
    }
    assert!((1..100).contains(&dropped), "some were dropped and some were not: {dropped}");
    append(&store, &lease, last, &round).await;
    let session = store.session(&lease.session()).await.expect("there");
    assert_eq!((session.turns * 4, session.bytes), (last + 4, last + 4));
    assert_eq!(texts(&store, &lease).await.len() as u64, last + 4);
}

pub(crate) async fn no_budget_and_no_capacity_bounds_them(fixture: &Fixture<'_>) {
    let options =
        StoreOptions { budget: Budget(0), capacity: Capacity(0), ..StoreOptions::default() };
    let store = fixture.store_with(&options).await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    append(&store, &lease, 0, &[event(&"x".repeat(100_000))]).await;
    let usage = store.usage(&agent("ann@host")).await.expect("usage");
    assert_eq!((usage.assets, usage.tokens, usage.pinned_tokens), (0, 0, 0));
}
