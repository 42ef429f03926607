//! Long conversations: they stay within the model's window, and nothing important is lost.

use std::fs;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ikigai_agent::assets::StoredAssets;
use ikigai_agent::{
    CompactAt, Compacted, Model, Session, SessionAssets, Spend, SpendLimit, Turn, TurnEnd,
    TurnEvent,
};
use ikigai_assets::{Agent, AssetPath, Budget, Capacity, StoreUrl};
use ikigai_host::registry::{ScanDepth, Snapshot};
use ikigai_provider_testing::{FakeServer, Received, Reply, Trouble, Vendor};
use ikigai_tests::mode::permit;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::agent::session::{host, model};

/// The window of the model.
const WINDOW: u64 = 32_000;

/// The number of characters in each result of the tool.
const RESULT: usize = 40_000;

/// A session with one tool, whose results are long, and a model with a small window.
struct Talk {
    session: Session,
    tools: Arc<Snapshot>,
    server: FakeServer,
    store: Arc<StoredAssets>,
    told: Told,
    _scratch: TempDir,
}

/// The warnings and compactions of a conversation.
#[derive(Clone, Debug, Default)]
struct Told {
    warnings: Vec<String>,
    compacted: Vec<Compacted>,
}

impl Talk {
    async fn new(server: FakeServer, context: Option<u64>) -> Self {
        let scratch = tempfile::tempdir().expect("a directory");
        write_tool(&scratch);
        let budget = Budget::default();
        let store = Arc::new(StoredAssets::at(Ok(StoreUrl::memory()), budget, Capacity::default()));
        let agent = Agent::new("tester@here").expect("a name");
        let assets = SessionAssets {
            store: Arc::clone(&store),
            budget: budget.0,
            agent,
            is_principal: false,
        };
        let host = host(&scratch);
        let tools = host.registry().scan(ScanDepth::Remembered).await;
        assert!(tools.get("long").is_some(), "{:?}", tools.warnings());
        let model = Model { context, max_tokens: Some(4000), ..model(&server) };
        let session = Session::new(host, Some(assets), Some(model));
        Self { session, tools, server, store, told: Told::default(), _scratch: scratch }
    }

    async fn turn(&mut self, prompt: &str) -> Turn {
        let Self { session, tools, told, .. } = self;
        let tools = ready(Some(Arc::clone(tools)));
        let cancel = CancellationToken::new();
        let mut on_event = |event: TurnEvent<'_>| match event {
            TurnEvent::Warning(text) => told.warnings.push(text.to_owned()),
            TurnEvent::Compacted(compacted) => told.compacted.push(compacted),
            _ => {}
        };
        let turn = session.turn(tools, prompt.into(), &cancel, &mut on_event).await;
        turn.expect("there is a model")
    }

    async fn compact(&mut self) -> Option<Compacted> {
        let Self { session, told, .. } = self;
        let cancel = CancellationToken::new();
        let mut on_event = |event: TurnEvent<'_>| {
            if let TurnEvent::Warning(text) = event {
                told.warnings.push(text.to_owned());
            }
        };
        session.compact(None, &cancel, &mut on_event).await.expect("there is a model")
    }

    /// Returns the whole text of the next request.
    fn text(&self) -> String {
        self.session.transcript().to_string()
    }

    #[track_caller]
    fn assert_valid(&self) {
        assert_eq!(self.server.violations(), Vec::<String>::new());
    }
}

/// Writes the tool `long`, which prints lines of text.
fn write_tool(scratch: &TempDir) {
    let tools = scratch.path().join("tools");
    fs::create_dir_all(&tools).expect("a directory");
    let line = format!("{}\\n", "x".repeat(98));
    let answer = format!("{{\"output\":\"{}\"}}", line.repeat(RESULT / 99 + 1));
    fs::write(scratch.path().join("answer.json"), answer).expect("written");
    let schema = json!({
        "name": "long",
        "description": "Prints a long text",
        "parameters": { "type": "object", "properties": {} },
    });
    let answer = scratch.path().join("answer.json");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --schema ] && exec echo '{schema}'\nexec cat '{}'\n",
        answer.display()
    );
    let path = tools.join("long");
    fs::write(&path, script).expect("written");
    permit(&path, 0o755);
}

