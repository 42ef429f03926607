//! Tools that are recorded permissively. They can read beyond their grant, which is recorded, but
//! cannot read secrets. A component cannot write beyond its grant. The writes of a native tool are
//! discarded. No question is asked.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ikigai_host::CancellationToken;
use ikigai_host::consent::{ConsentQuestion, ConsentReply, Respondent, Widen, WidenReply};
use ikigai_host::front_end::{AnswerFuture, Costs, FrontEnd, Recording};
use ikigai_host::policy::{RequestedAccess, UsedAccess};
use ikigai_protocol::Access;
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::consent::rig::Rig;
use crate::servers::Server;

/// A front end that records. Its user is present, but must not be asked.
struct Recorder {
    recording: Recording,
    reached: Mutex<Vec<RequestedAccess>>,
    used: Mutex<Vec<UsedAccess>>,
}

impl Recorder {
    fn new(net: bool) -> Arc<Self> {
        let recording = Recording { permissive: true, net };
        Arc::new(Self { recording, reached: Mutex::default(), used: Mutex::default() })
    }

    fn reached(&self) -> Vec<RequestedAccess> {
        self.reached.lock().expect("no panic").clone()
    }
}

impl FrontEnd for Recorder {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        panic!("nobody has to agree to a call that is recorded")
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
        panic!("asked while it is recorded: {:?}", question.reached)
    }

    fn recording(&self) -> Option<Recording> {
        Some(self.recording)
    }

    fn recorded(&self, reached: &[RequestedAccess], used: &[UsedAccess], _: Costs) {
        self.reached.lock().expect("no panic").extend_from_slice(reached);
        self.used.lock().expect("no panic").extend_from_slice(used);
    }
}

async fn call(rig: &Rig, recorder: &Arc<Recorder>, tool: &str, arguments: &Value) -> Value {
    let front_end = Arc::clone(recorder) as Arc<dyn FrontEnd>;
    rig.call_for(Some(front_end), tool, arguments, CancellationToken::new()).await
}

#[tokio::test]
async fn what_is_read_elsewhere_is_noted_and_secrets_are_kept_from_it() {
    for keys in ["", "fs = [\"ro:.\"]"] {
        let rig = Rig::new("", "", "");
        let digest = rig.guest("walker");
        rig.grant("_walker", &[digest], keys);
        let plain = ["beside/plain", "other/sub/deep"];
        // The secrets are recognised by their names in any directory, by their places in the home
        // directory, and by being the host's own.
        let secrets = [
            "work/.env",
            "beside/.env",
            "beside/id_rsa",
            "home/.ssh/config",
            "home/.aws/credentials",
            "state/own",
        ];
        for name in plain.iter().chain(&secrets) {
            rig.write(name, "contents", 0o644);
        }
        let step = |verb: &str, name: &str| format!("std {verb} {}", rig.path(name).display());
        let reads = plain.iter().chain(&secrets).chain(&["policy.toml"]);
        let mut steps: Vec<String> = reads.map(|name| step("read", name)).collect();
        steps.push(step("append", "beside/plain") + " more");
        steps.push(step("write", "beside/new") + " more");
        let recorder = Recorder::new(false);
        let arguments = json!({ "mode": "steps", "path": steps.join(";") });
        let envelope = call(&rig, &recorder, "_walker", &arguments).await;
        let came = |step: &String| envelope["result"][step].as_str().expect("it was tried");
        for (number, step) in steps.iter().enumerate() {
            let is_refused = ["PermissionDenied", "NotFound"].contains(&came(step));
            match number < plain.len() {
                true => assert_eq!(came(step), "contents", "{keys} {step}"),
                false => assert!(is_refused, "{keys} {step}: {}", came(step)),
            }
        }
        assert_eq!(rig.read("beside/plain"), "contents");
        assert!(!rig.path("beside/new").exists());
        let reached = recorder.reached();
        let of = |access, name: &str| RequestedAccess::Path { access, path: rig.path(name) };
        let read = plain.iter().chain(&["home/.ssh/config"]).map(|it| of(Access::ReadOnly, it));
        let written = ["beside/plain", "beside"].map(|it| of(Access::ReadWrite, it));
        for noted in read.chain(written) {
            assert!(reached.contains(&noted), "{keys} {noted}: {reached:?}");
        }
    }
}

