//! Native tools and the questions about them: before a call, and after a run that failed because an
//! access was refused. After an allowed question of the second kind, the tool runs again.

use std::fs;
use std::sync::Arc;

use ikigai_host::consent::WidenAnswer;
use ikigai_host::policy::{RequestedAccess, UsedAccess};
use ikigai_host::{CancellationToken, Digest};
use ikigai_protocol::Access;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::consent::rig::{Person, Rig, is_refused};

/// Appends a line to a file in the workspace for each run, and then reads a file outside of the
/// workspace.
const READER: &str = "echo line >>notes\n\
    if text=$(cat BASE/beside/secret 2>/dev/null); then printf '{\"text\":\"%s\"}' \"$text\"\n\
    else printf '{\"error\":\"not readable\",\"error_code\":\"PERMISSION_DENIED\"}'; fi";

/// The directories that are granted to the tool of these tests.
const GRANT: &str = "fs = [\"rw:.\"]";

/// Returns a host with the tool `reader`, which may use its workspace, and with a file outside of
/// the workspace.
fn reading() -> Rig {
    let rig = Rig::new("", "", "");
    rig.write("beside/secret", "the secret", 0o644);
    let digest = rig.script("reader", &json!({}), READER);
    rig.grant("reader", &[digest], GRANT);
    rig
}

async fn read(rig: &Rig, person: Option<&Arc<Person>>) -> Value {
    rig.run("reader", &json!({}), person).await
}

fn was_read(envelope: &Value) -> bool {
    envelope["result"]["text"] == "the secret"
}

/// Returns the number of runs.
fn runs(rig: &Rig) -> usize {
    rig.read("work/notes").matches("line\n").count()
}

#[tokio::test]
async fn a_tool_runs_again_with_what_a_person_allowed_and_its_changes_stay() {
    let rig = reading();
    let secret = rig.reading("beside");
    let person = Person::answering([WidenAnswer::Once]);
    let envelope = read(&rig, Some(&person)).await;
    // The model sees the result of the second run.
    assert!(was_read(&envelope) && envelope.get("allow_with").is_none(), "{envelope}");
    assert_eq!(person.asked_when(), [(secret.clone(), true)]);
    assert_eq!(runs(&rig), 2, "{envelope}");
    let record = rig.last_record();
    let [asked] = &record.asked[..] else { panic!("{record:?}") };
    assert_eq!((asked.what.as_str(), asked.answer.as_str()), (secret.as_str(), "once"));
    assert_eq!((asked.by.as_deref(), asked.waited_ms), (Some("person"), 7));
    assert!(record.reached.is_empty(), "{record:?}");
    // The tool was watched, and used the access that it was granted.
    let used = ["beside", "work"].map(|name| UsedAccess::Dir { path: rig.path(name) });
    assert_eq!(record.used, used);
    let dirs = record.grant.expect("granted").dirs;
    assert!(dirs.iter().any(|dir| dir.ends_with("/beside")), "{dirs:?}");
    // The answer was for this call only.
    let envelope = read(&rig, None).await;
    assert!(is_refused(&envelope), "{envelope}");
    assert_eq!((runs(&rig), rig.last_record().used), (3, vec![]));
    let envelope = read(&rig, Some(&person)).await;
    assert!(is_refused(&envelope), "{envelope}");
    assert_eq!((person.asked().len(), runs(&rig)), (2, 4));
}

#[tokio::test]
async fn a_granted_directory_is_used_by_links_and_by_what_is_gone_afterwards() {
    let rig = Rig::new("", "", "");
    rig.write("other/gone", "", 0o644);
    std::os::unix::fs::symlink(rig.path("beside"), rig.path("work/link")).expect("linked");
    let digest = rig.script("mover", &json!({}), "rm BASE/other/gone; echo x >link/made; echo {}");
    let dirs = ["work", "beside", "other"].map(|name| rig.path(name));
    let list: Vec<String> = dirs.iter().map(|dir| format!("\"rw:{}\"", dir.display())).collect();
    rig.grant("mover", &[digest], &format!("fs = [{}]", list.join(", ")));
    let envelope = rig.run("mover", &json!({}), Some(&Person::answering([]))).await;
    assert!(rig.path("beside/made").exists() && !rig.path("other/gone").exists(), "{envelope}");
    let mut used = rig.last_record().used;
    used.sort();
    let expected = ["beside", "other"].map(|name| UsedAccess::Dir { path: rig.path(name) });
    assert_eq!(used, expected);
}

