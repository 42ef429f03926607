//! Hosts over a store of each kind.

use ikigai_assets_testing::Server;
use ikigai_tests::host::{Host, Ran};
use serde_json::{Value, json};

/// Who asks, in every case here.
pub(crate) const AGENT: &str = "tester@here";

/// A host whose assets are in its own home.
pub(crate) fn host() -> Host {
    Host::new().env("IKIGAI_AGENT", AGENT)
}

/// Each case with a store that is a file and with one of a server, where there is one.
pub(crate) fn with_each_store(case: impl Fn(&Host)) {
    case(&host());
    // What is missing has been said; CI has it.
    let Some(server) = Server::start().expect("a server starts") else { return };
    let url = server.create_database("assets").expect("a database");
    case(&host().env("IKIGAI_STORE", url));
}

/// What a tool answers.
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

/// Writes an asset as a person does.
#[track_caller]
pub(crate) fn put(host: &Host, path: &str, content: &[u8]) -> Ran {
    host.run_with(["asset", "put", path], content).expect_code(0)
}

/// What an asset says, for a person.
#[track_caller]
pub(crate) fn get(host: &Host, path: &str) -> String {
    host.run(["asset", "get", path]).expect_code(0).stdout()
}

/// A text of so many tokens.
pub(crate) fn text(tokens: usize) -> String {
    "a b\n".repeat(tokens)
}
