//! Files that a component tries to access beyond its grant. The call waits for a person, and the
//! answer allows nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ikigai_host::audit::{LogReader, Record, Requester, Via};
use ikigai_host::consent::{
    ConsentQuestion, ConsentReply, Respondent, Widen, WidenAnswer, WidenReply,
};
use ikigai_host::front_end::{AnswerFuture, FrontEnd};
use ikigai_host::isolation::Guarantee;
use ikigai_host::policy::{RequestedAccess, UsedAccess};
use ikigai_host::{CancellationToken, Control, Digest, Host, Paths};
use ikigai_protocol::Access;
use ikigai_tests::paths;
use ikigai_tests::wait::TIMEOUT;
use serde_json::Value;

use crate::trespass::rig::Tree;

/// The time limit of a call. The person thinks longer than that.
const SHORT: Duration = Duration::from_secs(3);

type Meanwhile = Box<dyn Fn(&Widen) + Send + Sync>;

/// A person who answers every question in the same way.
struct Person {
    answer: WidenAnswer,
    /// The names of paths to which the person says no.
    refuses: Vec<&'static str>,
    asked: Mutex<Vec<String>>,
    /// The time until the answer, or `None` if the person never answers.
    thinks: Option<Duration>,
    meanwhile: Meanwhile,
}

impl Person {
    fn who_says(answer: WidenAnswer) -> Self {
        let (asked, thinks) = (Mutex::default(), Some(Duration::ZERO));
        Self { answer, refuses: Vec::new(), asked, thinks, meanwhile: Box::new(|_| {}) }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic while held").clone()
    }
}

impl FrontEnd for Person {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        panic!("nobody has to agree to the call")
    }

    fn can_widen(&self) -> bool {
        true
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
        Box::pin(async move {
            let text = question.reached[0].to_string();
            let is_refused = self.refuses.iter().any(|name| text.ends_with(name));
            self.asked.lock().expect("no panic while held").push(text);
            (self.meanwhile)(question);
            match self.thinks {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
            let answer = if is_refused { WidenAnswer::No } else { self.answer.clone() };
            WidenReply { answer, waited: Duration::ZERO }
        })
    }
}

/// A host whose only tool is the guest `walker`, over a tree of files.
struct Rig {
    tree: Tree,
    host: Arc<Host>,
}

impl Rig {
    /// Creates a host with these policy lines for the tool.
    fn new(files: &[&str], keys: &str) -> Self {
        let tree = Tree::from_files(files);
        let guest = fs::read(paths::guests().join("walker.wasm")).expect("the guest");
        for dir in ["tools", "state"] {
            fs::create_dir(tree.path(dir)).expect("made");
        }
        fs::write(tree.path("tools/_walker.wasm"), &guest).expect("written");
        let policy =
            format!("[tools._walker]\nsha256 = [\"{}\"]\n{keys}\n", Digest::from_bytes(&guest));
        fs::write(tree.path("policy.toml"), policy).expect("written");
        let paths = Paths {
            system_tools: None,
            user_tools: Some(tree.path("tools")),
            required: Vec::new(),
            system_cache: None,
            cache: Some(paths::shared_scratch().join("cache")),
            policy: Some(tree.path("policy.toml")),
            ceiling: tree.path("ceiling.toml"),
            home: Some(tree.path("home")),
            state: Some(tree.path("state")),
            config: None,
            data: None,
            supervisor: Some(paths::supervisor()),
            compiler: Some(paths::compiler()),
        };
        let host = Host::builder(tree.path("work")).paths(paths).timeout(SHORT).build();
        Self { host: host.expect("a host"), tree }
    }

    /// Makes the guest take steps while `person` is present, and returns the envelope.
    async fn call(
        &self,
        steps: &[String],
        person: Option<&Arc<Person>>,
        control: Control,
    ) -> Value {
        let tools = self.host.refresh().await;
        assert!(tools.get("_walker").is_some(), "{:?}", tools.skipped());
        let arguments = serde_json::json!({"mode": "steps", "path": steps.join(";")}).to_string();
        let requester = Requester::from(Via::Call);
        let front_end = person.map(|person| Arc::clone(person) as Arc<dyn FrontEnd>);
        let call =
            self.host.call_for(&requester, &tools, "_walker", arguments.into(), control, front_end);
        serde_json::from_str(&call.await.to_string()).expect("JSON")
    }

