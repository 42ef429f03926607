//! Hosts over a store of each kind.

use ikigai_assets_testing::Server;
use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

/// The agent of every case.
pub(crate) const AGENT: &str = "tester@here";

/// Returns a host whose assets are in its own home directory.
pub(crate) fn host() -> Host {
    Host::new().env("IKIGAI_AGENT", AGENT)
}

/// Runs the case with a store in a file and, if this machine has a database server, with a store in
/// a database.
pub(crate) fn with_each_store(case: impl Fn(&Host)) {
    case(&host());
    // If the machine has no server, `Server::start` has reported that. CI has a server.
    let Some(server) = Server::start().expect("a server starts") else { return };
    let url = server.create_database("assets").expect("a database");
    case(&host().env("IKIGAI_STORE", url));
}

/// Calls a tool, and returns its answer.
#[track_caller]
pub(crate) fn call(host: &Host, flags: &[&str], tool: &str, arguments: &Value) -> Value {
    let args = [flags, &["tool", "call", tool, "-"]].concat();
    let ran = host.run_with(args, arguments.to_string().as_bytes()).expect_code(0);
    ran.json()["result"].clone()
}

#[track_caller]
pub(crate) fn read(host: &Host, uri: &str) -> Value {
    call(host, &[], "file_read", &json!({ "file_path": uri }))
}

/// Writes an asset with `ikigai asset put`.
#[track_caller]
pub(crate) fn put(host: &Host, path: &str, content: &[u8]) -> Ran {
    host.run_with(["asset", "put", path], content).expect_code(0)
}

/// Returns the text of an asset, as `ikigai asset get` prints it.
#[track_caller]
pub(crate) fn get(host: &Host, path: &str) -> String {
    host.run(["asset", "get", path]).expect_code(0).stdout()
}

/// Returns a text of this many tokens.
pub(crate) fn text(tokens: usize) -> String {
    "a b\n".repeat(tokens)
}