#[tokio::test]
async fn no_recording_reaches_this_machine_or_a_private_network() {
    let server = Server::greeting("127.0.0.1");
    let rig = Rig::new("", "", "");
    let digest = rig.guest("caller");
    rig.grant("_caller", &[digest], "");
    for net in [false, true] {
        let recorder = Recorder::new(net);
        let arguments = json!({ "mode": "tcp", "path": server.target() });
        let envelope = call(&rig, &recorder, "_caller", &arguments).await;
        assert_ne!(envelope["result"][&server.target()], "REACHED", "{net} {envelope}");
        let peer = RequestedAccess::Peer { host: "127.0.0.1".to_owned(), port: server.port() };
        assert_eq!((recorder.reached(), server.connections()), (vec![peer], 0), "{net}");
    }
}

/// The user `nobody`, who has no rights.
const NOBODY: u32 = 65_534;

/// Changes the machine in every way that a program can. Fails if it does not see its changes, or if
/// it sees a secret.
const CHANGES: &str = r#"set -e
cd BASE/work
echo new >made; echo more >>kept; [ "$(cat made kept)" = "new
work/keptmore" ]
truncate -s 0 long; ! [ -s long ]
cd beside
mkdir -p a/b; echo x >a/b/c; mv a/b/c moved; ln -s moved link; ln moved hard
[ "$(cat link hard)" = "x
x" ]
rm removed; ! [ -e removed ]; mv old renamed; chmod 600 renamed
rm -r full; mkdir full; [ -z "$(ls -A full)" ]
! grep -r hunter2 BASE/home BASE/work >/dev/null 2>&1 || exit 7
! mv BASE/home/.ssh BASE/home/ssh 2>/dev/null || exit 8
! mv BASE/work BASE/other 2>/dev/null || exit 9
printf {}"#;

/// Returns all files below a directory, each with its kind and mode, its owner and its contents.
fn all(dir: &Path) -> BTreeMap<PathBuf, (u32, u32, String)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (path, stat) = (entry.path(), entry.metadata().expect("there"));
        let text =
            if stat.is_file() { fs::read_to_string(&path).expect("read") } else { "".into() };
        if stat.is_dir() {
            found.extend(all(&path));
        }
        found.insert(path, (stat.mode(), stat.uid(), text));
    }
    found
}

#[tokio::test]
async fn what_a_native_tool_writes_is_noted_and_thrown_away() {
    let files = ["work/kept", "work/long", "work/.env", "home/.ssh/key", "home/.env"];
    let beside = ["removed", "old", "full/deep"].map(|name| format!("work/beside/{name}"));
    for (keys, is_nobody) in [("", false), ("fs = [\"ro:.\"]", false), ("", true)] {
        if is_nobody && !geteuid().is_root() {
            continue;
        }
        // A tool has its own `/tmp`. A user without rights cannot see another user's home
        // directory.
        let place = if is_nobody { PathBuf::from("/var") } else { paths::shown_scratch() };
        let scratch = tempfile::tempdir_in(place).expect("a directory");
        let base = scratch.path().canonicalize().expect("there");
        permit(&base, 0o755);
        let supervisor = if is_nobody { unprivileged(&base) } else { paths::supervisor() };
        let rig = Rig::in_scratch(scratch, supervisor, ["", "", ""], |host| host);
        for name in files.iter().copied().chain(beside.iter().map(String::as_str)) {
            rig.write(name, if name.contains("/.") { "hunter2" } else { name }, 0o644);
        }
        let digest = rig.script("changer", &json!({}), CHANGES);
        rig.grant("changer", &[digest], keys);
        if is_nobody {
            for dir in ["work", "home"].map(|dir| rig.path(dir)) {
                for path in all(&dir).into_keys().chain([dir]) {
                    chown(path, Some(NOBODY), Some(NOBODY)).expect("given away");
                }
            }
        }
        let dirs = ["work", "home"].map(|dir| rig.path(dir));
        let before = dirs.each_ref().map(|dir| all(dir));
        let recorder = Recorder::new(false);
        let envelope = call(&rig, &recorder, "changer", &json!({})).await;
        assert_eq!(envelope["tool_success"], true, "{keys} nobody: {is_nobody} {envelope:#}");
        assert_eq!(dirs.each_ref().map(|dir| all(dir)), before, "{keys} nobody: {is_nobody}");
        let reached = recorder.reached();
        let written = ["work", "work/kept", "work/long", "work/beside", "work/beside/removed"];
        for name in written {
            let noted = RequestedAccess::Path { access: Access::ReadWrite, path: rig.path(name) };
            // This process is root, and records accesses that root could be granted.
            assert!(reached.contains(&noted), "{keys} {noted}: {reached:?}");
        }
    }
}

/// Makes a supervisor that runs as the user without rights.
fn unprivileged(dir: &Path) -> PathBuf {
    let path = dir.join("unprivileged");
    fs::copy(env!("CARGO_BIN_EXE_unprivileged"), &path).expect("copied");
    fs::copy(paths::supervisor(), dir.join("supervisor")).expect("copied");
    path
}
