//! Values of variables that policy grants by name. They must appear neither in failures nor in
//! records.

use std::path::PathBuf;

use ikigai_tests::host::Host;
use serde_json::json;

use super::{digest, only, script};

const VALUE: &str = "hunter2-\"and\\more";

/// The script `tool`, to which a policy grants the variable TOKEN.
struct Entrusted {
    host: Host,
    policy: PathBuf,
}

impl Entrusted {
    fn new(body: &str) -> Self {
        let host = script(body).env("TOKEN", VALUE).env("OTHER", "of-no-concern");
        let digest = digest(&host.user_tools().join("tool"));
        let text = format!(
            "[tools.tool]\nsha256 = [\"{digest}\"]\nsandbox = \"off\"\nenv = [\"TOKEN\"]\n"
        );
        let policy = host.write("policy/policy.toml", text, 0o600);
        Self { host, policy }
    }

    fn run(&self, args: &[&str]) -> ikigai_tests::host::Ran {
        let policy = self.policy.to_str().expect("UTF-8");
        self.host.run([&["--audit-arguments", "--policy", policy, "tool"], args].concat())
    }
}

/// Asserts that a text contains no part of the value that is too long to be there by chance.
#[track_caller]
fn assert_free(text: &str) {
    for part in ["hunter2", "and\\", "more"] {
        assert!(!text.contains(part), "`{part}` is in the text:\n{text}");
    }
}

#[test]
fn a_failure_does_not_tell_what_a_tool_was_entrusted_with() {
    let tool =
        Entrusted::new("echo \"with $TOKEN\" >&2; printf '{\"t\":\"%s\"}' \"$TOKEN\"; exit 3");
    let ran = tool.run(&["call", "tool"]).expect_code(1);
    let envelope = ran.json();
    assert_eq!(envelope["exit_code"], 3, "{ran}");
    assert_eq!(envelope["stderr"], "with [redacted: TOKEN]\n", "{ran}");
    assert_eq!(envelope["stdout"], "{\"t\":\"[redacted: TOKEN]\"}", "{ran}");
    assert_free(format!("{ran}").replace(VALUE, "").split_once("status:").expect("both").1);
    let record = only(&tool.host);
    assert_free(&record.to_string());
    let env = record["grant"]["env"].as_array().expect("names");
    assert!(env.contains(&json!("TOKEN")) && !env.contains(&json!("OTHER")), "{record}");
    let policy = format!("{}:4", tool.policy.display());
    assert!(
        record["grant"]["sources"].as_array().expect("a list").contains(&json!(policy)),
        "{record}"
    );
}

#[test]
fn neither_does_one_that_is_cut_inside_of_it() {
    // The 64 KiB that are kept begin inside the value.
    for left in [1, 5, VALUE.len() - 1] {
        let rest = 65536 - left;
        let body =
            format!("printf %s \"$TOKEN\" >&2; head -c {rest} /dev/zero | tr '\\0' x >&2; exit 1");
        let envelope = Entrusted::new(&body).run(&["call", "tool"]).expect_code(1).json();
        let stderr = envelope["stderr"].as_str().expect("text");
        let beginning = &stderr[..stderr.find('x').expect("an x")];
        assert!("[redacted: TOKEN]".ends_with(beginning), "{left}: {beginning}");
        assert_eq!(envelope["stderr_bytes"], 65536 - left + VALUE.len());
    }
}

#[test]
fn what_a_tool_answers_is_its_own_and_is_recorded_nowhere() {
    let tool = Entrusted::new("printf '\"%s\"' hunter2-and-more; printf %s \"$TOKEN\" >&2");
    assert_eq!(tool.run(&["call", "tool"]).expect_code(0).json()["result"], "hunter2-and-more");
    let ran = tool.run(&["run", "tool"]).expect_code(0);
    assert_eq!(ran.stderr(), VALUE, "its own stream, passed on as it is");
    let arguments = json!({ "say": VALUE }).to_string();
    tool.run(&["call", "tool", &arguments]).expect_code(0);
    let records = tool.host.records();
    records.iter().for_each(|record| assert_free(&record.to_string()));
    assert_eq!(records[2]["arguments"]["text"], r#"{"say":"[redacted: TOKEN]"}"#);
}

#[test]
fn a_call_that_policy_forbids_is_recorded() {
    let host = script("echo 1");
    let ran = host.run(["--profile", "strict", "tool", "call", "tool"]).expect_code(1);
    assert_eq!(ran.json()["error_code"], "PERMISSION_DENIED", "{ran}");
    let record = only(&host);
    assert_eq!(
        (&record["outcome"], &record["error"]),
        (&json!("PERMISSION_DENIED"), &ran.json()["error"])
    );
    assert!(record["digest"].is_string() && record.get("exit_code").is_none(), "{record}");
}
