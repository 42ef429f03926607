//! Kept conversations: their events, their forks, finding and removing them.

use std::time::{Duration, SystemTime};

use ikigai_assets::{
    Error, MAX_EVENT_BYTES, NewSession, SessionChanges, SessionEvent, SessionFilter, SessionId,
    SessionSummary, Store,
};
use ikigai_protocol::ToolCode;

use super::leases::{append, begin, event, turn};
use crate::{Fixture, agent};

/// The time of the leases: longer than any test takes.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

async fn events(store: &Store, id: &SessionId) -> Vec<SessionEvent> {
    store.session_events(id, 0, 1000).await.expect("events")
}

fn texts(events: &[SessionEvent]) -> Vec<&str> {
    events.iter().map(|event| &*event.json).collect()
}

async fn listed(store: &Store, name: &str, workspace: Option<&str>) -> Vec<SessionSummary> {
    let agent = agent(name);
    store.sessions(&SessionFilter { agent: &agent, workspace }, None).await.expect("listed")
}

fn ids(sessions: &[SessionSummary]) -> Vec<SessionId> {
    sessions.iter().map(|session| session.id).collect()
}

pub(crate) async fn every_text_is_kept_exactly(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let described = NewSession {
        workspace: "/home/ann/two\nlines \u{202e}",
        title: Some("  Überraschung 🎉 'quoted' \\ % _ "),
        provider: Some("anthropic"),
        model: Some("a-model"),
    };
    let lease = store.create_session(&agent("ann@host"), &described, "here", HOUR).await;
    let lease = lease.expect("made");
    let written = [
        "{\"b\":1,\"a\":[1.0,1e400,12345678901234567890]}",
        "no JSON, with a NUL \0 and a lone \\ud800",
        "",
        "\u{feff}\u{1f980}\r\n",
    ];
    let new: Vec<_> = written.iter().map(|text| event(text)).collect();
    assert_eq!(store.append_events(&lease, 0, &new, HOUR).await.expect("appended"), 4);
    let id = lease.session();
    let kept = events(&store, &id).await;
    assert_eq!(texts(&kept), written);
    assert_eq!(kept.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(kept.iter().all(|event| event.kind == "note" && !event.begins_turn), "{kept:?}");
    let session = store.session(&id).await.expect("there");
    assert_eq!(session.workspace, described.workspace);
    assert_eq!(session.title.as_deref(), described.title);
    assert_eq!(session.provider.as_deref(), described.provider);
    assert_eq!(session.model.as_deref(), described.model);
    assert_eq!((session.agent, session.forked_from), (agent("ann@host"), None));
    let parsed: SessionId = id.to_string().parse().expect("an id");
    assert_eq!((parsed, id.to_string().len()), (id, 36));
}

pub(crate) async fn counts_are_those_of_the_events(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let counts = async || {
        let session = store.session(&lease.session()).await.expect("there");
        (session.events, session.turns, session.bytes)
    };
    assert_eq!(counts().await, (0, 0, 0));
    let begun = store.session(&lease.session()).await.expect("there");
    assert_eq!(begun.created_at, begun.updated_at);
    append(&store, &lease, 0, &[turn("ä"), event("four")]).await;
    assert_eq!(counts().await, (2, 1, 6));
    append(&store, &lease, 2, &[turn("1"), turn("")]).await;
    assert_eq!(counts().await, (4, 3, 7));
    append(&store, &lease, 4, &[]).await;
    assert_eq!(counts().await, (4, 3, 7));
    let now = store.session(&lease.session()).await.expect("there");
    assert_eq!(now.created_at, begun.created_at);
    assert!(now.updated_at > begun.updated_at, "{now:?}");
}

pub(crate) async fn events_are_read_in_parts(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let written: Vec<_> = (1..=25).map(|number| number.to_string()).collect();
    let new: Vec<_> = written.iter().map(|text| event(text)).collect();
    append(&store, &lease, 0, &new).await;
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let part = store.session_events(&lease.session(), after, 10).await.expect("a part");
        assert!(part.len() <= 10, "{}", part.len());
        let Some(last) = part.last() else { break };
        after = last.seq;
        read.extend(part);
    }
    assert_eq!(texts(&read), written);
    assert!(store.session_events(&lease.session(), 0, 0).await.expect("none").is_empty());
}