/// Returns the number of tokens in a request, as a vendor could count them.
fn tokens(request: &Received) -> u64 {
    request.body.to_string().len() as u64 / 4
}

/// Returns whether a request asks for notes.
fn asks_for_notes(request: &Received) -> bool {
    request.body.to_string().contains("Write notes of at most about")
}

/// Returns a model that calls `long` `calls` times in each turn, and writes notes when it is asked
/// for them.
fn busy(vendor: Vendor, calls: usize, notes: impl Fn() -> Reply + Send + 'static) -> FakeServer {
    let mut called = 0;
    FakeServer::with(vendor, move |request| {
        let tokens = tokens(request);
        if tokens > WINDOW {
            return Reply::trouble(Trouble::TooLong);
        }
        if asks_for_notes(request) {
            return notes();
        }
        let reply = if called < calls {
            called += 1;
            Reply::answer().text(&"Again. ".repeat(200)).call("long", &json!({}))
        } else {
            called = 0;
            Reply::answer().text("Done.")
        };
        reply.usage(tokens, 20)
    })
}

fn notes() -> Reply {
    Reply::answer().text("The user has the tool `long` print texts, again and again.")
}

async fn talk_of_300_rounds(vendor: Vendor) {
    let largest = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&largest);
    let mut called = 0;
    let server = FakeServer::with(vendor, move |request| {
        let tokens = tokens(request);
        seen.fetch_max(tokens, Ordering::Relaxed);
        if tokens > WINDOW {
            return Reply::trouble(Trouble::TooLong);
        }
        let reply = match (asks_for_notes(request), called) {
            (true, _) => notes(),
            (false, ..10) => {
                called += 1;
                Reply::answer().text("Again.").call("long", &json!({}))
            }
            // The model answers from the first turn.
            (false, _) => {
                called = 0;
                let asked = request.body.to_string().contains("the word is heliotrope");
                Reply::answer().text(if asked { "heliotrope" } else { "I do not know." })
            }
        };
        reply.usage(tokens, 20)
    });
    let mut talk = Talk::new(server, Some(WINDOW)).await;
    let turn = talk.turn("Remember: the word is heliotrope.").await;
    assert_eq!((&turn.end, turn.rounds), (&TurnEnd::Answered, 11), "{vendor}");
    for number in 2..=28 {
        let turn = talk.turn(&format!("Go on, for the {number}th time.")).await;
        assert_eq!(turn.end, TurnEnd::Answered, "{vendor}: turn {number}");
        assert_eq!(turn.answer.as_deref(), Some("heliotrope"), "{vendor}: turn {number}");
    }
    assert!(largest.load(Ordering::Relaxed) <= WINDOW, "{vendor}: {largest:?}");
    assert_eq!(talk.told.warnings, Vec::<String>::new(), "{vendor}");
    assert!(talk.told.compacted.iter().any(|it| it.results > 0), "{vendor}: {:?}", talk.told);
    assert!(talk.told.compacted.iter().any(|it| it.messages > 0), "{vendor}: {:?}", talk.told);
    talk.assert_valid();
}

#[tokio::test]
async fn a_talk_of_300_rounds_stays_in_the_window_of_openai() {
    talk_of_300_rounds(Vendor::OpenAi).await;
}

#[tokio::test]
async fn a_talk_of_300_rounds_stays_in_the_window_of_openai_chat() {
    talk_of_300_rounds(Vendor::OpenAiChat).await;
}

#[tokio::test]
async fn a_talk_of_300_rounds_stays_in_the_window_of_anthropic() {
    talk_of_300_rounds(Vendor::Anthropic).await;
}

#[tokio::test]
async fn a_talk_of_300_rounds_stays_in_the_window_of_google() {
    talk_of_300_rounds(Vendor::Google).await;
}

