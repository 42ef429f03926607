//! The protocol's conformance suite checks the shipped program, with the scenarios that need no
//! special tools. `mcp/conformance` checks the library with the others.

use std::path::PathBuf;

use ikigai_tests::host::Host;
use ikigai_tests::mcp::http::Server;
use ikigai_tests::mcp::suite::Suite;
use ikigai_tests::paths;
use rustix::process::Signal;

/// The scenarios by their revisions.
const SCENARIOS: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "server-initialize",
            "server-session-lifecycle",
            "ping",
            "tools-list",
            "resources-list",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
        ],
    ),
    (
        "2026-07-28",
        &[
            "server-stateless",
            "tools-list",
            "resources-list",
            "sep-2164-resource-not-found",
            "caching",
            "http-header-validation",
            "input-required-result-unsupported-methods",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
        ],
    ),
];

fn baseline() -> PathBuf {
    paths::repository().join("mcp/conformance/baseline/shipped.yaml")
}

#[test]
fn the_shipped_server_conforms_where_no_fixtures_are_needed() {
    let Some(suite) = Suite::find() else { return };
    let host = Host::new();
    host.run_with(["asset", "put", "note.md"], b"a text").expect_code(0);
    let grant = "[tools.mcp_assets]\nassets = \"read\"\n";
    host.write_policy(grant);
    let mut command = host.command();
    let server =
        Server::start(command.args(["mcp", "serve", "--http", "127.0.0.1:0", "--no-auth"]));
    let url = server.url();
    for (revision, scenarios) in SCENARIOS {
        for scenario in scenarios {
            suite.judge_server_by(&url, revision, scenario, &baseline());
        }
    }
    server.end(Signal::TERM).expect_code(130);
    host.assert_nothing_left();
}
