//! A running llmock, on a port that the system chooses, with its scripted failures and its verdict.
//! It ends with the test, even if the test crashes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};

use ikigai_provider::Provider;
use ikigai_tests::paths;
use serde_json::{Value, json};

/// The variable that makes the absence of llmock a failure, if it is `1`.
const REQUIRE_VARIABLE: &str = "IKIGAI_REQUIRE_LLMOCK";

/// A program that serves until its standard input ends, which happens when the test ends.
const PROGRAM: &str = "\
import sys
from llmock.testing import LLMockServer
with LLMockServer() as server:
    print(server.port, flush=True)
    sys.stdin.read()
";

/// A server that is stopped and waited for when dropped.
pub(crate) struct Llmock {
    address: SocketAddr,
    alive: Option<ChildStdin>,
    child: Child,
}

impl Llmock {
    /// Starts a server if llmock is installed. Otherwise reports on stderr that nothing is tested.
    pub(crate) fn start() -> Option<Self> {
        let environment = paths::llmock();
        let python = environment.join("bin").join("python");
        if !environment.join(".installed").exists() {
            let missing = format!(
                "llmock is not in `{}`: `cargo xtask test` puts it there",
                environment.display()
            );
            let is_required = std::env::var_os(REQUIRE_VARIABLE).is_some_and(|value| value == "1");
            assert!(!is_required, "{missing}, and `{REQUIRE_VARIABLE}` asks for it");
            writeln!(std::io::stderr(), "NOT TESTED: {missing}").expect("stderr");
            return None;
        }
        let mut child = Command::new(python)
            .args(["-I", "-c", PROGRAM])
            // The machine's settings must not affect the server.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("llmock starts");
        let alive = child.stdin.take();
        let mut port = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut port).expect("its output");
        let port: u16 = port.trim().parse().unwrap_or_else(|_| panic!("no port: {port:?}"));
        Some(Self { address: SocketAddr::from(([127, 0, 0, 1], port)), alive, child })
    }

    /// Returns the id of the server's process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns the URL of a provider's interface.
    pub(crate) fn base_url(&self, provider: Provider) -> String {
        let path = match provider {
            Provider::OpenAi | Provider::OpenAiChat => "/v1",
            Provider::Anthropic => "/anthropic",
            Provider::Google => "/gemini",
        };
        format!("http://{}{path}", self.address)
    }

    /// Resets the server, and scripts its failures from now on.
    pub(crate) fn script(&self, behaviors: &Value) {
        self.exchange("POST", "/_llmock/reset", None);
        if behaviors.as_array().is_some_and(|behaviors| !behaviors.is_empty()) {
            let body = json!({ "behaviors": behaviors });
            let queued = self.exchange("POST", "/_llmock/scenario", Some(&body));
            assert!(queued["queued"].is_number(), "{queued}");
        }
    }

    /// Returns the verdict on the client since the last reset.
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict(self.exchange("GET", "/_llmock/verdict", None))
    }

    /// Returns every request since the last reset, with the server's reaction.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let requests = self.exchange("GET", "/_llmock/requests", None);
        requests["requests"].as_array().expect("an array").clone()
    }

    /// Sends a request in HTTP/1.0, whose responses end with the connection.
    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(self.address).expect("llmock listens");
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("answered");
        let (_, body) = response.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {response}"))
    }
}

impl Drop for Llmock {
    fn drop(&mut self) {
        drop(self.alive.take());
        let ended = self.child.wait().expect("waited for");
        assert!(ended.success() || std::thread::panicking(), "llmock: {ended}");
    }
}

/// The verdict of llmock on a client.
#[derive(Debug)]
pub(crate) struct Verdict(Value);

impl Verdict {
    /// Asserts that the verdict contains no findings, and this many calls and attempts.
    #[track_caller]
    pub(crate) fn expect_flawless(&self, calls: u64, attempts: u64) {
        assert_eq!(self.0["findings"], json!([]), "{:#}", self.0);
        self.expect_counts(calls, attempts);
    }

    #[track_caller]
    pub(crate) fn expect_counts(&self, calls: u64, attempts: u64) {
        let counts = (&self.0["calls"], &self.0["attempts"]);
        assert_eq!(counts, (&json!(calls), &json!(attempts)), "{:#}", self.0);
    }

    /// Asserts that the only finding has this code.
    #[track_caller]
    pub(crate) fn expect_only(&self, code: &str) {
        let findings = self.0["findings"].as_array().expect("an array");
        let codes: Vec<&Value> = findings.iter().map(|finding| &finding["code"]).collect();
        assert_eq!(codes, [code], "{:#}", self.0);
    }
}

#[test]
fn it_leaves_no_process_behind() {
    let Some(llmock) = Llmock::start() else { return };
    let process = std::path::PathBuf::from(format!("/proc/{}", llmock.process()));
    assert!(process.exists());
    drop(llmock);
    assert!(!process.exists(), "waited for and gone");
}
