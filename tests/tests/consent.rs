//! A person who is asked to widen what a call may touch: what each answer does, what is never asked,
//! and the bound that no answer passes.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ikigai_host::audit::{Reader, Record, Requester};
use ikigai_host::consent::{Question, Reply, Respondent, Widen, WidenAnswer, Widened};
use ikigai_host::front_end::{Answer, FrontEnd};
use ikigai_host::policy::{Reached, Remedy};
use ikigai_host::{CancellationToken, Host, Paths};
use ikigai_tests::paths;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

/// A person with answers in store, who refuses what is asked beyond them.
#[derive(Default)]
struct Person {
    answers: Mutex<VecDeque<WidenAnswer>>,
    asked: Mutex<Vec<Widen>>,
    /// Set while a person thinks, until they are told to answer.
    thinks: Option<Arc<Notify>>,
    begun: Notify,
}

impl Person {
    fn answering(answers: impl IntoIterator<Item = WidenAnswer>) -> Arc<Self> {
        let answers = Mutex::new(answers.into_iter().collect());
        Arc::new(Self { answers, ..Self::default() })
    }

    /// Returns what was asked, in words.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").iter().map(|it| it.reached.to_string()).collect()
    }
}

impl FrontEnd for Person {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a Question) -> Answer<'a, Reply> {
        panic!("no policy of these tests requires consent")
    }

    fn can_widen(&self) -> bool {
        true
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> Answer<'a, Widened> {
        Box::pin(async {
            self.asked.lock().expect("no panic").push(question.clone());
            self.begun.notify_one();
            if let Some(told) = &self.thinks {
                told.notified().await;
            }
            let answer = self.answers.lock().expect("no panic").pop_front();
            let answer = answer.unwrap_or(WidenAnswer::No);
            if answer == WidenAnswer::Always {
                question.proposal.as_ref().expect("a proposal").write().expect("written");
            }
            Widened { answer, waited: Duration::from_millis(7) }
        })
    }
}

/// A host with the standard tools, a workspace, and a directory beside it.
struct Rig {
    scratch: TempDir,
    host: Arc<Host>,
}

impl Rig {
    fn new(ceiling: &str, user: &str, workspace: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let base = scratch.path().canonicalize().expect("there");
        for dir in ["work/.ikigai", "beside", "other", "state", "home"] {
            fs::create_dir_all(base.join(dir)).expect("a directory of the test");
        }
        fs::write(base.join("beside/found"), "").expect("written");
        let files = [
            ("ceiling.toml", ceiling),
            ("policy.toml", user),
            ("work/.ikigai/policy.toml", workspace),
        ];
        for (name, text) in files {
            let text = text.replace("BASE", base.to_str().expect("UTF-8"));
            fs::write(base.join(name), text).expect("written");
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(base.join(name), private).expect("permitted");
        }
        let paths = Paths {
            system_tools: Some(paths::tools()),
            user_tools: None,
            required: Vec::new(),
            system_cache: None,
            cache: Some(paths::shared_scratch().join("consent-cache")),
            policy: Some(base.join("policy.toml")),
            ceiling: base.join("ceiling.toml"),
            home: Some(base.join("home")),
            state: Some(base.join("state")),
            config: None,
            data: None,
            supervisor: Some(paths::supervisor()),
            compiler: Some(paths::host()),
        };
        let hint = |remedy: &Remedy| match remedy {
            Remedy::Widen { tool, permissions } => format!("grant {tool} {:?}", permissions.dirs),
            _ => String::new(),
        };
        let host = Host::builder(base.join("work")).paths(paths).hints(hint);
        Self { scratch, host: host.build().expect("a host") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().expect("there").join(name)
    }

    /// Lists a directory by `glob`, with this person there.
    async fn list(&self, name: &str, person: Option<&Arc<Person>>) -> Value {
        let arguments = json!({ "pattern": "*", "path": self.path(name) });
        self.call("glob", &arguments, person, CancellationToken::new()).await
    }

    async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        person: Option<&Arc<Person>>,
        cancel: CancellationToken,
    ) -> Value {
        let tools = self.host.refresh().await;
        let front_end = person.map(|person| Arc::clone(person) as Arc<dyn FrontEnd>);
        let requester = Requester::default();
        let arguments = arguments.to_string().into();
        let call = self.host.call_for(&requester, &tools, tool, arguments, cancel, front_end);
        serde_json::from_str(&call.await.to_string()).expect("JSON")
    }

    fn last_record(&self) -> Record {
        let mut reader = Reader::open(&self.path("state")).expect("a log");
        let mut batch = reader.read_back().expect("a file").expect("read");
        batch.lines.pop().expect("a record").record
    }
}

fn found(envelope: &Value) -> bool {
    envelope["result"].to_string().contains("found")
}

