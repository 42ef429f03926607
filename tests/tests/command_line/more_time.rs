//! Calls that get more time while they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ikigai_host::audit::{LogReader, Record};
use ikigai_host::{Control, Deadline, Extended, Host, Paths};
use ikigai_tests::host::schema;
use ikigai_tests::mode::permit;
use ikigai_tests::paths;
use ikigai_tests::wait::eventually;
use serde_json::Value;
use tempfile::TempDir;

/// The time limit of a call that gets more time in the end. It is long enough to begin on a busy
/// machine.
const SHORT: Duration = Duration::from_secs(2);

/// The added time, which no test waits for.
const HOUR: Duration = Duration::from_secs(3_600);

/// A host with the native tool `slow`, which reports that it has begun, and ends when the test lets
/// it.
struct Rig {
    scratch: TempDir,
    host: Arc<Host>,
}

impl Rig {
    /// Creates a host whose calls have [`SHORT`], with this policy of its user.
    fn new(policy: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let base = scratch.path().canonicalize().expect("there");
        for dir in ["tools", "work", "state"] {
            fs::create_dir(base.join(dir)).expect("a directory of the test");
        }
        let work = base.join("work");
        let (schema, at) = (schema("slow"), work.display());
        let tool = format!(
            "#!/bin/sh\n[ \"$1\" = --schema ] && {{ echo '{schema}'; exit; }}\n\
             printf '{{\"output\":\"begun'; echo begun > '{at}/begun.new'\n\
             mv '{at}/begun.new' '{at}/begun'\n\
             until [ -e '{at}/go' ]; do sleep 0.01; done; printf '\"}}'\n"
        );
        write(&base.join("tools/slow"), &tool, 0o755);
        write(&base.join("policy.toml"), policy, 0o600);
        let paths = Paths {
            system_tools: None,
            user_tools: Some(base.join("tools")),
            required: Vec::new(),
            system_cache: None,
            cache: None,
            policy: Some(base.join("policy.toml")),
            ceiling: base.join("ceiling.toml"),
            home: None,
            state: Some(base.join("state")),
            config: None,
            data: None,
            supervisor: Some(paths::supervisor()),
            compiler: None,
        };
        let host = Host::builder(work).paths(paths).timeout(SHORT).build().expect("a host");
        Self { scratch, host }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join("work").join(name)
    }

    /// Calls the tool, and runs `meanwhile` once the tool has begun.
    async fn call(&self, control: &Control, meanwhile: impl AsyncFnOnce()) -> Value {
        let tools = self.host.refresh().await;
        let call = self.host.call(&tools, "slow", "{}".into(), control.clone());
        let acting = async {
            let begun = self.path("begun");
            let wait = move || eventually("the tool has begun", || begun.exists(), |it| *it);
            tokio::task::spawn_blocking(wait).await.expect("no panic");
            meanwhile().await;
        };
        let (envelope, ()) = tokio::join!(call, acting);
        serde_json::from_str(&envelope.to_string()).expect("JSON")
    }

    /// Returns the record of the only call.
    fn record(&self) -> Record {
        let mut reader = LogReader::open(&self.scratch.path().join("state")).expect("a log");
        let batch = reader.read_back().expect("a file").expect("read");
        let [line] = &batch.lines[..] else { panic!("{batch:?}") };
        line.record.clone()
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("written");
    permit(path, mode);
}

#[tokio::test]
async fn a_call_that_was_given_more_time_ends_by_itself() {
    let rig = Rig::new("");
    let control = Control::default();
    let envelope = rig
        .call(&control, async || {
            assert_eq!(control.deadline.time(), Some(SHORT));
            assert_eq!(control.deadline.extend(HOUR), Extended::To(SHORT + HOUR));
            // Without more time the call would have ended by now.
            tokio::time::sleep(SHORT + Duration::from_millis(500)).await;
            fs::write(rig.path("go"), "").expect("written");
        })
        .await;
    assert_eq!(envelope["result"]["output"], "begun", "{envelope}");
    let record = rig.record();
    assert_eq!((record.limit, record.extended_to_ms), (None, Some(3_602_000)));
}

#[tokio::test]
async fn a_call_that_was_given_none_is_ended_and_what_it_printed_stays() {
    let rig = Rig::new("");
    let envelope = rig.call(&Control::default(), async || {}).await;
    assert_eq!(envelope["error_code"], "TOOL_TIMEOUT", "{envelope}");
    assert_eq!(envelope["error"], "Tool 'slow' timed out after 2s", "{envelope}");
    assert_eq!(envelope["stdout"], "{\"output\":\"begun", "{envelope}");
    let record = rig.record();
    assert_eq!((record.limit.as_deref(), record.extended_to_ms), (Some("wall_clock"), None));
}

#[tokio::test]
async fn no_call_gets_more_time_than_policy_allows() {
    let policy = "[tools.\"*\"]\nlimits = { wall_clock = \"2500ms\" }\n";
    let rig = Rig::new(policy);
    let control = Control::default();
    let most = Duration::from_millis(2_500);
    let envelope = rig
        .call(&control, async || {
            assert!(control.deadline.can_be_extended());
            assert_eq!(control.deadline.extend(HOUR), Extended::ToCeiling(most));
            assert!(!control.deadline.can_be_extended());
        })
        .await;
    assert_eq!(envelope["error"], "Tool 'slow' timed out after 2.5s", "{envelope}");
    assert_eq!(envelope["limit"], "wall_clock", "{envelope}");
    let record = rig.record();
    assert_eq!((record.limit.as_deref(), record.extended_to_ms), (Some("wall_clock"), Some(2_500)));
}

#[tokio::test]
async fn a_call_that_runs_nothing_has_no_time_to_extend() {
    let rig = Rig::new("");
    let tools = rig.host.refresh().await;
    let deadline = Deadline::default();
    let control = Control { deadline: deadline.clone(), ..Control::default() };
    let envelope = rig.host.call(&tools, "another", "{}".into(), control).await;
    assert!(!envelope.is_success());
    assert_eq!((deadline.extend(HOUR), deadline.time()), (Extended::NotBegun, None));
}
