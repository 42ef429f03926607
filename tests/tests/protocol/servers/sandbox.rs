//! Attacks by a server on things that it was not granted, and attempts to outlive its host.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use ikigai_tests::host::{Host, Running};
use ikigai_tests::leftovers;
use ikigai_tests::mcp::Client;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::servers::{add, add_with, call, define, doing, names, noted, program, recorded, text};

/// Calls a tool that attempts something, and returns whether it succeeded, and its text.
fn attempt(host: &Host, tool: &str, arguments: &Value) -> (bool, String) {
    let envelope = call(host, tool, arguments);
    (envelope["result"]["isError"] != true, text(&envelope).to_owned())
}

#[test]
fn a_server_reaches_nothing_but_what_it_was_granted() {
    let host = Host::without_system_tools().env("SECRET_TOKEN", "s3cret");
    add(&host, &doing(&["read", "write", "connect", "env"])).expect_code(0);
    let path = |path: &Path| json!({ "path": path });
    // The attack works on a granted file, so a refusal elsewhere is meaningful.
    let own = host.write("peer/own", "mine", 0o644);
    assert_eq!(attempt(&host, "read", &path(&own)), (true, "mine".to_owned()));
    for place in ["home/.ssh/id_ed25519", "workspace/.env", "state/ikigai/audit.jsonl"] {
        let file = host.scratch().join(place);
        if !file.exists() {
            host.write(place, "a secret", 0o644);
        }
        let (read, said) = attempt(&host, "read", &path(&file));
        assert!(!read, "{place}: {said}");
        let (written, said) = attempt(&host, "write", &path(&file));
        let now = fs::read_to_string(&file).expect("still there");
        assert!(!now.contains("written by the peer"), "{place}: {written} {said}");
    }
    let planted = host.user_tools().join("planted");
    assert!(!attempt(&host, "write", &path(&planted)).0 && !planted.exists());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (connected, said) = attempt(&host, "connect", &json!({ "address": address }));
    assert!(!connected, "{said}");
    add_with(&host, &doing(&["read", "write", "connect", "env"]), &["--net", "*"]).expect_code(0);
    let allowed = attempt(&host, "connect", &json!({ "address": address }));
    assert_eq!(allowed, (true, "connected".to_owned()));
    let env = attempt(&host, "env", &json!({})).1;
    assert!(env.contains("HOME=") && !env.contains("s3cret"), "{env}");
}

#[test]
fn a_variable_that_was_granted_is_there_and_not_in_what_the_host_says() {
    let host = Host::without_system_tools().env("SECRET_TOKEN", "s3cret");
    let file = crate::servers::define(&host, &doing(&["env", "exit"])).display().to_string();
    let dir = host.scratch().join("peer").display().to_string();
    let args = ["mcp", "add", "peer", "--read", &dir, "--env", "SECRET_TOKEN", "--yes", "--"];
    host.run(args.into_iter().chain([crate::servers::program().as_str(), &file])).expect_code(0);
    assert!(attempt(&host, "env", &json!({})).1.contains("SECRET_TOKEN=s3cret"));
    let log = std::fs::read_to_string(host.audit_log()).expect("the audit log");
    assert!(log.contains("SECRET_TOKEN") && !log.contains("s3cret"), "{log}");
}

#[test]
fn nothing_that_a_server_started_is_left() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["fork", "slow"])).expect_code(0);
    let (forked, said) = attempt(&host, "fork", &json!({}));
    assert!(forked, "{said}");
    leftovers::assert_none(host.scratch());
    // Nothing is left even if the host is killed in the middle of a call.
    let journal = host.scratch().join("peer/journal");
    let mut definition = doing(&["fork", "slow"]);
    definition["journal"] = journal.display().to_string().into();
    crate::servers::define(&host, &definition);
    let mut command = host.command();
    command.args(["tool", "call", "peer__slow", "{}"]);
    let mut running = Running::start(&mut command);
    let is_called = || std::fs::read_to_string(&journal).is_ok_and(|it| it.contains("tools/call"));
    running.wait_until("the call", is_called);
    running.signal(Signal::KILL);
    running.wait();
    leftovers::assert_none(host.scratch());
}

/// Returns whether a process of the peer exists.
fn is_there(host: &Host) -> bool {
    leftovers::list(host.scratch()).iter().any(|process| process.contains("mcp-peer"))
}