#[tokio::test]
async fn a_no_ends_the_call_with_the_first_result() {
    for (answer, told) in
        [(WidenAnswer::No, None), (WidenAnswer::Tell("use docs".into()), Some("use docs"))]
    {
        let rig = reading();
        let person = Person::answering([answer]);
        let envelope = read(&rig, Some(&person)).await;
        assert!(is_refused(&envelope), "{envelope}");
        assert_eq!(
            (envelope["tool_success"].as_bool(), envelope["told"].as_str()),
            (Some(true), told)
        );
        let (dir, path) = (rig.path("beside"), rig.path("beside/secret"));
        let command = format!("grant reader [(ReadOnly, {dir:?})]");
        assert_eq!(envelope["allow_with"], command, "{envelope}");
        assert_eq!(person.asked_when(), [(rig.reading("beside"), true)]);
        assert_eq!(runs(&rig), 1);
        let record = rig.last_record();
        assert_eq!(record.asked[0].answer, "no");
        assert_eq!(record.reached, [RequestedAccess::Path { access: Access::ReadOnly, path }]);
        // The question is not asked again in this session.
        let envelope = read(&rig, Some(&person)).await;
        assert!(is_refused(&envelope) && envelope.get("told").is_none(), "{envelope}");
        assert_eq!((person.asked().len(), runs(&rig)), (1, 2));
    }
}

#[tokio::test]
async fn a_hundred_reaches_are_one_question() {
    let rig = Rig::new("", "", "");
    for number in 0..100 {
        rig.write(&format!("beside/{number}"), "x", 0o644);
    }
    let body = "for file in $(seq 0 99); do cat BASE/beside/$file; done 2>/dev/null; exit 3";
    let digest = rig.script("reader", &json!({}), body);
    rig.grant("reader", &[digest], GRANT);
    let person = Person::answering([]);
    let envelope = read(&rig, Some(&person)).await;
    assert_eq!(person.asked(), [rig.reading("beside")]);
    assert_eq!(envelope["exit_code"], 3, "{envelope}");
    let record = rig.last_record();
    assert_eq!((record.asked.len(), record.reached_count), (1, Some(100)), "{record:?}");
}