    /// Makes the guest take steps, and returns the result of each.
    async fn walk(&self, steps: &[&str], person: Option<&Arc<Person>>) -> Vec<String> {
        let at = format!("{}/", self.tree.name("").trim_end_matches('/'));
        let steps: Vec<String> = steps.iter().map(|step| step.replace("@/", &at)).collect();
        let envelope = self.call(&steps, person, Control::default()).await;
        let came = |step: &String| {
            let seen = envelope["result"][step.as_str()].as_str();
            seen.unwrap_or_else(|| panic!("`{step}` was not tried: {envelope:#}")).to_owned()
        };
        steps.iter().map(came).collect()
    }

    /// Returns the text of a question about an access.
    fn reading(&self, name: &str) -> String {
        RequestedAccess::Path { access: Access::ReadOnly, path: self.tree.path(name) }.to_string()
    }

    fn writing(&self, name: &str) -> String {
        RequestedAccess::Path { access: Access::ReadWrite, path: self.tree.path(name) }.to_string()
    }

    fn record(&self) -> Record {
        let mut reader = LogReader::open(&self.tree.path("state")).expect("a log");
        let batch = reader.read_back().expect("a file").expect("read");
        batch.lines.last().expect("a record").record.clone()
    }
}

#[tokio::test]
async fn a_call_waits_for_a_person_and_gets_the_file() {
    for keys in ["", "fs = [\"ro:.\"]"] {
        let rig = Rig::new(&["work/kept", "other/secret", "other/link-to"], keys);
        let yes = Arc::new(Person::who_says(WidenAnswer::Once));
        let steps =
            ["std read @/other/secret", "std stat @/other/secret", "std read @/other/secret"];
        let seen = rig.walk(&steps, Some(&yes)).await;
        assert_eq!(seen, ["other/secret", "12", "other/secret"], "{keys}");
        assert_eq!(yes.asked(), [rig.reading("other/secret")], "{keys}");
        // A neighbouring file is a separate question. A file that does not exist causes no
        // question.
        let no = Arc::new(Person::who_says(WidenAnswer::No));
        let steps = [
            "std read @/other/secret",
            "std read @/other/secret",
            "std stat @/other/secret",
            "std read @/other/none",
            "std stat @/other",
            "std list /",
        ];
        let seen = rig.walk(&steps, Some(&no)).await;
        assert_eq!(
            seen[..4],
            ["PermissionDenied", "PermissionDenied", "PermissionDenied", "NotFound"]
        );
        // A directory that a program only passes on its way causes no question.
        assert_eq!(seen[4], if keys.is_empty() { "PermissionDenied" } else { "NotFound" });
        assert_eq!(no.asked(), [rig.reading("other/secret")], "{keys}");
        let record = rig.record();
        let path = rig.tree.path("other/secret");
        assert!(record.reached.contains(&RequestedAccess::Path { access: Access::ReadOnly, path }));
    }
}

#[tokio::test]
async fn a_person_is_asked_about_the_file_itself_and_the_guest_gets_that_one() {
    let rig = Rig::new(&["other/harmless", "other/secret"], "");
    symlink("secret", rig.tree.path("other/innocent")).expect("linked");
    let no = Arc::new(Person::who_says(WidenAnswer::No));
    rig.walk(&["std read @/other/innocent"], Some(&no)).await;
    assert_eq!(no.asked(), [rig.reading("other/secret")]);
    // While the person reads the question, another file replaces the first under its name.
    for replace in [fs::rename::<PathBuf, PathBuf> as fn(_, _) -> _, |from, to: PathBuf| {
        fs::remove_file(&to).and_then(|()| symlink(from, to))
    }] {
        let rig = Rig::new(&["other/harmless", "other/secret"], "");
        let (secret, harmless) = (rig.tree.path("other/secret"), rig.tree.path("other/harmless"));
        let mut person = Person::who_says(WidenAnswer::Once);
        person.meanwhile = Box::new(move |_| {
            replace(secret.clone(), harmless.clone()).expect("replaced");
        });
        let seen = rig.walk(&["std read @/other/harmless"], Some(&Arc::new(person))).await;
        assert_eq!(seen, ["other/harmless"]);
    }
}

#[tokio::test]
async fn writing_asks_for_the_file_or_for_the_directory_of_a_new_one() {
    let rig = Rig::new(&["work/kept", "other/log", "new/x"], "fs = [\"ro:.\"]");
    let yes = Arc::new(Person::who_says(WidenAnswer::Once));
    let steps = [
        "std append @/other/log !",
        "std read @/other/log",
        "std write @/new/made text",
        "std read @/new/made",
        "std list @/new",
        "std write kept changed",
    ];
    let seen = rig.walk(&steps, Some(&yes)).await;
    assert_eq!(seen, ["done", "other/log!", "done", "text", "made x", "done"]);
    let asked = [rig.writing("other/log"), rig.writing("new"), rig.writing("work/kept")];
    assert_eq!(yes.asked(), asked);
    assert_eq!(rig.tree.read("work/kept"), "changed");
    let no = Arc::new(Person::who_says(WidenAnswer::No));
    let steps = ["std write @/other/more x", "std write @/other/log x", "std write more x"];
    let seen = rig.walk(&steps, Some(&no)).await;
    assert_eq!(seen, ["PermissionDenied"; 3]);
    assert!(!rig.tree.path("other/more").exists() && rig.tree.read("other/log") == "other/log!");
}

