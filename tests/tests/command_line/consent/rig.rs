//! The fixtures of `consent`: people with prepared answers, and a host that they use.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ikigai_host::audit::{LogReader, Record, Requester};
use ikigai_host::consent::{
    ConsentQuestion, ConsentReply, Respondent, Widen, WidenAnswer, WidenReply,
};
use ikigai_host::front_end::{AnswerFuture, FrontEnd};
use ikigai_host::policy::{Remedy, RequestedAccess};
use ikigai_host::{CancellationToken, Digest, Host, HostBuilder, Paths};
use ikigai_protocol::Access;
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

/// A person with prepared answers, who refuses every further question.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) answers: Mutex<VecDeque<WidenAnswer>>,
    pub(crate) asked: Mutex<Vec<Widen>>,
    /// Set if the person thinks until notified.
    pub(crate) thinks: Option<Arc<Notify>>,
    pub(crate) begun: Notify,
}

impl Person {
    pub(crate) fn answering(answers: impl IntoIterator<Item = WidenAnswer>) -> Arc<Self> {
        Arc::new(Self::with(answers))
    }

    pub(crate) fn with(answers: impl IntoIterator<Item = WidenAnswer>) -> Self {
        let answers = Mutex::new(answers.into_iter().collect());
        Self { answers, ..Self::default() }
    }

    /// Returns the questions so far, as text.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").iter().map(in_words).collect()
    }

    /// Returns the questions so far, as text, each with whether the tool had already run.
    pub(crate) fn asked_when(&self) -> Vec<(String, bool)> {
        let asked = self.asked.lock().expect("no panic");
        asked.iter().map(|it| (in_words(it), it.again)).collect()
    }
}

/// Returns the accesses that a question is about, as the record words them.
fn in_words(question: &Widen) -> String {
    question.reached.iter().map(RequestedAccess::to_string).collect::<Vec<_>>().join("; ")
}

impl FrontEnd for Person {
    fn respondent(&self) -> Respondent {
        Respondent::Person
    }

    fn ask<'a>(&'a self, _: &'a ConsentQuestion) -> AnswerFuture<'a, ConsentReply> {
        panic!("no policy of these tests requires consent")
    }

    fn can_widen(&self) -> bool {
        true
    }

    fn widen<'a>(&'a self, question: &'a Widen) -> AnswerFuture<'a, WidenReply> {
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
            if answer == WidenAnswer::Toolchain {
                question.toolchains.as_ref().expect("an offer").proposal.write().expect("written");
            }
            WidenReply { answer, waited: Duration::from_millis(7) }
        })
    }
}

/// A host with the built-in tools, a directory for user tools, a workspace, and a directory next to
/// the workspace.
pub(crate) struct Rig {
    scratch: TempDir,
    host: Arc<Host>,
}

impl Rig {
    pub(crate) fn new(ceiling: &str, user: &str, workspace: &str) -> Self {
        Self::built([ceiling, user, workspace], |host| host)
    }

    /// Creates a host with these policy files. `adjust` changes its builder.
    pub(crate) fn built(files: [&str; 3], adjust: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        Self::in_scratch(scratch, paths::supervisor(), files, adjust)
    }

    /// Creates a host in this directory, whose native tools run under this supervisor.
    pub(crate) fn in_scratch(
        scratch: TempDir,
        supervisor: PathBuf,
        [ceiling, user, workspace]: [&str; 3],
        adjust: impl FnOnce(HostBuilder) -> HostBuilder,
    ) -> Self {
        let base = scratch.path().canonicalize().expect("there");
        for dir in ["work/.ikigai", "beside", "other", "state", "home", "tools"] {
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
            permit(base.join(name), 0o600);
        }
        let paths = Paths {
            system_tools: Some(paths::tools()),
            user_tools: Some(base.join("tools")),
            required: Vec::new(),
            system_cache: None,
            cache: Some(paths::shared_scratch().join("consent-cache")),
            policy: Some(base.join("policy.toml")),
            ceiling: base.join("ceiling.toml"),
            home: Some(base.join("home")),
            state: Some(base.join("state")),
            config: None,
            data: None,
            supervisor: Some(supervisor),
            compiler: Some(paths::compiler()),
        };
        let hint = |remedy: &Remedy| match remedy {
            Remedy::Widen { tool, permissions } => format!("grant {tool} {:?}", permissions.dirs),
            Remedy::WatchAtTerminal { tool } => format!("watch {tool}"),
            _ => String::new(),
        };
        let host = adjust(Host::builder(base.join("work")).paths(paths).hints(hint));
        Self { scratch, host: host.build().expect("a host") }
    }

