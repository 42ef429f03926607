//! Conversations of several turns, as in the REPL. They continue after an interruption or a
//! failure, and the user decides about a compaction.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use ikigai_agent::ToolOffer;
use ikigai_agent::assets::StoredAssets;
use ikigai_agent::command::{AgentCommand, By, CommandError, Confirm, RewriteProposal};
use ikigai_agent::{Model, Prompt, Session, SessionAssets, Turn, TurnEnd, TurnEvent};
use ikigai_assets::{Agent, AssetPath, Author, Capacity, ChangeCause, Precondition, StoreUrl};
use ikigai_host::host::Host;
use ikigai_host::paths::Paths;
use ikigai_host::registry::Snapshot;
use ikigai_provider::{
    AnswerSettings, ApiKey, Endpoint, Message, ModelClient, Part, Provider, Role,
};
use ikigai_provider_testing::{FakeServer, Gate, Reply, Trouble, Vendor};
use ikigai_tests::paths;
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::agent::rig::KEY;

/// A conversation without tools, with a store in memory.
struct Talk {
    session: Session,
    server: FakeServer,
    store: Arc<StoredAssets>,
    agent: Agent,
    _scratch: TempDir,
}

impl Talk {
    fn new(vendor: Vendor, replies: impl IntoIterator<Item = Reply>) -> Self {
        let server = FakeServer::start(vendor, replies);
        let scratch = tempfile::tempdir().expect("a directory");
        let budget = ikigai_assets::Budget::default();
        let store = Arc::new(StoredAssets::at(Ok(StoreUrl::memory()), budget, Capacity::default()));
        let agent = Agent::new("tester@here").expect("a name");
        let assets = SessionAssets {
            store: Arc::clone(&store),
            budget: budget.0,
            agent: agent.clone(),
            is_principal: false,
        };
        let session = Session::new(host(&scratch), Some(assets), Some(model(&server)));
        Self { session, server, store, agent, _scratch: scratch }
    }

    /// Takes one turn. The first piece of text cancels it, if the prompt begins with `stop`.
    async fn turn(&mut self, prompt: &str) -> Turn {
        let tools = ready(Some(Arc::new(Snapshot::default())));
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let mut tell = |event: TurnEvent<'_>| {
            if matches!(event, TurnEvent::Text(_)) && prompt.starts_with("stop") {
                token.cancel();
            }
        };
        let turn = self.session.turn(tools, Prompt::from(prompt), &cancel, &mut tell).await;
        turn.expect("there is a model")
    }

    async fn write(&self, path: &str, text: &str) {
        let author = Author { agent: self.agent.clone(), cause: ChangeCause::Write };
        let path = AssetPath::parse(path).expect("a path");
        let store = self.store.open().await.expect("a store");
        store.write(&path, text.as_bytes(), &author, Precondition::Any).await.expect("written");
    }

    async fn read(&self, path: &str) -> String {
        let path = AssetPath::parse(path).expect("a path");
        let store = self.store.open().await.expect("a store");
        let asset = store.read(&path).await.expect("there");
        String::from_utf8(asset.content).expect("UTF-8")
    }

    async fn compact(&self, person: &mut dyn Confirm) -> Result<String, CommandError> {
        let command = AgentCommand::parse("/compact x 3").expect("a command");
        let cancel = CancellationToken::new();
        self.session.command(&command, By::Person(person), None, &cancel).await
    }

    #[track_caller]
    fn assert_valid(&self) {
        assert_eq!(self.server.violations(), Vec::<String>::new());
    }
}

pub(crate) fn model(server: &FakeServer) -> Model {
    let provider: Provider = server.vendor().as_str().parse().expect("a provider");
    let endpoint = Endpoint {
        base_url: Some(server.base_url()),
        key: Some(ApiKey::new(KEY)),
        ..Endpoint::new(provider)
    };
    let client = ModelClient::new(endpoint).expect("an address");
    let offer = ToolOffer::for_provider(provider);
    Model {
        client,
        name: "model-of-the-test".to_owned(),
        max_tokens: None,
        context: None,
        settings: AnswerSettings::default(),
        offer,
    }
}

pub(crate) fn host(scratch: &TempDir) -> Arc<Host> {
    let workspace = scratch.path().canonicalize().expect("a path");
    let paths = Paths {
        system_tools: None,
        user_tools: Some(workspace.join("tools")),
        system_cache: None,
        cache: None,
        policy: None,
        home: None,
        state: Some(workspace.join("state")),
        compiler: Some(paths::compiler()),
        supervisor: Some(paths::supervisor().to_owned()),
        ..Paths::of_user()
    };
    Host::builder(workspace)
        .paths(paths)
        .components(1)
        .components_memory(1 << 30)
        .build()
        .expect("a host")
}

fn message(role: Role, texts: &[&str]) -> Message {
    Message { role, parts: texts.iter().map(|text| Part::text(*text)).collect() }
}

/// Returns the texts of a conversation, without the parts that only its provider reads.
fn texts(session: &Session) -> Vec<Message> {
    let text = |part: &Part| match part {
        Part::Text { text, .. } => Some(Part::text(text.clone())),
        _ => None,
    };
    let plain = |message: &Message| Message {
        role: message.role,
        parts: message.parts.iter().filter_map(text).collect(),
    };
    session.messages().iter().map(plain).collect()
}