#[tokio::test]
async fn a_change_of_an_entry_waits_for_its_directory() {
    for keys in ["", "fs = [\"ro:.\"]", "fs = [\"rw:.\"]"] {
        let rig = || Rig::new(&["work/own", "new/x", "new/y", "new/z", "far/x"], keys);
        let steps = [
            "std mkdir @/new/made",
            "std mkdir @/new/made/sub",
            "std unlink @/new/x",
            "std rename @/new/y @/new/made/y",
            "std rename @/new/z @/far/x",
            "std unlink @/new/none",
            "std mkdir @/none/sub",
            "std link @/new/made/y @/new/again",
        ];
        // A refusal changes nothing, and the question is not repeated.
        let refusing = rig();
        let rig = rig();
        let no = Arc::new(Person::who_says(WidenAnswer::No));
        let seen = refusing.walk(&steps, Some(&no)).await;
        assert_eq!(
            (seen[0].as_str(), seen[1].as_str()),
            ("PermissionDenied", "NotFound"),
            "{keys}"
        );
        assert_eq!(seen[2..5], ["PermissionDenied"; 3], "{keys} {seen:?}");
        assert_eq!(no.asked(), [refusing.writing("new")], "{keys}");
        let new = refusing.tree.path("new");
        assert!(new.join("x").exists() && !new.join("made").exists());
        let reached = refusing.record().reached;
        let new = RequestedAccess::Path { access: Access::ReadWrite, path: new };
        assert!(reached.contains(&new), "{reached:?}");
        // Without a person the outcome is the same, and the guest learns nothing.
        let seen = rig.walk(&steps, None).await;
        assert!(seen.iter().all(|it| it == "NotFound" || it == "PermissionDenied"), "{seen:?}");

        let yes = Arc::new(Person::who_says(WidenAnswer::Once));
        let seen = rig.walk(&steps, Some(&yes)).await;
        assert_eq!(seen[..5], ["done"; 5], "{keys} {seen:?}");
        assert_eq!(seen[5..7], ["NotFound"; 2], "{keys} {seen:?}");
        // Hard links are refused even then.
        assert_ne!(seen[7], "done");
        assert_eq!(yes.asked(), [rig.writing("new"), rig.writing("far")], "{keys}");
        assert!(rig.tree.path("new/made/sub").is_dir() && !rig.tree.path("new/x").exists());
        assert_eq!(
            (rig.tree.read("new/made/y"), rig.tree.read("far/x")),
            ("new/y".into(), "new/z".into())
        );
        // Files are moved into the workspace and out of it. If writing there is not granted, the
        // person is asked.
        let steps =
            ["std rename @/far/x taken", "std rename own @/new/given", "std unlink @/new/given"];
        let yes = Arc::new(Person::who_says(WidenAnswer::Once));
        let seen = rig.walk(&steps, Some(&yes)).await;
        if keys.is_empty() {
            continue;
        }
        assert_eq!(seen, ["done"; 3], "{keys}");
        let is_asked = yes.asked().contains(&rig.writing("work"));
        assert_eq!(is_asked, keys.contains("ro:"), "{keys} {:?}", yes.asked());
        assert_eq!(rig.tree.read("work/taken"), "new/z");
    }
}

#[tokio::test]
async fn nothing_hidden_or_of_the_hosts_own_is_made_removed_or_renamed() {
    let keys = "fs = [\"rw:.\"]\nhide = [\".env\", \"/keys\"]";
    let rig = Rig::new(&["work/kept", "other/.env", "other/sub/.env", "other/x"], keys);
    let yes = Arc::new(Person::who_says(WidenAnswer::Once));
    let seen = rig
        .walk(
            &[
                "std unlink @/other/.env",
                "std rename @/other/.env @/other/seen",
                "std rename @/other/x @/other/.ENV",
                "std mkdir @/other/.env",
                "std unlink @/policy.toml",
                "std mkdir @/tools/made",
                "std rename kept @/tools/_walker.wasm",
                "std mkdir /proc/made",
            ],
            Some(&yes),
        )
        .await;
    assert!(seen.iter().all(|it| it != "done"), "{seen:?}");
    for name in ["other/.env", "other/x", "policy.toml", "work/kept"] {
        assert!(rig.tree.path(name).exists(), "{name}");
    }
    let asked = yes.asked();
    assert!(asked.iter().all(|it| *it == rig.writing("other")), "{asked:?}");
}