pub(crate) async fn forks_leave_the_original_as_it_was(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", Some("a title")).await;
    let original = lease.session();
    append(&store, &lease, 0, &[turn("one"), event("1"), turn("two"), event("2")]).await;
    let (before, written) =
        (store.session(&original).await.expect("there"), events(&store, &original).await);
    // The original is in use, which makes no difference.
    let fork =
        store.fork_session(&original, 3, &agent("bob"), "there", HOUR).await.expect("forked");
    let session = store.session(&fork.session()).await.expect("there");
    assert_eq!((session.events, session.turns, session.bytes), (3, 2, 7));
    assert_eq!((session.forked_from, session.agent), (Some(original), agent("bob")));
    assert_eq!((&*session.workspace, session.title.as_deref()), ("/w", Some("a title")));
    assert_eq!(session.holder.expect("leased").owner, "there");
    assert_eq!(events(&store, &fork.session()).await, written[..3], "with their times");
    append(&store, &fork, 3, &[event("other")]).await;
    append(&store, &lease, 4, &[event("more")]).await;
    assert_eq!(texts(&events(&store, &original).await), ["one", "1", "two", "2", "more"]);
    assert_eq!(texts(&events(&store, &fork.session()).await), ["one", "1", "two", "other"]);
    assert_eq!(store.session(&original).await.expect("there").created_at, before.created_at);
    let empty = store.fork_session(&original, 0, &agent("bob"), "there", HOUR).await;
    let empty = empty.expect("a fork before the first event");
    assert!(events(&store, &empty.session()).await.is_empty());
    let error = store.fork_session(&original, 6, &agent("bob"), "there", HOUR).await;
    let error = error.expect_err("the original has five events");
    assert!(matches!(error, Error::NoEvent { seq: 6, .. }), "{error:?}");
    store.remove_session(&original, "here").await.expect("removed");
    assert_eq!(events(&store, &fork.session()).await.len(), 4, "a fork outlives the original");
    assert_eq!(listed(&store, "bob", None).await.len(), 2);
}

pub(crate) async fn a_turn_ends_where_the_next_begins(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let id = lease.session();
    assert_eq!(store.end_of_turn(&id, 0).await.expect("there"), 0, "there is nothing yet");
    let events = [event("model"), turn("1"), event("a"), turn("2"), event("b")];
    append(&store, &lease, 0, &events).await;
    for (turns, last) in [(0, 1), (1, 3), (2, 5), (3, 5), (u64::MAX, 5)] {
        assert_eq!(store.end_of_turn(&id, turns).await.expect("there"), last, "{turns}");
    }
    store.remove_session(&id, "here").await.expect("removed");
    assert!(matches!(store.end_of_turn(&id, 0).await, Err(Error::NoSession(_))));
}

pub(crate) async fn the_newest_is_listed_first(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let mut leases = Vec::new();
    for workspace in ["/a", "/b", "/a"] {
        leases.push(begin(&store, "ann@host", workspace, None).await);
    }
    begin(&store, "bob", "/a", None).await;
    let [first, second, third] = [0, 1, 2].map(|index: usize| leases[index].session());
    assert!(first < second && second < third, "ids sort by their time");
    assert_eq!(ids(&listed(&store, "ann@host", None).await), [third, second, first]);
    assert_eq!(ids(&listed(&store, "ann@host", Some("/a")).await), [third, first]);
    append(&store, &leases[0], 0, &[event("1")]).await;
    assert_eq!(ids(&listed(&store, "ann@host", None).await), [first, third, second]);
    assert_eq!(ids(&listed(&store, "ann@host", Some("/a")).await), [first, third]);
    store.rename_session(&second, "renamed").await.expect("renamed");
    store.renew_session(&leases[1], HOUR).await.expect("renewed");
    assert_eq!(ids(&listed(&store, "ann@host", None).await), [first, third, second]);
    let ann = agent("ann@host");
    let filter = SessionFilter { agent: &ann, workspace: None };
    assert_eq!(ids(&store.sessions(&filter, Some(2)).await.expect("listed")), [first, third]);
    for nowhere in ["/", "", "/a\0", "/A"] {
        assert!(listed(&store, "ann@host", Some(nowhere)).await.is_empty(), "{nowhere:?}");
    }
    assert!(listed(&store, "ANN@host", None).await.is_empty());
}

