//! A person is asked to widen the access of a call. Tests the effect of each answer, the accesses
//! that are never asked about, and the bound that no answer can exceed.

mod native;
mod peers;
mod recorded;
mod rig;

use std::fs;
use std::sync::{Arc, Mutex};

use ikigai_host::CancellationToken;
use ikigai_host::consent::WidenAnswer;
use ikigai_host::policy::RequestedAccess;
use serde_json::{Value, json};
use tokio::sync::Notify;

use rig::{Person, Rig, found, is_refused};

#[tokio::test]
async fn a_script_is_told_the_command_and_a_person_is_asked() {
    let rig = Rig::new("", "", "");
    let refused = rig.list("beside", None).await;
    assert!(is_refused(&refused), "{refused}");
    let command = refused["allow_with"].as_str().expect("a command");
    let dir = rig.path("beside").display().to_string();
    assert_eq!(command, format!("grant glob [(ReadOnly, {dir:?})]"));
    let reached =
        RequestedAccess::Path { access: ikigai_protocol::Access::ReadOnly, path: dir.into() };
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
    // The answer "once" applies to one call.
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
    // The answer applies even if no person is there.
    assert!(found(&rig.list("beside", None).await));
    for _ in 0..3 {
        assert!(is_refused(&rig.list("other", Some(&person)).await));
    }
    assert_eq!(person.asked().len(), 2, "{:?}", person.asked());
    // The answer is for this tool only.
    let grep = json!({ "pattern": "x", "path": rig.path("beside") });
    let other = rig.run("grep", &grep, None).await;
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
async fn always_of_a_file_is_its_directory_and_once_is_the_file() {
    let rig = Rig::new("", "", "");
    for name in ["beside/one", "beside/two"] {
        rig.write(name, "the secret", 0o644);
    }
    let arguments = |name: &str| json!({ "file_path": rig.path(name) });
    let was_read = |envelope: &Value| envelope["result"].to_string().contains("the secret");
    let person = Person::answering([WidenAnswer::Once]);
    assert!(was_read(&rig.run("file_read", &arguments("beside/one"), Some(&person)).await));
    let two = rig.run("file_read", &arguments("beside/two"), Some(&person)).await;
    assert!(is_refused(&two), "{two}");
    assert_eq!(person.asked(), [rig.reading("beside/one"), rig.reading("beside/two")]);
    assert_eq!(rig.read("policy.toml"), "");

    let rig = Rig::new("", "", "");
    for name in ["beside/one", "beside/two"] {
        rig.write(name, "the secret", 0o644);
    }
    let arguments = |name: &str| json!({ "file_path": rig.path(name) });
    let person = Person::answering([WidenAnswer::Always]);
    assert!(was_read(&rig.run("file_read", &arguments("beside/one"), Some(&person)).await));
    assert_eq!(person.asked(), [rig.reading("beside/one")]);
    let written = rig.read("policy.toml");
    let line = format!("fs = [\"ro:.\", \"ro:{}\"]", rig.path("beside").display());
    assert!(written.contains(&line), "{written}");
    assert!(was_read(&rig.run("file_read", &arguments("beside/two"), None).await));
}

#[tokio::test]
async fn a_question_that_nobody_could_answer_is_recorded_and_asked_again() {
    let rig = Rig::new("", "", "");
    let gone = WidenAnswer::Unavailable("the terminal is gone".to_owned());
    let person = Person::answering([gone, WidenAnswer::Once]);
    assert!(is_refused(&rig.list("beside", Some(&person)).await));
    let record = rig.last_record();
    assert_eq!((record.asked.len(), record.asked[0].answer.as_str()), (1, "unavailable"));
    assert_eq!(record.reached.len(), 1, "{record:?}");
    assert!(found(&rig.list("beside", Some(&person)).await));
    assert_eq!(person.asked().len(), 2);
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
        // A workspace cannot turn questions on.
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
        // All other calls have joined the question by then: they wait for nothing else.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        told.notify_one();
        // A second question would be asked again here, and refused.
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
    let record = rig.last_record();
    let [asked] = &record.asked[..] else { panic!("{record:?}") };
    assert_eq!((asked.answer.as_str(), asked.by.as_deref()), ("cancelled", Some("person")));
    // The question was not answered, so it is asked again.
    let person = Person::answering([WidenAnswer::Once]);
    assert!(found(&rig.list("beside", Some(&person)).await));
}

#[tokio::test]
async fn to_write_is_asked_for_the_directory() {
    for (tool, name, mut arguments) in [
        ("file_write", "beside/new", json!({ "content": "after" })),
        ("file_edit", "beside/old", json!({ "old_string": "before", "new_string": "after" })),
    ] {
        let rig = Rig::new("", "", "");
        rig.write("beside/old", "before", 0o644);
        let before = rig.read(name);
        arguments["file_path"] = json!(rig.path(name));
        let refused = rig.run(tool, &arguments, None).await;
        assert!(is_refused(&refused) && refused["allow_with"].is_string(), "{tool}: {refused}");
        assert_eq!(rig.read(name), before, "{tool}");
        let person = Person::answering([WidenAnswer::Once]);
        let written = rig.run(tool, &arguments, Some(&person)).await;
        assert_eq!(written["tool_success"], true, "{tool}: {written}");
        assert_eq!(person.asked_when(), [(rig.writing("beside"), false)], "{tool}");
        assert_eq!(rig.read(name), "after", "{tool}: {written}");
    }
}

#[tokio::test]
async fn the_component_of_the_shell_waits_for_a_person_and_looks_for_its_commands_alone() {
    let run = async |person: Option<&Arc<Person>>| {
        // In `/tmp` the shell would see its own directory.
        let place = ikigai_tests::paths::shown_scratch();
        let scratch = tempfile::tempdir_in(place).expect("a directory");
        let files = ["", "[tools.bash]\nbackend = \"wasm\"\n", ""];
        let rig = Rig::in_scratch(scratch, ikigai_tests::paths::supervisor(), files, |host| host);
        rig.write("beside/secret", "the secret", 0o644);
        let dir = rig.path("beside").display().to_string();
        let script = format!(
            "no-such-command; which git sh; ls / >/dev/null; [ -e /etc ]; cat {dir}/secret; \
             cp {dir}/secret copy; echo x >{dir}/new; mv {dir}/new {dir}/newer; rm {dir}/newer"
        );
        let envelope = rig.run("bash", &json!({ "command": script }), person).await;
        (rig, envelope)
    };
    let (_, nobody) = run(None).await;
    assert!(!nobody["result"].to_string().contains("the secret"), "{nobody}");
    let no = Person::answering([]);
    let (rig, refused) = run(Some(&no)).await;
    assert!(!refused["result"].to_string().contains("the secret"), "{refused}");
    assert_eq!(no.asked(), [rig.reading("beside/secret"), rig.writing("beside")], "{refused}");
    let yes = Person::answering([WidenAnswer::Once, WidenAnswer::Once, WidenAnswer::Once]);
    let (rig, allowed) = run(Some(&yes)).await;
    assert!(allowed["result"].to_string().contains("the secret"), "{allowed}");
    assert_eq!(yes.asked(), [rig.reading("beside/secret"), rig.writing("beside")], "{allowed}");
    assert_eq!(rig.read("work/copy"), "the secret");
    assert!(!rig.path("beside/newer").exists() && !rig.path("beside/new").exists());
    assert_eq!(rig.last_record().asked.len(), 2);
}