#[test]
fn a_server_that_is_granted_something_else_is_another_process() {
    let host = Host::without_system_tools();
    let note = host.write("notes/roof", "tiles", 0o644);
    let notes = note.parent().expect("a directory").display().to_string();
    let definition = recorded(&host, doing(&["read"]));
    add_with(&host, &definition, &["--read", &notes]).expect_code(0);
    let mut client = Client::start(host.command().args(["mcp", "serve"]));
    let read = |client: &mut Client| {
        let result = client.call("peer__read", &json!({ "path": note }));
        (result["isError"] == false, result["content"][0]["text"].clone())
    };
    assert_eq!(read(&mut client), (true, json!("tiles")));
    assert!(is_there(&host));
    add(&host, &definition).expect_code(0);
    // The process with the earlier grant ends without a further call. Its tools stay.
    client.running().wait_until("its end", || !is_there(&host));
    assert_eq!(names(&mut client), ["peer__read"]);
    let starts = noted(&host, "start");
    let (done, said) = read(&mut client);
    assert!(!done, "{said}");
    assert_eq!(noted(&host, "start"), starts + 1);
    client.wait().0.expect_code(0);
    host.assert_nothing_left();
}

#[test]
fn a_call_has_the_grant_of_the_time_when_it_is_made() {
    let host = Host::without_system_tools();
    let note = host.write("notes/roof", "tiles", 0o644);
    let notes = note.parent().expect("a directory").display().to_string();
    let definition = doing(&["read"]);
    add_with(&host, &definition, &["--read", &notes]).expect_code(0);
    let mut client = Client::start(host.command().args(["mcp", "serve"]));
    let mut read = || client.call("peer__read", &json!({ "path": note }))["isError"].clone();
    assert_eq!(read(), false);
    // The test does not wait until the server has noticed.
    add(&host, &definition).expect_code(0);
    assert_eq!(read(), true);
    add_with(&host, &definition, &["--read", &notes]).expect_code(0);
    assert_eq!(read(), false);
    client.wait().0.expect_code(0);
}

#[test]
fn a_grant_to_a_tool_of_a_server_is_refused_with_the_command_that_works() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["read"])).expect_code(0);
    let note = host.write("notes/roof", "tiles", 0o644);
    let notes = note.parent().expect("a directory").display().to_string();
    let peer = host.scratch().join("peer").display().to_string();
    let policy = host.home().join(".config/ikigai/policy.toml");
    let before = fs::read_to_string(&policy).expect("a policy");
    let mut command = String::new();
    for (name, told) in [
        ("peer", "`peer` is an MCP server, not a tool"),
        ("peer__none", "`peer__none` is a tool of the server `peer`"),
        ("peer__read", "`peer__read` is a tool of the server `peer`"),
    ] {
        let flags = ["--read", &notes, "--write", &peer, "--yes"];
        let ran = host.run(["policy", "grant", name].iter().chain(&flags)).expect_code(2);
        let stderr = ran.stderr();
        assert!(stderr.contains(told) && !stderr.contains("granted;"), "{told}\n{ran}");
        assert_eq!(fs::read_to_string(&policy).expect("a policy"), before, "{ran}");
        let named = stderr.lines().find_map(|line| line.strip_prefix("hint: `ikigai "));
        command = named.and_then(|it| it.split('`').next()).expect("a command").to_owned();
    }
    assert!(!attempt(&host, "read", &json!({ "path": note })).0, "nothing was granted");
    let mut words: Vec<&str> = command.split(' ').collect();
    words.insert(3, "--yes");
    host.run(&words).expect_code(0);
    let read = attempt(&host, "read", &json!({ "path": note }));
    assert_eq!(read, (true, "tiles".to_owned()), "{command}");
    // The other commands name the tools of the server.
    for (command, code) in [("show", 1), ("test", 2)] {
        let ran = host.run(["policy", command, "peer"]).expect_code(code);
        assert!(ran.stderr().contains("`peer` is a server; its tool is peer__read\n"), "{ran}");
    }
    // The usual error is printed for a name that is neither a tool nor a server.
    let ran = host.run(["policy", "grant", "peers"]).expect_code(1);
    assert!(ran.stderr().contains("tool `peers` not found"), "{ran}");
}

#[test]
fn a_server_that_does_not_see_its_file_is_told_with_the_flag_that_shows_it() {
    let host = Host::without_system_tools();
    let file = define(&host, &doing(&["echo"])).display().to_string();
    let dir = host.scratch().join("peer").display().to_string();
    let ran = host.run(["mcp", "add", "peer", "--yes", "--", &program(), &file]).expect_code(1);
    let hint = format!("it does not see a file that its command names; `--read {dir}` shows it");
    assert!(ran.stderr().contains(&hint), "{ran}");
    let before = ["mcp", "add", "peer", "--yes", "--read", &dir, "--"];
    host.run(before.iter().chain(&[&*program(), &*file])).expect_code(0);
}