#[tokio::test]
async fn what_was_said_before_an_interruption_stays() {
    for vendor in Vendor::ALL {
        let gate = Gate::closed();
        let replies = [
            Reply::answer().text("It begins, ").stall(&gate).text("and never ends."),
            Reply::answer().text("Gladly."),
        ];
        let mut talk = Talk::new(vendor, replies);
        assert_eq!(talk.turn("stop there").await.end, TurnEnd::Interrupted);
        assert_eq!(talk.turn("go on").await.end, TurnEnd::Answered);
        assert_eq!(
            texts(&talk.session),
            [
                message(Role::User, &["stop there"]),
                message(Role::Model, &["It begins,"]),
                message(Role::User, &["go on"]),
                message(Role::Model, &["Gladly."]),
            ],
            "{vendor}"
        );
        talk.assert_valid();
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_before_it_begins_leaves_nothing() {
    let mut talk = Talk::new(Vendor::OpenAi, []);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let turn = talk
        .session
        .turn(std::future::pending(), Prompt::from("hello"), &cancel, &mut |_| {})
        .await
        .expect("there is a model");
    assert_eq!((turn.end, turn.rounds), (TurnEnd::Interrupted, 0));
    assert_eq!(talk.session.messages(), []);
}

#[tokio::test]
async fn what_a_failure_leaves_is_gone_on_with() {
    for vendor in Vendor::ALL {
        let replies = [
            Reply::trouble(Trouble::Key),
            Reply::answer().call("slash_command", &json!({ "command": "/pinned" })),
            Reply::trouble(Trouble::Key),
            Reply::answer().text("None."),
        ];
        let mut talk = Talk::new(vendor, replies);
        let turn = talk.turn("lost").await;
        assert!(matches!(turn.end, TurnEnd::Failed(_)), "{vendor}: {turn:?}");
        assert_eq!(talk.session.messages(), [], "{vendor}: the prompt is taken back");
        let turn = talk.turn("what is pinned?").await;
        assert!(matches!(turn.end, TurnEnd::Failed(_)), "{vendor}: {turn:?}");
        assert_eq!(talk.session.messages().len(), 3, "{vendor}: what was done stays");
        assert_eq!(talk.turn("go on").await.end, TurnEnd::Answered, "{vendor}");
        assert_eq!(talk.session.messages().len(), 4, "{vendor}: sides alternate");
        talk.assert_valid();
    }
}

#[tokio::test]
async fn another_provider_goes_on_with_the_conversation() {
    let call =
        || Reply::answer().thinking("Hm.").call("slash_command", &json!({ "command": "/pinned" }));
    for vendor in Vendor::ALL {
        let mut talk = Talk::new(vendor, [call(), Reply::answer().text("None.")]);
        assert_eq!(talk.turn("what is pinned?").await.end, TurnEnd::Answered);
        // The sealed parts of one provider are not sent to another.
        for other in Vendor::ALL.into_iter().filter(|other| *other != vendor) {
            let server = FakeServer::start(other, [Reply::answer().text("Still none.")]);
            talk.session.set_model(Some(model(&server)));
            let turn = talk.turn("and now?").await;
            assert_eq!(
                turn.end,
                TurnEnd::Answered,
                "{vendor} to {other}: {:?}",
                server.violations()
            );
            assert_eq!(server.violations(), Vec::<String>::new(), "{vendor} to {other}");
        }
    }
}

/// A person who answers a proposal with `yes` or no, and may write to the asset before that.
struct Person<'a> {
    yes: bool,
    writes: Option<&'a Talk>,
    seen: Option<RewriteProposal>,
}

impl Confirm for Person<'_> {
    fn confirm<'a>(
        &'a mut self,
        proposal: &'a RewriteProposal,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        self.seen = Some(proposal.clone());
        Box::pin(async {
            if let Some(talk) = self.writes {
                talk.write("x.md", "written meanwhile").await;
            }
            self.yes
        })
    }
}

const OLD: &str = "Keep this.\nThis is only filler, and filler, and filler.\n";

#[tokio::test]
async fn a_person_sees_a_compaction_and_decides() {
    let reply = || Reply::answer().text("Keep this.");
    let talk = Talk::new(Vendor::Anthropic, [reply(), reply()]);
    talk.write("x.md", OLD).await;
    let mut person = Person { yes: false, writes: None, seen: None };
    assert_eq!(talk.compact(&mut person).await.expect("asked"), "Not compacted: x.md");
    assert_eq!(talk.read("x.md").await, OLD);
    let seen = person.seen.take().expect("a proposal");
    assert_eq!((seen.before, seen.after), (14, 3));
    assert!(seen.diff.contains("\n-This is only filler, and filler, and filler.\n"), "{seen:?}");

    person.yes = true;
    let told = talk.compact(&mut person).await.expect("done");
    assert_eq!(told, "Compacted x.md: 14 → 3 tokens. Block budget: 0k/100k.");
    assert_eq!(talk.read("x.md").await, "Keep this.\n");
    talk.assert_valid();
}

#[tokio::test]
async fn nothing_is_lost_that_was_written_meanwhile() {
    let talk = Talk::new(Vendor::Anthropic, [Reply::answer().text("Keep this.")]);
    talk.write("x.md", OLD).await;
    let mut person = Person { yes: true, writes: Some(&talk), seen: None };
    let error = talk.compact(&mut person).await.expect_err("it has changed");
    assert!(matches!(error, CommandError::Changed { .. }), "{error}");
    assert_eq!(talk.read("x.md").await, "written meanwhile");
}