#[tokio::test]
async fn a_directory_is_allowed_with_all_in_it_and_nothing_above() {
    let rig = Rig::new(&["data/a", "data/sub/b", "secret"], "");
    symlink("../secret", rig.tree.path("data/out")).expect("linked");
    let data = rig.reading("data");
    let yes = Arc::new(Person::who_says(WidenAnswer::Once));
    let seen = rig
        .walk(&["std list @/data", "std read @/data/sub/b", "std stat @/data"], Some(&yes))
        .await;
    assert_eq!(seen[..2], ["a out sub", "data/sub/b"]);
    assert_eq!(yes.asked(), std::slice::from_ref(&data));
    // A link in the directory that leads out is a separate question.
    let seen = rig.walk(&["std list @/data", "std read @/data/out"], Some(&yes)).await;
    assert_eq!(seen[1], "secret");
    assert_eq!(yes.asked()[1..], [data, rig.reading("secret")]);
}

#[tokio::test]
async fn an_allowed_directory_keeps_its_secrets_and_what_other_programs_execute() {
    let files = [
        "new/.git/HEAD",
        "new/.git/hooks/x",
        "new/.git/rebase-merge/git-rebase-todo",
        "new/scripts/hook",
        "new/sub/.git/hooks/x",
        "new/sub/scripts/hook",
        "home/.cargo/credentials.toml",
        "home/.cargo/config.toml",
        "work/kept",
    ];
    let rig = Rig::new(&files, "fs = [\"rw:.\"]");
    symlink("../../scripts/hook", rig.tree.path("new/.git/hooks/pre-commit")).expect("linked");
    symlink("../../scripts/none", rig.tree.path("new/.git/hooks/post-merge")).expect("linked");
    symlink("../../scripts/hook", rig.tree.path("new/sub/.git/hooks/pre-commit")).expect("linked");
    let mut person = Person::who_says(WidenAnswer::Once);
    person.refuses = vec![".envrc", "hooks", ".git/config", "pre-commit", "post-merge"];
    let person = Arc::new(person);
    let steps = [
        "std write @/new/made x",
        "std write @/new/.envrc x",
        "std write @/new/.git/hooks/post-checkout x",
        "std append @/new/.git/hooks/x x",
        "std write @/new/.git/config x",
        "std rename @/new/made @/new/.envrc",
        "std rename kept @/new/.envrc",
        "std append @/new/scripts/hook x",
        "std append @/new/.git/hooks/pre-commit x",
        "std write @/new/scripts/none x",
        "std append @/new/.git/rebase-merge/git-rebase-todo x",
        "std append @/new/sub/.git/hooks/pre-commit x",
        "std write @/new/more x",
    ];
    let seen = rig.walk(&steps, Some(&person)).await;
    assert_eq!(seen[0], "done");
    assert_eq!(seen[1..12], ["PermissionDenied"; 11], "{:?}", person.asked());
    assert_eq!(seen[12], "done");
    assert_eq!(rig.tree.read("new/scripts/hook"), "new/scripts/hook");
    let places = rig.record().isolation.expect("it ran").places.expect("said");
    assert!(matches!(places, Guarantee::Partial(_)), "{places:?}");
    assert!(!rig.tree.path("new/.envrc").exists());
    assert!(!rig.tree.path("new/.git/hooks/post-checkout").exists());
    let places = ["new", "new/.envrc", "new/.git/hooks", "new/.git/config"];
    assert_eq!(person.asked()[..4], places.map(|name| rig.writing(name)));
    // From then on, no program in the directory is trusted.
    let new = rig.tree.path("new");
    assert!(rig.tree.read("state/writable").lines().any(|line| Path::new(line) == new));

    let yes = Arc::new(Person::who_says(WidenAnswer::Once));
    let dir = rig.tree.path("home/.cargo");
    let by_handle = format!(
        "open-in / {} credentials.toml",
        dir.strip_prefix("/").expect("an absolute path").display()
    );
    let steps = [
        "std list @/home/.cargo",
        "std read @/home/.cargo/config.toml",
        "std read @/home/.cargo/credentials.toml",
        "std stat @/home/.cargo/credentials.toml",
        &by_handle,
    ];
    let seen = rig.walk(&steps, Some(&yes)).await;
    assert_eq!(seen[1], "home/.cargo/config.toml");
    assert_eq!(seen[2..], ["PermissionDenied", "PermissionDenied", "access"]);
    assert_eq!(yes.asked(), [rig.reading("home/.cargo")]);
    // The place itself is a question of its own.
    let yes = Arc::new(Person::who_says(WidenAnswer::Once));
    let steps = ["std write @/new/.mcp.json x", "std read @/home/.cargo/credentials.toml"];
    let seen = rig.walk(&steps, Some(&yes)).await;
    assert_eq!(seen, ["done", "home/.cargo/credentials.toml"]);
}