pub(crate) async fn a_list_says_what_each_session_says(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    assert!(listed(&store, "ann@host", None).await.is_empty());
    // A text in which a line, an array or a text seems to end.
    let workspace = "/w/\"],\n[\r\n\\u0041\t\u{1}\u{2028} é 世 🎉 ";
    let described = NewSession {
        workspace,
        title: Some("\"],[\" \\n é 世 🎉 \u{2028}"),
        provider: Some("null"),
        model: Some("1"),
    };
    let held = store.create_session(&agent("ann@host"), &described, "\"he\\re\"", HOUR).await;
    let held = held.expect("made");
    append(&store, &held, 0, &[turn("one"), event("two")]).await;
    let fork = store.fork_session(&held.session(), 1, &agent("ann@host"), "there", HOUR).await;
    let fork = fork.expect("forked");
    let bare = begin(&store, "ann@host", workspace, None).await;
    store.release_session(&bare).await.expect("released");
    let elsewhere = begin(&store, "ann@host", "/w/", Some("elsewhere")).await;
    begin(&store, "bob", workspace, None).await;
    let mut all = Vec::new();
    for lease in [&elsewhere, &bare, &fork, &held] {
        all.push(store.session(&lease.session()).await.expect("there"));
    }
    assert!(all[1].holder.is_none() && all[2].holder.is_some() && all[2].forked_from.is_some());
    assert_eq!(listed(&store, "ann@host", None).await, all);
    assert_eq!(listed(&store, "ann@host", Some(workspace)).await, all[1..]);
    let agent = agent("ann@host");
    let filter = SessionFilter { agent: &agent, workspace: None };
    for limit in [0, 1, 3] {
        let first = store.sessions(&filter, Some(limit)).await.expect("listed");
        assert_eq!(first, all[..limit as usize]);
    }
}

pub(crate) async fn found_by_id_or_title(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let found = async |text: &str| {
        let found = store.find_sessions(&agent("ann@host"), text).await.expect("found");
        ids(&found)
    };
    let mut same = Vec::new();
    for _ in 0..100 {
        same.push(begin(&store, "ann@host", "/w", Some("The same")).await.session());
    }
    same.reverse();
    let parser = begin(&store, "ann@host", "/w", Some("Fix the parser")).await.session();
    let longer = begin(&store, "ann@host", "/w", Some("the SAME again, ÄRGER")).await.session();
    let untitled = begin(&store, "ann@host", "/w", None).await.session();
    begin(&store, "bob", "/w", Some("The same")).await;
    assert_eq!(found("The same").await, same, "all that are alike, the newest first");
    let parts = [&[longer][..], &same].concat();
    assert_eq!(found("the same").await, parts, "no title is written so: parts in any case");
    assert_eq!(found("parser").await, [parser]);
    assert_eq!(found("ärger").await, [longer]);
    assert_eq!(found(&untitled.to_string()).await, [untitled]);
    assert_eq!(found(&untitled.to_string().to_uppercase()).await, [untitled]);
    assert_eq!(found(&untitled.to_string()[..35]).await.first(), Some(&untitled));
    // All ids of this time begin with the same characters.
    assert_eq!(found(&untitled.to_string()[..4]).await.len(), 103);
    assert_eq!(found(&untitled.to_string()[..1]).await, [], "too short for an id");
    for text in ["", "nothing", "%", "_ame", "\0"] {
        assert_eq!(found(text).await, [], "{text:?}");
    }
    store.rename_session(&untitled, &parser.to_string()).await.expect("renamed");
    assert_eq!(found(&parser.to_string()).await, [parser], "an id before a title");
}

pub(crate) async fn described_anew(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", None).await;
    let description = async || {
        let session = store.session(&lease.session()).await.expect("there");
        [session.title, session.provider, session.model]
    };
    let some = |text: &str| Some(text.to_owned());
    let changes = SessionChanges { title: Some("t"), ..SessionChanges::default() };
    store.describe_session(&lease, &changes).await.expect("described");
    assert_eq!(description().await, [some("t"), None, None]);
    let changes = SessionChanges { provider: Some("p"), model: Some("m"), title: None };
    store.describe_session(&lease, &changes).await.expect("described");
    assert_eq!(description().await, [some("t"), some("p"), some("m")]);
    store.rename_session(&lease.session(), "new").await.expect("renamed");
    assert_eq!(description().await, [some("new"), some("p"), some("m")]);
}

