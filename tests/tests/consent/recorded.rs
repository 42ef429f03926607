//! Components that are recorded permissively: they read beyond their grant, which is noted, and have
//! neither a secret nor anything to write. Nobody is asked.

use std::sync::{Arc, Mutex};

use ikigai_host::CancellationToken;
use ikigai_host::consent::{Question, Reply, Respondent, Widen, Widened};
use ikigai_host::front_end::{Answer, Costs, FrontEnd, Recording};
use ikigai_host::policy::{Reached, Used};
use ikigai_protocol::Access;
use serde_json::{Value, json};

use crate::rig::Rig;
use crate::servers::Server;

/// A front end that records, at which somebody sits who is not to be asked.
struct Recorder {
    recording: Recording,
    reached: Mutex<Vec<Reached>>,
    used: Mutex<Vec<Used>>,
}

impl Recorder {
    fn new(net: bool) -> Arc<Self> {
        let recording = Recording { permissive: true, net };
        Arc::new(Self { recording, reached: Mutex::default(), used: Mutex::default() })
    }

    fn reached(&self) -> Vec<Reached> {
        self.reached.lock().expect("no panic").clone()
    }
}

impl FrontEnd for Recorder {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a Question) -> Answer<'a, Reply> {
        panic!("nobody has to agree to a call that is recorded")
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> Answer<'a, Widened> {
        panic!("asked while it is recorded: {}", question.reached)
    }

    fn recording(&self) -> Option<Recording> {
        Some(self.recording)
    }

    fn recorded(&self, reached: &[Reached], used: &[Used], _: Costs) {
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
        // By their names anywhere, and by their places in the home and among the host's own.
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
        let of = |access, name: &str| Reached::Path { access, path: rig.path(name) };
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
        let peer = Reached::Peer { host: "127.0.0.1".to_owned(), port: server.port() };
        assert_eq!((recorder.reached(), server.connections()), (vec![peer], 0), "{net}");
    }
}
