//! Runs the protocol's conformance suite against the library's server and client.
//!
//! A failure must be in the baseline of its revision, with a reason. Everything in the baseline
//! must fail.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ikigai_tests::mcp::suite::{REVISIONS, Suite};

/// A server with the fixtures of the suite. Dropping it closes its stdin, which ends it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-conformance-server"));
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
        let mut url = String::new();
        let output = child.stdout.take().expect("stdout is a pipe");
        BufReader::new(output).read_line(&mut url).expect("a line");
        Self { child, url: url.trim_end().to_owned() }
    }

    /// Ends the server as its parent's end would.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failure, the test does not wait for the server's output.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn baseline(revision: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline").join(format!("{revision}.yaml"))
}

fn judge_server(revision: &str) {
    let Some(suite) = Suite::find() else { return };
    let server = Server::start();
    suite.judge_server(&server.url, revision, &baseline(revision));
    server.end();
}

fn judge_client(revision: &str) {
    let Some(suite) = Suite::find() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_mcp-conformance-client"));
    suite.judge_client(program, revision, &baseline(revision));
}

#[test]
fn the_server_conforms_to_the_newest_revision() {
    judge_server(REVISIONS[1]);
}

#[test]
fn the_server_conforms_to_the_last_revision_with_a_handshake() {
    judge_server(REVISIONS[0]);
}

#[test]
fn the_client_conforms_to_the_newest_revision() {
    judge_client(REVISIONS[1]);
}

#[test]
fn the_client_conforms_to_the_last_revision_with_a_handshake() {
    judge_client(REVISIONS[0]);
}