fn is_refused(envelope: &Value) -> bool {
    envelope["result"]["error_code"] == "PERMISSION_DENIED"
}

#[tokio::test]
async fn a_script_is_told_the_command_and_a_person_is_asked() {
    let rig = Rig::new("", "", "");
    let refused = rig.list("beside", None).await;
    assert!(is_refused(&refused), "{refused}");
    let command = refused["allow_with"].as_str().expect("a command");
    let dir = rig.path("beside").display().to_string();
    assert_eq!(command, format!("grant glob [(ReadOnly, \".\"), (ReadOnly, {dir:?})]"));
    let reached = Reached::Path { access: ikigai_protocol::Access::ReadOnly, path: dir.into() };
    assert_eq!(rig.last_record().reached, [reached]);

    let person = Person::answering([WidenAnswer::Once]);
    let allowed = rig.list("beside", Some(&person)).await;
    assert!(found(&allowed) && allowed.get("allow_with").is_none(), "{allowed}");
    let asked = person.asked.lock().expect("no panic")[0].clone();
    assert_eq!((asked.tool.as_str(), asked.again), ("glob", false));
    assert_eq!(asked.denied_by, "profile standard");
    assert!(asked.arguments.contains("beside"), "{}", asked.arguments);
    let record = rig.last_record();
    assert_eq!(record.asked[0].answer, "once");
    assert_eq!((record.asked[0].by.as_deref(), record.asked[0].waited_ms), (Some("person"), 7));
    assert!(record.grant.expect("granted").dirs.iter().any(|dir| dir.ends_with("/beside")));
    // Once is once.
    assert!(is_refused(&rig.list("beside", Some(&person)).await));
    assert_eq!(person.asked().len(), 2);
}

#[tokio::test]
async fn an_answer_for_the_session_holds_for_it_and_a_refusal_too() {
    let rig = Rig::new("", "", "");
    let person = Person::answering([WidenAnswer::Session]);
    for _ in 0..3 {
        assert!(found(&rig.list("beside", Some(&person)).await));
    }
    // Also where nobody is there.
    assert!(found(&rig.list("beside", None).await));
    for _ in 0..3 {
        assert!(is_refused(&rig.list("other", Some(&person)).await));
    }
    assert_eq!(person.asked().len(), 2, "{:?}", person.asked());
    // It is the tool's, and no other's.
    let grep = json!({ "pattern": "x", "path": rig.path("beside") });
    let other = rig.call("grep", &grep, None, CancellationToken::new()).await;
    assert!(is_refused(&other), "{other}");
}

#[tokio::test]
async fn always_is_written_and_a_word_reaches_the_model() {
    let rig = Rig::new("", "# mine\n", "");
    let person = Person::answering([WidenAnswer::Always, WidenAnswer::Tell("use docs".into())]);
    assert!(found(&rig.list("beside", Some(&person)).await));
    let written = fs::read_to_string(rig.path("policy.toml")).expect("a policy");
    let line = format!("fs = [\"ro:.\", \"ro:{}\"]", rig.path("beside").display());
    assert!(written.starts_with("# mine\n") && written.contains(&line), "{written}");
    let refused = rig.list("other", Some(&person)).await;
    assert_eq!((is_refused(&refused), refused["told"].as_str()), (true, Some("use docs")));
}