#[tokio::test]
async fn a_run_that_succeeded_asks_nothing_and_hints_at_nothing() {
    for (answer, asks) in [
        ("{}", false),
        (r#"{"exit_code":0}"#, false),
        ("[1]", false),
        (r#"{"output":"","exit_code":1}"#, true),
        (r#"{"error_code":"NO"}"#, true),
        ("no JSON", true),
    ] {
        let rig = Rig::new("", "", "");
        rig.write("beside/secret", "the secret", 0o644);
        let body = format!("cat BASE/beside/secret 2>/dev/null; printf %s '{answer}'");
        let digest = rig.script("reader", &json!({}), &body);
        rig.grant("reader", &[digest], GRANT);
        let person = Person::answering([]);
        let envelope = read(&rig, Some(&person)).await;
        assert_eq!(person.asked().len(), usize::from(asks), "{answer}");
        assert_eq!(envelope.get("allow_with").is_some(), asks, "{envelope}");
        // `policy suggest` reads the access from this record.
        assert_eq!(rig.last_record().reached.len(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_run_that_missed_a_file_unseen_says_where_it_would_be_seen() {
    for (body, ask, expected) in [
        ("cat BASE/beside/secret || exit 1", true, Some("watch reader")),
        ("cat BASE/beside/secret || exit 1", false, None),
        // It succeeded, or failed for another reason.
        ("cat BASE/beside/secret; echo '{}'", true, None),
        ("exit 1", true, None),
    ] {
        let rig = Rig::new("", "", "");
        rig.write("beside/secret", "the secret", 0o644);
        let digest = rig.script("reader", &json!({}), body);
        rig.grant("reader", &[digest], &format!("{GRANT}\nask = {ask}"));
        let envelope = read(&rig, None).await;
        assert_eq!(
            envelope.get("unwatched").and_then(Value::as_str),
            expected,
            "{body}: {envelope}"
        );
        assert!(rig.last_record().reached.is_empty(), "{body}");
        let person = Person::answering([]);
        let envelope = read(&rig, Some(&person)).await;
        assert!(envelope.get("unwatched").is_none(), "{body}: {envelope}");
    }
}

/// Reads two files of one directory and one of another, and fails without them.
const MANY: &str = "echo line >>notes\n\
    if text=$(cat BASE/beside/one BASE/beside/two BASE/other/three 2>&1); then echo '{\"text\":\"the secret\"}'\n\
    else echo '{\"exit_code\":1}'; fi";

fn reading_many() -> Rig {
    let rig = Rig::new("", "", "");
    for name in ["beside/one", "beside/two", "other/three"] {
        rig.write(name, "x", 0o644);
    }
    let digest = rig.script("reader", &json!({}), MANY);
    rig.grant("reader", &[digest], GRANT);
    rig
}

#[tokio::test]
async fn a_failed_run_is_one_question_with_each_place_the_one_with_the_most_first() {
    for answer in [WidenAnswer::Once, WidenAnswer::Session, WidenAnswer::Always] {
        let rig = reading_many();
        let person = Person::answering([answer.clone()]);
        let envelope = read(&rig, Some(&person)).await;
        assert!(was_read(&envelope), "{answer:?} {envelope}");
        let places = format!("{}; {}", rig.reading("beside"), rig.reading("other"));
        assert_eq!(person.asked_when(), [(places.clone(), true)]);
        assert_eq!((runs(&rig), rig.last_record().asked[0].what.as_str()), (2, places.as_str()));
        let dirs = ["beside", "other"].map(|dir| format!("\"ro:{}\"", rig.path(dir).display()));
        let is_written = dirs.iter().all(|dir| rig.read("policy.toml").contains(dir));
        assert_eq!(is_written, answer == WidenAnswer::Always);
    }
}

#[tokio::test]
async fn what_is_allowed_for_later_calls_does_not_run_the_tool_again() {
    let rig = reading_many();
    let person = Person::answering([WidenAnswer::Later]);
    let envelope = read(&rig, Some(&person)).await;
    assert!(!was_read(&envelope) && envelope.get("allow_with").is_none(), "{envelope}");
    assert!(envelope["told"].as_str().is_some_and(|told| told.contains("call the tool again")));
    assert_eq!((runs(&rig), rig.last_record().asked[0].answer.as_str()), (1, "later"));
    assert!(was_read(&read(&rig, Some(&person)).await));
    assert_eq!((runs(&rig), person.asked().len()), (2, 1));
}

#[tokio::test]
async fn always_holds_for_the_other_files_that_the_call_names() {
    let rig = Rig::new("", "", "");
    for name in ["beside/one", "beside/two"] {
        rig.write(name, "x", 0o644);
    }
    let marked = json!({ "type": "string", "x-ikigai-access": "ro" });
    let body = "cat BASE/beside/one BASE/beside/two >/dev/null && echo '{\"text\":\"the secret\"}'";
    let digest = rig.script("reader", &json!({ "a": marked, "b": marked }), body);
    rig.grant("reader", &[digest], GRANT);
    let arguments = json!({ "a": rig.path("beside/one"), "b": rig.path("beside/two") });
    let person = Person::answering([WidenAnswer::Always]);
    let envelope = rig.run("reader", &arguments, Some(&person)).await;
    assert!(was_read(&envelope), "{envelope}");
    assert_eq!(person.asked(), [rig.reading("beside/one")]);
}

#[tokio::test]
async fn a_program_that_is_a_link_is_asked_about_with_the_link() {
    let rig = Rig::new("", "", "");
    rig.write("opt/program", "#!/bin/sh\necho '{\"text\":\"the secret\"}'\n", 0o755);
    fs::create_dir(rig.path("links")).expect("made");
    std::os::unix::fs::symlink("../opt/program", rig.path("links/name")).expect("linked");
    let digest = rig.script("reader", &json!({}), "BASE/links/name || exit 127");
    rig.grant("reader", &[digest], GRANT);
    let person = Person::answering([WidenAnswer::Once]);
    let envelope = read(&rig, Some(&person)).await;
    assert!(was_read(&envelope), "{envelope}");
    assert_eq!(person.asked(), [format!("{}; {}", rig.reading("opt"), rig.reading("links"))]);
    // The same happens if only the program was granted.
    rig.grant("reader", &[digest], &format!("fs = [\"ro:{}\"]", rig.path("opt").display()));
    let person = Person::answering([WidenAnswer::Once]);
    assert!(was_read(&read(&rig, Some(&person)).await));
    assert_eq!(person.asked(), [rig.reading("links")]);
}

#[tokio::test]
async fn a_link_in_the_home_is_asked_about_by_itself() {
    let program = "#!/bin/sh\necho '{\"text\":\"the secret\"}'\n";
    for (dir, answer) in
        [("opt", WidenAnswer::Once), ("opt", WidenAnswer::Always), ("work", WidenAnswer::Always)]
    {
        let rig = Rig::new("", "", "");
        rig.write(&format!("{dir}/program"), program, 0o755);
        let target = format!("../{dir}/program");
        std::os::unix::fs::symlink(target, rig.path("home/name")).expect("linked");
        let digest = rig.script("reader", &json!({}), "BASE/home/name || exit 127");
        rig.grant("reader", &[digest], GRANT);
        let person = Person::answering([answer.clone()]);
        let envelope = read(&rig, Some(&person)).await;
        assert!(was_read(&envelope), "{dir} {answer:?}: {envelope}");
        // The workspace is granted already.
        let link = rig.reading("home/name");
        let both = format!("{}; {link}", rig.reading("opt"));
        assert_eq!(person.asked(), [if dir == "opt" { both } else { link }]);
        let again = read(&rig, None).await;
        assert_eq!(was_read(&again), answer == WidenAnswer::Always, "{dir}: {again}");
    }
}

/// Returns a host with bun in the home, and with the tool `reader`, which runs it by this name.
fn running_bun(ceiling: &str, name: &str) -> Rig {
    let rig = Rig::new(ceiling, "", "");
    rig.write("home/.bun/bin/bun", "#!/bin/sh\necho '{\"text\":\"the secret\"}'\n", 0o755);
    let body = format!("echo line >>notes\n{name} || exit 127");
    let digest = rig.script("reader", &json!({}), &body);
    rig.grant("reader", &[digest], GRANT);
    rig
}

#[tokio::test]
async fn a_run_that_lacked_a_toolchain_gets_it_as_a_whole() {
    for name in ["BASE/home/.bun/bin/bun", "bun"] {
        let rig = running_bun("", name);
        let bin = rig.reading("home/.bun/bin");
        let person = Person::answering([WidenAnswer::Toolchain]);
        let envelope = read(&rig, Some(&person)).await;
        assert!(was_read(&envelope), "{name}: {envelope}");
        // If no directory of `PATH` contains the program, no access was refused.
        let asked = if name == "bun" { String::new() } else { bin.clone() };
        assert_eq!((person.asked_when(), runs(&rig)), (vec![(asked, true)], 2), "{name}");
        let record = rig.last_record();
        let [asked] = &record.asked[..] else { panic!("{record:?}") };
        assert_eq!((asked.what.as_str(), asked.answer.as_str()), (bin.as_str(), "toolchain"));
        // The answer writes the same entry as `policy grant --toolchain`.
        let dir = rig.path("home/.bun/bin").display().to_string();
        let policy = rig.read("policy.toml");
        for part in ["\"rw:.\"", &format!("\"ro:{dir}\""), &format!("path = [\"{dir}\"]")] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(was_read(&read(&rig, None).await), "{name}");
    }
}

#[tokio::test]
async fn a_toolchain_that_was_refused_or_that_a_bound_forbids_is_not_offered() {
    let rig = running_bun("", "bun");
    let person = Person::answering([WidenAnswer::No]);
    for _ in 0..2 {
        assert!(!was_read(&read(&rig, Some(&person)).await));
    }
    assert_eq!((person.asked().len(), runs(&rig)), (1, 2));
    let rig = running_bun("[tools.reader]\nfs = [\"rw:BASE/work\"]\n", "bun");
    let person = Person::answering([]);
    assert!(!was_read(&read(&rig, Some(&person)).await));
    assert_eq!(person.asked(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_call_that_is_interrupted_at_a_question_is_recorded_as_cancelled() {
    let rig = reading();
    let person = Arc::new(Person { thinks: Some(Arc::default()), ..Person::default() });
    let cancel = CancellationToken::new();
    let arguments = json!({});
    let call = rig.call("reader", &arguments, Some(&person), cancel.clone());
    let cancelling = async {
        person.begun.notified().await;
        cancel.cancel();
    };
    let (envelope, ()) = tokio::join!(call, cancelling);
    assert!(envelope["error"].as_str().is_some_and(|it| it.contains("cancelled")), "{envelope}");
    let record = rig.last_record();
    assert_eq!((record.outcome.as_str(), record.cancelled), ("cancelled", true), "{record:?}");
    assert_eq!((record.asked[0].answer.as_str(), record.exit_code), ("cancelled", Some(0)));
}

/// Returns another file for the tool, which does the same.
fn other() -> String {
    format!("{READER}\n# another file")
}

/// Returns a host with the tool. Its entry grants the workspace to the tool's file and to the other
/// file, so that only an answer distinguishes them. Also returns the digests of both.
fn reading_by_two_files() -> (Rig, [Digest; 2]) {
    let rig = reading();
    let new = rig.script("reader", &json!({}), &other());
    let old = rig.script("reader", &json!({}), READER);
    rig.grant("reader", &[old, new], GRANT);
    (rig, [old, new])
}

#[tokio::test]
async fn an_answer_for_the_session_ends_with_the_contents() {
    let (rig, _) = reading_by_two_files();
    let person = Person::answering([WidenAnswer::Session]);
    assert!(was_read(&read(&rig, Some(&person)).await));
    assert!(was_read(&read(&rig, None).await));
    rig.script("reader", &json!({}), &other());
    let envelope = read(&rig, None).await;
    assert!(is_refused(&envelope), "{envelope}");
    // The new file is another tool, so a person can be asked about it.
    assert!(is_refused(&read(&rig, Some(&person)).await));
    assert_eq!(person.asked().len(), 2);
    rig.script("reader", &json!({}), READER);
    assert!(was_read(&read(&rig, None).await));
}

#[tokio::test]
async fn an_answer_for_good_ends_with_the_contents() {
    let (rig, [old, new]) = reading_by_two_files();
    let person = Person::answering([WidenAnswer::Always]);
    assert!(was_read(&read(&rig, Some(&person)).await));
    let policy = rig.read("policy.toml");
    assert!(policy.contains(&old.to_string()) && !policy.contains(&new.to_string()), "{policy}");
    assert!(was_read(&read(&rig, None).await));
    rig.script("reader", &json!({}), &other());
    let envelope = read(&rig, None).await;
    assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{envelope}");
    assert!(!was_read(&envelope), "{envelope}");
}

/// Creates a file in the workspace and a file outside of it, if it can.
const MAKER: &str =
    "{ echo x >made; echo x >BASE/beside/made; } 2>/dev/null; printf '{\"ran\":true}'";

async fn make(rig: &Rig, person: Option<&Arc<Person>>) -> Value {
    rig.run("maker", &json!({}), person).await
}

#[tokio::test]
async fn a_tool_that_nobody_granted_runs_once_somebody_allows_it_and_only_in_the_sandbox() {
    // The tool is denied because nothing is granted to it, or because the grant is for another file
    // with its name.
    let strict = "profile = \"strict\"\n".to_owned();
    let of_another = format!("[tools.maker]\nsha256 = [\"{}\"]\n", Digest::from_bytes(b"another"));
    for policy in [strict, of_another] {
        let rig = Rig::new("", &policy, "");
        rig.script("maker", &json!({}), MAKER);
        let is_denied = |envelope: &Value| envelope["error_code"] == "PERMISSION_DENIED";
        let nothing_was_made = || {
            let made = ["work/made", "beside/made"].map(|name| rig.path(name).exists());
            assert_eq!(made, [false, false], "{policy}");
        };
        let envelope = make(&rig, None).await;
        assert!(is_denied(&envelope), "{policy}\n{envelope}");
        let person = Person::answering([WidenAnswer::Once]);
        let envelope = make(&rig, Some(&person)).await;
        assert_eq!(envelope["result"], json!({ "ran": true }), "{policy}\n{envelope}");
        assert_eq!(person.asked_when(), [("run".to_owned(), false)], "{policy}");
        let question = person.asked.lock().expect("no panic")[0].clone();
        let would = "if it is allowed, it may compute, and touch nothing";
        assert!(question.denied_by.contains(would), "{}", question.denied_by);
        nothing_was_made();
        let record = rig.last_record();
        assert_eq!(
            (record.asked[0].what.as_str(), record.asked[0].answer.as_str()),
            ("run", "once")
        );
        // The answer "once" applies to one call, and "no" to the session.
        assert!(is_denied(&make(&rig, None).await));
        let person = Person::answering([WidenAnswer::No]);
        for _ in 0..2 {
            let envelope = make(&rig, Some(&person)).await;
            assert!(is_denied(&envelope), "{policy}\n{envelope}");
        }
        assert_eq!(person.asked(), ["run"], "{policy}");
        nothing_was_made();
    }
}

#[tokio::test]
async fn nobody_is_asked_to_let_a_tool_run_whose_contents_a_bound_does_not_have() {
    let bound = format!("[tools.maker]\nsha256 = [\"{}\"]\n", Digest::from_bytes(b"another"));
    for (ceiling, workspace, questions) in [("", "", 1), (&*bound, "", 0), ("", &*bound, 0)] {
        let rig = Rig::new(ceiling, "profile = \"strict\"\n", workspace);
        rig.script("maker", &json!({}), "printf '{\"ran\":true}'");
        let person = Person::answering([WidenAnswer::Session]);
        let envelope = make(&rig, Some(&person)).await;
        assert_eq!(person.asked().len(), questions, "{ceiling}{workspace}: {envelope}");
        let is_denied = envelope["error_code"] == "PERMISSION_DENIED";
        assert_eq!(is_denied, questions == 0, "{ceiling}{workspace}: {envelope}");
    }
}

#[tokio::test]
async fn to_let_a_tool_run_for_good_binds_its_contents() {
    let rig = Rig::new("", "profile = \"strict\"\n", "");
    let digest = rig.script("maker", &json!({}), "printf '{\"ran\":true}'");
    let person = Person::answering([WidenAnswer::Always]);
    assert_eq!(make(&rig, Some(&person)).await["result"], json!({ "ran": true }));
    let policy = rig.read("policy.toml");
    assert!(policy.contains(&format!("[tools.maker]\nsha256 = [\"{digest}\"]")), "{policy}");
    assert_eq!(make(&rig, None).await["result"], json!({ "ran": true }));
    rig.script("maker", &json!({}), "printf '{\"ran\":\"other\"}'");
    let envelope = make(&rig, None).await;
    assert_eq!(envelope["error_code"], "PERMISSION_DENIED", "{envelope}");
}

#[tokio::test]
async fn a_path_in_a_marked_argument_is_asked_about_before_the_call() {
    let reads = |rig: &Rig| rig.reading("beside/secret");
    let writes = |rig: &Rig| rig.writing("beside");
    let reads_all = |rig: &Rig| rig.reading("beside");
    for (property, asked, again) in [
        (json!({ "type": "string", "x-ikigai-access": "ro" }), reads as fn(&Rig) -> String, false),
        (json!({ "type": "string", "x-ikigai-access": "rw" }), writes, false),
        // Without the mark the argument is plain text, and the access is noticed while the tool
        // runs.
        (json!({ "type": "string" }), reads_all, true),
    ] {
        let rig = Rig::new("", "", "");
        rig.write("beside/secret", "the secret", 0o644);
        let digest = rig.script("reader", &json!({ "file": property }), READER);
        rig.grant("reader", &[digest], GRANT);
        let arguments = json!({ "file": rig.path("beside/secret") });
        let person = Person::answering([WidenAnswer::Once]);
        let envelope = rig.run("reader", &arguments, Some(&person)).await;
        assert!(was_read(&envelope), "{property} {envelope}");
        assert_eq!(person.asked_when(), [(asked(&rig), again)], "{property}");
        assert_eq!(runs(&rig), if again { 2 } else { 1 }, "{property}");
        fs::remove_file(rig.path("work/notes")).expect("removed");
        // After a refusal the tool runs once, with the access that it was granted.
        let person = Person::answering([WidenAnswer::No]);
        let envelope = rig.run("reader", &arguments, Some(&person)).await;
        assert!(is_refused(&envelope) && envelope["allow_with"].is_string(), "{envelope}");
        assert_eq!(runs(&rig), 1, "{property}");
    }
}

/// Calls the reader. While a person is asked, replaces its entry by one with the additional `keys`.
/// The person then allows the access.
async fn read_under_a_new_rule(rig: &Rig, arguments: &Value, keys: &str) -> Value {
    let told = Arc::new(Notify::new());
    let thinks = Some(Arc::clone(&told));
    let person = Arc::new(Person { thinks, ..Person::with([WidenAnswer::Once]) });
    let edit = async {
        person.begun.notified().await;
        let digest = Digest::from_bytes(&fs::read(rig.path("tools/reader")).expect("the tool"));
        rig.grant("reader", &[digest], &format!("{GRANT}\n{keys}"));
        told.notify_one();
    };
    let (envelope, ()) = tokio::join!(rig.run("reader", arguments, Some(&person)), edit);
    envelope
}

#[tokio::test]
async fn a_rule_that_is_made_while_a_person_is_asked_holds_after_the_answer() {
    let asks = "approve = \"always\"";
    // The tool does not run a second time.
    let rig = reading();
    let envelope = read_under_a_new_rule(&rig, &json!({}), asks).await;
    assert!(is_refused(&envelope), "{envelope}");
    assert_eq!(runs(&rig), 1);
    // The tool does not run at all.
    let rig = reading();
    let marked = json!({ "file": { "type": "string", "x-ikigai-access": "ro" } });
    let digest = rig.script("reader", &marked, READER);
    rig.grant("reader", &[digest], GRANT);
    let arguments = json!({ "file": rig.path("beside/secret") });
    let envelope = read_under_a_new_rule(&rig, &arguments, asks).await;
    let error = envelope["error"].as_str().unwrap_or_default();
    assert!(error.contains("the rule is newer than the call"), "{envelope}");
    assert_eq!(runs(&rig), 0);
    // The tool runs again, with the new limit.
    let rig = reading();
    let limit = "limits = { output = \"16B\" }";
    let envelope = read_under_a_new_rule(&rig, &json!({}), limit).await;
    assert_eq!(envelope["limit"], "output", "{envelope}");
    assert_eq!(runs(&rig), 2);
}

#[tokio::test]
async fn an_access_that_makes_a_tool_one_that_changes_something_is_agreed_to_by_itself() {
    let rig = reading();
    let marked = json!({ "file": { "type": "string", "x-ikigai-access": "rw" } });
    let digest = rig.script("reader", &marked, READER);
    rig.grant("reader", &[digest], "fs = [\"ro:.\"]\napprove = \"changes\"");
    let arguments = json!({ "file": rig.path("beside/secret") });
    let person = Person::answering([WidenAnswer::Once]);
    let envelope = rig.run("reader", &arguments, Some(&person)).await;
    assert!(was_read(&envelope), "{envelope}");
    // The tool cannot write its notes. The person is asked about that afterwards.
    assert_eq!(person.asked_when()[0], (rig.writing("beside"), false));
}