#[test]
fn a_server_that_was_removed_ends_though_nobody_calls_it() {
    let host = Host::without_system_tools();
    add(&host, &doing(&["echo"])).expect_code(0);
    let mut client = Client::start(host.command().args(["mcp", "serve"]));
    assert_eq!(client.call("peer__echo", &json!({}))["isError"], false);
    assert!(is_there(&host));
    host.run(["mcp", "remove", "peer", "--yes"]).expect_code(0);
    client.running().wait_until("its end", || !is_there(&host));
    assert_eq!(names(&mut client), [] as [&str; 0]);
    client.wait().0.expect_code(0);
}

/// A server without granted hosts has a proxy that refuses each host, so that its user learns which
/// hosts it needs.
#[test]
fn the_hosts_that_a_server_was_refused_are_recorded_and_suggested() {
    let host = Host::without_system_tools();
    let definition = doing(&["tunnel", "echo"]);
    add_with(&host, &definition, &["--env", "LANG", "--limit", "wall_clock=90s"]).expect_code(0);
    assert!(attempt(&host, "echo", &json!({})).0);
    // Nothing was refused so far, which is not all that a server may have tried.
    let ran = host.run(["policy", "suggest", "peer"]).expect_code(0);
    let said = ran.stderr();
    assert!(said.contains("only if `peer` asks the proxy for it"), "{ran}");
    let command = said.lines().find_map(|line| line.strip_prefix("to grant a host: "));
    let command = command.unwrap_or_else(|| panic!("{ran}"));
    assert!(command.starts_with("ikigai mcp add peer --"), "{command}");
    assert!(
        command.contains("--env LANG") && command.contains(" --net HOST:PORT -- "),
        "{command}"
    );
    let shown = host.run(["mcp", "show", "peer"]).expect_code(0);
    assert!(shown.stdout().contains("network: no host, through a proxy"), "{shown}");
    let ask = |address: &str| attempt(&host, "tunnel", &json!({ "address": address })).1;
    let refused = "HTTP/1.1 403 Forbidden";
    assert_eq!([ask("api.example.com:443"), ask("1.1.1.1:80")], [refused, refused]);
    let records = host.run(["audit", "--json"]).expect_code(0).stdout();
    let denied: Vec<Value> = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["denied"].clone())
        .collect();
    assert!(denied.contains(&json!(["net api.example.com:443"])), "{denied:?}");
    assert_eq!(denied.iter().filter(|it| !it.is_null()).count(), 2, "each in its own call");

    let file = host.scratch().join("peer/peer.json").display().to_string();
    let dir = host.scratch().join("peer").display().to_string();
    let program = crate::servers::program();
    let kept =
        [format!("--write {dir}"), "--env LANG".into(), "--limit 'wall_clock=1m 30s'".into()];
    let new = ["--net 1.1.1.1:80".to_owned(), "--net api.example.com:443".to_owned()];
    for name in [None, Some("peer"), Some("peer__echo")] {
        let args = ["policy", "suggest", "--json"].into_iter().chain(name);
        let page = host.run(args).expect_code(0).json();
        let server = &page["servers"][0];
        assert_eq!((&server["server"], &server["calls"]), (&json!("peer"), &json!(3)), "{page:#}");
        assert_eq!(server["refused"][0]["what"], "connect `1.1.1.1:80`", "{page:#}");
        let command = server["command"].as_str().expect("a command");
        assert!(command.starts_with("ikigai mcp add peer --"), "{command}");
        assert!(command.ends_with(&format!(" -- {program} {file}")), "{command}");
        for flag in kept.iter().chain(&new) {
            assert!(command.contains(flag), "{flag}: {command}");
        }
    }
    let ran = host.run(["policy", "suggest"]).expect_code(0);
    assert!(ran.stdout().starts_with("server peer (3 calls)\n  REFUSED"), "{ran}");
    // Hosts that are granted now are not suggested again.
    add_with(&host, &definition, &["--net", "1.1.1.1:80", "--net", "api.example.com:443"])
        .expect_code(0);
    let page = host.run(["policy", "suggest", "peer", "--json"]).expect_code(0).json();
    assert_eq!(page["servers"][0]["command"], Value::Null, "{page:#}");
    host.assert_nothing_left();
}