#[tokio::test]
async fn what_a_bound_forbids_and_what_is_the_hosts_own_is_never_asked() {
    let within = "[tools.glob]\nfs = [\"ro:BASE/work\"]\n";
    let unasked = "[tools.glob]\nask = false\n";
    for (ceiling, user, workspace) in [
        (within, "", ""),
        ("", "", "[tools.glob]\nfs = [\"ro:.\"]\n"),
        (unasked, "", ""),
        ("", unasked, ""),
        ("", "", unasked),
        // Asking is not what a workspace can turn on.
        (unasked, "", "[tools.glob]\nask = true\n"),
        ("[tools.\"*\"]\nask = false\n", "[tools.glob]\nask = true\n", ""),
    ] {
        let rig = Rig::new(ceiling, user, workspace);
        let person = Person::answering([WidenAnswer::Session]);
        assert!(is_refused(&rig.list("beside", Some(&person)).await), "{ceiling}{user}{workspace}");
        assert_eq!(person.asked(), Vec::<String>::new(), "{ceiling}{user}{workspace}");
    }
    let rig = Rig::new("", "", "");
    let person = Person::answering([WidenAnswer::Session]);
    for own in ["state", ".", "policy.toml"] {
        let envelope = rig.list(own, Some(&person)).await;
        assert!(!found(&envelope) && envelope.get("allow_with").is_none(), "{own}: {envelope}");
    }
    assert_eq!(person.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_bound_that_comes_later_holds_for_what_was_allowed() {
    let rig = Rig::new("", "", "");
    let person = Person::answering([WidenAnswer::Session]);
    assert!(found(&rig.list("beside", Some(&person)).await));
    let bound = format!("[tools.glob]\nfs = [\"ro:{}\"]\n", rig.path("work").display());
    fs::write(rig.path("ceiling.toml"), bound).expect("written");
    assert!(is_refused(&rig.list("beside", Some(&person)).await));
    assert_eq!(person.asked().len(), 1);
}

#[tokio::test]
async fn an_edit_while_the_question_is_open_holds_for_this_call() {
    let forbidden =
        |rig: &Rig| format!("[tools.glob]\nfs = [\"ro:{}\"]\n", rig.path("work").display());
    let unchanged = |_: &Rig| String::new();
    let is_found = |text: fn(&Rig) -> String| async move {
        let rig = Rig::new("", "", "");
        let told = Arc::new(Notify::new());
        let person = Arc::new(Person {
            answers: Mutex::new([WidenAnswer::Once].into()),
            thinks: Some(Arc::clone(&told)),
            ..Person::default()
        });
        let editing = async {
            person.begun.notified().await;
            fs::write(rig.path("ceiling.toml"), text(&rig)).expect("written");
            told.notify_one();
        };
        let (envelope, ()) = tokio::join!(rig.list("beside", Some(&person)), editing);
        found(&envelope)
    };
    assert!(is_found(unchanged).await);
    assert!(!is_found(forbidden).await);
}

#[tokio::test]
async fn an_edit_between_two_calls_holds_for_the_next() {
    let rig = Rig::new("", "", "");
    let person = Person::answering([WidenAnswer::Once, WidenAnswer::Once]);
    assert!(found(&rig.list("beside", Some(&person)).await));
    let edit = |text: &str| fs::write(rig.path("policy.toml"), text).expect("written");
    edit("[tools.glob]\nask = false\n");
    assert!(is_refused(&rig.list("beside", Some(&person)).await));
    assert_eq!(person.asked().len(), 1);
    edit("");
    assert!(found(&rig.list("beside", Some(&person)).await));
    edit(&format!("[tools.glob]\nfs = [\"ro:{}\"]\n", rig.path("beside").display()));
    assert!(found(&rig.list("beside", None).await));
    assert_eq!(person.asked().len(), 2);
}

#[tokio::test]
async fn equal_questions_of_parallel_calls_are_one() {
    let rig = Rig::new("", "", "");
    let told = Arc::new(Notify::new());
    let person = Arc::new(Person {
        answers: Mutex::new([WidenAnswer::Once].into()),
        thinks: Some(Arc::clone(&told)),
        ..Person::default()
    });
    let calls = async {
        let list = || rig.list("beside", Some(&person));
        tokio::join!(list(), list(), list())
    };
    let answering = async {
        person.begun.notified().await;
        // The others have joined when they wait: they have nothing else to wait for.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        told.notify_one();
        // One that came later would be asked again, and refused.
        person.begun.notified().await;
    };
    let (first, second, third) = tokio::select! {
        envelopes = calls => envelopes,
        () = answering => panic!("asked more than once: {:?}", person.asked()),
    };
    assert!(found(&first) && found(&second) && found(&third));
    assert_eq!(person.asked().len(), 1);
}

#[tokio::test]
async fn a_call_that_is_cancelled_takes_its_question_back() {
    let rig = Rig::new("", "", "");
    let person = Arc::new(Person { thinks: Some(Arc::default()), ..Person::default() });
    let cancel = CancellationToken::new();
    let arguments = json!({ "pattern": "*", "path": rig.path("beside") });
    let call = rig.call("glob", &arguments, Some(&person), cancel.clone());
    let cancelling = async {
        person.begun.notified().await;
        cancel.cancel();
    };
    let (envelope, ()) = tokio::join!(call, cancelling);
    assert!(envelope["error"].as_str().expect("an error").contains("cancelled"), "{envelope}");
    // Nothing was answered, so that it is asked again.
    let person = Person::answering([WidenAnswer::Once]);
    assert!(found(&rig.list("beside", Some(&person)).await));
}

#[tokio::test]
async fn to_write_is_asked_for_the_directory() {
    let rig = Rig::new("", "", "");
    let person = Person::answering([WidenAnswer::Once]);
    let arguments = json!({ "file_path": rig.path("beside/new"), "content": "x" });
    let cancel = CancellationToken::new();
    let written = rig.call("file_write", &arguments, Some(&person), cancel).await;
    assert_eq!(written["tool_success"], true, "{written}");
    assert_eq!(person.asked(), [format!("write in {}", rig.path("beside").display())]);
    assert!(Path::new(&rig.path("beside/new")).exists(), "{written}");
}