    /// Writes a file in the workspace or next to it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory of the test");
        fs::write(&path, content).expect("written");
        permit(&path, mode);
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| format!("{:?}", error.kind()))
    }

    /// Installs a shell script as a user tool, whose schema has these properties. `BASE` stands for
    /// the directory of the test. Returns the digest of its file.
    pub(crate) fn script(&self, name: &str, properties: &Value, body: &str) -> Digest {
        let schema = json!({
            "name": name,
            "description": "A tool of the test",
            "parameters": { "type": "object", "properties": properties },
        });
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --schema ]; then printf %s '{schema}'; exit; fi\n{body}\n"
        );
        let text =
            text.replace("BASE", self.path("").to_str().expect("UTF-8").trim_end_matches('/'));
        self.write(&format!("tools/{name}"), &text, 0o755);
        Digest::from_bytes(text.as_bytes())
    }

    /// Installs a guest of `tests/guests` as a user tool. Returns the digest of its file.
    pub(crate) fn guest(&self, name: &str) -> Digest {
        let bytes = fs::read(paths::guests().join(format!("{name}.wasm"))).expect("the guest");
        self.write(&format!("tools/_{name}.wasm"), &bytes, 0o644);
        Digest::from_bytes(&bytes)
    }

    /// Writes an entry for this tool into the user's policy file, bound to these contents, with
    /// these keys.
    pub(crate) fn grant(&self, tool: &str, contents: &[Digest], keys: &str) {
        let contents: Vec<String> = contents.iter().map(|it| format!("\"{it}\"")).collect();
        let text = format!("[tools.{tool}]\nsha256 = [{}]\n{keys}\n", contents.join(", "));
        self.write("policy.toml", text, 0o600);
    }

    /// Returns the text that the person sees about an access to a file.
    pub(crate) fn reading(&self, name: &str) -> String {
        RequestedAccess::Path { access: Access::ReadOnly, path: self.path(name) }.to_string()
    }

    pub(crate) fn writing(&self, name: &str) -> String {
        RequestedAccess::Path { access: Access::ReadWrite, path: self.path(name) }.to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().canonicalize().expect("there").join(name)
    }

    /// Lists a directory by `glob`. `person` is asked, if present.
    pub(crate) async fn list(&self, name: &str, person: Option<&Arc<Person>>) -> Value {
        let arguments = json!({ "pattern": "*", "path": self.path(name) });
        self.run("glob", &arguments, person).await
    }

    /// Calls a tool to its end. `person` is asked, if present.
    pub(crate) async fn run(
        &self,
        tool: &str,
        arguments: &Value,
        person: Option<&Arc<Person>>,
    ) -> Value {
        self.call(tool, arguments, person, CancellationToken::new()).await
    }

    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        person: Option<&Arc<Person>>,
        cancel: CancellationToken,
    ) -> Value {
        let front_end = person.map(|person| Arc::clone(person) as Arc<dyn FrontEnd>);
        self.call_for(front_end, tool, arguments, cancel).await
    }

    /// Calls a tool for a front end.
    pub(crate) async fn call_for(
        &self,
        front_end: Option<Arc<dyn FrontEnd>>,
        tool: &str,
        arguments: &Value,
        cancel: CancellationToken,
    ) -> Value {
        let tools = self.host.refresh().await;
        assert!(tools.get(tool).is_some(), "{:?}", tools.skipped());
        let requester = Requester::default();
        let arguments = arguments.to_string().into();
        let call = self.host.call_for(&requester, &tools, tool, arguments, cancel, front_end);
        serde_json::from_str(&call.await.to_string()).expect("JSON")
    }

    pub(crate) fn last_record(&self) -> Record {
        let mut reader = LogReader::open(&self.path("state")).expect("a log");
        let mut batch = reader.read_back().expect("a file").expect("read");
        batch.lines.pop().expect("a record").record
    }
}

pub(crate) fn found(envelope: &Value) -> bool {
    envelope["result"].to_string().contains("found")
}

pub(crate) fn is_refused(envelope: &Value) -> bool {
    envelope["result"]["error_code"] == "PERMISSION_DENIED"
}