#[tokio::test]
async fn one_turn_of_many_rounds_keeps_its_request() {
    let mut talk = Talk::new(busy(Vendor::Anthropic, 120, notes), Some(WINDOW)).await;
    talk.session.set_max_rounds(200);
    let turn = talk.turn("Print it 120 times, please.").await;
    assert_eq!((turn.end, turn.rounds), (TurnEnd::Answered, 121));
    assert!(talk.text().contains("Print it 120 times, please."), "{}", talk.text());
    assert!(talk.told.compacted.iter().any(|it| it.messages > 0), "{:?}", talk.told);
    assert_eq!(talk.told.warnings, Vec::<String>::new());
    talk.assert_valid();
}

#[tokio::test]
async fn a_result_that_is_left_out_is_kept_whole() {
    let mut talk = Talk::new(busy(Vendor::OpenAi, 5, notes), Some(WINDOW)).await;
    assert_eq!(talk.turn("Print it.").await.end, TurnEnd::Answered);
    let text = talk.text();
    let mark = "characters was left out to make room. The whole is kept as ikigai:///";
    let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("{text}"));
    let (path, _) = rest.split_once(':').expect("an end");
    let store = talk.store.open().await.expect("a store");
    let kept = store.read(&AssetPath::parse(path).expect("a path")).await.expect("kept");
    assert!(kept.content.len() >= RESULT, "{} bytes", kept.content.len());
    assert!(text.contains(&"x".repeat(98)), "the newest result stays");
    talk.assert_valid();
}