pub(crate) async fn unfit_texts_are_refused(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", Some("kept")).await;
    let (id, long) = (lease.session(), "x".repeat(513));
    for title in ["", "two\nlines", "\u{1b}[2J", "a\u{202e}b", "\0", &long] {
        let error = store.rename_session(&id, title).await.expect_err(title);
        assert_eq!(error.code(), ToolCode::InvalidArg, "{error:?}");
        assert_eq!(
            error.to_string(),
            "the title of a session has 1 to 512 bytes and no control characters"
        );
        let changes = SessionChanges { model: Some(title), ..SessionChanges::default() };
        store.describe_session(&lease, &changes).await.expect_err(title);
        store.lease_session(&id, title, HOUR).await.expect_err(title);
    }
    let nul = NewSession { workspace: "a\0", title: None, provider: None, model: None };
    let error = store.create_session(&agent("ann@host"), &nul, "here", HOUR).await;
    let error = error.expect_err("PostgreSQL could not keep it").to_string();
    assert_eq!(error, "the workspace of a session has 1 to 4096 bytes and no NUL");
    let mut unfit = event("1");
    unfit.kind = "two\nlines";
    store.append_events(&lease, 0, &[event("0"), unfit], HOUR).await.expect_err("no word");
    let size = usize::try_from(MAX_EVENT_BYTES).expect("fits") + 1;
    let large = "x".repeat(size);
    let error = store.append_events(&lease, 0, &[event("0"), event(&large)], HOUR).await;
    let error = error.expect_err("too large");
    assert!(matches!(error, Error::EventTooLarge { size: 67_108_865, .. }), "{error:?}");
    assert_eq!(error.code(), ToolCode::InvalidArg);
    assert!(events(&store, &id).await.is_empty(), "nothing of what was refused is there");
    append(&store, &lease, 0, &[event(&large[1..])]).await;
    let session = store.session(&id).await.expect("there");
    assert_eq!((session.bytes, session.title.as_deref()), (MAX_EVENT_BYTES, Some("kept")));
    for text in ["", "x", "019", "not-an-id\u{1b}[2J"] {
        let error = text.parse::<SessionId>().expect_err(text);
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
}

pub(crate) async fn removed_with_all_events(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let lease = begin(&store, "ann@host", "/w", Some("x")).await;
    let (id, other) = (lease.session(), begin(&store, "ann@host", "/w", Some("y")).await);
    append(&store, &lease, 0, &[event("1")]).await;
    append(&store, &other, 0, &[event("2")]).await;
    let error = store.remove_session(&id, "elsewhere").await.expect_err("in use");
    assert!(matches!(&error, Error::SessionHeld { owner, .. } if owner == "here"), "{error:?}");
    assert_eq!(events(&store, &id).await.len(), 1);
    store.remove_session(&id, "here").await.expect("by the holder");
    let missing = [
        store.session(&id).await.expect_err("gone"),
        store.session_events(&id, 0, 9).await.expect_err("gone"),
        store.append_events(&lease, 1, &[event("2")], HOUR).await.expect_err("gone"),
        store.renew_session(&lease, HOUR).await.expect_err("gone"),
        store.release_session(&lease).await.expect_err("gone"),
        store.lease_session(&id, "here", HOUR).await.expect_err("gone"),
        store.rename_session(&id, "x").await.expect_err("gone"),
        store.remove_session(&id, "here").await.expect_err("gone"),
        store.fork_session(&id, 0, &agent("bob"), "here", HOUR).await.expect_err("gone"),
    ];
    for error in missing {
        assert!(matches!(error, Error::NoSession(missing) if missing == id), "{error:?}");
        assert_eq!(error.code(), ToolCode::FileNotFound);
    }
    assert_eq!(texts(&events(&store, &other.session()).await), ["2"], "the other is as it was");
    store.release_session(&other).await.expect("released");
    store.remove_session(&other.session(), "anybody").await.expect("nobody holds it");
}

pub(crate) async fn pruned_by_age(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let mut ended = Vec::new();
    for name in ["ann@host", "ann@host", "bob"] {
        let lease = begin(&store, name, "/w", None).await;
        append(&store, &lease, 0, &[event("1")]).await;
        store.release_session(&lease).await.expect("released");
        ended.push(lease.session());
    }
    let in_use = begin(&store, "ann@host", "/w", None).await.session();
    let ann = agent("ann@host");
    assert!(store.sessions_older_than(&ann, HOUR).await.expect("read").is_empty());
    assert_eq!(store.prune_sessions(&ann, HOUR).await.expect("pruned"), 0);
    assert_eq!(store.prune_sessions(&ann, Duration::MAX).await.expect("pruned"), 0);
    let due = store.sessions_older_than(&ann, Duration::ZERO).await.expect("read");
    assert_eq!(ids(&due), ended[..2], "the oldest first, and none that is in use");
    assert_eq!(store.prune_sessions(&ann, Duration::ZERO).await.expect("pruned"), 2);
    assert_eq!(ids(&listed(&store, "ann@host", None).await), [in_use]);
    assert_eq!(ids(&listed(&store, "bob", None).await), [ended[2]]);
}

pub(crate) async fn times_are_of_now(fixture: &Fixture<'_>) {
    let store = fixture.store().await;
    let begun = SystemTime::now();
    let lease = begin(&store, "ann@host", "/w", None).await;
    append(&store, &lease, 0, &[event("1")]).await;
    let session = store.session(&lease.session()).await.expect("there");
    let written = events(&store, &lease.session()).await[0].written_at;
    let ended = SystemTime::now();
    // A store keeps microseconds; the servers of the tests have the clock of this host.
    let begun = begun - Duration::from_micros(1);
    for time in [session.created_at, session.updated_at, written] {
        assert!(begun <= time && time <= ended, "{begun:?} {time:?} {ended:?}");
    }
    let until = session.holder.expect("leased").until;
    assert!(begun + HOUR <= until && until <= ended + HOUR, "{until:?}");
}