#[tokio::test]
async fn nobody_is_asked_about_what_is_hidden_and_the_hosts_own() {
    let rig =
        Rig::new(&["work/.env", "other/.env", "work/kept"], "fs = [\"ro:.\"]\nhide = [\".env\"]");
    fs::hard_link(rig.tree.path("work/.env"), rig.tree.path("other/plain")).expect("linked");
    let yes = Arc::new(Person::who_says(WidenAnswer::Once));
    let steps = [
        "std read .env",
        "std read @/work/.env",
        "std read @/other/.env",
        "std read @/other/plain",
        "std write @/other/.ENV x",
        "std write @/policy.toml x",
        "std read /proc/self/environ",
        "std read /dev/zero",
        "std list /proc",
        "std list /",
    ];
    let seen = rig.walk(&steps, Some(&yes)).await;
    assert!(seen[..8].iter().all(|it| it == "PermissionDenied" || it == "NotFound"), "{seen:?}");
    assert_eq!(yes.asked(), [""; 0]);
    assert!(!rig.tree.read("policy.toml").starts_with('x'));
}

#[tokio::test]
async fn the_clock_stands_still_while_a_person_thinks() {
    let rig = Rig::new(&["other/secret"], "");
    let mut person = Person::who_says(WidenAnswer::Once);
    person.thinks = Some(2 * SHORT);
    let seen = rig.walk(&["std read @/other/secret"], Some(&Arc::new(person))).await;
    assert_eq!(seen, ["other/secret"]);
}

#[tokio::test]
async fn a_hundred_reaches_are_eight_questions() {
    let names: Vec<String> = (0..100).map(|number| format!("other/{number}")).collect();
    let files: Vec<&str> = names.iter().map(String::as_str).collect();
    let rig = Rig::new(&files, "");
    let no = Arc::new(Person::who_says(WidenAnswer::No));
    let steps: Vec<String> = names.iter().map(|name| format!("std read @/{name}")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let seen = rig.walk(&steps, Some(&no)).await;
    assert_eq!(seen, ["PermissionDenied"; 100]);
    let first: Vec<String> = names[..8].iter().map(|name| rig.reading(name)).collect();
    assert_eq!(no.asked(), first);
    let record = rig.record();
    assert_eq!(record.asked.len(), 8, "{record:?}");
    assert!(record.reached_count >= Some(100), "{record:?}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_a_person_thinks_ends() {
    let rig = Rig::new(&["other/secret"], "");
    let cancel = CancellationToken::new();
    let mut person = Person::who_says(WidenAnswer::Once);
    person.thinks = None;
    let asked = cancel.clone();
    person.meanwhile = Box::new(move |_| asked.cancel());
    let person = Arc::new(person);
    let steps = [format!("std read {}", rig.tree.name("other/secret"))];
    let call = rig.call(&steps, Some(&person), cancel.into());
    let envelope = tokio::time::timeout(TIMEOUT, call).await.expect("an end");
    assert_eq!(person.asked().len(), 1, "{envelope}");
    assert_eq!(envelope["tool_success"], false, "{envelope}");
}

#[tokio::test]
async fn without_a_person_nothing_is_learnt_and_all_of_it_noted() {
    let rig = Rig::new(&["work/kept", "other/secret"], "fs = [\"ro:.\"]");
    let steps = [
        "std read @/other/secret",
        "std read @/other/none",
        "std read ../other/secret",
        "std read kept",
        "std write kept x",
    ];
    let seen = rig.walk(&steps, None).await;
    assert_eq!(seen[3], "work/kept");
    // The guest gets the same error for an existing file as for a missing one.
    assert_eq!(seen[0], seen[1]);
    let record = rig.record();
    let reached = |access, name: &str| RequestedAccess::Path { access, path: rig.tree.path(name) };
    for it in [reached(Access::ReadOnly, "other/secret"), reached(Access::ReadWrite, "work/kept")] {
        assert!(record.reached.contains(&it), "{it}: {:?}", record.reached);
    }
    assert_eq!(record.used, [UsedAccess::Dir { path: rig.tree.path("work") }]);
}
