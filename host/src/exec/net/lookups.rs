//! Tests of the lookup of a name without a grant, before its port is known.

use std::future::ready;
use std::path::Path;
use std::sync::Mutex;

use ikigai_protocol::Digest;
use tokio::sync::OwnedSemaphorePermit;

use super::*;
use crate::consent::{ConsentQuestion, ConsentReply, Respondent, Widen, WidenAnswer, WidenReply};
use crate::exec::widening::{OpenQuestions, WideningContext};
use crate::front_end::{AnswerFuture, FrontEnd};
use crate::limits::Deadline;
use crate::policy::{
    Authority, Backend, CalledProgram, Overrides, PolicyFiles, PolicyRequest, RemedyHints,
    ToolOrigin,
};

/// A resolver that knows one address for every name.
struct One;

impl NameResolver for One {
    fn resolve<'a>(
        &'a self,
        _: &'a str,
        _: OwnedSemaphorePermit,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(ready(Ok(vec![IpAddr::from([1, 1, 1, 1])])))
    }
}

/// A user with one answer for everything.
struct FixedUser {
    answer: WidenAnswer,
    asked: Mutex<Vec<String>>,
}

impl FrontEnd for FixedUser {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        panic!("nobody has to agree")
    }

    fn can_widen(&self) -> bool {
        true
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
        self.asked.lock().expect("no panic").push(question.reached[0].to_string());
        Box::pin(ready(WidenReply { answer: self.answer.clone(), waited: Duration::ZERO }))
    }
}

/// Returns the network access of a component without a grant beneath a ceiling, and its widening.
fn reach(
    ceiling: &str,
    person: Option<Arc<FixedUser>>,
) -> (tempfile::TempDir, NetworkGate, Arc<Widening>) {
    let scratch = tempfile::tempdir().expect("a directory");
    let base = scratch.path().canonicalize().expect("there");
    std::fs::create_dir(base.join("work")).expect("made");
    std::fs::write(base.join("ceiling.toml"), ceiling).expect("written");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(base.join("ceiling.toml"), private).expect("permitted");
    let files = PolicyFiles {
        ceiling: Some(base.join("ceiling.toml")),
        further_ceilings: Vec::new(),
        user: Some(base.join("policy.toml")),
        user_is_named: false,
        workspace: base.join("work"),
        home: None,
        state: None,
    };
    let authority =
        Authority::open(&files, Overrides::default(), Vec::new(), RemedyHints::default(), None);
    let authority = Arc::new(authority.expect("a policy"));
    let context = WideningContext {
        authority: Arc::clone(&authority),
        questions: Arc::new(OpenQuestions::default()),
        front_end: person.map(|person| person as Arc<dyn FrontEnd>),
        deadline: Deadline::default(),
        own_peers: Arc::from([("store.test".to_owned(), 5432)]),
    };
    let request = PolicyRequest {
        name: Some("fetch"),
        names: &[],
        registered: &[],
        origin: ToolOrigin::User,
        backend: Backend::Wasm,
        fell_back: false,
        path: Path::new("/user/fetch.wasm"),
        program: None,
        contents: &[Digest::from_bytes(b"fetch")],
        wasi: &[],
        tool: None,
    };
    let decision = authority.decide(&request).expect("it may run");
    let program = CalledProgram::from(request);
    let widening = Arc::new(Widening::new(context, program, bytes::Bytes::new()));
    widening.decided(&decision);
    let network = Arc::new(SharedNetwork::default().resolving_with(One));
    let reach = NetworkGate::new(Arc::new(Grant::default()), network, Some(Arc::clone(&widening)));
    (scratch, reach, widening)
}

fn person(answer: WidenAnswer) -> Arc<FixedUser> {
    Arc::new(FixedUser { answer, asked: Mutex::default() })
}

#[tokio::test]
async fn a_person_is_asked_once_for_the_name_and_then_it_is_connected_to() {
    let yes = person(WidenAnswer::Once);
    let (_scratch, reach, _) = reach("", Some(Arc::clone(&yes)));
    reach.resolve("a.test", None).await.expect("allowed");
    assert!(reach.check("1.1.1.1:443".parse().expect("an address")).await);
    // No port of the store's address is asked about.
    assert!(reach.resolve("store.test", None).await.is_err());
    let asked = yes.asked.lock().expect("no panic").clone();
    assert_eq!(asked, ["connect a.test on any port"]);
}

#[tokio::test]
async fn a_bound_holds_for_the_ports_of_a_name_and_for_the_question() {
    let ceiling = "[tools.\"*\"]\nnet = [\"a.test:443\"]\n";
    let yes = person(WidenAnswer::Once);
    let (_scratch, reach, _) = reach(ceiling, Some(Arc::clone(&yes)));
    reach.resolve("a.test", None).await.expect("allowed");
    assert!(reach.resolve("b.test", None).await.is_err());
    assert!(reach.check("1.1.1.1:443".parse().expect("an address")).await);
    assert!(!reach.check("1.1.1.1:80".parse().expect("an address")).await);
    assert_eq!(yes.asked.lock().expect("no panic").len(), 1);
}

#[tokio::test]
async fn a_lookup_that_nobody_waits_for_is_noted_where_nobody_can_be_asked() {
    let (_scratch, unasked, widening) = reach("", None);
    assert!(unasked.refuses("a.test"));
    assert_eq!(widening.noted().refused, [RequestedAccess::Host { host: "a.test".to_owned() }]);
    assert_eq!(unasked.denied().first, ["net a.test"]);
    let (_scratch, asked, widening) = reach("", Some(person(WidenAnswer::Once)));
    assert!(!asked.refuses("a.test") && widening.noted().refused.is_empty());
}

#[tokio::test]
async fn a_refused_lookup_is_noted_with_or_without_anybody_to_ask() {
    for person in [Some(person(WidenAnswer::No)), None] {
        let (_scratch, reach, widening) = reach("", person);
        assert!(matches!(reach.resolve("a.test", None).await, Err(NoAddress::NotGranted)));
        assert_eq!(widening.noted().refused, [RequestedAccess::Host { host: "a.test".to_owned() }]);
        assert_eq!(reach.denied().first, ["net a.test"]);
    }
}