#[tokio::test]
async fn a_refusal_for_the_length_makes_room_once_and_is_learned_from() {
    for vendor in Vendor::ALL {
        // The window is not in the configuration.
        let mut talk = Talk::new(busy(vendor, 12, notes), None).await;
        let turn = talk.turn("Print it.").await;
        assert_eq!((&turn.end, turn.rounds), (&TurnEnd::Answered, 13), "{vendor}: {:?}", talk.told);
        assert!(!talk.told.compacted.is_empty(), "{vendor}");
        talk.assert_valid();
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_made_shorter_fails() {
    let server = FakeServer::with(Vendor::Anthropic, |_| Reply::trouble(Trouble::TooLong));
    let mut talk = Talk::new(server, None).await;
    let turn = talk.turn("hello").await;
    assert!(matches!(turn.end, TurnEnd::Failed(_)), "{turn:?}");
    assert_eq!(
        talk.server.requests().len(),
        1,
        "nothing was made shorter, so nothing is sent again"
    );
    assert_eq!(talk.session.messages(), [], "the prompt is taken back");
}

/// Takes three turns of one call, which are small enough for the window.
async fn three_turns(notes: impl Fn() -> Reply + Send + 'static) -> Talk {
    let mut talk = Talk::new(busy(Vendor::Anthropic, 1, notes), Some(200_000)).await;
    for prompt in ["the first request", "the second request", "the third request"] {
        assert_eq!(talk.turn(prompt).await.end, TurnEnd::Answered);
    }
    talk
}

#[tokio::test]
async fn a_command_makes_notes_of_all_but_the_last_two_turns() {
    let mut talk = three_turns(notes).await;
    let compacted = talk.compact().await.expect("older turns");
    assert_eq!((compacted.results, compacted.messages), (1, 4), "{compacted}");
    assert!(compacted.after.tokens < compacted.before.tokens, "{compacted}");
    let shown = compacted.to_string();
    assert!(
        shown.starts_with("Made room in the conversation: 1 result left out, 4 messages"),
        "{shown}"
    );
    let text = talk.text();
    for kept in ["the first request", "the second request", "the third request", "again and again"]
    {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    let asked = talk.server.requests().pop().expect("a request for notes").body;
    let tools = asked["tools"].as_array();
    assert!(tools.is_none_or(Vec::is_empty), "nothing can be called: {asked}");
    let quoted = asked["messages"][0]["content"].to_string();
    assert!(quoted.contains("User: the first request"), "{quoted}");
    assert!(!quoted.contains("the second request"), "{quoted}");

    assert_eq!(talk.turn("go on").await.end, TurnEnd::Answered);
    assert_eq!(talk.told.warnings, Vec::<String>::new());
    talk.assert_valid();
}

#[tokio::test]
async fn notes_that_are_no_use_change_nothing() {
    let long = || Reply::answer().text(&"long notes ".repeat(20_000));
    type Make = fn() -> Reply;
    let refusals: [(Make, &str); 4] = [
        (|| Reply::answer().text(" \n").text("\n"), "empty"),
        (|| Reply::trouble(Trouble::Forbidden), "did not answer"),
        (|| Reply::answer().text("half").refused("safety"), "refused"),
        (long, "not shorter"),
    ];
    for (notes, reason) in refusals {
        let mut talk = three_turns(notes).await;
        let prompts = |talk: &Talk| talk.session.messages().len();
        let before = prompts(&talk);
        let compacted = talk.compact().await.expect("results are left out all the same");
        assert_eq!((compacted.results, compacted.messages), (1, 0), "{reason}");
        assert_eq!(prompts(&talk), before, "{reason}");
        let [warning] = &talk.told.warnings[..] else { panic!("{reason}: {:?}", talk.told) };
        assert!(warning.contains(reason), "{warning}");
        assert!(warning.starts_with("older turns stay in the conversation: "), "{warning}");
        assert_eq!(talk.turn("go on").await.end, TurnEnd::Answered, "{reason}");
        talk.assert_valid();
    }
}

#[tokio::test]
async fn nothing_older_is_nothing_to_make_notes_of() {
    let mut talk = Talk::new(busy(Vendor::Google, 1, notes), None).await;
    assert_eq!(talk.compact().await, None);
    assert_eq!(talk.turn("Print it.").await.end, TurnEnd::Answered);
    assert_eq!(talk.compact().await, None);
    assert_eq!(talk.server.requests().len(), 2, "no notes are asked for");
}

#[tokio::test]
async fn a_number_of_tokens_takes_the_place_of_an_unknown_window() {
    let mut talk = Talk::new(busy(Vendor::OpenAiChat, 8, notes), None).await;
    talk.session.set_compact_at(CompactAt::Tokens(20_000));
    assert_eq!(talk.turn("Print it.").await.end, TurnEnd::Answered);
    assert!(!talk.told.compacted.is_empty());
    let requests = talk.server.requests();
    let largest = requests.iter().map(tokens).max().expect("requests");
    assert!(largest < 24_000, "{largest}");
}

#[tokio::test]
async fn a_session_stops_before_it_spends_more_than_it_may() {
    let mut talk = Talk::new(busy(Vendor::Anthropic, 8, notes), Some(200_000)).await;
    let spend = Spend { session: Some(30_000), day: None };
    talk.session.set_spend(spend);
    let turn = talk.turn("Print it.").await;
    let TurnEnd::Spent { per: SpendLimit::Session, spent, limit } = turn.end else {
        panic!("{turn:?}")
    };
    assert!(spent >= 30_000 && limit == 30_000, "{spent}");
    assert!(turn.rounds < 8, "{turn:?}");
    let usage = talk.session.usage(None).await;
    assert_eq!((usage.spent, usage.spend), (spent, spend));

    // No request is sent, and the next prompt is rolled back.
    let before = talk.session.messages().len();
    let turn = talk.turn("go on").await;
    assert!(matches!(turn.end, TurnEnd::Spent { .. }) && turn.rounds == 0, "{turn:?}");
    assert!(talk.session.messages().len() <= before + 1);
    talk.session.set_spend(Spend::default());
    assert_eq!(talk.turn("go on").await.end, TurnEnd::Answered);
    talk.assert_valid();
}

#[tokio::test]
async fn the_size_of_a_request_is_what_the_provider_says() {
    let mut talk = Talk::new(busy(Vendor::Google, 1, notes), Some(WINDOW)).await;
    let estimate = talk.session.usage(Some(&talk.tools)).await;
    assert!(estimate.request.is_estimate && estimate.results.tokens == 0, "{estimate:?}");
    assert_eq!(talk.turn("Print it.").await.end, TurnEnd::Answered);
    let usage = talk.session.usage(Some(&talk.tools)).await;
    let counted = talk.server.requests().last().map(tokens).expect("requests");
    // The answer was added after that request.
    assert!((counted..counted + 20).contains(&usage.request.tokens), "{usage:?}, not {counted}");
    assert!(usage.results.tokens > 7000 && usage.tools.tokens > 10, "{usage:?}");
    assert_eq!(usage.window, Some(WINDOW));
}
